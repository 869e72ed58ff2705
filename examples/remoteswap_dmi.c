/*
 * remoteswap_dmi.c - sorts an array larger than the memory of any of its processes.
 *
 *   dmicc -O2 remoteswap_dmi.c -o remoteswap_dmi
 *   dmirun -s 64M ./remoteswap_dmi 96 4          96 MiB of numbers, waits for 4 processes:
 *   dmirun -s 64M -i HOST ./remoteswap_dmi       the other three
 *
 * Arguments: MiB [processes [threads per process]].  Every process lends `-s` bytes; all together
 * must hold the numbers twice.  No process has more than a few pieces of them in its own memory:
 * the rest is in global memory, and DMI moves pages to processes with free memory.
 *
 * It is a sampling sort.  The numbers are in stripes.
 *   fill      each stripe is written
 *   sample    some numbers of each stripe are read; sorted, they give the limits of the buckets
 *   count     how many of each stripe's numbers belong into each bucket: this gives their places
 *   scatter   all numbers are written to their buckets, in a second array
 *   sort      each bucket is read, sorted, and written back
 *   check     each bucket is read once more: numbers must be in order, and none lost or added
 * Each phase is a list of tasks, stripes or buckets, that the threads take from a counter; between
 * two phases processes may come and go.
 *
 * At the end the first process alone writes and reads all of the first array, and a file as large
 * in the directory that TMPDIR names (/tmp), and prints how fast that was.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <time.h>

#include "spmd.h"

#define PAGE ((int64_t)256 << 10)              /* bytes of a page */
#define PAGE_NUM (PAGE / (int64_t)sizeof(key)) /* numbers in a page */
#define STRIPE_PAGES 8                         /* pages of a stripe: 2 MiB */
#define BUCKET ((int64_t)2 << 20)              /* approximate bytes of a bucket */
#define SAMPLES 64                             /* numbers sampled of each stripe */
#define BATCH 2048 /* numbers for the same bucket that are written together */

typedef uint64_t key;

enum phase { FILL, SAMPLE, COUNT, SCATTER, SORT, CHECK_ORDER, PHASES };
static const char *const phase_names[PHASES] = {"fill",    "sample", "count",
                                                "scatter", "sort",   "check"};

/* What a thread has found in a bucket, or written to a stripe. */
typedef struct {
  int64_t num; /* numbers */
  uint64_t sum, mixed;
  key first, last;
  int64_t in_order; /* bool */
} found_t;

/* The work, in global memory. */
typedef struct {
  int64_t next, done; /* counters: tasks taken, tasks done, of this phase */
  int64_t tasks;
  int64_t phase;
  int64_t num, stripes, buckets;
  int64_t from_addr;    /* key[num]: in stripes */
  int64_t to_addr;      /* key[num]: in buckets */
  int64_t samples_addr; /* key[stripes][SAMPLES] */
  int64_t limits_addr;  /* key[buckets]: the first number that is too large for the bucket */
  int64_t counts_addr;  /* int64_t[stripes][buckets]; after `count`: where they are to stand */
  int64_t begins_addr;  /* int64_t[buckets + 1]: where each bucket begins */
  int64_t found_addr;   /* found_t[] by stripe or bucket */
} job_t;

static double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The i-th number: small ones are more frequent, so that buckets of equal width would not do. */
static key number(int64_t i) {
  const uint64_t z = mix((uint64_t)i + 0x9e3779b97f4a7c15u);
  return z >> (mix(z) & 15);
}

static int by_size(const void *a, const void *b) {
  const key x = *(const key *)a, y = *(const key *)b;
  return (x > y) - (x < y);
}

/* Adds the next numbers to `found`. */
static void look(found_t *found, const key *keys, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    if (found->num++ == 0) {
      found->first = keys[i];
    } else if (keys[i] < found->last) {
      found->in_order = 0;
    }
    found->last = keys[i];
    found->sum += keys[i];
    found->mixed += mix(keys[i]);
  }
}

/* ---- The threads ---------------------------------------------------------------------------- */

typedef struct {
  spmd_arg_t arg;
  job_t job;
  key *page;        /* PAGE_NUM numbers */
  key *limits;      /* of all buckets */
  int64_t *counts;  /* of the present stripe, by bucket */
  key *batches;     /* BATCH numbers for each bucket */
  int32_t *batched; /* how many there are */
} worker_t;

