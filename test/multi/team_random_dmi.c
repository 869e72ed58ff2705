/*
 * team_random_dmi.c - random programs of teams (team_random.h), many for each start of the
 * processes.  From one round of programs to the next the team has another size, and ranks in other
 * processes, while processes join, leave and are killed.
 *
 *   dmirun team_random_dmi SEED ROUNDS PROGRAMS PROCESSES JOINS LEAVES KILLS
 *
 * PROCESSES begin together; it goes on until there were so many rounds, joins, leaves and kills.
 */
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "team_random_run.h"

/* In global memory: the newest round.  `number` is written when the rest is. */
struct round {
  int64_t number;
  int32_t size, ends; /* ends: there are no more; or a process was lost: all leave */
  int32_t places[MOST_RANKS];
};

struct job {
  int64_t team, report, round, done; /* addresses; done: a number for each rank */
  int64_t seed, programs, rank, first;
  int64_t may_lose;
};

/* ---- Rounds --------------------------------------------------------------------------------- */

static void read_round(const struct job *job, int64_t number, struct round *round) {
  wait_for(job->round, number);
  MUST(DMI_read(job->round, sizeof(*round), round, DMI_GET_READ, NULL));
}

/* False: its rank is cut off, as a process was lost. */
static bool join(struct rank *rank, const struct job *job) {
  for (int64_t looks = 0;; looks++) {
    if (DMI_team_join(&rank->team, job->team, (int32_t)job->rank)) return true;
    if (DMI_errno() != DMI_EBUSY) break; /* else its thread has not left it yet */
    look_again(looks);
  }
  if (!job->may_lose || DMI_errno() != DMI_EINVAL) OK(DMI_FALSE);
  return false;
}

/* A process was lost: all others come here, and leave. */
static void give_up(struct rank *rank) {
  bool stays = DMI_team_reset(&rank->team);
  if (!stays) EQ(DMI_errno(), DMI_EINVAL); /* its rank is cut off */
  forget_all(rank);
  if (stays) OK(DMI_team_leave(&rank->team));
}

static void rounds(struct rank *rank, const struct job *job) {
  struct round round;
  int32_t self;
  MUST(DMI_rank(&self));
  for (int64_t number = job->first;; number++) {
    MUST(DMI_team_rank(&rank->team, &rank->number, &rank->size));
    read_round(job, number, &round);
    EQ(rank->number, job->rank);
    /* Another size, or round: a process was lost. */
    if (round.number > number || round.size != rank->size) rank->lost = true;
    if (rank->lost) IS(job->may_lose);
    for (int64_t i = 0; i < job->programs && !rank->lost; i++)
      (void)program(rank, rng_of((uint64_t)job->seed, (uint64_t)number, (uint64_t)i));
    if (rank->lost) {
      give_up(rank);
      return;
    }
    put_int64(job->done + 8 * job->rank, number);
    read_round(job, number + 1, &round);
    if (round.ends || rank->number >= round.size || round.places[rank->number] != self) {
      OK(DMI_team_leave(&rank->team));
      return;
    }
    if (!DMI_team_reset(&rank->team)) {
      if (!job->may_lose || DMI_errno() != DMI_EINVAL) OK(DMI_FALSE);
      return;
    }
  }
}

int64_t DMI_thread(int64_t addr) {
  struct rank *rank = calloc(1, sizeof(*rank));
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  rank->may_lose = job.may_lose;
  rank->wanted = malloc((size_t)LARGEST + 8);
  if (join(rank, &job)) rounds(rank, &job);
  forget_all(rank);
  free(rank->wanted);
  free(rank);
  check_report(job.report);
  return 0;
}

/* ---- Members -------------------------------------------------------------------------------- */

#define MOST_MEMBERS 64

/* What notices have told; the lock is held by the thread that hears them, and by DMI_main. */
static struct {
  pthread_mutex_t lock;
  int32_t ids[MOST_MEMBERS];
  bool leaves[MOST_MEMBERS];
  int num, joined, left, lost;
} members = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int find(int32_t id) {
  for (int i = 0; i < members.num; i++) {
    if (members.ids[i] == id) return i;
  }
  return -1;
}

