/*
 * suspend_dmi.c - DMI_suspend and DMI_wake, within and between processes.
 *
 *   dmirun suspend_dmi         three processes; after "come and go" others join one by one, each
 *                              is told to leave at "guest N plays"
 */
#include "multi.h"

#define PROCESSES 3

enum what { PING, COUNT, EARLY, SELF };

/* In global memory, one page each. */
struct job {
  int64_t what;
  int64_t rounds;
  int64_t report;
  int64_t self;        /* where this job is */
  int64_t ready;       /* COUNT: times it has returned from DMI_suspend; written by the thread */
  int64_t turn;        /* PING: address of a 64-bit counter that both add to */
  int64_t odd;         /* PING: this one plays the odd numbers */
  int64_t async;       /* PING: wakes with a status */
  DMI_thread_t thread; /* PING: the partner */
};

static int32_t ids[PROCESSES + 16];
static int64_t report, turns;

static int64_t jobs_new(int64_t num) {
  int64_t addr;
  MUST(DMI_mmap(&addr, sizeof(struct job), num, NULL));
  return addr;
}

static int64_t field(int64_t job, size_t offset) {
  return job + (int64_t)offset;
}

static DMI_thread_t start(int32_t id, int64_t at, struct job *job) {
  DMI_thread_t thread;
  job->report = report;
  job->self = at;
  MUST(DMI_write(at, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, id, at, NULL));
  return thread;
}

static void wake(DMI_thread_t thread, bool async) {
  DMI_local_status_t status;
  int32_t ret = DMI_FALSE;
  OK(DMI_wake(thread, async ? &status : NULL));
  if (!async) return;
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
}

/* ---- Ping-pong ----------------------------------------------------------------------------- */

/* Two threads add to a counter in turns; nothing but suspend and wake keeps them in order.  A wake
 * that is lost stops both; one too many breaks the order. */
static void job_ping(const struct job *job) {
  struct job now;
  int64_t old;
  /* Both know each other.  A wake cannot tell this: it could coincide with the partner's first one.
   */
  wait_for(field(job->self, offsetof(struct job, ready)), 1);
  OK(DMI_read(job->self, sizeof(now), &now, DMI_GET_READ, NULL));
  for (int64_t i = 0; i < job->rounds; i++) {
    if (job->odd || i) OK(DMI_suspend());
    MUST(DMI_fad(job->turn, 1, &old, DMI_PUT_ATOMIC, NULL));
    EQ(old, 2 * i + job->odd);
    wake(now.thread, job->async);
  }
  /* the even one is woken one time more than it waits */
  if (!job->odd) OK(DMI_suspend());
}

static void ping(int32_t a, int32_t b, int64_t rounds, int64_t jobs, bool async) {
  DMI_thread_t threads[2];
  int64_t turn, zero = 0;
  struct job job = {.what = PING, .rounds = rounds, .turn = turns, .async = async};
  OK(DMI_write(turns, 8, &zero, DMI_PUT_WRITE, NULL));
  threads[0] = start(a, jobs, &job);
  job.odd = 1;
  threads[1] = start(b, jobs + (int64_t)sizeof(job), &job);
  for (int i = 0; i < 2; i++) {
    int64_t at = field(jobs + i * (int64_t)sizeof(job), offsetof(struct job, thread));
    OK(DMI_write(at, sizeof(threads[0]), &threads[1 - i], DMI_PUT_WRITE, NULL));
  }
  for (int i = 0; i < 2; i++) {
    int64_t one = 1, at = field(jobs + i * (int64_t)sizeof(job), offsetof(struct job, ready));
    OK(DMI_write(at, 8, &one, DMI_PUT_WRITE, NULL));
  }
  for (int i = 0; i < 2; i++)
    OK(DMI_join(threads[i], NULL, NULL));
  OK(DMI_read(turns, 8, &turn, DMI_GET_READ, NULL));
  EQ(turn, 2 * rounds);
}

/* ---- One is kept --------------------------------------------------------------------------- */

/* Says how often it was woken, and waits for the next. */
static void job_count(const struct job *job) {
  for (int64_t i = 1; i <= job->rounds; i++) {
    OK(DMI_suspend());
    OK(DMI_write(field(job->self, offsetof(struct job, ready)), 8, &i, DMI_PUT_WRITE, NULL));
  }
}

/* A thread that has been told to sleep only after it was woken. */
static void job_early(const struct job *job) {
  int64_t times = 1;
  wait_for(field(job->self, offsetof(struct job, turn)), 1);
  OK(DMI_suspend()); /* the one that is kept of many */
  OK(DMI_write(field(job->self, offsetof(struct job, ready)), 8, &times, DMI_PUT_WRITE, NULL));
  OK(DMI_suspend()); /* none is left: only a new one ends this */
  times = 2;
  OK(DMI_write(field(job->self, offsetof(struct job, ready)), 8, &times, DMI_PUT_WRITE, NULL));
}

