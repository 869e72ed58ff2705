/*
 * is_dmi.c - NAS Parallel Benchmark IS: the ranks of many small integers, ten times over.
 *
 *   dmicc -O2 is_dmi.c -o is_dmi -lm
 *   dmirun ./is_dmi A                      class S, W or A; one process, a thread per core
 *   dmirun ./is_dmi A 2                    waits for a second process before it begins,
 *   dmirun -i HOST ./is_dmi                this one; more may join at any time
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: class [processes [threads per process]].  The keys are in global memory.  A phase
 * (spmd.h) is five iterations; for each the team is made anew from the processes there are, so that
 * machines come and go between two phases.
 *
 * In a phase each thread is a rank of a team (dmi_team.h), with its share of the keys in local
 * memory.  In an iteration it counts its keys, value by value, and sends each other rank the counts
 * of the range of values that this one ranks; it gets theirs of its own range, adds them up, and so
 * knows how many keys there are up to each value.  Before the counts of a range stands how many of
 * the sender's keys lie below that range, so that no second round is needed.  The receives are
 * begun first, and messages of this size go from the sender's memory into the receiver's without a
 * copy in between.
 */
#include "dmi_team.h"
#include "hash.h"
#include "is.h"
#include "spmd.h"

#define UNIT 2048         /* keys of one page; shares of threads are whole pages */
#define CHUNK (64 * UNIT) /* keys that are made at a time */
#define PHASE 5           /* iterations between two changes of the team */

enum { MAKE_KEYS, RANK };

/* What a phase does, in global memory. */
typedef struct {
  int32_t phase;
  int32_t class;
  int32_t values; /* keys are below this */
  int64_t key_num;
  int64_t keys_addr; /* int32_t each, pages of UNIT keys */
  int64_t team_addr; /* DMI_team_t */
  /* These change with the number of threads.  The values are cut into as many ranges as there are
   * threads; all are `range` long but the last ones, which are shorter or empty. */
  int64_t range;
  int64_t ranks_addr; /* a page per range: for each value the number of keys up to it, int32_t */
  int32_t begin, end; /* the iterations of this phase */
  /* ---- written by rank 0 ---- */
  int32_t passed; /* tests that compare ranks, in this phase */
  double seconds; /* of this phase */
} job_t;

/* A thread and its part of everything. */
typedef struct {
  int32_t rank, pnum;
  job_t job;
  DMI_local_team_t team;
  int64_t begin, end; /* its keys */
  int32_t *keys;
  int32_t *plain, *counts;              /* of all values, and with what is below each range */
  int32_t *parts;                       /* of its range: the counts of the other ranks */
  const int32_t *sums;                  /* of its range: sums[1 + value] keys up to a value */
  DMI_local_status_t *sends, *receives; /* a status for each rank */
} sorter_t;

/* ---- The threads ---------------------------------------------------------------------------- */

static int64_t key_addr(const job_t *job, int64_t index) {
  return job->keys_addr + index * (int64_t)sizeof(int32_t);
}

static void make_keys(const job_t *job, int64_t begin, int64_t end) {
  uint64_t state = is_state(begin);
  int32_t *keys = my_malloc(CHUNK * sizeof(*keys));
  for (; begin < end; begin += CHUNK) {
    const int64_t num = end - begin < CHUNK ? end - begin : CHUNK;
    is_draw(&state, job->values, keys, num);
    CHECK(DMI_write(key_addr(job, begin), num * (int64_t)sizeof(*keys), keys, DMI_EXCLUSIVE_WRITE,
                    NULL));
  }
  my_free(keys);
}

/* Counts of one range: how many keys are below it, and one count per value. */
static int64_t range_counts(const sorter_t *s) {
  return 1 + s->job.range;
}

static void sorter_open(sorter_t *s) {
  const int64_t num = s->end - s->begin, size = (int64_t)sizeof(int32_t);
  CHECK(DMI_team_join(&s->team, s->job.team_addr, s->rank));
  s->keys = npb_room(num, sizeof(*s->keys));
  s->plain = npb_room(s->job.range * s->pnum, sizeof(*s->plain));
  s->counts = npb_room(range_counts(s) * s->pnum, sizeof(*s->counts));
  s->parts = npb_room(range_counts(s) * s->pnum, sizeof(*s->parts));
  s->sends = my_malloc((size_t)s->pnum * sizeof(*s->sends));
  s->receives = my_malloc((size_t)s->pnum * sizeof(*s->receives));
  if (num > 0)
    CHECK(DMI_read(key_addr(&s->job, s->begin), num * size, s->keys, DMI_GET_READ, NULL));
}

