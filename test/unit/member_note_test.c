/*
 * member_note_test.c - DMI_notify (core/member_note.c): two real members; who keeps a note until it
 * is given, and that a new coordinator queues it once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "member_pair.h"

static void notify(struct one *one, uint64_t value) {
  one->result = -1;
  dmi_member_notify(one->m, 5, value, &one->out);
  settle();
  assert_int_equal(one->result, DMI_OK);
}

/* The next notice, at the first member. */
static const struct dmi_notice *poll(void) {
  first.result = -1;
  dmi_member_poll(first.m, 6, &first.out);
  settle();
  assert_int_equal(first.result, DMI_OK);
  return &first.notice;
}

static void two(bool survives) {
  begin(survives, true);
  assert_int_equal(poll()->state, DMI_OPEN);
  assert_int_equal(poll()->state, DMI_OPEN);
}

static void given(uint64_t value, dmi_uid_t uid) {
  const struct dmi_notice *note = poll();
  assert_int_equal(note->state, DMI_NOTE);
  assert_true(note->value == value);
  assert_int_equal(note->uid, uid);
  assert_string_equal(note->info.host, "h");
}

static void test_given(void **state) {
  (void)state;
  for (int survives = 0; survives < 2; survives++) {
    two(survives);
    notify(&second, 7);
    notify(&first, UINT64_MAX);
    notify(&second, 0);
    assert_int_equal(second.m->notes.num, survives ? 2 : 0);
    given(7, 2);
    given(UINT64_MAX, 1);
    assert_int_equal(second.m->notes.num, survives ? 1 : 0);
    given(0, 2);
    assert_int_equal(first.m->notes.num + second.m->notes.num, 0);
    first.result = -1;
    dmi_member_poll(first.m, 6, &first.out); /* no more */
    settle();
    assert_int_equal(first.result, -1);
    notify(&second, 9);
    assert_int_equal(first.result, DMI_OK);
    assert_true(first.notice.value == 9);
    dmi_member_check(first.m);
    end();
  }
}

/* What was given is forgotten when it cannot come again. */
static void test_forgets(void **state) {
  uint32_t before;
  (void)state;
  two(true);
  before = first.m->got.num;
  for (uint64_t i = 0; i < 200; i++) {
    notify(&second, i);
    notify(&second, i);
    given(i, 2);
    given(i, 2);
  }
  assert_true(first.m->got.num <= before + 4);
  end();
}

static bool again(uint64_t number, uint64_t floor, uint16_t flags) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u64(&body, 70 + number);
  dmi_pack_u64(&body, floor);
  return give_member(first.m, 2, DMI_CTL_NOTIFY, 0, flags, &body, &first.out);
}

/* To a coordinator that has heard of some from others. */
static void test_again(void **state) {
  struct dmi_got *got;
  (void)state;
  two(true);
  first.m->coord->got.num = 0;
  got = DMI_LIST_ADD(&first.m->coord->got);
  got->uid = 2;
  got->state = 16 + 1; /* number 1 */
  assert_true(again(1, 1, DMI_F_AGAIN));
  assert_non_null(find_send(&first.out, 2, DMI_CTL_NOTED));
  assert_int_equal(first.m->coord->notices.num, 0);
  assert_true(again(2, 1, DMI_F_AGAIN));
  assert_null(find_send(&first.out, 2, DMI_CTL_NOTED));
  assert_int_equal(first.m->coord->notices.num, 1);
  assert_true(again(2, 1, DMI_F_AGAIN)); /* queued already */
  assert_int_equal(first.m->coord->notices.num, 1);
  dmi_mout_clear(&first.out);
  given(72, 2);
  end();
}

/* The one that makes it tells those that it keeps, and the calls without an answer, once. */
static void test_tells_again(void **state) {
  uint32_t num = 0;
  (void)state;
  two(true);
  notify(&second, 1);
  notify(&second, 2);
  given(1, 2);
  dmi_member_notify(second.m, 8, 3, &second.out);
  dmi_mout_clear(&second.out); /* it does not arrive */
  second.m->out = &second.out;
  dmi_member_calls_again(second.m);
  second.m->out = NULL;
  for (uint32_t i = 0; i < second.out.num; i++) {
    struct dmi_mact *act = &second.out.act[i];
    if (act->type != DMI_MACT_SEND || act->msg.type != DMI_CTL_NOTIFY) continue;
    assert_int_equal(act->msg.flags, DMI_F_AGAIN);
    assert_int_equal(act->msg.member.op, num++ ? 8 : 0);
  }
  assert_int_equal(num, 2);
  settle();
  assert_int_equal(second.result, DMI_OK);
  given(2, 2); /* the first coordinator had it */
  given(3, 2);
  end();
}

static void test_refused(void **state) {
  (void)state;
  two(true);
  assert_false(again(1, 0, 0));
  assert_false(again(1, 2, 0));
  assert_int_equal(first.m->coord->notices.num, 0);
  dmi_member_exit(first.m, 9, 0, &first.out);
  settle();
  second.result = -1;
  dmi_member_notify(second.m, 5, 1, &second.out);
  settle();
  assert_int_equal(second.result, DMI_EEND);
  assert_int_equal(second.m->notes.num, 0);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_given),   cmocka_unit_test(test_forgets),
      cmocka_unit_test(test_again),   cmocka_unit_test(test_tells_again),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
