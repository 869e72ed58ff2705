/*
 * group_dmi.c - scattered reads and writes: values, numbers of messages, bad input, and processes
 * that leave and join meanwhile.
 *
 *   dmirun group_dmi        three processes; the third leaves at "leave now", another one joins
 *                           at "join now"
 */
#include "multi.h"

#define MAPPINGS 5
#define ITEMS 5000 /* of one group, at most */
#define COUNTED 1000
#define WORKERS 2
#define ITEMS_EACH 400

/* How many messages of a type this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
uint64_t dmi_access_messages(const struct dmi_access *access, uint32_t to);
enum { MSG_GET = 1, MSG_PUT = 3, MSG_LAST = 15 };

struct job {
  int64_t what; /* enum what */
  int64_t number;
  int64_t addr[MAPPINGS];
  int64_t stop;   /* 64-bit number: 1 when the long ones may end */
  int64_t report; /* for check_report */
};
enum what { VALUES, COUNT, WORK, DISTURB };

static const int64_t page_sizes[MAPPINGS] = {1, 24, 1000, 4096, 1 << 20};
static const int64_t page_nums[MAPPINGS] = {500, 60, 20, 9, 3};
static int32_t ids[3];
static int64_t report, jobs;

static int64_t sent_all(void) {
  int64_t sum = 0;
  for (int type = 1; type <= MSG_LAST; type++)
    sum += (int64_t)dmi_access_sent(dmi_runtime_access(), type);
  return sum;
}

static int64_t sent(int type) {
  return (int64_t)dmi_access_sent(dmi_runtime_access(), type);
}

/* Messages of any kind, to all; requests that are packed into one count as one. */
static int64_t messages(void) {
  int64_t sum = 0;
  for (uint32_t uid = 1; uid < 100; uid++)
    sum += (int64_t)dmi_access_messages(dmi_runtime_access(), uid);
  return sum;
}

/* ---- Values: against a model in local memory ------------------------------------------------- */

struct items {
  int32_t num;
  int64_t addr[ITEMS], size[ITEMS], to[ITEMS];
  int32_t mapping[ITEMS];
  int64_t off[ITEMS];
  int64_t bytes; /* of the buffer */
};

/* Random items: few or many, small or large, over page borders, over each other. */
static void draw(struct items *items, const int64_t *addr, uint64_t *rng) {
  int64_t most = rng_below(rng, 3) ? 40 : 2000;
  int only = rng_below(rng, 3) ? -1 : (int)rng_below(rng, MAPPINGS);
  items->num = (int32_t)rng_below(rng, rng_below(rng, 10) ? 40 : (uint64_t)scaled(ITEMS));
  items->bytes = 0;
  for (int32_t i = 0; i < items->num; i++) {
    int at = only >= 0 ? only : (int)rng_below(rng, MAPPINGS);
    int64_t all = page_sizes[at] * page_nums[at], hot = rng_below(rng, 2) ? all : all / 50 + 9;
    int64_t size = (int64_t)rng_below(rng, (uint64_t)(most < all / 2 ? most : all / 2));
    if (hot < size) hot = size;
    items->mapping[i] = at;
    items->off[i] = (int64_t)rng_below(rng, (uint64_t)(hot - size + 1));
    items->addr[i] = addr[at] + items->off[i];
    items->size[i] = size;
    items->to[i] = items->bytes + (int64_t)rng_below(rng, 3);
    items->bytes = items->to[i] + size;
  }
}

static void one_write(const struct items *items, DMI_local_group_t *group, unsigned char **model,
                      uint64_t *rng) {
  unsigned char *buf = my_malloc((size_t)items->bytes + 1);
  DMI_local_status_t status;
  int32_t ret = DMI_FALSE;
  rng_fill(rng_next(rng), buf, (uint64_t)items->bytes);
  for (int32_t i = 0; i < items->num; i++) /* in their order */
    memcpy(model[items->mapping[i]] + items->off[i], buf + items->to[i], (size_t)items->size[i]);
  if (rng_below(rng, 2)) {
    OK(DMI_group_write(group, buf, NULL));
  } else {
    OK(DMI_group_write(group, buf, &status));
    memset(buf, 0xbb, (size_t)items->bytes + 1); /* it may be used again */
    DMI_wait(&status, &ret);
    IS(ret == DMI_TRUE);
  }
  my_free(buf);
}

