/*
 * capacity_test.c - the capacity of members: single scenarios, and messages that a correct peer
 * does not send.
 */
#include "core/capacity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool give(struct dmi_capacity *capacity, uint32_t from, enum dmi_msg_type type,
                 enum dmi_capacity_kind kind, uint64_t number, uint64_t bytes, uint64_t unit) {
  struct dmi_msg msg = {.type = (uint8_t)type};
  uint64_t freed;
  if (type == DMI_SVC_CAPACITY_RETURN) {
    msg.capacity_return.bytes = bytes;
  } else { /* CAPACITY_REPORT begins as CAPACITY_ASK does, and has no unit */
    msg.capacity_ask = (struct dmi_msg_capacity_ask){number, kind, bytes, unit};
  }
  return dmi_capacity_message(capacity, from, &msg, &freed);
}

static void assert_sent(const struct dmi_capacity_out *out, uint64_t at, uint32_t to,
                        enum dmi_msg_type type, enum dmi_capacity_kind kind, uint64_t bytes) {
  const struct dmi_msg *msg = &out->send[at].msg;
  assert_true(at < out->num);
  assert_int_equal(out->send[at].to, to);
  assert_int_equal(msg->type, type);
  assert_int_equal(msg->capacity_ask.kind, kind);
  assert_int_equal(msg->capacity_ask.bytes, bytes);
}

static const uint32_t others[] = {2, 3, 4};

static void test_need(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_NONE);
  dmi_capacity_view(capacity, others, 3);
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 3);
  assert_sent(&out, 0, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 50);
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 3); /* not again before the answer */
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 1, 25, 0));
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 2, 5, 0));
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_SOME);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 2);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 2);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD),
                   0); /* 5 are left */
  assert_true(give(capacity, 4, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 3, 0, 0));
  /* 3 and 4 have none for 10; 2 may have more now. */
  assert_int_equal(dmi_capacity_need(capacity, 30, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 4);
  assert_sent(&out, 3, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 30);
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 4, 0, 0));
  assert_int_equal(dmi_capacity_need(capacity, 30, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_NONE);
  assert_int_equal(out.num, 4);
  /* For a smaller page, or an urgent one, it asks. */
  assert_int_equal(dmi_capacity_need(capacity, 4, 4, DMI_CAPACITY_AHEAD, &out), DMI_CAPACITY_SOME);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 7);
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 6, 12, 0));
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_SOME);
  /* ... but memory for urgent pages is not for others. */
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 0);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_URGENT), 3);
  /* It reports by itself that it has memory again. */
  assert_true(give(capacity, 4, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 7, 0, 0));
  assert_true(give(capacity, 4, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 0, 10, 0));
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 4);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

static void test_asked(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3);
  assert_false(dmi_capacity_asker(capacity, &asker));
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 9, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_int_equal(asker.uid, 3);
  assert_int_equal(asker.bytes, 100);
  dmi_capacity_answer(capacity, &asker, 9, &out);
  assert_sent(&out, 0, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 9);
  assert_int_equal(out.send[0].msg.capacity_ask.number, 9);
  assert_false(dmi_capacity_asker(capacity, &asker));
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_AHEAD), 10);
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_URGENT), 0);
  dmi_capacity_freed(capacity, 9, 90, &out);
  assert_int_equal(out.num, 1);
  dmi_capacity_freed(capacity, 11, 90, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 11);
  assert_int_equal(out.send[1].msg.capacity_ask.number, 0);
  dmi_capacity_freed(capacity, 11, 90, &out); /* once */
  assert_int_equal(out.num, 2);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* A member that promised less than it was asked for reports when it has enough for one more page.
 */
