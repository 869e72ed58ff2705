/*
 * letters_dmi.c - DMI_wake_with and DMI_suspend_with: each letter comes once, whole, and those of
 * one thread in their order.
 *
 *   dmirun letters_dmi N          threads of N processes write to each other
 *   dmirun letters_dmi N exit     threads that wait for letters, and DMI_exit(3)
 */
#include "multi.h"

#include "dmi_ext.h"

#define THREADS 2  /* in each process */
#define MOST 8     /* processes */
#define LETTERS 60 /* of each thread to each other one */
#define HUGE_SIZE 1200000

struct letter {
  int64_t from, number, size;
  unsigned char bytes[];
};

/* In global memory. */
struct job {
  int64_t report[2];
  int64_t ready; /* not 0: `threads` are there */
  int64_t waits; /* counter: threads that will wait for a letter next */
  int64_t ranks; /* counter */
  int64_t num, exits;
  DMI_thread_t threads[THREADS * MOST];
};

static int64_t size_of(int64_t from, int64_t number) {
  uint64_t seed = (uint64_t)(from * 1000 + number);
  if (number == 7) return HUGE_SIZE;
  return (int64_t)rng_below(&seed, number % 10 ? 300 : 100000);
}

static struct letter *make(int64_t from, int64_t number) {
  const int64_t size = size_of(from, number);
  struct letter *letter = my_malloc(sizeof(*letter) + (size_t)size);
  *letter = (struct letter){from, number, size};
  for (int64_t i = 0; i < size; i++)
    letter->bytes[i] = (unsigned char)(i + 3 * from + 5 * number);
  return letter;
}

static void send_one(DMI_thread_t to, int64_t from, int64_t number) {
  struct letter *letter = make(from, number);
  const int64_t size = (int64_t)sizeof(*letter) + letter->size;
  DMI_local_status_t status;
  int32_t ret = DMI_FALSE;
  OK(DMI_wake_with(to, letter, size, number % 2 ? &status : NULL));
  memset(letter, 0, (size_t)size); /* it may be used again */
  my_free(letter);
  if (number % 2 == 0) return;
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
}

/* Takes a letter of any size. */
static struct letter *receive(void) {
  struct letter *letter = my_malloc(1);
  int64_t capacity = 0, size;
  while (!DMI_suspend_with(capacity ? letter : NULL, capacity, &size)) {
    EQ(DMI_errno(), DMI_ESIZE);
    IS(size > capacity);
    my_free(letter);
    letter = my_malloc((size_t)size);
    capacity = size;
  }
  EQ(size, (int64_t)sizeof(*letter) + letter->size);
  return letter;
}

static void correspond(const struct job *job, int64_t rank) {
  int64_t next[THREADS * MOST] = {0};
  for (int64_t number = 0; number < scaled(LETTERS) + 8; number++) {
    for (int64_t to = 0; to < job->num; to++)
      send_one(job->threads[to], rank, number);
  }
  for (int64_t i = 0; i < (scaled(LETTERS) + 8) * job->num; i++) {
    struct letter *letter = receive(), *wanted;
    MUST(letter->from >= 0 && letter->from < job->num ? DMI_TRUE : DMI_FALSE);
    wanted = make(letter->from, next[letter->from]++);
    SAME(letter, wanted, (int64_t)sizeof(*letter) + wanted->size);
    my_free(wanted);
    my_free(letter);
  }
}

static void wrong(const struct job *job) {
  DMI_thread_t none = {{77, 88}};
  int64_t size = 5;
  char c = 0;
  FAILS(DMI_wake_with(job->threads[0], &c, -1, NULL), DMI_EINVAL);
  FAILS(DMI_wake_with(job->threads[0], NULL, 1, NULL), DMI_EINVAL);
  FAILS(DMI_wake_with(none, &c, 1, NULL), DMI_ETHREAD);
  FAILS(DMI_suspend_with(&c, -1, &size), DMI_EINVAL);
  FAILS(DMI_suspend_with(NULL, 1, &size), DMI_EINVAL);
  /* A wake is no letter, and a letter is no wake. */
  OK(DMI_wake(job->threads[0], NULL));
  OK(DMI_wake_with(job->threads[0], NULL, 0, NULL));
  OK(DMI_suspend_with(NULL, 0, &size));
  EQ(size, 0);
  OK(DMI_suspend());
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t rank;
  wait_for(addr + (int64_t)offsetof(struct job, ready), 1);
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  MUST(DMI_fad(addr + (int64_t)offsetof(struct job, ranks), 1, &rank, DMI_PUT_ATOMIC, NULL));
  if (job.exits) {
    int64_t size = 5;
    MUST(DMI_fad(addr + (int64_t)offsetof(struct job, waits), 1, NULL, DMI_PUT_ATOMIC, NULL));
    FAILS(DMI_suspend_with(NULL, 0, &size), DMI_EEND);
    EQ(size, 5);
    FAILS(DMI_suspend_with(NULL, 0, NULL), DMI_EEND);
  } else {
    DMI_thread_t self;
    MUST(DMI_self(&self));
    if (memcmp(&self, &job.threads[0], sizeof(self)) == 0) wrong(&job);
    /* nobody writes before this is over */
    MUST(DMI_fad(addr + (int64_t)offsetof(struct job, waits), 1, NULL, DMI_PUT_ATOMIC, NULL));
    wait_for(addr + (int64_t)offsetof(struct job, waits), job.num);
    correspond(&job, rank);
  }
  check_report(addr + (int64_t)offsetof(struct job, report));
  return 0;
}

void DMI_main(int argc, char **argv) {
  int32_t ids[MOST], num = argc > 1 ? atoi(argv[1]) : 1;
  struct job job = {.num = num * THREADS, .exits = argc > 2};
  int64_t base, one = 1;
  gather(num, ids);
  MUST(DMI_mmap(&base, sizeof(job), 1, NULL));
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_create(&job.threads[i], ids[i % num], base, NULL));
  MUST(DMI_write(base, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_write(base + (int64_t)offsetof(struct job, ready), 8, &one, DMI_PUT_WRITE, NULL));
  if (job.exits) {
    wait_for(base + (int64_t)offsetof(struct job, waits), job.num);
    OK(DMI_exit(3));
  }
  for (int i = 0; i < num * THREADS; i++)
    MUST(DMI_join(job.threads[i], NULL, NULL));
  FAILS(DMI_wake_with(job.threads[0], &one, 8, NULL), DMI_ETHREAD);
  FAILS(DMI_suspend_with(&one, 8, NULL), DMI_ETHREAD);
  verdict("letters", base + (int64_t)offsetof(struct job, report));
}
