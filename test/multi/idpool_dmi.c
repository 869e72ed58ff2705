/*
 * idpool_dmi.c - pools of small numbers: nobody has a number that another one has.
 *
 *   dmirun idpool_dmi N          N processes
 *   dmirun idpool_dmi N lost     a process is killed that has three numbers, and locks the pool
 */
#include "multi.h"

#include "dmi_ext.h"

#define THREADS 3 /* in each process */
#define HELD 20   /* numbers that a thread has at a time, at most */
#define ROUNDS 100

/* In global memory. */
enum { POOL = 0, REPORT = 64, USED = 4096 };
#define PLACES 4096

static void use(int64_t base, int32_t id) {
  int64_t old = 1;
  IS(id >= 0 && id < PLACES);
  MUST(DMI_fad(base + USED + 8 * (int64_t)id, 1, &old, DMI_PUT_ATOMIC, NULL));
  EQ(old, 0);
}

static void unuse(int64_t base, int32_t id) {
  int64_t old = 0;
  MUST(DMI_fad(base + USED + 8 * (int64_t)id, -1, &old, DMI_PUT_ATOMIC, NULL));
  EQ(old, 1);
  OK(DMI_idpool_put(base + POOL, id));
}

static void take_and_give(int64_t base, uint64_t seed) {
  int32_t ids[HELD], num = 0;
  for (int64_t i = 0; i < scaled(ROUNDS); i++) {
    if (num < HELD && (num == 0 || rng_below(&seed, 2))) {
      MUST(DMI_idpool_get(base + POOL, &ids[num]));
      use(base, ids[num++]);
    } else {
      int32_t which = (int32_t)rng_below(&seed, (uint64_t)num);
      unuse(base, ids[which]);
      ids[which] = ids[--num];
    }
    IS(num == 0 || ids[num - 1] < 3 * THREADS * HELD);
  }
  while (num)
    unuse(base, ids[--num]);
}

int64_t DMI_thread(int64_t arg) {
  int64_t base = arg / 16 * 16;
  int32_t id;
  if (arg % 16 == 15) { /* dies with these, and with the mutex */
    for (int i = 0; i < 3; i++)
      MUST(DMI_idpool_get(base + POOL, &id));
    MUST(DMI_mutex_lock(base + POOL));
    say("kill now");
    for (;;)
      pause();
  }
  take_and_give(base, (uint64_t)arg);
  check_report(base + REPORT);
  return 0;
}

static void alone(int64_t base) {
  const int32_t many = 1500;
  int32_t id;
  OK(DMI_idpool_init(base));
  for (int32_t i = 0; i < many; i++) {
    MUST(DMI_idpool_get(base, &id));
    EQ(id, i);
  }
  OK(DMI_idpool_put(base, 700));
  OK(DMI_idpool_put(base, 3));
  OK(DMI_idpool_get(base, &id));
  EQ(id, 3);
  OK(DMI_idpool_get(base, &id));
  EQ(id, 700);
  OK(DMI_idpool_get(base, &id));
  EQ(id, many);
  OK(DMI_idpool_put(base, 5));
  FAILS(DMI_idpool_put(base, 5), DMI_EINVAL);
  FAILS(DMI_idpool_put(base, -1), DMI_EINVAL);
  FAILS(DMI_idpool_put(base, many + 1), DMI_EINVAL);
  FAILS(DMI_idpool_put(base, INT32_MAX), DMI_EINVAL);
  OK(DMI_idpool_destroy(base));
  FAILS(DMI_idpool_put(base, 1), DMI_EINVAL);
  OK(DMI_idpool_get(base, &id)); /* zeros are a pool */
  EQ(id, 0);
  OK(DMI_idpool_destroy(base));
}

static void wrong(int64_t base) {
  char bytes[sizeof(DMI_idpool_t)];
  int32_t id = 7;
  FAILS(DMI_idpool_get(base, NULL), DMI_EINVAL);
  FAILS(DMI_idpool_get(8, &id), DMI_EADDR);
  FAILS(DMI_idpool_init(8), DMI_EADDR);
  FAILS(DMI_idpool_init(base + 4096 - 8), DMI_ERANGE);
  memset(bytes, 'x', sizeof(bytes));
  MUST(DMI_write(base, sizeof(bytes), bytes, DMI_PUT_WRITE, NULL));
  FAILS(DMI_idpool_get(base, &id), DMI_EINVAL); /* no mutex */
  memset(bytes, 0, 16);
  MUST(DMI_write(base, sizeof(bytes), bytes, DMI_PUT_WRITE, NULL));
  FAILS(DMI_idpool_get(base, &id), DMI_EINVAL); /* no table */
  FAILS(DMI_idpool_destroy(base), DMI_EINVAL);
  EQ(id, 7);
  OK(DMI_idpool_init(base));
}

static void run_lost(int64_t base, const int32_t *ids, int32_t num) {
  DMI_thread_t thread;
  DMI_node_t node;
  int32_t id;
  MUST(DMI_idpool_get(base + POOL, &id)); /* so that its table is in this process */
  MUST(DMI_idpool_put(base + POOL, id));
  MUST(DMI_create(&thread, ids[num - 1], base + 15, NULL));
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_LOST);
  for (int32_t i = 3; i < 6; i++) {
    MUST(DMI_idpool_get(base + POOL, &id));
    EQ(id, i);
  }
  OK(DMI_idpool_put(base + POOL, 1)); /* for the one that is lost */
  OK(DMI_idpool_get(base + POOL, &id));
  EQ(id, 1);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t threads[64];
  int32_t ids[8], num = argc > 1 ? atoi(argv[1]) : 0;
  int64_t base;
  gather(num, ids);
  MUST(DMI_mmap(&base, 4096, 1 + PLACES * 8 / 4096, NULL));
  if (argc > 2) {
    run_lost(base, ids, num);
    verdict("idpool", 0);
    return;
  }
  alone(base);
  wrong(base);
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_create(&threads[i], ids[i % num], base + i, NULL));
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  MUST(DMI_idpool_get(base + POOL, &ids[0]));
  EQ(ids[0], 0); /* all came back */
  OK(DMI_idpool_destroy(base + POOL));
  verdict("idpool", base + REPORT);
}
