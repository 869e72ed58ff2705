/*
 * guests_dmi.c - a team that meets at a barrier round after round, while guests join it and leave.
 *
 *   dmirun guests_dmi GUESTS     HOSTS processes stay; then one guest after the other joins, takes
 *                                the page of the mutex and the barrier away, and leaves with it
 *
 * The sum of a round tells all threads how many the next one is to have; so nobody is ever told
 * otherwise who is in the team.
 */
#include "multi.h"

#ifndef HOSTS
#define HOSTS 2 /* processes that stay */
#define EACH 2  /* threads in a process */
#endif
#define TEAM (HOSTS * EACH)

struct shared {
  char odd[5];
  DMI_mutex_t mutex;
  DMI_barrier_t barrier;
  int64_t count;  /* guarded by mutex */
  int64_t wanted; /* how many threads the team is to have; 0: it is over */
  int64_t size;   /* how many the coming round has */
  int64_t rounds; /* over */
  int64_t due;    /* what `count` must be */
  int64_t taken;  /* written by guests, to become the owner */
};

struct job {
  int64_t number;
  int64_t addr; /* of a struct shared */
  int64_t report;
};

#define FIELD(name) (job.addr + (int64_t)offsetof(struct shared, name))

/* A guest waits until the round that is the first with it is to come. */
static int64_t first_size(struct job job) {
  int64_t size = get_int64(FIELD(size));
  while (size <= job.number)
    OK(DMI_watch(FIELD(size), sizeof(size), &size, &size, NULL));
  return size;
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t barrier;
  struct job job;
  int64_t size, due = 0, rounds = 0;
  double next;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  OK(DMI_local_barrier_init(&barrier, FIELD(barrier)));
  size = first_size(job);
  if (job.number == TEAM) { /* the guest's process becomes the owner, with all that wait there */
    MUST(DMI_write(FIELD(taken), sizeof(size), &size, DMI_EXCLUSIVE_WRITE, NULL));
  }
  while (job.number < size) {
    OK(DMI_mutex_lock(FIELD(mutex)));
    put_int64(FIELD(count), get_int64(FIELD(count)) + 1);
    OK(DMI_mutex_unlock(FIELD(mutex)));
    next = job.number ? 0 : (double)get_int64(FIELD(wanted));
    due += size;
    if (!OK(DMI_local_barrier_allreduce(&barrier, next, &next, (int32_t)size))) break;
    size = (int64_t)next;
    rounds++;
    if (job.number) continue;
    put_int64(FIELD(due), due);
    put_int64(FIELD(rounds), rounds);
    put_int64(FIELD(size), size); /* welcomes guests: the previous round is over */
  }
  OK(DMI_local_barrier_destroy(&barrier));
  check_report(job.report);
  return rounds;
}

/* Begins EACH threads in a process. */
static void begin(int32_t id, int64_t first, struct job job, int64_t jobs, DMI_thread_t *threads) {
  for (int64_t i = 0; i < EACH; i++) {
    int64_t at = jobs + (first + i) * (int64_t)sizeof(job);
    job.number = first + i;
    MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[i], id, at, NULL));
  }
}

/* Lets the team have some rounds. */
static void rounds_pass(struct job job, int64_t num) {
  int64_t seen = get_int64(FIELD(rounds)), until = seen + num;
  while (seen < until)
    OK(DMI_watch(FIELD(rounds), sizeof(seen), &seen, &seen, NULL));
}

static void host_guest(int64_t guest, struct job job, int64_t jobs, int64_t rounds) {
  DMI_thread_t threads[EACH];
  DMI_node_t node;
  int64_t worked;
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_OPEN);
  MUST(DMI_welcome(node.dmi_id));
  begin(node.dmi_id, TEAM, job, jobs, threads);
  put_int64(FIELD(wanted), TEAM + EACH);
  rounds_pass(job, rounds);
  say("guest %d works", (int)guest);
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  put_int64(FIELD(wanted), TEAM);
  for (int i = 0; i < EACH; i++) {
    MUST(DMI_join(threads[i], &worked, NULL));
    IS(worked > 0);
  }
  OK(DMI_goodbye(node.dmi_id));
  rounds_pass(job, rounds);
}

void DMI_main(int argc, char **argv) {
  int64_t guests = argc > 1 ? atoll(argv[1]) : 3, jobs, rounds = scaled(50);
  DMI_thread_t threads[TEAM];
  struct job job = {0};
  int32_t ids[HOSTS];
  if (rounds < 5) rounds = 5; /* the third one after `wanted` rose cannot end without the guest */
  gather(HOSTS, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), TEAM + EACH, NULL));
  MUST(DMI_mmap(&job.addr, sizeof(struct shared), 1, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  MUST(DMI_mutex_init(FIELD(mutex)));
  MUST(DMI_barrier_init(FIELD(barrier)));
  put_int64(FIELD(wanted), TEAM);
  put_int64(FIELD(size), TEAM);
  for (int i = 0; i < HOSTS; i++)
    begin(ids[i], EACH * i, job, jobs, &threads[EACH * i]);
  for (int64_t guest = 1; guest <= guests; guest++)
    host_guest(guest, job, jobs, rounds);
  put_int64(FIELD(wanted), 0);
  for (int i = 0; i < TEAM; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  EQ(get_int64(FIELD(count)), get_int64(FIELD(due)));
  OK(DMI_barrier_destroy(FIELD(barrier)));
  OK(DMI_mutex_destroy(FIELD(mutex)));
  say("rounds: %d", (int)get_int64(FIELD(rounds)));
  verdict("guests", job.report);
}
