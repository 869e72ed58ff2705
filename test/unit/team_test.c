/*
 * team_test.c - the pure parts of teams but for ports (team_port_test.c): trees, operations,
 * tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "team/combine.h"
#include "team/table.h"
#include "team/tree.h"

/* ---- Trees ---------------------------------------------------------------------------------- */

/* The formula of OX-RFC-102: b * 2^k, b odd, receives from (b - 1) * 2^k and sends to
 * b * 2^k + 2^i, i = k - 1 ... 0. */
static void check_tree(int32_t size, int32_t root, int32_t at) {
  struct dmi_team_tree tree = dmi_team_tree_of((at + root) % size, root, size);
  int32_t k = 0, step, child;
  while (at ? !(at >> k & 1) : 1 << k < size)
    k++;
  assert_int_equal(tree.parent, at ? (at - (1 << k) + root) % size : -1);
  step = tree.span / 2;
  for (int32_t i = k - 1; i >= 0; i--) {
    if (at + (1 << i) >= size) continue;
    child = dmi_team_tree_down(&tree, &step);
    assert_int_equal(child, (at + (1 << i) + root) % size);
  }
  assert_int_equal(dmi_team_tree_down(&tree, &step), -1);
  step = 1;
  for (int32_t i = 0; i < k && at + (1 << i) < size; i++) {
    child = dmi_team_tree_up(&tree, &step);
    assert_int_equal(child, (at + (1 << i) + root) % size);
  }
  assert_int_equal(dmi_team_tree_up(&tree, &step), -1);
}

static void test_trees(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 40; size++)
    for (int32_t root = 0; root < size; root++)
      for (int32_t at = 0; at < size; at++)
        check_tree(size, root, at);
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void test_combine(void **state) {
  int32_t a[] = {INT32_MAX, -5}, b[] = {1, 3};
  uint16_t u[] = {0xffff}, v[] = {0xffff};
  long double x[] = {1.5L}, y[] = {-2.0L};
  int8_t i[] = {-3}, j[] = {2};
  (void)state;
  dmi_team_combine(DMI_TYPE_INT32, DMI_OP_SUM, a, a, b, 2);
  assert_int_equal(a[0], INT32_MIN); /* wraps around */
  assert_int_equal(a[1], -2);
  dmi_team_combine(DMI_TYPE_UINT16, DMI_OP_PROD, u, u, v, 1); /* no overflow of int */
  assert_int_equal(u[0], 1);
  dmi_team_combine(DMI_TYPE_LONG_DOUBLE, DMI_OP_MIN, x, x, y, 1);
  assert_true(x[0] == -2.0L);
  dmi_team_combine(DMI_TYPE_INT8, DMI_OP_MAX, i, i, j, 1);
  assert_int_equal(i[0], 2);
  dmi_team_combine(DMI_TYPE_INT8, DMI_OP_BXOR, j, i, j, 1);
  assert_int_equal(j[0], 0);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_UINT64, DMI_OP_BAND), 8);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_DOUBLE, DMI_OP_BAND), 0);
  assert_int_equal(dmi_team_combine_size(0, DMI_OP_SUM), 0);
  assert_int_equal(dmi_team_combine_size(12, DMI_OP_SUM), 0);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_INT32, 8), 0);
}

/* More than the compiler takes together, to a third place and to either operand. */
static void test_combine_many(void **state) {
  enum { NUM = 64 * 3 + 5 };
  double a[NUM + 1], b[NUM + 1], to[NUM + 1];
  (void)state;
  for (int where = 0; where < 3; where++) {
    double *at = where == 0 ? to : where == 1 ? a : b;
    for (int i = 0; i <= NUM; i++) {
      a[i] = i;
      b[i] = to[i] = -1000;
    }
    at[NUM] = 7;
    dmi_team_combine(DMI_TYPE_DOUBLE, DMI_OP_SUM, at, a, b, NUM);
    for (int i = 0; i < NUM; i++)
      assert_true(at[i] == i - 1000);
    assert_true(at[NUM] == 7); /* not one more */
  }
}

/* ---- Tables --------------------------------------------------------------------------------- */

#define CAPACITY 4

static struct dmi_team_answer ask(struct dmi_team_table *table, struct dmi_team_step step) {
  struct dmi_team_answer answer;
  dmi_team_table_step(table, dmi_team_table_size(CAPACITY), &step, &answer, sizeof(answer));
  return answer;
}

static struct dmi_team_answer join(struct dmi_team_table *table, int32_t rank, uint32_t process) {
  struct dmi_team_answer answer =
      ask(table, (struct dmi_team_step){.what = DMI_TEAM_JOIN, .rank = rank, .process = process});
  if (answer.error) return answer;
  return ask(table, (struct dmi_team_step){
                        .what = DMI_TEAM_ARRIVE, .rank = answer.rank, .process = process});
}

