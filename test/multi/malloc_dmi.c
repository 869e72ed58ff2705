/*
 * malloc_dmi.c - DMI_malloc, DMI_realloc and DMI_free by all processes at once.
 *
 *   dmirun malloc_dmi guests    three processes; at "guest N comes" another one is to join, and to
 *                               leave at "guest N leaves"; the first one leaves at "the first
 *                               leaves"; the second prints the verdict
 *
 * The threads exchange objects by a table in global memory: who puts one there gets the one that
 * was there, made by anybody; looks whether its bytes are as they should be; and frees it, or makes
 * it larger or smaller and puts it back.
 */
#include "multi.h"

#define PROCESSES 3
#define TABLE 60

enum what { CROWD, LAST };

struct job {
  int64_t what, rounds, seed;
  int64_t table, report;
  int32_t first;
};

/* A place of the table, one page each. */
struct thing {
  int64_t addr, size, page_size;
  uint64_t seed; /* of its bytes */
};

static int32_t ids[PROCESSES];
static int64_t report, table;

static const int64_t page_sizes[] = {4096, 65536, 64, 1, 100, 1 << 20};

/* ---- Things -------------------------------------------------------------------------------- */

static void thing_fill(const struct thing *thing) {
  unsigned char *buf = my_malloc((size_t)thing->size);
  rng_fill(thing->seed, buf, (uint64_t)thing->size);
  OK(DMI_write(thing->addr, thing->size, buf, thing->seed % 2 ? DMI_PUT_WRITE : DMI_EXCLUSIVE_WRITE,
               NULL));
  my_free(buf);
}

/* The first `size` bytes are as they were written. */
static void thing_check(const struct thing *thing, int64_t size) {
  unsigned char *got = my_malloc((size_t)thing->size), *wanted = my_malloc((size_t)thing->size);
  rng_fill(thing->seed, wanted, (uint64_t)thing->size);
  if (OK(DMI_read(thing->addr, size, got, DMI_GET_READ, NULL))) SAME(got, wanted, size);
  my_free(got);
  my_free(wanted);
}

static int64_t any_size(uint64_t *rng) {
  switch (rng_below(rng, 8)) {
    case 0:
      return 1 + (int64_t)rng_below(rng, 16);
    case 1:
      return 1 + (int64_t)rng_below(rng, 10000);
    case 2:
      return rng_below(rng, 10) ? 3000 : 300000 + (int64_t)rng_below(rng, 100000);
    default:
      return 1 + (int64_t)rng_below(rng, 200);
  }
}

static void thing_new(struct thing *thing, uint64_t *rng) {
  thing->size = any_size(rng);
  thing->page_size = page_sizes[rng_below(rng, rng_below(rng, 4) ? 1 : 6)];
  if (thing->page_size == 1 && thing->size > 300) thing->size = 300;
  thing->seed = rng_next(rng);
  thing->addr = 0;
  if (!OK(DMI_malloc(&thing->addr, thing->size, thing->page_size))) return;
  if (thing->page_size % 16 == 0) EQ(thing->addr % 16, 0);
  thing_fill(thing);
}

static void thing_resize(struct thing *thing, uint64_t *rng) {
  struct thing before = *thing;
  int64_t both;
  thing->size = any_size(rng);
  if (rng_below(rng, 4) == 0) thing->page_size = 4096;
  if (thing->page_size == 1 && thing->size > 300) thing->size = 300;
  OK(DMI_realloc(before.addr, &thing->addr, thing->size, thing->page_size));
  both = before.size < thing->size ? before.size : thing->size;
  before.addr = thing->addr;
  thing_check(&before, both);
  thing_fill(thing);
}

/* ---- The crowd ----------------------------------------------------------------------------- */

