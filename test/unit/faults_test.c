/*
 * faults_test.c - which pages are asked for most often, how often a second, and how long waits are:
 * what those see who look at the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "access/faults.h"
#include "access/mapping.h"
#include "base/doing.h"
#include "base/hot.h"

#define SECOND INT64_C(1000000000)

/* ---- Counters -------------------------------------------------------------------------------- */

static const struct dmi_hot *find(const struct dmi_hot *hot, uint32_t num, uint64_t which) {
  for (uint32_t i = 0; i < num; i++) {
    if (hot[i].count && hot[i].which == which) return &hot[i];
  }
  return NULL;
}

/* Whatever makes more than 1/num of all events has a counter, which is right but for `more`. */
static void frequent_ones_are_kept(void **state) {
  struct dmi_hot hot[8] = {{0}};
  const struct dmi_hot *at;
  uint64_t sum = 0;
  (void)state;
  for (uint64_t i = 0; i < 8000; i++) {
    dmi_hot_add(hot, 8, 1, i % 4 == 0 ? 7 : 1000 + i,
                1);                      /* a quarter is one, the rest is all different */
    dmi_hot_add(hot, 8, 2, 1000 + i, 1); /* the same number of another mapping */
  }
  at = find(hot, 8, 7);
  assert_non_null(at);
  assert_int_equal(at->of, 1);
  assert_in_range(at->count, 2000, 2000 + at->more);
  for (uint32_t i = 0; i < 8; i++)
    sum += hot[i].count;
  assert_int_equal(sum, 16000);
  dmi_hot_sort(hot, 8);
  for (uint32_t i = 1; i < 8; i++)
    assert_true(hot[i - 1].count >= hot[i].count);
}

/* Of few things each count is exact. */
static void few_are_exact(void **state) {
  struct dmi_hot hot[4] = {{0}};
  (void)state;
  for (uint64_t i = 0; i < 60; i++)
    dmi_hot_add(hot, 4, 5, i % 6 / 2, 1);
  for (uint64_t which = 0; which < 3; which++) {
    const struct dmi_hot *at = find(hot, 4, which);
    assert_non_null(at);
    assert_int_equal(at->count, 20);
    assert_int_equal(at->more, 0);
  }
  dmi_hot_halve(hot, 4);
  assert_int_equal(find(hot, 4, 0)->count, 10);
}

/* What is hot now displaces what was hot before. */
static void what_was_before_fades(void **state) {
  struct dmi_mapping mapping = {.map.base = 4096};
  struct dmi_faults faults = {0};
  struct dmi_faults_seen seen;
  struct dmi_page page = {.map = &mapping.map};
  (void)state;
  for (page.index = 3; page.index < 5; page.index++) {
    for (uint32_t i = 0; i < (page.index == 3 ? 100000 : 10000); i++)
      dmi_faults_note(&faults, (struct dmi_page *[]){&page}, &(struct dmi_faults_bytes){0}, 1);
  }
  dmi_faults_look(&faults, &seen);
  assert_int_equal(seen.num, 110000);
  assert_int_equal(atomic_load(&mapping.faults), 110000);
  assert_int_equal(seen.hot[0].which, 4);
  assert_int_equal(seen.hot[0].of, 4096);
  assert_true(seen.hot[0].count > seen.lately / 2);
  assert_true(seen.lately <= 4096);
}

/* A page asked for because of these bytes. */
static void touch(struct dmi_faults *faults, struct dmi_page *page, bool write, uint64_t from,
                  uint64_t to) {
  dmi_faults_note(faults, &page, &(struct dmi_faults_bytes){from, to, write}, 1);
}