static void drop(int32_t id) {
  const int i = find(id);
  if (!IS(i >= 0)) return;
  members.num--;
  members.ids[i] = members.ids[members.num];
  members.leaves[i] = members.leaves[members.num];
}

static void *hear(void *arg) {
  DMI_node_t node;
  while (DMI_poll(&node) == DMI_TRUE) {
    if (node.state == DMI_OPEN) MUST(DMI_welcome(node.dmi_id));
    pthread_mutex_lock(&members.lock);
    if (node.state == DMI_OPEN && IS(members.num < MOST_MEMBERS)) {
      members.leaves[members.num] = false;
      members.ids[members.num++] = node.dmi_id;
      members.joined++;
    } else if (node.state == DMI_CLOSE && IS(find(node.dmi_id) >= 0)) {
      members.leaves[find(node.dmi_id)] = true;
    } else if (node.state == DMI_LOST) {
      drop(node.dmi_id);
      members.lost++;
    }
    pthread_mutex_unlock(&members.lock);
  }
  return arg;
}

/* The number of the members; *lost: of processes that were lost. */
static int joined(int *lost, int *left) {
  int num;
  pthread_mutex_lock(&members.lock);
  num = members.joined;
  *lost = members.lost;
  *left = members.left;
  pthread_mutex_unlock(&members.lock);
  return num;
}

/* ---- The program ---------------------------------------------------------------------------- */

struct whole {
  struct job job;
  struct round round;
  int64_t jobs;
  DMI_thread_t threads[MOST_RANKS];
  int32_t where[MOST_RANKS]; /* where they run; -1: nowhere */
  int64_t rng;
  int lost; /* processes, before this round */
};

static void choose(struct whole *whole) {
  uint64_t rng = (uint64_t)whole->rng++;
  struct round *round = &whole->round;
  int32_t ids[MOST_MEMBERS];
  int num = 0;
  pthread_mutex_lock(&members.lock);
  for (int i = 0; i < members.num; i++) {
    if (!members.leaves[i]) ids[num++] = members.ids[i];
  }
  pthread_mutex_unlock(&members.lock);
  round->number++;
  round->ends = 0;
  round->size = 2 + (int32_t)rng_below(&rng, MOST_RANKS - 1);
  for (int i = 0; i < round->size; i++) /* the first one stays; some others, too */
    round->places[i] = i == 0 ? ids[0] : ids[rng_below(&rng, (uint64_t)num)];
  for (int i = 1; i < round->size; i++) {
    for (int j = 0; j < num && rng_below(&rng, 2); j++) {
      if (whole->where[i] == ids[j]) round->places[i] = ids[j];
    }
  }
}

static void publish(const struct whole *whole) {
  MUST(DMI_write(whole->job.round, sizeof(whole->round), &whole->round, DMI_PUT_WRITE, NULL));
}

static void join_thread(struct whole *whole, int rank) {
  if (whole->where[rank] < 0) return;
  if (!DMI_join(whole->threads[rank], NULL, NULL))
    IS(whole->job.may_lose && DMI_errno() == DMI_ELOST);
  whole->where[rank] = -1;
}

/* Threads for the ranks that have none there.  One that leaves makes place first. */
static void populate(struct whole *whole) {
  for (int i = 0; i < MOST_RANKS; i++) {
    int64_t at = whole->jobs + i * (int64_t)sizeof(struct job);
    struct job job = whole->job;
    DMI_thread_t before = whole->threads[i];
    const bool had = whole->where[i] >= 0;
    const int32_t place = i < whole->round.size ? whole->round.places[i] : -1;
    if (whole->where[i] == place) continue;
    whole->where[i] = -1;
    if (place >= 0) {
      job.rank = i;
      job.first = whole->round.number;
      MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
      if (DMI_create(&whole->threads[i], place, at, NULL))
        whole->where[i] = place;
      else
        IS(job.may_lose);
    }
    if (had && !DMI_join(before, NULL, NULL)) IS(job.may_lose && DMI_errno() == DMI_ELOST);
  }
}

/* True if a process was lost since the round was chosen. */
static bool any_lost(const struct whole *whole) {
  int lost, left;
  (void)joined(&lost, &left);
  return lost != whole->lost;
}