static void job_crowd(const struct job *job) {
  uint64_t rng = (uint64_t)job->seed;
  for (int64_t i = 0; i < job->rounds; i++) {
    int64_t at = job->table + (int64_t)rng_below(&rng, TABLE) * (int64_t)sizeof(struct thing);
    struct thing mine = {0}, there;
    if (rng_below(&rng, 3)) thing_new(&mine, &rng);
    MUST(DMI_fas(at, sizeof(mine), &mine, &there, any_atomic(&rng), NULL));
    if (!there.addr) continue;
    thing_check(&there, there.size);
    if (rng_below(&rng, 4) == 0) {
      thing_resize(&there, &rng);
      MUST(DMI_fas(at, sizeof(there), &there, &mine, DMI_PUT_ATOMIC, NULL));
      there = mine;
      if (!there.addr) continue;
      thing_check(&there, there.size);
    }
    OK(DMI_free(there.addr));
  }
}

static void table_clear(int64_t from) {
  for (int i = 0; i < TABLE; i++) {
    struct thing nothing = {0}, there;
    MUST(DMI_fas(from + i * (int64_t)sizeof(there), sizeof(there), &nothing, &there, DMI_PUT_ATOMIC,
                 NULL));
    if (!there.addr) continue;
    thing_check(&there, there.size);
    OK(DMI_free(there.addr));
  }
}

static DMI_thread_t start(int32_t id, const struct job *job) {
  DMI_thread_t thread;
  int64_t addr;
  MUST(DMI_malloc(&addr, sizeof(*job), 4096));
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, id, addr, NULL));
  return thread;
}

static void crowd(const int32_t *who, int num, int64_t rounds, int64_t seed) {
  DMI_thread_t threads[2 * (PROCESSES + 1)];
  struct job job = {.what = CROWD, .rounds = rounds, .table = table, .report = report};
  for (int i = 0; i < 2 * num; i++) {
    job.seed = seed * 100 + i;
    threads[i] = start(who[i / 2], &job);
  }
  for (int i = 0; i < 2 * num; i++)
    OK(DMI_join(threads[i], NULL, NULL));
}

/* ---- By one thread ------------------------------------------------------------------------- */

static void test_wrong(void) {
  int64_t addr = 5, mapping, small, large;
  FAILS(DMI_malloc(NULL, 8, 4096), DMI_EINVAL);
  FAILS(DMI_malloc(&addr, 0, 4096), DMI_ESIZE);
  FAILS(DMI_malloc(&addr, -1, 4096), DMI_ESIZE);
  FAILS(DMI_malloc(&addr, 8, 0), DMI_ESIZE);
  FAILS(DMI_malloc(&addr, 8, -4096), DMI_ESIZE);
  FAILS(DMI_malloc(&addr, INT64_MAX, 4096), DMI_ESIZE);
  FAILS(DMI_malloc(&addr, INT64_MAX, INT64_MAX), DMI_ESIZE);
  EQ(addr, 5);
  OK(DMI_mmap(&mapping, 4096, 1, NULL));
  OK(DMI_malloc(&small, 100, 4096));
  OK(DMI_malloc(&large, 1000000, 4096));
  FAILS(DMI_free(0), DMI_EADDR);
  FAILS(DMI_free(-1), DMI_EADDR);
  FAILS(DMI_free(mapping), DMI_EADDR);
  FAILS(DMI_free(small + 1), DMI_EADDR);
  FAILS(DMI_free(small + 16), DMI_EADDR);
  FAILS(DMI_free(small + 112), DMI_EADDR); /* the next slot: never given out */
  FAILS(DMI_free(large + 4096), DMI_EADDR);
  FAILS(DMI_munmap(small, NULL), DMI_EADDR);
  FAILS(DMI_munmap(small / 4096 * 4096, NULL), DMI_EADDR); /* the arena begins there */
  FAILS(DMI_munmap(large, NULL), DMI_EADDR);
  FAILS(DMI_munmap(INT64_C(3) << 61, NULL), DMI_EADDR); /* the allocator's own pages */
  FAILS(DMI_read(INT64_C(3) << 61, 8, &addr, DMI_GET_READ, NULL), DMI_EADDR);
  FAILS(DMI_write(INT64_C(3) << 61, 8, &addr, DMI_PUT_WRITE, NULL), DMI_EADDR);
  FAILS(DMI_fad(INT64_C(3) << 61, 1, NULL, DMI_PUT_ATOMIC, NULL), DMI_EADDR);
  FAILS(DMI_free(INT64_C(3) << 61), DMI_EADDR);
  FAILS(DMI_realloc(small + 16, &addr, 8, 4096), DMI_EADDR);
  FAILS(DMI_realloc(small, NULL, 8, 4096), DMI_EINVAL);
  FAILS(DMI_realloc(small, &addr, 0, 4096), DMI_ESIZE);
  FAILS(DMI_realloc(small, &addr, 8, -1), DMI_ESIZE);
  FAILS(DMI_realloc(small, &addr, INT64_MAX, 1), DMI_ESIZE);
  EQ(addr, 5);
  OK(DMI_realloc(small, &addr, 110, 4096)); /* its slot is large enough */
  EQ(addr, small);
  OK(DMI_free(small));
  OK(DMI_free(large));
  FAILS(DMI_free(small), DMI_EADDR);
  FAILS(DMI_free(large), DMI_EADDR);
  FAILS(DMI_realloc(small, &addr, 110, 4096), DMI_EADDR);
  FAILS(DMI_realloc(large, &addr, 110, 4096), DMI_EADDR);
  OK(DMI_realloc(DMI_NULL, &addr, 110, 4096));
  OK(DMI_free(addr));
  OK(DMI_munmap(mapping, NULL));
}

