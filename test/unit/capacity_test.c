/*
 * capacity_test.c - the capacity of members: single scenarios, and messages that a correct peer
 * does not send.
 */
#include "core/capacity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool give(struct dmi_capacity *capacity, uint32_t from, enum dmi_capacity_type type,
                 enum dmi_capacity_kind kind, uint64_t number, uint64_t bytes, uint64_t unit,
                 struct dmi_capacity_out *out) {
  struct dmi_capacity_msg msg = {(uint8_t)type, (uint8_t)kind, number, bytes, unit, false};
  uint64_t freed;
  return dmi_capacity_message(capacity, from, &msg, &freed, out);
}

static void assert_sent(const struct dmi_capacity_out *out, uint64_t at, uint32_t to,
                        enum dmi_capacity_type type, enum dmi_capacity_kind kind, uint64_t bytes) {
  assert_true(at < out->num);
  assert_int_equal(out->send[at].to, to);
  assert_int_equal(out->send[at].msg.type, type);
  assert_int_equal(out->send[at].msg.kind, kind);
  assert_int_equal(out->send[at].msg.bytes, bytes);
}

static const uint32_t others[] = {2, 3, 4};

static void test_need(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_NONE);
  dmi_capacity_view(capacity, others, 3, &out);
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 3);
  assert_sent(&out, 0, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 50);
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 3); /* not again before the answer */
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 1, 25, 0, &out));
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 2, 5, 0, &out));
  assert_int_equal(dmi_capacity_need(capacity, 50, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_SOME);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 2);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 2);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD),
                   0); /* 5 are left */
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 3, 0, 0, &out));
  /* 3 and 4 have none for 10; 2 may have more now. */
  assert_int_equal(dmi_capacity_need(capacity, 30, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 4);
  assert_sent(&out, 3, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 30);
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 4, 0, 0, &out));
  assert_int_equal(dmi_capacity_need(capacity, 30, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_NONE);
  assert_int_equal(out.num, 4);
  /* For a smaller page, or an urgent one, it is worth asking. */
  assert_int_equal(dmi_capacity_need(capacity, 4, 4, DMI_CAPACITY_AHEAD, &out), DMI_CAPACITY_SOME);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_int_equal(out.num, 7);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 6, 12, 0, &out));
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_SOME);
  /* ... but what is for urgent ones is not for others. */
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_AHEAD), 0);
  assert_int_equal(dmi_capacity_pick(capacity, NULL, 0, 10, DMI_CAPACITY_URGENT), 3);
  /* It says by itself that it has room again. */
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 7, 0, 0, &out));
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 0, 10, 0, &out));
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
  dmi_capacity_view(capacity, others, 3, &out);
  assert_false(dmi_capacity_asker(capacity, &asker));
  assert_true(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 9, 100, 10, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_int_equal(asker.uid, 3);
  assert_int_equal(asker.bytes, 100);
  dmi_capacity_answer(capacity, &asker, 9, &out);
  assert_sent(&out, 0, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 9);
  assert_int_equal(out.send[0].msg.number, 9);
  assert_false(dmi_capacity_asker(capacity, &asker));
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_AHEAD), 10);
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_URGENT), 0);
  dmi_capacity_freed(capacity, 9, 90, &out);
  assert_int_equal(out.num, 1);
  dmi_capacity_freed(capacity, 11, 90, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 11);
  assert_int_equal(out.send[1].msg.number, 0);
  dmi_capacity_freed(capacity, 11, 90, &out); /* once */
  assert_int_equal(out.num, 2);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* Who promised less than it was asked for tells when it has a page's room more than that. */
static void test_promise_owed(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3, &out);
  assert_true(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 9, 100, 10, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_answer(capacity, &asker, 40, &out));
  assert_true(give(capacity, 3, DMI_CAPACITY_RETURN, 0, 0, 40, 0, &out));
  dmi_capacity_freed(capacity, 49, 49, &out); /* as much as it had */
  assert_int_equal(out.num, 1);
  dmi_capacity_freed(capacity, 0, 50, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 50);
  assert_int_equal(out.send[1].msg.number, 0);
  assert_true(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 10, 100, 10, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_answer(capacity, &asker, 100, &out)); /* all of it */
  assert_int_equal(dmi_capacity_owed(capacity, DMI_CAPACITY_URGENT), 0);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* 3 is the heir. */