static void what_is_touched_is_known_of_each_page(void **state) {
  struct dmi_mapping mapping = {.map.base = 4096};
  struct dmi_faults faults = {0};
  struct dmi_faults_seen seen;
  struct dmi_page page = {.map = &mapping.map, .index = 3}, other = {.map = &mapping.map};
  struct dmi_page third = {.map = &mapping.map, .index = 3 + DMI_FAULTS_FRESH}; /* same place */
  (void)state;
  touch(&faults, &page, true, 16, 24);
  touch(&faults, &third, false, 0, 4096);
  touch(&faults, &page, true, 8, 12);
  touch(&faults, &page, true, 0, 0); /* nothing */
  touch(&faults, &page, false, 100, 101);
  for (int i = 0; i < 9; i++)
    touch(&faults, &other, true, 40, 48);
  dmi_faults_look(&faults, &seen);
  assert_int_equal(seen.hot[0].which, 0);
  assert_int_equal(seen.touched[0].wrote.from, 40);
  assert_int_equal(seen.touched[0].wrote.to, 48);
  assert_int_equal(seen.touched[0].read.to, 0);
  assert_int_equal(seen.hot[1].which, 3);
  assert_int_equal(seen.touched[1].wrote.from, 8);
  assert_int_equal(seen.touched[1].wrote.to, 24);
  assert_int_equal(seen.touched[1].read.from, 100);
  assert_int_equal(seen.touched[1].read.to, 101);
  /* What was touched long ago is forgotten; not at once. */
  for (int i = 0; i < 4100; i++)
    touch(&faults, &page, true, 20, 24);
  dmi_faults_look(&faults, &seen);
  assert_int_equal(seen.touched[0].wrote.from, 8);
  for (int i = 0; i < 4100; i++)
    touch(&faults, &page, true, 20, 24);
  dmi_faults_look(&faults, &seen);
  assert_int_equal(seen.touched[0].wrote.from, 20);
  assert_int_equal(seen.touched[0].wrote.to, 24);
  assert_int_equal(seen.touched[0].read.to, 0);
  /* Nor does a page that takes a counter take over what the one before has touched. */
  for (page.index = 100; page.index < 1100; page.index++)
    touch(&faults, &page, true, page.index, page.index + 1);
  dmi_faults_look(&faults, &seen);
  for (uint32_t i = 0; i < DMI_FAULTS_HOT; i++) {
    if (seen.hot[i].which < 100 || seen.hot[i].which == third.index) continue;
    assert_int_equal(seen.touched[i].wrote.from, seen.hot[i].which);
    assert_int_equal(seen.touched[i].wrote.to, seen.hot[i].which + 1);
  }
}

/* ---- A second -------------------------------------------------------------------------------- */

static void the_rate_is_of_the_last_seconds(void **state) {
  struct dmi_faults faults = {.begin = SECOND};
  (void)state;
  assert_true(dmi_faults_rate(&(struct dmi_faults){0}, 5 * SECOND) == 0);
  for (int64_t at = 1; at < 100; at++)
    faults.second[at % (DMI_FAULTS_SECONDS + 1)] = (struct dmi_faults_second){at, 50};
  /* At the end of second 99: five and one of 50 each, over six seconds. */
  assert_in_range((int64_t)dmi_faults_rate(&faults, 100 * SECOND - 1), 49, 51);
  /* Nothing happens any more. */
  assert_in_range((int64_t)dmi_faults_rate(&faults, 102 * SECOND), 29, 31);
  assert_true(dmi_faults_rate(&faults, 110 * SECOND) == 0);
}

static void a_few_faults_are_no_flood(void **state) {
  struct dmi_faults faults = {.begin = 50 * SECOND, .second = {{50, 3}}};
  (void)state;
  assert_int_equal((int64_t)(dmi_faults_rate(&faults, 50 * SECOND + 10) * 10), 30);
  assert_int_equal((int64_t)(dmi_faults_rate(&faults, 52 * SECOND) * 10), 15);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static void lengths_have_limits(void **state) {
  (void)state;
  assert_int_equal(dmi_doing_length(-1), 0);
  assert_int_equal(dmi_doing_length(0), 0);
  for (uint32_t i = 0; i + 1 < DMI_DOING_LENGTHS; i++) {
    assert_int_equal(dmi_doing_length((INT64_C(1024) << 2 * i) - 1), i);
    assert_int_equal(dmi_doing_length(INT64_C(1024) << 2 * i), i + 1);
  }
  assert_int_equal(dmi_doing_length(INT64_MAX), DMI_DOING_LENGTHS - 1);
}

static void waits_are_counted_once(void **state) {
  static struct dmi_doings all;
  struct dmi_doing_times times[DMI_DOING_KINDS];
  uint64_t num = 0;
  (void)state;
  dmi_doing_enter(&all, DMI_DOING_MAIN, 0);
  for (int turn = 0; turn < 2; turn++) { /* also when the thread is no more */
    bool outer = dmi_doing_waits(&all, DMI_DOING_TASKS, 0, 0, 0);
    bool inner = dmi_doing_waits(&all, DMI_DOING_POLL, 0, 0, 0);
    assert_true(outer && !inner);
    dmi_doing_waited(inner);
    dmi_doing_waited(outer);
    if (turn) dmi_doing_leave();
  }
  dmi_doing_look_times(&all, times);
  for (uint32_t i = 0; i < DMI_DOING_LENGTHS; i++)
    num += times[DMI_DOING_TASKS].num[i];
  assert_int_equal(num, 2);
  assert_true(times[DMI_DOING_TASKS].ns > 0);
  assert_int_equal(times[DMI_DOING_POLL].ns, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frequent_ones_are_kept),
      cmocka_unit_test(few_are_exact),
      cmocka_unit_test(what_was_before_fades),
      cmocka_unit_test(what_is_touched_is_known_of_each_page),
      cmocka_unit_test(the_rate_is_of_the_last_seconds),
      cmocka_unit_test(a_few_faults_are_no_flood),
      cmocka_unit_test(lengths_have_limits),
      cmocka_unit_test(waits_are_counted_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