/* An object that fits into a page takes a read-modify-write of all its bytes, and none touches
 * another. */
static void test_shapes(void) {
  int64_t addr[40], size[40];
  unsigned char *out = my_malloc(70000), *in = my_malloc(70000);
  for (size_t p = 0; p < sizeof(page_sizes) / sizeof(page_sizes[0]); p++) {
    for (int i = 0; i < 40; i++) {
      size[i] =
          i < 20 ? 1 + 7 * i : (page_sizes[p] < 60000 ? page_sizes[p] : 60000) * (i - 19) / 20;
      if (size[i] == 0) size[i] = 1;
      OK(DMI_malloc(&addr[i], size[i], page_sizes[p]));
      memset(out, i + 1, (size_t)size[i]);
      if (size[i] <= page_sizes[p]) {
        OK(DMI_fas(addr[i], size[i], out, in, DMI_EXCLUSIVE_ATOMIC, NULL));
      } else {
        OK(DMI_write(addr[i], size[i], out, DMI_EXCLUSIVE_WRITE, NULL));
      }
    }
    for (int i = 0; i < 40; i++) {
      memset(out, i + 1, (size_t)size[i]);
      OK(DMI_read(addr[i], size[i], in, DMI_GET_READ, NULL));
      SAME(in, out, size[i]);
    }
    for (int i = 0; i < 40; i++)
      OK(DMI_free(addr[(i * 7 + 3) % 40]));
  }
  my_free(out);
  my_free(in);
}

/* One object that grows to megabytes and shrinks again, in pages of changing sizes. */
static void test_grow(void) {
  struct thing thing = {.size = 1, .page_size = 4096, .seed = 3};
  MUST(DMI_malloc(&thing.addr, thing.size, thing.page_size));
  for (int i = 0; i < 60; i++) {
    struct thing before = thing;
    int64_t size = i < 30 ? before.size * 8 / 5 + 1 : before.size * 5 / 8;
    thing_fill(&before);
    if (i % 10 == 9) thing.page_size = page_sizes[i / 10 % 2];
    OK(DMI_realloc(before.addr, &thing.addr, size, thing.page_size));
    before.addr = thing.addr;
    thing_check(&before, before.size < size ? before.size : size);
    thing.size = size;
    thing.seed++;
  }
  OK(DMI_free(thing.addr));
}

/* Bytes of memory of this process. */
static int64_t resident(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return pages * 4096;
}