static void test_promise_owed(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3);
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 9, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_answer(capacity, &asker, 40, &out));
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_RETURN, 0, 0, 40, 0));
  dmi_capacity_freed(capacity, 49, 49, &out); /* as much as it had */
  assert_int_equal(out.num, 1);
  dmi_capacity_freed(capacity, 0, 50, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 50);
  assert_int_equal(out.send[1].msg.capacity_ask.number, 0);
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 10, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_answer(capacity, &asker, 100, &out)); /* all of it */
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_URGENT), 0);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* An urgent question waits for the end of transient use; others do not, and none waits for ever.
 */
static void test_hold(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_transient none = {0, 0, false}, some = {30, 1000, false}, copy = {0, 0, true};
  struct dmi_capacity_asker asker, other;
  struct dmi_capacity_out out;
  int looks = 0;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3);
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_URGENT, 1, 100, 10));
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_int_equal(asker.uid, 2);
  assert_false(dmi_capacity_defer(capacity, &asker, 10, &some)); /* enough for a page */
  assert_true(dmi_capacity_defer(capacity, &asker, 9, &some));
  assert_true(dmi_capacity_asker(capacity, &other)); /* the next one need not wait */
  assert_int_equal(other.uid, 3);
  assert_false(dmi_capacity_defer(capacity, &other, 9, &some));
  assert_true(dmi_capacity_answer(capacity, &other, 9, &out));
  assert_false(dmi_capacity_asker(capacity, &other));
  dmi_capacity_again(capacity);
  assert_true(dmi_capacity_asker(capacity, &asker));
  some.ended = 1029;
  assert_true(dmi_capacity_defer(capacity, &asker, 9, &some));
  some.ended = 1030; /* that use has ended; there is always new one */
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &some));
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &none));
  assert_true(dmi_capacity_answer(capacity, &asker, 9, &out));
  /* For a leave all that was asked for counts. */
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 2, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_defer(capacity, &asker, 99, &some));
  assert_false(dmi_capacity_defer(capacity, &asker, 100, &some));
  assert_true(dmi_capacity_answer(capacity, &asker, 100, &out));
  /* Copies that are held. */
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_URGENT, 3, 100, 10));
  assert_true(dmi_capacity_asker(capacity, &asker));
  while (looks < 1000 && dmi_capacity_defer(capacity, &asker, 9, &copy))
    looks++;
  assert_in_range(looks, 1, 999);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* A process that has a file asks for immediate answers, and gets them. */
static void test_now(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_transient some = {30, 1000, true};
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  uint64_t freed;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 1);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_false(out.send[0].msg.flags & DMI_F_URGENT);
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 1, 10, 0));
  dmi_capacity_refused(capacity, 2);
  dmi_capacity_spill(capacity);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_true(out.send[1].msg.flags & DMI_F_URGENT);
  assert_true(dmi_capacity_message(capacity, 2, &out.send[1].msg, &freed));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &some));
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

static void test_rubbish(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_true(give(capacity, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10, 10));
  out.num = 0;
  assert_false(give(capacity, 2, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_URGENT, 2, 10,
                    10)); /* before the answer */
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 0, 10, 10));
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 9, 10));
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10, 0));
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_ASK, (enum dmi_capacity_kind)3, 1, 10, 10));
  assert_false(give(capacity, 3, DMI_MSG_GET, DMI_CAPACITY_AHEAD, 1, 10, 10));
  assert_false(
      give(capacity, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 1, 10, 0)); /* 2's question */
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 2, 10, 0));
  /* Answers to a leaver are not for here. */
  assert_false(give(capacity, 3, DMI_SVC_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 0, 10, 0));
  assert_true(give(capacity, 9, DMI_SVC_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10,
                   10)); /* no member: ignored */
  assert_true(give(capacity, 3, DMI_SVC_CAPACITY_RETURN, DMI_CAPACITY_AHEAD, 0, 10,
                   0)); /* nothing promised */
  assert_int_equal(out.num, 0);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_need),         cmocka_unit_test(test_asked),
      cmocka_unit_test(test_promise_owed), cmocka_unit_test(test_hold),
      cmocka_unit_test(test_now),          cmocka_unit_test(test_rubbish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
