/*
 * orphans_dmi.c - whatever waits, or is asked for, when the owner of its page is killed: what
 * robust.t runs.
 *
 *   orphans_dmi copy     four processes; the first one has a copy of the page: it goes on
 *   orphans_dmi none     nobody has: it is lost
 *   orphans_dmi malloc   three processes; the first one, which has all of the allocator, is killed
 *
 * The second process owns the page, and is killed; so is the fourth, whose threads hold a mutex and
 * wait for everything there is.  Those of the third wait, too, and live.
 */
#include "multi.h"

/* The page of the second process; the one behind it is never copied. */
struct shared {
  DMI_mutex_t mutex, guard;
  DMI_cond_t cond;
  DMI_barrier_t barrier;
  int64_t open, flag;
};

/* The page of the first process. */
struct state {
  int64_t shared;  /* address */
  int64_t copies;  /* bool */
  int64_t waiting; /* threads that have begun to wait */
  int64_t word, never;
  DMI_mutex_t held;
  DMI_rwset_t rwset;
};

#define PAGE 4096
#define SHARED(addr, name) ((int64_t) & ((struct shared *)(addr))->name)
#define STATE(addr, name) ((int64_t) & ((struct state *)(addr))->name)

static int64_t get(int64_t addr) {
  int64_t value = 0;
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  return value;
}

static void begun(int64_t state) {
  OK(DMI_fad(STATE(state, waiting), 1, NULL, DMI_PUT_ATOMIC, NULL));
}

/* Waits until the process is lost that owns the page, of which there is no copy. */
static void until_lost(int64_t addr) {
  int64_t value = 0;
  FAILS(DMI_watch(addr, 8, &value, &value, NULL), DMI_ELOST);
}

/* ---- Threads -------------------------------------------------------------------------------- */

/* Two pages that this process owns. */
static int64_t makes(int64_t state) {
  unsigned char zeros[2 * PAGE] = {0};
  int64_t addr;
  (void)state;
  MUST(DMI_mmap(&addr, PAGE, 2, NULL));
  MUST(DMI_write(addr, sizeof(zeros), zeros, DMI_EXCLUSIVE_WRITE, NULL));
  return addr;
}

static int64_t decomposes(int64_t state) {
  const int64_t elements[] = {2, 3};
  OK(DMI_rwset_decompose(STATE(state, rwset), 1, elements, 2));
  return 0;
}

static int64_t publishes(int64_t state) {
  const int64_t values[] = {102, 103};
  DMI_local_rwset_t local;
  OK(DMI_local_rwset_init(&local, STATE(state, rwset), 1, NULL, 0));
  OK(DMI_local_rwset_write(&local, values, NULL));
  OK(DMI_local_rwset_destroy(&local));
  say("owner");
  return 0;
}

static int64_t suspends(int64_t state) {
  begun(state);
  OK(DMI_suspend());
  return 0;
}

/* Of the fourth process: waits behind the first one for the mutex, and holds another one. */
static int64_t holds(int64_t state) {
  OK(DMI_mutex_lock(STATE(state, held)));
  say("held");
  begun(state);
  (void)DMI_mutex_lock(SHARED(get(STATE(state, shared)), mutex));
  return 0;
}

static int64_t locks(int64_t state) {
  int64_t shared = get(STATE(state, shared));
  begun(state);
  if (get(STATE(state, copies))) {
    OK(DMI_mutex_lock(SHARED(shared, mutex)));
    OK(DMI_mutex_unlock(SHARED(shared, mutex)));
  } else {
    FAILS(DMI_mutex_lock(SHARED(shared, mutex)), DMI_ELOST);
  }
  return 0;
}

static int64_t sleeps(int64_t state) {
  int64_t shared = get(STATE(state, shared));
  bool copies = get(STATE(state, copies));
  OK(DMI_mutex_lock(SHARED(shared, guard)));
  begun(state);
  while (copies && !get(SHARED(shared, open)))
    OK(DMI_cond_wait(SHARED(shared, cond), SHARED(shared, guard)));
  if (copies) {
    OK(DMI_mutex_unlock(SHARED(shared, guard)));
  } else {
    FAILS(DMI_cond_wait(SHARED(shared, cond), SHARED(shared, guard)), DMI_ELOST);
  }
  return 0;
}

/* Of the fourth process: it may live until others meet again, and must not be among them. */
static int64_t arrives(int64_t state) {
  DMI_local_barrier_t barrier;
  double sum = 0;
  OK(DMI_local_barrier_init(&barrier, SHARED(get(STATE(state, shared)), barrier)));
  begun(state);
  (void)DMI_local_barrier_allreduce(&barrier, 1, &sum, 4);
  return 0;
}