/* With the bytes between the items untouched. */
static void one_read(const struct items *items, DMI_local_group_t *group, unsigned char **model,
                     uint64_t *rng) {
  unsigned char *want = my_malloc((size_t)items->bytes + 8);
  unsigned char *got = my_malloc((size_t)items->bytes + 8);
  DMI_local_status_t status;
  int32_t ret = DMI_FALSE;
  memset(want, 0x5a, (size_t)items->bytes + 8);
  memset(got, 0x5a, (size_t)items->bytes + 8);
  for (int32_t i = 0; i < items->num; i++)
    memcpy(want + items->to[i], model[items->mapping[i]] + items->off[i], (size_t)items->size[i]);
  if (rng_below(rng, 2)) {
    OK(DMI_group_read(group, got, NULL));
  } else {
    OK(DMI_group_read(group, got, &status));
    DMI_wait(&status, &ret);
    IS(ret == DMI_TRUE);
  }
  SAME(got, want, items->bytes + 8);
  my_free(got);
  my_free(want);
}

static void values(const struct job *job) {
  unsigned char *model[MAPPINGS];
  struct items *items = my_malloc(sizeof(*items));
  uint64_t rng = (uint64_t)job->number + 100;
  for (int i = 0; i < MAPPINGS; i++) {
    int64_t all = page_sizes[i] * page_nums[i];
    model[i] = my_malloc((size_t)all);
    MUST(DMI_read(job->addr[i], all, model[i], DMI_GET_READ, NULL));
  }
  for (int64_t round = 0; round < scaled(250); round++) {
    DMI_local_group_t group;
    draw(items, job->addr, &rng);
    MUST(DMI_group_init(&group, items->addr, items->size, items->to, items->num));
    for (uint64_t uses = 1 + rng_below(&rng, 3); uses > 0; uses--) {
      if (rng_below(&rng, 2)) one_write(items, &group, model, &rng);
      one_read(items, &group, model, &rng);
    }
    OK(DMI_group_destroy(&group));
    if (!rng_below(&rng, 4)) { /* pages of which this process has a copy, or that it owns */
      int at = (int)rng_below(&rng, MAPPINGS);
      unsigned char byte;
      int64_t off = (int64_t)rng_below(&rng, (uint64_t)(page_sizes[at] * page_nums[at]));
      OK(DMI_read(job->addr[at] + off, 1, &byte, any_read(&rng), NULL));
      IS(byte == model[at][off]);
      OK(DMI_write(job->addr[at] + off, 1, &byte, any_write(&rng), NULL));
    }
  }
  for (int i = 0; i < MAPPINGS; i++) {
    int64_t all = page_sizes[i] * page_nums[i];
    unsigned char *now = my_malloc((size_t)all);
    OK(DMI_read(job->addr[i], all, now, DMI_GET_READ, NULL));
    SAME(now, model[i], all);
    my_free(now);
    my_free(model[i]);
  }
  my_free(items);
}

