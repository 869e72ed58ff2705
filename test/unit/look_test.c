/*
 * look_test.c - whether a thread that waits looks before it sleeps (base/look.h), with made-up
 * times: how each look ends, and how many waits rest after it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/look.h"

#define US 1000

static const struct dmi_look_rule automatic = {.us = DMI_LOOK_AUTO};
static const struct dmi_look_rule off = {.us = 0};
static const struct dmi_look_rule fixed = {.us = 50};

/* Goes on looking, with a yield of `away` ns each time, until it ends; returns how long. */
static int64_t run(struct dmi_look_one *one, int64_t away) {
  int64_t now = one->begin;
  do {
    dmi_look_yields(one, now);
    now += away;
  } while (dmi_look_goes_on(one, now));
  return now - one->begin;
}

static enum dmi_look_is silent(const struct dmi_look_rule *rule, int64_t away, int64_t ns) {
  struct dmi_look_one one;
  dmi_look_begin(&one, rule, 7);
  assert_int_equal(one.is, DMI_LOOK_ON);
  assert_int_equal(run(&one, away), ns);
  return one.is;
}

/* Nothing comes. */
static void test_vain(void **state) {
  (void)state;
  assert_int_equal(silent(&automatic, US, 100 * US), DMI_LOOK_VAIN);
  assert_int_equal(silent(&fixed, US, 50 * US), DMI_LOOK_VAIN);
}

/* A yield takes long. */
static void test_crowded(void **state) {
  (void)state;
  assert_int_equal(silent(&automatic, 19 * US, 114 * US), DMI_LOOK_VAIN);
  assert_int_equal(silent(&automatic, 20 * US, 20 * US), DMI_LOOK_BUSY);
  assert_int_equal(silent(&automatic, 499 * US, 499 * US), DMI_LOOK_BUSY);
  assert_int_equal(silent(&automatic, 500 * US, 500 * US), DMI_LOOK_CROWDED);
  assert_int_equal(silent(&fixed, 3000 * US, 3000 * US), DMI_LOOK_CROWDED);
}

/* The time in which news is handled is no yield. */
static void test_handling(void **state) {
  struct dmi_look_one one;
  (void)state;
  dmi_look_begin(&one, &automatic, 0);
  dmi_look_news(&one, 700 * US);
  dmi_look_yields(&one, 700 * US);
  assert_true(dmi_look_goes_on(&one, 701 * US));
}

/* Something comes once; a while after that the look ends. */
static void test_mixed(void **state) {
  struct dmi_look_one one;
  (void)state;
  dmi_look_begin(&one, &automatic, 0);
  dmi_look_news(&one, 60 * US);
  assert_int_equal(run(&one, US), 160 * US);
  assert_int_equal(one.is, DMI_LOOK_MIXED);
  dmi_look_begin(&one, &automatic, 0);
  dmi_look_news(&one, 60 * US);
  dmi_look_yields(&one, 60 * US);
  assert_false(dmi_look_goes_on(&one, 90 * US));
  assert_int_equal(one.is, DMI_LOOK_BUSY);
}

/* Something comes all the time: it is served for a millisecond. */
static void test_endless(void **state) {
  struct dmi_look_one one;
  int64_t now = 0;
  (void)state;
  dmi_look_begin(&one, &automatic, 0);
  do {
    dmi_look_news(&one, now);
    dmi_look_yields(&one, now);
    now += 10 * US;
  } while (dmi_look_goes_on(&one, now));
  assert_int_equal(now, 1000 * US);
  assert_int_equal(one.is, DMI_LOOK_PAID);
}

/* More of something long is on its way. */
static void test_follows(void **state) {
  struct dmi_look_one one;
  struct dmi_look_past past = {.rests = 64, .step = 64};
  (void)state;
  dmi_look_begin(&one, &automatic, 0);
  dmi_look_follows(&one, true);
  for (int64_t now = 0; now < 100 * 1000 * US; now += 99 * US) {
    dmi_look_news(&one, now);
    dmi_look_yields(&one, now);
    assert_true(dmi_look_goes_on(&one, now + 99 * US)); /* others run, and it takes long */
  }
  assert_int_equal(run(&one, 40 * US) % (40 * US), 0);
  assert_int_equal(one.is, DMI_LOOK_BUSY); /* it is silent */
  dmi_look_news(&one, 200 * 1000 * US);
  dmi_look_yields(&one, 200 * 1000 * US);
  assert_false(dmi_look_goes_on(&one, 200 * 1000 * US + 500 * US)); /* others compute */
  assert_int_equal(one.is, DMI_LOOK_CROWDED);
  assert_true(dmi_look_may_follow(&past, &automatic)); /* whether others rest or not */
  assert_true(dmi_look_may_follow(&past, &fixed));
  assert_false(dmi_look_may_follow(&past, &off));
  dmi_look_end(&past, &automatic, DMI_LOOK_CROWDED);
  assert_false(dmi_look_may_follow(&past, &automatic));
}

