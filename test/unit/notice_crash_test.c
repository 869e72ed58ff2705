/*
 * notice_crash_test.c - notices and a loss: each is given once, and the loss is told once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "member_crash.h"

/* A notice is on its way to 4, about 3, and the role moves. */
static struct dmi_member *given_and_handed_over(void) {
  struct dmi_member *m = successor();
  struct dmi_coord *next;
  struct dmi_unpack unpack;
  struct dmi_slice slice;
  struct dmi_pack body;
  while (m->coord->notices.num)
    assert_true(give(m, 4, DMI_CTL_POLL, 9, NULL));
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 1); /* number */
  dmi_pack_u64(&body, 77);
  dmi_pack_u64(&body, 1);
  assert_true(give(m, 3, DMI_CTL_NOTIFY, 8, &body));
  assert_true(give(m, 4, DMI_CTL_POLL, 10, NULL));
  assert_non_null(sent(4, DMI_CTL_RESULT));
  dmi_pack_init(&body);
  dmi_coord_pack(&body, m->coord);
  slice = dmi_pack_slice(&body);
  dmi_unpack_init(&unpack, &slice);
  next = dmi_coord_unpack(&unpack);
  dmi_slice_drop(&slice);
  assert_non_null(next);
  assert_true(dmi_coord_good(m, next));
  dmi_coord_free(m->coord);
  m->coord = next;
  return m;
}

/* Who made the note hears that it was given; or 4 is lost, and it is the next again. */
static void test_given_and_handed_over(void **state) {
  struct dmi_member *m = given_and_handed_over();
  struct dmi_mact *act;
  (void)state;
  assert_true(give(m, 4, DMI_CTL_NOTICE_OK, 10, NULL));
  act = sent(3, DMI_CTL_NOTED);
  assert_non_null(act);
  assert_int_equal(act->msg.member.op, 1);
  end(m);
  m = given_and_handed_over();
  crash(m, 11, 2, 4);
  assert_int_equal(m->coord->notices.num,
                   2); /* the other is the loss of 1, which it was told, too */
  assert_int_equal(m->coord->notices.at[1].notice.state, DMI_NOTE);
  end(m);
}

static bool loss_is_queued(const struct dmi_member *m, dmi_uid_t uid) {
  for (uint32_t i = 0; i < m->coord->notices.num; i++) {
    const struct dmi_queued *queued = &m->coord->notices.at[i];
    if (queued->uid == uid && queued->notice.state == DMI_LOST) return true;
  }
  return false;
}

/* Of two that are lost at the same time one was being given a notice about the other: nobody else
 * hears that the lost one has come, or wants to leave. */
static void test_given_about_the_lost(void **state) {
  (void)state;
  for (dmi_uid_t getter = 3; getter <= 4; getter++) {
    const dmi_uid_t about = 7 - getter, lost[] = {3, 4};
    struct dmi_member *m = successor();
    assert_true(give(m, getter, DMI_CTL_POLL, 9, NULL)); /* the loss of 1 */
    assert_true(give(m, about, DMI_CTL_LEAVE_ASK, 0, NULL));
    assert_true(give(m, getter, DMI_CTL_POLL, 10, NULL));
    assert_int_equal(m->coord->given.num, 2);
    crash_all(m, 11, 2, lost, 2);
    for (uint32_t i = 0; i < m->coord->notices.num; i++)
      assert_int_equal(m->coord->notices.at[i].notice.state, DMI_LOST);
    assert_true(loss_is_queued(m, 1));
    end(m);
  }
}

/* ---- Notices that were given ----------------------------------------------------------------- */

static void is_given(struct dmi_member *m, dmi_uid_t uid, uint32_t state) {
  struct dmi_msg msg = {.type = DMI_CTL_RESULT, .member.op = 6};
  struct dmi_notice notice = {.state = state, .uid = uid, .info = {.host = "h"}};
  struct dmi_pack body;
  dmi_member_poll(m, 6, &out);
  notice.value = notice.number = notice.floor = 1;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  dmi_notice_pack(&body, &notice);
  msg.body = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  assert_true(dmi_member_message(m, 1, &msg, &out));
  dmi_slice_drop(&msg.body);
}