/* Keeps and drops copies, and takes pages away, changing nothing, until told to stop. */
static void disturb(const struct job *job) {
  uint64_t rng = (uint64_t)job->number + 900;
  int64_t stop = 0;
  unsigned char *buf = my_malloc(1 << 20);
  for (int64_t turn = 1; !stop; turn++) {
    int at = (int)rng_below(&rng, MAPPINGS);
    int64_t page = (int64_t)rng_below(&rng, (uint64_t)page_nums[at]);
    int64_t addr = job->addr[at] + page * page_sizes[at];
    if (page_sizes[at] >= 8 && !rng_below(&rng, 3)) {
      OK(DMI_fad(addr, 0, NULL, any_atomic(&rng), NULL));
    } else {
      OK(DMI_read(addr, page_sizes[at], buf, any_read(&rng), NULL));
    }
    if (turn % 16 == 0) MUST(DMI_read(job->stop, 8, &stop, DMI_GET_READ, NULL));
  }
  my_free(buf);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* All pages have one owner: one message goes to it.  Something else may be said meanwhile, but not
 * each time. */
static void count_messages(DMI_local_group_t *group, double *items, bool write) {
  int64_t least = INT64_MAX;
  for (int turn = 0; turn < 20 && least > 1; turn++) {
    int64_t before = messages();
    if (write) {
      OK(DMI_group_write(group, items, NULL));
    } else {
      OK(DMI_group_read(group, items, NULL));
    }
    if (messages() - before < least) least = messages() - before;
  }
  EQ(least, 1);
}

/* Scattered doubles: in `pages` pages of 64 KiB that belong to another process. */
static void count_pages(int64_t addr, int64_t pages) {
  static double from[COUNTED], to[COUNTED];
  static int64_t addrs[COUNTED], sizes[COUNTED], offs[COUNTED];
  uint64_t rng = (uint64_t)pages;
  DMI_local_group_t group;
  int64_t gets, puts, all;
  for (int64_t i = 0; i < COUNTED; i++) {
    int64_t slot =
        i / pages * (65536 * pages / COUNTED / 16) * 16 + 16 * (int64_t)rng_below(&rng, 2);
    addrs[i] = addr + (i % pages) * 65536 + slot;
    sizes[i] = 8;
    offs[i] = 8 * ((i * 7919) % COUNTED);
    from[i] = (double)i / 3;
  }
  MUST(DMI_group_init(&group, addrs, sizes, offs, COUNTED));
  puts = sent(MSG_PUT), all = sent_all();
  OK(DMI_group_write(&group, from, NULL));
  EQ(sent(MSG_PUT) - puts, pages);
  EQ(sent_all() - all, pages);

  gets = sent(MSG_GET), all = sent_all();
  OK(DMI_group_read(&group, to, NULL));
  EQ(sent(MSG_GET) - gets, pages);
  EQ(sent_all() - all, pages);
  SAME(to, from, sizeof(from));
  count_messages(&group, from, true);
  memset(to, 0, sizeof(to));
  count_messages(&group, to, false);
  SAME(to, from, sizeof(from));

  /* One by one, to see that the counter counts. */
  gets = sent(MSG_GET);
  for (int64_t i = 0; i < COUNTED; i++)
    OK(DMI_read(addrs[i], 8, &to[i], DMI_GET_READ, NULL));
  EQ(sent(MSG_GET) - gets, COUNTED);

  /* Copies here: no message; one page less of them: one. */
  for (int64_t page = 0; page < pages; page++) {
    OK(DMI_read(addr + page * 65536, 8, to, page % 2 ? DMI_UPDATE_READ : DMI_INVALIDATE_READ,
                NULL));
  }
  memset(to, 0, sizeof(to));
  all = sent_all();
  OK(DMI_group_read(&group, to, NULL));
  EQ(sent_all() - all, 0);
  SAME(to, from, sizeof(from));

  /* Pages that are owned here. */
  for (int64_t page = 0; page < pages; page++)
    OK(DMI_fad(addr + page * 65536, 0, NULL, DMI_EXCLUSIVE_ATOMIC, NULL));
  for (int64_t i = 0; i < COUNTED; i++)
    from[i] = -(double)i;
  all = sent_all();
  OK(DMI_group_write(&group, from, NULL));
  OK(DMI_group_read(&group, to, NULL));
  EQ(sent_all() - all, 0);
  SAME(to, from, sizeof(from));
  OK(DMI_group_destroy(&group));
}

/* In one page that another process owns. */
static void count_one(int64_t addr) {
  int64_t addrs[] = {addr + 100, addr, addr + 104, addr + 96, addr + 50000};
  int64_t sizes[] = {8, 8, 12, 4, 0}, offs[] = {0, 8, 16, 28, 0};
  unsigned char page[1000], want[32], got[32];
  DMI_local_group_t group;
  int64_t all;
  rng_fill(77, page, sizeof(page));
  MUST(DMI_write(addr, sizeof(page), page, DMI_PUT_WRITE, NULL));
  memcpy(want, page + 100, 8);
  memcpy(want + 8, page, 8);
  memcpy(want + 16, page + 104, 12);
  memcpy(want + 28, page + 96, 4);
  MUST(DMI_group_init(&group, addrs, sizes, offs, 5));
  all = sent_all();
  OK(DMI_group_read(&group, got, NULL));
  EQ(sent_all() - all, 1);
  SAME(got, want, sizeof(want));
  OK(DMI_group_destroy(&group));
  /* Nothing at all. */
  all = sent_all();
  MUST(DMI_group_init(&group, NULL, NULL, NULL, 0));
  OK(DMI_group_read(&group, NULL, NULL));
  OK(DMI_group_write(&group, NULL, NULL));
  OK(DMI_group_destroy(&group));
  EQ(sent_all() - all, 0);
}

/* Many calls in flight, and a group that is destroyed meanwhile. */
static void count_async(int64_t addr) {
  enum { CALLS = 20, NUM = 30 };
  int64_t addrs[NUM], sizes[NUM], offs[NUM], got[CALLS][NUM], want[NUM];
  DMI_local_status_t status[CALLS];
  DMI_local_group_t group;
  for (int64_t i = 0; i < NUM; i++) {
    addrs[i] = addr + i / 3 * 65536 + (i % 3) * 3000;
    sizes[i] = 8;
    offs[i] = 8 * i;
    want[i] = i * i + 1;
  }
  MUST(DMI_group_init(&group, addrs, sizes, offs, NUM));
  OK(DMI_group_write(&group, want, NULL));
  for (int i = 0; i < CALLS; i++)
    OK(DMI_group_read(&group, got[i], &status[i]));
  OK(DMI_group_destroy(&group));
  for (int i = 0; i < CALLS; i++) {
    int32_t ret = DMI_FALSE;
    DMI_wait(&status[i], &ret);
    IS(ret == DMI_TRUE);
    SAME(got[i], want, sizeof(want));
  }
}

/* addr: 111 pages of 64 KiB of another process. */
static void count(const struct job *job) {
  count_one(job->addr[0]);
  count_async(job->addr[0] + 65536);
  count_pages(job->addr[0], 1);
  count_pages(job->addr[0] + 65536, 10);
  count_pages(job->addr[0] + 11 * 65536, 100);
}

/* ---- While others leave and join --------------------------------------------------------------
 */

/* Writes all its items and reads them back, again and again; those of the others lie between. */
static void work(const struct job *job) {
  int64_t addrs[ITEMS_EACH], sizes[ITEMS_EACH], offs[ITEMS_EACH], out[ITEMS_EACH], in[ITEMS_EACH];
  int64_t stop = 0, turn;
  DMI_local_group_t group;
  for (int64_t i = 0; i < ITEMS_EACH; i++) {
    int at = 2 + (int)(i % 3);
    int64_t all = page_sizes[at] * page_nums[at];
    addrs[i] = job->addr[at] + (i / 3 * WORKERS + job->number) * (all / ITEMS_EACH / 16) * 8;
    sizes[i] = 8;
    offs[i] = 8 * i;
  }
  MUST(DMI_group_init(&group, addrs, sizes, offs, ITEMS_EACH));
  for (turn = 1; !stop; turn++) {
    for (int64_t i = 0; i < ITEMS_EACH; i++)
      out[i] = turn * 1000 + i;
    OK(DMI_group_write(&group, out, NULL));
    OK(DMI_group_read(&group, in, NULL));
    if (!SAME(in, out, sizeof(in))) break;
    MUST(DMI_read(job->stop, 8, &stop, DMI_GET_READ, NULL));
  }
  OK(DMI_group_destroy(&group));
  IS(turn > 3);
}

/* ---- Bad input --------------------------------------------------------------------------------
 */

static void bad_input(void) {
  int64_t addr, addrs[2], sizes[2] = {4, 4}, offs[2] = {0, 4}, bytes = 77, ret64 = 0;
  DMI_local_group_t group, none;
  DMI_local_status_t status;
  int32_t ret = DMI_TRUE;
  memset(&none, 0, sizeof(none));
  memset(&group, 0, sizeof(group));
  MUST(DMI_mmap(&addr, 10, 2, NULL));
  addrs[0] = addr;
  addrs[1] = addr + 8;
  FAILS(DMI_group_init(NULL, addrs, sizes, offs, 2), DMI_EINVAL);
  FAILS(DMI_group_init(&group, NULL, sizes, offs, 2), DMI_EINVAL);
  FAILS(DMI_group_init(&group, addrs, NULL, offs, 2), DMI_EINVAL);
  FAILS(DMI_group_init(&group, addrs, sizes, NULL, 2), DMI_EINVAL);
  FAILS(DMI_group_init(&group, addrs, sizes, offs, -1), DMI_EINVAL);
  sizes[1] = -1;
  FAILS(DMI_group_init(&group, addrs, sizes, offs, 2), DMI_EINVAL);
  sizes[1] = 13;
  FAILS(DMI_group_init(&group, addrs, sizes, offs, 2), DMI_ERANGE);
  sizes[1] = INT64_MAX;
  FAILS(DMI_group_init(&group, addrs, sizes, offs, 2), DMI_ERANGE);
  sizes[1] = 12;
  addrs[1] = 8;
  FAILS(DMI_group_init(&group, addrs, sizes, offs, 2), DMI_EADDR);
  addrs[1] = INT64_MIN;
  FAILS(DMI_group_init(&group, addrs, sizes, offs, 2), DMI_EADDR);
  FAILS(DMI_group_read(&group, &bytes, NULL), DMI_EINVAL); /* init left it alone */
  FAILS(DMI_group_write(&none, &bytes, NULL), DMI_EINVAL);
  FAILS(DMI_group_read(NULL, &bytes, &status), DMI_EINVAL);
  DMI_wait(&status, &ret);
  IS(ret == DMI_FALSE);
  FAILS(DMI_group_destroy(&none), DMI_EINVAL);
  FAILS(DMI_group_destroy(NULL), DMI_EINVAL);

  addrs[1] = addr + 12;
  sizes[1] = 4;
  OK(DMI_group_init(&group, addrs, sizes, offs, 2));
  FAILS(DMI_group_read(&group, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_group_write(&group, NULL, NULL), DMI_EINVAL);
  OK(DMI_group_write(&group, &bytes, NULL));
  OK(DMI_group_read(&group, &ret64, NULL));
  EQ(ret64, 77);
  OK(DMI_munmap(addr, NULL));
  FAILS(DMI_group_read(&group, &ret64, NULL), DMI_EADDR);
  FAILS(DMI_group_write(&group, &bytes, &status), DMI_EADDR);
  DMI_wait(&status, &ret);
  IS(ret == DMI_FALSE);
  EQ(ret64, 77);
  OK(DMI_group_destroy(&group));
  FAILS(DMI_group_destroy(&group), DMI_EINVAL);
}

/* Sizes and offsets exchanged, as in older programs. */
static void swapped(void) {
  int64_t addr, addrs[6], sizes[6], offs[6], capacity;
  DMI_local_group_t group;
  MUST(DMI_mmap(&addr, 4096, 1, NULL));
  for (int64_t kind = 0; kind < 3; kind++) {
    capacity = 0;
    for (int64_t i = 0; i < 6; i++) {
      addrs[i] = addr + 64 * i;
      sizes[i] = kind == 0 ? 8 : kind == 1 ? 1 + i : 40 - 3 * i;
      offs[i] = capacity;
      capacity += sizes[i];
    }
    for (int32_t num = kind == 1 ? 4 : 3; num <= 6; num++) {
      OK(DMI_group_init(&group, addrs, sizes, offs, num));
      OK(DMI_group_destroy(&group));
      FAILS(DMI_group_init(&group, addrs, offs, sizes, num), DMI_EINVAL);
    }
  }
  /* What may look like it, and is not. */
  for (int64_t i = 0, at = 8; i < 3; at += sizes[i++]) { /* side by side, behind 8 other bytes */
    sizes[i] = 8 * i;
    offs[i] = at;
  }
  OK(DMI_group_init(&group, addrs, sizes, offs, 3));
  OK(DMI_group_destroy(&group));
  sizes[0] = 1; /* all from one place in the buffer */
  offs[0] = offs[1] = offs[2] = 8;
  OK(DMI_group_init(&group, addrs, sizes, offs, 3));
  OK(DMI_group_destroy(&group));
  OK(DMI_munmap(addr, NULL));
}

/* ---- Main -------------------------------------------------------------------------------------
 */

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case VALUES:
      values(&job);
      break;
    case COUNT:
      count(&job);
      break;
    case WORK:
      work(&job);
      break;
    default:
      disturb(&job);
  }
  check_report(job.report);
  return 0;
}

