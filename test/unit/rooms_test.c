/*
 * rooms_test.c - who has room: single scenarios, and messages that no correct peer sends.
 */
#include "core/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool give(struct dmi_rooms *rooms, uint32_t from, enum dmi_room_type type,
                 enum dmi_room_kind kind, uint64_t number, uint64_t bytes, uint64_t unit,
                 struct dmi_room_out *out) {
  struct dmi_room_msg msg = {(uint8_t)type, (uint8_t)kind, number, bytes, unit, false};
  uint64_t freed;
  return dmi_room_message(rooms, from, &msg, &freed, out);
}

static void assert_sent(const struct dmi_room_out *out, uint64_t at, uint32_t to,
                        enum dmi_room_type type, enum dmi_room_kind kind, uint64_t bytes) {
  assert_true(at < out->num);
  assert_int_equal(out->send[at].to, to);
  assert_int_equal(out->send[at].msg.type, type);
  assert_int_equal(out->send[at].msg.kind, kind);
  assert_int_equal(out->send[at].msg.bytes, bytes);
}

static const uint32_t others[] = {2, 3, 4};

static void test_need(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_out out;
  (void)state;
  dmi_room_out_init(&out);
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_NONE);
  dmi_room_view(rooms, others, 3, &out);
  assert_int_equal(dmi_room_need(rooms, 50, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_ASKED);
  assert_int_equal(out.num, 3);
  assert_sent(&out, 0, 2, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 50);
  assert_int_equal(dmi_room_need(rooms, 50, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_ASKED);
  assert_int_equal(out.num, 3); /* not again before the answer */
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 1, 25, 0, &out));
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 2, 5, 0, &out));
  assert_int_equal(dmi_room_need(rooms, 50, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_SOME);
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_AHEAD), 2);
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_AHEAD), 2);
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_AHEAD), 0); /* 5 are left */
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 3, 0, 0, &out));
  /* 3 and 4 have none for 10; 2 may have more now. */
  assert_int_equal(dmi_room_need(rooms, 30, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_ASKED);
  assert_int_equal(out.num, 4);
  assert_sent(&out, 3, 2, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 30);
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 4, 0, 0, &out));
  assert_int_equal(dmi_room_need(rooms, 30, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_NONE);
  assert_int_equal(out.num, 4);
  /* For a smaller page, or an urgent one, it is worth asking. */
  assert_int_equal(dmi_room_need(rooms, 4, 4, DMI_ROOM_AHEAD, &out), DMI_ROOM_SOME);
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_URGENT, &out), DMI_ROOM_ASKED);
  assert_int_equal(out.num, 7);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_URGENT, 6, 12, 0, &out));
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_URGENT, &out), DMI_ROOM_SOME);
  /* ... but what is for urgent ones is not for others. */
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_AHEAD), 0);
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_URGENT), 3);
  /* It says by itself that it has room again. */
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_URGENT, 7, 0, 0, &out));
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 0, 10, 0, &out));
  assert_int_equal(dmi_room_pick(rooms, NULL, 0, 10, DMI_ROOM_AHEAD), 4);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