static struct dmi_team_answer arrive(struct dmi_team_table *table, int32_t rank, uint32_t process,
                                     enum dmi_team_arrived how) {
  return ask(table, (struct dmi_team_step){.what = DMI_TEAM_ARRIVE,
                                           .rank = rank,
                                           .process = process,
                                           .arrived = how,
                                           .epoch = table->epoch});
}

static void test_table(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  struct dmi_team_answer was;
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  assert_int_equal(join(table, 2, 10).error, DMI_EINVAL);
  assert_int_equal(join(table, 1, 10).news, 0);
  assert_int_equal(table->epoch, 0);
  assert_int_equal(join(table, 1, 11).error, DMI_EBUSY);
  assert_int_equal(join(table, -1, 11).news, 1); /* gets rank 0 */
  assert_int_equal(table->epoch, 1);
  assert_int_equal(table->slots[0].member, 11);
  assert_int_equal(join(table, -1, 12).error, DMI_EBUSY);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_EBUSY);
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).error, DMI_ELOST); /* not its rank */
  /* Larger: a reset waits for those who are to come. */
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 5}).error,
                   DMI_ESIZE);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_RESETS).begins, 0);
  was = arrive(table, 1, 10, DMI_TEAM_RESETS);
  assert_int_equal(was.begins, 0);
  assert_int_equal(was.news, 1); /* one that leaves could go now */
  assert_int_equal(join(table, -1, 12).begins, 1);
  assert_int_equal(table->size, 3);
  assert_int_equal(table->epoch, 2);
  /* A loss counts as an arrival; a hole is not waited for. */
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(arrive(table, 2, 12, DMI_TEAM_LEAVES).begins, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = 10}).begins,
                   1);
  assert_int_equal(table->slots[1].member, 0);
  assert_int_equal(table->slots[2].member, 0);
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_LEAVES).begins, 1);
  /* As at first. */
  assert_int_equal(table->size, 0);
  assert_true(table->slots[1].awaited);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_OK);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_LOOK}).error, DMI_EINVAL);
  free(table);
}

static struct dmi_team_answer look(struct dmi_team_table *table, struct dmi_team_slot *slots) {
  struct dmi_team_step step = {.what = DMI_TEAM_LOOK};
  struct {
    struct dmi_team_answer answer;
    struct dmi_team_slot slots[CAPACITY];
  } in;
  dmi_team_table_step(table, dmi_team_table_size(CAPACITY), &step, &in, sizeof(in));
  memcpy(slots, in.slots, sizeof(in.slots));
  return in.answer;
}

/* A larger table has everything before the old one is told of it; not when that has changed. */
static void test_table_grows(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  struct dmi_team_table *more = calloc(1, dmi_team_table_size(9));
  struct dmi_team_slot slots[CAPACITY];
  struct dmi_team_answer was;
  struct dmi_team_step move = {.what = DMI_TEAM_MOVE, .size = CAPACITY, .addr = 99};
  (void)state;
  dmi_team_table_init(table, 7, CAPACITY, CAPACITY);
  was = look(table, slots);
  (void)join(table, 1, 10);
  move.steps = was.steps;
  assert_int_equal(ask(table, move).error, DMI_EBUSY);
  was = look(table, slots);
  dmi_team_table_grow(more, &was, slots, 9);
  move.steps = was.steps;
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 9}).error,
                   DMI_ESIZE); /* a step that fails changes nothing */
  assert_int_equal(ask(table, move).error, DMI_OK);
  assert_int_equal(ask(table, move).error, DMI_TEAM_HAS_MOVED);
  assert_int_equal(table->moved, 99);
  assert_int_equal(more->team, 7);
  assert_int_equal(more->moved, 0);
  assert_int_equal(more->capacity, 9);
  assert_int_equal(more->wanted, CAPACITY);
  assert_int_equal(more->slots[1].next, 10);
  assert_int_equal(more->slots[1].ready, 1);
  assert_int_equal(more->slots[2].awaited, 1);
  assert_int_equal(more->slots[8].awaited, 0);
  free(table);
  free(more);
}

/* The last members leave, though some rank is awaited, and whoever joins or does not any more. */
static void test_table_left(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  const struct dmi_team_step unjoin = {.what = DMI_TEAM_UNJOIN, .rank = 3, .process = 13};
  (void)state;
  dmi_team_table_init(table, 7, 1, CAPACITY);
  assert_int_equal(join(table, 0, 10).begins, 1);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  assert_int_equal(join(table, 1, 11).begins, 0); /* rank 2 is awaited, too */
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_LEAVES).begins, 1);
  assert_int_equal(table->size, 0);
  assert_int_equal(table->slots[1].next, 11); /* goes on waiting */
  assert_int_equal(join(table, 2, 12).begins, 0);
  assert_int_equal(join(table, 0, 10).begins, 1);
  assert_int_equal(table->size, 3);
  assert_int_equal(table->slots[1].member, 11);
  /* A rank that is needed and leaves is waited for; one that is lost is not. */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  (void)arrive(table, 1, 11, DMI_TEAM_RESETS);
  (void)arrive(table, 2, 12, DMI_TEAM_LEAVES);
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = 10}).begins,
                   0);
  assert_int_equal(join(table, 2, 14).begins, 1);
  assert_int_equal(table->slots[0].member, 0);
  /* One that is cut off. */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 4});
  assert_int_equal(join(table, 3, 13).begins, 0);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 2});
  for (int32_t rank = 0; rank < 3; rank++)
    (void)arrive(table, rank, table->slots[rank].member, DMI_TEAM_LEAVES);
  assert_int_equal(table->size, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_EBUSY);
  (void)ask(table, unjoin);
  assert_int_equal(table->slots[3].ready, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_OK);
  free(table);
}