static DMI_thread_t start(struct job *job, enum what what, int64_t number, int32_t dmi_id) {
  DMI_thread_t thread;
  int64_t addr = jobs;
  jobs += (int64_t)sizeof(*job);
  job->what = what;
  job->number = number;
  job->report = report;
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, dmi_id, addr, NULL));
  return thread;
}

static void set_stop(int64_t addr, int64_t value) {
  MUST(DMI_write(addr, 8, &value, DMI_PUT_WRITE, NULL));
}

/* One process after the other; the others have copies, and take pages over. */
static void test_values(struct job *job) {
  for (int64_t at = 0; at < 3; at++) {
    DMI_thread_t one, other[2];
    set_stop(job->stop, 0);
    for (int64_t i = 0; i < 2; i++)
      other[i] = start(job, DISTURB, at * 10 + i, ids[(at + i + 1) % 3]);
    one = start(job, VALUES, at, ids[at]);
    MUST(DMI_join(one, NULL, NULL));
    set_stop(job->stop, 1);
    MUST(DMI_join(other[0], NULL, NULL));
    MUST(DMI_join(other[1], NULL, NULL));
  }
}

static void test_count(struct job job) {
  unsigned char *ones = my_malloc(65536);
  memset(ones, 1, 65536);
  MUST(DMI_mmap(&job.addr[0], 65536, 111, NULL));
  for (int64_t i = 0; i < 111; i++) /* they have bytes, and belong to this process */
    MUST(DMI_write(job.addr[0] + i * 65536, 65536, ones, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_join(start(&job, COUNT, 0, ids[1]), NULL, NULL));
  my_free(ones);
}

/* Groups go on working while the third process, which has just taken the pages, leaves, and
 * another one comes and takes pages, too. */
static void test_leave(struct job *job) {
  DMI_thread_t worker[WORKERS], third, fourth;
  DMI_node_t node;
  struct job its = *job; /* the third's: told to stop before the others */
  its.stop += 8;
  set_stop(job->stop, 0);
  third = start(&its, DISTURB, 50, ids[2]);
  for (int64_t i = 0; i < WORKERS; i++)
    worker[i] = start(job, WORK, i, ids[i]);
  say("leave now");
  MUST(DMI_poll(&node));
  IS(node.state == DMI_CLOSE && node.dmi_id == ids[2]);
  set_stop(its.stop, 1);
  MUST(DMI_join(third, NULL, NULL));
  OK(DMI_goodbye(node.dmi_id));
  say("join now");
  MUST(DMI_poll(&node));
  IS(node.state == DMI_OPEN);
  MUST(DMI_welcome(node.dmi_id));
  fourth = start(job, DISTURB, 51, node.dmi_id);
  /* It is in the middle of it when its pages have been taken away again and again. */
  for (int64_t i = 0; i < 200; i++)
    OK(DMI_fad(job->addr[2] + i % page_nums[2] * page_sizes[2], 0, NULL, DMI_EXCLUSIVE_ATOMIC,
               NULL));
  set_stop(job->stop, 1);
  for (int64_t i = 0; i < WORKERS; i++)
    MUST(DMI_join(worker[i], NULL, NULL));
  MUST(DMI_join(fourth, NULL, NULL));
}

void DMI_main(int argc, char **argv) {
  struct job job;
  (void)argc, (void)argv;
  memset(&job, 0, sizeof(job));
  gather(3, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&jobs, sizeof(job), 100, NULL));
  MUST(DMI_mmap(&job.stop, 8, 2, NULL));
  for (int i = 0; i < MAPPINGS; i++)
    MUST(DMI_mmap(&job.addr[i], page_sizes[i], page_nums[i], NULL));
  bad_input();
  swapped();
  test_count(job);
  test_values(&job);
  test_leave(&job);
  verdict("group", report);
}
