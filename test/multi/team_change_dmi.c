/*
 * team_change_dmi.c - a team whose processes come and go: a process with a rank is not dismissed,
 * a rank that has left is a hole until another thread takes it, and the team becomes larger and
 * smaller with its processes.
 *
 *   dmirun team_change_dmi      says `leave N` when process N is to be asked to leave, `join N`
 * when process N is to be started
 *
 * The threads of the team do one step after the other, as DMI_main tells them.
 */
#include <stdlib.h>

#include "dmi_team.h"
#include "multi.h"

#define LARGE (300 * 1024)
#define MOST 8 /* threads */

enum what {
  WORK,   /* messages and collective calls of all ranks */
  HOLE,   /* the same while rank `arg` is a hole */
  CHANGE, /* DMI_team_reset */
  LEAVE,  /* rank `arg` leaves, the others reset; ALL leave */
  ALL = -1
};

/* In global memory; each thread has the addresses of all. */
struct job {
  int64_t team, report;
  int64_t step;  /* address: steps that may be done */
  int64_t done;  /* address: steps that were done, of all threads */
  int64_t words; /* address: of each step what it is and its argument */
  int64_t rank;  /* wanted, or DMI_ANY */
  int64_t begin; /* steps that were over when it began */
};

/* ---- The threads of the team ----------------------------------------------------------------- */

static void exchange(DMI_local_team_t *team, int32_t to, int32_t from, int64_t bytes) {
  unsigned char *out = malloc(LARGE), *in = malloc(LARGE), *wanted = malloc(LARGE);
  DMI_local_status_t status;
  DMI_got_t got = {-1, -1};
  int32_t rank, ret;
  MUST(DMI_team_rank(team, &rank, NULL));
  rng_fill((uint64_t)rank, out, (uint64_t)bytes);
  rng_fill((uint64_t)from, wanted, (uint64_t)bytes);
  OK(DMI_team_send(team, to, out, bytes, &status));
  OK(DMI_team_recv(team, from, in, LARGE, &got, NULL));
  DMI_wait(&status, &ret);
  OK(ret);
  EQ(got.size, bytes);
  EQ(got.rank, from);
  SAME(in, wanted, bytes);
  free(out);
  free(in);
  free(wanted);
}

static void work(DMI_local_team_t *team) {
  int32_t rank, size;
  int64_t value, all[MOST];
  MUST(DMI_team_rank(team, &rank, &size));
  OK(DMI_team_barrier(team));
  exchange(team, (rank + 1) % size, (rank + size - 1) % size, 8);
  exchange(team, (rank + 1) % size, (rank + size - 1) % size, LARGE);
  value = rank;
  OK(DMI_team_allreduce(team, &value, &value, 1, DMI_TYPE_INT64, DMI_OP_SUM));
  EQ(value, size * (size - 1) / 2);
  for (int32_t root = 0; root < size; root++) {
    value = rank == root ? root * 10 : -1;
    OK(DMI_team_bcast(team, root, &value, 8));
    EQ(value, root * 10);
    OK(DMI_team_gather(team, root, &value, 8, all));
    for (int32_t i = 0; rank == root && i < size; i++)
      EQ(all[i], root * 10);
  }
}

static void hole(DMI_local_team_t *team, int32_t missing) {
  int32_t rank, size, last;
  int64_t value = 0;
  MUST(DMI_team_rank(team, &rank, &size));
  FAILS(DMI_team_barrier(team), DMI_ELOST);
  FAILS(DMI_team_bcast(team, 0, &value, 8), DMI_ELOST);
  FAILS(DMI_team_send(team, missing, &value, 8, NULL), DMI_ELOST);
  FAILS(DMI_team_recv(team, missing, &value, 8, NULL, NULL), DMI_ELOST);
  /* A ring without it. */
  last = missing == size - 1 ? size - 2 : size - 1;
  for (int32_t i = 0, before = last; i < size; i++) {
    if (i == missing) continue;
    if (rank == before) {
      value = i;
      OK(DMI_team_send(team, i, &value, 8, NULL));
    }
    before = i;
  }
  for (int32_t from = (rank + size - 1) % size;; from = (from + size - 1) % size) {
    if (from == missing) continue;
    OK(DMI_team_recv(team, from, &value, 8, NULL, NULL));
    EQ(value, rank);
    break;
  }
}

/* False: this thread is not in the team any more. */
static bool do_step(DMI_local_team_t *team, enum what what, int32_t arg) {
  int32_t rank;
  MUST(DMI_team_rank(team, &rank, NULL));
  if (what == WORK) work(team);
  if (what == HOLE) hole(team, arg);
  if (what == WORK || what == HOLE) return true;
  if (what == LEAVE && (arg == ALL || rank == arg)) {
    OK(DMI_team_leave(team));
    FAILS(DMI_team_barrier(team), DMI_EINVAL);
    return false;
  }
  if (DMI_team_reset(team)) return true;
  EQ(DMI_errno(), DMI_EINVAL); /* the team has become smaller */
  return false;
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_team_t team;
  struct job job;
  bool in = true;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  MUST(DMI_team_join(&team, job.team, (int32_t)job.rank));
  OK(DMI_fad(job.done, 1, NULL, DMI_PUT_ATOMIC, NULL));
  for (int64_t i = job.begin; in; i++) {
    int64_t words[2];
    wait_for(job.step, i + 1);
    MUST(DMI_read(job.words + i * 16, 16, words, DMI_GET_READ, NULL));
    in = do_step(&team, (enum what)words[0], (int32_t)words[1]);
    if (!in) check_report(job.report);
    OK(DMI_fad(job.done, 1, NULL, DMI_PUT_ATOMIC, NULL));
  }
  check_report(job.report);
  return 0;
}

