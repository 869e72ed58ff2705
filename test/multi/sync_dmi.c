/*
 * sync_dmi.c - mutexes, conditions, barriers and watches over three processes: what sync.t runs.
 *
 * Everything lies in one packed struct, at odd addresses, beside the data it protects.  In the
 * second half the process that made its page leaves while the others use it.
 */
#include "multi.h"

#define PROCESSES 3
#define CREW 6 /* threads of a job, over all processes */

struct __attribute__((packed)) shared {
  char before[3];
  DMI_mutex_t mutex;
  char between;
  DMI_cond_t cond;
  DMI_barrier_t barrier;
  DMI_spin_t spin;
  int64_t counter; /* guarded by mutex */
  int64_t turn;    /* guarded by mutex: ping-pong */
  int64_t woken;   /* guarded by mutex */
  int64_t open;    /* guarded by mutex: what waiters wait for */
  int64_t num;     /* guarded by mutex: entries of order */
  int64_t order[CREW];
  int64_t watched;
  int64_t reached; /* arrivals in all rounds */
  int64_t over;    /* rounds that are over, as thread 0 says */
  int64_t spun;    /* guarded by spin */
};

enum what {
  COUNT,
  SPIN,
  QUEUE,
  STRANGER,
  PING,
  SLEEP,
  ROUNDS,
  MEET,
  COST,
  PAIR,
  WATCH,
  FORGET,
  OWN_PAGE,
  BRING,
  LOSER
};

struct job {
  int64_t what, number, rounds;
  int64_t addr;   /* of a struct shared */
  int64_t report; /* checks */
};

/* Messages about pages that this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
uint64_t dmi_access_waiting(struct dmi_access *access, int64_t addr);
#define MSG_LAST 15
#define DMI_SYNC_COUNT UINT64_C(0xf1de83e19937733d) /* lib/core/syncop.h */

static int64_t sent_all(void) {
  int64_t sum = 0;
  for (int type = 1; type <= MSG_LAST; type++)
    sum += (int64_t)dmi_access_sent(dmi_runtime_access(), type);
  return sum;
}

static int32_t ids[PROCESSES];
static int64_t jobs, report;

#define FIELD(addr, name) ((int64_t) & ((struct shared *)(addr))->name)

static int64_t add(int64_t addr, int64_t num) {
  int64_t old;
  MUST(DMI_fad(addr, num, &old, DMI_PUT_ATOMIC, NULL));
  return old;
}

/* The first number of a condition: how many tickets were taken; of a barrier: how many have
 * arrived. */
static int64_t count_at(int64_t addr) {
  return (int64_t)((uint64_t)get_int64(addr) * DMI_SYNC_COUNT);
}

static void wait_for_tickets(int64_t addr, int64_t wanted) {
  for (int64_t looks = 0; count_at(addr) < wanted; looks++)
    look_again(looks);
}

/* Until so many threads wait for the mutex.  The page comes to this process, and they with it. */
static void wait_for_queue(int64_t mutex, int64_t wanted) {
  int64_t now = 0, last;
  for (int64_t looks = 0; now < wanted; looks++) {
    look_again(looks);
    MUST(DMI_fad(mutex, 0, &last, DMI_EXCLUSIVE_ATOMIC, NULL));
    now = (int64_t)dmi_access_waiting(dmi_runtime_access(), mutex);
  }
}

/* ---- What threads do ----------------------------------------------------------------------- */

static void job_count(const struct job *job) {
  for (int64_t i = 0; i < job->rounds; i++) {
    OK(DMI_mutex_lock(FIELD(job->addr, mutex)));
    put_int64(FIELD(job->addr, counter), get_int64(FIELD(job->addr, counter)) + 1);
    OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
  }
}

static void job_spin(const struct job *job) {
  for (int64_t i = 0; i < job->rounds; i++) {
    OK(DMI_spin_lock(FIELD(job->addr, spin)));
    put_int64(FIELD(job->addr, spun), get_int64(FIELD(job->addr, spun)) + 1);
    OK(DMI_spin_unlock(FIELD(job->addr, spin)));
  }
}

/* Says when it got the mutex. */
static void job_queue(const struct job *job) {
  int64_t num;
  OK(DMI_mutex_lock(FIELD(job->addr, mutex)));
  num = add(FIELD(job->addr, num), 1);
  put_int64(FIELD(job->addr, order) + 8 * num, job->number);
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
}

