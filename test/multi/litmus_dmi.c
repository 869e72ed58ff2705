/*
 * litmus_dmi.c - is memory sequentially consistent?  Small races, forbidden outcomes counted.
 *
 *   dmirun litmus_dmi ROUNDS [TEST]      three processes; ROUNDS of each test: sb mp iriw co
 *
 * On a machine that is busy threads may run one after the other in all rounds, and see the same in
 * each.  This shows nothing: so ROUNDS more follow until there were two outcomes.
 *
 * Four threads, one per process and one more, run batches of rounds.  A round of a batch has
 * locations of its own (a page of 8 bytes each), so a barrier is needed once per batch only; in
 * between, each thread ends a round by waiting until it has seen what the others write in it,
 * which keeps them close enough to race in the next one.  Modes are drawn per round and thread.
 * Before the race each thread has taken copies of the locations, of all kinds.  Locations are used
 * again in the next batch, with greater values: "old" is anything below what this batch writes.
 */
#include "multi.h"

#define PROCESSES 3
#define THREADS 4
#define BATCH 100 /* rounds between two barriers */
#define STEP 4    /* values of batch b are STEP * (b + 1) + 1 and + 2 */

enum test { SB, MP, IRIW, CO, TESTS };
static const char *const names[TESTS] = {"sb", "mp", "iriw", "co"};

struct job {
  int64_t test, number, seed;
  int64_t first, batches; /* of these threads: batches are numbered through */
  int64_t locations;      /* 2 * BATCH of them for each half (SB, MP run two races side by side) */
  int64_t meet;           /* barrier */
  int64_t results;        /* a byte per round of each thread: THREADS * rounds */
};

/* ---- One thread ---------------------------------------------------------------------------- */

struct self {
  struct job job;
  int64_t batch, barriers;
  uint64_t rng; /* of this round and thread */
};

static int64_t place(const struct self *self, int64_t half, int64_t round, int64_t which) {
  return self->job.locations + 8 * (2 * (half * BATCH + round) + which);
}

static int64_t look(struct self *self, int64_t addr) {
  int64_t value;
  MUST(DMI_read(addr, 8, &value, any_read(&self->rng), NULL));
  return value;
}

static void put(struct self *self, int64_t addr, int64_t value) {
  MUST(DMI_write(addr, 8, &value, any_write(&self->rng), NULL));
}

/* 0: old, 1, 2: written in this batch. */
static int64_t age(const struct self *self, int64_t value) {
  int64_t base = STEP * (self->batch + 1);
  if (value < base) return 0;
  if (value == base + 1 || value == base + 2) return value - base;
  say("FAIL a value from nowhere: %" PRId64 " in batch %" PRId64, value, self->batch);
  _exit(9);
}

/* Reads, in one mode, until the value is new; the first look counts when `patience` is 0. */
static int64_t look_until_new(struct self *self, int64_t addr, int64_t patience) {
  int8_t mode = any_read(&self->rng);
  int64_t value, looks = 0;
  for (;;) {
    MUST(DMI_read(addr, 8, &value, mode, NULL));
    if (age(self, value) || looks == patience) return age(self, value);
    look_again(looks++ / 50); /* a sleep would part the threads: a long time of yielding first */
  }
}

/* How long a reader waits for the first of its values: mostly until it comes. */
static int64_t patience(struct self *self) {
  static const int64_t looks[4] = {0, 3, INT64_MAX, INT64_MAX};
  return looks[rng_below(&self->rng, 4)];
}

static unsigned char round_sb(struct self *self, int64_t role, int64_t half, int64_t round) {
  put(self, place(self, half, round, role), STEP * (self->batch + 1) + 1);
  return (unsigned char)age(self, look(self, place(self, half, round, 1 - role)));
}

static unsigned char round_mp(struct self *self, int64_t role, int64_t half, int64_t round) {
  int64_t data = place(self, half, round, 0), flag = place(self, half, round, 1), first;
  if (role == 0) {
    put(self, data, STEP * (self->batch + 1) + 1);
    put(self, flag, STEP * (self->batch + 1) + 1);
    return 0;
  }
  first = look_until_new(self, flag, patience(self));
  return (unsigned char)(first * 3 + age(self, look(self, data)));
}

static unsigned char round_iriw(struct self *self, int64_t role, int64_t round) {
  int64_t first;
  if (role < 2) {
    put(self, place(self, 0, round, role), STEP * (self->batch + 1) + 1);
    return 0;
  }
  first = look_until_new(self, place(self, 0, round, role - 2), patience(self));
  return (unsigned char)(first * 3 + age(self, look(self, place(self, 0, round, 3 - role))));
}

