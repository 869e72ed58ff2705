/*
 * tasks_dmi.c - DMI_farm_run: each task is done, whoever comes, goes, fails or is lost.
 *
 *   dmirun tasks_dmi calls          wrong arguments, farms without tasks and without results
 *   dmirun tasks_dmi short N        many short tasks in N processes, and many threads
 *   dmirun tasks_dmi mixed N        short tasks, and then long ones
 *   dmirun tasks_dmi fails N        tasks that fail
 *   dmirun tasks_dmi large N        results with pages of their own, in N processes
 *   dmirun tasks_dmi long N         tasks that wait until DMI_main's process reads a line, but for
 *                                   the first one of each process
 *   dmirun tasks_dmi idle N         the same; lines that are read say: left, note, open, end
 *   dmirun tasks_dmi closed         begins when a process has asked to leave that was not welcomed,
 *                                   and waits for another one
 *   dmirun tasks_dmi lost           begins when two processes are lost, of which it has welcomed
 *                                   one, and waits for another one
 *   dmirun tasks_dmi stopped        the same as long 3, but before it begins it waits for a line
 *   dmirun tasks_dmi exit N         a task calls DMI_exit(5)
 */
#include "multi.h"

#include <pthread.h>
#include <time.h>

#include "dmi_ext.h"
#include "dmi_farm.h"

enum kind { SHORT, MIXED, FAILS_OFTEN, LARGE, GATED, EXITS };

struct job {
  int64_t kind;
  int64_t gate; /* address: GATED tasks go on when it is not 0 */
  char text[1000];
};

#define LARGE_SIZE 100000

static uint64_t hash(int64_t task) {
  uint64_t seed = (uint64_t)task + 77;
  return rng_next(&seed);
}

#define MIXED_SHORT 1000
#define MIXED_LONG 24

/* What comes behind short tasks takes longer than a piece may: whoever has several of them, and
 * more in its other slot, gives them back. */
static void take_long(int64_t task) {
  struct timespec begin, now;
  int64_t ms;
  if (task < MIXED_SHORT) return;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    ms = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
  } while (ms < 25);
}

/* So often a task fails, before it is done. */
static int64_t fails(int64_t task) {
  return task % 7 == 3 ? task % 5 : 0;
}

/* The first task of each process does not wait at the gate: so the process has a result. */
static int32_t wait_at(int64_t gate, int64_t task) {
  static _Atomic int begun;
  int64_t zero = 0, now;
  say("task %d begins", (int)task);
  if (atomic_fetch_add(&begun, 1) == 0) return 0;
  return !DMI_watch(gate, 8, &zero, &now, NULL);
}

static int32_t fail_often(int64_t task, int64_t gate) {
  int64_t before;
  MUST(DMI_fad(gate + 8 * task, 1, &before, DMI_PUT_ATOMIC, NULL));
  return before < fails(task) ? (int32_t)(-10 - task) : 0;
}

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job_ptr) {
  const struct job *job = job_ptr;
  for (int64_t i = 0; i < size; i++)
    IS(((char *)out)[i] == 0);
  if (job == NULL) return 0;
  if (task == 3) FAILS(DMI_farm_run(&(DMI_farm_t){.tasks = 1}), DMI_EBUSY);
  EQ(job->text[999], 'x');
  if (job->kind == GATED && wait_at(job->gate, task)) return 1;
  if (job->kind == MIXED) take_long(task);
  for (int64_t i = 0; i + 8 <= size; i += 8) {
    uint64_t value = hash(task) + (uint64_t)i;
    memcpy((char *)out + i, &value, 8);
  }
  if (job->kind == EXITS && task == 5) OK(DMI_exit(5));
  return job->kind == FAILS_OFTEN ? fail_often(task, job->gate) : 0;
}

static void check_results(const DMI_farm_t *farm) {
  char *out = my_malloc((size_t)farm->result_size);
  for (int64_t task = 0; task < farm->tasks; task++) {
    int32_t status = 9;
    uint64_t value, bad = 0;
    MUST(DMI_farm_result(farm, task, out, &status));
    for (int64_t i = 0; i + 8 <= farm->result_size; i += 8) {
      memcpy(&value, out + i, 8);
      bad += value != hash(task) + (uint64_t)i;
    }
    EQ(bad, 0);
    if (farm->failed == 0) EQ(status, 0);
  }
  my_free(out);
}

