/*
 * farm_table_test.c - which task of a farm is whose (lib/elastic/farm_plan.h): cases, and random
 * orders of threads that come, work, fail, stop and are lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/farm_plan.h"

static struct dmi_farm_table *table_of(uint32_t capacity, int64_t tasks) {
  struct dmi_farm_table *table = malloc(dmi_farm_table_size(capacity));
  assert_non_null(table);
  dmi_farm_table_init(table, capacity, tasks);
  return table;
}

static struct dmi_farm_answer step(struct dmi_farm_table *table, struct dmi_farm_step what) {
  struct dmi_farm_answer answer;
  dmi_farm_table_step(table, dmi_farm_table_size(table->capacity), &what, &answer);
  return answer;
}

static uint32_t slot(struct dmi_farm_table *table, int32_t process) {
  struct dmi_farm_answer answer =
      step(table, (struct dmi_farm_step){.op = DMI_FARM_SLOT, .process = process});
  assert_int_equal(answer.what, DMI_FARM_DONE);
  return answer.slot;
}

static struct dmi_farm_answer work(struct dmi_farm_table *table, int32_t process, uint32_t at,
                                   int64_t done, int64_t want) {
  return step(table,
              (struct dmi_farm_step){
                  .op = DMI_FARM_WORK, .process = process, .slot = at, .done = done, .want = want});
}

static void is_piece(struct dmi_farm_answer answer, int64_t begin, int64_t num) {
  assert_int_equal(answer.what, DMI_FARM_DO);
  assert_int_equal(answer.begin, begin);
  assert_int_equal(answer.num, num);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void test_pieces_shrink(void **state) {
  struct dmi_farm_table *table = table_of(4, 100);
  uint32_t a = slot(table, 1), b = slot(table, 2);
  (void)state;
  is_piece(work(table, 1, a, 0, 1), 0, 1);
  is_piece(work(table, 1, a, 1, 1000), 1, 24); /* a quarter of 99: two threads */
  is_piece(work(table, 2, b, 0, 7), 25, 7);
  is_piece(work(table, 2, b, 7, 1000), 32, 17);
  is_piece(work(table, 2, b, 17, 1000), 49, 12);
  is_piece(work(table, 2, b, 12, 1000), 61, 9);
  for (int64_t begin = 70, num = 7; begin < 100;
       begin += num, num = (100 - begin) / 4 ? (100 - begin) / 4 : 1)
    is_piece(work(table, 2, b, begin == 70 ? 9 : table->ranges[b].num, 1000), begin, num);
  assert_int_equal(work(table, 2, b, 1, 1000).what, DMI_FARM_WAIT);
  assert_int_equal(work(table, 1, a, 24, 1000).what, DMI_FARM_END);
  assert_int_equal(work(table, 2, b, 0, 1000).what, DMI_FARM_END);
  assert_int_equal(table->done, 100);
  free(table);
}

static void test_long_tasks_are_shared(void **state) {
  struct dmi_farm_table *table = table_of(4, 100);
  uint32_t a = slot(table, 1), b = slot(table, 2);
  uint64_t wake;
  (void)state;
  is_piece(work(table, 1, a, 0, 20), 0, 20);
  is_piece(work(table, 2, b, 0, 1), 20, 1);
  wake = table->wake;
  is_piece(work(table, 1, a, 5, 2), 5, 2); /* it keeps 2 of the 15 that are left */
  assert_true(table->wake > wake);
  is_piece(work(table, 2, b, 1, 50), 7, 13);
  free(table);
}

static void test_failures(void **state) {
  struct dmi_farm_table *table = table_of(4, 3);
  uint32_t a = slot(table, 1), b = slot(table, 2);
  struct dmi_farm_step fails = {
      .op = DMI_FARM_WORK, .process = 1, .slot = a, .again = 1, .want = 1};
  struct dmi_farm_answer answer;
  (void)state;
  is_piece(work(table, 1, a, 0, 1), 0, 1);
  is_piece(step(table, fails), 1, 1); /* not the same task at once, in the same process */
  answer = work(table, 2, b, 0, 1);
  is_piece(answer, 0, 1);
  assert_int_equal(answer.tries, 1);
  is_piece(work(table, 1, a, 1, 1), 2, 1);
  fails.tries = 4;
  answer = step(table, fails); /* nothing else is left */
  is_piece(answer, 2, 1);
  assert_int_equal(answer.tries, 5);
  assert_int_equal(work(table, 1, a, 1, 1).what, DMI_FARM_WAIT);
  answer = step(table, (struct dmi_farm_step){
                           .op = DMI_FARM_WORK, .process = 2, .slot = b, .done = 1, .failed = 1});
  assert_int_equal(answer.what, DMI_FARM_END);
  assert_true(answer.notify);
  assert_int_equal(answer.failed, 1);
  free(table);
}

