/*
 * sync_dmi.c - ways for threads to wait for each other, from a lock to an allreduce made by the
 * program.
 *
 *   dmicc -O2 sync_dmi.c -o sync_dmi
 *   dmirun ./sync_dmi 100 2               100 rounds of each, by two processes: this one,
 *   dmirun -i HOST ./sync_dmi             and this one
 *
 * Arguments: rounds [processes [threads per process]].  Five ways, each checked and timed (the
 * barriers are timed first and then checked, for that takes messages of its own):
 *   mutex      a counter that is read and written under a lock
 *   fad        the same counter without one
 *   condition  a barrier, made of a mutex, a condition and a counter
 *   barrier    the barrier of the API
 *   allreduce  a sum over all threads by DMI_function: the last thread to bring its part wakes the
 *              others, which sleep in DMI_suspend
 */
#include <stddef.h>
#include <time.h>

#include "spmd.h"

enum { BRING_PART }; /* tag of DMI_function */

/* The work, in global memory.  It is small, and all threads use all of it: one page. */
typedef struct {
  int32_t rounds;
  DMI_mutex_t mutex;
  DMI_cond_t all_here;
  int64_t counter;     /* under the mutex */
  int64_t fad_counter; /* by DMI_fad */
  int32_t here;        /* threads that have arrived at the barrier of a round; under the mutex */
  int64_t arrived;     /* counter: arrivals at all barriers, to check them */
  int64_t faults;      /* counter: errors found */
  int64_t reduce_addr; /* reduce_t, in a page of its own */
} job_t;

/* An allreduce, in global memory. */
typedef struct {
  int64_t sum;             /* of the parts brought in this round */
  int64_t total;           /* of the round before, for threads that were woken */
  int32_t num;             /* threads that sleep */
  DMI_thread_t sleepers[]; /* one less than there are threads */
} reduce_t;

/* The part of a thread, for DMI_function. */
typedef struct {
  int64_t value;
  DMI_thread_t self;
  int32_t pnum;
} part_t;

/* The address of a field of the job. */
#define AT(field) (arg->job_addr + (int64_t)offsetof(job_t, field))

static int32_t add(int64_t addr, int64_t num) {
  return DMI_fad(addr, num, NULL, DMI_PUT_ATOMIC, NULL);
}

/* ---- Mutex ---------------------------------------------------------------------------------- */

static void count_locked(const spmd_arg_t *arg) {
  int64_t value;
  CHECK(DMI_mutex_lock(AT(mutex)));
  CHECK(DMI_read(AT(counter), sizeof(value), &value, DMI_GET_READ, NULL));
  value++;
  CHECK(DMI_write(AT(counter), sizeof(value), &value, DMI_PUT_WRITE, NULL));
  CHECK(DMI_mutex_unlock(AT(mutex)));
}

/* ---- Barriers ------------------------------------------------------------------------------- */

static void wait_by_condition(const spmd_arg_t *arg) {
  int32_t here;
  CHECK(DMI_mutex_lock(AT(mutex)));
  CHECK(DMI_read(AT(here), sizeof(here), &here, DMI_GET_READ, NULL));
  here = here + 1 == arg->pnum ? 0 : here + 1;
  CHECK(DMI_write(AT(here), sizeof(here), &here, DMI_PUT_WRITE, NULL));
  /* There are no spurious wake-ups, so nothing has to be tested afterwards. */
  if (here != 0) {
    CHECK(DMI_cond_wait(AT(all_here), AT(mutex)));
  } else {
    CHECK(DMI_cond_broadcast(AT(all_here)));
  }
  CHECK(DMI_mutex_unlock(AT(mutex)));
}

/* A barrier with a counter of arrivals: after round `round` all threads have arrived so often, and
 * none is more than one round further. */
static void meet_and_check(const spmd_arg_t *arg, DMI_local_barrier_t *barrier, int64_t round) {
  int64_t arrived;
  CHECK(add(AT(arrived), 1));
  if (barrier == NULL) {
    wait_by_condition(arg);
  } else {
    CHECK(DMI_local_barrier_sync(barrier, arg->pnum));
  }
  CHECK(DMI_read(AT(arrived), sizeof(arrived), &arrived, DMI_GET_READ, NULL));
  if (arrived < arg->pnum * round || arrived > arg->pnum * (round + 1)) CHECK(add(AT(faults), 1));
}

/* ---- Allreduce ------------------------------------------------------------------------------ */

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)size, (void)out1_size, (void)out2_ptr, (void)out2_size, (void)tag; /* BRING_PART only */
  reduce_t *reduce = page_ptr, *answer = in_ptr;
  part_t part;
  memcpy(&part, out1_ptr, sizeof(part));
  reduce->sum += part.value;
  if (reduce->num + 1 < part.pnum) {
    reduce->sleepers[reduce->num++] = part.self;
    return; /* the answer says that no thread must be woken */
  }
  reduce->total = reduce->sum;
  reduce->sum = 0;
  memcpy(answer, reduce, (size_t)in_size);
  reduce->num = 0;
}

