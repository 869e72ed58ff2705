/*
 * farm_share_test.c - reports that a worker may make, and those that it may not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <limits.h>

#include "../../farm/share.h"

static bool wants(const struct farm_order *order, enum farm_file file, int64_t offset) {
  const struct farm_told told = {0};
  const struct farm_report report = {.type = FARM_REPORT_WANT, .file = file, .offset = offset};
  return farm_report_fits(&report, order, &told);
}

static void test_want(void **state) {
  struct farm_order order = {.type = FARM_ORDER_START, .size = {100, FARM_SHORT}, .has_data = true};
  (void)state;
  assert_true(wants(&order, FARM_PROGRAM, 0));
  assert_true(wants(&order, FARM_DATA, FARM_SHORT - 1));
  assert_false(wants(&order, FARM_DATA, FARM_SHORT));
  assert_false(wants(&order, FARM_DATA, -1));
  assert_false(wants(&order, FARM_DATA, INT64_MIN));
  assert_false(wants(&order, FARM_OUT, 0)); /* beyond the two that travel there */
  assert_false(wants(&order, (enum farm_file)1000000, 0));
  assert_false(wants(&order, (enum farm_file) - 1, 0));
  order.has_data = false;
  assert_false(wants(&order, FARM_DATA, 0));
  order.size[0] = FARM_SHORT;
  order.size[1] = 0;
  assert_false(wants(&order, FARM_PROGRAM, 0)); /* it was in the order */
  order.size[0]++;
  assert_true(wants(&order, FARM_PROGRAM, 0));
  order.type = FARM_ORDER_SEND;
  assert_false(wants(&order, FARM_PROGRAM, 0));
}

static bool sends(const struct farm_order *order, int64_t size) {
  const struct farm_told told = {.out_size = FARM_PART + 10, .err_size = 2 * FARM_PART};
  const struct farm_report report = {.type = FARM_REPORT_SENT, .part_size = size};
  return farm_report_fits(&report, order, &told);
}

static void test_sent(void **state) {
  struct farm_order order = {.type = FARM_ORDER_SEND, .file = FARM_OUT};
  (void)state;
  assert_true(sends(&order, FARM_PART));
  assert_true(sends(&order, -1));
  assert_false(sends(&order, FARM_PART + 1)); /* more than the page has */
  assert_false(sends(&order, INT64_MAX));
  order.offset = FARM_PART;
  assert_true(sends(&order, 10));
  assert_false(sends(&order, 11));
  order.file = FARM_ERR;
  assert_true(sends(&order, 11));
  order.offset = 3 * FARM_PART;
  assert_false(sends(&order, 1));
  order.type = FARM_ORDER_PART;
  assert_false(sends(&order, 10));
}

static void test_others(void **state) {
  const struct farm_order order = {.type = FARM_ORDER_START};
  const struct farm_told told = {0};
  const struct farm_report ended = {.type = FARM_REPORT_ENDED};
  (void)state;
  assert_true(farm_report_fits(&ended, &order, &told));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_want),
      cmocka_unit_test(test_sent),
      cmocka_unit_test(test_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
