/*
 * remote_place_test.c - where a call goes, and the hash table of names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "remote/place.h"
#include "remote/table.h"

#define MB (UINT64_C(1) << 20)

static size_t chosen(const struct dmi_remote_candidate *at, size_t num, uint64_t inputs,
                     uint64_t unit) {
  return dmi_remote_place_choose(
      at, num, &(struct dmi_remote_demand){.inputs = inputs, .memory = inputs, .unit = unit});
}

static void test_follows_bytes(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1}, {.cores = 1, .there = 8 * MB, .made = 8 * MB}};
  (void)state;
  assert_int_equal(chosen(at, 2, 8 * MB, MB), 1);
  at[1].load = 8; /* as dear as moving the bytes: they stay */
  assert_int_equal(chosen(at, 2, 8 * MB, MB), 1);
  at[1].load = 9;
  assert_int_equal(chosen(at, 2, 8 * MB, MB), 0);
  assert_int_equal(chosen(at, 2, 8 * MB, MB / 2), 1); /* calls are shorter: moving is dearer */
  at[0].cores = at[1].cores = 4;
  assert_int_equal(chosen(at, 2, 8 * MB, MB), 1); /* the load is per core */
}

static void test_least_load(void **state) {
  const struct dmi_remote_candidate at[] = {
      {.cores = 1, .load = 3}, {.cores = 4, .load = 8}, {.cores = 2, .load = 4}};
  (void)state;
  assert_int_equal(chosen(at, 3, 0, 1), 1); /* of equal ones the first */
  assert_int_equal(chosen(at, 0, 0, 1), DMI_REMOTE_NOWHERE);
}

/* Queues that are about as long: calls take turns, unless their inputs are somewhere. */
static void test_turns(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1, .load = 80, .last = 9},
                                      {.cores = 1, .load = 82, .last = 8},
                                      {.cores = 1, .load = 83, .last = 7}};
  (void)state;
  assert_int_equal(chosen(at, 3, 0, 1), 1);
  at[1].last = 10;
  assert_int_equal(chosen(at, 3, 0, 1), 0); /* the third one has too many */
  at[0].there = 1;                          /* a copy of so little does not count */
  at[1].there = at[1].made = 1;
  assert_int_equal(chosen(at, 3, 1, MB), 1);
  at[0].there = MB;
  assert_int_equal(chosen(at, 3, MB, MB), 0);
  at[0].load = 0;
  at[1].load = 1; /* short ones are compared exactly */
  assert_int_equal(chosen(at, 3, 1, MB), 0);
}

static void test_limit(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1, .limit = 100}, {.cores = 1, .load = 1000}};
  (void)state;
  assert_int_equal(chosen(at, 2, 100, 1000), 0);
  assert_int_equal(chosen(at, 2, 101, 1000), 1);
  at[1].limit = 100;
  assert_int_equal(chosen(at, 2, 101, 1000), DMI_REMOTE_NOWHERE);
}

static void test_extremes(void **state) {
  struct dmi_remote_candidate at = {.cores = 1};
  struct dmi_remote_demand demand = {.inputs = UINT64_MAX, .unit = 1};
  uint64_t most = dmi_remote_place_cost(&at, &demand);
  (void)state;
  at.there = UINT64_MAX;
  assert_int_equal(dmi_remote_place_cost(&at, &demand), 0);
  at.there = 0;
  demand.unit = UINT64_MAX;
  assert_true(dmi_remote_place_cost(&at, &demand) <= 1024);
  demand.unit = 0;
  assert_int_equal(dmi_remote_place_cost(&at, &demand), most);
  assert_true(dmi_remote_place_dry(3, 4));
  assert_false(dmi_remote_place_dry(4, 4));
  assert_int_equal(dmi_remote_place_share(0), 0);
  assert_int_equal(dmi_remote_place_share(1), 1);
  assert_int_equal(dmi_remote_place_share(9), 5);
}

/* Names come and go at random; the table knows the same as an array. */
static void test_table(void **state) {
  struct dmi_remote_table table = {0};
  const dmi_remote_client_t client[] = {{1, 1}, {1, 2}, {7, 1}};
  static char here[3][500];
  uint32_t random = 1;
  (void)state;
  memset(here, 0, sizeof(here));
  for (int i = 0; i < 200000; i++) {
    uint32_t c, n;
    random = random * 1664525 + 1013904223;
    c = (random >> 8) % 3;
    n = (random >> 12) % (i < 100000 ? 500 : 40);
    assert_ptr_equal(dmi_remote_table_find(&table, client[c], n), here[c][n] ? &here[c][n] : NULL);
    if (here[c][n])
      dmi_remote_table_remove(&table, client[c], n);
    else
      dmi_remote_table_put(&table, client[c], n, &here[c][n]);
    here[c][n] = !here[c][n];
  }
  for (uint32_t c = 0; c < 3; c++) {
    for (uint32_t n = 0; n < 500; n++) {
      assert_ptr_equal(dmi_remote_table_find(&table, client[c], n),
                       here[c][n] ? &here[c][n] : NULL);
      if (here[c][n]) dmi_remote_table_remove(&table, client[c], n);
    }
  }
  assert_int_equal(table.num, 0);
  assert_true(table.size <= 64);
  dmi_remote_table_free(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_follows_bytes), cmocka_unit_test(test_least_load),
      cmocka_unit_test(test_turns),         cmocka_unit_test(test_limit),
      cmocka_unit_test(test_extremes),      cmocka_unit_test(test_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
