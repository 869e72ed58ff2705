/*
 * full_lost_dmi.c - a process is lost, and the other one has no memory left: what full_lost.t runs.
 *
 *   full_lost_dmi MIB KIB    pages of KIB KiB; the second process writes MIB MiB of them
 *
 * The first process writes pages of its own, and reads those of the second, without end: its copies
 * are dropped for what it writes, but for some that are saved, and that goes to the disk, until the
 * disk is full.  Then the second is killed: its pages that have copies here cannot be dropped any
 * more.
 */
#include "multi.h"

#define MIB ((int64_t)1 << 20)
#define SAVED 8 /* of so many pages of the second process one */

struct job {
  int64_t own, other; /* mappings of 2 * num and num pages: of the first process, of the second */
  int64_t size, num;
};

static int64_t size, num; /* of the job */

static void contents(unsigned char *bytes, int64_t page, int64_t round) {
  rng_fill((uint64_t)(page * 1000 + round), bytes, (uint64_t)size);
}

/* The page has these contents; false: it is lost. */
static bool is_there(int64_t addr, int64_t page, int64_t round, int8_t mode, unsigned char *buf) {
  if (!DMI_read(addr + page * size, size, buf, mode, NULL)) {
    EQ(DMI_errno(), DMI_ELOST);
    return false;
  }
  if (round) contents(buf + size, page, round);
  if (!round) memset(buf + size, 0, (size_t)size);
  SAME(buf, buf + size, size);
  return true;
}

/* In the second process: it owns all of these pages. */
int64_t DMI_thread(int64_t job_addr) {
  struct job job;
  unsigned char *buf;
  MUST(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  size = job.size;
  num = job.num;
  buf = my_malloc((size_t)size);
  for (int64_t i = 0; i < num; i++) {
    contents(buf, i, 1);
    OK(DMI_write(job.other + i * size, size, buf, DMI_EXCLUSIVE_WRITE, NULL));
  }
  my_free(buf);
  return atomic_load(&checks_failed);
}

/* Writes a page of this process; there may be no memory for it, and then it is as before. */
static bool write_own(int64_t addr, int64_t page, int64_t *round, unsigned char *buf) {
  contents(buf, page, *round + 1);
  if (DMI_write(addr + page * size, size, buf, DMI_EXCLUSIVE_WRITE, NULL)) {
    ++*round;
    return true;
  }
  EQ(DMI_errno(), DMI_ENOMEM);
  return false;
}

/* Until the loss is known, and then all pages once more. */
static void work(const struct job *job, int64_t *round, unsigned char *buf) {
  bool full = false, lost = false;
  int64_t left = 2 * num;
  for (int64_t i = 0; left; i++) {
    if (!write_own(job->own, i % (2 * num), &round[i % (2 * num)], buf) && !full) {
      say("full");
      full = true;
    }
    if (!is_there(job->other, i % num, 1, DMI_INVALIDATE_READ, buf)) lost = true;
    left -= lost;
  }
}

/* The page has its last contents.  (What went to the second process for lack of memory is lost.) */
static void look(const struct job *job, const int64_t *round, unsigned char *buf) {
  int64_t there = 0, kept = 0;
  for (int64_t i = 0; i < 2 * num; i++)
    there += is_there(job->own, i, round[i], DMI_GET_READ, buf);
  IS(there > num / 2);
  for (int64_t i = 0; i < num; i++)
    kept += is_there(job->other, i, 1, DMI_GET_READ, buf);
  say("kept %" PRId64 " of %" PRId64 ", and %" PRId64 " of %" PRId64 " own ones", kept, num, there,
      2 * num);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  int32_t ids[2];
  int64_t job_addr, failed, *round;
  struct job job;
  unsigned char *buf;
  (void)argc;
  job.size = size = atoll(argv[2]) * 1024;
  job.num = num = atoll(argv[1]) * MIB / size;
  round = my_malloc((size_t)(2 * num) * sizeof(*round));
  memset(round, 0, (size_t)(2 * num) * sizeof(*round));
  buf = my_malloc((size_t)size * 2);
  gather(2, ids);
  MUST(DMI_mmap(&job.own, size, 2 * num, NULL));
  MUST(DMI_mmap(&job.other, size, num, NULL));
  MUST(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  MUST(DMI_save(job_addr, sizeof(job)));
  MUST(DMI_save(job.other, num / SAVED * size)); /* of these, copies stay */
  MUST(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_create(&thread, ids[1], job_addr, NULL));
  MUST(DMI_join(thread, &failed, NULL));
  EQ(failed, 0);
  work(&job, round, buf);
  look(&job, round, buf);
  my_free(round);
  my_free(buf);
  verdict("full_lost", 0);
}
