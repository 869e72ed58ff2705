/*
 * is_dmi.c - NAS Parallel Benchmark IS: the ranks of many small integers, ten times over.
 *
 *   dmicc -O2 is_dmi.c -o is_dmi -lm
 *   dmirun ./is_dmi A                      class S, W or A; one process, a thread per core
 *   dmirun ./is_dmi A 2                    waits for a second process before it begins,
 *   dmirun -i HOST ./is_dmi                this one; more may join at any time
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: class [processes [threads per process]].  The keys are in global memory.  Each
 * iteration is a phase (spmd.h): the team is made anew from the processes there are, so that
 * machines come and go between two iterations.
 *
 * In a phase every thread counts its share of the keys, value by value, and writes the counts into
 * a page of its own (DMI_EXCLUSIVE_WRITE: nothing is sent).  After a barrier each thread ranks a
 * range of the values: it reads the counts of its range from all threads, once and at the same time
 * (DMI_GET_READ, asynchronous), adds them up, and writes how many keys there are up to each value.
 * Every thread puts before the counts of a range how many of its keys lie below that range, so that
 * no second round is needed.  Keys are read with DMI_INVALIDATE_READ: they stay where they are used
 * as long as the team stays the same.
 */
#include "hash.h"
#include "is.h"
#include "spmd.h"

#define UNIT 2048         /* keys of one page; shares of threads are whole pages */
#define CHUNK (64 * UNIT) /* keys that a thread handles at a time: they fit into its cache */

enum { MAKE_KEYS, RANK };

/* What a phase does, in global memory. */
typedef struct {
  int32_t phase;
  int32_t values; /* keys are below this */
  int64_t key_num;
  int64_t keys_addr; /* int32_t each, pages of UNIT keys */
  /* These change with the number of threads.  The values are cut into as many ranges as there are
   * threads; all are `range` long but the last ones, which are shorter or empty. */
  int64_t range;
  int64_t counts_addr; /* a page per thread: its counts, range by range, see is_cut */
  int64_t ranks_addr;  /* a page per range: for each value the number of keys up to it, int32_t */
} job_t;

/* ---- The threads ---------------------------------------------------------------------------- */

static void make_keys(const job_t *job, int64_t begin, int64_t end) {
  const int64_t size = (int64_t)sizeof(int32_t);
  uint64_t state = is_state(begin);
  int32_t *keys = my_malloc(CHUNK * sizeof(*keys));
  for (; begin < end; begin += CHUNK) {
    const int64_t num = end - begin < CHUNK ? end - begin : CHUNK;
    is_draw(&state, job->values, keys, num);
    CHECK(DMI_write(job->keys_addr + begin * size, num * size, keys, DMI_EXCLUSIVE_WRITE, NULL));
  }
  my_free(keys);
}

/* Bytes of the counts of one range: how many keys are below it, and one count per value. */
static int64_t range_bytes(const job_t *job) {
  return (1 + job->range) * (int64_t)sizeof(int32_t);
}

/* Counts the keys [begin, end) into `plain`, which has room for all values. */
static void count_keys(const job_t *job, int64_t begin, int64_t end, int32_t *plain) {
  const int64_t size = (int64_t)sizeof(int32_t);
  int32_t *keys = my_malloc(CHUNK * sizeof(*keys));
  for (; begin < end; begin += CHUNK) {
    const int64_t num = end - begin < CHUNK ? end - begin : CHUNK;
    CHECK(DMI_read(job->keys_addr + begin * size, num * size, keys, DMI_INVALIDATE_READ, NULL));
    is_count(keys, num, plain);
  }
  my_free(keys);
}

