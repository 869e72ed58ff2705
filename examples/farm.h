/*
 * farm.h - a program that is a number of independent tasks, done by processes that come and go.
 *
 * A counter in global memory says which task is next.  The threads of all teams (team.h) take
 * numbers from it with DMI_fad until none is left, so none is done twice; a thread that is told to
 * stop does so between two tasks, so none is lost.
 *
 * A program's job, the structure that its threads find at arg.job_addr, begins with a farm_t that
 * farm_init has filled.  Its DMI_thread:
 *
 *   while (farm_take(&arg, &job.farm, &task)) {
 *     do it
 *     farm_report(&arg, &job.farm, task, &result)
 *   }
 *
 * The result has as many bytes as farm_init was told; it may be none, if the thread puts its
 * results into global memory itself before it reports.  DMI_main calls farm_run, which returns when
 * all tasks have been reported, and then farm_result for each.
 *
 * A process that is lost (dmirun --survive).  What its threads had taken and not reported must be
 * done again.  DMI_main gets the notice DMI_LOST, stops the threads of all other processes (they
 * finish the task in hand), makes a list of the tasks whose results are not there, and starts the
 * threads again, which now take their numbers from that list.  A result and the mark that it is
 * there are one page, written at once, at DMI_main's process; so a task counts once, whenever its
 * process is lost.  What a thread has put into global memory itself may be lost later, with the
 * process that owns the page: so farm_run asks the program for each task at the end.
 *
 * The end.  DMI_main waits for notices in DMI_poll, and only a notice can wake it.  So the end must
 * be a notice: the thread that reports the last task makes one with DMI_notify.  farm_run looks
 * after each notice whether all tasks are done.  This misses no end: if the process of that thread
 * leaves, the note stays in the queue; if it is lost, that is a notice, too.  There is no sleeping
 * and no polling.
 *
 * Ctrl+C in the first process stops the threads there.  DMI_main stays, because it alone handles
 * notices: that process is dismissed when the work is complete, which is done by the others.  When
 * no other is left it waits for one to join; a third Ctrl+C aborts.
 */
#ifndef EXAMPLES_FARM_H
#define EXAMPLES_FARM_H

#include <stddef.h>
#include <time.h>

#include "dmi_ext.h"
#include "team.h"

/* In global memory, at the begin of the program's job. */
typedef struct {
  int64_t tasks;       /* how many there are: numbers 0 to tasks - 1 */
  int64_t result_size; /* bytes of a task's result */
  int64_t result_addr; /* a page for each task: int64_t, not 0: done; the result */
  int64_t list_addr;   /* int64_t each: the tasks to do, if `listed` */
  int64_t listed;      /* 0: all tasks, in their order */
  int64_t num;         /* how many are to do */
  int64_t next;        /* counter: the next of these to be taken */
  int64_t done;        /* counter: those of them whose results are in global memory */
} farm_t;

/* Whether what a task has put into global memory is still there; false: it must be done again. */
typedef int (*farm_there_t)(void *arg, int64_t task);

/* The result of farm_run. */
typedef struct {
  double seconds; /* from the start of the first team to the end of the last task */
  int leaving;    /* whether this process, too, has asked to leave */
} farm_end_t;

/* ---- The threads ---------------------------------------------------------------------------- */

static inline int64_t farm_page(const farm_t *farm, int64_t task) {
  return farm->result_addr + task * ((int64_t)sizeof(int64_t) + farm->result_size);
}

/* Takes the next task.  False when there is none, or when this thread is to return. */
static inline int farm_take(const team_arg_t *arg, const farm_t *farm, int64_t *task) {
  const int64_t next_addr = arg->job_addr + (int64_t)offsetof(farm_t, next);
  int64_t next;
  if (team_stopped(arg)) return 0;
  CHECK(DMI_fad(next_addr, 1, &next, DMI_PUT_ATOMIC, NULL));
  *task = next;
  if (next >= farm->num) return 0;
  if (farm->listed)
    CHECK(DMI_read(farm->list_addr + next * (int64_t)sizeof(*task), sizeof(*task), task,
                   DMI_INVALIDATE_READ, NULL));
  return 1;
}

/* Says that a task is done.  Its result may be NULL if it has no bytes. */
static inline void farm_report(const team_arg_t *arg, const farm_t *farm, int64_t task,
                               const void *result) {
  const int64_t done_addr = arg->job_addr + (int64_t)offsetof(farm_t, done);
  const int64_t yes = 1;
  const size_t size = sizeof(yes) + (size_t)farm->result_size;
  char *page = my_malloc(size);
  int64_t before;
  memcpy(page, &yes, sizeof(yes));
  if (result != NULL) memcpy(page + sizeof(yes), result, (size_t)farm->result_size);
  CHECK(DMI_write(farm_page(farm, task), (int64_t)size, page, DMI_PUT_WRITE, NULL));
  my_free(page);
  CHECK(DMI_fad(done_addr, 1, &before, DMI_PUT_ATOMIC, NULL));
  if (before + 1 == farm->num) CHECK(DMI_notify(0));
}

/* ---- The first process ---------------------------------------------------------------------- */

/* Before the job is written into global memory. */
static inline void farm_init(farm_t *farm, int64_t tasks, int64_t result_size) {
  *farm = (farm_t){.tasks = tasks, .num = tasks, .result_size = result_size};
  if (tasks == 0) return;
  CHECK(DMI_mmap(&farm->result_addr, (int64_t)sizeof(int64_t) + result_size, tasks, NULL));
  CHECK(DMI_mmap(&farm->list_addr, tasks * (int64_t)sizeof(int64_t), 1, NULL));
}

