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

#define MS UINT64_C(1000000) /* ns */

/* For a call that takes 1 ms, where `unit` bytes are moved in that time. */
static size_t chosen(struct dmi_remote_candidate *at, size_t num, uint64_t inputs, uint64_t unit) {
  for (size_t i = 0; i < num; i++)
    at[i].rate = unit / 1000;
  return dmi_remote_place_choose(
      at, num, &(struct dmi_remote_demand){.inputs = inputs, .memory = inputs, .took = MS});
}

static void test_follows_bytes(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1}, {.cores = 1, .there = 8000, .made = 8000}};
  (void)state;
  assert_int_equal(chosen(at, 2, 8000, 1000), 1);
  at[1].load = 8 * MS; /* as dear as moving the bytes: they stay */
  assert_int_equal(chosen(at, 2, 8000, 1000), 1);
  at[1].load = 9 * MS;
  assert_int_equal(chosen(at, 2, 8000, 1000), 0);
  at[0].cores = at[1].cores = 4;
  assert_int_equal(chosen(at, 2, 8000, 1000), 1); /* the load is per core */
}

/* The same bytes are dear for a short call, and over a slow link. */
static void test_time(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1, .rate = 125},
                                      {.cores = 1, .rate = 125, .there = MB, .load = 5 * MS}};
  struct dmi_remote_demand demand = {.inputs = MB, .took = 10 * MS};
  (void)state;
  assert_int_equal(dmi_remote_place_choose(at, 2, &demand), 1); /* 8 ms to move */
  at[0].rate = 1000;
  assert_int_equal(dmi_remote_place_choose(at, 2, &demand), 0); /* 1 ms */
  demand.took = MS / 10;
  at[1].load = MS / 2; /* as many calls, but all are short */
  assert_int_equal(dmi_remote_place_choose(at, 2, &demand), 1);
}

static void test_least_load(void **state) {
  struct dmi_remote_candidate at[] = {
      {.cores = 1, .load = 3 * MS}, {.cores = 4, .load = 8 * MS}, {.cores = 2, .load = 4 * MS}};
  (void)state;
  assert_int_equal(chosen(at, 3, 0, 1000), 1); /* of equal ones the first */
  assert_int_equal(chosen(at, 0, 0, 1000), DMI_REMOTE_NOWHERE);
}

/* Queues that are about as long: calls take turns, unless their inputs are somewhere. */
static void test_turns(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1, .load = 80 * MS, .last = 9},
                                      {.cores = 1, .load = 82 * MS, .last = 8},
                                      {.cores = 1, .load = 83 * MS, .last = 7}};
  (void)state;
  assert_int_equal(chosen(at, 3, 0, 1000), 1);
  at[1].last = 10;
  assert_int_equal(chosen(at, 3, 0, 1000), 0); /* the third one has too many */
  at[0].there = 1;                             /* a copy of so little does not count */
  at[1].there = at[1].made = 1;
  assert_int_equal(chosen(at, 3, 1, MB), 1);
  at[0].there = MB;
  assert_int_equal(chosen(at, 3, MB, MB), 0);
  at[0].load = 0;
  at[1].load = MS; /* short ones are compared exactly */
  assert_int_equal(chosen(at, 3, 1, MB), 0);
}

static void test_limit(void **state) {
  struct dmi_remote_candidate at[] = {{.cores = 1, .limit = 100}, {.cores = 1, .load = 1000 * MS}};
  (void)state;
  assert_int_equal(chosen(at, 2, 100, 1000), 0);
  assert_int_equal(chosen(at, 2, 101, 1000), 1);
  at[1].limit = 100;
  assert_int_equal(chosen(at, 2, 101, 1000), DMI_REMOTE_NOWHERE);
}

static void test_extremes(void **state) {
  struct dmi_remote_candidate at = {.cores = 1, .rate = 1};
  struct dmi_remote_demand demand = {.inputs = UINT64_MAX, .took = 1};
  uint64_t most = dmi_remote_place_cost(&at, &demand);
  (void)state;
  at.there = UINT64_MAX;
  assert_int_equal(dmi_remote_place_cost(&at, &demand), 0);
  at.there = 0;
  demand.took = at.rate = 0;
  assert_int_equal(dmi_remote_place_cost(&at, &demand), most);
  at.rate = UINT64_MAX;
  demand.took = UINT64_MAX;
  assert_true(dmi_remote_place_cost(&at, &demand) <= 1024);
  at.load = UINT64_MAX;
  assert_true(dmi_remote_place_cost(&at, &demand) <= 2048);
  demand.took = 1;
  assert_true(dmi_remote_place_cost(&at, &demand) <= 2 * most);
  assert_true(dmi_remote_place_dry(3, 4));
  assert_false(dmi_remote_place_dry(4, 4));
  assert_int_equal(dmi_remote_place_share(0), 0);
  assert_int_equal(dmi_remote_place_share(1), 1);
  assert_int_equal(dmi_remote_place_share(9), 5);
}

/* A call is stolen if its bytes are moved before a core is free for it. */
static void test_worth(void **state) {
  (void)state;
  assert_true(dmi_remote_place_worth(0, 1, 0));
  assert_true(dmi_remote_place_worth(125000, 125, MS));
  assert_false(dmi_remote_place_worth(126000, 125, MS));
  assert_false(dmi_remote_place_worth(UINT64_MAX, 1, UINT64_MAX / 4));
  assert_true(dmi_remote_place_worth(UINT64_MAX, UINT64_MAX, MS));
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
      cmocka_unit_test(test_time),          cmocka_unit_test(test_turns),
      cmocka_unit_test(test_limit),         cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_worth),         cmocka_unit_test(test_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
