/*
 * stopped_dmi.c - what a program does while one of its processes is stopped, or its machine silent.
 *
 *   dmirun stopped_dmi ask       commands at stdin:
 *       main ID                  maps a page that process ID owns from then on
 *       read                     reads it, here
 *       read ID                  reads it, in process ID
 *   dmirun stopped_dmi meet      with a second process: a barrier that the second one never reaches
 *   dmirun stopped_dmi stream    with a second process: pages of 8 MiB go to and fro
 */
#include <pthread.h>

#include "multi.h"

#define LARGE ((int64_t)8 << 20)

struct job {
  int64_t what; /* 'w': write page, 'r': read page, 's': sleep at a page that nobody changes */
  int64_t addr, size;
};

static int64_t jobs, page;

static void touch(int64_t addr, int64_t size, bool write) {
  unsigned char *buf = my_malloc((size_t)size);
  memset(buf, 7, (size_t)size);
  if (write) {
    MUST(DMI_write(addr, size, buf, DMI_EXCLUSIVE_WRITE, NULL));
  } else {
    MUST(DMI_read(addr, size, buf, DMI_GET_READ, NULL));
    EQ(buf[size - 1], 7);
  }
  my_free(buf);
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  if (job.what == 'w' || job.what == 'r') {
    touch(job.addr, job.size, job.what == 'w');
    say("%s", job.what == 'w' ? "written" : "read");
  } else if (job.what == 's') { /* waits for the number to change */
    int64_t zero = 0, value;
    MUST(DMI_watch(job.addr, sizeof(zero), &zero, &value, NULL));
  } else {
    for (;;)
      touch(job.addr, job.size, true);
  }
  return 0;
}

static void run(int64_t what, int32_t id, int64_t addr, int64_t size, DMI_thread_t *thread) {
  struct job job = {what, addr, size};
  MUST(DMI_write(jobs, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(thread, id, jobs, NULL));
}

static void run_and_join(int64_t what, int32_t id) {
  DMI_thread_t thread;
  run(what, id, page, 8, &thread);
  MUST(DMI_join(thread, NULL, NULL));
}

static void ask(void) {
  char line[64];
  pthread_t admitter;
  int id;
  MUST(DMI_mmap(&page, 8, 1, NULL));
  if (pthread_create(&admitter, NULL, admit, NULL) != 0) _exit(9);
  say("ready");
  while (fgets(line, sizeof(line), stdin)) {
    if (sscanf(line, "main %d", &id) == 1) {
      run_and_join('w', id);
      say("owned by %d", id);
    } else if (sscanf(line, "read %d", &id) == 1) {
      run_and_join('r', id);
      say("read by %d", id);
    } else {
      touch(page, 8, false);
      say("read");
    }
  }
  pthread_detach(admitter); /* its DMI_poll ends with the program */
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "ask";
  DMI_thread_t thread;
  int32_t ids[2];
  MUST(DMI_mmap(&jobs, sizeof(struct job), 1, NULL));
  if (strcmp(what, "ask") == 0) {
    ask();
    return;
  }
  gather(2, ids);
  if (strcmp(what, "meet") == 0) {
    MUST(DMI_mmap(&page, 8, 1, NULL));
    run('s', ids[1], page, 8, &thread);
    say("waiting");
    MUST(DMI_join(thread, NULL, NULL));
  } else {
    MUST(DMI_mmap(&page, LARGE, 1, NULL));
    run('p', ids[1], page, LARGE, &thread);
    for (int64_t i = 0;; i++) {
      touch(page, LARGE, true);
      if (i == 3) say("streaming");
    }
  }
}
