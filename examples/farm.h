/*
 * farm.h - a program that is a number of independent tasks, done by processes that come and go.
 *
 * A counter in global memory says which task is next.  The threads of all teams (team.h) take
 * numbers from it with DMI_fad until none is left, so none is done twice; a thread that is told to
 * stop does so between two tasks, so none is lost.
 *
 * A program's job, the structure that its threads find at arg.job_addr, begins with a farm_t whose
 * `tasks` is set and whose counters are 0.  Its DMI_thread:
 *
 *   while (farm_take(&arg, job.farm.tasks, &task)) { do it; num++; }
 *   put the results into global memory
 *   farm_report(&arg, job.farm.tasks, num)
 *
 * It may report after each task or once at its end; what it reports must be in global memory.
 * DMI_main calls farm_run, which returns when all tasks have been reported.
 *
 * The end.  DMI_main waits for notices in DMI_poll, and only a notice can wake it.  So the end must
 * be a notice: the thread that reports the last task makes its own process ask to leave, with the
 * signal that Ctrl+C sends.  farm_run handles this like any request to leave (stops and joins the
 * threads there), and after each of them looks whether all tasks are done.  This misses no end: the
 * process of that thread is either not leaving, and the signal brings a new notice; or it is
 * leaving already, and then farm_run has not handled its notice yet, or is still joining its
 * threads, because one of them has only just reported its tasks.  There is no sleeping and no
 * polling.
 *
 * Ctrl+C in the first process stops the threads there.  DMI_main stays, because it alone handles
 * notices: that process is dismissed when the work is complete, which is done by the others.  When
 * no other is left it waits for one to join; a third Ctrl+C aborts.
 */
#ifndef EXAMPLES_FARM_H
#define EXAMPLES_FARM_H

#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "team.h"

/* In global memory, at the begin of the program's job. */
typedef struct {
  int64_t tasks; /* how many there are: numbers 0 to tasks - 1 */
  int64_t next;  /* counter: the next task to be taken */
  int64_t done;  /* counter: tasks whose results are in global memory */
} farm_t;

/* The result of farm_run. */
typedef struct {
  double seconds; /* from the start of the first team to the end of the last task */
  int leaving;    /* whether this process, too, has asked to leave */
} farm_end_t;

/* ---- The threads ---------------------------------------------------------------------------- */

/* Takes the next task.  False when there is none, or when this thread is to return. */
static inline int farm_take(const team_arg_t *arg, int64_t tasks, int64_t *task) {
  const int64_t next_addr = arg->job_addr + (int64_t)offsetof(farm_t, next);
  if (team_stopped(arg)) return 0;
  CHECK(DMI_fad(next_addr, 1, task, DMI_PUT_ATOMIC, NULL));
  return *task < tasks;
}

/* Says that the results of `num` more tasks are in global memory. */
static inline void farm_report(const team_arg_t *arg, int64_t tasks, int64_t num) {
  const int64_t done_addr = arg->job_addr + (int64_t)offsetof(farm_t, done);
  int64_t before;
  if (num == 0) return;
  CHECK(DMI_fad(done_addr, num, &before, DMI_PUT_ATOMIC, NULL));
  /* If this thread was told to stop, DMI_main is about to join it and then checks.  The signal goes
   * to the process, not to this thread: the runtime may have it blocked here. */
  if (before + num == tasks && !team_stopped(arg)) kill(getpid(), SIGINT);
}

/* ---- The first process ---------------------------------------------------------------------- */

static inline double farm_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline int farm_is_done(int64_t job_addr) {
  farm_t farm;
  CHECK(DMI_read(job_addr, sizeof(farm), &farm, DMI_GET_READ, NULL));
  return farm.done == farm.tasks;
}

/* Starts a team on each of the first processes, `but` excepted (-1: on all). */
static inline void farm_begin(teams_t *teams, int32_t process_num, int32_t but, int64_t job_addr) {
  DMI_node_t *nodes = my_malloc((size_t)process_num * sizeof(*nodes));
  int32_t num;
  CHECK(DMI_nodes(nodes, &num, process_num));
  for (int32_t i = 0; i < num; i++) {
    if (nodes[i].dmi_id != but) teams_start(teams, &nodes[i], job_addr);
  }
  my_free(nodes);
}

/* Waits for `process_num` processes, lets them begin at the same time, and then lets processes join
 * and leave until all tasks are done. Prints a line for each that does. */
static inline farm_end_t farm_run(int64_t job_addr, int32_t process_num) {
  teams_t teams = {0};
  farm_end_t end = {0};
  double begin = 0;
  int32_t my_dmi_id, present = 0;
  int begun = 0;

  CHECK(DMI_rank(&my_dmi_id));
  for (;;) {
    DMI_node_t node;
    CHECK(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      printf("welcome %d!\n", node.dmi_id);
      fflush(stdout);
      CHECK(DMI_welcome(node.dmi_id));
      present++;
      if (begun) {
        teams_start(&teams, &node, job_addr);
      } else if (present == process_num) {
        begun = 1;
        begin = farm_clock();
        farm_begin(&teams, present, end.leaving ? my_dmi_id : -1, job_addr);
      }
    } else {
      teams_stop(&teams, node.dmi_id);
      const int done = farm_is_done(job_addr);
      if (done) end.seconds = farm_clock() - begin;
      printf("goodbye %d!\n", node.dmi_id);
      fflush(stdout);
      if (node.dmi_id == my_dmi_id) {
        end.leaving = 1;
      } else {
        /* If it cannot leave now it stays, without threads; farm_begin would start threads there
         * again. */
        present -= check_goodbye(node.dmi_id);
      }
      if (done) break;
      if (begun && teams.num == 0) {
        printf("waiting for a process to join\n");
        fflush(stdout);
      }
    }
  }
  /* The threads of other processes have found no task left and return. */
  teams_join_all(&teams);
  return end;
}

/* The last call of DMI_main: dismisses this process, too, if it has asked for that.  No DMI thread
 * runs anywhere now: the processes that have not left end with DMI_main. */
static inline void farm_leave(farm_end_t end) {
  int32_t my_dmi_id;
  if (!end.leaving) return;
  CHECK(DMI_rank(&my_dmi_id));
  (void)check_goodbye(my_dmi_id);
}

#endif
