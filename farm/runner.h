/*
 * runner.h - the process that runs the tasks of one place of a worker (docs/dmifarm.md, "The
 * runner").
 *
 * It is a process of its own, and small: starting a task would be slow in a process with a large
 * memory pool; it adopts what its task leaves behind, and ends it; and it outlives its worker for
 * as long as it takes to end the task and remove the directory, however the worker ended.
 *
 * BASE is the directory of the worker, with the programs of the job in BASE/bin.  BASE/N is that of
 * place N, and of its runner: `program`, `cwd/` (the directory of the task) with its `data`, and
 * what it printed, if that is longer than FARM_INLINE: `out`, `err`.
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
    FARM_ASK_START, /* nothing runs, and the files are there */
    FARM_ASK_STOP   /* asks the task to end (SIGTERM), and ends it (SIGKILL) after the grace */
  } type;
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
  FARM_STOPPED,    /* by FARM_ASK_STOP */
  FARM_NOT_RUN,    /* `status` is an errno: it could not be started */
  FARM_NOT_STORED, /* `status` is an errno: what it printed could not be written */
  FARM_NO_RUNNER   /* said by the worker: the runner was killed, and what it ran with it */
};

/* From the runner to the worker: a task has ended, and all that it started. */
struct farm_told {
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
};

/* Starts the runner of BASE/PLACE; the first one of a worker, with NULL for `base`, makes BASE.
 * `program` is this executable file, which calls farm_runner_main when its first argument is
 * FARM_RUNNER_ARG.  False: `errno`. */
#define FARM_RUNNER_ARG "--runner"
bool farm_runner_start(struct farm_runner *runner, const char *program, const char *base,
                       int32_t place);
/* Waits until it has begun: BASE, in new memory.  NULL: it could not; `errno`. */
char *farm_runner_ready(const struct farm_runner *runner);
/* Ends its task, removes its directory, and waits for its end.  The last one of a worker removes
 * BASE, too. */
void farm_runner_end(struct farm_runner *runner);
/* It was killed, and farm_runner_end is to follow: ends what it has run, as far as that can be
 * known by its environment.  Waits for these processes, however long they take to end. */
void farm_runner_lost(const struct farm_runner *runner);
/* argv: program, FARM_RUNNER_ARG, BASE or nothing, the number of the place. */
int farm_runner_main(int argc, char **argv);

/* Removes a directory with all that is in it; not what is in another file system that somebody has
 * mounted there: that is not the task's. */
void farm_remove(const char *path);

#endif