/* ---- DMI_main -------------------------------------------------------------------------------- */

static struct job job;
static int64_t jobs; /* address */
static DMI_thread_t threads[MOST];
static int64_t thread_num;      /* made */
static int64_t in_team;         /* threads in the team */
static int64_t steps, reported; /* begun; what `done` must come to */

/* A new thread in the team.  It has no part in the step with which the others wait for it. */
static DMI_thread_t enter(int32_t dmi_id, int32_t rank) {
  const int64_t at = jobs + thread_num * (int64_t)sizeof(job);
  job.rank = rank;
  job.begin = steps == 0 ? 0 : steps + 1;
  MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&threads[thread_num], dmi_id, at, NULL));
  reported++;
  in_team++;
  return threads[thread_num++];
}

static void begin_step(enum what what, int64_t arg, int64_t who) {
  const int64_t words[2] = {what, arg};
  MUST(DMI_write(job.words + steps * 16, 16, words, DMI_PUT_WRITE, NULL));
  put_int64(job.step, ++steps);
  reported += who;
}

/* All threads of the team do it. */
static void step(enum what what, int64_t arg) {
  begin_step(what, arg, in_team);
  wait_for(job.done, reported);
}

/* Those that are in the team begin anew with those that come. */
static void step_entering(int64_t old) {
  begin_step(CHANGE, 0, old);
  wait_for(job.done, reported);
}

static int32_t await(const char *what, int number, int32_t state) {
  DMI_node_t node;
  say("%s %d", what, number);
  MUST(DMI_poll(&node));
  EQ(node.state, state);
  if (state == DMI_OPEN) MUST(DMI_welcome(node.dmi_id));
  return node.dmi_id;
}

/* The process is asked to leave while it has a rank, which is this thread. */
static void stays(int number, int32_t dmi_id) {
  EQ(await("leave", number, DMI_CLOSE), dmi_id);
  FAILS(DMI_goodbye(dmi_id), DMI_EBUSY);
  step(WORK, 0);
}

static void goes(int32_t dmi_id, DMI_thread_t thread) {
  in_team--;
  MUST(DMI_join(thread, NULL, NULL));
  OK(DMI_goodbye(dmi_id));
}

/* DMI_main's own thread has a rank, of a team of its own: there is no DMI thread here. */
static void alone(int32_t dmi_id) {
  DMI_local_team_t team;
  MUST(DMI_team_init(job.team, 1));
  MUST(DMI_team_join(&team, job.team, 0));
  EQ(await("leave", 1, DMI_CLOSE), dmi_id);
  FAILS(DMI_goodbye(dmi_id), DMI_EBUSY);
  FAILS(DMI_team_destroy(job.team), DMI_EBUSY);
  OK(DMI_team_leave(&team));
  OK(DMI_team_destroy(job.team));
}

static void prepare(int32_t *ids) {
  MUST(DMI_mmap(&job.team, sizeof(DMI_team_t), 1, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  MUST(DMI_mmap(&job.step, 8, 1, NULL));
  MUST(DMI_mmap(&job.done, 8, 1, NULL));
  MUST(DMI_mmap(&job.words, 64 * 16, 1, NULL));
  MUST(DMI_mmap(&jobs, MOST * sizeof(job), 1, NULL));
  gather(2, ids);
  OK(DMI_team_init(job.team, 3));
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t second, third, fourth;
  int32_t ids[4];
  (void)argc, (void)argv;
  prepare(ids);
  (void)enter(ids[0], 0);
  second = enter(ids[1], 1);
  (void)enter(ids[0], 2);
  wait_for(job.done, reported);
  step(WORK, 0);
  /* The second process leaves: a hole in the middle. */
  stays(2, ids[1]);
  step(LEAVE, 1);
  goes(ids[1], second);
  step(HOLE, 1);
  /* The third one fills it. */
  ids[2] = await("join", 3, DMI_OPEN);
  OK(DMI_team_resize(job.team, 3)); /* the next epoch waits for it */
  third = enter(ids[2], DMI_ANY);
  step_entering(2);
  step(WORK, 0);
  /* Two ranks more, in the third process and the fourth one. */
  ids[3] = await("join", 4, DMI_OPEN);
  OK(DMI_team_resize(job.team, 5));
  (void)enter(ids[2], 3);
  fourth = enter(ids[3], 4);
  step_entering(3);
  step(WORK, 0);
  /* The fourth one leaves, and the team becomes smaller. */
  stays(4, ids[3]);
  OK(DMI_team_resize(job.team, 4));
  step(CHANGE, 0);
  goes(ids[3], fourth);
  step(WORK, 0);
  /* All leave; the third process had two ranks. */
  step(LEAVE, ALL);
  MUST(DMI_join(third, NULL, NULL));
  for (int64_t i = 0; i < thread_num; i++) {
    if (i != 1 && i != 3 && i != 5) MUST(DMI_join(threads[i], NULL, NULL));
  }
  EQ(await("leave", 3, DMI_CLOSE), ids[2]);
  OK(DMI_goodbye(ids[2]));
  OK(DMI_team_destroy(job.team));
  alone(ids[0]);
  verdict("team_change", job.report);
  MUST(DMI_goodbye(ids[0]));
}
