/*
 * dmi_farm.h - a program that is a number of independent tasks: DMI_farm_run has them done by all
 * processes, while these join, leave and are lost.  Included beside dmi_api.h; its conventions hold
 * here too.
 *
 * A program defines DMI_farm_task, which does one task, and calls DMI_farm_run, usually in
 * DMI_main.
 */
#ifndef DMI_FARM_H
#define DMI_FARM_H

#include "dmi_api.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- Farms of tasks (chapter 3, "joining and leaving of processes") ---- */

/*
 * Does one task: a program that calls DMI_farm_run must define it.  `task` is its number, from 0;
 * `out` points to `size` bytes for its result, the result_size of the farm, which are zero before;
 * `job` to a copy of the job_size bytes that DMI_farm_run was given, and is NULL if these are none.
 *
 * A task may be done more than once, as a process may be lost that has done it; its result counts
 * once.  So it should only compute its result, or what may be done again.  It may call any function
 * of DMI but DMI_farm_run.
 *
 * Return value: 0 when the task is done.  Any other number says that it has failed: it is tried
 * again as often as the farm's `retries`, where possible in another process, and then the number is
 * its status (DMI_farm_failed).
 *
 * Threads: called by threads of the library, one for each core of each process, at the same time
 * for different tasks.
 */
int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job);

#define DMI_FARM_JOIN 1     /* a process was welcomed */
#define DMI_FARM_LEAVE 2    /* a process that has asked to leave does no tasks any more */
#define DMI_FARM_LOSS 3     /* a process was lost (dmirun --survive) */
#define DMI_FARM_IDLE 4     /* nobody does tasks any more: the farm waits for a process to join */
#define DMI_FARM_PROGRESS 5 /* a hundredth of the tasks was done since the last time */
#define DMI_FARM_NOTE 6     /* a note of the program itself (DMI_notify) */
#define DMI_FARM_FEW 7      /* too few processes: the farm does not begin before more join */

/* What happens while a farm runs.  A local object. */
typedef struct {
  int32_t kind;      /* DMI_FARM_JOIN ... DMI_FARM_FEW */
  int32_t dmi_id;    /* JOIN, LEAVE, LOSS, NOTE: of the process */
  int64_t value;     /* NOTE: what DMI_notify was given; FEW, IDLE: how
                        many more processes the farm waits for;
                        LEAVE: 1: it stays, as it runs the farm */
  int64_t tasks;     /* of the farm */
  int64_t done;      /* of these, those included that have failed for good */
  int64_t failed;    /* of these */
  int32_t processes; /* that do tasks, or will when the farm begins */
  double seconds;    /* since the first task was given out; 0: not yet */
} DMI_farm_event_t;

/* A farm: what DMI_farm_run is to do, and what became of it.  A local object: set all bytes to
 * zero, and then what is wanted. */
typedef struct {
  /* ---- set by the program ---- */
  int64_t tasks;       /* how many there are: numbers 0 to tasks - 1 */
  int64_t result_size; /* bytes of a task's result; 0: none */
  const void *job;     /* bytes that all tasks get */
  int64_t job_size;    /* of these; 0: none */
  int32_t processes;   /* begin when so many have been welcomed; 0: 1 */
  int32_t threads;     /* in each process; 0: one for each core */
  int32_t retries;     /* how often a task that fails is tried again */
  void (*event)(const DMI_farm_event_t *event, void *arg); /* is told what happens; may be NULL */
  void *event_arg;
  /* ---- set by DMI_farm_run ---- */
  int64_t failed; /* tasks that have failed for good */
  double seconds; /* from the first task to the end of the last one */
  int64_t dmi_private[2];
} DMI_farm_t;

