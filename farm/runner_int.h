/*
 * runner_int.h - what the files of the runner share; no other file includes it.
 */
#ifndef FARM_RUNNER_INT_H
#define FARM_RUNNER_INT_H

#include "runner.h"

/* In the environment of tasks: the process number of their runner. */
#define FARM_RUN_TAG "DMIFARM_RUN"

/* Its descriptor in the runner. */
#define FARM_RUNNER_SOCKET 3

/* The first thing that it tells. */
struct farm_hello {
  int error; /* an errno: it cannot begin */
  char base[PATH_MAX];
};

/* By the runner, which ends with its worker; not by tasks. */
extern const int farm_ignored_signals[];
extern const int farm_ignored_num;

/* stdout or stderr of a task: read from a pipe, and written to a file if it is long. */
struct farm_output {
  const char *path; /* of the file */
  int pipe;         /* -1: closed */
  int file;         /* -1: none yet */
  uint64_t size;
  int error; /* errno of a write that failed */
  char bytes[FARM_INLINE];
};

/* ---- runner_output.c: what tasks print ---- */
/* Opens the pipe; its other end, for the task, or -1: `errno`. */
int farm_output_open(struct farm_output *output, const char *path);
/* Takes what there is to read, but not for ever. */
void farm_output_drain(struct farm_output *output);
void farm_output_close(struct farm_output *output);

/* ---- runner_task.c: the process of a task ---- */
/* Starts it: `program`, in the directory `cwd` of the current one.  Its number, which is that of
 * its process group, too; or -1: `errno`. */
pid_t farm_task_start(const struct farm_ask *ask, const char *program, const int *outputs);

#endif
