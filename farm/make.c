/*
 * make.c - dmifarm make: writes the tasks of a job, each a part of a range of numbers.
 *
 *   dmifarm make JOB --split 'queen 15 {begin}:{end}' 7432 100
 *
 * writes JOB/tasks/task.0 to task.99, the first of which is the line `queen 15 0:75`.
 */
#include "make.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc.h"

static int fail(char *why) {
  fprintf(stderr, "dmifarm: %s\n", why);
  free(why);
  return 2;
}

static char *make_dir(const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return NULL;
  return farm_format("%s: %s", path, strerror(errno));
}

static void print_command(FILE *file, const char *command, int64_t begin, int64_t end) {
  while (*command) {
    if (strncmp(command, "{begin}", 7) == 0) {
      fprintf(file, "%" PRId64, begin);
      command += 7;
    } else if (strncmp(command, "{end}", 5) == 0) {
      fprintf(file, "%" PRId64, end);
      command += 5;
    } else {
      fputc(*command++, file);
    }
  }
  fputc('\n', file);
}

static char *make_task(const char *job, int64_t number, const char *command, int64_t begin,
                       int64_t end) {
  char *path = farm_format("%s/tasks/task.%" PRId64, job, number), *why = NULL;
  FILE *file = fopen(path, "wx");
  if (!file) {
    why = farm_format("%s: %s%s", path, strerror(errno),
                      errno == EEXIST ? "; remove the tasks that are there first" : "");
  } else {
    print_command(file, command, begin, end);
    if (fclose(file) != 0) why = farm_format("%s: %s", path, strerror(errno));
  }
  free(path);
  return why;
}

/* Parts of sizes that differ by one at most. */
static char *split(const char *job, const char *command, int64_t num, int64_t tasks) {
  char *dir = farm_format("%s/tasks", job), *why = make_dir(job);
  if (!why) why = make_dir(dir);
  for (int64_t i = 0; i < tasks && !why; i++) {
    const int64_t size = num / tasks, rest = num % tasks;
    const int64_t begin = i * size + (i < rest ? i : rest);
    why = make_task(job, i, command, begin, begin + size + (i < rest));
  }
  free(dir);
  return why;
}

static bool number(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return !errno && end != text && !*end && *value > 0;
}

int farm_make(int argc, char **argv) {
  int64_t num, tasks;
  char *why;
  if (argc != 6 || strcmp(argv[2], "--split") != 0)
    return fail(farm_strdup("usage: dmifarm make JOB --split COMMAND N TASKS"));
  if (!number(argv[4], &num) || !number(argv[5], &tasks))
    return fail(farm_strdup("make: N and TASKS are whole numbers from 1 on"));
  if (tasks > num)
    return fail(
        farm_format("make: %" PRId64 " tasks cannot share %" PRId64 " numbers", tasks, num));
  if (!strstr(argv[3], "{begin}") || !strstr(argv[3], "{end}"))
    return fail(farm_strdup("make: the command must contain {begin} and {end}"));
  why = split(argv[1], argv[3], num, tasks);
  return why ? fail(why) : EXIT_SUCCESS;
}
