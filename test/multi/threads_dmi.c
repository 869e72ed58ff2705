/*
 * threads_dmi.c - DMI threads: create, join, detach, self, over three processes.
 *
 *   dmirun threads_dmi         three processes; the third is to leave at "leave now"; a fourth
 *                              joins at "join now"
 */
#include "multi.h"

#define PROCESSES 3

enum what { VALUE, SELF, CHAIN, JOIN, GATE };

struct job {
  int64_t what;
  int64_t number;
  int64_t report;
  int64_t gate; /* 64-bit number that GATE waits for */
  int64_t self; /* where this job is */
  int32_t ids[4];
  DMI_thread_t thread; /* JOIN: that one.  SELF: who the thread says it is */
};

static int32_t ids[PROCESSES + 1];
static int64_t report;

/* What a thread with this number returns: small, negative, all 64 bits. */
static int64_t result(int64_t number) {
  switch (number % 8) {
    case 0:
      return number;
    case 1:
      return -number;
    case 2:
      return INT64_MIN + number;
    case 3:
      return INT64_MAX - number;
    case 4:
      return 0;
    case 5:
      return -1;
    default:
      return (int64_t)rng_of(3, 4, (uint64_t)number);
  }
}

/* An array of jobs in global memory, one page each. */
static int64_t jobs_new(int64_t num) {
  int64_t addr;
  MUST(DMI_mmap(&addr, sizeof(struct job), num, NULL));
  return addr;
}

static int64_t job_put(int64_t jobs, struct job *job) {
  int64_t addr = jobs + job->number * (int64_t)sizeof(*job);
  job->report = report;
  job->self = addr;
  memcpy(job->ids, ids, sizeof(job->ids));
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  return addr;
}

/* ---- Many ---------------------------------------------------------------------------------- */

static void test_many(int64_t num) {
  int64_t jobs = jobs_new(num), value;
  DMI_thread_t *threads = my_malloc((size_t)num * sizeof(*threads));
  struct job job = {.what = VALUE};
  for (job.number = 0; job.number < num; job.number++) {
    OK(DMI_create(&threads[job.number], ids[job.number % PROCESSES], job_put(jobs, &job), NULL));
  }
  for (int64_t i = 0; i < num; i++) { /* in another order; 7 is prime to num */
    int64_t at = i * 7 % num;
    value = 77;
    OK(DMI_join(threads[at], &value, NULL));
    EQ(value, result(at));
  }
  for (int64_t i = 0; i < num; i += 97)
    FAILS(DMI_join(threads[i], NULL, NULL), DMI_ETHREAD);
  my_free(threads);
  OK(DMI_munmap(jobs, NULL));
}

/* Each thread creates the next one in the next process, and waits for it: all live at once. */
static int64_t job_chain(const struct job *job) {
  struct job next = *job;
  DMI_thread_t thread;
  int64_t value = 0;
  if (job->number == 0) return 1000;
  next.number--;
  next.self += (int64_t)sizeof(next);
  OK(DMI_write(next.self, sizeof(next), &next, DMI_PUT_WRITE, NULL));
  OK(DMI_create(&thread, job->ids[next.number % PROCESSES], next.self, NULL));
  OK(DMI_join(thread, &value, NULL));
  return value + 1;
}

