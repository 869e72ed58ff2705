/*
 * huge_dmi.c - one page of more than 4 GiB: every way of reading and writing around the offsets
 * where 31 and 32 bits end.  Little of it is touched, so it takes little memory.
 *
 *   dmirun -s 16G huge_dmi [whole]      two processes
 *
 * whole: the page is filled, and moves as a whole: a copy, an update of it, the ownership.  Takes
 * 9 GiB.
 *
 * And 2^30 pages of 8 bytes, which cost nothing until they are touched.
 */
#include "multi.h"

#define MIB ((int64_t)1 << 20)
#define PAGE (((int64_t)4 << 30) + 4096 + 8)
#define PART (32 * MIB)

static const int64_t edges[] = {0, INT64_C(1) << 31, INT64_C(1) << 32, PAGE - 16};
#define EDGES ((int64_t)(sizeof(edges) / sizeof(edges[0])))

#define MANY ((int64_t)1 << 30)

/* Bytes in page tables and records (lib/access/mapping.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_tables(const struct dmi_access *access);

struct job {
  int64_t page; /* a mapping of one such page */
  int64_t many; /* MANY pages of 8 bytes */
  int64_t whole;
  int64_t barrier, report;
};

/* Offsets on both sides of each edge; the k-th of 32 bytes. */
static int64_t place(int64_t k) {
  int64_t at = edges[k % EDGES] - 16 + 16 * (k / EDGES % 2);
  return at < 0 ? 64 : at;
}

static void check_at(int64_t addr, int64_t value, int8_t mode) {
  int64_t got = 0;
  OK(DMI_read(addr, 8, &got, mode, NULL));
  EQ(got, value);
}

/* Small accesses; `round` makes the values different from those of before. */
static void small(const struct job *job, int64_t round, int8_t write) {
  int64_t addrs[2 * EDGES], sizes[2 * EDGES], to[2 * EDGES], values[2 * EDGES], got[2 * EDGES];
  DMI_local_group_t group;
  for (int64_t k = 0; k < 2 * EDGES; k++) {
    int64_t at = job->page + place(k), value = 1000 * round + k, old = -1;
    OK(DMI_write(at, 8, &value, write, NULL));
    check_at(at, value, DMI_GET_READ);
    OK(DMI_fad(at, 5, &old, DMI_PUT_ATOMIC, NULL));
    EQ(old, value);
    addrs[k] = at;
    sizes[k] = 8;
    to[k] = 8 * k;
    values[k] = value + 5;
  }
  MUST(DMI_group_init(&group, addrs, sizes, to, 2 * EDGES));
  OK(DMI_group_read(&group, got, NULL));
  SAME(got, values, sizeof(got));
  for (int64_t k = 0; k < 2 * EDGES; k++)
    values[k] = 7000 * round + k;
  OK(DMI_group_write(&group, values, NULL));
  for (int64_t k = 0; k < 2 * EDGES; k++)
    check_at(addrs[k], values[k], DMI_GET_READ);
  OK(DMI_group_destroy(&group));
  /* Across the edge, and over the end. */
  for (int64_t e = 1; e < EDGES - 1; e++) {
    unsigned char want[64], found[64];
    rng_fill((uint64_t)(round * 10 + e), want, sizeof(want));
    OK(DMI_write(job->page + edges[e] - 31, sizeof(want), want, write, NULL));
    OK(DMI_read(job->page + edges[e] - 31, sizeof(found), found, DMI_GET_READ, NULL));
    SAME(found, want, sizeof(want));
  }
  FAILS(DMI_read(job->page + PAGE - 4, 8, got, DMI_GET_READ, NULL), DMI_ERANGE);
  if (round < 3) check_at(job->page + MIB * 1024, 0, DMI_GET_READ); /* nobody has written there */
}

/* What this process takes of memory. */
static int64_t resident(void) {
  long long all, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%lld %lld", &all, &pages) != 2) IS(!"/proc/self/statm");
  if (file) fclose(file);
  return pages * 4096;
}