/* The mutex is held by a thread of another process, or of this one. */
static void job_stranger(const struct job *job) {
  int32_t flag = 7;
  FAILS(DMI_mutex_unlock(FIELD(job->addr, mutex)), DMI_EHOLDER);
  FAILS(DMI_cond_wait(FIELD(job->addr, cond), FIELD(job->addr, mutex)), DMI_EHOLDER);
  FAILS(DMI_mutex_destroy(FIELD(job->addr, mutex)), DMI_EBUSY);
  OK(DMI_mutex_trylock(FIELD(job->addr, mutex), &flag));
  EQ(flag, DMI_FALSE);
}

/* Two threads take turns by one condition: each wake-up counts, none may get lost. */
static void job_ping(const struct job *job) {
  OK(DMI_mutex_lock(FIELD(job->addr, mutex)));
  for (int64_t i = 0; i < job->rounds; i++) {
    while (get_int64(FIELD(job->addr, turn)) % 2 != job->number)
      OK(DMI_cond_wait(FIELD(job->addr, cond), FIELD(job->addr, mutex)));
    add(FIELD(job->addr, turn), 1);
    OK(DMI_cond_signal(FIELD(job->addr, cond)));
  }
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
}

/* Sleeps once: a return without a signal would show in `woken`. */
static void job_sleep(const struct job *job) {
  OK(DMI_mutex_lock(FIELD(job->addr, mutex)));
  OK(DMI_cond_wait(FIELD(job->addr, cond), FIELD(job->addr, mutex)));
  add(FIELD(job->addr, woken), 1);
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
}

/* How many take part in a round, and what each adds: any thread can tell. */
static int64_t round_size(int64_t round) {
  return 1 + (int64_t)(rng_of(4, (uint64_t)round, 1) % CREW);
}

static double round_value(int64_t round, int64_t number) {
  return (double)(int64_t)(rng_of(5, (uint64_t)round, (uint64_t)number) % 1000000) - 500000;
}

/* Threads 0 to size - 1 take part in a round. One that was not in the round before must not come
 * before that one is over. */
static void job_rounds(const struct job *job) {
  DMI_local_barrier_t barrier;
  int64_t all = 0, over = 0, was_in = 1;
  OK(DMI_local_barrier_init(&barrier, FIELD(job->addr, barrier)));
  for (int64_t round = 0; round < job->rounds; round++) {
    int64_t size = round_size(round);
    double sum = -1, wanted = 0;
    all += size;
    if (job->number >= size) {
      was_in = 0;
      continue;
    }
    while (!was_in && over < round)
      OK(DMI_watch(FIELD(job->addr, over), sizeof(over), &over, &over, NULL));
    was_in = 1;
    for (int64_t i = 0; i < size; i++)
      wanted += round_value(round, i);
    add(FIELD(job->addr, reached), 1);
    if (round % 3 == 2) {
      OK(DMI_local_barrier_sync(&barrier, (int32_t)size));
    } else {
      OK(DMI_local_barrier_allreduce(&barrier, round_value(round, job->number), &sum,
                                     (int32_t)size));
      IS(sum == wanted);
    }
    IS(get_int64(FIELD(job->addr, reached)) >= all); /* all of this round have come */
    if (job->number == 0) put_int64(FIELD(job->addr, over), round + 1);
  }
  OK(DMI_local_barrier_destroy(&barrier));
}

/* Comes to one round. */
static void job_meet(const struct job *job) {
  DMI_local_barrier_t barrier;
  double sum;
  OK(DMI_local_barrier_init(&barrier, FIELD(job->addr, barrier)));
  OK(DMI_local_barrier_allreduce(&barrier, 1, &sum, (int32_t)job->rounds));
  IS(sum == 3);
  OK(DMI_local_barrier_destroy(&barrier));
}

/* What a call costs in messages if another process owns the page and no other thread works
 * here: one request, also for a call that waits. */
