/*
 * valgrind_dmi.c - some calls of each kind, in two processes, for memcheck.
 *
 *   dmirun valgrind_dmi      the first gathers the second
 */
#include "multi.h"

#define PAGE 4096
#define PAGES 8
#define LARGE (200 << 10)

struct job {
  int64_t pages, counter, large, lock, meet;
};

void DMI_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                  int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  (void)out1, (void)out1_size, (void)out2, (void)out2_size, (void)tag;
  memcpy(in, page, (size_t)(in_size < size ? in_size : size));
  memset(page, 7, 8);
}

static void pages(const struct job *job, int32_t id) {
  unsigned char buf[PAGE];
  DMI_local_status_t status;
  uint64_t rng = (uint64_t)id;
  for (int i = 0; i < 60; i++) {
    int64_t addr = job->pages + PAGE * (int64_t)rng_below(&rng, PAGES);
    rng_fill((uint64_t)i, buf, sizeof buf);
    OK(DMI_write(addr, 1 + (int64_t)rng_below(&rng, PAGE), buf, any_write(&rng), NULL));
    OK(DMI_read(addr, PAGE, buf, any_read(&rng), &status));
    DMI_wait(&status, NULL);
    OK(DMI_fad(job->counter, 1, NULL, any_atomic(&rng), NULL));
    OK(DMI_atomic(addr, 64, NULL, 0, NULL, 0, buf, 16, 1, any_atomic(&rng), NULL));
  }
}

static void scattered(const struct job *job) {
  int64_t addrs[16], sizes[16], places[16], buf[16] = {0};
  DMI_local_group_t group;
  for (int i = 0; i < 16; i++) {
    addrs[i] = job->pages + i * PAGES * PAGE / 16 + 8 * i;
    sizes[i] = 8;
    places[i] = 8 * i;
  }
  OK(DMI_group_init(&group, addrs, sizes, places, 16));
  OK(DMI_group_write(&group, buf, NULL));
  OK(DMI_group_read(&group, buf, NULL));
  OK(DMI_group_destroy(&group));
}

static void large(const struct job *job) {
  unsigned char *buf = my_malloc(LARGE);
  memset(buf, 3, LARGE);
  OK(DMI_write(job->large, LARGE, buf, DMI_EXCLUSIVE_WRITE, NULL));
  barrier(job->meet, 2, 1);
  OK(DMI_read(job->large, LARGE, buf, DMI_INVALIDATE_READ, NULL));
  EQ(buf[LARGE - 1], 3);
  my_free(buf);
}

static void objects(const struct job *job) {
  DMI_local_barrier_t local;
  int64_t addr;
  OK(DMI_malloc(&addr, 100, 1024));
  OK(DMI_realloc(addr, &addr, 3000, 1024));
  OK(DMI_free(addr));
  OK(DMI_mutex_lock(job->lock));
  OK(DMI_mutex_unlock(job->lock));
  OK(DMI_local_barrier_init(&local, job->lock + 64));
  OK(DMI_local_barrier_sync(&local, 2));
  OK(DMI_local_barrier_destroy(&local));
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int32_t id;
  OK(DMI_rank(&id));
  OK(DMI_read(addr, sizeof job, &job, DMI_GET_READ, NULL));
  pages(&job, id);
  scattered(&job);
  large(&job);
  objects(&job);
  return id;
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread[2];
  struct job job;
  int32_t ids[2];
  int64_t addr, value;
  (void)argc, (void)argv;
  gather(2, ids);
  MUST(DMI_mmap(&addr, sizeof job, 1, NULL));
  MUST(DMI_mmap(&job.pages, PAGE, PAGES, NULL));
  MUST(DMI_mmap(&job.counter, 8, 1, NULL));
  MUST(DMI_mmap(&job.large, LARGE, 1, NULL));
  MUST(DMI_mmap(&job.lock, 256, 1, NULL));
  MUST(DMI_mmap(&job.meet, 8, 1, NULL));
  MUST(DMI_write(addr, sizeof job, &job, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < 2; i++)
    MUST(DMI_create(&thread[i], ids[i], addr, NULL));
  for (int i = 0; i < 2; i++)
    MUST(DMI_join(thread[i], &value, NULL));
  EQ(get_int64(job.counter), 120);
  verdict("valgrind", 0);
}
