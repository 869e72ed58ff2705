/*
 * make.c - dmifarm make: writes the tasks of a job, each a part of a range of numbers.
 *
 *   dmifarm make JOB --split 'queen 15 {begin}:{end}' 7432 100
 *
 * writes JOB/tasks/task.0 to task.99, the first of which is the line `queen 15 0:75`.
 */
#include "make.h"

#include <dmi_ext.h>
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

static char *make_task(const char *job, int32_t number, const char *command, int64_t begin,
                       int64_t end) {
  char *path = farm_format("%s/tasks/task.%" PRId32, job, number), *why = NULL;
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

static char *split(const char *job, const char *command, int64_t num, int32_t tasks) {
  char *dir = farm_format("%s/tasks", job), *why = make_dir(job);
  if (!why) why = make_dir(dir);
  for (int32_t i = 0; i < tasks && !why; i++) {
    int64_t begin = 0, end = 0;
    (void)DMI_block(num, i, tasks, &begin, &end);
    why = make_task(job, i, command, begin, end);
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
  if (tasks > INT32_MAX)
    return fail(farm_format("make: at most %" PRId32 " tasks can be made", INT32_MAX));
  if (!strstr(argv[3], "{begin}") || !strstr(argv[3], "{end}"))
    return fail(farm_strdup("make: the command must contain {begin} and {end}"));
  why = split(argv[1], argv[3], num, (int32_t)tasks);
  return why ? fail(why) : EXIT_SUCCESS;
}
