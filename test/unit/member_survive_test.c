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
#include "member_one.h"

struct one {
  struct dmi_member *m;
  struct dmi_mout out;
  uint32_t other;         /* by which the other one is known here */
  uint32_t starts, takes; /* of the agreement */
  uint64_t changes;
  uint64_t view, ballot; /* of the start */
  uint32_t voters;
  dmi_uid_t voter, tie;
  uint32_t settings; /* actions SETTINGS */
  int result;        /* of the last call; -1: none */
};

static struct one first, second;

/* ---- The agreement --------------------------------------------------------------------------- */

static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct one *one = arg;
  one->starts++;
  one->view = view->number;
  one->ballot = ballot;
  one->tie = view->tie;
  one->voters = 0;
  for (uint32_t i = 0; i < view->num; i++) {
    one->voters += view->members[i].voter;
    if (view->members[i].voter) one->voter = view->members[i].uid;
  }
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)view, (void)ballot;
  ((struct one *)arg)->takes++;
  return true;
}

static uint64_t on_may_change(void *arg) {
  (void)arg;
  return 1;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  (void)view;
  ((struct one *)arg)->changes++;
}

static dmi_uid_t on_tie(void *arg) {
  (void)arg;
  return 1;
}

static void on_all_taken(void *arg, uint64_t number) {
  (void)arg, (void)number;
}

static const struct dmi_member_survive survive = {.start = on_start,
                                                  .take = on_take,
                                                  .may_change = on_may_change,
                                                  .change = on_change,
                                                  .tie = on_tie,
                                                  .all_taken = on_all_taken};

/* ---- Two members ----------------------------------------------------------------------------- */

static void make(struct one *one, bool survives) {
  const struct dmi_node_info info = {.cores = 1, .memory = 1000, .host = "h"};
  const struct dmi_member_env env = {
      .connected = connected,
      .addrs = addrs,
      .survive = &survive,
      .survive_arg = one,
      .main_lost = DMI_MAIN_ENDS,
      .settings = {.survive = survives, .dead_after = 60},
      .surviving = {.survive = true, .dead_after = 5, .trust_refused = true}};
  memset(one, 0, sizeof(*one));
  one->result = -1;
  one->other = DMI_NET_TEMP;
  one->m = dmi_member_new(&env, &info, &(struct dmi_addr){.port = 7880});
}

static void carry(struct one *one, struct one *to) {
  struct dmi_mout out = one->out;
  dmi_mout_init(&one->out);
  for (uint32_t i = 0; i < out.num; i++) {
    struct dmi_mact *act = &out.act[i];
    if (act->type == DMI_MACT_RENAME) one->other = act->uid;
    if (act->type == DMI_MACT_SETTINGS) one->settings++;
    if (act->type == DMI_MACT_RESULT) one->result = act->error;
    if (act->type == DMI_MACT_SEND && to)
      assert_true(dmi_member_message(to->m, to->other, &act->msg, &to->out));
    if (act->type == DMI_MACT_VIEW) dmi_member_viewed(one->m, &one->out);
  }
  dmi_mout_free(&out);
}

/* Until nothing is left to do. */
static void settle(void) {
  while (first.out.num || second.out.num) {
    carry(&first, second.m ? &second : NULL);
    if (second.m) carry(&second, &first);
  }
}

/* The first process has begun, and perhaps the second one joined. */
static void begin(bool survives, bool joins) {
  memset(&second, 0, sizeof second);
  make(&first, survives);
  dmi_member_set_args(first.m, "prog", 5);
  dmi_member_start_first(first.m, program_id, &first.out);
  settle();
  if (!joins) return;
  make(&second, false);
  dmi_member_start_join(second.m, &second.out);
  dmi_mout_clear(&second.out);
  dmi_member_connected(second.m, DMI_NET_TEMP, &second.out);
  settle();
  assert_int_equal(dmi_member_uid(second.m), 2);
}

static void end(void) {
  dmi_member_free(first.m);
  dmi_member_free(second.m);
  dmi_mout_free(&first.out);
  dmi_mout_free(&second.out);
}

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
