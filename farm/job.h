/*
 * job.h - the directory of a job (docs/dmifarm.md, "Files").
 *
 *   tasks/NAME     a program, or lines for sh
 *   data/NAME      its input, if it has one
 *   bin/           programs that tasks call; each worker gets a copy
 *   finish         is run at the end, in the directory of the job
 *   NAME.v/        version v of a task: hostname; then result, stderr, done; dup: it came second
 *   failed/NAME.v/ a version that failed: stdout, stderr, status
 *   results.tsv, timeline.svg, done    at the end
 *   .dmifarm/      lock; begun: a line for each version that has begun; log: one for each that
 * ended
 *
 * Names of versions may be taken by files of the user's: these are left alone (job_begun.c).
 *
 * Whatever happens to this process or machine, a version that has `done` has its whole result: a
 * result is written under another name, brought to the disk, and then renamed.
 */
#ifndef FARM_JOB_H
#define FARM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "runner.h"

struct farm_job_task {
  char *name;
  uint32_t next_version; /* no directory has this one, or a later one */
  bool finished;
  uint32_t version; /* finished: this one counts */
  bool has_data;
  bool failed; /* given up in this run of dmifarm */
  char *why;   /* how a version has failed in this run, the last one that did; owned */
  uint32_t why_version;
};

/* A version of a task. */
struct farm_job_begun {
  uint32_t task, version;
};

struct farm_job {
  char *path; /* as the user gave it */
  int dir, lock, log, begun;
  struct farm_job_task *tasks; /* by name, numbers by their value */
  uint32_t num, capacity;
  bool done;                     /* it was finished before */
  struct farm_job_begun *begins; /* all that have begun, in this run and before */
  uint32_t begin_num, begin_capacity;
  bool begins_sorted;
};

/* What the end of a version leaves in the directory. */
struct farm_job_end {
  uint32_t task, version;
  enum farm_job_end_type {
    FARM_JOB_COUNTS, /* the task's result */
    FARM_JOB_DUP,    /* came second */
    FARM_JOB_FAILED, /* `status` says how */
    FARM_JOB_NOTHING /* the version was stopped, returned or lost: its directory goes */
  } type;
  char *host;        /* owned */
  int64_t begin, ms; /* of the master's clock: ms since 1970; how long */
  char *status;      /* a few words: "done", "exit status 3"; owned */
  /* What it has printed; a size above FARM_INLINE: it is in the version's directory already, as
   * FARM_JOB_OUT and FARM_JOB_ERR. */
  uint64_t out_size, err_size;
  char *out, *err; /* owned */
};
#define FARM_JOB_OUT ".out"
#define FARM_JOB_ERR ".err"

/* Takes the job's lock, reads its tasks and what was done before, and removes what was not
 * finished. NULL: it is open; else a message, in new memory. */
char *farm_job_open(struct farm_job *job, const char *path);
void farm_job_close(struct farm_job *job);
/* NULL, or a message: another dmifarm runs the job. */
char *farm_job_busy(const char *path);
/* "JOB/WHAT: the reason of errno", in new memory. */
char *farm_job_error(const struct farm_job *job, const char *what);
/* The name of a version's directory, in new memory. */
char *farm_job_version(const struct farm_job *job, uint32_t task, uint32_t version);
/* A version begins: makes its directory.  *taken: there is something of the user's with its name.
 */
char *farm_job_begin(struct farm_job *job, uint32_t task, uint32_t version, const char *host,
                     bool *taken);
/* Opens a file of a version for writing, FARM_JOB_OUT or FARM_JOB_ERR; -1: `errno`. */
int farm_job_create(struct farm_job *job, uint32_t task, uint32_t version, const char *name);
/* Opens a task's program or data; -1: `errno`. */
int farm_job_open_file(const struct farm_job *job, const char *folder, const char *name);
/* Versions have ended: brings their results to the disk, all at once.  Another thread may call it,
 * one at a time, with farm_job_begin and farm_job_create in this one. */
char *farm_job_store(struct farm_job *job, const struct farm_job_end *ends, uint32_t num);
void farm_job_end_free(struct farm_job_end *end);
/* All tasks have ended: tidies the directory and writes results.tsv and timeline.svg; with
 * `complete`, done. */
char *farm_job_tidy(struct farm_job *job, bool complete);
/* Starts `finish`, if there is one and it has not run yet: *pid, else 0.  NULL, or a message. */
char *farm_job_finish(struct farm_job *job, pid_t *pid);
/* It has ended with this status of waitpid.  NULL: with success; or a message. */
char *farm_job_finished(struct farm_job *job, int status);

#endif
