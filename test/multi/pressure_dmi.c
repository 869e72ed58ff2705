/*
 * pressure_dmi.c - mappings larger than what one process lends: every byte right, no pool above its
 * limit, and clean failure where there is no memory.  pressure.t starts the processes.
 *
 *   fill PROCS MIB KIB     pages of KIB KiB, MIB MiB together.  The first process writes, reads and
 *                          writes them again, alone; then all do, while the second leaves and
 *                          another joins
 *   full PROCS MIB KIB     more than there is memory for: writes fail at its end
 *   leave PROCS MIB KIB    the second cannot leave, as there is no memory for its pages; then it
 * can save PROCS MIB KIB     copies that are saved stay, others are dropped spill PROCS MIB KIB the
 * first one has a file for what nobody has memory for held 1 MIB KIB         pages are written
 * while their bytes are held: that is above the limit
 */
#include "multi.h"

#include "dmi_ext.h"

#define MIB ((int64_t)1 << 20)
#define MOST 8 /* processes */

/* What a thread is told. */
struct job {
  int64_t addr, size, pages; /* the mapping */
  int64_t first, step;       /* it writes pages first, first + step, ...; step 0: none */
  int64_t round;             /* the contents that it writes */
  int64_t verify;            /* the contents that all pages must have, 0: it does not look */
  int64_t owns;              /* bool: becomes the owner of what it writes */
  int64_t procs;             /* at one time */
  int64_t report;
};

static struct job job; /* of DMI_main */
static int64_t jobs;   /* in global memory, one for each process */
static int32_t ids[MOST];

/* ---- Contents ------------------------------------------------------------------------------- */

static void contents(unsigned char *bytes, int64_t size, int64_t page, int64_t round) {
  uint64_t word = rng_of((uint64_t)page, (uint64_t)round, 0) | 1;
  for (int64_t at = 0; at < size; at += 8) {
    memcpy(bytes + at, &word, size - at < 8 ? (size_t)(size - at) : 8);
    word = word * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  }
}

/* All pages once, in an order that depends on the seed. */
static int64_t in_order(const struct job *at, uint64_t seed, int64_t i) {
  static const int64_t primes[] = {7919, 104729, 15485863, 32452843};
  int64_t prime = primes[seed % 4]; /* prime, and no page count is a multiple of it */
  return (int64_t)((__int128)(i + (int64_t)(seed % 1000)) * prime % at->pages);
}

static bool write_page(const struct job *at, int64_t page, int64_t round, int8_t mode,
                       unsigned char *buf) {
  contents(buf, at->size, page, round);
  return DMI_write(at->addr + page * at->size, at->size, buf, mode, NULL) == DMI_TRUE;
}

static void verify_page(const struct job *at, int64_t page, int64_t round, int8_t mode,
                        unsigned char *buf) {
  unsigned char *want = buf + at->size;
  if (round) {
    contents(want, at->size, page, round);
  } else {
    memset(want, 0, (size_t)at->size);
  }
  if (!OK(DMI_read(at->addr + page * at->size, at->size, buf, mode, NULL))) return;
  check_that(memcmp(buf, want, (size_t)at->size) == 0, AT, "page %" PRId64 " of round %" PRId64,
             page, round);
}

/* Above the limit is only what cannot ask (docs/replacement.md): the copy of a page that is written
 * while an answer holds its bytes, and each other process waits for one answer at a time; and a
 * page that a leaver gives, for which memory was promised.  Together no more than one for each
 * process.  A page of this program's own small mappings is nothing. */
static void check_pool(const struct job *at, const char *who) {
  DMI_pool_t pool;
  OK(DMI_pool(&pool));
  check_that(pool.peak <= pool.limit + at->procs * at->size + 65536, AT,
             "%s: %" PRId64 " bytes of pages with a limit of %" PRId64, who, pool.peak, pool.limit);
  check_that(pool.limit > 0 && pool.peak > 0 && pool.used <= pool.peak, AT, "figures of a pool");
}

static void work(const struct job *at, uint64_t seed) {
  unsigned char *buf = my_malloc((size_t)at->size * 2);
  uint64_t rng = seed;
  for (int64_t i = 0; at->step && i < at->pages; i++) {
    int64_t page = in_order(at, seed, i);
    if (page % at->step == at->first)
      check_that(
          write_page(at, page, at->round, at->owns ? DMI_EXCLUSIVE_WRITE : any_write(&rng), buf),
          AT, "write: %s", DMI_strerror(DMI_errno()));
  }
  for (int64_t i = 0; at->verify && i < at->pages; i++)
    verify_page(at, in_order(at, seed + 1, i), at->verify, any_read(&rng), buf);
  my_free(buf);
}