/* Two writers of one location; what the readers see, four looks, base 3. */
static unsigned char round_co(struct self *self, int64_t role, int64_t round) {
  int64_t addr = place(self, 0, round, 0), seen;
  if (role < 2) {
    put(self, addr, STEP * (self->batch + 1) + 1 + role);
    return 0;
  }
  seen = look_until_new(self, addr, patience(self));
  for (int i = 0; i < 3; i++)
    seen = seen * 3 + age(self, look(self, addr));
  return (unsigned char)seen;
}

static void meet(struct self *self) {
  barrier(self->job.meet, THREADS, ++self->barriers);
}

static void run_batch(struct self *self, unsigned char *results) {
  const struct job *job = &self->job;
  bool pairs = job->test == SB || job->test == MP;
  int64_t turn = (job->number + self->batch) % THREADS; /* each process plays each part */
  int64_t half = pairs ? turn / 2 : 0, role = pairs ? turn % 2 : turn;
  for (int64_t round = 0; round < BATCH; round++) { /* copies, of all kinds; some have none */
    self->rng = rng_of((uint64_t)job->seed, (uint64_t)self->batch,
                       (uint64_t)(1000000 + round * THREADS + job->number));
    look(self, place(self, half, round, 0));
    look(self, place(self, half, round, 1));
  }
  meet(self);
  for (int64_t round = 0; round < BATCH; round++) {
    self->rng = rng_of((uint64_t)job->seed, (uint64_t)self->batch,
                       (uint64_t)(round * THREADS + job->number));
    switch ((enum test)job->test) {
      case SB:
        results[round] = round_sb(self, role, half, round);
        break;
      case MP:
        results[round] = round_mp(self, role, half, round);
        break;
      case IRIW:
        results[round] = round_iriw(self, role, round);
        break;
      case CO:
        results[round] = round_co(self, role, round);
        break;
      case TESTS:
        break;
    }
    look_until_new(self, place(self, half, round, 0), INT64_MAX);
    if (job->test != CO) look_until_new(self, place(self, half, round, 1), INT64_MAX);
  }
  meet(self);
}

int64_t DMI_thread(int64_t addr) {
  struct self self = {.batch = 0};
  int64_t rounds, first;
  unsigned char *results;
  MUST(DMI_read(addr, sizeof(self.job), &self.job, DMI_GET_READ, NULL));
  rounds = self.job.batches * BATCH;
  first = self.job.first;
  self.barriers = 2 * first;
  results = my_malloc((size_t)rounds);
  for (self.batch = first; self.batch < first + self.job.batches; self.batch++) {
    run_batch(&self, results + (self.batch - first) * BATCH);
  }
  MUST(
      DMI_write(self.job.results + self.job.number * rounds, rounds, results, DMI_PUT_WRITE, NULL));
  my_free(results);
  return 0;
}

/* ---- Verdicts ------------------------------------------------------------------------------ */

/* What the threads in roles 0..3 saw in one round. */
struct seen {
  unsigned char by[THREADS];
};

static bool back_and_forth(unsigned char four) {
  int looks[4] = {four / 27, four / 9 % 3, four / 3 % 3, four % 3}, changes = 0;
  for (int i = 1; i < 4; i++) {
    if (looks[i] == looks[i - 1]) continue;
    if (looks[i] == 0) return true; /* back to the old value */
    changes += looks[i - 1] != 0;
  }
  return changes > 1; /* 1 2 1 */
}

/* Which of the two values a reader saw replaced by the other: 1 or 2; 0 if it did not. */
static int replaced(unsigned char four) {
  int looks[4] = {four / 27, four / 9 % 3, four / 3 % 3, four % 3};
  for (int i = 1; i < 4; i++) {
    if (looks[i] != looks[i - 1] && looks[i - 1]) return looks[i - 1];
  }
  return 0;
}

/* Name of the outcome of a round of one half; *bad when it is forbidden. */
static const char *outcome(enum test test, const struct seen *seen, int half, bool *bad) {
  static const char *const two[4] = {"00", "01", "10", "11"};
  static char text[16];
  unsigned char a = seen->by[2 * half], b = seen->by[2 * half + 1];
  *bad = false;
  switch (test) {
    case SB:
      *bad = !a && !b;
      return two[2 * a + b];
    case MP:
      *bad = b == 3;
      return two[2 * (b / 3) + b % 3];
    case IRIW:
      a = seen->by[2];
      b = seen->by[3];
      *bad = a == 3 && b == 3;
      snprintf(text, sizeof(text), "%s %s", two[2 * (a / 3) + a % 3], two[2 * (b / 3) + b % 3]);
      return text;
    default:
      a = seen->by[2];
      b = seen->by[3];
      *bad = back_and_forth(a) || back_and_forth(b) ||
             (replaced(a) && replaced(b) && replaced(a) != replaced(b));
      snprintf(text, sizeof(text), "%d %d", replaced(a), replaced(b));
      return text;
  }
}

