/*
 * pause_dmi.c - does the program pause while a process full of pages leaves?
 *
 *   dmirun pause_dmi PAGES      three processes; the second fills PAGES pages of 1 MiB, which it
 *                               then owns, and is to leave at "leave now"; the third reads
 */
#include "multi.h"

#define PAGE ((int64_t)1 << 20)
#define PIECE 1024 /* bytes of one read */

struct job {
  int64_t fill; /* not 0: write the pages, else read until told to stop */
  int64_t pages, num;
  int64_t phase; /* 64-bit number: 1 the leave begins, 2 it is over, 3 stop */
  int64_t out;   /* struct out */
  int64_t report;
};

/* What the reader saw, in phase 0 (before), 1 (the leave) and 2 (after). */
struct out {
  int64_t reads[3], longest[3]; /* longest in ns */
};

static uint64_t seed_of(int64_t page) {
  return (uint64_t)page * 77 + 1;
}

static void fill(const struct job *job) {
  unsigned char *buf = my_malloc((size_t)PAGE);
  for (int64_t i = 0; i < job->num; i++) {
    rng_fill(seed_of(i), buf, (uint64_t)PAGE);
    OK(DMI_write(job->pages + i * PAGE, PAGE, buf, DMI_EXCLUSIVE_WRITE, NULL));
  }
  my_free(buf);
}

/* Reads pieces of random pages and compares them with what was written there. */
static void read_on(const struct job *job) {
  struct out out = {{0}, {0}};
  uint64_t rng = 5;
  int64_t phase = 0, next = 0;
  unsigned char got[PIECE], want[PIECE];
  while (next < 3) {
    int64_t page = (int64_t)rng_below(&rng, (uint64_t)job->num), off, began, took;
    off = (int64_t)rng_below(&rng, (uint64_t)(PAGE - PIECE) / 8) * 8;
    began = now_ns();
    OK(DMI_read(job->pages + page * PAGE + off, PIECE, got, DMI_GET_READ, NULL));
    took = now_ns() - began;
    /* A read that only began before the leave, or ended after it, was a part of it as well. */
    MUST(DMI_read(job->phase, 8, &next, DMI_UPDATE_READ, NULL));
    if (phase == 0 && next > 0) phase = 1;
    out.reads[phase]++;
    if (took > out.longest[phase]) out.longest[phase] = took;
    phase = next;
    /* The n-th number of a page can be computed without those before it: splitmix64 counts. */
    rng_fill(seed_of(page) + (uint64_t)off / 8 * 0x9e3779b97f4a7c15u, want, PIECE);
    SAME(got, want, PIECE);
  }
  MUST(DMI_write(job->out, sizeof(out), &out, DMI_PUT_WRITE, NULL));
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  if (job.fill) {
    fill(&job);
  } else {
    read_on(&job);
  }
  check_report(job.report);
  return 0;
}

static void start(struct job *job, int64_t addr, int32_t id, DMI_thread_t *thread) {
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(thread, id, addr, NULL));
}

static void phase(const struct job *job, int64_t number) {
  MUST(DMI_write(job->phase, 8, &number, DMI_EXCLUSIVE_WRITE, NULL));
}

void DMI_main(int argc, char **argv) {
  int32_t ids[3];
  int64_t jobs, began, took;
  struct job job = {.num = argc > 1 ? atoll(argv[1]) : 16};
  struct out out;
  DMI_thread_t filler, reader;
  DMI_node_t node;
  gather(3, ids);
  MUST(DMI_mmap(&jobs, sizeof(job), 2, NULL));
  MUST(DMI_mmap(&job.pages, PAGE, job.num, NULL));
  MUST(DMI_mmap(&job.phase, 8, 1, NULL));
  MUST(DMI_mmap(&job.out, sizeof(out), 1, NULL));
  MUST(DMI_mmap(&job.report, 16, 1, NULL));
  job.fill = 1;
  start(&job, jobs, ids[1], &filler);
  MUST(DMI_join(filler, NULL, NULL));
  job.fill = 0;
  start(&job, jobs + (int64_t)sizeof(job), ids[2], &reader);
  say("leave now");
  MUST(DMI_poll(&node));
  EQ(node.dmi_id, ids[1]);
  phase(&job, 1);
  began = now_ns();
  OK(DMI_goodbye(ids[1]));
  took = now_ns() - began;
  phase(&job, 2);
  phase(&job, 3);
  MUST(DMI_join(reader, NULL, NULL));
  MUST(DMI_read(job.out, sizeof(out), &out, DMI_GET_READ, NULL));
  say("leave: %" PRId64 " MiB in %" PRId64 " us, %" PRId64 " reads meanwhile", job.num, took / 1000,
      out.reads[1]);
  say("longest read: %" PRId64 " us before, %" PRId64 " us during the leave", out.longest[0] / 1000,
      out.longest[1] / 1000);
  verdict("pause", job.report);
}