int64_t DMI_thread(int64_t addr) {
  struct job mine;
  int32_t id;
  MUST(DMI_read(addr, sizeof(mine), &mine, DMI_GET_READ, NULL));
  MUST(DMI_rank(&id));
  work(&mine, (uint64_t)(mine.round * 10 + id));
  check_pool(&mine, "a thread's process");
  check_report(mine.report);
  return 0;
}

/* Threads in these processes, each with its share, or (step 0) only to look. */
static void all(const int32_t *where, int32_t num, int64_t round, int64_t verify,
                DMI_thread_t *thread) {
  for (int32_t i = 0; i < num; i++) {
    struct job one = job;
    int64_t at = jobs + where[i] * (int64_t)sizeof(one);
    one.first = i;
    one.step = round ? num : 0;
    one.round = round;
    one.verify = verify;
    MUST(DMI_write(at, sizeof(one), &one, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&thread[i], where[i], at, NULL));
  }
}

static void join(DMI_thread_t *thread, int32_t num) {
  for (int32_t i = 0; i < num; i++)
    MUST(DMI_join(thread[i], NULL, NULL));
}

static void alone(int64_t round) {
  struct job one = job;
  one.step = 1;
  one.round = one.verify = round;
  work(&one, (uint64_t)round);
  check_pool(&job, "the first process");
}

/* ---- The cases ------------------------------------------------------------------------------ */

static void case_fill(int32_t procs) {
  DMI_thread_t thread[MOST];
  DMI_pool_t pool;
  DMI_node_t node;
  bool opened = false, closed = false;
  int32_t leaver = ids[1];
  alone(1);
  alone(2);
  OK(DMI_pool(&pool));
  check_that(pool.pages_sent > 0, AT, "pages went to others");
  say("alone: %" PRId64 " pages sent, %" PRId64 " dropped", pool.pages_sent, pool.pages_dropped);
  all(ids, procs, 3, 0, thread);
  join(thread, procs);
  all(ids, procs, 0, 3, thread);
  join(thread, procs);
  say("change now");
  while (!opened || !closed) { /* one joins, one has asked to leave */
    MUST(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      MUST(DMI_welcome(node.dmi_id));
      ids[procs] = node.dmi_id;
      opened = true;
    } else {
      EQ(node.dmi_id, ids[1]);
      closed = true;
    }
  }
  ids[1] = ids[procs];
  all(ids, procs, 4, 0, thread); /* the joiner too, while the other one leaves */
  OK(DMI_goodbye(leaver));
  join(thread, procs);
  all(ids, procs, 0, 4, thread);
  join(thread, procs);
  check_pool(&job, "the first process");
}

static void case_full(int32_t procs) {
  unsigned char *buf = my_malloc((size_t)job.size * 2);
  int64_t written = 0, failed = 0, small, more = 0;
  DMI_pool_t pool;
  uint64_t rng = 1;
  OK(DMI_pool(&pool));
  MUST(DMI_mmap(&small, job.size, 16, NULL));
  for (int64_t i = 0; i < 16; i++) {
    contents(buf, job.size, i, 9);
    MUST(DMI_write(small + i * job.size, job.size, buf, DMI_EXCLUSIVE_WRITE, NULL));
  }
  while (written < job.pages && write_page(&job, written, 1, any_write(&rng), buf))
    written++;
  check_that(written < job.pages, AT, "there was memory for all");
  EQ(DMI_errno(), DMI_ENOMEM);
  IS(strstr(DMI_strerror(DMI_ENOMEM), "-s") != NULL);
  IS(strstr(DMI_strerror(DMI_ENOMEM), "--spill") != NULL);
  say("full: %" PRId64 " MiB written of %" PRId64, (written + 16) * job.size / MIB,
      job.pages * job.size / MIB);
  /* All that is lent was used, except for a few pages. */
  check_that((written + 16) * job.size > pool.limit * procs / 16 * 15, AT, "%" PRId64 " pages",
             written);
  for (int64_t i = job.pages - 20; i < job.pages; i++)
    failed += !write_page(&job, i, 1, any_write(&rng), buf);
  check_that(failed >= 15, AT, "%" PRId64 " of 20 writes failed", failed);
  for (int64_t i = 0; i < written; i++)
    verify_page(&job, i, 1, any_read(&rng), buf);
  for (int64_t i = written + 1; i < job.pages - 20; i++) /* the first failed one may be torn */
    verify_page(&job, i, 0, DMI_GET_READ, buf);
  /* What is there can be changed. */
  for (int64_t i = 0; i < written; i++)
    check_that(write_page(&job, i, 2, any_write(&rng), buf), AT, "page %" PRId64 ": %s", i,
               DMI_strerror(DMI_errno()));
  for (int64_t i = 0; i < written; i++)
    verify_page(&job, i, 2, any_read(&rng), buf);
  /* And once there is memory again, so can the rest. */
  OK(DMI_munmap(small, NULL));
  for (int64_t i = written; i < job.pages - 20 && more < 12; i++)
    more += write_page(&job, i, 2, DMI_EXCLUSIVE_WRITE, buf);
  check_that(more >= 8, AT, "%" PRId64 " of 16 pages have memory after DMI_munmap", more);
  check_pool(&job, "the first process");
  my_free(buf);
}