/* Touches some pages of the many, far from each other. */
static void touch_some(const struct job *job, int64_t first) {
  int64_t before = resident(), tables = (int64_t)dmi_access_tables(dmi_runtime_access());
  for (int64_t i = 0; i < 8; i++) {
    int64_t addr = job->many + 8 * ((MANY - 1) / 8 * i + first), value = i + first;
    OK(DMI_write(addr, 8, &value, DMI_PUT_WRITE, NULL));
    check_at(addr, value, DMI_INVALIDATE_READ);
  }
  IS((int64_t)dmi_access_tables(dmi_runtime_access()) - tables < MIB);
  /* A sanitizer has memory of its own, and nodes of one process have that of the others. */
  if (scaled(10) == 10 && !getenv("DMI_TEST_NODES")) IS(resident() - before < MIB);
}

static void fill(int64_t addr, uint64_t seed, int8_t mode, unsigned char *part) {
  for (int64_t at = 0; at < PAGE; at += PART) {
    int64_t size = PAGE - at < PART ? PAGE - at : PART;
    rng_fill(seed + (uint64_t)at, part, (uint64_t)size);
    OK(DMI_write(addr + at, size, part, mode, NULL));
  }
}

static void compare(int64_t addr, uint64_t seed, int8_t mode, unsigned char *part,
                    unsigned char *want) {
  for (int64_t at = 0; at < PAGE; at += PART) {
    int64_t size = PAGE - at < PART ? PAGE - at : PART;
    rng_fill(seed + (uint64_t)at, want, (uint64_t)size);
    OK(DMI_read(addr + at, size, part, mode, NULL));
    SAME(part, want, size);
  }
}

int64_t DMI_thread(int64_t addr) {
  unsigned char *part = my_malloc(PART), *want = my_malloc(PART);
  DMI_local_barrier_t barrier;
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  MUST(DMI_local_barrier_init(&barrier, job.barrier));
  touch_some(&job, 1);
  small(&job, 1, DMI_PUT_WRITE); /* at the owner, there */
  if (job.whole) {
    OK(DMI_local_barrier_sync(&barrier, 2)); /* it is filled */
    compare(job.page, 100, DMI_UPDATE_READ, part, want);
    OK(DMI_local_barrier_sync(&barrier, 2));
    OK(DMI_local_barrier_sync(&barrier, 2)); /* parts of the copy have been changed */
    for (int64_t e = 1; e < EDGES; e++)
      check_at(job.page + edges[e] - 4, 31 * e, DMI_UPDATE_READ);
    small(&job, 3, DMI_EXCLUSIVE_WRITE);
  }
  my_free(part);
  my_free(want);
  OK(DMI_local_barrier_destroy(&barrier));
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  struct job job = {.whole = argc > 1};
  DMI_local_barrier_t barrier;
  DMI_thread_t thread;
  int32_t ids[2];
  int64_t at, before, tables;
  gather(2, ids);
  MUST(DMI_mmap(&at, sizeof(job), 1, NULL));
  MUST(DMI_mmap(&job.barrier, sizeof(DMI_barrier_t), 1, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  MUST(DMI_mmap(&job.page, PAGE, 1, NULL));
  MUST(DMI_barrier_init(job.barrier));
  before = resident();
  tables = (int64_t)dmi_access_tables(dmi_runtime_access());
  MUST(DMI_mmap(&job.many, 8, MANY, NULL));
  IS((int64_t)dmi_access_tables(dmi_runtime_access()) - tables < 64 << 10);
  if (scaled(10) == 10) IS(resident() - before < MIB);
  touch_some(&job, 0);
  MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  small(&job, 0, DMI_EXCLUSIVE_WRITE); /* owned here */
  MUST(DMI_create(&thread, ids[1], at, NULL));
  if (job.whole) {
    unsigned char *part = my_malloc(PART);
    MUST(DMI_local_barrier_init(&barrier, job.barrier));
    fill(job.page, 100, DMI_EXCLUSIVE_WRITE, part);
    OK(DMI_local_barrier_sync(&barrier, 2));
    OK(DMI_local_barrier_sync(&barrier, 2)); /* it has a copy */
    for (int64_t e = 1; e < EDGES; e++) {
      int64_t value = 31 * e;
      OK(DMI_write(job.page + edges[e] - 4, 8, &value, DMI_PUT_WRITE, NULL));
    }
    OK(DMI_local_barrier_sync(&barrier, 2));
    my_free(part);
    MUST(DMI_local_barrier_destroy(&barrier));
  }
  MUST(DMI_join(thread, NULL, NULL));
  OK(DMI_munmap(job.page, NULL));
  verdict("huge", job.report);
}
