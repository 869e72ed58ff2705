/*
 * hostile_dmi.c - computes lap by lap until asked to leave; says what each lap's result was.
 *
 *   dmirun hostile_dmi OPS FRIENDS
 *
 * Two processes; the first tells about each lap, until SIGINT; OPS of each of the two threads in a
 * lap.  The first FRIENDS others that ask to join are welcomed between two laps: a thread in each
 * reads all pages, whoever owns them.
 */
#include "multi.h"

#define PAGES 16
#define PAGE 512
#define SETTLE -1 /* job.number of who makes a mapping, which its process is home of */
#define FRIEND 2  /* job.number of the first; those that stay have 0 and 1 */

struct job {
  int64_t number, ops;
  int64_t counter, pages;
  int64_t there; /* one page, at home in the second process */
};

static int64_t settle(void) {
  int64_t addr;
  MUST(DMI_mmap(&addr, PAGE, 1, NULL));
  return addr;
}

/* In a friend, which has talked with the first process only: the page at home in the second one;
 * then all others, which those two own. */
static int64_t visit(struct job job) {
  unsigned char got[PAGE];
  MUST(DMI_read(job.there, PAGE, got, DMI_GET_READ, NULL));
  for (int64_t page = 0; page < 2 * PAGES; page++)
    MUST(DMI_read(job.pages + PAGE * (page % PAGES), PAGE, got, DMI_GET_READ, NULL));
  return job.number + 1;
}

/* Adds to the counter; writes pages of its own and reads them back; reads the other's. */
int64_t DMI_thread(int64_t addr) {
  struct job job;
  unsigned char want[PAGE], got[PAGE];
  uint64_t rng;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  if (job.number == SETTLE) return settle();
  if (job.number >= FRIEND) return visit(job);
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

/* What a thread there returns. */
static int64_t run_at(int32_t id, struct job job, int64_t addr) {
  int64_t value;
  DMI_thread_t thread;
  MUST(DMI_write(addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, id, addr, NULL));
  MUST(DMI_join(thread, &value, NULL));
  return value;
}

/* Lets it in, and has it work. */
static void host(int32_t id, struct job job, int64_t jobs) {
  MUST(DMI_welcome(id));
  EQ(run_at(id, job, jobs + 2 * (int64_t)sizeof(job)), job.number + 1);
  say("friend %" PRId64 " has worked", job.number - FRIEND + 1);
}

static void lap(const int32_t *ids, struct job job, int64_t jobs, int64_t number) {
  int64_t began = now_ns(), sum = 0, value;
  DMI_thread_t threads[2];
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
  MUST(DMI_read(job.counter, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 3 * job.ops * number);
  say("lap %" PRId64 ": %" PRId64 " ms", number, (now_ns() - began) / 1000000);
}

void DMI_main(int argc, char **argv) {
  int32_t ids[2], flag;
  int64_t jobs, number = 0, friends = argc > 2 ? atoll(argv[2]) : 0;
  struct job job = {.number = SETTLE, .ops = argc > 1 ? atoll(argv[1]) : 1000};
  DMI_node_t node = {0};
  gather(2, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), 3, NULL));
  MUST(DMI_mmap(&job.counter, 8, 1, NULL));
  MUST(DMI_mmap(&job.pages, PAGE, PAGES, NULL));
  job.there = run_at(ids[1], job, jobs);
  for (job.number = FRIEND; node.state != DMI_CLOSE || node.dmi_id != ids[0];) {
    lap(ids, job, jobs, ++number);
    for (;;) {
      MUST(DMI_peek(&node, &flag));
      if (!flag) break;
      if (node.state == DMI_CLOSE) {
        if (node.dmi_id == ids[0]) break;
        MUST(DMI_goodbye(node.dmi_id));
      } else if (job.number < FRIEND + friends) {
        host(node.dmi_id, job, jobs);
        job.number++;
      } /* else a stranger that got as far as asking to join: it is not welcome */
    }
  }
  MUST(DMI_goodbye(ids[0]));
  verdict("hostile", 0);
}
