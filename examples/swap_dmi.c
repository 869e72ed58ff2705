/*
 * swap_dmi.c - remote swap: one process uses an array that only fits into the memory of all
 * processes together.
 *
 *   dmicc -O2 swap_dmi.c -o swap_dmi
 *   dmirun -s 300M ./swap_dmi 1000 4       1000 MiB of memory in 4 processes,
 *   dmirun -s 300M -i HOST ./swap_dmi      three of which are these
 *
 * Arguments: MiB [processes [threads per process]].  Mapping costs nothing; a page gets memory in
 * the process that writes it first.  So the array is not filled by the process that mapped it, but
 * by threads on all processes: each writes its share of the pages with DMI_EXCLUSIVE_WRITE, and so
 * becomes their owner.  From then on DMI_main reads with DMI_GET_READ and writes with
 * DMI_PUT_WRITE, which leave every page where it is.  In the end each thread adds up its own pages:
 * nothing is sent for that.
 */
#include <stddef.h>

#include "spmd.h"

#define PAGE ((int64_t)1 << 20)
#define WORDS (PAGE / (int64_t)sizeof(int64_t))
#define UPDATES 2000

enum { FILL, ADD_UP };

/* The work, in global memory. */
typedef struct {
  int32_t phase;
  int64_t pages;
  int64_t array_addr; /* int64_t each */
  int64_t sum;        /* counter: of all elements, by ADD_UP */
} job_t;

/* The first value of element i; looks random. */
static int64_t first_value(int64_t i) {
  const uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15u;
  return (int64_t)((h ^ (h >> 29)) & 0xffffff);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  job_t job;
  int64_t sum = 0;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  int64_t *words = my_malloc((size_t)PAGE);
  int64_t page, end;
  CHECK(DMI_block(job.pages, arg.rank, arg.pnum, &page, &end));
  for (; page < end; page++) {
    const int64_t page_addr = job.array_addr + page * PAGE;
    if (job.phase == FILL) {
      for (int64_t i = 0; i < WORDS; i++)
        words[i] = first_value(page * WORDS + i);
      CHECK(DMI_write(page_addr, PAGE, words, DMI_EXCLUSIVE_WRITE, NULL));
    } else {
      CHECK(DMI_read(page_addr, PAGE, words, DMI_GET_READ, NULL));
      for (int64_t i = 0; i < WORDS; i++)
        sum += words[i];
    }
  }
  my_free(words);
  if (job.phase == ADD_UP)
    CHECK(DMI_fad(arg.job_addr + (int64_t)offsetof(job_t, sum), sum, NULL, DMI_PUT_ATOMIC, NULL));
  return DMI_NULL;
}

static void run_phase(const spmd_t *spmd, int64_t job_addr, job_t *job, int32_t phase) {
  job->phase = phase;
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(spmd, job_addr);
  CHECK(DMI_read(job_addr, sizeof(*job), job, DMI_GET_READ, NULL));
}

/* Adds 1 to UPDATES elements all over the array; returns how many had a wrong value. */
static int64_t update_elements(const job_t *job) {
  const int64_t num = job->pages * WORDS;
  int64_t wrong = 0;
  for (int64_t i = 0; i < UPDATES; i++) {
    const int64_t index = i * (num / UPDATES);
    const int64_t addr = job->array_addr + index * (int64_t)sizeof(int64_t);
    int64_t value;
    CHECK(DMI_read(addr, sizeof(value), &value, DMI_GET_READ, NULL));
    if (value != first_value(index)) wrong++;
    value++;
    CHECK(DMI_write(addr, sizeof(value), &value, DMI_PUT_WRITE, NULL));
  }
  return wrong;
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s MiB [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.pages = check_number("MiB", argv[1], 1)};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_mmap(&job.array_addr, PAGE, job.pages, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  run_phase(&spmd, job_addr, &job, FILL);
  const int64_t wrong = update_elements(&job);
  run_phase(&spmd, job_addr, &job, ADD_UP);

  int64_t expected = UPDATES;
  for (int64_t i = 0; i < job.pages * WORDS; i++)
    expected += first_value(i);
  const int right = wrong == 0 && job.sum == expected;
  printf("%lld MiB in %d processes: sum %lld\n%s\n", (long long)job.pages, spmd.num,
         (long long)job.sum, right ? "correct" : "wrong");
  fflush(stdout);
  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job.array_addr, NULL));
  if (!right) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