/* Two processes are lost, perhaps one after the other: then each loss breaks a round. */
static int64_t meets(int64_t state) {
  int64_t shared = get(STATE(state, shared));
  DMI_local_barrier_t barrier;
  double sum = 0;
  OK(DMI_local_barrier_init(&barrier, SHARED(shared, barrier)));
  begun(state);
  if (get(STATE(state, copies))) {
    FAILS(DMI_local_barrier_allreduce(&barrier, 1, &sum, 4), DMI_EBROKEN);
    if (!DMI_local_barrier_allreduce(&barrier, 1, &sum, 3)) {
      EQ(DMI_errno(), DMI_EBROKEN);
      OK(DMI_local_barrier_allreduce(&barrier, 1, &sum, 3));
    }
    IS(sum == 3);
  } else {
    int32_t ret = DMI_local_barrier_allreduce(&barrier, 1, &sum, 4);
    for (int losses = 0; !ret && DMI_errno() == DMI_EBROKEN && losses < 2; losses++)
      ret = DMI_local_barrier_allreduce(&barrier, 1, &sum, 3);
    IS(!ret && DMI_errno() == DMI_ELOST);
  }
  OK(DMI_local_barrier_destroy(&barrier));
  return 0;
}

static int64_t watches(int64_t state) {
  int64_t flag = SHARED(get(STATE(state, shared)), flag), value = 0;
  begun(state);
  if (get(STATE(state, copies))) {
    OK(DMI_watch(flag, 8, &value, &value, NULL));
    EQ(value, 5);
  } else {
    FAILS(DMI_watch(flag, 8, &value, &value, NULL), DMI_ELOST);
  }
  return 0;
}

/* ---- The allocator --------------------------------------------------------------------------- */

#define KINDS 4
#define OBJECTS 200 /* of each kind */

static void make_objects(int64_t *objects, int64_t salt) {
  static const int64_t sizes[KINDS][2] = {{64, PAGE}, {64, 2 * PAGE}, {5000, PAGE}, {100, 256}};
  for (int64_t i = 0; i < KINDS * OBJECTS; i++) {
    int64_t value = salt + i;
    MUST(DMI_malloc(&objects[i], sizes[i % KINDS][0], sizes[i % KINDS][1]));
    MUST(DMI_write(objects[i], 8, &value, DMI_EXCLUSIVE_WRITE, NULL));
  }
}

static void free_objects(const int64_t *objects, int64_t salt) {
  for (int64_t i = 0; i < KINDS * OBJECTS; i++) {
    EQ(get(objects[i]), salt + i);
    OK(DMI_free(objects[i]));
  }
}

static int64_t allocates(int64_t state) {
  static int64_t before[KINDS * OBJECTS], after[KINDS * OBJECTS];
  EQ(get(STATE(state, never)), 0); /* a mapping that only lost processes know would be gone */
  make_objects(before, 1000);
  say("ready");
  until_lost(STATE(state, never));
  make_objects(after, 5000);
  free_objects(before, 1000);
  make_objects(before, 9000);
  free_objects(after, 5000);
  free_objects(before, 9000);
  verdict("orphans", 0);
  return 0;
}

/* ---- DMI_main -------------------------------------------------------------------------------- */

enum what {
  MAKES,
  DECOMPOSES,
  PUBLISHES,
  SUSPENDS,
  HOLDS,
  LOCKS,
  SLEEPS,
  ARRIVES,
  MEETS,
  WATCHES,
  ALLOCATES,
  WHATS
};

int64_t DMI_thread(int64_t arg) {
  static int64_t (*const jobs[WHATS])(int64_t) = {makes, decomposes, publishes, suspends,
                                                  holds, locks,      sleeps,    arrives,
                                                  meets, watches,    allocates};
  int64_t value = jobs[arg % PAGE](arg - arg % PAGE); /* the page begins at a multiple */
  return value ? value : atomic_load(&checks_failed);
}

static DMI_thread_t begin(int32_t where, enum what what, int64_t state) {
  DMI_thread_t thread;
  MUST(DMI_create(&thread, where, state + (int64_t)what, NULL));
  return thread;
}

static int64_t result(DMI_thread_t thread) {
  int64_t value = -1;
  MUST(DMI_join(thread, &value, NULL));
  return value;
}

static void wait_until(int64_t state, int64_t waiting) {
  for (int64_t looks = 0; get(STATE(state, waiting)) < waiting; looks++)
    look_again(looks);
}

/* What a group or read-write-set has of a lost page is not read or written; the rest is. */
static void parts(int64_t state, int64_t gone, DMI_local_rwset_t *local) {
  const int64_t addrs[] = {gone, STATE(state, word)}, sizes[] = {8, 8}, offsets[] = {0, 8};
  int64_t buf[4] = {0, 77, 0, 0}, own[] = {200, 201};
  DMI_local_group_t group;
  OK(DMI_group_init(&group, addrs, sizes, offsets, 2));
  FAILS(DMI_group_write(&group, buf, NULL), DMI_ELOST);
  EQ(get(STATE(state, word)), 77);
  buf[1] = 0;
  FAILS(DMI_group_read(&group, buf, NULL), DMI_ELOST);
  EQ(buf[1], 77);
  OK(DMI_group_destroy(&group));
  OK(DMI_local_rwset_write(local, own, NULL));
  FAILS(DMI_local_rwset_read(local, buf, NULL), DMI_ELOST);
  EQ(buf[0], 200);
  EQ(buf[1], 201);
  OK(DMI_local_rwset_destroy(local));
}

