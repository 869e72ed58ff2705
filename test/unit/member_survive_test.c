/*
 * member_survive_test.c - DMI_survive (core/member_survive.c): two real members, of which one calls
 * it when the other has joined; from which view on they survive losses, and who may not ask for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "member_pair.h"

/* ---- Tests ------------------------------------------------------------------------------------
 */

static void survives_from(const struct one *one, uint64_t view) {
  struct dmi_settings settings = dmi_member_settings(one->m);
  assert_true(settings.survive && settings.trust_refused);
  assert_int_equal(settings.dead_after, 5);
  assert_int_equal(one->starts, 1);
  assert_int_equal(one->view, view);
  assert_int_equal(one->ballot, 1);
  assert_int_equal(one->voters, 1);
  assert_int_equal(one->voter, 1);
  assert_true(one->tie <= 1);                               /* 0: the coordinator, which is 1 */
  assert_int_equal(dmi_root_get(&one->m->roots, "", 0), 1); /* where DMI_main runs */
}

/* Both do from the same view on, in which only the first one votes. */
static void test_with_a_member(void **state) {
  uint64_t view;
  (void)state;
  begin(false, true);
  view = dmi_member_view(first.m);
  assert_int_equal(first.starts + second.starts, 0);
  dmi_member_survives(first.m, 5, &first.out);
  assert_int_equal(first.result, -1);
  settle();
  assert_int_equal(first.result, DMI_OK);
  survives_from(&first, view + 1);
  survives_from(&second, view + 1);
  assert_int_equal(first.settings, 1);
  assert_int_equal(second.settings, 2); /* ACCEPT's, and now */
  assert_int_equal(dmi_member_args(second.m).len, 5);
  assert_true(second.m->limit == first.m->limit && first.m->limit > DMI_FIRST_BASE);
  assert_true(first.m->limit < DMI_SYSTEM_BASE);
  assert_int_equal(second.takes, 0);
  dmi_member_check(first.m);
  dmi_member_check(second.m);
  /* the next view is the agreement's */
  dmi_member_root_set(first.m, 6, "name", 4, 77, &first.out);
  settle();
  assert_int_equal(first.changes, 1);
  assert_int_equal(second.takes, 1);
  end();
}

/* The call returns when all know, not before. */
static void test_waits_for_all(void **state) {
  (void)state;
  begin(false, true);
  dmi_member_survives(first.m, 5, &first.out);
  for (int i = 0; i < 3; i++)
    carry(&first, NULL); /* nothing comes to the other one */
  assert_int_equal(first.result, -1);
  assert_int_equal(first.starts, 1);
  end();
}

static void test_alone(void **state) {
  (void)state;
  begin(false, false);
  dmi_member_survives(first.m, 5, &first.out);
  settle();
  assert_int_equal(first.result, DMI_OK);
  survives_from(&first, 2);
  first.result = -1;
  dmi_member_survives(first.m, 6, &first.out); /* again */
  settle();
  assert_int_equal(first.result, DMI_OK);
  assert_int_equal(first.starts, 1);
  end();
}

static void test_survives_already(void **state) {
  (void)state;
  begin(true, false);
  dmi_member_survives(first.m, 5, &first.out);
  settle();
  assert_int_equal(first.result, DMI_OK);
  assert_int_equal(first.starts, 1);
  assert_int_equal(dmi_member_settings(first.m).dead_after, 60);
  end();
}

/* Another process is welcomed already; or asks itself. */
static void test_refused(void **state) {
  (void)state;
  begin(false, true);
  dmi_member_survives(second.m, 5, &second.out);
  settle();
  assert_int_equal(second.result, DMI_EBUSY);
  dmi_member_welcome(first.m, 6, (dmi_id_t){1}, &first.out);
  dmi_member_survives(first.m, 7, &first.out);
  settle();
  first.result = -1;
  dmi_member_survives(first.m, 8, &first.out);
  settle();
  assert_int_equal(first.result, DMI_EBUSY);
  assert_int_equal(first.starts + second.starts, 0);
  assert_false(dmi_member_settings(first.m).survive);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_with_a_member), cmocka_unit_test(test_waits_for_all),
      cmocka_unit_test(test_alone),         cmocka_unit_test(test_survives_already),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
