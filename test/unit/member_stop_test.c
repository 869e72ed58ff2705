/*
 * member_stop_test.c - DMI_exit (core/member_stop.c): two real members learn of it at the same
 * view, the first call counts, and nobody joins behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "member_pair.h"

static void know(int status, dmi_uid_t caller) {
  assert_int_equal(first.stopped, status);
  assert_int_equal(second.stopped, status);
  assert_int_equal(first.stopper, caller);
  assert_int_equal(second.stopper, caller);
}

/* By a member that is not the coordinator, while the other one polls. */
static void test_all_know(void **state) {
  (void)state;
  begin(false, true);
  while (first.result != -1 || first.m->coord->notices.num) { /* the notices of both */
    first.result = -1;
    dmi_member_poll(first.m, 4, &first.out);
    settle();
    if (first.result == -1) break;
  }
  assert_int_equal(first.m->coord->polls.num, 1);
  dmi_member_exit(second.m, 5, 3, &second.out);
  carry(&second, &first);
  assert_int_equal(second.result, -1); /* not all know it yet */
  settle();
  know(3, 2);
  assert_int_equal(second.result, DMI_OK);
  assert_int_equal(first.result, DMI_EEND); /* DMI_poll */
  dmi_member_peek(second.m, 6, &second.out);
  settle();
  assert_int_equal(second.result, DMI_EEND);
  dmi_member_poll(first.m, 7, &first.out);
  dmi_member_exit(second.m, 8, 4, &second.out);
  settle();
  assert_int_equal(first.result, DMI_EEND);
  assert_int_equal(second.result, DMI_EEND);
  know(3, 2);
  dmi_member_check(first.m);
  dmi_member_check(second.m);
  end();
}

/* Of two calls at the same time the one that the coordinator hears first. */
static void test_two_calls(void **state) {
  (void)state;
  begin(false, true);
  dmi_member_root_set(first.m, 4, "name", 4, 77, &first.out); /* a view is being made */
  dmi_member_exit(first.m, 5, 1, &first.out);
  dmi_member_exit(second.m, 6, 2, &second.out);
  settle();
  assert_int_equal(first.result, DMI_OK);
  assert_int_equal(second.result, DMI_EEND);
  know(1, 1);
  end();
}

/* Others hear that it was called only when all know it: the coordinator, which knows it first, and
 * the caller may be lost. */
static void test_others_wait(void **state) {
  const struct dmi_node_info info = {.cores = 1, .memory = 1000, .host = "h"};
  struct dmi_pack body = join_body(&(struct dmi_addr){.port = 7880}, &info, false);
  (void)state;
  begin(true, true);
  dmi_member_exit(first.m, 5, 1, &first.out);
  dmi_member_exit(second.m, 6, 2, &second.out);
  dmi_member_peek(second.m, 7, &second.out);
  dmi_member_notify(second.m, 8, 99, &second.out);
  carry(&second, &first); /* VIEW is still on its way */
  assert_true(first.m->stop != 0);
  for (uint32_t i = 0; i < first.out.num; i++) {
    const struct dmi_mact *act = &first.out.act[i];
    if (act->type == DMI_MACT_SEND && act->msg.type == DMI_CTL_RESULT)
      assert_int_equal(act->msg.member.error, DMI_OK);
  }
  assert_int_equal(first.m->coord->stops.num, 1);
  settle();
  know(1, 1);
  assert_int_equal(second.result, DMI_EEND); /* DMI_exit */
  assert_int_equal(first.m->coord->stops.num, 0);
  assert_true(give_member(first.m, DMI_NET_TEMP + 7, DMI_CTL_JOIN, 0, 0, &body, &first.out));
  assert_non_null(find_send(&first.out, DMI_NET_TEMP + 7, DMI_CTL_REFUSE));
  end();
}

/* Who asks to join in time learns of it as it joins; who asks later is refused. */
static void test_joiners(void **state) {
  const struct dmi_node_info info = {.cores = 1, .memory = 1000, .host = "h"};
  struct dmi_pack body = join_body(&(struct dmi_addr){.port = 7880}, &info, false);
  (void)state;
  begin(false, false);
  make(&second, false);
  dmi_member_start_join(second.m, &second.out);
  dmi_mout_clear(&second.out);
  dmi_member_exit(first.m, 5, 9, &first.out);
  dmi_member_connected(second.m, DMI_NET_TEMP, &second.out);
  carry(&second, &first);
  settle();
  /* the coordinator had nothing to wait for: its view was made before */
  assert_int_equal(first.stopped, 9);
  assert_int_equal(second.m->phase, DMI_PHASE_FINISHED);
  assert_true(give_member(first.m, DMI_NET_TEMP + 7, DMI_CTL_JOIN, 0, 0, &body, &first.out));
  assert_non_null(find_send(&first.out, DMI_NET_TEMP + 7, DMI_CTL_REFUSE));
  end();
}

/* A member that is in the view that brings it, as a joiner. */
static void test_joins_in_that_view(void **state) {
  (void)state;
  begin(false, false);
  dmi_member_root_set(first.m, 4, "name", 4, 77, &first.out); /* a view is being made */
  dmi_member_exit(first.m, 5, 9, &first.out);
  make(&second, false);
  dmi_member_start_join(second.m, &second.out);
  dmi_mout_clear(&second.out);
  dmi_member_connected(second.m, DMI_NET_TEMP, &second.out);
  carry(&second, &first);
  settle();
  know(9, 1);
  assert_int_equal(dmi_member_uid(second.m), 2);
  assert_int_equal(second.m->phase, DMI_PHASE_JOINED);
  end();
}

static struct dmi_pack stop_body(uint64_t stop, const char *name, size_t len) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, stop);
  dmi_pack_bytes(&body, name, len);
  return body;
}

#define STOP(uid, status) (UINT64_C(1) << 62 | (uint64_t)(uid) << 8 | (status))

/* A coordinator that was lost may have done it; the call comes again. */
static void test_again(void **state) {
  struct dmi_pack body = stop_body(STOP(2, 3), "\0exit", 5);
  struct dmi_mact *act;
  (void)state;
  begin(true, true);
  dmi_member_exit(second.m, 5, 3, &second.out);
  settle();
  assert_int_equal(second.result, DMI_OK);
  assert_true(give_member(first.m, 2, DMI_CTL_STOP, 5, DMI_F_AGAIN, &body, &first.out));
  act = find_send(&first.out, 2, DMI_CTL_RESULT);
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_OK);
  end();
}

/* What no correct member says. */
static void test_refused(void **state) {
  struct dmi_pack other = stop_body(STOP(1, 3), "\0exit", 5),
                  name = stop_body(STOP(2, 3), "exit", 4),
                  root = stop_body(STOP(2, 3), "\0exit", 5);
  (void)state;
  begin(false, true);
  assert_false(give_member(first.m, 2, DMI_CTL_STOP, 5, 0, &other, &first.out));
  assert_false(give_member(first.m, 2, DMI_CTL_STOP, 5, 0, &name, &first.out));
  assert_false(give_member(first.m, 2, DMI_CTL_ROOT_SET, 5, 0, &root, &first.out));
  assert_int_equal(first.m->coord->root_sets.num, 0);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_know),    cmocka_unit_test(test_two_calls),
      cmocka_unit_test(test_others_wait), cmocka_unit_test(test_joiners),
      cmocka_unit_test(test_again),       cmocka_unit_test(test_joins_in_that_view),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
