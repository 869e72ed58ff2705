/*
 * rescale_dmi.c - a team that counts, made anew as often as its script wants.
 *
 *   dmirun rescale_dmi MODE INIT THREADS GOAL...
 *
 * The state is CELLS numbers in global memory, dealt out to the threads, and the number of steps;
 * each step adds 1 to each cell, and a sum over all threads shows that none is wrong.  A GOAL is a
 * number of threads that the team has to have at some time; when the last goal is reached rank 0
 * ends the work 20 steps later.  At a safe point, and every 10 steps, the state is stored, in one
 * of two places in turn; a team begins with what was stored last.
 *
 * MODE: plain; twice: DMI_rescale a second time, which waits for the goals again; exit: DMI_exit(6)
 * at the goal; judge: DMI_judge_rescale wants two at a time; start: DMI_start_scale wants INIT
 * processes; early: rank 0 returns from the end without telling the others; again: each team begins
 * anew by itself, until it has done so ten times; late: see wait_for_loss; wrong: calls that fail.
 */
#include "multi.h"

#include <pthread.h>

#include "dmi_ext.h"
#include "dmi_farm.h"

#define CELLS 240
#define GOALS 16

/* In global memory, a page for each. */
struct job {
  int64_t state;   /* two sets of cells; DMI_main's process owns them */
  int64_t barrier; /* the program's own, used in all teams */
  int64_t steps;   /* of the set that was stored last */
  int64_t sets;    /* how often one was stored: the last is number sets % 2 */
  int32_t teams, goals, reached;
  int32_t goal[GOALS];
  int32_t losses; /* that DMI_scale_lost has told of, in all */
  char mode[16];
};

static const char *mode = "";
static int32_t wanted; /* by DMI_start_scale */

struct worker {
  struct job job;
  int64_t addr, begin, end, cells[CELLS];
  int32_t rank, pnum;
  DMI_local_barrier_t barrier;
};

static int64_t set_addr(const struct worker *w) {
  return w->job.state + w->job.sets % 2 * CELLS * 8;
}

/* False: the thread is to return. */
static bool going(int32_t ok) {
  if (ok) return true;
  const int32_t error = DMI_errno();
  IS(error == DMI_EBROKEN || error == DMI_ELOST || error == DMI_EEND);
  return false;
}

/* All threads, at the same step. */
static bool store(struct worker *w, int64_t steps) {
  w->job.sets++;
  w->job.steps = steps;
  if (!going(DMI_write(set_addr(w) + w->begin * 8, (w->end - w->begin) * 8, w->cells, DMI_PUT_WRITE,
                       NULL)) ||
      !going(DMI_local_barrier_sync(&w->barrier, w->pnum)))
    return false;
  return w->rank != 0 || going(DMI_write(w->addr, sizeof(w->job), &w->job, DMI_PUT_WRITE, NULL));
}

static bool step(struct worker *w, int64_t steps) {
  double sum = 0, part = 0;
  for (int64_t i = 0; i < w->end - w->begin; i++)
    part += (double)++w->cells[i];
  if (!going(DMI_local_barrier_allreduce(&w->barrier, part, &sum, w->pnum))) return false;
  EQ(sum, (steps + 1) * CELLS);
  return true;
}

/* Counts the goals that this team reaches, and writes down that it was there. */
static bool note_team(struct worker *w) {
  while (w->job.reached < w->job.goals && w->job.goal[w->job.reached] == w->pnum)
    w->job.reached++;
  /* when all have read it */
  if (!going(DMI_local_barrier_sync(&w->barrier, w->pnum))) return false;
  return w->rank != 0 || going(DMI_write(w->addr, sizeof(w->job), &w->job, DMI_PUT_WRITE, NULL));
}

/* Steps until somebody wants something else; returns what DMI_scaleunit does. */
static int32_t work(struct worker *w) {
  const bool last = w->job.reached == w->job.goals;
  int32_t change = 0;
  int64_t steps = w->job.steps;
  for (int64_t begun = steps;; steps++) {
    const bool over = last && steps == begun + 20;
    if (over && strcmp(w->job.mode, "exit") == 0 && w->rank == 0) OK(DMI_exit(6));
    if (over && strcmp(w->job.mode, "early") == 0 && w->rank == 0) return 8;
    if (over && strcmp(w->job.mode, "early") != 0)
      return !store(w, steps) ? 10 : w->rank == 0 ? 7 : DMI_AGAIN;
    if (!going(DMI_check_rescale(&change))) {
      EQ(change, 1);
      FAILS(DMI_check_rescale(&change), DMI_errno());
      return 11; /* this does not count */
    }
    if (strcmp(w->job.mode, "again") == 0 && w->job.teams < 10 && steps > begun + 3) change = 1;
    if (change && over) return DMI_AGAIN; /* rank 0 has returned early */
    if (change || steps % 10 == 9) {
      if (!store(w, steps)) return 12;
      if (change) return DMI_AGAIN;
    }
    if (!step(w, steps)) return 13;
  }
}

/* Once it is written down that it was there: the script may kill processes now. */
static void say_team(const struct worker *w, int32_t lost) {
  int32_t me = -1;
  OK(DMI_rank(&me));
  printf("team %d: %d threads from step %" PRId64 ", lost %d, rank 0 in %d\n", w->job.teams,
         w->pnum, w->job.steps, lost, me);
  fflush(stdout);
}

/* The script kills a process now; then this thread comes to a barrier as the first time. */
static void wait_for_loss(int32_t pnum) {
  int32_t num = pnum;
  printf("late\n");
  fflush(stdout);
  for (int64_t looks = 0; num == pnum; looks++) {
    DMI_node_t nodes[64];
    OK(DMI_nodes(nodes, &num, 64));
    look_again(looks);
  }
}