/* Waits until all ranks have done the round.  False: a process was lost. */
static bool done(const struct whole *whole) {
  for (int i = 0; i < whole->round.size; i++) {
    for (int64_t looks = 0; get_int64(whole->job.done + 8 * i) < whole->round.number; looks++) {
      if (any_lost(whole)) return false;
      look_again(looks);
    }
  }
  return true;
}

/* All leave; ranks that the lost process should have taken are not waited for any more. */
static void gather_again(struct whole *whole) {
  int lost, left;
  int32_t size = whole->round.size;
  (void)joined(&lost, &left);
  pthread_mutex_lock(&members.lock);
  for (int i = size - 1; i > 0; i--) {
    if (find(whole->round.places[i]) < 0) size = i;
  }
  pthread_mutex_unlock(&members.lock);
  OK(DMI_team_resize(whole->job.team, size));
  whole->round.number++;
  whole->round.ends = 1;
  publish(whole);
  for (int i = 0; i < MOST_RANKS; i++)
    join_thread(whole, i);
  whole->lost = lost;
}

/* Those that want to leave, and have no ranks any more. */
static void goodbye(const struct whole *whole) {
  int32_t id = -1;
  pthread_mutex_lock(&members.lock);
  for (int i = 0; i < members.num; i++) {
    bool used = false;
    for (int r = 0; r < MOST_RANKS; r++)
      used = used || whole->where[r] == members.ids[i];
    if (members.leaves[i] && !used) id = members.ids[i];
  }
  if (id >= 0) {
    drop(id);
    members.left++;
  }
  pthread_mutex_unlock(&members.lock);
  if (id >= 0) OK(DMI_goodbye(id));
  if (id >= 0) say("left %d", members.left);
}

static void run(struct whole *whole, int64_t least, const int *wanted) {
  int64_t more = least;
  for (int64_t i = 0; i < more; i++) {
    int lost, left, all = joined(&lost, &left);
    /* Some rounds behind the last change. */
    if (i + 3 >= more && (all < wanted[0] || left < wanted[1] || lost < wanted[2])) more = i + 4;
    choose(whole);
    OK(DMI_team_resize(whole->job.team, whole->round.size));
    publish(whole);
    populate(whole);
    say("round %" PRId64 ": %d ranks", whole->round.number, whole->round.size);
    if (!done(whole)) {
      gather_again(whole);
      say("lost %d", whole->lost);
    }
    goodbye(whole);
  }
  whole->round.number++;
  whole->round.ends = 1;
  publish(whole);
  for (int i = 0; i < MOST_RANKS; i++)
    join_thread(whole, i);
}

void DMI_main(int argc, char **argv) {
  struct whole whole = {.round = {.number = 0}};
  int numbers[7] = {1, 3, 3, 1, 0, 0, 0}, wanted[3], lost, left;
  pthread_t thread;
  for (int i = 1; i < argc && i <= 7; i++)
    numbers[i - 1] = atoi(argv[i]);
  whole.job.seed = whole.rng = numbers[0];
  whole.job.programs = numbers[2];
  whole.job.may_lose = numbers[6] > 0;
  wanted[0] = numbers[3] + numbers[4];
  wanted[1] = numbers[5];
  wanted[2] = numbers[6];
  for (int i = 0; i < MOST_RANKS; i++)
    whole.where[i] = -1;
  MUST(DMI_mmap(&whole.job.report, 16, 1, NULL));
  MUST(DMI_mmap(&whole.job.team, sizeof(DMI_team_t), 1, NULL));
  MUST(DMI_mmap(&whole.job.round, sizeof(struct round), 1, NULL));
  MUST(DMI_mmap(&whole.job.done, 8 * MOST_RANKS, 1, NULL));
  MUST(DMI_mmap(&whole.jobs, sizeof(struct job), MOST_RANKS, NULL));
  MUST(pthread_create(&thread, NULL, hear, NULL) == 0 ? DMI_TRUE : DMI_FALSE);
  pthread_detach(thread); /* it hears until the program ends */
  for (int64_t looks = 0; joined(&lost, &left) < numbers[3]; looks++)
    look_again(looks);
  OK(DMI_team_init(whole.job.team, 1));
  run(&whole, numbers[1], wanted);
  OK(DMI_team_destroy(whole.job.team));
  verdict("team_random", whole.job.report);
}