static void test_asked(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  assert_false(dmi_room_asker(rooms, &asker));
  assert_true(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 9, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_int_equal(asker.uid, 3);
  assert_int_equal(asker.bytes, 100);
  dmi_room_answer(rooms, &asker, 9, &out);
  assert_sent(&out, 0, 3, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 9);
  assert_int_equal(out.send[0].msg.number, 9);
  assert_false(dmi_room_asker(rooms, &asker));
  assert_int_equal(dmi_room_owed(rooms, DMI_ROOM_AHEAD), 10);
  assert_int_equal(dmi_room_owed(rooms, DMI_ROOM_URGENT), 0);
  dmi_room_freed(rooms, 9, 90, &out);
  assert_int_equal(out.num, 1);
  dmi_room_freed(rooms, 11, 90, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 11);
  assert_int_equal(out.send[1].msg.number, 0);
  dmi_room_freed(rooms, 11, 90, &out); /* once */
  assert_int_equal(out.num, 2);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

/* Who promised less than it was asked for tells when it has a page's room more than that. */
static void test_promise_owed(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  assert_true(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 9, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_true(dmi_room_answer(rooms, &asker, 40, &out));
  assert_true(give(rooms, 3, DMI_ROOM_BACK, 0, 0, 40, 0, &out));
  dmi_room_freed(rooms, 49, 49, &out); /* as much as it had */
  assert_int_equal(out.num, 1);
  dmi_room_freed(rooms, 0, 50, &out);
  assert_int_equal(out.num, 2);
  assert_sent(&out, 1, 3, DMI_ROOM_TELL, DMI_ROOM_URGENT, 50);
  assert_int_equal(out.send[1].msg.number, 0);
  assert_true(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 10, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_true(dmi_room_answer(rooms, &asker, 100, &out)); /* all of it */
  assert_int_equal(dmi_room_owed(rooms, DMI_ROOM_URGENT), 0);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

/* 3 is the heir. */
static void leave_with(struct dmi_rooms *rooms, uint64_t size1, uint64_t num1, uint64_t size2,
                       uint64_t num2, struct dmi_room_out *out) {
  const struct dmi_room_lot lot[] = {{size1, num1}, {size2, num2}};
  dmi_room_leave(rooms, 3, lot, num2 ? 2 : num1 ? 1 : 0, out);
}

/* An urgent question waits for what is in use only in passing; no other, and not for ever. */
static void test_hold(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_passing none = {0, 0, false}, some = {30, 1000, false}, copy = {0, 0, true};
  struct dmi_room_asker asker, other;
  struct dmi_room_out out;
  int looks = 0;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  assert_true(give(rooms, 2, DMI_ROOM_ASK, DMI_ROOM_URGENT, 1, 100, 10, &out));
  assert_true(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 1, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_int_equal(asker.uid, 2);
  assert_false(dmi_room_hold(rooms, &asker, 10, &some)); /* enough for a page */
  assert_true(dmi_room_hold(rooms, &asker, 9, &some));
  assert_true(dmi_room_asker(rooms, &other)); /* the next one need not wait */
  assert_int_equal(other.uid, 3);
  assert_false(dmi_room_hold(rooms, &other, 9, &some));
  assert_true(dmi_room_answer(rooms, &other, 9, &out));
  assert_false(dmi_room_asker(rooms, &other));
  dmi_room_again(rooms);
  assert_true(dmi_room_asker(rooms, &asker));
  some.turned = 1029;
  assert_true(dmi_room_hold(rooms, &asker, 9, &some));
  some.turned = 1030; /* what was passing has ended: these are others, and so on for ever */
  assert_false(dmi_room_hold(rooms, &asker, 9, &some));
  assert_false(dmi_room_hold(rooms, &asker, 9, &none));
  assert_true(dmi_room_answer(rooms, &asker, 9, &out));
  /* Of a leave all that was asked for counts. */
  assert_true(give(rooms, 2, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 2, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_true(dmi_room_hold(rooms, &asker, 99, &some));
  assert_false(dmi_room_hold(rooms, &asker, 100, &some));
  assert_true(dmi_room_answer(rooms, &asker, 100, &out));
  /* Copies that are held. */
  assert_true(give(rooms, 2, DMI_ROOM_ASK, DMI_ROOM_URGENT, 3, 100, 10, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  while (looks < 1000 && dmi_room_hold(rooms, &asker, 9, &copy))
    looks++;
  assert_in_range(looks, 1, 999);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

/* Who has a file asks for answers at once, and gets them. */
static void test_now(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_passing some = {30, 1000, true};
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  uint64_t freed;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 1, &out);
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_URGENT, &out), DMI_ROOM_ASKED);
  assert_false(out.send[0].msg.now);
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_URGENT, 1, 10, 0, &out));
  dmi_room_kept(rooms, 2);
  dmi_rooms_spill(rooms);
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_URGENT, &out), DMI_ROOM_ASKED);
  assert_true(out.send[1].msg.now);
  assert_true(dmi_room_message(rooms, 2, &out.send[1].msg, &freed, &out));
  assert_true(dmi_room_asker(rooms, &asker));
  assert_false(dmi_room_hold(rooms, &asker, 9, &some));
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

static void test_leave(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_out out;
  uint64_t given[5] = {0};
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  leave_with(rooms, 0, 0, 0, 0, &out); /* nothing to give */
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_READY);
  assert_int_equal(out.num, 0);
  dmi_room_leave_end(rooms, &out);
  /* Enough at the heir: nobody else is asked. */
  leave_with(rooms, 40, 1, 60, 1, &out);
  assert_int_equal(out.num, 1);
  assert_sent(&out, 0, 3, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 100);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 1, 100, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_READY);
  assert_int_equal(dmi_room_give(rooms, 60), 3);
  assert_int_equal(dmi_room_give(rooms, 60), 3); /* more than was promised: the heir's */
  assert_int_equal(out.num, 1);
  dmi_room_leave_end(rooms, &out);
  assert_sent(&out, 1, 3, DMI_ROOM_BACK, 0, 40);
  /* Not enough there: the others one by one, for the rest. */
  leave_with(rooms, 20, 4, 10, 2, &out);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 2, 30, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_ASKS);
  assert_sent(&out, 3, 2, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 70);
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 3, 20, 0, &out));
  assert_sent(&out, 4, 4, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 50);
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 4, 50, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_READY);
  for (int i = 0; i < 4; i++)
    given[dmi_room_give(rooms, 20)] += 20;
  for (int i = 0; i < 2; i++)
    given[dmi_room_give(rooms, 10)] += 10;
  assert_int_equal(given[3], 30);
  assert_int_equal(given[2], 20);
  assert_int_equal(given[4], 50);
  dmi_room_leave_end(rooms, &out);
  /* Not enough anywhere: all of it goes back. */
  out.num = 0;
  leave_with(rooms, 10, 9, 1, 10, &out);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 5, 30, 0, &out));
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 6, 0, 0, &out));
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 7, 69, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_FAILED);
  dmi_room_leave_end(rooms, &out);
  assert_int_equal(out.num, 5);
  assert_sent(&out, 3, 3, DMI_ROOM_BACK, 0, 30);
  assert_sent(&out, 4, 4, DMI_ROOM_BACK, 0, 69);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