/* They are remembered once, and until nobody asks for them any more. */
static void test_given_is_forgotten(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  is_given(m, 4, DMI_OPEN);
  is_given(m, 4, DMI_CLOSE);
  is_given(m, 4, DMI_CLOSE); /* there was no memory for its pages */
  is_given(m, 4, DMI_NOTE);
  is_given(m, 3, DMI_OPEN);
  assert_int_equal(m->got.num, 4);
  leaves(m, 10, 4, 3);
  assert_int_equal(m->got.num, 4);
  leaves(m, 11, 4, 0);
  assert_int_equal(m->got.num, 1);
  is_given(m, 4, DMI_NOTE); /* it had been queued */
  assert_int_equal(m->got.num, 1);
  crash(m, 12, 1, 3);
  is_given(m, 3, DMI_LOST);
  assert_int_equal(m->got.num, 2); /* else the next coordinator tells that loss again */
  end(m);
}

/* The process that was to be welcomed is lost, and the coordinator, too; another one may get its
 * id.
 */
static void test_welcome_and_a_loss(void **state) {
  const dmi_uid_t lost[] = {1, 3};
  struct dmi_member *m = member(2);
  (void)state;
  dmi_member_welcome(m, 5, peer_of(3).dmi_id, &out);
  crash_all(m, 10, 4, lost, 2);
  assert_null(sent(4, DMI_CTL_WELCOME));
  assert_int_equal(result(), DMI_EMEMBER);
  end(m);
}

/* ---- The loss is told ------------------------------------------------------------------------ */

static const struct dmi_mact *lost(uint32_t at) {
  for (uint32_t i = 0; i < out.num; i++) {
    if (out.act[i].type == DMI_MACT_LOST && at-- == 0) return &out.act[i];
  }
  return NULL;
}

/* Once, at RESUME, with the pages that all members together have found to be lost. */
static void test_loss_told(void **state) {
  struct dmi_member *m = member(2);
  struct dmi_pack body;
  (void)state;
  crash(m, 10, 2, 1);
  give_state(m, 3, 10);
  give_state(m, 4, 10);
  assert_null(lost(0));
  dmi_member_recovered(m, 10, 5, &out);
  for (dmi_uid_t uid = 3; uid <= 4; uid++) {
    dmi_pack_init(&body);
    dmi_pack_u64(&body, 10);
    assert_true(give(m, uid, DMI_CTL_READY, uid, &body));
  }
  assert_int_equal(sent(3, DMI_CTL_RESUME)->msg.member.op, 5 + 3 + 4);
  assert_non_null(lost(0));
  assert_int_equal(lost(0)->notices[0].uid, 1);
  assert_int_equal(lost(0)->value, 5 + 3 + 4);
  assert_int_equal(lost(0)->peer_num, 3);
  assert_null(lost(1));
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  assert_int_equal(lost(0)->notices[0].uid, 4);
  assert_int_equal(lost(0)->value, 0);
  assert_null(lost(1));
  end(m);
}

/* Does the RESUME that was sent to `uid` say that of 1, and nothing else? */
static bool resume_says(dmi_uid_t uid, const char *text) {
  struct dmi_unpack body;
  char said[DMI_TEXT_SIZE];
  const struct dmi_mact *act = sent(uid, DMI_CTL_RESUME);
  assert_non_null(act);
  dmi_unpack_init(&body, &act->msg.body);
  (void)dmi_unpack_u64(&body); /* view */
  if (dmi_unpack_u32(&body) != (text ? 1 : 0)) return false;
  if (!text) return dmi_unpack_done(&body);
  assert_int_equal(dmi_unpack_u32(&body), 1);
  dmi_unpack_text(&body, said);
  assert_true(dmi_unpack_done(&body));
  return strcmp(said, text) == 0;
}

/* The coordinator is lost.  The new one was told nothing; 3 and 4 were, 4 the more.  All say it. */
static void test_cause_told(void **state) {
  static const struct told first = {.died = 1, .cause = "killed"},
                           more = {.died = 1, .cause = "killed\nby \x1bSIGSEGV"};
  struct dmi_member *m = member(2);
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &first);
  give_state_of(m, 4, 10, &more);
  recover(m, 10);
  assert_true(resume_says(3, "killed?by ?SIGSEGV") && resume_says(4, "killed?by ?SIGSEGV"));
  assert_string_equal(lost(0)->text, "killed?by ?SIGSEGV");
  end(m);
}

/* Two losses, one in the middle of the recovery from the other: what is known of the first is told
 * again. */
