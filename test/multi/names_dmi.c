/*
 * names_dmi.c - the names of the threads of each process, as the system has them.
 *
 *   dmirun names_dmi     two processes, three threads in each
 */
#include <dirent.h>

#include "multi.h"

#define THREADS 3

static int by_name(const void *left, const void *right) {
  return strcmp(left, right);
}

/* All of this process, in order, and the main thread's. */
static void print_names(int64_t id) {
  char names[32][32], line[1200] = "";
  int num = 0;
  DIR *tasks = opendir("/proc/self/task");
  const struct dirent *task;
  FILE *tasks_main;
  while (tasks && (task = readdir(tasks)) && num < 32) {
    char path[300];
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!file) continue;
    if (fgets(names[num], sizeof names[num], file)) {
      names[num][strcspn(names[num], "\n")] = 0;
      num++;
    }
    fclose(file);
  }
  if (tasks) closedir(tasks);
  qsort(names, (size_t)num, sizeof names[0], by_name);
  for (int i = 0; i < num; i++) {
    strcat(line, ", ");
    strcat(line, names[i]);
  }
  say("process %" PRId64 "%s", id, line);
  tasks_main = fopen("/proc/self/comm", "r");
  if (tasks_main && fgets(names[0], sizeof names[0], tasks_main)) printf("main %s", names[0]);
  if (tasks_main) fclose(tasks_main);
}

/* All threads are there when one of each process looks. */
int64_t DMI_thread(int64_t addr) {
  int32_t id;
  int64_t first = 0;
  MUST(DMI_rank(&id));
  MUST(DMI_fad(addr + 8 + 8 * id, 1, &first, DMI_PUT_ATOMIC, NULL));
  barrier(addr, 2 * THREADS, 1);
  if (first == 0) print_names(id);
  barrier(addr, 2 * THREADS, 2);
  return 0;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[2 * THREADS];
  int32_t ids[2];
  int64_t addr;
  (void)argc, (void)argv;
  gather(2, ids);
  MUST(DMI_mmap(&addr, 32, 1, NULL));
  for (int i = 0; i < 2 * THREADS; i++)
    MUST(DMI_create(&thread[i], ids[i % 2], addr, NULL));
  for (int i = 0; i < 2 * THREADS; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
  verdict("names", 0);
}