static struct job job_of(enum kind kind) {
  struct job job = {.kind = kind};
  memset(job.text, 'x', sizeof(job.text));
  return job;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void wrong(void) {
  const DMI_farm_t good = {.tasks = 3};
  DMI_farm_t farm = good;
  int64_t task;
  FAILS(DMI_farm_run(NULL), DMI_EINVAL);
  farm.tasks = -1;
  FAILS(DMI_farm_run(&farm), DMI_EINVAL);
  farm = good;
  farm.result_size = -1;
  FAILS(DMI_farm_run(&farm), DMI_EINVAL);
  farm = good;
  farm.job_size = 1;
  FAILS(DMI_farm_run(&farm), DMI_EINVAL);
  farm = good;
  farm.job = &good;
  farm.job_size = INT64_MAX;
  FAILS(DMI_farm_run(&farm), DMI_ESIZE);
  farm = good;
  farm.threads = -1;
  FAILS(DMI_farm_run(&farm), DMI_EINVAL);
  farm = good;
  farm.result_size = INT64_MAX;
  FAILS(DMI_farm_run(&farm), DMI_ESIZE);
  farm.result_size = (int64_t)1 << 61;
  FAILS(DMI_farm_run(&farm), DMI_ESIZE);
  FAILS(DMI_farm_result(&farm, 0, &task, NULL), DMI_EADDR);
  FAILS(DMI_farm_failed(&farm, 0, &task, NULL), DMI_EADDR);
  FAILS(DMI_farm_free(&farm), DMI_EADDR);
  FAILS(DMI_farm_free(NULL), DMI_EINVAL);
  farm.result_size = (int64_t)1 << 59; /* no memory for one */
  FAILS(DMI_farm_run(&farm), DMI_ENOMEM);
}

static void small_ones(void) {
  DMI_farm_t farm = {.tasks = 0};
  int64_t task = 5;
  OK(DMI_farm_run(&farm));
  OK(DMI_farm_failed(&farm, 0, &task, NULL));
  EQ(task, -1);
  FAILS(DMI_farm_result(&farm, 0, NULL, NULL), DMI_EINVAL);
  OK(DMI_farm_free(&farm));
  farm = (DMI_farm_t){.tasks = 3};
  OK(DMI_farm_run(&farm));
  OK(DMI_farm_result(&farm, 2, NULL, NULL));
  FAILS(DMI_farm_result(&farm, 3, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_farm_result(&farm, -1, NULL, NULL), DMI_EINVAL);
  FAILS(DMI_farm_failed(&farm, 0, NULL, NULL), DMI_EINVAL);
  OK(DMI_farm_free(&farm));
  FAILS(DMI_farm_free(&farm), DMI_EADDR);
}

static int64_t told; /* events PROGRESS */

static void on_event(const DMI_farm_event_t *event, void *arg) {
  FAILS(DMI_farm_run(&(DMI_farm_t){.tasks = 1}), DMI_EBUSY);
  DMI_farm_print(event, arg);
  if (event->kind == DMI_FARM_PROGRESS) told++;
  if (event->kind == DMI_FARM_NOTE) say("note %d", (int)event->value);
}

static DMI_farm_t farm_of(const struct job *job, int64_t tasks, int64_t result_size,
                          int32_t processes) {
  return (DMI_farm_t){.tasks = tasks,
                      .result_size = result_size,
                      .job = job,
                      .job_size = sizeof(*job),
                      .processes = processes,
                      .event = on_event};
}

static void run_short(int32_t processes) {
  const struct job job = job_of(SHORT);
  DMI_farm_t farm = farm_of(&job, scaled(100000), 12, processes);
  farm.threads = (int32_t)scaled(60); /* more than the first table has place for */
  MUST(DMI_notify(123));
  OK(DMI_farm_run(&farm));
  EQ(farm.failed, 0);
  IS(told >= 1 && told <= 102);
  check_results(&farm);
  OK(DMI_farm_free(&farm));
  farm = farm_of(&job, 5, 16, processes); /* fewer than there are threads */
  OK(DMI_farm_run(&farm));
  check_results(&farm);
  OK(DMI_farm_free(&farm));
}

static void run_mixed(int32_t processes) {
  const struct job job = job_of(MIXED);
  DMI_farm_t farm = farm_of(&job, MIXED_SHORT + MIXED_LONG, 16, processes);
  farm.threads = 2;
  OK(DMI_farm_run(&farm));
  EQ(farm.failed, 0);
  check_results(&farm);
  OK(DMI_farm_free(&farm));
}

static void run_fails(int32_t processes) {
  struct job job = job_of(FAILS_OFTEN);
  DMI_farm_t farm = farm_of(&job, 700, 24, processes);
  int64_t failed = 0, task = 0;
  int32_t status;
  MUST(DMI_mmap(&job.gate, 8 * farm.tasks, 1, NULL));
  farm.retries = 2;
  OK(DMI_farm_run(&farm));
  for (int64_t t = 0; t < farm.tasks; t++) {
    int64_t tries;
    MUST(DMI_read(job.gate + 8 * t, 8, &tries, DMI_GET_READ, NULL));
    EQ(tries, fails(t) < 3 ? fails(t) + 1 : 3);
    failed += fails(t) >= 3;
  }
  EQ(farm.failed, failed);
  check_results(&farm); /* also of those that have failed */
  for (; DMI_farm_failed(&farm, task, &task, &status) && task >= 0; task++, failed--) {
    IS(fails(task) >= 3);
    EQ(status, -10 - task);
  }
  EQ(failed, 0);
  OK(DMI_farm_free(&farm));
}

static void run_large(int32_t processes) {
  const struct job job = job_of(LARGE);
  DMI_farm_t farm = farm_of(&job, 40, LARGE_SIZE, processes);
  OK(DMI_farm_run(&farm));
  check_results(&farm);
  OK(DMI_farm_free(&farm));
}

/* Opens the gate when a line comes. */
static void *open_gate(void *gate) {
  int64_t one = 1;
  while (getchar() != '\n')
    continue;
  MUST(DMI_write(*(int64_t *)gate, 8, &one, DMI_PUT_WRITE, NULL));
  return NULL;
}

/* How many members there are, or how many of them have asked to leave. */
static int members(bool leaving) {
  DMI_node_t nodes[8];
  int32_t num, found = 0;
  MUST(DMI_nodes(nodes, &num, 8));
  for (int32_t i = 0; i < num; i++)
    found += !leaving || nodes[i].state == DMI_CLOSE;
  return found;
}

/* "note" makes a note, "left" does when all have asked to leave, "open" opens the gate; until
 * "end".
 */
static void *take_lines(void *gate) {
  char line[16];
  int64_t one = 1;
  while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
    while (strcmp(line, "left\n") == 0 && members(true) < members(false))
      usleep(10000);
    if (strcmp(line, "open\n") != 0) MUST(DMI_notify(1));
    if (strcmp(line, "open\n") == 0)
      MUST(DMI_write(*(int64_t *)gate, 8, &one, DMI_PUT_WRITE, NULL));
  }
  return NULL;
}

/* So many that there are some for each thread, although some have up to 8 in hand, and 8 more for
 * later: no more, as none but the first one of a thread is short. */
static void run_gated(int32_t processes, void *(*reads)(void *gate)) {
  struct job job = job_of(GATED);
  DMI_farm_t farm = farm_of(&job, 80, LARGE_SIZE, processes);
  pthread_t thread;
  MUST(DMI_mmap(&job.gate, 8, 1, NULL));
  IS(pthread_create(&thread, NULL, reads, &job.gate) == 0);
  farm.threads = 2;
  OK(DMI_farm_run(&farm));
  IS(pthread_join(thread, NULL) == 0);
  check_results(&farm);
  OK(DMI_farm_free(&farm));
}

/* Two processes do the tasks: notices of others, which came before, do not count. */
static void run_two(void) {
  const struct job job = job_of(SHORT);
  DMI_farm_t farm = farm_of(&job, 1000, 16, 2);
  OK(DMI_farm_run(&farm));
  check_results(&farm);
  OK(DMI_farm_free(&farm));
}

static void run_closed(void) {
  while (members(true) == 0)
    usleep(10000);
  say("it wants to leave");
  run_two();
}

static void run_lost(void) {
  DMI_node_t node;
  do {
    MUST(DMI_poll(&node));
  } while (node.dmi_id == 0);
  MUST(DMI_welcome(node.dmi_id));
  while (members(false) < 3)
    usleep(10000);
  say("three are there");
  while (members(false) > 1)
    usleep(10000);
  say("two are lost");
  run_two();
}

static void run_stopped(void) {
  DMI_node_t node;
  for (int i = 0; i < 3; i++) {
    MUST(DMI_poll(&node));
    MUST(DMI_welcome(node.dmi_id));
  }
  say("three are there");
  while (getchar() != '\n')
    continue;
  run_gated(3, open_gate);
}

static void run_exit(int32_t processes) {
  const struct job job = job_of(EXITS);
  DMI_farm_t farm = farm_of(&job, 1000000000000, 8, processes);
  FAILS(DMI_farm_run(&farm), DMI_EEND);
  FAILS(DMI_farm_result(&farm, 0, &told, NULL), DMI_EADDR);
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int32_t num = argc > 2 ? atoi(argv[2]) : 1;
  if (strcmp(what, "calls") == 0) {
    wrong();
    small_ones();
  } else if (strcmp(what, "short") == 0) {
    run_short(num);
  } else if (strcmp(what, "mixed") == 0) {
    run_mixed(num);
  } else if (strcmp(what, "fails") == 0) {
    run_fails(num);
  } else if (strcmp(what, "large") == 0) {
    run_large(num);
  } else if (strcmp(what, "long") == 0) {
    run_gated(num, open_gate);
  } else if (strcmp(what, "idle") == 0) {
    run_gated(num, take_lines);
  } else if (strcmp(what, "closed") == 0) {
    run_closed();
  } else if (strcmp(what, "lost") == 0) {
    run_lost();
  } else if (strcmp(what, "stopped") == 0) {
    run_stopped();
  } else if (strcmp(what, "exit") == 0) {
    run_exit(num);
  }
  verdict(what, 0);
}