static void sorter_close(sorter_t *s) {
  my_free(s->receives);
  my_free(s->sends);
  free(s->parts);
  free(s->counts);
  free(s->plain);
  free(s->keys);
  CHECK(DMI_team_leave(&s->team));
}

/* A key is changed in global memory, too: the next team reads it there. */
static void set_key(sorter_t *s, int64_t index, int32_t key) {
  if (index < s->begin || index >= s->end) return;
  s->keys[index - s->begin] = key;
  CHECK(DMI_write(key_addr(&s->job, index), sizeof(key), &key, DMI_PUT_WRITE, NULL));
}

/* The keys of the tests, as all must know them. */
static void find_keys(sorter_t *s, int32_t *keys) {
  int32_t mine[IS_TESTS];
  for (int i = 0; i < IS_TESTS; i++) {
    const int64_t index = is_classes[s->job.class].index[i];
    mine[i] = index >= s->begin && index < s->end ? s->keys[index - s->begin] : -1;
  }
  CHECK(DMI_team_allreduce(&s->team, mine, keys, IS_TESTS, DMI_TYPE_INT32, DMI_OP_MAX));
}

/* Gives all others their counts, and adds up those of its own range. */
static void exchange(sorter_t *s) {
  const int64_t num = range_counts(s), bytes = num * (int64_t)sizeof(int32_t);
  int32_t *sums = s->counts + s->rank * num;
  for (int32_t i = 1; i < s->pnum; i++) {
    const int32_t from = (s->rank + s->pnum - i) % s->pnum;
    CHECK(DMI_team_recv(&s->team, from, s->parts + from * num, bytes, NULL, &s->receives[from]));
  }
  for (int32_t i = 1; i < s->pnum; i++) {
    const int32_t to = (s->rank + i) % s->pnum;
    CHECK(DMI_team_send(&s->team, to, s->counts + to * num, bytes, &s->sends[to]));
  }
  for (int32_t i = 1; i < s->pnum; i++) {
    const int32_t from = (s->rank + s->pnum - i) % s->pnum;
    const int32_t *part = s->parts + from * num;
    check_wait(&s->receives[from]);
    for (int64_t k = 0; k < num; k++)
      sums[k] += part[k];
  }
  for (int32_t i = 1; i < s->pnum; i++)
    check_wait(&s->sends[(s->rank + i) % s->pnum]);
  is_sum(sums, s->job.range);
  s->sums = sums;
}

/* How many of the tests that this thread can make have passed. */
static int test_ranks(const sorter_t *s, const int32_t *keys, int iteration) {
  int passed = 0;
  for (int i = 0; i < IS_TESTS; i++) {
    const int64_t below = keys[i] - 1; /* the rank is the number of keys up to this value */
    const int32_t expected = is_expected(s->job.class, i, iteration);
    if (below < 0 ? s->rank != 0 : below / s->job.range != s->rank) continue;
    const int32_t rank = below < 0 ? 0 : s->sums[1 + below % s->job.range];
    passed += rank == expected;
    if (rank != expected)
      printf("iteration %d, key %d: rank %d, not %d\n", iteration,
             is_classes[s->job.class].index[i], rank, expected);
  }
  return passed;
}

/* Changes two keys, and ranks all.  Returns how many tests have passed here. */
static int iterate(sorter_t *s, int iteration) {
  int32_t keys[IS_TESTS];
  set_key(s, iteration, iteration);
  set_key(s, iteration + IS_ITERATIONS, s->job.values - iteration);
  find_keys(s, keys);
  memset(s->plain, 0, (size_t)(s->job.range * s->pnum) * sizeof(*s->plain));
  is_count(s->keys, s->end - s->begin, s->plain);
  is_cut(s->plain, s->job.range, s->pnum, s->counts);
  exchange(s);
  return test_ranks(s, keys, iteration);
}