static void leave_with(struct dmi_capacity *capacity, uint64_t size1, uint64_t num1, uint64_t size2,
                       uint64_t num2, struct dmi_capacity_out *out) {
  const struct dmi_capacity_size sizes[] = {{size1, num1}, {size2, num2}};
  dmi_capacity_leave(capacity, 3, sizes, num2 ? 2 : num1 ? 1 : 0, out);
}

/* An urgent question waits for what is in use only transiently; no other, and not for ever. */
static void test_hold(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_transient none = {0, 0, false}, some = {30, 1000, false}, copy = {0, 0, true};
  struct dmi_capacity_asker asker, other;
  struct dmi_capacity_out out;
  int looks = 0;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3, &out);
  assert_true(give(capacity, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_URGENT, 1, 100, 10, &out));
  assert_true(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 100, 10, &out));
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
  some.ended = 1030; /* what was passing has ended: these are others, and so on for ever */
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &some));
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &none));
  assert_true(dmi_capacity_answer(capacity, &asker, 9, &out));
  /* Of a leave all that was asked for counts. */
  assert_true(give(capacity, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 2, 100, 10, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_true(dmi_capacity_defer(capacity, &asker, 99, &some));
  assert_false(dmi_capacity_defer(capacity, &asker, 100, &some));
  assert_true(dmi_capacity_answer(capacity, &asker, 100, &out));
  /* Copies that are held. */
  assert_true(give(capacity, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_URGENT, 3, 100, 10, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  while (looks < 1000 && dmi_capacity_defer(capacity, &asker, 9, &copy))
    looks++;
  assert_in_range(looks, 1, 999);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* Who has a file asks for answers at once, and gets them. */
static void test_now(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_transient some = {30, 1000, true};
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  uint64_t freed;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 1, &out);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_false(out.send[0].msg.now);
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 1, 10, 0, &out));
  dmi_capacity_refused(capacity, 2);
  dmi_capacity_spill(capacity);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_URGENT, &out),
                   DMI_CAPACITY_ASKED);
  assert_true(out.send[1].msg.now);
  assert_true(dmi_capacity_message(capacity, 2, &out.send[1].msg, &freed, &out));
  assert_true(dmi_capacity_asker(capacity, &asker));
  assert_false(dmi_capacity_defer(capacity, &asker, 9, &some));
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

static void test_leave(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  uint64_t given[5] = {0};
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3, &out);
  leave_with(capacity, 0, 0, 0, 0, &out); /* nothing to give */
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_READY);
  assert_int_equal(out.num, 0);
  dmi_capacity_leave_end(capacity, &out);
  /* Enough at the heir: nobody else is asked. */
  leave_with(capacity, 40, 1, 60, 1, &out);
  assert_int_equal(out.num, 1);
  assert_sent(&out, 0, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 100);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 1, 100, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_READY);
  assert_int_equal(dmi_capacity_give(capacity, 60), 3);
  assert_int_equal(dmi_capacity_give(capacity, 60), 3); /* more than was promised: the heir's */
  assert_int_equal(out.num, 1);
  dmi_capacity_leave_end(capacity, &out);
  assert_sent(&out, 1, 3, DMI_CAPACITY_RETURN, 0, 40);
  /* Not enough there: the others one by one, for the rest. */
  leave_with(capacity, 20, 4, 10, 2, &out);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 2, 30, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_ASKS);
  assert_sent(&out, 3, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 70);
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 3, 20, 0, &out));
  assert_sent(&out, 4, 4, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 50);
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 4, 50, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_READY);
  for (int i = 0; i < 4; i++)
    given[dmi_capacity_give(capacity, 20)] += 20;
  for (int i = 0; i < 2; i++)
    given[dmi_capacity_give(capacity, 10)] += 10;
  assert_int_equal(given[3], 30);
  assert_int_equal(given[2], 20);
  assert_int_equal(given[4], 50);
  dmi_capacity_leave_end(capacity, &out);
  /* Not enough anywhere: all of it goes back. */
  out.num = 0;
  leave_with(capacity, 10, 9, 1, 10, &out);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 5, 30, 0, &out));
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 6, 0, 0, &out));
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 7, 69, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_FAILED);
  dmi_capacity_leave_end(capacity, &out);
  assert_int_equal(out.num, 5);
  assert_sent(&out, 3, 3, DMI_CAPACITY_RETURN, 0, 30);
  assert_sent(&out, 4, 4, DMI_CAPACITY_RETURN, 0, 69);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