static void *new_array(int64_t num, size_t size) {
  void *array = my_malloc((size_t)num * size);
  memset(array, 0, (size_t)num * size);
  return array;
}

static int64_t stripe_begin(const job_t *job, int64_t stripe) {
  const int64_t begin = stripe * STRIPE_PAGES * PAGE_NUM;
  return begin < job->num ? begin : job->num;
}

static int64_t bytes_of(int64_t num) {
  return num * (int64_t)sizeof(key);
}

/* The bucket of a number: the first whose limit is above it. */
static int64_t bucket_of(const worker_t *w, key value) {
  int64_t low = 0, high = w->job.buckets - 1;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (value < w->limits[mid]) {
      high = mid;
    } else {
      low = mid + 1;
    }
  }
  return low;
}

static void put_found(const worker_t *w, int64_t task, const found_t *found) {
  CHECK(DMI_write(w->job.found_addr + task * (int64_t)sizeof(*found), sizeof(*found), (void *)found,
                  DMI_PUT_WRITE, NULL));
}

/* Reads a stripe page by page. */
static void each_page(worker_t *w, int64_t stripe, void (*visit)(worker_t *, int64_t num)) {
  const int64_t end = stripe_begin(&w->job, stripe + 1);
  for (int64_t at = stripe_begin(&w->job, stripe); at < end; at += PAGE_NUM) {
    const int64_t num = end - at < PAGE_NUM ? end - at : PAGE_NUM;
    CHECK(DMI_read(w->job.from_addr + bytes_of(at), bytes_of(num), w->page, DMI_GET_READ, NULL));
    visit(w, num);
  }
}

static void do_fill(worker_t *w, int64_t stripe) {
  const int64_t end = stripe_begin(&w->job, stripe + 1);
  found_t found = {.in_order = 1};
  for (int64_t at = stripe_begin(&w->job, stripe); at < end; at += PAGE_NUM) {
    const int64_t num = end - at < PAGE_NUM ? end - at : PAGE_NUM;
    for (int64_t i = 0; i < num; i++)
      w->page[i] = number(at + i);
    look(&found, w->page, num);
    CHECK(DMI_write(w->job.from_addr + bytes_of(at), bytes_of(num), w->page, DMI_EXCLUSIVE_WRITE,
                    NULL));
  }
  put_found(w, stripe, &found);
}

/* A scattered read: at most one request for each page, however many numbers it has of it. */
static void do_sample(worker_t *w, int64_t stripe) {
  const int64_t begin = stripe_begin(&w->job, stripe), end = stripe_begin(&w->job, stripe + 1);
  int64_t addrs[SAMPLES], sizes[SAMPLES], offsets[SAMPLES];
  key samples[SAMPLES];
  DMI_local_group_t group;
  for (int64_t i = 0; i < SAMPLES; i++) {
    const int64_t at = begin + (end - begin) * i / SAMPLES;
    addrs[i] = w->job.from_addr + bytes_of(at);
    sizes[i] = (int64_t)sizeof(key);
    offsets[i] = bytes_of(i);
  }
  CHECK(DMI_group_init(&group, addrs, sizes, offsets, SAMPLES));
  CHECK(DMI_group_read(&group, samples, NULL));
  CHECK(DMI_group_destroy(&group));
  CHECK(DMI_write(w->job.samples_addr + stripe * bytes_of(SAMPLES), bytes_of(SAMPLES), samples,
                  DMI_PUT_WRITE, NULL));
}

static void count_page(worker_t *w, int64_t num) {
  for (int64_t i = 0; i < num; i++)
    w->counts[bucket_of(w, w->page[i])]++;
}

static int64_t counts_of(const worker_t *w, int64_t stripe) {
  return w->job.counts_addr + stripe * w->job.buckets * (int64_t)sizeof(int64_t);
}

static void do_count(worker_t *w, int64_t stripe) {
  const int64_t bytes = w->job.buckets * (int64_t)sizeof(int64_t);
  memset(w->counts, 0, (size_t)bytes);
  each_page(w, stripe, count_page);
  CHECK(DMI_write(counts_of(w, stripe), bytes, w->counts, DMI_PUT_WRITE, NULL));
}

