/*
 * pipeline_dmi.c - primes by a pipeline: each rank of a team is a stage that takes numbers out.
 *
 *   dmicc -O2 pipeline_dmi.c -o pipeline_dmi
 *   dmirun ./pipeline_dmi 3000000          the primes below 3,000,000; a stage per core
 *   dmirun ./pipeline_dmi 3000000 2 3      two processes with three stages each: waits for
 *   dmirun -i HOST ./pipeline_dmi          the second one, this
 *
 * Arguments: limit [processes [stages per process]].  The first stage makes blocks of numbers.
 * Each stage knows some small primes, takes the multiples of them out of a block, and sends what
 * is left to the next stage; the last one counts.  The small primes are dealt out like cards.  A
 * message of 0 bytes says that this was the last block.
 *
 * A stage has two buffers in turn: one is being sent while the next block comes into the other.
 * That, and the room that a receiver has, lets stages work at the same time; a stage that is faster
 * than the next one waits for it, so that no more than some blocks are on their way.
 *
 * Prints `correct` if number and sum of the primes are those of a sequential sieve, else `wrong`.
 */
#include "check.h"
#include "dmi_team.h"
#include "spmd.h"

#define BLOCK 16384 /* numbers in a block */

/* The work, in global memory. */
typedef struct {
  int32_t limit;
  int64_t team_addr; /* DMI_team_t */
  /* ---- written by the last stage ---- */
  int64_t count, sum;
} job_t;

/* ---- What a stage does ---------------------------------------------------------------------- */

typedef struct {
  int32_t *primes; /* of this stage */
  int64_t num;
} sieve_t;

/* Every `stages`-th prime p with p * p < limit, from the `stage`-th on. */
static void sieve_open(sieve_t *sieve, int32_t limit, int32_t stage, int32_t stages) {
  int32_t root = 1, seen = 0;
  while ((int64_t)root * root < limit)
    root++;
  *sieve = (sieve_t){.primes = my_malloc((size_t)root * sizeof(int32_t))};
  for (int32_t p = 2; p < root; p++) {
    int prime = 1;
    for (int32_t d = 2; d * d <= p && prime; d++)
      prime = p % d != 0;
    if (prime && seen++ % stages == stage) sieve->primes[sieve->num++] = p;
  }
}

/* Takes the multiples of the stage's primes out of the numbers; returns how many are left. */
static int64_t sieve_block(const sieve_t *sieve, int32_t *numbers, int64_t num) {
  for (int64_t i = 0; i < sieve->num; i++) {
    const int32_t p = sieve->primes[i];
    int64_t left = 0;
    for (int64_t k = 0; k < num; k++) {
      if (numbers[k] == p || numbers[k] % p != 0) numbers[left++] = numbers[k];
    }
    num = left;
  }
  return num;
}

/* The numbers from *next on, below the limit; returns how many. */
static int64_t make_block(int32_t *numbers, int32_t *next, int32_t limit) {
  int64_t num = 0;
  while (num < BLOCK && *next < limit)
    numbers[num++] = (*next)++;
  return num;
}

/* ---- The stages ----------------------------------------------------------------------------- */

typedef struct {
  int32_t numbers[BLOCK];
  DMI_local_status_t sent;
  int is_sent; /* `sent` is of a call */
} buffer_t;

/* Waits until the numbers may be changed. */
static void buffer_free(buffer_t *buffer) {
  if (!buffer->is_sent) return;
  check_wait(&buffer->sent);
  buffer->is_sent = 0;
}

static void buffer_send(buffer_t *buffer, DMI_local_team_t *team, int32_t stage, int64_t num) {
  CHECK(DMI_team_send(team, stage + 1, buffer->numbers, num * (int64_t)sizeof(int32_t),
                      &buffer->sent));
  buffer->is_sent = 1;
}

/* The next block from the stage before. */
static int64_t buffer_receive(buffer_t *buffer, DMI_local_team_t *team, int32_t stage) {
  DMI_got_t got;
  CHECK(DMI_team_recv(team, stage - 1, buffer->numbers, sizeof(buffer->numbers), &got, NULL));
  return got.size / (int64_t)sizeof(int32_t);
}

static void count_block(job_t *job, const int32_t *numbers, int64_t num) {
  job->count += num;
  for (int64_t i = 0; i < num; i++)
    job->sum += numbers[i];
}

static void run_stage(DMI_local_team_t *team, int32_t stage, int32_t stages, job_t *job) {
  buffer_t *buffers = my_malloc(2 * sizeof(*buffers));
  int32_t next = 2;
  sieve_t sieve;
  sieve_open(&sieve, job->limit, stage, stages);
  buffers[0].is_sent = buffers[1].is_sent = 0;
  for (int64_t i = 0, num = 1; num != 0; i++) {
    buffer_t *const buffer = &buffers[i % 2];
    buffer_free(buffer);
    num = stage == 0 ? make_block(buffer->numbers, &next, job->limit)
                     : buffer_receive(buffer, team, stage);
    const int64_t left = sieve_block(&sieve, buffer->numbers, num);
    if (stage == stages - 1) {
      count_block(job, buffer->numbers, left);
    } else if (left > 0 || num == 0) { /* what is empty now is not the end */
      buffer_send(buffer, team, stage, left);
    }
  }
  buffer_free(&buffers[0]);
  buffer_free(&buffers[1]);
  my_free(sieve.primes);
  my_free(buffers);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  job_t job;
  DMI_local_team_t team;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  CHECK(DMI_team_join(&team, job.team_addr, arg.rank));
  run_stage(&team, arg.rank, arg.pnum, &job);
  if (arg.rank == arg.pnum - 1)
    CHECK(DMI_write(arg.job_addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  CHECK(DMI_team_leave(&team));
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static int result_is_right(const job_t *job) {
  char *composite = my_malloc((size_t)job->limit);
  int64_t count = 0, sum = 0;
  memset(composite, 0, (size_t)job->limit);
  for (int64_t p = 2; p < job->limit; p++) {
    if (composite[p]) continue;
    count++;
    sum += p;
    for (int64_t i = p * p; i < job->limit; i += p)
      composite[i] = 1;
  }
  my_free(composite);
  return count == job->count && sum == job->sum;
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s limit [processes [stages]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.limit = check_number("limit", argv[1], 1)};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("stages", argv[3], 1) : 0;
  int64_t job_addr;
  spmd_t spmd;

  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_mmap(&job.team_addr, sizeof(DMI_team_t), 1, NULL));
  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_team_init(job.team_addr, spmd.pnum));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  spmd_run(&spmd, job_addr);
  CHECK(DMI_team_destroy(job.team_addr));
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  printf("%lld primes below %d by %d stages, their sum is %lld\n", (long long)job.count, job.limit,
         spmd.pnum, (long long)job.sum);
  const int right = result_is_right(&job);
  printf("%s\n", right ? "correct" : "wrong");
  if (!right) exit(EXIT_FAILURE);
  spmd_end(&spmd);
}