/* Sums of bytes are not enough: a page goes to one process as a whole. */
static void test_leave_whole(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3, &out);
  leave_with(capacity, 100, 2, 0, 0, &out);
  assert_sent(&out, 0, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 200);
  assert_int_equal(out.send[0].msg.unit, 100);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 1, 150, 0, &out));
  assert_sent(&out, 1, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE,
              100); /* one page is missing, not 50 */
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 2, 50, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_ASKS);
  assert_true(give(capacity, 4, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 3, 99, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_FAILED);
  out.num = 0;
  dmi_capacity_leave_end(capacity, &out);
  assert_int_equal(out.num, 3);
  /* A large and two small ones, in whatever order they go: the large one has its place kept. */
  out.num = 0;
  leave_with(capacity, 50, 2, 100, 1, &out);
  assert_true(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 4, 150, 0, &out));
  assert_sent(&out, 1, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_PROMISE, 50);
  assert_true(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 5, 50, 0, &out));
  assert_int_equal(dmi_capacity_leave_state(capacity), DMI_CAPACITY_LEAVE_READY);
  (void)dmi_capacity_give(capacity, 50);
  (void)dmi_capacity_give(capacity, 50);
  assert_int_equal(dmi_capacity_give(capacity, 100), 3);
  out.num = 0;
  dmi_capacity_leave_end(capacity, &out);
  assert_int_equal(out.num, 0); /* all was used */
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

static void test_rubbish(void **state) {
  struct dmi_capacity *capacity = dmi_capacity_new();
  struct dmi_capacity_out out;
  (void)state;
  dmi_capacity_out_init(&out);
  dmi_capacity_view(capacity, others, 3, &out);
  assert_int_equal(dmi_capacity_need(capacity, 10, 10, DMI_CAPACITY_AHEAD, &out),
                   DMI_CAPACITY_ASKED);
  leave_with(capacity, 100, 1, 0, 0, &out); /* question 4 */
  assert_true(give(capacity, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10, 10, &out));
  out.num = 0;
  assert_false(give(capacity, 2, DMI_CAPACITY_ASK, DMI_CAPACITY_URGENT, 2, 10, 10,
                    &out)); /* before the answer */
  assert_false(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 0, 10, 10, &out));
  assert_false(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 9, 10, &out));
  assert_false(give(capacity, 3, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10, 0, &out));
  assert_false(give(capacity, 3, DMI_CAPACITY_ASK, (enum dmi_capacity_kind)3, 1, 10, 10, &out));
  assert_false(give(capacity, 3, (enum dmi_capacity_type)3, DMI_CAPACITY_AHEAD, 1, 10, 10, &out));
  assert_false(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_AHEAD, 1, 10, 0,
                    &out)); /* 2's question */
  assert_false(give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_URGENT, 2, 10, 0, &out));
  assert_false(
      give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 0, 10, 0, &out)); /* unasked */
  assert_false(
      give(capacity, 3, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 4, 101, 0, &out)); /* too much */
  assert_false(give(capacity, 2, DMI_CAPACITY_REPORT, DMI_CAPACITY_PROMISE, 4, 10, 0, &out));
  assert_true(give(capacity, 9, DMI_CAPACITY_ASK, DMI_CAPACITY_AHEAD, 1, 10, 10,
                   &out)); /* no member: ignored */
  assert_true(give(capacity, 3, DMI_CAPACITY_RETURN, DMI_CAPACITY_AHEAD, 0, 10, 0,
                   &out)); /* nothing promised */
  assert_int_equal(out.num, 0);
  dmi_capacity_out_free(&out);
  dmi_capacity_free(capacity);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_need),         cmocka_unit_test(test_asked),
      cmocka_unit_test(test_promise_owed), cmocka_unit_test(test_hold),
      cmocka_unit_test(test_now),          cmocka_unit_test(test_leave),
      cmocka_unit_test(test_leave_whole),  cmocka_unit_test(test_rubbish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