/* Writes the batch of a bucket, after the numbers that this stripe has written there before. */
static void batch_out(worker_t *w, int64_t bucket) {
  const int32_t num = w->batched[bucket];
  if (num == 0) return;
  CHECK(DMI_write(w->job.to_addr + bytes_of(w->counts[bucket]), bytes_of(num),
                  w->batches + bucket * BATCH, DMI_PUT_WRITE, NULL));
  w->counts[bucket] += num;
  w->batched[bucket] = 0;
}

static void scatter_page(worker_t *w, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    const int64_t bucket = bucket_of(w, w->page[i]);
    w->batches[bucket * BATCH + w->batched[bucket]++] = w->page[i];
    if (w->batched[bucket] == BATCH) batch_out(w, bucket);
  }
}

static void do_scatter(worker_t *w, int64_t stripe) {
  CHECK(DMI_read(counts_of(w, stripe), w->job.buckets * (int64_t)sizeof(int64_t), w->counts,
                 DMI_GET_READ, NULL));
  each_page(w, stripe, scatter_page);
  for (int64_t bucket = 0; bucket < w->job.buckets; bucket++)
    batch_out(w, bucket);
}

static void do_bucket(worker_t *w, int64_t bucket) {
  int64_t ends[2]; /* begin of this bucket, and of the next */
  found_t found = {.in_order = 1};
  CHECK(DMI_read(w->job.begins_addr + bytes_of(bucket), sizeof(ends), ends, DMI_GET_READ, NULL));
  const int64_t addr = w->job.to_addr + bytes_of(ends[0]), num = ends[1] - ends[0];
  key *keys = my_malloc((size_t)bytes_of(num + 1));
  CHECK(DMI_read(addr, bytes_of(num), keys, DMI_GET_READ, NULL));
  if (w->job.phase == SORT) {
    qsort(keys, (size_t)num, sizeof(key), by_size);
    CHECK(DMI_write(addr, bytes_of(num), keys, DMI_PUT_WRITE, NULL));
  } else {
    look(&found, keys, num);
    put_found(w, bucket, &found);
  }
  my_free(keys);
}

static void do_task(worker_t *w, int64_t task) {
  switch (w->job.phase) {
    case FILL:
      do_fill(w, task);
      break;
    case SAMPLE:
      do_sample(w, task);
      break;
    case COUNT:
      do_count(w, task);
      break;
    case SCATTER:
      do_scatter(w, task);
      break;
    default:
      do_bucket(w, task);
  }
}