static void test_full(void **state) {
  struct dmi_farm_table *table = table_of(2, 10), *more;
  uint32_t a = slot(table, 1);
  struct dmi_farm_step fails = {.op = DMI_FARM_WORK, .process = 1, .slot = a, .again = 1};
  struct dmi_farm_step one_more = {.op = DMI_FARM_SLOT, .process = 3};
  (void)state;
  (void)slot(table, 2);
  assert_int_equal(step(table, one_more).what, DMI_FARM_FULL);
  is_piece(work(table, 1, a, 0, 2), 0, 2);
  assert_int_equal(step(table, fails).what, DMI_FARM_HERE);
  is_piece(work(table, 1, a, 1, 2), 1, 1);
  more = malloc(dmi_farm_table_size(4));
  assert_non_null(more);
  memcpy(more, table, dmi_farm_table_size(2));
  assert_int_equal(step(table, (struct dmi_farm_step){.op = DMI_FARM_MOVE, .addr = 4096}).what,
                   DMI_FARM_DONE);
  assert_int_equal(step(table, one_more).what, DMI_FARM_MOVED);
  assert_int_equal(step(table, one_more).addr, 4096);
  dmi_farm_table_grow(more, 4);
  assert_int_equal(step(more, one_more).what, DMI_FARM_DONE);
  is_piece(work(more, 1, a, 1, 2), 2, 1);
  free(more);
  free(table);
}

/* Tasks are done again whose results are lost: those of them that had failed do not count. */
static void test_failed_again(void **state) {
  struct dmi_farm_table *table = table_of(2, 3);
  uint32_t a = slot(table, 1);
  struct dmi_farm_answer answer;
  (void)state;
  is_piece(work(table, 1, a, 0, 1), 0, 1);
  (void)step(table, (struct dmi_farm_step){
                        .op = DMI_FARM_WORK, .process = 1, .slot = a, .done = 1, .failed = 1});
  is_piece(work(table, 1, a, 1, 1), 2, 1);
  assert_int_equal(work(table, 1, a, 1, 1).what, DMI_FARM_END);
  answer = step(table, (struct dmi_farm_step){.op = DMI_FARM_AGAIN, .begin = 0, .num = 2});
  assert_int_equal(answer.done, 1);
  answer = step(table, (struct dmi_farm_step){.op = DMI_FARM_FAILED, .failed = 2});
  assert_int_equal(answer.what, DMI_FARM_WRONG);
  answer = step(table, (struct dmi_farm_step){.op = DMI_FARM_FAILED, .failed = 0});
  assert_int_equal(answer.what, DMI_FARM_DONE);
  assert_int_equal(answer.failed, 0);
  free(table);
}

/* Who waits is woken by each step that gives it something to do, or ends it. */
static void test_wakes(void **state) {
  struct dmi_farm_table *table = table_of(4, 3);
  uint32_t a = slot(table, 1), b = slot(table, 2);
  struct dmi_farm_step fails = {
      .op = DMI_FARM_WORK, .process = 1, .slot = a, .again = 1, .want = 1};
  uint64_t wake;
  (void)state;
  is_piece(work(table, 1, a, 0, 1), 0, 1);
  is_piece(work(table, 1, a, 1, 1), 1, 1);
  is_piece(work(table, 1, a, 1, 1), 2, 1);
  assert_int_equal(work(table, 2, b, 0, 1).what, DMI_FARM_WAIT);
  wake = table->wake;
  is_piece(step(table, fails), 2, 1); /* it takes that one again itself */
  assert_true(table->wake != wake);
  wake = table->wake;
  (void)step(table, (struct dmi_farm_step){.op = DMI_FARM_LOST, .process = 1});
  assert_true(table->wake != wake);
  is_piece(work(table, 2, b, 0, 1), 2, 1);
  a = slot(table, 1);
  assert_int_equal(work(table, 1, a, 0, 1).what, DMI_FARM_WAIT);
  wake = table->wake;
  assert_int_equal(work(table, 2, b, 1, 1).what, DMI_FARM_END);
  assert_true(table->wake != wake);
  free(table);
}