static void job_cost(const struct job *job) {
  int64_t all = sent_all(), zero = 0, now;
  int32_t flag;
  OK(DMI_mutex_lock(FIELD(job->addr, mutex)));
  EQ(sent_all() - all, 1);
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
  EQ(sent_all() - all, 2);
  OK(DMI_mutex_trylock(FIELD(job->addr, mutex), &flag));
  EQ(flag, DMI_TRUE);
  OK(DMI_cond_signal(FIELD(job->addr, cond)));
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
  EQ(sent_all() - all, 5);
  add(FIELD(job->addr, turn), 1); /* from now on what this thread waits for may come */
  all = sent_all();
  OK(DMI_watch(FIELD(job->addr, watched), sizeof(now), &zero, &now, NULL));
  EQ(sent_all() - all, 1);
  EQ(now, 5);
  OK(DMI_mutex_lock(FIELD(job->addr, mutex))); /* main has it, and holds it for a while */
  EQ(sent_all() - all, 2);
  OK(DMI_mutex_unlock(FIELD(job->addr, mutex)));
}

/* Two threads of one process: their arrivals go together, at least now and then. */
static void job_pair(const struct job *job) {
  DMI_local_barrier_t barrier;
  int64_t all = sent_all();
  OK(DMI_local_barrier_init(&barrier, FIELD(job->addr, barrier)));
  for (int64_t i = 0; i < job->rounds; i++)
    OK(DMI_local_barrier_sync(&barrier, 2));
  IS(sent_all() - all < 2 * job->rounds);
  OK(DMI_local_barrier_destroy(&barrier));
}

/* Sees the number grow; each time it is the one it was not before. */
static void job_watch(const struct job *job) {
  int64_t seen = 0, now = 0, times = 0;
  while (seen < job->rounds) {
    OK(DMI_watch(FIELD(job->addr, watched), sizeof(seen), &seen, &now, NULL));
    IS(now > seen && now <= job->rounds);
    seen = now;
    times++;
  }
  IS(times > 0);
}

/* Begins a watch that is never answered: neither the process nor the program waits for it. */
static void job_forget(const struct job *job) {
  static DMI_local_status_t status[8];
  static int64_t out[8];
  int64_t in = get_int64(FIELD(job->addr, before));
  OK(DMI_watch(FIELD(job->addr, before), sizeof(in), &in, &out[job->number], &status[job->number]));
  IS(DMI_check(&status[job->number], NULL) == DMI_FALSE);
}

/* Waits for a mutex until its memory is freed. */
static void job_loser(const struct job *job) {
  FAILS(DMI_mutex_lock(FIELD(job->addr, mutex)), DMI_EADDR);
}

/* A page of this process: it makes and owns it. */
static int64_t job_own_page(void) {
  int64_t addr;
  MUST(DMI_mmap(&addr, sizeof(struct shared) + 5, 1, NULL));
  return addr;
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t value = 0;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case COUNT:
      job_count(&job);
      break;
    case SPIN:
      job_spin(&job);
      break;
    case QUEUE:
      job_queue(&job);
      break;
    case STRANGER:
      job_stranger(&job);
      break;
    case PING:
      job_ping(&job);
      break;
    case SLEEP:
      job_sleep(&job);
      break;
    case ROUNDS:
      job_rounds(&job);
      break;
    case MEET:
      job_meet(&job);
      break;
    case COST:
      job_cost(&job);
      break;
    case PAIR:
      job_pair(&job);
      break;
    case WATCH:
      job_watch(&job);
      break;
    case FORGET:
      job_forget(&job);
      break;
    case BRING:
      MUST(DMI_fad(FIELD(job.addr, mutex), 0, NULL, DMI_EXCLUSIVE_ATOMIC, NULL));
      break;
    case LOSER:
      job_loser(&job);
      break;
    case OWN_PAGE:
      value = job_own_page();
      break;
  }
  check_report(job.report);
  return value;
}

/* ---- The crew ------------------------------------------------------------------------------ */

/* Thread `number` in process `where` begins a job. */
static DMI_thread_t begin(enum what what, int64_t number, int32_t where, int64_t rounds,
                          int64_t addr) {
  struct job job = {(int64_t)what, number, rounds, addr, report};
  int64_t at = jobs + (number % CREW) * (int64_t)sizeof(job);
  DMI_thread_t thread;
  MUST(DMI_write(at, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, ids[where], at, NULL));
  return thread;
}