/* Sums of bytes are not enough: a page goes to one process as a whole. */
static void test_leave_whole(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_out out;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  leave_with(rooms, 100, 2, 0, 0, &out);
  assert_sent(&out, 0, 3, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 200);
  assert_int_equal(out.send[0].msg.unit, 100);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 1, 150, 0, &out));
  assert_sent(&out, 1, 2, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 100); /* one page is missing, not 50 */
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 2, 50, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_ASKS);
  assert_true(give(rooms, 4, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 3, 99, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_FAILED);
  out.num = 0;
  dmi_room_leave_end(rooms, &out);
  assert_int_equal(out.num, 3);
  /* A large and two small ones, in whatever order they go: the large one has its place kept. */
  out.num = 0;
  leave_with(rooms, 50, 2, 100, 1, &out);
  assert_true(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 4, 150, 0, &out));
  assert_sent(&out, 1, 2, DMI_ROOM_ASK, DMI_ROOM_PROMISE, 50);
  assert_true(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 5, 50, 0, &out));
  assert_int_equal(dmi_room_leave_state(rooms), DMI_ROOM_LEAVE_READY);
  (void)dmi_room_give(rooms, 50);
  (void)dmi_room_give(rooms, 50);
  assert_int_equal(dmi_room_give(rooms, 100), 3);
  out.num = 0;
  dmi_room_leave_end(rooms, &out);
  assert_int_equal(out.num, 0); /* all was used */
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
}

static void test_rubbish(void **state) {
  struct dmi_rooms *rooms = dmi_rooms_new();
  struct dmi_room_out out;
  (void)state;
  dmi_room_out_init(&out);
  dmi_room_view(rooms, others, 3, &out);
  assert_int_equal(dmi_room_need(rooms, 10, 10, DMI_ROOM_AHEAD, &out), DMI_ROOM_ASKED);
  leave_with(rooms, 100, 1, 0, 0, &out); /* question 4 */
  assert_true(give(rooms, 2, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 1, 10, 10, &out));
  out.num = 0;
  assert_false(
      give(rooms, 2, DMI_ROOM_ASK, DMI_ROOM_URGENT, 2, 10, 10, &out)); /* before the answer */
  assert_false(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 0, 10, 10, &out));
  assert_false(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 1, 9, 10, &out));
  assert_false(give(rooms, 3, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 1, 10, 0, &out));
  assert_false(give(rooms, 3, DMI_ROOM_ASK, (enum dmi_room_kind)3, 1, 10, 10, &out));
  assert_false(give(rooms, 3, (enum dmi_room_type)3, DMI_ROOM_AHEAD, 1, 10, 10, &out));
  assert_false(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_AHEAD, 1, 10, 0, &out)); /* 2's question */
  assert_false(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_URGENT, 2, 10, 0, &out));
  assert_false(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 0, 10, 0, &out));  /* unasked */
  assert_false(give(rooms, 3, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 4, 101, 0, &out)); /* too much */
  assert_false(give(rooms, 2, DMI_ROOM_TELL, DMI_ROOM_PROMISE, 4, 10, 0, &out));
  assert_true(
      give(rooms, 9, DMI_ROOM_ASK, DMI_ROOM_AHEAD, 1, 10, 10, &out)); /* no member: ignored */
  assert_true(give(rooms, 3, DMI_ROOM_BACK, DMI_ROOM_AHEAD, 0, 10, 0, &out)); /* nothing promised */
  assert_int_equal(out.num, 0);
  dmi_room_out_free(&out);
  dmi_rooms_free(rooms);
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