static inline void farm_destroy(const farm_t *farm) {
  if (farm->tasks == 0) return;
  CHECK(DMI_munmap(farm->result_addr, NULL));
  CHECK(DMI_munmap(farm->list_addr, NULL));
}

/* The result that a thread has reported. */
static inline void farm_result(const farm_t *farm, int64_t task, void *result) {
  CHECK(DMI_read(farm_page(farm, task) + (int64_t)sizeof(int64_t), farm->result_size, result,
                 DMI_GET_READ, NULL));
}

static inline double farm_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline farm_t farm_read(int64_t job_addr) {
  farm_t farm;
  CHECK(DMI_read(job_addr, sizeof(farm), &farm, DMI_GET_READ, NULL));
  return farm;
}

/* No thread runs: lists the tasks that are to be done, again or still; returns how many. */
static inline int64_t farm_list(int64_t job_addr, farm_there_t there, void *arg) {
  farm_t farm = farm_read(job_addr);
  int64_t *list = my_malloc((size_t)farm.tasks * sizeof(*list));
  farm.num = farm.next = farm.done = 0;
  farm.listed = 1;
  for (int64_t task = 0; task < farm.tasks; task++) {
    int64_t done;
    CHECK(DMI_read(farm_page(&farm, task), sizeof(done), &done, DMI_GET_READ, NULL));
    if (!done || (there != NULL && !there(arg, task))) list[farm.num++] = task;
  }
  CHECK(DMI_write(farm.list_addr, farm.tasks * (int64_t)sizeof(*list), list, DMI_EXCLUSIVE_WRITE,
                  NULL));
  CHECK(DMI_write(job_addr, sizeof(farm), &farm, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(list);
  return farm.num;
}

/* Starts a team on each process that was welcomed and has not asked to leave, `but` excepted (-1:
 * on all). */
static inline void farm_begin(teams_t *teams, int32_t but, int64_t job_addr) {
  for (int32_t room = 16, num = 0;; room *= 2) {
    DMI_node_t *nodes = my_malloc((size_t)room * sizeof(*nodes));
    CHECK(DMI_nodes(nodes, &num, room));
    for (int32_t i = 0; num < room && i < num; i++) {
      if (nodes[i].state == DMI_OPENED && nodes[i].dmi_id != but)
        teams_start(teams, &nodes[i], job_addr);
    }
    my_free(nodes);
    if (num < room) return; /* that were all */
  }
}

/* What farm_run knows. */
typedef struct {
  teams_t teams;
  int64_t job_addr;
  farm_there_t there;
  void *there_arg;
  int32_t my_dmi_id;
  int32_t present; /* processes that were welcomed */
  int begun;
  double begin;
  farm_end_t end;
} farm_run_t;

static inline void farm_say(const char *what, int32_t dmi_id) {
  printf("%s %d!\n", what, dmi_id);
  fflush(stdout);
}

/* Threads on all processes, for what there is to do. */
static inline void farm_start(farm_run_t *run) {
  farm_begin(&run->teams, run->end.leaving ? run->my_dmi_id : -1, run->job_addr);
}

static inline void farm_opened(farm_run_t *run, const DMI_node_t *node, int32_t process_num) {
  farm_say("welcome", node->dmi_id);
  if (!CHECK_LOST(DMI_welcome(node->dmi_id))) return;
  run->present++;
  if (run->begun) {
    teams_start(&run->teams, node, run->job_addr);
  } else if (run->present == process_num) {
    run->begun = 1;
    run->begin = farm_clock();
    farm_start(run);
  }
}

/* All tasks were done, or a process is lost: ends all threads, and begins what is missing.  True if
 * nothing is. */
static inline int farm_over(farm_run_t *run) {
  run->end.seconds = farm_clock() - run->begin;
  teams_stop_all(&run->teams);
  if (farm_list(run->job_addr, run->there, run->there_arg) == 0) return 1;
  farm_start(run);
  return 0;
}

/* All tasks are done that were to be. */
static inline int farm_done(const farm_run_t *run) {
  const farm_t farm = farm_read(run->job_addr);
  return farm.done == farm.num;
}

static inline int farm_closed(farm_run_t *run, const DMI_node_t *node) {
  teams_stop(&run->teams, node->dmi_id);
  const int done = farm_done(run);
  farm_say("goodbye", node->dmi_id);
  if (node->dmi_id == run->my_dmi_id) {
    run->end.leaving = 1;
  } else {
    /* If it cannot leave now it stays, without threads. */
    run->present -= check_goodbye(node->dmi_id);
  }
  return done && farm_over(run);
}

/* Waits for `process_num` processes, lets them begin at the same time, and then lets processes join
 * and leave until all tasks are done. Prints a line for each that does.  `there` may be NULL: what
 * the threads reported is all there is. */
static inline farm_end_t farm_run(int64_t job_addr, int32_t process_num, farm_there_t there,
                                  void *there_arg) {
  farm_run_t run = {.job_addr = job_addr, .there = there, .there_arg = there_arg};
  int over = 0;
  CHECK(DMI_rank(&run.my_dmi_id));
  while (!over) {
    DMI_node_t node;
    CHECK(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      farm_opened(&run, &node, process_num);
    } else if (node.state == DMI_LOST) {
      farm_say("lost", node.dmi_id);
      run.present--;
      over = run.begun && farm_over(&run);
    } else if (node.state == DMI_NOTE) { /* perhaps of tasks that were lost since */
      over = farm_done(&run) && farm_over(&run);
    } else {
      over = farm_closed(&run, &node);
    }
    if (!over && run.begun && run.teams.num == 0) {
      printf("waiting for a process to join\n");
      fflush(stdout);
    }
  }
  return run.end;
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