/* All of the crew, spread over the first `processes`. */
static void begin_all(DMI_thread_t *threads, enum what what, int32_t processes, int64_t rounds,
                      int64_t addr) {
  for (int32_t i = 0; i < CREW; i++)
    threads[i] = begin(what, i, i % processes, rounds, addr);
}

static void end_all(const DMI_thread_t *threads, int32_t num) {
  for (int32_t i = 0; i < num; i++)
    MUST(DMI_join(threads[i], NULL, NULL));
}

static int64_t new_page(int32_t where) {
  DMI_thread_t thread = begin(OWN_PAGE, 0, where, 0, 0);
  int64_t addr;
  MUST(DMI_join(thread, &addr, NULL));
  MUST(DMI_mutex_init(FIELD(addr, mutex)));
  MUST(DMI_cond_init(FIELD(addr, cond)));
  MUST(DMI_spin_init(FIELD(addr, spin)));
  MUST(DMI_barrier_init(FIELD(addr, barrier)));
  return addr;
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void test_cost(int64_t addr, int32_t where, int64_t rounds) {
  DMI_thread_t threads[2] = {begin(COST, 0, where, 0, addr)};
  for (int64_t looks = 0; get_int64(FIELD(addr, turn)) == 0; looks++)
    look_again(looks);
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  put_int64(FIELD(addr, watched), 5);
  wait_for_queue(FIELD(addr, mutex), 1);
  for (int64_t i = 0; i < 20; i++) /* writes to other bytes */
    put_int64(FIELD(addr, spun), 0);
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  end_all(threads, 1);
  for (int i = 0; i < 2; i++)
    threads[i] = begin(PAIR, i, where, rounds, addr);
  end_all(threads, 2);
}

static void test_count(int64_t addr, int64_t rounds) {
  DMI_thread_t threads[CREW];
  int64_t old = get_int64(FIELD(addr, counter)), spun = get_int64(FIELD(addr, spun));
  begin_all(threads, COUNT, PROCESSES, rounds, addr);
  end_all(threads, CREW);
  EQ(get_int64(FIELD(addr, counter)), old + CREW * rounds);
  begin_all(threads, SPIN, PROCESSES, rounds, addr);
  end_all(threads, CREW);
  EQ(get_int64(FIELD(addr, spun)), spun + CREW * rounds);
}

static void test_fifo(int64_t addr) {
  DMI_thread_t threads[CREW];
  int64_t mutex = FIELD(addr, mutex);
  put_int64(FIELD(addr, num), 0);
  OK(DMI_mutex_lock(mutex));
  for (int32_t i = 0; i < CREW; i++) {
    int32_t number = (i * 5 + 2) % CREW; /* some order */
    threads[i] = begin(QUEUE, number, number % PROCESSES, 0, addr);
    wait_for_queue(mutex, 1 + i);
  }
  EQ(get_int64(FIELD(addr, num)), 0);
  OK(DMI_mutex_unlock(mutex));
  end_all(threads, CREW);
  for (int32_t i = 0; i < CREW; i++)
    EQ(get_int64(FIELD(addr, order) + 8 * i), (i * 5 + 2) % CREW);
}

static void test_holder(int64_t addr) {
  DMI_thread_t thread;
  int32_t flag = 7;
  FAILS(DMI_mutex_unlock(FIELD(addr, mutex)), DMI_EHOLDER);
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  FAILS(DMI_mutex_lock(FIELD(addr, mutex)), DMI_EHOLDER);
  for (int32_t i = 0; i < PROCESSES; i++) {
    thread = begin(STRANGER, 0, i, 0, addr);
    end_all(&thread, 1);
  }
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  FAILS(DMI_mutex_unlock(FIELD(addr, mutex)), DMI_EHOLDER);
  OK(DMI_mutex_trylock(FIELD(addr, mutex), &flag));
  EQ(flag, DMI_TRUE);
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  OK(DMI_mutex_destroy(FIELD(addr, mutex)));
}

static void test_bad(void) {
  int64_t addr, size = sizeof(DMI_mutex_t) + 8, wrong = INT64_C(1) << 62;
  DMI_local_barrier_t barrier;
  DMI_thread_t thread;
  int32_t flag;
  char bytes[16] = {0};
  OK(DMI_mmap(&addr, size, 4, NULL));
  FAILS(DMI_mutex_init(addr + size - 8), DMI_ERANGE); /* over two pages */
  FAILS(DMI_mutex_lock(addr + size - 8), DMI_ERANGE);
  FAILS(DMI_spin_lock(addr + 9), DMI_ERANGE);
  FAILS(DMI_cond_signal(addr + 4 * size - 8), DMI_ERANGE); /* leaves the mapping */
  FAILS(DMI_barrier_init(addr), DMI_ERANGE);               /* the page is too small */
  FAILS(DMI_mutex_lock(wrong), DMI_EADDR);
  FAILS(DMI_mutex_destroy(wrong), DMI_EADDR);
  FAILS(DMI_mutex_trylock(addr, NULL), DMI_EINVAL);
  FAILS(DMI_mutex_trylock(wrong, &flag), DMI_EADDR);
  FAILS(DMI_watch(addr, 0, bytes, bytes, NULL), DMI_EINVAL);
  FAILS(DMI_watch(addr, 8, NULL, bytes, NULL), DMI_EINVAL);
  FAILS(DMI_watch(addr + size - 1, 2, bytes, bytes, NULL), DMI_ERANGE);
  FAILS(DMI_local_barrier_init(NULL, addr), DMI_EINVAL);
  FAILS(DMI_local_barrier_init(&barrier, 0), DMI_EADDR);
  OK(DMI_local_barrier_init(&barrier, wrong));
  FAILS(DMI_local_barrier_sync(&barrier, 0), DMI_EINVAL);
  FAILS(DMI_local_barrier_sync(&barrier, 1), DMI_EADDR);
  OK(DMI_local_barrier_destroy(&barrier));
  FAILS(DMI_local_barrier_sync(&barrier, 1), DMI_EINVAL);
  FAILS(DMI_local_barrier_destroy(&barrier), DMI_EINVAL);
  OK(DMI_munmap(addr, NULL));
  /* Freed while a thread waits. */
  addr = new_page(0);
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  thread = begin(LOSER, 1, 1, 0, addr);
  wait_for_queue(FIELD(addr, mutex), 1);
  OK(DMI_munmap(addr, NULL));
  end_all(&thread, 1);
  FAILS(DMI_mutex_unlock(FIELD(addr, mutex)), DMI_EADDR);
}

/* Every call sees that there is no such object, and leaves the bytes as they were. */
static void test_no_object(int64_t addr, const void *bytes, int64_t sent) {
  const struct shared *at = (const struct shared *)addr;
  const int64_t both = (int64_t)sizeof(at->mutex), round = (int64_t)sizeof(at->barrier);
  const int64_t mutex = FIELD(addr, mutex), cond = FIELD(addr, cond);
  const int64_t places[] = {mutex, cond, FIELD(addr, spin), FIELD(addr, barrier)};
  char now[sizeof(at->barrier)];
  DMI_local_barrier_t barrier;
  int32_t flag = 7;
  int64_t before;
  for (int i = 0; i < 4; i++)
    MUST(DMI_write(places[i], i < 3 ? both : round, bytes, DMI_PUT_WRITE, NULL));
  OK(DMI_local_barrier_init(&barrier, places[3]));
  OK(DMI_mutex_init(mutex));
  OK(DMI_mutex_lock(mutex));
  FAILS(DMI_cond_wait(cond, mutex), DMI_EINVAL);
  OK(DMI_mutex_unlock(mutex)); /* still held */
  MUST(DMI_write(mutex, both, bytes, DMI_PUT_WRITE, NULL));
  before = sent_all();
  FAILS(DMI_mutex_lock(mutex), DMI_EINVAL);
  FAILS(DMI_mutex_trylock(mutex, &flag), DMI_EINVAL);
  FAILS(DMI_spin_lock(places[2]), DMI_EINVAL);
  FAILS(DMI_spin_trylock(places[2], &flag), DMI_EINVAL);
  FAILS(DMI_cond_signal(cond), DMI_EINVAL);
  FAILS(DMI_cond_broadcast(cond), DMI_EINVAL);
  FAILS(DMI_local_barrier_sync(&barrier, 2), DMI_EINVAL);
  EQ(sent_all() - before, sent * 7); /* in the one message that each call sends anyway */
  EQ(flag, 7);
  FAILS(DMI_mutex_destroy(mutex), DMI_EINVAL);
  FAILS(DMI_spin_destroy(places[2]), DMI_EINVAL);
  FAILS(DMI_cond_destroy(cond), DMI_EINVAL);
  FAILS(DMI_barrier_destroy(places[3]), DMI_EINVAL);
  FAILS(DMI_mutex_unlock(mutex), DMI_EHOLDER);
  for (int i = 0; i < 4; i++) {
    MUST(DMI_read(places[i], i < 3 ? both : round, now, DMI_GET_READ, NULL));
    IS(memcmp(now, bytes, (size_t)(i < 3 ? both : round)) == 0);
  }
  OK(DMI_local_barrier_destroy(&barrier));
}

/* Bytes that were never initialized as a mutex, and the same bytes afterwards, when they are one.
 */
static void test_no_objects(int32_t where, int64_t sent) {
  const int64_t addr = new_page(where);
  const int64_t zeros[5] = {0};
  union {
    unsigned char bytes[40];
    int64_t ints[5];
    double doubles[5];
  } some;
  for (int fill = 1; fill < 256; fill += 2) {
    memset(&some, fill, sizeof(some));
    test_no_object(addr, &some, sent);
  }
  for (int64_t i = 0; i < 40; i++) {
    for (int j = 0; j < 5; j++)
      some.ints[j] = i % 4 == 0 ? 1 + j : i % 4 == 1 ? 100 * i - j * i : (int64_t)&some + j;
    for (int j = 0; i % 4 == 3 && j < 5; j++)
      some.doubles[j] = (double)(i + 1) / (j + 1);
    test_no_object(addr, &some, sent);
  }
  OK(DMI_mutex_init(FIELD(addr, mutex)));
  OK(DMI_mutex_lock(FIELD(addr, mutex)));
  OK(DMI_mutex_unlock(FIELD(addr, mutex)));
  MUST(DMI_write(FIELD(addr, spin), sizeof(DMI_spin_t), zeros, DMI_PUT_WRITE, NULL));
  OK(DMI_spin_lock(FIELD(addr, spin))); /* zero bytes are one that nobody holds */
  OK(DMI_spin_unlock(FIELD(addr, spin)));
  OK(DMI_munmap(addr, NULL));
}

static void test_cond(int64_t addr, int64_t cycles) {
  DMI_thread_t threads[CREW];
  int64_t cond = FIELD(addr, cond), tickets;
  put_int64(FIELD(addr, turn), 0);
  threads[0] = begin(PING, 0, 0, cycles, addr);
  threads[1] = begin(PING, 1, 1, cycles, addr);
  end_all(threads, 2);
  EQ(get_int64(FIELD(addr, turn)), 2 * cycles);
  /* Signals that nobody waits for are not kept. */
  OK(DMI_cond_broadcast(cond));
  OK(DMI_cond_signal(cond));
  put_int64(FIELD(addr, woken), 0);
  tickets = count_at(cond);
  begin_all(threads, SLEEP, PROCESSES, 0, addr);
  wait_for_tickets(cond, tickets + CREW);
  for (int64_t i = 0; i < 2; i++) { /* one each */
    OK(DMI_mutex_lock(FIELD(addr, mutex)));
    EQ(get_int64(FIELD(addr, woken)), i);
    OK(DMI_cond_signal(cond));
    OK(DMI_mutex_unlock(FIELD(addr, mutex)));
    for (int64_t looks = 0; get_int64(FIELD(addr, woken)) == i; looks++)
      look_again(looks);
  }
  FAILS(DMI_cond_destroy(cond), DMI_EBUSY);
  EQ(get_int64(FIELD(addr, woken)), 2);
  OK(DMI_cond_broadcast(cond));
  end_all(threads, CREW);
  EQ(get_int64(FIELD(addr, woken)), CREW);
  OK(DMI_cond_destroy(cond));
}

static void test_barrier(int64_t addr, int64_t rounds) {
  DMI_thread_t threads[CREW], thread;
  DMI_local_barrier_t barrier;
  double sum;
  put_int64(FIELD(addr, reached), 0);
  put_int64(FIELD(addr, over), 0);
  begin_all(threads, ROUNDS, PROCESSES, rounds, addr);
  end_all(threads, CREW);
  OK(DMI_barrier_destroy(FIELD(addr, barrier)));
  /* Another number than that of the round: only the late one fails. */
  for (int32_t i = 0; i < PROCESSES; i++) {
    OK(DMI_local_barrier_init(&barrier, FIELD(addr, barrier)));
    thread = begin(MEET, 0, i, 2, addr);
    wait_for_tickets(FIELD(addr, barrier), 1);
    FAILS(DMI_barrier_destroy(FIELD(addr, barrier)), DMI_EBUSY);
    FAILS(DMI_local_barrier_sync(&barrier, 3), DMI_EINVAL);
    FAILS(DMI_local_barrier_allreduce(&barrier, 5, &sum, 1), DMI_EINVAL);
    OK(DMI_local_barrier_allreduce(&barrier, 2, &sum, 2));
    IS(sum == 3);
    end_all(&thread, 1);
    OK(DMI_local_barrier_destroy(&barrier));
    OK(DMI_barrier_destroy(FIELD(addr, barrier)));
  }
}

static void test_watch(int64_t addr, int64_t rounds) {
  DMI_thread_t threads[CREW];
  DMI_local_status_t status;
  int64_t value = 0, old = 0;
  int32_t ret = 7;
  put_int64(FIELD(addr, watched), 0);
  begin_all(threads, WATCH, PROCESSES, rounds, addr);
  OK(DMI_watch(FIELD(addr, watched), sizeof(old), &old, &value, &status));
  for (int64_t i = 1; i <= rounds; i++) {
    if (i % 4) {
      put_int64(FIELD(addr, watched), i);
    } else { /* ownership moves, with all that wait */
      MUST(DMI_write(FIELD(addr, watched), sizeof(i), &i, DMI_EXCLUSIVE_WRITE, NULL));
    }
  }
  end_all(threads, CREW);
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  EQ(value, 1);
}

/* The owner of the page leaves; mutex, barrier, condition and watch go on. */
static void test_leave(int64_t scale) {
  int64_t addr = new_page(2), mutex = FIELD(addr, mutex);
  DMI_thread_t count[CREW], more[3], bring;
  DMI_node_t node;
  int64_t old = 0, value = 0;
  DMI_local_status_t status;
  int32_t ret = 7;
  OK(DMI_mutex_lock(mutex));
  begin_all(count, COUNT, 2, 100 * scale, addr);
  wait_for_queue(mutex, CREW);
  bring = begin(BRING, 0, 2, 0, addr);
  end_all(&bring, 1); /* all of them wait at the process that leaves */
  OK(DMI_watch(FIELD(addr, watched), sizeof(old), &old, &value, &status));
  say("leave now");
  do {
    MUST(DMI_poll(&node));
  } while (node.state != DMI_CLOSE);
  OK(DMI_goodbye(node.dmi_id));
  IS(DMI_check(&status, NULL) == DMI_FALSE);
  OK(DMI_mutex_unlock(mutex));
  put_int64(FIELD(addr, watched), 9);
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  EQ(value, 9);
  end_all(count, CREW);
  EQ(get_int64(FIELD(addr, counter)), CREW * 100 * scale);
  for (int32_t i = 0; i < 3; i++) /* for those who forget a watch */
    more[i] = begin(FORGET, i, i % 2, 0, addr);
  end_all(more, 3);
}

void DMI_main(int argc, char **argv) {
  int64_t scale = scaled(argc > 1 ? atoll(argv[1]) : 10);
  int64_t cycles = argc > 2 ? atoll(argv[2]) : 100 * scale, addr;
  gather(PROCESSES, ids);
  MUST(DMI_mmap(&jobs, sizeof(struct job) * CREW, 1, NULL));
  MUST(DMI_mmap(&report, 16, 1, NULL));
  for (int32_t i = 0; i < PROCESSES; i++) {
    addr = new_page(i);
    test_cost(addr, i == 1 ? 2 : 1, 20 * scale);
    test_count(addr, 20 * scale);
    test_fifo(addr);
    test_holder(addr);
    test_cond(addr, i ? 10 * scale : cycles);
    test_barrier(addr, 30 * scale);
    test_watch(addr, 20 * scale);
  }
  test_no_objects(0, 0);
  test_no_objects(1, 1);
  test_bad();
  test_leave(scale);
  verdict("sync", report);
}