static void test_stop(void **state) {
  struct dmi_farm_table *table = table_of(4, 10);
  uint32_t a = slot(table, 1), b = slot(table, 1), c = slot(table, 2);
  struct dmi_farm_answer answer;
  (void)state;
  is_piece(work(table, 1, a, 0, 2), 0, 1);
  is_piece(work(table, 2, c, 0, 1), 1, 1);
  answer = step(table, (struct dmi_farm_step){.op = DMI_FARM_STOP, .process = 1});
  assert_int_equal(answer.threads, 2);
  answer = work(table, 1, b, 0, 1);
  assert_int_equal(answer.what, DMI_FARM_END);
  assert_int_equal(answer.threads, 2); /* of all processes */
  assert_false(answer.notify);         /* another one still runs there */
  answer = work(table, 1, a, 0, 1);
  assert_int_equal(answer.what, DMI_FARM_END);
  assert_true(answer.notify);
  is_piece(work(table, 2, c, 1, 1), 0, 1); /* what it had begun */
  (void)step(table, (struct dmi_farm_step){.op = DMI_FARM_STOP});
  assert_int_equal(work(table, 2, c, 1, 1).what, DMI_FARM_END);
  free(table);
}

static void test_wrong(void **state) {
  struct dmi_farm_table *table = table_of(2, 10);
  uint32_t a = slot(table, 1);
  (void)state;
  is_piece(work(table, 1, a, 0, 2), 0, 2);
  assert_int_equal(work(table, 2, a, 0, 1).what, DMI_FARM_WRONG);     /* another's */
  assert_int_equal(work(table, 1, a + 1, 0, 1).what, DMI_FARM_WRONG); /* none */
  assert_int_equal(work(table, 1, 7, 0, 1).what, DMI_FARM_WRONG);
  assert_int_equal(work(table, 1, a, 3, 1).what, DMI_FARM_WRONG); /* more than it has */
  assert_int_equal(work(table, 1, a, -1, 1).what, DMI_FARM_WRONG);
  assert_int_equal(
      step(table,
           (struct dmi_farm_step){
               .op = DMI_FARM_WORK, .process = 1, .slot = a, .done = INT64_MAX, .again = 1})
          .what,
      DMI_FARM_WRONG);
  assert_int_equal(step(table, (struct dmi_farm_step){.op = 99}).what, DMI_FARM_WRONG);
  assert_int_equal(
      step(table, (struct dmi_farm_step){.op = DMI_FARM_AGAIN, .begin = 9, .num = 2}).what,
      DMI_FARM_WRONG);
  table->made++;
  assert_int_equal(work(table, 1, a, 0, 1).what, DMI_FARM_WRONG);
  free(table);
}

/* ---- Random orders --------------------------------------------------------------------------- */

#define THREADS 40
#define PROCESSES 6
#define RETRIES 2

struct world {
  struct dmi_farm_table *table;
  uint64_t seed;
  int64_t tasks;
  int *done;  /* per task: how often it was done */
  int *fails; /* per task: how often it has failed; -1: it never does */
  struct thread {
    int32_t process; /* 0: it does not run */
    uint32_t slot;
    struct dmi_farm_answer has;
    int32_t tries;
    bool waits;
  } threads[THREADS];
  bool stops[PROCESSES + 1];
};

static uint64_t rnd(struct world *world, uint64_t below) {
  world->seed = world->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (world->seed >> 33) % below;
}

static void grow(struct world *world) {
  uint32_t capacity = 2 * world->table->capacity;
  world->table = realloc(world->table, dmi_farm_table_size(capacity));
  assert_non_null(world->table);
  dmi_farm_table_grow(world->table, capacity);
}