/*
 * Has tasks 0 to farm_ptr->tasks - 1 done by DMI_farm_task, and returns when all are done or have
 * failed.  Meanwhile it handles all notices (DMI_poll): it welcomes processes that ask to join, and
 * starts threads there; stops those of a process that asks to leave, each after its present tasks,
 * and dismisses it; has tasks done again that a lost process was doing (dmirun --survive).
 * When the calling process is asked to leave its threads stop, too, but it stays, as this function
 * runs there; the program may dismiss it afterwards (DMI_goodbye).
 *
 * Tasks may be of any length, as threads take several short ones at a time, with one message; all
 * threads end at about the same time.  Results are kept in global memory until DMI_farm_free:
 * small ones in the calling process, those above 32 KiB where they were computed, until those
 * processes leave.
 *
 * Each call is a farm of its own: it uses the processes that are there, and returns with all its
 * threads ended.  `event` is called by the thread that has called DMI_farm_run, and must return.
 *
 * Errors: DMI_EINVAL for a pointer of NULL or a negative number in *farm_ptr.  DMI_ESIZE when the
 * results together, or the job, have 2^62 bytes or more.  DMI_ENOFUNC when the program defines no
 * DMI_farm_task.  DMI_EBUSY when another thread of this process is in DMI_farm_run or DMI_rescale,
 * or when DMI_farm_task, DMI_scaleunit or a function that those two call has called it. DMI_ENOMEM
 * when there is no memory for results, here or where a task was done. DMI_ELOST when what the farm
 * keeps itself was lost with a process.  DMI_EEND when the program is ending (dmi_ext.h).  When it
 * fails no result is kept.
 *
 * Threads: one at a time in the program, as it handles notices: DMI_main, DMI_recover, or a DMI
 * thread.  (Not in the manual; chapter 3.)
 */
int32_t DMI_farm_run(DMI_farm_t *farm_ptr);

/*
 * Reads the result of a task: result_size bytes to `out`.  *status_ptr (may be NULL) gets 0 when
 * the task was done, else what DMI_farm_task returned the last time; its result is what that
 * stored.
 *
 * Errors: DMI_EINVAL when `farm_ptr` is NULL, `out` is NULL although there are results, or there is
 * no such task.  DMI_EADDR when DMI_farm_run has not succeeded, or DMI_farm_free was called.
 * DMI_ELOST when the result was lost with a process since DMI_farm_run has returned; also behind a
 * DMI_revive.
 *
 * Threads: any; of any process that has a copy of *farm_ptr.  (Not in the manual; chapter 3.)
 */
int32_t DMI_farm_result(const DMI_farm_t *farm_ptr, int64_t task, void *out, int32_t *status_ptr);

/*
 * Looks for a task that has failed: the first at or after number `from`.  *task_ptr gets its
 * number, and *status_ptr (may be NULL) what DMI_farm_task returned the last time; when there is
 * none *task_ptr gets -1.  So this shows all:
 *
 *     int64_t t = 0;
 *     for (; DMI_farm_failed(&farm, t, &t, &status) && t >= 0; t++)
 *       printf("task %lld: status %d\n", (long long)t, status);
 *
 * Errors: DMI_EINVAL when a pointer is NULL, or `from` is negative.  DMI_EADDR, DMI_ELOST: as for
 * DMI_farm_result.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
int32_t DMI_farm_failed(const DMI_farm_t *farm_ptr, int64_t from, int64_t *task_ptr,
                        int32_t *status_ptr);

/*
 * Frees the results of a farm.
 *
 * Errors: DMI_EINVAL for NULL.  DMI_EADDR when it has no results: DMI_farm_run has not succeeded,
 * or this function was called before.
 *
 * Threads: any, when no other uses the results.  (Not in the manual; chapter 3.)
 */
int32_t DMI_farm_free(DMI_farm_t *farm_ptr);

/*
 * Prints what happens, as the `event` of a farm: a line for each process that joins ("welcome 1!"),
 * leaves ("goodbye 1!") or is lost ("lost 1!"), and when the farm waits for processes to join.
 * `arg`, the event_arg of the farm, is the FILE * to print to, or NULL: standard output.
 *
 * Threads: any.  (Not in the manual; chapter 3.)
 */
void DMI_farm_print(const DMI_farm_event_t *event, void *arg);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