static void test_early(int32_t id, int64_t jobs) {
  struct job job = {.what = EARLY}, now;
  DMI_thread_t thread = start(id, jobs, &job);
  DMI_local_status_t status[5];
  int32_t ret;
  int64_t turn = 1;
  for (int i = 0; i < 5; i++)
    OK(DMI_wake(thread, &status[i]));
  for (int i = 0; i < 5; i++) {
    DMI_wait(&status[i], &ret);
    EQ(ret, DMI_TRUE);
  }
  OK(DMI_write(field(jobs, offsetof(struct job, turn)), 8, &turn, DMI_PUT_WRITE, NULL));
  wait_for(field(jobs, offsetof(struct job, ready)), 1);
  /* If two were kept the thread soon says so, and ends. */
  for (int i = 0; i < 100; i++) {
    OK(DMI_read(jobs, sizeof(now), &now, DMI_GET_READ, NULL));
    EQ(now.ready, 1);
    sched_yield();
  }
  OK(DMI_wake(thread, NULL));
  OK(DMI_join(thread, NULL, NULL));
}

static void test_count(int32_t id, int64_t jobs, int64_t rounds) {
  struct job job = {.what = COUNT, .rounds = rounds};
  DMI_thread_t thread = start(id, jobs, &job);
  for (int64_t i = 1; i <= rounds; i++) {
    OK(DMI_wake(thread, NULL));
    wait_for(field(jobs, offsetof(struct job, ready)), i);
  }
  OK(DMI_join(thread, NULL, NULL));
}

/* ---- Errors -------------------------------------------------------------------------------- */

/* A thread wakes itself. */
static void job_self(void) {
  DMI_thread_t me;
  OK(DMI_self(&me));
  for (int i = 0; i < 10; i++) {
    wake(me, i % 2);
    OK(DMI_suspend());
  }
}

static void test_errors(int64_t jobs) {
  struct job job = {.what = SELF};
  DMI_thread_t thread = {{0, 0}};
  DMI_local_status_t status;
  int32_t ret;
  FAILS(DMI_suspend(), DMI_ETHREAD); /* DMI_main is no DMI thread */
  FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
  for (int i = 0; i < PROCESSES; i++) {
    thread = start(ids[i], jobs, &job);
    OK(DMI_join(thread, NULL, NULL));
    FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
    ret = DMI_wake(thread, &status);
    if (ret == DMI_TRUE) DMI_wait(&status, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_ETHREAD);
    thread.dmi_private[1] += 1000; /* never created */
    FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
  }
  thread.dmi_private[0] = 1000000; /* no such process */
  FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
  thread.dmi_private[0] = INT64_MAX;
  FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
  thread.dmi_private[0] = -1;
  FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
}

/* ---- Joining and leaving ------------------------------------------------------------------- */

static void test_guests(int64_t jobs, int64_t rounds) {
  DMI_node_t node;
  struct job job = {.what = COUNT, .rounds = 1};
  say("come and go");
  for (int round = 1; round <= 3; round++) {
    DMI_thread_t sleeper, gone;
    int32_t guest;
    OK(DMI_poll(&node));
    EQ(node.state, DMI_OPEN);
    guest = node.dmi_id;
    OK(DMI_welcome(guest));
    sleeper = start(guest, jobs + 2 * (int64_t)sizeof(job), &job);
    gone = start(guest, jobs + 3 * (int64_t)sizeof(job), &job);
    OK(DMI_wake(gone, NULL));
    OK(DMI_join(gone, NULL, NULL));
    say("guest %d plays", round);
    for (int i = 0; i < PROCESSES; i++) {
      ping(ids[i], guest, rounds, jobs, i % 2);
      ping(guest, ids[i], rounds, jobs, i % 2);
    }
    OK(DMI_poll(&node));
    EQ(node.state, DMI_CLOSE);
    FAILS(DMI_goodbye(guest), DMI_EBUSY); /* one of its threads sleeps */
    OK(DMI_wake(sleeper, NULL));
    OK(DMI_join(sleeper, NULL, NULL));
    while (DMI_goodbye(guest) == DMI_FALSE) {
      if (!IS(DMI_errno() == DMI_EBUSY)) return;
    }
    FAILS(DMI_wake(sleeper, NULL), DMI_ETHREAD);
    FAILS(DMI_wake(gone, NULL), DMI_ETHREAD);
  }
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case PING:
      job_ping(&job);
      break;
    case COUNT:
      job_count(&job);
      break;
    case EARLY:
      job_early(&job);
      break;
    case SELF:
      job_self();
      break;
  }
  check_report(job.report);
  return 0;
}

void DMI_main(int argc, char **argv) {
  int64_t jobs, began, rounds = scaled(200);
  (void)argc, (void)argv;
  gather(PROCESSES, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  MUST(DMI_mmap(&turns, 8, 1, NULL));
  jobs = jobs_new(8);
  test_errors(jobs);
  for (int i = 0; i < PROCESSES; i++) {
    test_early(ids[i], jobs);
    test_count(ids[i], jobs, rounds / 4);
  }
  for (int i = 0; i < PROCESSES * PROCESSES; i++) {
    began = now_ns();
    ping(ids[i % PROCESSES], ids[i / PROCESSES], rounds, jobs, i % 2);
    if (i == 1) {
      say("suspend: %.1f us a turn between processes",
          (double)(now_ns() - began) / 2e3 / (double)rounds);
    }
  }
  test_guests(jobs, rounds / 10 + 1);
  verdict("suspend", report);
}