/* How many waits rest after a look that went like this. */
static uint32_t rests(struct dmi_look_past *past, enum dmi_look_is is) {
  uint32_t num = 0;
  dmi_look_end(past, &automatic, is);
  while (dmi_look_rests(past, &automatic))
    num++;
  return num;
}

static void test_rests(void **state) {
  static const uint32_t vain[] = {1, 2, 4, 8, 16, 32, 64, 64};
  static const uint32_t crowded[] = {128, 256, 512, 1024, 1024};
  struct dmi_look_past past = {0};
  (void)state;
  assert_false(dmi_look_rests(&past, &automatic));
  assert_int_equal(rests(&past, DMI_LOOK_PAID), 0);
  for (uint32_t i = 0; i < sizeof(vain) / sizeof(vain[0]); i++)
    assert_int_equal(rests(&past, DMI_LOOK_VAIN), vain[i]);
  assert_int_equal(rests(&past, DMI_LOOK_MIXED), 64);
  assert_int_equal(rests(&past, DMI_LOOK_BUSY), 64);
  for (uint32_t step = 32; step > 0; step /= 2)
    assert_int_equal(rests(&past, DMI_LOOK_PAID), step);
  assert_int_equal(rests(&past, DMI_LOOK_PAID), 0);
  for (uint32_t i = 0; i < sizeof(crowded) / sizeof(crowded[0]); i++)
    assert_int_equal(rests(&past, DMI_LOOK_CROWDED), crowded[i]);
  assert_int_equal(rests(&past, DMI_LOOK_VAIN), 1024);
  assert_int_equal(rests(&past, DMI_LOOK_BUSY), 1024);
  assert_int_equal(rests(&past, DMI_LOOK_PAID), 512);
  assert_int_equal(rests(&past, DMI_LOOK_UNMISSED), 0);
  assert_int_equal(rests(&past, DMI_LOOK_CROWDED), 128);
}

/* Memory is looked at between yields, but not where others run, and not without a yield for long.
 */
static void test_spins(void **state) {
  struct dmi_look_past past = {0};
  struct dmi_look_one one;
  (void)state;
  dmi_look_begin(&one, &automatic, 100 * US);
  assert_true(dmi_look_spins(&one, &past, 100 * US));
  assert_true(dmi_look_spins(&one, &past, 119 * US));
  assert_false(dmi_look_spins(&one, &past, 120 * US));
  dmi_look_yields(&one, 120 * US);
  assert_true(dmi_look_goes_on(&one, 121 * US));
  assert_true(dmi_look_spins(&one, &past, 121 * US)); /* nobody else ran */
  assert_false(dmi_look_spins(&one, &past, 140 * US));
  dmi_look_yields(&one, 140 * US);
  assert_true(dmi_look_goes_on(&one, 142 * US));
  assert_false(dmi_look_spins(&one, &past, 142 * US)); /* somebody did */
  dmi_look_begin(&one, &automatic, 200 * US);
  assert_false(dmi_look_spins(&one, &past, 200 * US)); /* and may run in the next wait, too */
  dmi_look_yields(&one, 200 * US);
  assert_true(dmi_look_goes_on(&one, 201 * US));
  assert_true(dmi_look_spins(&one, &past, 201 * US));
}

/* Who asked a process that needs this processor yields first; not who waits for what others do, as
 * that may have come before. */
static void test_early(void **state) {
  struct dmi_look_past answers = {.answers = true}, others = {.shared = true};
  (void)state;
  assert_false(dmi_look_is_early(&answers)); /* nobody is known to run here */
  assert_false(dmi_look_is_early(&others));
  answers.shared = true;
  assert_true(dmi_look_is_early(&answers));
}

/* What a user has set does not depend on how it went. */
static void test_set(void **state) {
  struct dmi_look_past past = {.rests = 5, .step = 5};
  (void)state;
  assert_true(dmi_look_rests(&past, &off));
  assert_false(dmi_look_rests(&past, &fixed));
  dmi_look_end(&past, &fixed, DMI_LOOK_CROWDED);
  assert_false(dmi_look_rests(&past, &fixed));
  assert_true(dmi_look_rests(&past, &off));
  assert_int_equal(past.rests, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vain),  cmocka_unit_test(test_crowded), cmocka_unit_test(test_handling),
      cmocka_unit_test(test_mixed), cmocka_unit_test(test_endless), cmocka_unit_test(test_rests),
      cmocka_unit_test(test_set),   cmocka_unit_test(test_follows), cmocka_unit_test(test_spins),
      cmocka_unit_test(test_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
