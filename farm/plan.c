/*
 * plan.c - which task a worker gets.
 *
 * Tasks that nobody runs stand in a queue.  One that is tried again goes to its front: it has
 * waited longest, and what failed early should be known early.  Versions that run are in a list,
 * which is as long as there are places.
 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

/* Durations are counted by their size: exactly below 64 ms, then within 1/32. */
#define EXACT 64
#define STEPS 32
#define BUCKETS (EXACT + STEPS * 58)

struct version {
  struct farm_run run;
  farm_ms_t begin;
  struct version *next;
};

struct task {
  enum farm_task_state state;
  uint32_t next_version;
  uint32_t running;  /* versions */
  uint32_t failures; /* versions that failed */
  uint32_t lost;     /* workers that were lost with it */
  uint64_t *bad;     /* workers at which it failed; `failures` of them */
  uint32_t next;     /* in the queue */
};

struct farm_plan {
  struct farm_plan_config config;
  struct task *tasks;
  uint32_t num, capacity;
  uint32_t first, last; /* the queue; NONE: empty */
  uint32_t queued;      /* how many stand there */
  struct version *versions;
  uint64_t *workers; /* that are there */
  uint32_t worker_num, worker_capacity;
  uint32_t finished, failed, running;
  uint64_t durations[BUCKETS];
};

#define NONE UINT32_MAX

/* ---- The median ------------------------------------------------------------------------------ */

static uint32_t bucket_of(farm_ms_t ms) {
  uint64_t left = ms < 0 ? 0 : (uint64_t)ms;
  uint32_t octave = 0;
  if (left < EXACT) return (uint32_t)left;
  while (left >= EXACT) {
    left >>= 1;
    octave++;
  }
  return EXACT + (octave - 1) * STEPS + (uint32_t)(left - STEPS);
}

/* The longest duration of a bucket. */
static farm_ms_t bucket_end(uint32_t bucket) {
  uint32_t octave = bucket < EXACT ? 0 : (bucket - EXACT) / STEPS + 1;
  if (!octave) return bucket;
  return (farm_ms_t)(((uint64_t)((bucket - EXACT) % STEPS + STEPS + 1) << octave) - 1);
}

