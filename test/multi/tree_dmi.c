/*
 * tree_dmi.c - one process writes a page, k others read all of it at the same time: who sends how
 * many bytes is counted, for each k and several sizes of a page.
 *
 *   dmirun tree_dmi READERS     READERS + 1 processes
 */
#include "multi.h"

#define MOST 16 /* readers */
#define TIMES 3 /* the page is written and read so many times */

/* What this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_bytes(const struct dmi_access *access, int type, uint64_t *num);
enum { MSG_DATA = 7, MSG_BLOCK = 23 };

static const int64_t sizes[] = {4096, 100000, 256 << 10, 1 << 20, (5 << 20) + 3};
#define SIZES ((int64_t)(sizeof(sizes) / sizeof(sizes[0])))

struct job {
  int64_t number;        /* 0: the writer */
  int64_t readers;       /* how many there are */
  int64_t page[SIZES];   /* a mapping of one page of each size */
  int64_t barrier, sent; /* sent: 64-bit sum of what the readers sent on */
  int64_t report;
};

static int64_t bytes_sent(int64_t *transfers, int64_t size) {
  uint64_t num;
  int64_t data = (int64_t)dmi_access_bytes(dmi_runtime_access(), MSG_DATA, &num);
  int64_t blocks = (int64_t)dmi_access_bytes(dmi_runtime_access(), MSG_BLOCK, NULL);
  if (transfers) *transfers = (int64_t)num + blocks / size;
  return data + blocks;
}

static int64_t log2_up(int64_t number) {
  int64_t log = 0;
  while ((int64_t)1 << log < number)
    log++;
  return log;
}

/* One write, then k readers at once. */
static void one(const struct job *job, DMI_local_barrier_t *barrier, int64_t at, int64_t k,
                int64_t time) {
  int64_t size = sizes[at], before, num_before, after, num;
  unsigned char *want = my_malloc((size_t)size + 8), *got = my_malloc((size_t)size + 8);
  rng_fill((uint64_t)(at * 1000 + k * 10 + time), want, (uint64_t)size);
  if (job->number == 0) {
    put_int64(job->sent, 0);
    OK(DMI_write(job->page[at], size, want, DMI_EXCLUSIVE_WRITE, NULL));
  }
  before = bytes_sent(&num_before, size);
  OK(DMI_local_barrier_sync(barrier, (int32_t)job->readers + 1));
  if (job->number > 0 && job->number <= k) {
    OK(DMI_read(job->page[at], size, got, DMI_INVALIDATE_READ, NULL));
    SAME(got, want, size);
  }
  OK(DMI_local_barrier_sync(barrier, (int32_t)job->readers + 1));
  after = bytes_sent(&num, size);
  if (job->number > 0) {
    MUST(DMI_fad(job->sent, after - before, NULL, DMI_PUT_ATOMIC, NULL));
  }
  OK(DMI_local_barrier_sync(barrier, (int32_t)job->readers + 1));
  if (job->number == 0) {
    /* Each reader gets the page once, from whomever. */
    EQ(after - before + get_int64(job->sent), k * size);
    EQ(after - before, (num - num_before) * size);
    if (size >= 256 << 10) IS(num - num_before <= log2_up(k + 1));
    if (size >= 8 << 18) EQ(num - num_before, 1);
    if (time == 0)
      say("%d bytes, %d readers: %d sent by the owner", (int)size, (int)k, (int)(num - num_before));
  }
  my_free(want);
  my_free(got);
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t barrier;
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  MUST(DMI_local_barrier_init(&barrier, job.barrier));
  for (int64_t k = 1; k <= job.readers; k++) {
    for (int64_t at = 0; at < SIZES; at++) {
      for (int64_t time = 0; time < TIMES; time++)
        one(&job, &barrier, at, k, time);
    }
  }
  OK(DMI_local_barrier_destroy(&barrier));
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  int64_t readers = argc > 1 ? atoll(argv[1]) : 8, jobs;
  DMI_thread_t threads[MOST + 1];
  int32_t ids[MOST + 1];
  struct job job = {0};
  job.readers = readers;
  gather((int32_t)readers + 1, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), readers + 1, NULL));
  MUST(DMI_mmap(&job.barrier, sizeof(DMI_barrier_t), 1, NULL));
  MUST(DMI_mmap(&job.sent, 8, 1, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  for (int64_t at = 0; at < SIZES; at++)
    MUST(DMI_mmap(&job.page[at], sizes[at], 1, NULL));
  MUST(DMI_barrier_init(job.barrier));
  for (job.number = 0; job.number <= readers; job.number++) {
    int64_t at = jobs + job.number * (int64_t)sizeof(job);
    MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[job.number], ids[job.number], at, NULL));
  }
  for (int64_t i = 0; i <= readers; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  verdict("tree", job.report);
}
