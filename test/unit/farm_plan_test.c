/*
 * farm_plan_test.c - which task a worker of dmifarm gets, and what the end of a version means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../farm/plan.h"

static struct farm_plan *plan_of(uint32_t tasks, uint32_t copies, uint32_t retries) {
  struct farm_plan *plan =
      farm_plan_new(&(struct farm_plan_config){.copies = copies, .retries = retries});
  for (uint32_t i = 0; i < tasks; i++)
    assert_int_equal(farm_plan_add(plan, 0, false), i);
  return plan;
}

static void takes(struct farm_plan *plan, uint64_t worker, farm_ms_t now, uint32_t task,
                  uint32_t version) {
  struct farm_run run;
  farm_ms_t again;
  assert_true(farm_plan_take(plan, worker, now, &run, &again));
  assert_int_equal(run.task, task);
  assert_int_equal(run.version, version);
  assert_int_equal(run.worker, worker);
}

static void takes_none(struct farm_plan *plan, uint64_t worker, farm_ms_t now, farm_ms_t until) {
  struct farm_run run;
  farm_ms_t again;
  assert_false(farm_plan_take(plan, worker, now, &run, &again));
  assert_int_equal(again, until);
}

/* How many versions are to be stopped. */
static uint32_t ends(struct farm_plan *plan, uint32_t task, uint32_t version, enum farm_end end,
                     farm_ms_t now, bool counts, bool given_up) {
  struct farm_verdict verdict;
  assert_true(farm_plan_end(plan, task, version, end, now, &verdict));
  assert_int_equal(verdict.counts, counts);
  assert_int_equal(verdict.given_up, given_up);
  for (uint32_t i = 0; i < verdict.stop_num; i++) {
    assert_int_equal(verdict.stop[i].task, task);
    assert_int_not_equal(verdict.stop[i].version, version);
  }
  free(verdict.stop);
  return verdict.stop_num;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void test_order(void **state) {
  struct farm_plan *plan = plan_of(2, 1, 0);
  (void)state;
  assert_int_equal(farm_plan_add(plan, 3, true), 2);
  assert_int_equal(farm_plan_add(plan, 2, false), 3);
  farm_plan_come(plan, 1);
  takes(plan, 1, 0, 0, 0);
  takes(plan, 1, 0, 1, 0);
  takes(plan, 1, 0, 3, 2); /* versions before were run earlier; task 2 is finished */
  takes_none(plan, 1, 0, FARM_NEVER);
  ends(plan, 0, 0, FARM_END_RETURNED, 1, false, false);
  takes(plan, 1, 1, 0, 1);
  ends(plan, 0, 1, FARM_END_DONE, 2, true, false);
  ends(plan, 1, 0, FARM_END_DONE, 2, true, false);
  ends(plan, 3, 2, FARM_END_DONE, 2, true, false);
  takes_none(plan, 1, 2, FARM_NEVER);
  assert_int_equal(farm_plan_counts(plan).finished, 4);
  assert_int_equal(farm_plan_counts(plan).running, 0);
  farm_plan_free(plan);
}

static void test_unknown_ends(void **state) {
  struct farm_plan *plan = plan_of(1, 1, 0);
  struct farm_verdict verdict;
  (void)state;
  assert_false(farm_plan_end(plan, 0, 0, FARM_END_DONE, 0, &verdict));
  takes(plan, 1, 0, 0, 0);
  ends(plan, 0, 0, FARM_END_DONE, 0, true, false);
  assert_false(farm_plan_end(plan, 0, 0, FARM_END_DONE, 0, &verdict));
  farm_plan_free(plan);
}

/* A further version behind 1.5 times the median; the first result counts, and stops the other. */
static void test_copy(void **state) {
  struct farm_plan *plan = plan_of(3, 2, 0);
  (void)state;
  takes(plan, 1, 0, 0, 0);
  takes(plan, 2, 0, 1, 0);
  takes(plan, 3, 0, 2, 0);
  takes_none(plan, 4, 5, FARM_NEVER); /* nothing has finished: no median */
  ends(plan, 0, 0, FARM_END_DONE, 20, true, false);
  assert_int_equal(farm_plan_median(plan), 20);
  takes_none(plan, 1, 20, 30);
  takes(plan, 1, 30, 1, 1);
  takes(plan, 4, 31, 2, 1);
  takes_none(plan, 5, 1000, FARM_NEVER); /* two of each run */
  assert_int_equal(ends(plan, 1, 1, FARM_END_DONE, 40, true, false), 1);
  takes_none(plan, 1, 1000, FARM_NEVER); /* the other is being stopped */
  assert_int_equal(ends(plan, 1, 0, FARM_END_DONE, 41, false, false), 0); /* it was quicker */
  assert_int_equal(ends(plan, 2, 0, FARM_END_DONE, 41, true, false), 1);
  ends(plan, 2, 1, FARM_END_RETURNED, 42, false, false);
  assert_int_equal(farm_plan_counts(plan).finished, 3);
  farm_plan_free(plan);
}

/* The same worker never runs two versions of a task; with copies 0 it may. */
static void test_copy_elsewhere(void **state) {
  struct farm_plan *plan = plan_of(2, 2, 0);
  (void)state;
  takes(plan, 1, 0, 0, 0);
  takes(plan, 1, 0, 1, 0);
  ends(plan, 0, 0, FARM_END_DONE, 10, true, false);
  takes_none(plan, 1, 1000, FARM_NEVER);
  takes(plan, 2, 1000, 1, 1);
  farm_plan_free(plan);
}

/* As many versions as ask, evenly. */
static void test_copies_even(void **state) {
  struct farm_plan *plan = plan_of(3, 0, 0);
  uint32_t versions[3] = {0};
  (void)state;
  for (uint64_t worker = 0; worker < 12; worker++) {
    struct farm_run run;
    farm_ms_t again;
    assert_true(farm_plan_take(plan, worker, 0, &run, &again));
    assert_int_equal(run.version, versions[run.task]++);
  }
  for (int i = 0; i < 3; i++)
    assert_int_equal(versions[i], 4);
  assert_int_equal(ends(plan, 1, 2, FARM_END_DONE, 5, true, false), 3);
  farm_plan_free(plan);
}

/* A task that failed is tried elsewhere, at the same worker when there is no other, and given up.
 */
static void test_retries(void **state) {
  struct farm_plan *plan = plan_of(2, 1, 2);
  (void)state;
  farm_plan_come(plan, 1);
  farm_plan_come(plan, 2);
  takes(plan, 1, 0, 0, 0);
  ends(plan, 0, 0, FARM_END_FAILED, 1, false, false);
  takes(plan, 1, 1, 1, 0); /* not task 0, which is first */
  takes_none(plan, 1, 1, FARM_NEVER);
  takes(plan, 2, 1, 0, 1);
  ends(plan, 0, 1, FARM_END_FAILED, 2, false, false);
  takes(plan, 1, 3, 0, 2); /* it has failed at both */
  farm_plan_go(plan, 2);
  ends(plan, 0, 2, FARM_END_FAILED, 4, false, true);
  assert_int_equal(farm_plan_state(plan, 0), FARM_TASK_FAILED);
  takes_none(plan, 1, 5, FARM_NEVER);
  farm_plan_free(plan);
}

/* While another version runs a task is not given up, and its result counts. */
static void test_last_hope(void **state) {
  struct farm_plan *plan = plan_of(1, 0, 0);
  (void)state;
  takes(plan, 1, 0, 0, 0);
  takes(plan, 2, 0, 0, 1);
  ends(plan, 0, 0, FARM_END_FAILED, 1, false, false);
  takes_none(plan, 1, 1, FARM_NEVER);
  ends(plan, 0, 1, FARM_END_DONE, 2, true, false);
  assert_int_equal(farm_plan_counts(plan).failed, 0);
  farm_plan_free(plan);
}

static void test_lost_workers(void **state) {
  struct farm_plan *plan = plan_of(1, 1, 0);
  (void)state;
  for (uint32_t i = 0; i < FARM_LOST_MOST; i++) {
    takes(plan, i, 0, 0, i);
    ends(plan, 0, i, FARM_END_LOST, 1, false, i + 1 == FARM_LOST_MOST);
  }
  assert_int_equal(farm_plan_counts(plan).failed, 1);
  farm_plan_free(plan);
}

static void test_median(void **state) {
  const farm_ms_t lasts[] = {1, 2, 3, 100000, 100001, 3600000, 7200000};
  struct farm_plan *plan = plan_of(7, 1, 0);
  (void)state;
  assert_int_equal(farm_plan_median(plan), FARM_NEVER);
  for (uint32_t i = 0; i < 7; i++) {
    takes(plan, 1, 0, i, 0);
    ends(plan, i, 0, FARM_END_DONE, lasts[i], true, false);
  }
  assert_in_range(farm_plan_median(plan), 100000, 100000 + 100000 / 32);
  farm_plan_free(plan);
}

/* A task more than a worker can run: only while tasks are short, many are left, and copies may be
 * run of what waits. */
static void test_ahead(void **state) {
  struct farm_plan *plan = plan_of(6, 2, 0);
  struct farm_run run;
  (void)state;
  takes(plan, 1, 0, 0, 0);
  assert_false(farm_plan_take_ahead(plan, 1, 2, 0, &run)); /* nothing has finished */
  ends(plan, 0, 0, FARM_END_DONE, 30, true, false);
  takes(plan, 1, 30, 1, 0);
  assert_true(farm_plan_take_ahead(plan, 1, 2, 30, &run));
  assert_int_equal(run.task, 2);
  assert_true(farm_plan_take_ahead(plan, 2, 2, 30, &run));
  assert_int_equal(run.task, 3);
  assert_false(farm_plan_take_ahead(plan, 1, 2, 30, &run)); /* two are left */
  farm_plan_begun(plan, 2, 0, 60);
  ends(plan, 2, 0, FARM_END_DONE, 90, true, false);
  assert_in_range(farm_plan_median(plan), 30, 31); /* not the time for which it has waited */
  farm_plan_free(plan);
  plan = plan_of(6, 2, 0);
  takes(plan, 1, 0, 0, 0);
  ends(plan, 0, 0, FARM_END_DONE, FARM_SHORT_MS + FARM_SHORT_MS / 16, true, false);
  assert_false(farm_plan_take_ahead(plan, 1, 0, 2000, &run)); /* they are long */
  farm_plan_free(plan);
  plan = plan_of(6, 1, 0);
  takes(plan, 1, 0, 0, 0);
  ends(plan, 0, 0, FARM_END_DONE, 30, true, false);
  assert_false(farm_plan_take_ahead(plan, 1, 0, 30, &run)); /* no copies */
  farm_plan_free(plan);
}

/* A finished task, another version of which is being stopped, is not one of those that are left. */
static void test_ahead_of_stopped(void **state) {
  struct farm_plan *plan = plan_of(3, 2, 0);
  struct farm_run run;
  (void)state;
  takes(plan, 1, 0, 0, 0);
  takes(plan, 1, 0, 1, 0);
  takes(plan, 1, 0, 2, 0);
  ends(plan, 1, 0, FARM_END_DONE, 10, true, false);
  ends(plan, 2, 0, FARM_END_RETURNED, 10, false, false);
  takes(plan, 2, 100, 2, 1);
  takes(plan, 2, 100, 0, 1);
  ends(plan, 0, 1, FARM_END_DONE, 110, true, false);
  assert_int_equal(farm_plan_counts(plan).running, 2); /* 0.a still, and 2.b */
  assert_false(farm_plan_take_ahead(plan, 3, 0, 110, &run));
  ends(plan, 2, 1, FARM_END_RETURNED, 110, false, false);
  assert_false(farm_plan_take_ahead(plan, 3, 1, 110, &run)); /* one is left */
  assert_true(farm_plan_take_ahead(plan, 3, 0, 110, &run));
  assert_int_equal(run.task, 2);
  farm_plan_free(plan);
}

/* ---- Any order of events --------------------------------------------------------------------- */

#define TASKS 40
#define WORKERS 8

struct world {
  struct farm_plan *plan;
  uint64_t seed;
  farm_ms_t now;
  struct farm_run runs[1000];
  uint32_t num;
  bool there[WORKERS], finished[TASKS], failed[TASKS];
  uint32_t next_version[TASKS], results[TASKS];
};

static uint32_t pick(struct world *w, uint32_t num) {
  w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(w->seed >> 33) % num;
}

static void check_take(struct world *w, uint64_t worker) {
  struct farm_run run;
  farm_ms_t again;
  if (!farm_plan_take(w->plan, worker, w->now, &run, &again)) {
    assert_true(again == FARM_NEVER || again > w->now);
    return;
  }
  assert_true(run.task < TASKS);
  assert_false(w->finished[run.task] || w->failed[run.task]);
  assert_int_equal(run.version, w->next_version[run.task]++); /* no name twice */
  assert_true(w->num < sizeof(w->runs) / sizeof(*w->runs));
  w->runs[w->num++] = run;
}

static void end_one(struct world *w, uint32_t i, enum farm_end end) {
  struct farm_run run = w->runs[i];
  struct farm_verdict verdict;
  w->runs[i] = w->runs[--w->num];
  assert_true(farm_plan_end(w->plan, run.task, run.version, end, w->now, &verdict));
  if (verdict.counts) {
    assert_false(w->finished[run.task] || w->failed[run.task]);
    w->finished[run.task] = true;
    w->results[run.task]++;
  }
  if (verdict.given_up) w->failed[run.task] = true;
  for (uint32_t k = 0; k < verdict.stop_num; k++) {
    bool runs = false;
    for (uint32_t n = 0; n < w->num; n++)
      runs |=
          w->runs[n].task == verdict.stop[k].task && w->runs[n].version == verdict.stop[k].version;
    assert_true(runs);
  }
  free(verdict.stop);
}

static void end_worker(struct world *w, uint64_t worker, enum farm_end end) {
  for (uint32_t i = w->num; i-- > 0;)
    if (w->runs[i].worker == worker) end_one(w, i, end);
  farm_plan_go(w->plan, worker);
  w->there[worker] = false;
}

static void step(struct world *w) {
  const uint32_t worker = pick(w, WORKERS), what = pick(w, 20);
  w->now += pick(w, 50);
  if (!w->there[worker]) {
    if (what < 4) farm_plan_come(w->plan, worker);
    w->there[worker] = what < 4;
  } else if (what == 0) {
    end_worker(w, worker, pick(w, 2) ? FARM_END_LOST : FARM_END_RETURNED);
  } else if (what < 12) {
    check_take(w, worker);
  } else if (w->num) {
    end_one(w, pick(w, w->num), pick(w, 5) ? FARM_END_DONE : FARM_END_FAILED);
  }
}

static bool all_ended(const struct world *w) {
  for (uint32_t i = 0; i < TASKS; i++)
    if (!w->finished[i] && !w->failed[i]) return false;
  return true;
}

static void test_any_order(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    struct world *w = calloc(1, sizeof(*w));
    struct farm_counts counts;
    uint32_t steps = 0;
    w->seed = seed;
    w->plan = plan_of(TASKS, (uint32_t)(seed % 4), (uint32_t)(seed % 3));
    while (!all_ended(w)) {
      assert_true(steps++ < 100000);
      step(w);
    }
    while (w->num)
      end_one(w, 0, FARM_END_RETURNED);
    counts = farm_plan_counts(w->plan);
    assert_int_equal(counts.finished + counts.failed, TASKS);
    assert_int_equal(counts.running, 0);
    for (uint32_t i = 0; i < TASKS; i++)
      assert_int_equal(w->results[i], w->finished[i]);
    farm_plan_free(w->plan);
    free(w);
  }
}

