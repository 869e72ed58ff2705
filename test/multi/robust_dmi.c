/*
 * robust_dmi.c - what waits survives the loss of a process: what robust.t runs.
 *
 * Three processes.  A thread of the second one holds a mutex, another waits for a condition, a
 * third one at a barrier, and then that process is killed.  The first process owns their page.
 */
#include "multi.h"

struct shared {
  DMI_mutex_t mutex, guard;
  DMI_cond_t cond;
  DMI_barrier_t barrier;
  int64_t asleep, open; /* threads that sleep, or hold the mutex; `open` is guarded by guard */
  int64_t never;
};

#define FIELD(addr, name) ((int64_t) & ((struct shared *)(addr))->name)

enum what { HOLDS, SLEEPS, MEETS, WAITS, KINDS };

/* Of the process that is killed: never returns. */
static void for_ever(int64_t addr) {
  int64_t never = 0;
  (void)DMI_watch(FIELD(addr, never), sizeof(never), &never, &never, NULL);
}

static void holds(int64_t addr) {
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  OK(DMI_fad(FIELD(addr, asleep), 1, NULL, DMI_PUT_ATOMIC, NULL));
  say("held");
  for_ever(addr);
}

/* In the process that lives: it gets the mutex, and is told. */
static void waits(int64_t addr) {
  say("waits");
  FAILS(DMI_mutex_lock(FIELD(addr, mutex)), DMI_EOWNERDEAD);
  OK(DMI_mutex_unlock(FIELD(addr, mutex))); /* and does not mend it */
}

static void sleeps(int64_t addr) {
  int64_t open = 0;
  OK(DMI_mutex_lock(FIELD(addr, guard)));
  OK(DMI_fad(FIELD(addr, asleep), 1, NULL, DMI_PUT_ATOMIC, NULL));
  while (!open) {
    OK(DMI_cond_wait(FIELD(addr, cond), FIELD(addr, guard)));
    OK(DMI_read(FIELD(addr, open), 8, &open, DMI_GET_READ, NULL));
  }
  OK(DMI_mutex_unlock(FIELD(addr, guard)));
}

/* Three are to meet; when one is lost, two do. */
static void meets(int64_t addr) {
  DMI_local_barrier_t barrier;
  double sum = 0;
  OK(DMI_local_barrier_init(&barrier, FIELD(addr, barrier)));
  FAILS(DMI_local_barrier_allreduce(&barrier, 1, &sum, 3), DMI_EBROKEN);
  OK(DMI_local_barrier_allreduce(&barrier, 1, &sum, 2));
  IS(sum == 2);
  OK(DMI_local_barrier_destroy(&barrier));
}

int64_t DMI_thread(int64_t arg) {
  void (*const jobs[KINDS])(int64_t) = {holds, sleeps, meets, waits};
  jobs[arg % KINDS](arg - arg % KINDS); /* the page begins at a multiple */
  return atomic_load(&checks_failed);
}

static DMI_thread_t begin(int32_t where, enum what what, int64_t addr) {
  DMI_thread_t thread;
  MUST(DMI_create(&thread, where, addr + (int64_t)what, NULL));
  return thread;
}

static int64_t asleep(int64_t addr) {
  int64_t num;
  MUST(DMI_read(FIELD(addr, asleep), 8, &num, DMI_GET_READ, NULL));
  return num;
}

static void after(int64_t addr, DMI_thread_t *threads) {
  DMI_local_barrier_t late;
  int64_t failed, one = 1;
  double sum = 0;
  /* Its notice may come at any time; the calls do not wait for it. */
  MUST(DMI_join(threads[0], &failed, NULL)); /* waits() */
  EQ(failed, 0);
  FAILS(DMI_mutex_lock(FIELD(addr, mutex)), DMI_EOWNERDEAD);
  OK(DMI_mutex_consistent(FIELD(addr, mutex)));
  FAILS(DMI_mutex_consistent(FIELD(addr, mutex)), DMI_EINVAL);
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  /* One signal, and the first ticket is that of the lost thread. */
  OK(DMI_mutex_lock(FIELD(addr, guard)));
  OK(DMI_write(FIELD(addr, open), 8, &one, DMI_PUT_WRITE, NULL));
  OK(DMI_cond_signal(FIELD(addr, cond)));
  OK(DMI_mutex_unlock(FIELD(addr, guard)));
  MUST(DMI_join(threads[1], &failed, NULL));
  EQ(failed, 0);
  OK(DMI_local_barrier_init(&late, FIELD(addr, barrier))); /* knows of the loss */
  OK(DMI_local_barrier_allreduce(&late, 1, &sum, 2));
  IS(sum == 2);
  OK(DMI_local_barrier_destroy(&late));
  MUST(DMI_join(threads[2], &failed, NULL));
  EQ(failed, 0);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t threads[3];
  int32_t ids[3];
  int64_t addr, zero = 0;
  (void)argc, (void)argv;
  gather(3, ids);
  MUST(DMI_mmap(&addr, 4096, 1, NULL));
  MUST(DMI_write(FIELD(addr, open), 8, &zero, DMI_EXCLUSIVE_WRITE, NULL));
  (void)begin(ids[1], HOLDS, addr);
  (void)begin(ids[1], SLEEPS, addr);
  for (int64_t looks = 0; asleep(addr) < 2; looks++)
    look_again(looks);
  (void)begin(ids[1], MEETS, addr);
  threads[1] = begin(ids[2], SLEEPS, addr);
  threads[2] = begin(ids[2], MEETS, addr);
  for (int64_t looks = 0; asleep(addr) < 3; looks++)
    look_again(looks);
  threads[0] = begin(ids[2], WAITS, addr);
  say("kill");
  after(addr, threads);
  verdict("robust", 0);
}
