/*
 * plan.h - which task a worker gets: the decisions of dmifarm's master (docs/dmifarm.md, "The
 * plan").
 *
 * Pure: no files, processes or clocks.  The caller tells what has happened and what time it is.
 *
 * A task is run in versions: a, then b, c ... if it is tried again, or run by two workers at once.
 * The version that succeeds first counts; those that still run are to be stopped.
 */
#ifndef FARM_PLAN_H
#define FARM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t farm_ms_t;         /* milliseconds, of any clock that only goes forward */
#define FARM_NEVER ((farm_ms_t)-1) /* no such time */
#define FARM_LOST_MOST                                                      \
  UINT32_C(10) /* a task is given up when so many workers were lost with it \
                */

struct farm_plan_config {
  uint32_t copies;  /* of a task at a time; 0: any number, as soon as nothing else is left */
  uint32_t retries; /* after so many more failures than one a task is given up */
};

/*
 *            take                     DONE
 *   TO_DO ---------> RUNNING ----------------------> FINISHED
 *     ^                |    \
 *     +----------------+     +---------------------> FAILED
 *       RETURNED, LOST, FAILED:     FAILED, LOST: too often, and no other
 *       tried again                 version runs
 */
enum farm_task_state {
  FARM_TASK_TO_DO,   /* no version runs */
  FARM_TASK_RUNNING, /* at least one does */
  FARM_TASK_FINISHED,
  FARM_TASK_FAILED
};

/* A version of a task that runs, or is to be run. */
struct farm_run {
  uint32_t task;    /* as farm_plan_add counts them */
  uint32_t version; /* 0: a */
  uint64_t worker;  /* the caller's number for who runs it */
};

enum farm_end {
  FARM_END_DONE,     /* it has a result */
  FARM_END_FAILED,   /* it ended in another way */
  FARM_END_RETURNED, /* its worker leaves, and gives it back */
  FARM_END_LOST      /* its worker is lost */
};

/* What the end of a version means. */
struct farm_verdict {
  bool counts;           /* its result is the task's; else, after DONE: another one was first */
  bool given_up;         /* the task has failed */
  struct farm_run *stop; /* versions of the task that still run and need not; to be freed */
  uint32_t stop_num;
};

struct farm_counts {
  uint32_t tasks, finished, failed, running; /* running: tasks, not versions */
};

struct farm_plan;

struct farm_plan *farm_plan_new(const struct farm_plan_config *config);
void farm_plan_free(struct farm_plan *plan);

/* Adds a task, and returns its number: 0, 1, 2 ...  No version before `version` will be given out;
 * `finished`: it has a result already. */
uint32_t farm_plan_add(struct farm_plan *plan, uint32_t version, bool finished);

/* A worker has come, which may ask for several tasks at a time; or it has gone, and what it ran
 * has ended. */
void farm_plan_come(struct farm_plan *plan, uint64_t worker);
void farm_plan_go(struct farm_plan *plan, uint64_t worker);

/*
 * A worker asks for a task.  Of those that nobody runs it gets the one that has waited longest; if
 * there is none, a further version of one that runs: that with the fewest of them, if it has run
 * for 1.5 times as long as the median of finished ones.  A task that has failed at this worker is
 * left to others, as long as there is one at which it has not.
 *
 * False: there is nothing for it now.  *again is when to ask again, if nothing happens until then
 * (FARM_NEVER: only what happens can change it).
 */
bool farm_plan_take(struct farm_plan *plan, uint64_t worker, farm_ms_t now, struct farm_run *run,
                    farm_ms_t *again);

/*
 * A worker that has tasks enough asks for one more, so that it can begin at once when one of them
 * ends.  It gets one only while tasks are short, and more than `enough` are left for the others.
 */
#define FARM_SHORT_MS 1000
bool farm_plan_take_ahead(struct farm_plan *plan, uint64_t worker, uint32_t enough, farm_ms_t now,
                          struct farm_run *run);
/* Whether that may be at all: what waits at a slow worker must have a way to others. */
bool farm_plan_may_be_ahead(const struct farm_plan *plan);
/* A version that runs has begun later than it was taken. */
void farm_plan_begun(struct farm_plan *plan, uint32_t task, uint32_t version, farm_ms_t now);

/* A version has ended, `verdict` says what is to be done.  What was never taken, or has ended
 * before, is ignored: false. */
bool farm_plan_end(struct farm_plan *plan, uint32_t task, uint32_t version, enum farm_end end,
                   farm_ms_t now, struct farm_verdict *verdict);

enum farm_task_state farm_plan_state(const struct farm_plan *plan, uint32_t task);
struct farm_counts farm_plan_counts(const struct farm_plan *plan);
/* Half of the finished versions took no longer; FARM_NEVER: none is finished. */
farm_ms_t farm_plan_median(const struct farm_plan *plan);

#endif