static void test_chain(int64_t num) {
  int64_t jobs = jobs_new(num), value = 0;
  struct job job = {.what = CHAIN, .number = num - 1, .self = jobs, .report = report};
  DMI_thread_t thread;
  memcpy(job.ids, ids, sizeof(job.ids));
  OK(DMI_write(jobs, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  OK(DMI_create(&thread, ids[1], jobs, NULL));
  OK(DMI_join(thread, &value, NULL));
  EQ(value, 1000 + num - 1);
  OK(DMI_munmap(jobs, NULL));
}

/* ---- Handles ------------------------------------------------------------------------------- */

static void test_self(void) {
  int64_t jobs = jobs_new(2 * PROCESSES);
  struct job job = {.what = SELF}, back;
  DMI_thread_t threads[2 * PROCESSES];
  for (job.number = 0; job.number < 2 * PROCESSES; job.number++) {
    OK(DMI_create(&threads[job.number], ids[job.number % PROCESSES], job_put(jobs, &job), NULL));
  }
  for (int64_t i = 0; i < 2 * PROCESSES; i++) {
    OK(DMI_join(threads[i], NULL, NULL));
    OK(DMI_read(jobs + i * (int64_t)sizeof(back), sizeof(back), &back, DMI_GET_READ, NULL));
    SAME(&back.thread, &threads[i], sizeof(back.thread));
    for (int64_t k = 0; k < i; k++) {
      IS(memcmp(&threads[i], &threads[k], sizeof(threads[i])) != 0);
    }
  }
  OK(DMI_munmap(jobs, NULL));
}

/* A thread made here, joined by a thread elsewhere. */
static void test_join_elsewhere(void) {
  int64_t jobs = jobs_new(20), value;
  struct job made = {.what = VALUE}, joins = {.what = JOIN};
  for (int64_t i = 0; i < 9; i++) {
    DMI_thread_t joiner;
    made.number = i;
    OK(DMI_create(&joins.thread, ids[i % PROCESSES], job_put(jobs, &made), NULL));
    joins.number = 10 + i;
    OK(DMI_create(&joiner, ids[i / PROCESSES], job_put(jobs, &joins), NULL));
    OK(DMI_join(joiner, &value, NULL));
    EQ(value, result(i));
    FAILS(DMI_join(joins.thread, &value, NULL), DMI_ETHREAD);
  }
  OK(DMI_munmap(jobs, NULL));
}

/* ---- Asynchronous, detached ---------------------------------------------------------------- */

static void test_async(int64_t num) {
  int64_t jobs = jobs_new(num);
  DMI_thread_t *threads = my_malloc((size_t)num * sizeof(*threads));
  DMI_local_status_t *status = my_malloc((size_t)num * sizeof(*status)), last;
  int64_t *value = my_malloc((size_t)num * sizeof(*value)), gate;
  struct job job = {.what = VALUE};
  int32_t ret;
  for (job.number = 0; job.number < num; job.number++) {
    OK(DMI_create(&threads[job.number], ids[job.number % PROCESSES], job_put(jobs, &job),
                  &status[job.number]));
  }
  for (int64_t i = 0; i < num; i++) {
    ret = 77;
    DMI_wait(&status[i], &ret);
    EQ(ret, DMI_TRUE);
    value[i] = 77;
    OK(DMI_join(threads[i], &value[i], &status[i]));
  }
  for (int64_t i = num - 1; i >= 0; i--) {
    for (int64_t looks = 0; !DMI_check(&status[i], &ret); looks++)
      look_again(looks);
    EQ(ret, DMI_TRUE);
    EQ(value[i], result(i));
  }
  OK(DMI_join(threads[0], NULL, &last)); /* joined already: told by the status */
  DMI_wait(&last, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_ETHREAD);
  OK(DMI_create(&threads[0], 99, jobs, &last));
  DMI_wait(&last, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_EMEMBER);

  /* A join is not complete before the thread ends. */
  OK(DMI_mmap(&gate, 8, 1, NULL));
  job = (struct job){.what = GATE, .number = 0, .gate = gate};
  OK(DMI_create(&threads[0], ids[1], job_put(jobs, &job), NULL));
  OK(DMI_join(threads[0], value, &last));
  FAILS(DMI_join(threads[0], NULL, NULL), DMI_ETHREAD); /* somebody waits for it already */
  FAILS(DMI_detach(threads[0], NULL), DMI_ETHREAD);
  EQ(DMI_check(&last, NULL), DMI_FALSE);
  OK(DMI_fad(gate, 1, NULL, DMI_PUT_ATOMIC, NULL));
  DMI_wait(&last, &ret);
  EQ(ret, DMI_TRUE);
  EQ(value[0], result(0));

  /* Detached while it runs, and when it has ended. */
  for (int64_t i = 0; i < PROCESSES; i++) {
    int64_t zero = 0;
    OK(DMI_write(gate, 8, &zero, DMI_PUT_WRITE, NULL));
    job.number = i;
    OK(DMI_create(&threads[i], ids[i], job_put(jobs, &job), NULL));
    OK(DMI_detach(threads[i], &last));
    DMI_wait(&last, &ret);
    EQ(ret, DMI_TRUE);
    FAILS(DMI_join(threads[i], NULL, NULL), DMI_ETHREAD);
    OK(DMI_fad(gate, 1, NULL, DMI_PUT_ATOMIC, NULL));
    wait_for(gate, 2); /* its last act */
    FAILS(DMI_join(threads[i], NULL, NULL), DMI_ETHREAD);
  }
  my_free(threads);
  my_free(status);
  my_free(value);
  OK(DMI_munmap(gate, NULL));
  OK(DMI_munmap(jobs, NULL));
}

/* ---- A process that leaves, another that is not welcome ------------------------------------ */

static void test_left(void) {
  int64_t jobs = jobs_new(20), value;
  DMI_thread_t threads[9], joiner, dead;
  struct job job = {.what = VALUE};
  DMI_node_t node, nodes[PROCESSES];
  int32_t num, last = ids[PROCESSES - 1];
  for (job.number = 0; job.number < 9; job.number++) {
    OK(DMI_create(&threads[job.number], last, job_put(jobs, &job), NULL));
  }
  OK(DMI_join(threads[8], &value, NULL)); /* this notice is taken first */
  EQ(value, result(8));
  say("leave now");
  OK(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, last);
  while (DMI_goodbye(last) == DMI_FALSE) { /* while the threads above still end */
    if (!IS(DMI_errno() == DMI_EBUSY)) return;
  }
  OK(DMI_join(threads[0], &value, NULL)); /* perhaps it is still there, perhaps not */
  EQ(value, result(0));
  do {
    OK(DMI_nodes(nodes, &num, PROCESSES));
  } while (num == PROCESSES);
  EQ(num, PROCESSES - 1);
  OK(DMI_join(threads[1], &value, NULL));
  EQ(value, result(1));
  OK(DMI_join(threads[2], NULL, NULL));
  job.what = JOIN; /* from another process */
  job.number = 9;
  job.thread = threads[3];
  OK(DMI_create(&joiner, ids[1], job_put(jobs, &job), NULL));
  OK(DMI_join(joiner, &value, NULL));
  EQ(value, result(3));
  OK(DMI_detach(threads[4], NULL));
  for (int i = 0; i < 5; i++)
    FAILS(DMI_join(threads[i], NULL, NULL), DMI_ETHREAD);
  FAILS(DMI_join(threads[8], NULL, NULL), DMI_ETHREAD);
  FAILS(DMI_create(&dead, last, jobs, NULL), DMI_EMEMBER);

  say("join now");
  OK(DMI_poll(&node));
  EQ(node.state, DMI_OPEN);
  FAILS(DMI_create(&dead, node.dmi_id, jobs, NULL), DMI_ELEAVING);
  OK(DMI_welcome(node.dmi_id));
  /* The same small number as the one that left, perhaps; its threads are others. */
  job = (struct job){.what = VALUE, .number = 10};
  OK(DMI_create(&threads[0], node.dmi_id, job_put(jobs, &job), NULL));
  OK(DMI_join(threads[5], &value, NULL));
  EQ(value, result(5));
  OK(DMI_join(threads[0], &value, NULL));
  EQ(value, result(10));
  /* threads 6 and 7 are never joined; the program can end without that */
  OK(DMI_munmap(jobs, NULL));
}

/* ---- The program --------------------------------------------------------------------------- */

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t value = 0;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case VALUE:
      return result(job.number);
    case SELF:
      OK(DMI_self(&job.thread));
      FAILS(DMI_join(job.thread, NULL, NULL), DMI_ETHREAD); /* it would wait for itself */
      OK(DMI_write(addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
      break;
    case CHAIN:
      value = job_chain(&job);
      break;
    case JOIN:
      OK(DMI_join(job.thread, &value, NULL));
      break;
    case GATE:
      wait_for(job.gate, 1);
      OK(DMI_fad(job.gate, 1, NULL, DMI_PUT_ATOMIC, NULL));
      return result(job.number);
  }
  check_report(job.report);
  return value;
}

void DMI_main(int argc, char **argv) {
  (void)argc, (void)argv;
  gather(PROCESSES, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  test_many(scaled(1000));
  say("many tested");
  test_chain(scaled(150));
  say("chain tested");
  test_self();
  test_join_elsewhere();
  test_async(scaled(100));
  say("asynchronous ones tested");
  test_left();
  verdict("threads", report);
}