static void goes_on(int64_t shared) {
  DMI_local_barrier_t late;
  int64_t one = 1, five = 5;
  double sum = 0;
  OK(DMI_mutex_unlock(SHARED(shared, mutex)));
  OK(DMI_mutex_lock(SHARED(shared, guard)));
  OK(DMI_write(SHARED(shared, open), 8, &one, DMI_PUT_WRITE, NULL));
  OK(DMI_cond_signal(SHARED(shared, cond))); /* the first ticket is of a lost thread */
  OK(DMI_mutex_unlock(SHARED(shared, guard)));
  OK(DMI_write(SHARED(shared, flag), 8, &five, DMI_PUT_WRITE, NULL));
  OK(DMI_local_barrier_init(&late, SHARED(shared, barrier)));
  OK(DMI_local_barrier_allreduce(&late, 1, &sum, 3));
  IS(sum == 3);
  OK(DMI_local_barrier_destroy(&late));
}

/* All have been told: a write of the whole page ends that. */
static void is_lost(int64_t shared) {
  unsigned char zeros[PAGE] = {0};
  FAILS(DMI_mutex_unlock(SHARED(shared, mutex)), DMI_ELOST);
  OK(DMI_write(shared, PAGE, zeros, DMI_EXCLUSIVE_WRITE, NULL));
  OK(DMI_mutex_lock(SHARED(shared, mutex)));
  OK(DMI_mutex_unlock(SHARED(shared, mutex)));
}

static void all(int64_t state, bool copies) {
  static const enum what living[] = {LOCKS, SLEEPS, MEETS, MEETS, WATCHES, SUSPENDS};
  const int64_t mine[] = {0, 1}, every[] = {0, 1, 2, 3};
  unsigned char copy[PAGE];
  DMI_thread_t threads[6], dead;
  DMI_local_rwset_t local;
  int32_t ids[4];
  int64_t shared, yes = copies, values[4];
  gather(4, ids);
  shared = result(begin(ids[1], MAKES, state));
  MUST(DMI_write(STATE(state, shared), 8, &shared, DMI_PUT_WRITE, NULL));
  MUST(DMI_write(STATE(state, copies), 8, &yes, DMI_PUT_WRITE, NULL));
  MUST(DMI_rwset_init(STATE(state, rwset), 4, 8, 2));
  EQ(result(begin(ids[1], DECOMPOSES, state)), 0);
  MUST(DMI_rwset_decompose(STATE(state, rwset), 0, mine, 2));
  MUST(DMI_local_rwset_init(&local, STATE(state, rwset), 0, every, 4));
  EQ(result(begin(ids[1], PUBLISHES, state)), 0);
  OK(DMI_local_rwset_read(&local, values, NULL));
  EQ(values[3], 103);
  OK(DMI_mutex_lock(SHARED(shared, mutex)));
  dead = begin(ids[1], SUSPENDS, state);
  (void)begin(ids[3], HOLDS, state);
  (void)begin(ids[3], SLEEPS, state);
  wait_until(state, 3);
  (void)begin(ids[3], ARRIVES, state);
  (void)begin(ids[3], WATCHES, state);
  for (int i = 0; i < 6; i++)
    threads[i] = begin(ids[2], living[i], state);
  wait_until(state, 11);
  OK(DMI_mutex_lock(SHARED(shared, guard))); /* those that sleep have let go of it */
  OK(DMI_mutex_unlock(SHARED(shared, guard)));
  if (copies) OK(DMI_read(shared, PAGE, copy, DMI_UPDATE_READ, NULL));
  say("kill");
  until_lost(shared + PAGE);
  FAILS(DMI_mutex_lock(STATE(state, held)), DMI_EOWNERDEAD); /* the fourth is lost, too */
  OK(DMI_mutex_consistent(STATE(state, held)));
  OK(DMI_mutex_unlock(STATE(state, held)));
  parts(state, shared + PAGE, &local);
  if (copies) goes_on(shared);
  OK(DMI_wake(threads[5], NULL));
  FAILS(DMI_wake(dead, NULL), DMI_ETHREAD);
  for (int i = 0; i < 6; i++)
    EQ(result(threads[i]), 0);
  if (!copies) is_lost(shared);
  verdict("orphans", 0);
}

void DMI_main(int argc, char **argv) {
  unsigned char zeros[PAGE] = {0};
  int32_t ids[3];
  int64_t state;
  MUST(DMI_mmap(&state, PAGE, 1, NULL));
  MUST(DMI_write(state, PAGE, zeros, DMI_EXCLUSIVE_WRITE, NULL));
  if (argc > 1 && strcmp(argv[1], "malloc") == 0) {
    gather(3, ids);
    MUST(DMI_detach(begin(ids[1], ALLOCATES, state), NULL));
    MUST(DMI_detach(begin(ids[2], ALLOCATES, state), NULL));
  } else {
    all(state, argc > 1 && strcmp(argv[1], "copy") == 0);
  }
}