static void case_leave(void) {
  DMI_thread_t thread[1];
  DMI_node_t node;
  int64_t other;
  int32_t again = DMI_TRUE, asked = 0;
  struct job keep = job;
  MUST(DMI_mmap(&other, job.size, job.pages, NULL));
  alone(1); /* half of what there is memory for */
  keep.addr = other;
  keep.step = 1;
  keep.round = keep.verify = 5;
  work(&keep, 5);
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  FAILS(DMI_goodbye(ids[1]), DMI_ENOMEM);
  FAILS(DMI_goodbye(ids[1]), DMI_ENOMEM);
  /* There is no more memory than before, except that copies may have been in use just then: it may
   * ask again for these, but not again and again. */
  for (; again && asked < 8; asked++) {
    OK(DMI_peek(&node, &again));
    if (again) FAILS(DMI_goodbye(ids[1]), DMI_ENOMEM);
  }
  EQ(again, DMI_FALSE);
  all(&ids[1], 1, 0, 1, thread); /* it is as it was: threads run there */
  join(thread, 1);
  keep.step = 0;
  work(&keep, 6);
  OK(DMI_munmap(other, NULL));
  MUST(DMI_poll(&node)); /* now there is: it asks again */
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, ids[1]);
  OK(DMI_peek(&node, &again));
  EQ(again, DMI_FALSE); /* once */
  OK(DMI_goodbye(ids[1]));
  work(&(struct job){.addr = job.addr, .size = job.size, .pages = job.pages, .verify = 1}, 7);
  check_pool(&job, "the first process");
}

static void case_spill(int32_t procs) {
  DMI_thread_t thread[MOST];
  DMI_pool_t pool;
  alone(1);
  OK(DMI_pool(&pool));
  check_that(pool.spilled > 0, AT, "pages were spilled");
  say("spill: %" PRId64 " MiB of %" PRId64 " in the file", pool.spilled / MIB,
      job.pages * job.size / MIB);
  alone(2);
  all(ids, procs, 3, 0, thread);
  join(thread, procs);
  all(ids, procs, 0, 3, thread);
  join(thread, procs);
  OK(DMI_munmap(job.addr, NULL));
  /* The thread that evicts may just be writing a page, which it takes out again when it has. */
  for (int64_t looks = 0; looks == 0 || pool.spilled >= 65536; looks++) {
    OK(DMI_pool(&pool));
    look_again(looks);
  }
  check_pool(&job, "the first process");
}

/* How many requests of a type this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
enum { MSG_GET = 1, MSG_READ = 2 };

/* Reads these pages; returns how many of them were not here. */
static int64_t missing(int64_t first, int64_t num, unsigned char *buf) {
  struct dmi_access *access = dmi_runtime_access();
  uint64_t before = dmi_access_sent(access, MSG_GET) + dmi_access_sent(access, MSG_READ);
  for (int64_t i = 0; i < num; i++)
    verify_page(&job, first + i, 1, DMI_INVALIDATE_READ, buf);
  return (int64_t)(dmi_access_sent(access, MSG_GET) + dmi_access_sent(access, MSG_READ) - before);
}