/* Adds up what all threads counted for the values of range `rank`, and writes their ranks. */
static void rank_values(const job_t *job, int32_t rank, int32_t pnum) {
  const int64_t bytes = range_bytes(job);
  int32_t *parts = my_malloc((size_t)(bytes * pnum));
  DMI_local_status_t *statuses = my_malloc((size_t)pnum * sizeof(*statuses));
  for (int64_t i = 0; i < pnum; i++) {
    const int64_t who = (rank + i) % pnum; /* so that not all threads begin with the same one */
    CHECK(DMI_read(job->counts_addr + (who * pnum + rank) * bytes, bytes,
                   parts + who * (1 + job->range), DMI_GET_READ, &statuses[who]));
  }
  int32_t *sums = parts;
  for (int64_t who = 0; who < pnum; who++) {
    int32_t ok;
    DMI_wait(&statuses[who], &ok);
    CHECK(ok);
  }
  for (int64_t who = 1; who < pnum; who++) {
    const int32_t *part = parts + who * (1 + job->range);
    for (int64_t i = 0; i <= job->range; i++)
      sums[i] += part[i];
  }
  is_sum(sums, job->range);
  const int64_t page = job->range * (int64_t)sizeof(int32_t);
  CHECK(DMI_write(job->ranks_addr + rank * page, page, sums + 1, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(statuses);
  my_free(parts);
}

static void rank_phase(const spmd_arg_t *arg, const job_t *job, int64_t begin, int64_t end) {
  const int64_t page = range_bytes(job) * arg->pnum;
  int32_t *counts = my_malloc((size_t)page);
  int32_t *plain = calloc((size_t)(job->range * arg->pnum), sizeof(*plain));
  DMI_local_barrier_t barrier;
  if (plain == NULL) abort();
  CHECK(DMI_local_barrier_init(&barrier, arg->barrier_addr));
  count_keys(job, begin, end, plain);
  is_cut(plain, job->range, arg->pnum, counts);
  CHECK(DMI_write(job->counts_addr + arg->rank * page, page, counts, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_local_barrier_sync(&barrier, arg->pnum));
  rank_values(job, arg->rank, arg->pnum);
  CHECK(DMI_local_barrier_destroy(&barrier));
  free(plain);
  my_free(counts);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  job_t job;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  int64_t begin, end; /* its units, and then its keys */
  CHECK(DMI_block((job.key_num + UNIT - 1) / UNIT, arg.rank, arg.pnum, &begin, &end));
  begin *= UNIT;
  end *= UNIT;
  if (job.phase == MAKE_KEYS) {
    make_keys(&job, begin, end);
  } else {
    rank_phase(&arg, &job, begin, end);
  }
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static void run_phase(const spmd_t *spmd, int64_t job_addr, job_t *job, int32_t phase) {
  job->phase = phase;
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(spmd, job_addr);
}

/* Gives the team its pages. */
static void share_out(const spmd_t *spmd, job_t *job) {
  if (job->counts_addr != DMI_NULL) {
    CHECK(DMI_munmap(job->ranks_addr, NULL));
    CHECK(DMI_munmap(job->counts_addr, NULL));
  }
  job->range = (job->values + spmd->pnum - 1) / spmd->pnum;
  CHECK(DMI_mmap(&job->counts_addr, range_bytes(job) * spmd->pnum, spmd->pnum, NULL));
  CHECK(DMI_mmap(&job->ranks_addr, job->range * (int64_t)sizeof(int32_t), spmd->pnum, NULL));
}

static int32_t read_int32(int64_t addr, int64_t index) {
  int32_t value;
  CHECK(DMI_read(addr + index * (int64_t)sizeof(value), sizeof(value), &value, DMI_GET_READ, NULL));
  return value;
}

static void write_key(const job_t *job, int64_t index, int32_t key) {
  CHECK(DMI_write(job->keys_addr + index * (int64_t)sizeof(key), sizeof(key), &key, DMI_PUT_WRITE,
                  NULL));
}

/* Changes two keys in every iteration.  Returns how many of the tests that compare ranks have
 * passed. */
static int iterate(const spmd_t *spmd, int64_t job_addr, job_t *job, int class, int iteration) {
  int32_t keys[IS_TESTS];
  int passed = 0;
  write_key(job, iteration, iteration);
  write_key(job, iteration + IS_ITERATIONS, job->values - iteration);
  for (int i = 0; i < IS_TESTS; i++)
    keys[i] = read_int32(job->keys_addr, is_classes[class].index[i]);
  run_phase(spmd, job_addr, job, RANK);
  for (int i = 0; i < IS_TESTS; i++) {
    const int32_t expected = is_expected(class, i, iteration);
    /* The number of keys below this one. */
    const int32_t rank = keys[i] == 0 ? 0 : read_int32(job->ranks_addr, keys[i] - 1);
    if (rank == expected) {
      passed++;
    } else {
      printf("iteration %d, key %d: rank %d, not %d\n", iteration, is_classes[class].index[i], rank,
             expected);
    }
  }
  return passed;
}

/* Reads all keys and ranks, and checks that they sort the keys.  Prints a checksum of the ranks. */
static int fully_verify(const job_t *job) {
  const int64_t size = (int64_t)sizeof(int32_t);
  int32_t *keys = npb_room(job->key_num, sizeof(*keys));
  int32_t *ranks = npb_room(job->values, sizeof(*ranks));
  CHECK(DMI_read(job->keys_addr, job->key_num * size, keys, DMI_GET_READ, NULL));
  CHECK(DMI_read(job->ranks_addr, job->values * size, ranks, DMI_GET_READ, NULL));
  printf("checksum %016llx\n", (unsigned long long)hash_int32s(0, ranks, job->values));
  const int right = is_sorts(keys, job->key_num, ranks);
  free(ranks);
  free(keys);
  return right;
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s class [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int class = npb_class(argv[1], is_class_names);
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  job_t job = {.values = 1 << is_classes[class].values_log,
               .key_num = (int64_t)1 << is_classes[class].keys_log};
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_mmap(&job.keys_addr, UNIT * sizeof(int32_t), (job.key_num + UNIT - 1) / UNIT, NULL));
  share_out(&spmd, &job);
  run_phase(&spmd, job_addr, &job, MAKE_KEYS);
  iterate(&spmd, job_addr, &job, class, 1); /* a first one that is not timed */

  int passed = 0;
  double seconds = 0;
  for (int iteration = 1; iteration <= IS_ITERATIONS; iteration++) {
    if (spmd_change(&spmd)) {
      printf("processes %d, threads %d\n", spmd.num, spmd.pnum);
      share_out(&spmd, &job);
    }
    const double begin = npb_clock();
    passed += iterate(&spmd, job_addr, &job, class, iteration);
    seconds += npb_clock() - begin;
    printf("iteration %d\n", iteration);
    fflush(stdout);
  }
  const int verified = passed == IS_TESTS * IS_ITERATIONS && fully_verify(&job);
  printf("processes %d, threads %d\n", spmd.num, spmd.pnum);
  npb_report("IS", is_class_names[class], job.key_num, seconds,
             (double)IS_ITERATIONS * (double)job.key_num, verified);
  CHECK(DMI_munmap(job.ranks_addr, NULL));
  CHECK(DMI_munmap(job.counts_addr, NULL));
  CHECK(DMI_munmap(job.keys_addr, NULL));
  CHECK(DMI_munmap(job_addr, NULL));
  if (!verified) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