/* The first iteration is made once more before the clock starts: then all memory is in place. */
static void rank_phase(sorter_t *s, int64_t job_addr) {
  const int64_t page = s->job.range * (int64_t)sizeof(int32_t);
  int32_t passed = 0;
  sorter_open(s);
  iterate(s, s->job.begin);
  CHECK(DMI_team_barrier(&s->team));
  s->job.seconds = -npb_clock();
  for (int iteration = s->job.begin; iteration < s->job.end; iteration++)
    passed += iterate(s, iteration);
  CHECK(
      DMI_write(s->job.ranks_addr + s->rank * page, page, s->sums + 1, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_team_barrier(&s->team));
  s->job.seconds += npb_clock();
  CHECK(DMI_team_reduce(&s->team, 0, &passed, &s->job.passed, 1, DMI_TYPE_INT32, DMI_OP_SUM));
  if (s->rank == 0) CHECK(DMI_write(job_addr, sizeof(s->job), &s->job, DMI_PUT_WRITE, NULL));
  sorter_close(s);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  sorter_t s = {0};
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(s.job), &s.job, DMI_GET_READ, NULL));
  s.rank = arg.rank;
  s.pnum = arg.pnum;
  CHECK(DMI_block((s.job.key_num + UNIT - 1) / UNIT, s.rank, s.pnum, &s.begin, &s.end));
  s.begin *= UNIT;
  s.end *= UNIT;
  if (s.job.phase == MAKE_KEYS) {
    make_keys(&s.job, s.begin, s.end);
  } else {
    rank_phase(&s, arg.job_addr);
  }
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

/* The job is as the phase leaves it then. */
static void run_phase(const spmd_t *spmd, int64_t job_addr, job_t *job, int32_t phase) {
  job->phase = phase;
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(spmd, job_addr);
  CHECK(DMI_read(job_addr, sizeof(*job), job, DMI_GET_READ, NULL));
}

/* Gives the team its pages. */
static void share_out(const spmd_t *spmd, job_t *job) {
  if (job->ranks_addr != DMI_NULL) CHECK(DMI_munmap(job->ranks_addr, NULL));
  job->range = (job->values + spmd->pnum - 1) / spmd->pnum;
  CHECK(DMI_mmap(&job->ranks_addr, job->range * (int64_t)sizeof(int32_t), spmd->pnum, NULL));
  CHECK(DMI_team_resize(job->team_addr, spmd->pnum)); /* nobody is in it now */
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
  job_t job = {.class = class,
               .values = 1 << is_classes[class].values_log,
               .key_num = (int64_t)1 << is_classes[class].keys_log};
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_mmap(&job.keys_addr, UNIT * sizeof(int32_t), (job.key_num + UNIT - 1) / UNIT, NULL));
  CHECK(DMI_mmap(&job.team_addr, sizeof(DMI_team_t), 1, NULL));
  CHECK(DMI_team_init(job.team_addr, spmd.pnum));
  share_out(&spmd, &job);
  run_phase(&spmd, job_addr, &job, MAKE_KEYS);

  int passed = 0;
  double seconds = 0;
  for (job.begin = 1; job.begin <= IS_ITERATIONS; job.begin = job.end) {
    if (spmd_change(&spmd)) {
      printf("processes %d, threads %d\n", spmd.num, spmd.pnum);
      share_out(&spmd, &job);
    }
    job.end = job.begin + PHASE <= IS_ITERATIONS ? job.begin + PHASE : IS_ITERATIONS + 1;
    run_phase(&spmd, job_addr, &job, RANK);
    passed += job.passed;
    seconds += job.seconds;
    printf("iterations %d to %d\n", job.begin, job.end - 1);
    fflush(stdout);
  }
  const int verified = passed == IS_TESTS * IS_ITERATIONS && fully_verify(&job);
  printf("processes %d, threads %d\n", spmd.num, spmd.pnum);
  npb_report("IS", is_class_names[class], job.key_num, seconds,
             (double)IS_ITERATIONS * (double)job.key_num, verified);
  CHECK(DMI_team_destroy(job.team_addr));
  CHECK(DMI_munmap(job.team_addr, NULL));
  CHECK(DMI_munmap(job.ranks_addr, NULL));
  CHECK(DMI_munmap(job.keys_addr, NULL));
  CHECK(DMI_munmap(job_addr, NULL));
  if (!verified) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