/* ---- A slow worker --------------------------------------------------------------------------- */

#define SLOW 20 /* so many times slower than the others */

/* What a place runs. */
struct slot {
  uint64_t worker;
  bool runs;
  struct farm_run run;
  farm_ms_t end;
};

static void end_slot(struct farm_plan *plan, struct slot *slots, uint32_t num, struct slot *slot,
                     farm_ms_t now) {
  struct farm_verdict verdict;
  assert_true(farm_plan_end(plan, slot->run.task, slot->run.version, FARM_END_DONE, now, &verdict));
  slot->runs = false;
  for (uint32_t i = 0; i < verdict.stop_num; i++) {
    for (uint32_t k = 0; k < num; k++) {
      const struct farm_run *run = &slots[k].run, *stop = &verdict.stop[i];
      if (!slots[k].runs || run->task != stop->task || run->version != stop->version) continue;
      ends(plan, run->task, run->version, FARM_END_RETURNED, now, false, false);
      slots[k].runs = false;
    }
  }
  free(verdict.stop);
}

/* All places that are free ask; returns when the next thing happens. */
static farm_ms_t ask_all(struct farm_plan *plan, struct slot *slots, uint32_t num,
                         const farm_ms_t *lasts, farm_ms_t now) {
  farm_ms_t next = FARM_NEVER;
  for (uint32_t i = 0; i < num; i++) {
    struct slot *slot = &slots[i];
    farm_ms_t then = FARM_NEVER;
    if (!slot->runs && farm_plan_take(plan, slot->worker, now, &slot->run, &then)) {
      slot->runs = true;
      slot->end = now + lasts[slot->run.task] * (slot->worker == 0 ? SLOW : 1);
    }
    if (slot->runs) then = slot->end;
    if (then != FARM_NEVER && (next == FARM_NEVER || then < next)) next = then;
  }
  return next;
}

