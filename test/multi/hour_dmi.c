/*
 * hour_dmi.c - computes with more threads than there are cores, until its first process is told to
 * stop.
 *
 *   dmirun hour_dmi N THREADS      N processes with so many computing threads each
 *
 * A thread computes without a pause, and now and then adds 1 to its own counter and reads those of
 * all others.  A line on stdin, or its end, stops them; then each counter must be what its thread
 * has added.
 *
 * DMI_TEST_NICE: the niceness of the computing threads, for a machine that has other work to do:
 * all other threads compete with that, then.
 */
#include <sys/resource.h>

#include "multi.h"

#define COMPUTE_NS 20000000 /* between two calls */

/* DMI_thread's argument: where these are, and who it is. */
struct work {
  int64_t stop;     /* int64_t: not 0: stop */
  int64_t counters; /* of all threads, int64_t each */
  int64_t num, me;
};

/* Something that the compiler cannot leave out, for so long. */
static uint64_t compute(uint64_t value) {
  const int64_t begin = now_ns();
  while (now_ns() < begin + COMPUTE_NS) {
    for (int i = 0; i < 10000; i++)
      value = rng_next(&value);
  }
  return value;
}

/* None goes back, and the own one is what was added. */
static void look(const struct work *work, int64_t *seen, int64_t added, uint64_t *rng) {
  int64_t *now = my_malloc((size_t)work->num * sizeof(*now));
  OK(DMI_read(work->counters, 8 * work->num, now, any_read(rng), NULL));
  for (int64_t i = 0; i < work->num; i++)
    IS(now[i] >= seen[i]);
  EQ(now[work->me], added);
  memcpy(seen, now, (size_t)work->num * sizeof(*now));
  my_free(now);
}

/* Returns what it has added; -1: a check has failed here. */
int64_t DMI_thread(int64_t addr) {
  struct work work;
  int64_t stop = 0, added = 0;
  const char *niceness = getenv("DMI_TEST_NICE");
  if (niceness) (void)setpriority(PRIO_PROCESS, 0, atoi(niceness)); /* on Linux: of the thread */
  MUST(DMI_read(addr, sizeof(work), &work, DMI_GET_READ, NULL));
  int64_t *seen = my_malloc((size_t)work.num * sizeof(*seen));
  uint64_t rng = (uint64_t)work.me;
  memset(seen, 0, (size_t)work.num * sizeof(*seen));
  while (!stop) {
    rng = compute(rng);
    added += OK(DMI_fad(work.counters + 8 * work.me, 1, NULL, any_atomic(&rng), NULL));
    look(&work, seen, added, &rng);
    MUST(DMI_read(work.stop, sizeof(stop), &stop, DMI_UPDATE_READ, NULL));
  }
  my_free(seen);
  return atomic_load(&checks_failed) ? -1 : added;
}

static int64_t new_page(int64_t size) {
  int64_t addr;
  MUST(DMI_mmap(&addr, size, 1, NULL));
  return addr;
}

static DMI_thread_t start(int32_t dmi_id, const struct work *work) {
  DMI_thread_t thread;
  const int64_t addr = new_page(sizeof(*work));
  MUST(DMI_write(addr, sizeof(*work), work, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_create(&thread, dmi_id, addr, NULL));
  return thread;
}

/* All counters are what their threads have returned. */
static int64_t end(const struct work *work, const DMI_thread_t *all) {
  int64_t sum = 0, added;
  put_int64(work->stop, 1);
  for (int64_t i = 0; i < work->num; i++) {
    MUST(DMI_join(all[i], &added, NULL));
    EQ(get_int64(work->counters + 8 * i), added);
    sum += added;
  }
  return sum;
}

void DMI_main(int argc, char **argv) {
  if (argc != 3) exit(2);
  const int64_t processes = atoll(argv[1]);
  struct work work = {.num = processes * atoll(argv[2])};
  int32_t *ids = my_malloc((size_t)processes * sizeof(*ids));
  DMI_thread_t *all = my_malloc((size_t)work.num * sizeof(*all));
  gather((int32_t)processes, ids);
  work.stop = new_page(8);
  work.counters = new_page(8 * work.num);
  for (work.me = 0; work.me < work.num; work.me++)
    all[work.me] = start(ids[work.me % processes], &work);
  say("all compute");
  (void)getchar();
  const int64_t sum = end(&work, all);
  say("added %" PRId64, sum);
  verdict("hour", 0);
  my_free(all);
  my_free(ids);
}