/* Memory that was freed is used again: many small objects, freed in another order, and again. */
static void test_again(int64_t num) {
  int64_t *addr = my_malloc((size_t)num * sizeof(*addr)), before = 0;
  for (int round = 0; round < 6; round++) {
    for (int64_t i = 0; i < num; i++) {
      MUST(DMI_malloc(&addr[i], 64, 4096));
      MUST(DMI_write(addr[i], 8, &addr[i], DMI_EXCLUSIVE_WRITE, NULL));
    }
    for (int64_t i = 0; i < num; i++) {
      int64_t got = 0, at = addr[i * 7919 % num]; /* prime */
      MUST(DMI_read(at, 8, &got, DMI_GET_READ, NULL));
      EQ(got, at);
      OK(DMI_free(at));
    }
    if (round == 1) before = resident();
  }
  if (scaled(10) == 10) IS(resident() < before + num * 64);
  my_free(addr);
}

static void test_bounded(void) {
  int64_t before = 0, after, num = scaled(200), *addr = my_malloc((size_t)num * sizeof(*addr));
  unsigned char *bytes = my_malloc(20000);
  memset(bytes, 7, 20000);
  for (int64_t round = 0; round < 100; round++) {
    for (int64_t i = 0; i < num; i++) { /* 4 MB a round, of another class each time */
      int64_t size = 10000 + 100 * round - (i % 5);
      MUST(DMI_malloc(&addr[i], size, 65536));
      MUST(DMI_write(addr[i], size, bytes, DMI_EXCLUSIVE_WRITE, NULL));
    }
    for (int64_t i = 0; i < num; i++)
      OK(DMI_free(addr[i]));
    if (round == 20) before = resident();
  }
  after = resident();
  say("malloc: %lld KiB after 20 rounds of 3 MB each, %lld KiB after 100", (long long)before / 1024,
      (long long)after / 1024);
  if (scaled(10) == 10) IS(after < before + 40000000);
  my_free(addr);
  my_free(bytes);
}

/* ---- The program --------------------------------------------------------------------------- */

/* In the second process, once the first is gone: everything is still there, and can be freed. */
static void job_last(const struct job *job) {
  DMI_node_t node, nodes[PROCESSES];
  int32_t num;
  say("the second stays");
  OK(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, job->first);
  OK(DMI_goodbye(node.dmi_id));
  do {
    OK(DMI_nodes(nodes, &num, PROCESSES));
  } while (num == PROCESSES);
  job_crowd(job);
  table_clear(job->table);
  verdict("malloc", job->report);
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  OK(DMI_free(addr));
  if (job.what == LAST) {
    job_last(&job);
    return 0;
  }
  job_crowd(&job);
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  int guests = argc > 1 ? atoi(argv[1]) : 0;
  int32_t who[PROCESSES + 1];
  int64_t began, addr, rounds = scaled(2000);
  DMI_node_t node;
  struct job last = {.what = LAST, .rounds = scaled(1000), .seed = 999};
  gather(PROCESSES, ids);
  memcpy(who, ids, sizeof(ids));
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&table, sizeof(struct thing), TABLE, NULL));
  test_wrong();
  test_shapes();
  test_grow();
  test_again(scaled(20000));
  test_bounded();
  began = now_ns();
  for (int i = 0; i < 1000; i++) {
    MUST(DMI_malloc(&addr, 100, 4096));
    MUST(DMI_free(addr));
  }
  say("malloc: %.2f us for a pair", (double)(now_ns() - began) / 1e6);
  crowd(ids, PROCESSES, rounds, 1);
  for (int guest = 1; guest <= guests; guest++) {
    say("guest %d comes", guest);
    OK(DMI_poll(&node));
    EQ(node.state, DMI_OPEN);
    OK(DMI_welcome(node.dmi_id));
    who[PROCESSES] = node.dmi_id;
    crowd(who, PROCESSES + 1, guests > 100 ? 20 : scaled(200), 1 + guest);
    say("guest %d leaves", guest);
    OK(DMI_poll(&node));
    EQ(node.state, DMI_CLOSE);
    while (DMI_goodbye(node.dmi_id) == DMI_FALSE) { /* its threads are about to end */
      if (!IS(DMI_errno() == DMI_EBUSY)) break;
    }
  }
  check_report(report);
  last.table = table;
  last.report = report;
  last.first = ids[0];
  (void)start(ids[1], &last);
  say("the first leaves");
}