static void come(struct world *world, struct thread *thread) {
  int32_t process = 1 + (int32_t)rnd(world, PROCESSES);
  struct dmi_farm_answer answer;
  if (world->stops[process]) return;
  while (
      (answer = step(world->table, (struct dmi_farm_step){.op = DMI_FARM_SLOT, .process = process}))
          .what == DMI_FARM_FULL)
    grow(world);
  *thread = (struct thread){.process = process, .slot = answer.slot};
}

/* Does some of what the thread has, and says so. */
static void go_on(struct world *world, struct thread *thread) {
  struct dmi_farm_step say = {.op = DMI_FARM_WORK,
                              .process = thread->process,
                              .slot = thread->slot,
                              .want = 1 + (int64_t)rnd(world, 50)};
  int64_t do_num = thread->has.num ? (int64_t)rnd(world, (uint64_t)thread->has.num) + 1 : 0;
  for (int64_t i = 0; i < do_num && !say.again; i++) {
    int64_t task = thread->has.begin + i;
    if (world->fails[task] >= 0 && thread->tries < RETRIES) {
      world->fails[task]++;
      say.again = 1;
      say.tries = thread->tries;
      continue;
    }
    say.failed += world->fails[task] >= 0;
    world->done[task]++;
    say.done++;
    thread->tries = 0;
  }
  thread->has = step(world->table, say);
  switch (thread->has.what) {
    case DMI_FARM_DO:
      thread->tries = thread->has.tries;
      break;
    case DMI_FARM_HERE:
      thread->tries++;
      break;
    case DMI_FARM_WAIT:
      thread->waits = true;
      thread->has.num = 0;
      break;
    default:
      assert_int_equal(thread->has.what, DMI_FARM_END);
      *thread = (struct thread){0};
  }
}

/* What it was doing is done by others. */
static void lose(struct world *world, int32_t process) {
  for (int i = 0; i < THREADS; i++) {
    if (world->threads[i].process == process) world->threads[i] = (struct thread){0};
  }
  assert_int_equal(
      step(world->table, (struct dmi_farm_step){.op = DMI_FARM_LOST, .process = process}).threads,
      0);
  world->stops[process] = false;
}

static void random_order(uint64_t seed) {
  struct world world = {.seed = seed};
  int64_t failing = 0;
  world.tasks = 1 + (int64_t)rnd(&world, 2000);
  world.table = table_of(2, world.tasks);
  world.done = calloc((size_t)world.tasks, sizeof(int));
  world.fails = malloc((size_t)world.tasks * sizeof(int));
  assert_true(world.done && world.fails);
  for (int64_t i = 0; i < world.tasks; i++) {
    world.fails[i] = rnd(&world, 20) ? -1 : 0;
    failing += !world.fails[i];
  }
  for (int64_t steps = 0; world.table->done < world.tasks; steps++) {
    struct thread *thread = &world.threads[rnd(&world, THREADS)];
    int32_t process = 1 + (int32_t)rnd(&world, PROCESSES);
    assert_true(steps < 1000000); /* it comes to its end */
    if (!thread->process) {
      come(&world, thread);
    } else if (!thread->waits || world.table->wake != thread->has.wake) {
      thread->waits = false;
      go_on(&world, thread);
    }
    if (rnd(&world, 200) == 0) lose(&world, process);
    if (rnd(&world, 200) == 0) {
      (void)step(world.table, (struct dmi_farm_step){.op = DMI_FARM_STOP, .process = process});
      world.stops[process] = true;
    }
    if (rnd(&world, 100) == 0) world.stops[process] = false;
  }
  for (int64_t i = 0; i < world.tasks; i++)
    assert_int_equal(world.done[i], 1); /* done, and said so, in one step here */
  assert_int_equal(world.table->failed, failing);
  free(world.table);
  free(world.done);
  free(world.fails);
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++)
    random_order(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces_shrink), cmocka_unit_test(test_long_tasks_are_shared),
      cmocka_unit_test(test_failures),      cmocka_unit_test(test_full),
      cmocka_unit_test(test_failed_again),  cmocka_unit_test(test_wakes),
      cmocka_unit_test(test_stop),          cmocka_unit_test(test_wrong),
      cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