/* Reads the pages from `other` on until most of the `num` from `first` on have gone.  Ever more
 * often before it looks: looking uses these pages, which keeps them for a round; and a read that
 * finds no memory keeps nothing, until the thread that evicts has run. */
static void until_gone(int64_t first, int64_t num, int64_t other, int64_t others,
                       unsigned char *buf) {
  int64_t times = 1;
  do {
    for (int64_t i = 0; i < times; i++)
      IS(missing(other, others, buf) > others / 2);
    times *= 2;
  } while (missing(first, num, buf) <= num / 2);
}

/* The second process owns all; the first reads much more than it has memory for, and again and
 * again what it has saved, or not. */
static void case_save(void) {
  DMI_thread_t thread[1];
  DMI_pool_t pool;
  unsigned char *buf = my_malloc((size_t)job.size * 2);
  int64_t some, rest;
  job.owns = 1;
  all(&ids[1], 1, 1, 0, thread);
  join(thread, 1);
  OK(DMI_pool(&pool));
  some = pool.limit / 4 / job.size;
  rest = job.pages - 2 * some;
  EQ(missing(0, some, buf), some);
  OK(DMI_save(job.addr, some * job.size));
  for (int round = 0; round < 3; round++) {
    until_gone(some, some, 2 * some, rest, buf); /* these are not saved */
    EQ(missing(0, some, buf), 0);
  }
  check_pool(&job, "the first process");
  OK(DMI_unsave(job.addr, some * job.size));
  until_gone(0, some, 2 * some, rest, buf);
  say("save: %" PRId64 " of %" PRId64 " pages stayed", some, job.pages);
  my_free(buf);
}

/* A hold stands for a message that waits for a slow reader. */
static void case_held(void) {
  DMI_local_hold_t *hold = my_malloc((size_t)job.pages * sizeof(*hold));
  const unsigned char **held = my_malloc((size_t)job.pages * sizeof(*held));
  unsigned char *buf = my_malloc((size_t)job.size * 2);
  DMI_pool_t pool;
  for (int64_t page = 0; page < job.pages; page++) {
    const void *bytes;
    check_that(write_page(&job, page, 1, DMI_EXCLUSIVE_WRITE, buf), AT, "write");
    MUST(DMI_hold(job.addr + page * job.size, job.size, &bytes, &hold[page]));
    held[page] = bytes;
  }
  for (int64_t page = 0; page < job.pages; page++) {
    check_that(write_page(&job, page, 2, DMI_EXCLUSIVE_WRITE, buf), AT, "write of a held page");
    contents(buf, job.size, page, 1);
    check_that(memcmp(held[page], buf, (size_t)job.size) == 0, AT, "page %" PRId64 " held", page);
  }
  OK(DMI_pool(&pool));
  check_that(pool.used > pool.limit, AT, "both bytes of each page are here");
  check_that(pool.peak <= pool.limit + job.pages * job.size, AT, "no more than what is held");
  say("held: %" PRId64 " KiB above the limit", (pool.peak - pool.limit) >> 10);
  for (int64_t page = 0; page < job.pages; page++)
    MUST(DMI_release(&hold[page]));
  OK(DMI_pool(&pool));
  check_that(pool.used <= pool.limit, AT, "%" PRId64 " bytes when nothing is held", pool.used);
  for (int64_t page = 0; page < job.pages; page++)
    verify_page(&job, page, 2, DMI_GET_READ, buf);
  my_free(buf);
  my_free(held);
  my_free(hold);
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "fill";
  int32_t procs = argc > 2 ? atoi(argv[2]) : 4;
  int64_t mib = argc > 3 ? atoll(argv[3]) : 200;
  job.size = (argc > 4 ? atoll(argv[4]) : 64) * 1024;
  job.pages = mib * MIB / job.size;
  job.procs = procs;
  gather(procs, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), 64, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  MUST(DMI_mmap(&job.addr, job.size, job.pages, NULL));
  if (strcmp(what, "fill") == 0) case_fill(procs);
  if (strcmp(what, "full") == 0) case_full(procs);
  if (strcmp(what, "leave") == 0) case_leave();
  if (strcmp(what, "spill") == 0) case_spill(procs);
  if (strcmp(what, "save") == 0) case_save();
  if (strcmp(what, "held") == 0) case_held();
  verdict("pressure", job.report);
}
