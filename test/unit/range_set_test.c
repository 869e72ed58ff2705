/*
 * range_set_test.c - random operations on the set of ranges, compared with an array of flags; and
 * its size.
 */
#include "mem/range_set.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sim/rng.h"
#include "base/epoch.h"
#include "access/mapping.h"

#define NUMBERS 200

static void same(const struct dmi_range_set *ranges, const bool *flags) {
  for (uint64_t i = 0; i < NUMBERS; i++)
    assert_int_equal(dmi_range_set_has(ranges, i), flags[i]);
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    struct rng rng = {seed};
    struct dmi_range_set ranges = {NULL};
    bool flags[NUMBERS] = {false};
    for (int step = 0; step < 200; step++) {
      uint64_t first = rng_below(&rng, NUMBERS);
      uint32_t most = rng_below(&rng, 4) ? 6 : NUMBERS;
      uint64_t len = 1 + rng_below(&rng, most), end = first + len;
      bool add = rng_below(&rng, 2);
      if (end > NUMBERS) end = NUMBERS;
      assert_true(add ? dmi_range_set_add(&ranges, first, end)
                      : dmi_range_set_remove(&ranges, first, end));
      for (uint64_t i = first; i < end; i++)
        flags[i] = add;
      same(&ranges, flags);
    }
    dmi_range_set_clear(&ranges);
    memset(flags, 0, sizeof(flags));
    same(&ranges, flags);
  }
}

static void test_ends(void **state) {
  struct dmi_range_set ranges = {NULL};
  (void)state;
  assert_false(dmi_range_set_has(&ranges, 0));
  assert_true(dmi_range_set_add(&ranges, 0, UINT64_C(1) << 62));
  assert_true(dmi_range_set_has(&ranges, 0));
  assert_true(dmi_range_set_has(&ranges, (UINT64_C(1) << 62) - 1));
  assert_false(dmi_range_set_has(&ranges, UINT64_C(1) << 62));
  assert_true(dmi_range_set_remove(&ranges, 5, 6));
  assert_true(dmi_range_set_has(&ranges, 4));
  assert_false(dmi_range_set_has(&ranges, 5));
  assert_true(dmi_range_set_has(&ranges, 6));
  dmi_range_set_clear(&ranges);
}

/* Many adjacent ranges, in any order, become one; many scattered ones are found quickly. */
static void test_many(void **state) {
  struct dmi_range_set ranges = {NULL};
  size_t before, after;
  uint64_t num = 100000;
  (void)state;
  before = mallinfo2().uordblks;
  for (uint64_t i = 0; i < num; i++) {
    uint64_t at = i * 7919 % num; /* prime: each once */
    assert_true(dmi_range_set_add(&ranges, at, at + 1));
  }
  after = mallinfo2().uordblks;
  assert_true(after < before + 1000 || before == 0); /* 0: a sanitizer's allocator */
  assert_true(dmi_range_set_remove(&ranges, 0, num));
  assert_null(ranges.tree);
  for (uint64_t i = 0; i < num; i++)
    assert_true(dmi_range_set_add(&ranges, 2 * (i * 7919 % num), 2 * (i * 7919 % num) + 1));
  for (uint64_t i = 0; i < 2 * num; i++)
    assert_int_equal(dmi_range_set_has(&ranges, i), i % 2 == 0);
  dmi_range_set_clear(&ranges);
}

/* What the replacement of pages asks of a mapping. */
static void test_mapping(void **state) {
  uint64_t num = UINT64_C(1) << 30, before;
  struct dmi_core core = {.self = 1};
  struct dmi_mapping *mapping = dmi_mapping_new(4096, 4096, num, 1);
  (void)state;
  assert_non_null(mapping);
  before = dmi_mapping_bytes(mapping);
  assert_false(dmi_mapping_saved(mapping, 7));
  assert_true(dmi_mapping_save(mapping, 0, num, true));
  assert_true(dmi_mapping_save(mapping, 7, 8, true)); /* saved twice */
  assert_true(dmi_mapping_save(mapping, 7, 9, false));
  assert_true(dmi_mapping_saved(mapping, 6));
  assert_false(dmi_mapping_saved(mapping, 7));
  assert_false(dmi_mapping_saved(mapping, 8));
  assert_true(dmi_mapping_saved(mapping, 9));
  assert_true(dmi_mapping_saved(mapping, num - 1));
  assert_int_equal(dmi_mapping_bytes(mapping), before);
  dmi_mapping_unref(&core, mapping);
  dmi_epoch_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_mapping),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