/* Returns the sum of the `value` of all threads. */
static int64_t sum_over_all(const spmd_arg_t *arg, int64_t reduce_addr, int64_t value) {
  const int64_t size = (int64_t)sizeof(reduce_t) + arg->pnum * (int64_t)sizeof(DMI_thread_t);
  const int64_t total_addr = reduce_addr + (int64_t)offsetof(reduce_t, total);
  reduce_t *answer = my_malloc((size_t)size);
  part_t part = {.value = value, .pnum = arg->pnum};
  CHECK(DMI_self(&part.self));
  CHECK(DMI_atomic(reduce_addr, size, &part, sizeof(part), NULL, 0, answer, size, BRING_PART,
                   DMI_PUT_ATOMIC, NULL));
  int64_t total = answer->total;
  if (answer->num + 1 == arg->pnum) {
    for (int32_t i = 0; i < answer->num; i++)
      CHECK(DMI_wake(answer->sleepers[i], NULL));
  } else {
    CHECK(DMI_suspend());
    /* It does not change until all threads, this one included, have brought their next parts. */
    CHECK(DMI_read(total_addr, sizeof(total), &total, DMI_GET_READ, NULL));
  }
  my_free(answer);
  return total;
}

/* ---- The threads ---------------------------------------------------------------------------- */

static double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void say(const spmd_arg_t *arg, const char *what, double begin, int32_t rounds) {
  if (arg->rank != 0) return;
  printf("%-10s %8.1f us a round\n", what, 1e6 * (clock_now() - begin) / rounds);
  fflush(stdout);
}

static void run_all(const spmd_arg_t *arg, const job_t *job, DMI_local_barrier_t *barrier) {
  int64_t round = 0;
  double begin = clock_now();
  for (int32_t i = 0; i < job->rounds; i++)
    count_locked(arg);
  CHECK(DMI_local_barrier_sync(barrier, arg->pnum));
  say(arg, "mutex", begin, job->rounds);

  begin = clock_now();
  for (int32_t i = 0; i < job->rounds; i++)
    CHECK(add(AT(fad_counter), 1));
  CHECK(DMI_local_barrier_sync(barrier, arg->pnum));
  say(arg, "fad", begin, job->rounds);

  begin = clock_now();
  for (int32_t i = 0; i < job->rounds; i++)
    wait_by_condition(arg);
  say(arg, "condition", begin, job->rounds);
  for (int32_t i = 0; i < job->rounds; i++)
    meet_and_check(arg, NULL, ++round);

  begin = clock_now();
  for (int32_t i = 0; i < job->rounds; i++)
    CHECK(DMI_local_barrier_sync(barrier, arg->pnum));
  say(arg, "barrier", begin, job->rounds);
  for (int32_t i = 0; i < job->rounds; i++)
    meet_and_check(arg, barrier, ++round);

  begin = clock_now();
  for (int64_t i = 1; i <= job->rounds; i++) {
    const int64_t expected = i * arg->pnum * (arg->pnum + 1) / 2;
    if (sum_over_all(arg, job->reduce_addr, i * (arg->rank + 1)) != expected)
      CHECK(add(AT(faults), 1));
  }
  say(arg, "allreduce", begin, job->rounds);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  job_t job;
  DMI_local_barrier_t barrier;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&barrier, arg.barrier_addr));
  CHECK(DMI_local_barrier_sync(&barrier, arg.pnum));
  run_all(&arg, &job, &barrier);
  CHECK(DMI_local_barrier_destroy(&barrier));
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s rounds [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.rounds = check_number("rounds", argv[1], 1)};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  const int64_t reduce_size = (int64_t)sizeof(reduce_t) + spmd.pnum * (int64_t)sizeof(DMI_thread_t);
  CHECK(DMI_mmap(&job.reduce_addr, reduce_size, 1, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_mutex_init(job_addr + (int64_t)offsetof(job_t, mutex)));
  CHECK(DMI_cond_init(job_addr + (int64_t)offsetof(job_t, all_here)));
  spmd_run(&spmd, job_addr);
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));

  const int64_t expected = (int64_t)job.rounds * spmd.pnum;
  const int right =
      job.counter == expected && job.fad_counter == expected && job.faults == 0 && job.here == 0;
  printf("processes %d, threads %d: counters %lld and %lld, faults %lld\n%s\n", spmd.num, spmd.pnum,
         (long long)job.counter, (long long)job.fad_counter, (long long)job.faults,
         right ? "correct" : "wrong");
  fflush(stdout);
  CHECK(DMI_cond_destroy(job_addr + (int64_t)offsetof(job_t, all_here)));
  CHECK(DMI_mutex_destroy(job_addr + (int64_t)offsetof(job_t, mutex)));
  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job.reduce_addr, NULL));
  if (!right) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