static void test_cause_told_again(void **state) {
  static const struct told says = {.died = 1, .cause = "killed"};
  struct dmi_member *m = member(2);
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &says);
  crash(m, 11, 2, 4);
  give_state_of(m, 3, 11, &says);
  recover(m, 11);
  assert_true(resume_says(3, "killed"));
  assert_string_equal(lost(0)->text, "killed");
  assert_null(lost(1)->text);
  end(m);
}

/* What faulty members say: of one that lives, of nobody; a text that is too long. */
static void test_cause_refused(void **state) {
  char text[DMI_WIRE_DYING + 2];
  struct told says = {.died = 3, .cause = "killed"};
  struct dmi_member *m = member(2);
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &says);
  memset(text, 'x', sizeof(text));
  text[DMI_WIRE_DYING + 1] = 0;
  says = (struct told){.died = 1, .cause = text};
  assert_false(try_state_of(m, 4, 10, &says));
  says = (struct told){.died = 77, .cause = "killed"};
  give_state_of(m, 4, 10, &says);
  recover(m, 10);
  assert_true(resume_says(3, NULL));
  assert_null(lost(0)->text);
  end(m);
}

/* RESUME of a coordinator that says of `died` why it has ended. */
static bool resumes(struct dmi_member *m, uint64_t number, dmi_uid_t died, const char *why) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, died);
  dmi_pack_text(&body, why);
  dmi_mout_clear(&out);
  return give(m, 1, DMI_CTL_RESUME, 0, &body);
}

static bool holds(const struct dmi_slice *body, const char *text) {
  size_t len = strlen(text);
  for (size_t at = 0; at + len <= body->len; at++) {
    if (memcmp((const char *)body->ptr + at, text, len) == 0) return true;
  }
  return false;
}

/* A member says in STATE what it was told, and of a loss what RESUME says. */
static void test_cause_heard(void **state) {
  char text[DMI_WIRE_DYING + 2];
  struct dmi_member *m = member(2);
  (void)state;
  cause_told = "killed by SIGABRT";
  crash(m, 10, 1, 4);
  cause_told = NULL;
  assert_true(holds(&sent(1, DMI_CTL_STATE)->msg.body, "killed by SIGABRT"));
  memset(text, 'x', sizeof(text));
  text[DMI_WIRE_DYING + 1] = 0;
  assert_false(resumes(m, 10, 4, text));
  text[DMI_WIRE_DYING] = 0;
  text[0] = '\a';
  assert_true(resumes(m, 10, 4, text));
  text[0] = '?';
  assert_string_equal(lost(0)->text, text);
  end(m);
}

/* The coordinator, uid 1, lets this process join. */
static void joins(struct dmi_member *m, uint64_t view, dmi_uid_t uid, uint32_t id) {
  struct dmi_peer peer = peer_of(uid);
  struct dmi_pack body;
  peer.dmi_id.n = id;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, view);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 1);
  dmi_member_pack_peer(&body, &peer);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, 1, DMI_CTL_VIEW, 1, &body));
  dmi_member_viewed(m, &out);
}

/* 4 is lost, and who was told of that is lost later, with the coordinator.  The new one tells it
 * again, but not if the id went on to 5: a user would take it for the loss of that one. */
static void test_loss_of_an_id_in_use(void **state) {
  const uint32_t old_id = 3, ids[] = {7, old_id, old_id};
  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    struct dmi_member *m = member(2);
    const dmi_uid_t lost[] = {1, 5};
    bool both = i == 2;
    assert_int_equal(dmi_member_peer(m, 4)->dmi_id.n, old_id);
    crash(m, 10, 1, 4);
    assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
    joins(m, 11, 5, ids[i]);
    agree(m, 12, 2, lost, both ? 2 : 1);
    dmi_member_viewed(m, &out);
    give_state(m, 3, 12);
    if (!both) give_state(m, 5, 12);
    recover(m, 12);
    assert_true(loss_is_queued(m, 1));
    assert_true(loss_is_queued(m, 5) == both);
    assert_true(loss_is_queued(m, 4) == (ids[i] != old_id));
    end(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loss_told),
      cmocka_unit_test(test_cause_told),
      cmocka_unit_test(test_cause_told_again),
      cmocka_unit_test(test_cause_refused),
      cmocka_unit_test(test_cause_heard),
      cmocka_unit_test(test_loss_of_an_id_in_use),
      cmocka_unit_test(test_given_and_handed_over),
      cmocka_unit_test(test_given_about_the_lost),
      cmocka_unit_test(test_given_is_forgotten),
      cmocka_unit_test(test_welcome_and_a_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