/* Not refused for lack of it. */
int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job) {
  (void)task, (void)out, (void)size, (void)job;
  return 0;
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  struct worker w = {.addr = scaleunit_addr, .rank = my_rank, .pnum = pnum};
  int32_t lost = -1, value = 14;
  if (!going(DMI_read(w.addr, sizeof(w.job), &w.job, DMI_GET_READ, NULL))) return 15;
  OK(DMI_block(CELLS, my_rank, pnum, &w.begin, &w.end));
  if (!going(
          DMI_read(set_addr(&w) + w.begin * 8, (w.end - w.begin) * 8, w.cells, DMI_GET_READ, NULL)))
    return 16;
  OK(DMI_scale_lost(&lost));
  FAILS(DMI_farm_run(&(DMI_farm_t){.tasks = 1}), DMI_EBUSY);
  if (strcmp(w.job.mode, "late") == 0 && my_rank == 0 && lost == 0) wait_for_loss(pnum);
  OK(DMI_local_barrier_init(&w.barrier, w.job.barrier));
  w.job.teams++;
  w.job.losses += lost;
  if (note_team(&w)) {
    if (my_rank == 0) say_team(&w, lost);
    value = work(&w);
  }
  OK(DMI_local_barrier_destroy(&w.barrier));
  return value;
}

int32_t DMI_start_scale(DMI_node_t *in, int in_num) {
  for (int i = 0; i < in_num; i++)
    IS(in[i].core > 0 && in[i].state == DMI_OPENED);
  return wanted > 0 && in_num >= wanted;
}

int32_t DMI_judge_rescale(DMI_node_t *in, DMI_node_t *out, DMI_node_t *cur, int in_num, int out_num,
                          int cur_num) {
  for (int i = 0; i < in_num; i++)
    EQ(in[i].state, DMI_OPEN);
  for (int i = 0; i < out_num; i++)
    EQ(out[i].state, DMI_CLOSE);
  IS(cur_num > 0 && cur[0].hostname[0] != 0);
  FAILS(DMI_rescale(0, 1, 1), DMI_EBUSY);
  FAILS(DMI_farm_run(&(DMI_farm_t){.tasks = 1}), DMI_EBUSY);
  if (strcmp(mode, "judge") != 0) return 1;
  printf("judge: %d in, %d out, %d\n", in_num, out_num, cur_num);
  fflush(stdout);
  return in_num + out_num >= 2;
}

/* The result, which DMI_main's process has. */
static void check_cells(int64_t addr) {
  struct worker w = {0};
  OK(DMI_read(addr, sizeof(w.job), &w.job, DMI_GET_READ, NULL));
  OK(DMI_read(set_addr(&w), sizeof(w.cells), w.cells, DMI_GET_READ, NULL));
  for (int i = 0; i < CELLS; i++)
    EQ(w.cells[i], w.job.steps);
  printf("ended after %d teams at step %" PRId64 ", lost %d\n", w.job.teams, w.job.steps,
         w.job.losses);
  fflush(stdout);
}

static void *call_beside(void *addr) {
  FAILS(DMI_rescale(*(int64_t *)addr, 1, 1), DMI_EBUSY);
  return NULL;
}

static void wrong_calls(int64_t addr) {
  pthread_t beside;
  int32_t some = 5;
  FAILS(DMI_check_rescale(&some), DMI_ETHREAD);
  FAILS(DMI_scale_lost(&some), DMI_ETHREAD);
  FAILS(DMI_rescale(0, -1, 1), DMI_EINVAL);
  FAILS(DMI_rescale(0, 1, -1), DMI_EINVAL);
  FAILS(DMI_rescale(0, 1, 65537), DMI_EINVAL);
  FAILS(DMI_rescale(0, 1, INT32_MAX), DMI_EINVAL);
  MUST(pthread_create(&beside, NULL, call_beside, &addr) == 0);
  MUST(pthread_join(beside, NULL) == 0);
  EQ(some, 5);
}

void DMI_main(int argc, char **argv) {
  struct job job = {0};
  const int32_t init = atoi(argv[2]), threads = atoi(argv[3]);
  int64_t addr;
  int32_t value;
  mode = argv[1];
  snprintf(job.mode, sizeof(job.mode), "%s", mode);
  for (int i = 4; i < argc; i++)
    job.goal[job.goals++] = atoi(argv[i]);
  if (strcmp(mode, "wrong") == 0) wrong_calls(0);
  if (strcmp(mode, "start") == 0) wanted = init;
  MUST(DMI_mmap(&job.state, 2 * CELLS * 8, 1, NULL));
  MUST(DMI_mmap(&job.barrier, sizeof(DMI_barrier_t), 1, NULL));
  MUST(DMI_barrier_init(job.barrier));
  MUST(DMI_mmap(&addr, sizeof(job), 1, NULL));
  MUST(DMI_save(job.state, 2 * CELLS * 8));
  MUST(DMI_write(addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  for (int i = 0; i < (strcmp(mode, "twice") == 0 ? 2 : 1); i++) {
    value = DMI_rescale(addr, wanted ? 0 : init, threads);
    printf("value %d, errno %s\n", value, value ? "-" : DMI_strerrorname(DMI_errno()));
    fflush(stdout);
    if (strcmp(mode, "exit") != 0) check_cells(addr);
    MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
    job.reached = 0;
    MUST(DMI_write(addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  }
  printf("verdict rescale: %" PRId64 " checks, %" PRId64 " failed\n", checks_done, checks_failed);
  fflush(stdout);
}
