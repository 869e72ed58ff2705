/*
 * trace_hold_test.c - what members tell the writer of a trace is bounded: a faulty one is refused,
 * and the others go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/trace_hold.h"

/* How many messages of this member are taken, of so many; the last answer in *held. */
static uint32_t tell(struct dmi_trace_holds *holds, uint32_t member, uint32_t num,
                     enum dmi_trace_held *held) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < num; i++) {
    *held = dmi_trace_hold(holds, member);
    taken += *held == DMI_TRACE_HELD;
  }
  return taken;
}

static void release(struct dmi_trace_holds *holds, uint32_t member, uint32_t num) {
  for (uint32_t i = 0; i < num; i++)
    dmi_trace_release(holds, member);
}

static void test_as_asked(void **state) {
  struct dmi_trace_holds holds = {0};
  enum dmi_trace_held held;
  (void)state;
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(tell(&holds, 7, 4, &held), 4);
    release(&holds, 7, 4);
  }
  assert_null(holds.members); /* nothing stays of it */
}

static void test_flood(void **state) {
  const uint32_t most = DMI_TRACE_HOLD_OWN + DMI_TRACE_HOLD_SHARED;
  struct dmi_trace_holds holds = {0};
  enum dmi_trace_held held;
  (void)state;
  assert_int_equal(tell(&holds, 7, most, &held), most);
  assert_int_equal(dmi_trace_hold(&holds, 7), DMI_TRACE_TOO_MUCH);
  assert_int_equal(tell(&holds, 7, 10, &held), 0);
  assert_int_equal(held, DMI_TRACE_REFUSED); /* it is told once */
  /* The others have their own part, and no more. */
  assert_int_equal(tell(&holds, 8, DMI_TRACE_HOLD_OWN, &held), DMI_TRACE_HOLD_OWN);
  assert_int_equal(dmi_trace_hold(&holds, 8), DMI_TRACE_TOO_MUCH);
  /* What was refused stays so; what it had is free for others. */
  release(&holds, 7, most);
  assert_int_equal(holds.shared, 0);
  assert_int_equal(dmi_trace_hold(&holds, 7), DMI_TRACE_REFUSED);
  assert_int_equal(tell(&holds, 9, most, &held), most);
  release(&holds, 9, most);
  release(&holds, 8, DMI_TRACE_HOLD_OWN);
  assert_int_equal(holds.shared, 0);
  dmi_trace_holds_free(&holds);
}

/* A process that ends sends all it has at once. */
static void test_burst(void **state) {
  struct dmi_trace_holds holds = {0};
  enum dmi_trace_held held;
  (void)state;
  for (uint32_t member = 1; member <= 4; member++)
    assert_int_equal(tell(&holds, member, DMI_TRACE_HOLD_SHARED / 4, &held),
                     DMI_TRACE_HOLD_SHARED / 4);
  for (uint32_t member = 1; member <= 4; member++)
    release(&holds, member, DMI_TRACE_HOLD_SHARED / 4);
  assert_int_equal(holds.shared, 0);
  assert_null(holds.members);
}

static void test_texts(void **state) {
  uint64_t own = 0, other = 0, shared = 0, num = 0;
  (void)state;
  while (num < 1000000 && dmi_trace_text_fits(&own, &shared, 100))
    num++;
  assert_in_range(num, 100000, 110000); /* far more than a program has */
  assert_true(own + shared <= DMI_TRACE_TEXTS_OWN + DMI_TRACE_TEXTS_SHARED);
  assert_true(dmi_trace_text_fits(&other, &shared, 100));
  while (dmi_trace_text_fits(&own, &shared, 0)) {
  }
  assert_true(own + shared <= DMI_TRACE_TEXTS_OWN + DMI_TRACE_TEXTS_SHARED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_asked),
      cmocka_unit_test(test_flood),
      cmocka_unit_test(test_burst),
      cmocka_unit_test(test_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