farm_ms_t farm_plan_median(const struct farm_plan *plan) {
  uint64_t all = 0, seen = 0;
  for (uint32_t i = 0; i < BUCKETS; i++)
    all += plan->durations[i];
  for (uint32_t i = 0; all && i < BUCKETS; i++) {
    seen += plan->durations[i];
    if (2 * seen >= all) return bucket_end(i);
  }
  return FARM_NEVER;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void put_last(struct farm_plan *plan, uint32_t task) {
  plan->queued++;
  plan->tasks[task].next = NONE;
  if (plan->last == NONE) {
    plan->first = task;
  } else {
    plan->tasks[plan->last].next = task;
  }
  plan->last = task;
}

static void put_first(struct farm_plan *plan, uint32_t task) {
  plan->queued++;
  plan->tasks[task].next = plan->first;
  plan->first = task;
  if (plan->last == NONE) plan->last = task;
}

static void take_out(struct farm_plan *plan, uint32_t before, uint32_t task) {
  uint32_t next = plan->tasks[task].next;
  plan->queued--;
  if (before == NONE) {
    plan->first = next;
  } else {
    plan->tasks[before].next = next;
  }
  if (plan->last == task) plan->last = before;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

struct farm_plan *farm_plan_new(const struct farm_plan_config *config) {
  struct farm_plan *plan = farm_alloc(sizeof(*plan));
  plan->config = *config;
  plan->first = plan->last = NONE;
  return plan;
}

void farm_plan_free(struct farm_plan *plan) {
  if (!plan) return;
  for (struct version *version = plan->versions, *next; version; version = next) {
    next = version->next;
    free(version);
  }
  for (uint32_t i = 0; i < plan->num; i++)
    free(plan->tasks[i].bad);
  free(plan->tasks);
  free(plan->workers);
  free(plan);
}

uint32_t farm_plan_add(struct farm_plan *plan, uint32_t version, bool finished) {
  uint32_t task = plan->num;
  plan->tasks = farm_grow(plan->tasks, plan->num, &plan->capacity, sizeof(*plan->tasks));
  plan->tasks[plan->num++] =
      (struct task){.next_version = version,
                    .next = NONE,
                    .state = finished ? FARM_TASK_FINISHED : FARM_TASK_TO_DO};
  if (finished) {
    plan->finished++;
  } else {
    put_last(plan, task);
  }
  return task;
}

enum farm_task_state farm_plan_state(const struct farm_plan *plan, uint32_t task) {
  return plan->tasks[task].state;
}

struct farm_counts farm_plan_counts(const struct farm_plan *plan) {
  return (struct farm_counts){.tasks = plan->num,
                              .finished = plan->finished,
                              .failed = plan->failed,
                              .running = plan->running};
}

/* ---- Workers --------------------------------------------------------------------------------- */

void farm_plan_come(struct farm_plan *plan, uint64_t worker) {
  plan->workers =
      farm_grow(plan->workers, plan->worker_num, &plan->worker_capacity, sizeof(*plan->workers));
  plan->workers[plan->worker_num++] = worker;
}

void farm_plan_go(struct farm_plan *plan, uint64_t worker) {
  for (uint32_t i = 0; i < plan->worker_num; i++) {
    if (plan->workers[i] != worker) continue;
    plan->workers[i] = plan->workers[--plan->worker_num];
    return;
  }
}

/* ---- Who asks -------------------------------------------------------------------------------- */

static bool failed_at(const struct task *task, uint64_t worker) {
  for (uint32_t i = 0; i < task->failures; i++)
    if (task->bad[i] == worker) return true;
  return false;
}

/* It has failed at this worker, and there is one at which it has not. */
static bool left_to_others(const struct farm_plan *plan, const struct task *task, uint64_t worker) {
  if (!failed_at(task, worker)) return false;
  for (uint32_t i = 0; i < plan->worker_num; i++)
    if (!failed_at(task, plan->workers[i])) return true;
  return false;
}

static void begin(struct farm_plan *plan, uint32_t number, uint64_t worker, farm_ms_t now,
                  struct farm_run *run) {
  struct task *task = &plan->tasks[number];
  struct version *version = farm_alloc(sizeof(*version));
  *run = (struct farm_run){.task = number, .version = task->next_version++, .worker = worker};
  *version = (struct version){.run = *run, .begin = now, .next = plan->versions};
  plan->versions = version;
  if (task->running++ == 0) plan->running++;
  task->state = FARM_TASK_RUNNING;
}

/* What nobody runs. */
static bool take_queued(struct farm_plan *plan, uint64_t worker, farm_ms_t now,
                        struct farm_run *run) {
  uint32_t before = NONE;
  for (uint32_t task = plan->first; task != NONE; before = task, task = plan->tasks[task].next) {
    if (left_to_others(plan, &plan->tasks[task], worker)) continue;
    take_out(plan, before, task);
    begin(plan, task, worker, now, run);
    return true;
  }
  return false;
}

static bool runs_at(const struct farm_plan *plan, uint32_t task, uint64_t worker) {
  for (const struct version *version = plan->versions; version; version = version->next)
    if (version->run.task == task && version->run.worker == worker) return true;
  return false;
}

/* When a further version of a task may begin, one of which has begun at `begun`. */
static farm_ms_t copy_time(const struct farm_plan *plan, farm_ms_t median, farm_ms_t begun) {
  if (plan->config.copies == 0) return begun;
  return median == FARM_NEVER ? FARM_NEVER : begun + median + (median + 1) / 2;
}

static bool may_copy(const struct farm_plan *plan, const struct version *version, uint64_t worker) {
  const struct task *task = &plan->tasks[version->run.task];
  if (task->state != FARM_TASK_RUNNING) return false; /* it is being stopped */
  if (plan->config.copies && task->running >= plan->config.copies) return false;
  if (task->failures > plan->config.retries || left_to_others(plan, task, worker)) return false;
  return plan->config.copies == 0 || !runs_at(plan, version->run.task, worker);
}

/* One more version of what runs: of the task with the fewest, and of these the one that runs for
 * the longest time. */
static bool take_copy(struct farm_plan *plan, uint64_t worker, farm_ms_t now, struct farm_run *run,
                      farm_ms_t *again) {
  const struct version *best = NULL;
  const farm_ms_t median = plan->versions ? farm_plan_median(plan) : FARM_NEVER;
  for (const struct version *version = plan->versions; version; version = version->next) {
    farm_ms_t from;
    uint32_t running = plan->tasks[version->run.task].running;
    if (!may_copy(plan, version, worker)) continue;
    from = copy_time(plan, median, version->begin);
    if (from == FARM_NEVER) continue;
    if (from > now) {
      if (*again == FARM_NEVER || from < *again) *again = from;
    } else if (!best || running < plan->tasks[best->run.task].running ||
               (running == plan->tasks[best->run.task].running && version->begin <= best->begin)) {
      best = version;
    }
  }
  if (!best) return false;
  begin(plan, best->run.task, worker, now, run);
  return true;
}

bool farm_plan_take(struct farm_plan *plan, uint64_t worker, farm_ms_t now, struct farm_run *run,
                    farm_ms_t *again) {
  *again = FARM_NEVER;
  return take_queued(plan, worker, now, run) || take_copy(plan, worker, now, run, again);
}

bool farm_plan_may_be_ahead(const struct farm_plan *plan) {
  return plan->config.copies != 1;
}

bool farm_plan_take_ahead(struct farm_plan *plan, uint64_t worker, uint32_t enough, farm_ms_t now,
                          struct farm_run *run) {
  const farm_ms_t median = farm_plan_median(plan);
  if (!farm_plan_may_be_ahead(plan) || plan->queued <= enough) return false;
  if (median == FARM_NEVER || median > FARM_SHORT_MS) return false;
  return take_queued(plan, worker, now, run);
}

void farm_plan_begun(struct farm_plan *plan, uint32_t task, uint32_t version, farm_ms_t now) {
  for (struct version *at = plan->versions; at; at = at->next)
    if (at->run.task == task && at->run.version == version) at->begin = now;
}

/* ---- What has ended -------------------------------------------------------------------------- */

/* Takes a version out of the list; false: it does not run. */
static bool take_version(struct farm_plan *plan, uint32_t task, uint32_t number,
                         struct version *version) {
  for (struct version **at = &plan->versions; *at; at = &(*at)->next) {
    struct version *found = *at;
    if (found->run.task != task || found->run.version != number) continue;
    *version = *found;
    *at = found->next;
    free(found);
    return true;
  }
  return false;
}

static void list_running(struct farm_plan *plan, uint32_t task, struct farm_verdict *verdict) {
  uint32_t capacity = 0;
  for (const struct version *version = plan->versions; version; version = version->next) {
    if (version->run.task != task) continue;
    verdict->stop = farm_grow(verdict->stop, verdict->stop_num, &capacity, sizeof(*verdict->stop));
    verdict->stop[verdict->stop_num++] = version->run;
  }
}

static void succeed(struct farm_plan *plan, const struct version *version, farm_ms_t now,
                    struct farm_verdict *verdict) {
  struct task *task = &plan->tasks[version->run.task];
  plan->durations[bucket_of(now - version->begin)]++;
  if (task->state != FARM_TASK_RUNNING) return; /* another version was first */
  task->state = FARM_TASK_FINISHED;
  plan->finished++;
  verdict->counts = true;
  list_running(plan, version->run.task, verdict);
}

static void note_failure(struct task *task, uint64_t worker) {
  uint32_t capacity = task->failures; /* few: each is a version that was run */
  task->bad = farm_grow(task->bad, task->failures, &capacity, sizeof(*task->bad));
  task->bad[task->failures++] = worker;
}

/* A version of a task has ended without a result. */
static void try_again(struct farm_plan *plan, uint32_t number, struct farm_verdict *verdict) {
  struct task *task = &plan->tasks[number];
  bool hopeless = task->failures > plan->config.retries || task->lost >= FARM_LOST_MOST;
  if (task->state != FARM_TASK_RUNNING || task->running) return;
  if (hopeless) {
    task->state = FARM_TASK_FAILED;
    plan->failed++;
    verdict->given_up = true;
  } else {
    task->state = FARM_TASK_TO_DO;
    put_first(plan, number);
  }
}

bool farm_plan_end(struct farm_plan *plan, uint32_t task, uint32_t number, enum farm_end end,
                   farm_ms_t now, struct farm_verdict *verdict) {
  struct version version;
  *verdict = (struct farm_verdict){0};
  if (!take_version(plan, task, number, &version)) return false;
  if (--plan->tasks[task].running == 0) plan->running--;
  if (end == FARM_END_DONE) {
    succeed(plan, &version, now, verdict);
    return true;
  }
  if (end == FARM_END_FAILED) note_failure(&plan->tasks[task], version.run.worker);
  if (end == FARM_END_LOST) plan->tasks[task].lost++;
  try_again(plan, task, verdict);
  return true;
}