static void worker_open(worker_t *w, int64_t addr) {
  CHECK(DMI_read(addr, sizeof(w->arg), &w->arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(w->arg.job_addr, sizeof(w->job), &w->job, DMI_GET_READ, NULL));
  const int64_t buckets = w->job.buckets;
  w->page = new_array(PAGE_NUM, sizeof(key));
  w->limits = new_array(buckets, sizeof(key));
  w->counts = new_array(buckets, sizeof(int64_t));
  w->batches = new_array(buckets * BATCH, sizeof(key));
  w->batched = new_array(buckets, sizeof(int32_t));
  CHECK(DMI_read(w->job.limits_addr, bytes_of(buckets), w->limits, DMI_GET_READ, NULL));
}

static void worker_close(worker_t *w) {
  my_free(w->batched);
  my_free(w->batches);
  my_free(w->counts);
  my_free(w->limits);
  my_free(w->page);
}

/* Rank 0 shows the progress of all threads, in steps of a quarter. */
static void show(const worker_t *w, int64_t done, int64_t *shown) {
  const int64_t quarter = 4 * done / w->job.tasks;
  if (w->arg.rank != 0 || quarter <= *shown || quarter == 4) return;
  *shown = quarter;
  printf("%-8s %3d %%\n", phase_names[w->job.phase], (int)quarter * 25);
  fflush(stdout);
}

int64_t DMI_thread(int64_t addr) {
  worker_t w;
  int64_t shown = 0;
  worker_open(&w, addr);
  const int64_t next_addr = w.arg.job_addr + (int64_t)offsetof(job_t, next);
  const int64_t done_addr = w.arg.job_addr + (int64_t)offsetof(job_t, done);
  for (;;) {
    int64_t task, done;
    CHECK(DMI_fad(next_addr, 1, &task, DMI_PUT_ATOMIC, NULL));
    if (task >= w.job.tasks) break;
    do_task(&w, task);
    CHECK(DMI_fad(done_addr, 1, &done, DMI_PUT_ATOMIC, NULL));
    show(&w, done + 1, &shown);
  }
  worker_close(&w);
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static void run_phase(spmd_t *spmd, int64_t job_addr, job_t *job, enum phase phase) {
  const double begin = clock_now();
  spmd_change(spmd);
  job->phase = phase;
  job->tasks = phase >= SORT ? job->buckets : job->stripes;
  job->next = job->done = 0;
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(spmd, job_addr);
  printf("%-8s 100 %%  %7.3f s, %d processes\n", phase_names[phase], clock_now() - begin,
         spmd->num);
  fflush(stdout);
}

/* The limits of the buckets, from the sorted samples. */
static void set_limits(const job_t *job) {
  const int64_t num = job->stripes * SAMPLES;
  key *samples = new_array(num, sizeof(key)), *limits = new_array(job->buckets, sizeof(key));
  CHECK(DMI_read(job->samples_addr, bytes_of(num), samples, DMI_GET_READ, NULL));
  qsort(samples, (size_t)num, sizeof(key), by_size);
  for (int64_t i = 0; i + 1 < job->buckets; i++)
    limits[i] = samples[num * (i + 1) / job->buckets];
  limits[job->buckets - 1] = UINT64_MAX; /* the last one has no limit */
  CHECK(DMI_write(job->limits_addr, bytes_of(job->buckets), limits, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(limits);
  my_free(samples);
}

/* Makes places of counts: bucket by bucket, and in each bucket stripe by stripe. */
static void set_begins(const job_t *job) {
  const int64_t num = job->stripes * job->buckets;
  int64_t *counts = new_array(num, sizeof(int64_t));
  int64_t *begins = new_array(job->buckets + 1, sizeof(int64_t)), at = 0;
  CHECK(DMI_read(job->counts_addr, bytes_of(num), counts, DMI_GET_READ, NULL));
  for (int64_t bucket = 0; bucket < job->buckets; bucket++) {
    begins[bucket] = at;
    for (int64_t stripe = 0; stripe < job->stripes; stripe++) {
      int64_t *count = &counts[stripe * job->buckets + bucket];
      const int64_t begin = at;
      at += *count;
      *count = begin;
    }
  }
  begins[job->buckets] = at;
  CHECK(DMI_write(job->counts_addr, bytes_of(num), counts, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_write(job->begins_addr, bytes_of(job->buckets + 1), begins, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(begins);
  my_free(counts);
}

/* The results of all tasks of a phase, combined in their order. */
static found_t all_found(const job_t *job, int64_t tasks) {
  found_t *found = new_array(tasks, sizeof(*found)), all = {.in_order = 1};
  CHECK(DMI_read(job->found_addr, tasks * (int64_t)sizeof(*found), found, DMI_GET_READ, NULL));
  for (int64_t i = 0; i < tasks; i++) {
    if (found[i].num == 0) continue;
    all.in_order &= found[i].in_order && (all.num == 0 || all.last <= found[i].first);
    all.last = found[i].last;
    all.num += found[i].num;
    all.sum += found[i].sum;
    all.mixed += found[i].mixed;
  }
  my_free(found);
  return all;
}

static void map_all(job_t *job, int64_t *job_addr) {
  const int64_t tasks = job->stripes > job->buckets ? job->stripes : job->buckets;
  const int64_t pages = (bytes_of(job->num) + PAGE - 1) / PAGE;
  CHECK(DMI_mmap(&job->from_addr, PAGE, pages, NULL));
  CHECK(DMI_mmap(&job->to_addr, PAGE, pages, NULL));
  CHECK(DMI_mmap(&job->samples_addr, bytes_of(SAMPLES), job->stripes, NULL));
  CHECK(DMI_mmap(&job->limits_addr, bytes_of(job->buckets), 1, NULL));
  CHECK(DMI_mmap(&job->counts_addr, bytes_of(job->buckets), job->stripes, NULL));
  CHECK(DMI_mmap(&job->begins_addr, bytes_of(job->buckets + 1), 1, NULL));
  CHECK(DMI_mmap(&job->found_addr, sizeof(found_t), tasks, NULL));
  CHECK(DMI_mmap(job_addr, sizeof(*job), 1, NULL));
}

static void unmap_all(const job_t *job, int64_t job_addr) {
  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job->found_addr, NULL));
  CHECK(DMI_munmap(job->begins_addr, NULL));
  CHECK(DMI_munmap(job->counts_addr, NULL));
  CHECK(DMI_munmap(job->limits_addr, NULL));
  CHECK(DMI_munmap(job->samples_addr, NULL));
  CHECK(DMI_munmap(job->to_addr, NULL));
  CHECK(DMI_munmap(job->from_addr, NULL));
}

/* ---- Speed ---------------------------------------------------------------------------------- */

typedef struct {
  double write, read; /* MB/s */
} speed_t;

static speed_t global_speed(const job_t *job, char *page) {
  const int64_t bytes = bytes_of(job->num) / PAGE * PAGE;
  const double begin = clock_now();
  for (int64_t at = 0; at < bytes; at += PAGE)
    CHECK(DMI_write(job->from_addr + at, PAGE, page, DMI_EXCLUSIVE_WRITE, NULL));
  const double middle = clock_now();
  for (int64_t at = 0; at < bytes; at += PAGE)
    CHECK(DMI_read(job->from_addr + at, PAGE, page, DMI_INVALIDATE_READ, NULL));
  const double end = clock_now();
  return (speed_t){(double)bytes / (middle - begin) / 1e6, (double)bytes / (end - middle) / 1e6};
}

static void file_must(int ok, const char *dir) {
  if (ok) return;
  fprintf(stderr, "a file in %s: %s; TMPDIR can name another directory\n", dir, strerror(errno));
  exit(EXIT_FAILURE);
}

/* All bytes are on the disk before the writing ends, and none in memory when the reading begins.
 */
static speed_t file_speed(const job_t *job, char *page) {
  const int64_t bytes = bytes_of(job->num) / PAGE * PAGE;
  const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  const int fd = open(dir, O_TMPFILE | O_RDWR, 0600);
  file_must(fd >= 0, dir);
  const double begin = clock_now();
  for (int64_t at = 0; at < bytes; at += PAGE)
    file_must(pwrite(fd, page, (size_t)PAGE, at) == PAGE, dir);
  file_must(fdatasync(fd) == 0, dir);
  const double middle = clock_now();
  posix_fadvise(fd, 0, bytes, POSIX_FADV_DONTNEED);
  const double again = clock_now();
  for (int64_t at = 0; at < bytes; at += PAGE)
    file_must(pread(fd, page, (size_t)PAGE, at) == PAGE, dir);
  const double end = clock_now();
  close(fd);
  return (speed_t){(double)bytes / (middle - begin) / 1e6, (double)bytes / (end - again) / 1e6};
}

static void show_speed(const job_t *job) {
  char *page = new_array(PAGE, 1);
  memset(page, 1, (size_t)PAGE);
  const speed_t global = global_speed(job, page), file = file_speed(job, page);
  printf("global memory, one process: write %.0f MB/s, read %.0f MB/s\n", global.write,
         global.read);
  printf("file on disk:               write %.0f MB/s, read %.0f MB/s\n", file.write, file.read);
  my_free(page);
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s MiB [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int64_t bytes = (int64_t)check_number("MiB", argv[1], 1) << 20;
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  job_t job = {.num = bytes / (int64_t)sizeof(key),
               .stripes = (bytes + STRIPE_PAGES * PAGE - 1) / (STRIPE_PAGES * PAGE),
               .buckets = (bytes + BUCKET - 1) / BUCKET};
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  map_all(&job, &job_addr);
  run_phase(&spmd, job_addr, &job, FILL);
  const found_t filled = all_found(&job, job.stripes);
  run_phase(&spmd, job_addr, &job, SAMPLE);
  set_limits(&job);
  run_phase(&spmd, job_addr, &job, COUNT);
  set_begins(&job);
  run_phase(&spmd, job_addr, &job, SCATTER);
  run_phase(&spmd, job_addr, &job, SORT);
  run_phase(&spmd, job_addr, &job, CHECK_ORDER);
  const found_t sorted = all_found(&job, job.buckets);
  const int right = sorted.in_order && sorted.num == job.num && filled.num == job.num &&
                    sorted.sum == filled.sum && sorted.mixed == filled.mixed;
  if (right) show_speed(&job);
  printf("%s\n", right ? "correct" : "wrong");
  fflush(stdout);
  unmap_all(&job, job_addr);
  if (!right) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