/* Who leaves and exits: somebody else is still awaited with its rank. */
static void test_table_left_and_gone(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  (void)join(table, 0, 10);
  assert_int_equal(join(table, 1, 11).begins, 1);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  (void)arrive(table, 1, 11, DMI_TEAM_LEAVES);
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = 11}).begins,
                   0);
  assert_int_equal(join(table, 2, 12).begins, 0);
  assert_int_equal(table->epoch, 1);
  assert_int_equal(join(table, 1, 13).begins, 1);
  assert_int_equal(table->slots[1].member, 13);
  free(table);
}

/* Who was cut off gives its rank back, but not when an epoch has begun with it meanwhile: the
 * others count on it. */
static void test_table_unjoin(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  const struct dmi_team_step unjoin = {.what = DMI_TEAM_UNJOIN, .rank = 1, .process = 11};
  struct dmi_team_slot slots[CAPACITY];
  struct dmi_team_answer answer;
  (void)state;
  dmi_team_table_init(table, 7, 1, CAPACITY);
  (void)join(table, 0, 10);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  (void)join(table, 1, 11);
  answer = look(table, slots);
  assert_int_equal(dmi_team_joins_as(&answer, slots, 11, 1, 1), DMI_EBUSY);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 1});
  answer = look(table, slots);
  assert_int_equal(dmi_team_joins_as(&answer, slots, 11, 1, 1), DMI_EINVAL);
  /* Before it has given it back: */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 2});
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 1);
  assert_int_equal(ask(table, unjoin).error, DMI_OK);
  answer = look(table, slots);
  assert_int_equal(slots[1].member, 11);
  assert_int_equal(dmi_team_joins_as(&answer, slots, 11, 1, 1), DMI_OK);
  assert_int_equal(dmi_team_joins_as(&answer, slots, 11, 1, 2), DMI_ELOST); /* joined later */
  assert_int_equal(dmi_team_joins_as(&answer, slots, 12, 1, 1), DMI_ELOST);
  /* And one that is still to join: nothing is left of it. */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 4});
  (void)join(table, 2, 11);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_UNJOIN, .rank = 2, .process = 11});
  answer = look(table, slots);
  assert_int_equal(slots[2].next, 0);
  assert_int_equal(dmi_team_joins_as(&answer, slots, 11, 2, 2), DMI_ELOST);
  free(table);
}

/* A rank that was cut off, and looks late, does not take an epoch of another thread of its process
 * for its own. */
static void test_table_cut_off(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  struct dmi_team_slot slots[CAPACITY];
  struct dmi_team_answer answer;
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  (void)join(table, 0, 10);
  (void)join(table, 1, 11);
  (void)arrive(table, 1, 11, DMI_TEAM_RESETS);
  answer = look(table, slots);
  assert_int_equal(dmi_team_goes_on_as(&answer, slots, 11, 1, 1), DMI_EBUSY);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 1});
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 1);
  answer = look(table, slots);
  assert_int_equal(dmi_team_goes_on_as(&answer, slots, 10, 0, 1), DMI_OK);
  assert_int_equal(dmi_team_goes_on_as(&answer, slots, 11, 1, 1), DMI_EINVAL);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 2});
  (void)join(table, 1, 11); /* another thread */
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 1);
  answer = look(table, slots);
  assert_int_equal(slots[1].member, 11);
  assert_int_equal(dmi_team_goes_on_as(&answer, slots, 11, 1, 1), DMI_EINVAL);
  free(table);
}

static void test_table_overwritten(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  table->capacity = 1000000;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->capacity = CAPACITY;
  table->wanted = 5;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->wanted = -1;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->wanted = 2;
  assert_int_equal(arrive(table, 4, 1, DMI_TEAM_RESETS).error, DMI_EINVAL);
  assert_int_equal(arrive(table, -1, 1, DMI_TEAM_RESETS).error, DMI_EINVAL);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = 99}).error, DMI_EINVAL);
  free(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_combine),
      cmocka_unit_test(test_combine_many),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_table_overwritten),
      cmocka_unit_test(test_table_grows),
      cmocka_unit_test(test_table_left),
      cmocka_unit_test(test_table_left_and_gone),
      cmocka_unit_test(test_table_unjoin),
      cmocka_unit_test(test_table_cut_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
