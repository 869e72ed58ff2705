/*
 * hostile_dmi.c - computes lap by lap until asked to leave; says what each lap's result was.
 *
 *   dmirun hostile_dmi OPS     two processes; the first tells about each lap, until SIGINT; OPS of
 *                              each of the two threads in a lap
 */
#include "multi.h"

#define PAGES 16
#define PAGE 512

struct job {
  int64_t number, ops;
  int64_t counter, pages;
};

/* Adds to the counter; writes pages of its own and reads them back; reads the other's. */
int64_t DMI_thread(int64_t addr) {
  struct job job;
  unsigned char want[PAGE], got[PAGE];
  uint64_t rng;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  rng = (uint64_t)job.number;
  for (int64_t i = 0; i < job.ops; i++) {
    int64_t page = job.pages + PAGE * (2 * (int64_t)rng_below(&rng, PAGES / 2) + job.number);
    MUST(DMI_fad(job.counter, job.number + 1, NULL, any_atomic(&rng), NULL));
    rng_fill(rng_next(&rng), want, PAGE);
    MUST(DMI_write(page, PAGE, want, any_write(&rng), NULL));
    MUST(DMI_read(page, PAGE, got, any_read(&rng), NULL));
    if (memcmp(got, want, PAGE) != 0) return -1;
    page = job.pages + PAGE * (2 * (int64_t)rng_below(&rng, PAGES / 2) + 1 - job.number);
    MUST(DMI_read(page, PAGE, got, any_read(&rng), NULL));
  }
  return job.number + 1;
}

void DMI_main(int argc, char **argv) {
  int32_t ids[2], flag = DMI_FALSE;
  int64_t jobs, value, lap = 0;
  struct job job = {.ops = argc > 1 ? atoll(argv[1]) : 1000};
  DMI_thread_t threads[2];
  DMI_node_t node;
  gather(2, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), 2, NULL));
  MUST(DMI_mmap(&job.counter, 8, 1, NULL));
  MUST(DMI_mmap(&job.pages, PAGE, PAGES, NULL));
  while (!flag) {
    int64_t began = now_ns(), sum = 0;
    for (job.number = 0; job.number < 2; job.number++) {
      int64_t addr = jobs + job.number * (int64_t)sizeof(job);
      MUST(DMI_write(addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
      MUST(DMI_create(&threads[job.number], ids[job.number], addr, NULL));
    }
    for (int i = 0; i < 2; i++) {
      MUST(DMI_join(threads[i], &value, NULL));
      sum += value;
    }
    EQ(sum, 3);
    lap++;
    MUST(DMI_read(job.counter, 8, &value, DMI_GET_READ, NULL));
    EQ(value, 3 * job.ops * lap);
    say("lap %" PRId64 ": %" PRId64 " ms", lap, (now_ns() - began) / 1000000);
    /* A stranger that got as far as asking to join is not welcome; this process may leave. */
    do {
      MUST(DMI_peek(&node, &flag));
    } while (flag && node.state == DMI_OPEN);
  }
  MUST(DMI_goodbye(node.dmi_id));
  verdict("hostile", 0);
}