/* How long `tasks` tasks take at `fast` workers, with or without a slow one, worker 0. */
static farm_ms_t run_farm(uint32_t tasks, const farm_ms_t *lasts, uint32_t fast, bool slow,
                          uint32_t copies) {
  struct farm_plan *plan = plan_of(tasks, copies, 0);
  struct slot slots[16] = {0};
  const uint32_t num = fast + (slow ? 1 : 0);
  farm_ms_t now = 0;
  for (uint32_t i = 0; i < num; i++)
    farm_plan_come(plan, slots[i].worker = i + (slow ? 0 : 1));
  while (farm_plan_counts(plan).finished < tasks) {
    now = ask_all(plan, slots, num, lasts, now);
    assert_int_not_equal(now, FARM_NEVER);
    for (uint32_t i = 0; i < num; i++)
      if (slots[i].runs && slots[i].end <= now) end_slot(plan, slots, num, &slots[i], now);
  }
  farm_plan_free(plan);
  return now;
}

/* With 16 tasks and more for each worker, of 0.5 to 1.5 s, a slow one costs less than a fifth of
 * the time that the others need without it.  If its task is never copied it costs more. */
static void test_slow_worker(void **state) {
  struct world random = {.seed = 1};
  farm_ms_t lasts[400];
  (void)state;
  for (uint32_t round = 0; round < 300; round++) {
    const uint32_t fast = 1 + round % 8, tasks = fast * (16 + pick(&random, 32));
    for (uint32_t i = 0; i < tasks; i++)
      lasts[i] = 500 + pick(&random, 1000);
    const farm_ms_t alone = run_farm(tasks, lasts, fast, false, 2);
    assert_true(10 * run_farm(tasks, lasts, fast, true, 2) < 12 * alone);
  }
  for (uint32_t i = 0; i < 32; i++)
    lasts[i] = 1000;
  assert_int_equal(run_farm(32, lasts, 2, false, 1), 16000);
  assert_int_equal(run_farm(32, lasts, 2, true, 2), 16000);
  assert_int_equal(run_farm(32, lasts, 2, true, 1), 20000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),       cmocka_unit_test(test_unknown_ends),
      cmocka_unit_test(test_copy),        cmocka_unit_test(test_copy_elsewhere),
      cmocka_unit_test(test_copies_even), cmocka_unit_test(test_retries),
      cmocka_unit_test(test_last_hope),   cmocka_unit_test(test_lost_workers),
      cmocka_unit_test(test_median),      cmocka_unit_test(test_slow_worker),
      cmocka_unit_test(test_ahead),       cmocka_unit_test(test_ahead_of_stopped),
      cmocka_unit_test(test_any_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
