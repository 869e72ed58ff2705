/*
 * runner.h - the process beside a worker that runs its tasks (docs/dmifarm.md, "The runner").
 *
 * It is a process of its own, and small: a task is started by fork, which would be slow in a
 * process with a large memory pool; it adopts what tasks leave behind, and ends it; and it outlives
 * its worker for as long as it takes to end all tasks and remove the worker's directory, however
 * the worker ended.
 *
 * A run has a place, a number given by the worker.  Files of place N are in DIR/N: `program`,
 * `cwd/` (the directory of the task) with its `data`, and what it printed, if that is longer than
 * FARM_INLINE: `out`, `err`.
 */
#ifndef FARM_RUNNER_H
#define FARM_RUNNER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a task has printed is sent along up to so many bytes. */
#define FARM_INLINE 3000
#define FARM_NAME (NAME_MAX + 1)

/* From the worker to the runner. */
struct farm_ask {
  enum farm_ask_type {
    FARM_ASK_START, /* the place is free, and its files are there */
    FARM_ASK_STOP   /* asks the task to end (SIGTERM), and ends it (SIGKILL) after the grace */
  } type;
  uint32_t place;
  uint32_t version;
  uint64_t timeout_ms; /* 0: none */
  bool has_data;
  char name[FARM_NAME]; /* of the task */
};

/* How a task ended. */
enum farm_how {
  FARM_EXITED,    /* `status` */
  FARM_SIGNALLED, /* `status` is the number of the signal */
  FARM_TIMED_OUT,
  FARM_STOPPED,   /* by FARM_ASK_STOP */
  FARM_NOT_RUN,   /* `status` is an errno: it could not be started */
  FARM_NOT_STORED /* `status` is an errno: what it printed could not be written */
};

/* From the runner to the worker: a task has ended, and all that it started. */
struct farm_told {
  uint32_t place;
  enum farm_how how;
  int32_t status;
  uint64_t ms;                 /* it ran for so long */
  uint64_t out_size, err_size; /* more than FARM_INLINE: in the files */
  char out[FARM_INLINE], err[FARM_INLINE];
};

/* How long a task that was asked to end may go on. */
#define FARM_GRACE_MS 5000

struct farm_runner {
  pid_t pid;
  int socket; /* SOCK_SEQPACKET: struct farm_ask there, struct farm_told back */
  char *dir;
};

/* Starts the runner of this process: `program` is this executable file, which calls
 * farm_runner_main when its first argument is FARM_RUNNER_ARG.  False: `errno`. */
#define FARM_RUNNER_ARG "--runner"
bool farm_runner_start(struct farm_runner *runner, const char *program);
/* Ends all tasks, removes the directory, and waits for the end of the runner. */
void farm_runner_end(struct farm_runner *runner);
/* argv: program, FARM_RUNNER_ARG, the descriptor of the socket, the directory. */
int farm_runner_main(int argc, char **argv);

/* Removes a directory with all that is in it. */
void farm_remove(const char *path);

#endif
