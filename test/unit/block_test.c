/*
 * block_test.c - DMI_block: ranges follow each other, differ by one at most, and cover all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dmi_ext.h"

static void divide(int64_t n, int32_t pnum, int32_t step) {
  int64_t begin, end, last = 0, least = n / pnum;
  for (int64_t rank = 0; rank < pnum; rank += step) {
    assert_int_equal(DMI_block(n, (int32_t)rank, pnum, &begin, &end), DMI_TRUE);
    if (step == 1) assert_true(begin == last);
    assert_true(begin >= last && (end - begin == least || end - begin == least + 1));
    last = end;
  }
  assert_int_equal(DMI_block(n, pnum - 1, pnum, &begin, &end), DMI_TRUE);
  assert_true(end == n && end - begin == least); /* the first ones have more */
}

static void test_ranges(void **state) {
  (void)state;
  for (int64_t n = 0; n < 70; n++) {
    for (int32_t pnum = 1; pnum < 70; pnum++)
      divide(n, pnum, 1);
  }
  divide(INT64_MAX, 1, 1);
  divide(INT64_MAX, 7, 1);
  divide(INT64_MAX, INT32_MAX, 1 << 20);
  divide(5, INT32_MAX, 1 << 20);
}

static void test_wrong(void **state) {
  int64_t begin = 5, end = 6;
  (void)state;
  assert_int_equal(DMI_block(-1, 0, 1, &begin, &end), DMI_FALSE);
  assert_int_equal(DMI_errno(), DMI_EINVAL);
  assert_int_equal(DMI_block(1, -1, 1, &begin, &end), DMI_FALSE);
  assert_int_equal(DMI_block(1, 1, 1, &begin, &end), DMI_FALSE);
  assert_int_equal(DMI_block(1, 0, 0, &begin, &end), DMI_FALSE);
  assert_int_equal(DMI_block(1, 0, 1, NULL, &end), DMI_FALSE);
  assert_int_equal(DMI_block(1, 0, 1, &begin, NULL), DMI_FALSE);
  assert_true(begin == 5 && end == 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges), cmocka_unit_test(test_wrong)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