/* All outcomes of a test. */
struct tally {
  struct {
    char name[16];
    int64_t num;
  } kinds[20];
  int64_t num, races, bad;
};

static void add(struct tally *tally, const char *name) {
  int64_t k = 0;
  while (k < tally->num && strcmp(tally->kinds[k].name, name) != 0)
    k++;
  if (k == tally->num) snprintf(tally->kinds[tally->num++].name, 16, "%s", name);
  tally->kinds[k].num++;
  tally->races++;
}

static void count(struct tally *tally, const struct job *job, const unsigned char *results) {
  enum test test = (enum test)job->test;
  int64_t rounds = job->batches * BATCH;
  bool pairs = test == SB || test == MP;
  for (int64_t i = 0; i < rounds; i++) {
    struct seen seen;
    for (int64_t thread = 0; thread < THREADS; thread++) {
      seen.by[(thread + job->first + i / BATCH) % THREADS] = results[thread * rounds + i];
    }
    for (int half = 0; half < (pairs ? 2 : 1); half++) {
      bool bad;
      const char *name = outcome(test, &seen, half, &bad);
      if (bad && tally->bad++ < 5) {
        say("FORBIDDEN %s: outcome %s in round %" PRId64 " of batch %" PRId64, names[test], name,
            i % BATCH, job->first + i / BATCH);
      }
      add(tally, name);
    }
  }
}

static void print(enum test test, const struct tally *tally) {
  for (int64_t k = 0; k < tally->num; k++) {
    say("outcome %s %s: %" PRId64, names[test], tally->kinds[k].name, tally->kinds[k].num);
  }
  say("litmus %s: %" PRId64 " rounds, %" PRId64 " outcomes, %" PRId64 " forbidden", names[test],
      tally->races, tally->num, tally->bad);
}

/* ---- The program --------------------------------------------------------------------------- */

/* Runs the job's batches, and counts their outcomes. */
static void run_job(struct job *job, int64_t jobs, const int32_t *ids, struct tally *tally) {
  size_t bytes = (size_t)(THREADS * job->batches * BATCH);
  unsigned char *results = my_malloc(bytes);
  DMI_thread_t threads[THREADS];
  for (job->number = 0; job->number < THREADS; job->number++) {
    int64_t addr = jobs + job->number * (int64_t)sizeof(*job);
    MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&threads[job->number], ids[job->number % PROCESSES], addr, NULL));
  }
  for (int i = 0; i < THREADS; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
  MUST(DMI_read(job->results, (int64_t)bytes, results, DMI_GET_READ, NULL));
  count(tally, job, results);
  my_free(results);
}

static void run_test(enum test test, int64_t rounds, const int32_t *ids) {
  bool pairs = test == SB || test == MP;
  int64_t races = pairs ? 2 * BATCH : BATCH, jobs, began = now_ns();
  struct job job = {.test = test, .batches = (rounds + races - 1) / races, .seed = test + 100};
  struct tally tally = {.num = 0};
  MUST(DMI_mmap(&job.locations, 8, 4 * BATCH, NULL));
  MUST(DMI_mmap(&job.meet, 8, 1, NULL));
  MUST(DMI_mmap(&job.results, job.batches * BATCH, THREADS, NULL));
  MUST(DMI_mmap(&jobs, sizeof(job), THREADS, NULL));
  for (; tally.num < 2; job.first += job.batches)
    run_job(&job, jobs, ids, &tally);
  print(test, &tally);
  say("took %s %.2f s", names[test], (double)(now_ns() - began) / 1e9);
  MUST(DMI_munmap(job.locations, NULL));
  MUST(DMI_munmap(job.meet, NULL));
  MUST(DMI_munmap(job.results, NULL));
  MUST(DMI_munmap(jobs, NULL));
}

void DMI_main(int argc, char **argv) {
  int32_t ids[PROCESSES];
  int64_t rounds = argc > 1 ? atoll(argv[1]) : 0;
  if (rounds < 1) {
    fprintf(stderr, "usage: litmus_dmi ROUNDS [sb|mp|iriw|co]\n");
    exit(2);
  }
  gather(PROCESSES, ids);
  for (int test = 0; test < TESTS; test++) {
    if (argc < 3 || strcmp(argv[2], names[test]) == 0) run_test((enum test)test, rounds, ids);
  }
}
