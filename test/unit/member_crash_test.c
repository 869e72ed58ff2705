/*
 * member_crash_test.c - a member and a coordinator behind a crash view (core/member_crash.c,
 * coord_crash.c): the recovery and what comes in its middle, results of threads, the role that is
 * handed over, witnesses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "member_crash.h"

/* ---- Results of threads ---------------------------------------------------------------------- */

static int ask_thread(struct dmi_member *m, dmi_uid_t from, dmi_uid_t of, uint64_t seq) {
  struct dmi_pack body;
  struct dmi_mact *act;
  static uint64_t op;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, of);
  dmi_pack_u64(&body, seq);
  assert_true(give(m, from, DMI_CTL_THREAD, ++op, &body));
  act = sent(from, DMI_CTL_RESULT);
  return act ? act->msg.member.error : -1;
}

/* Threads of a process that was lost, or that left before the coordinator was lost. */
static void test_threads_of_the_lost(void **state) {
  struct dmi_member *m = successor();
  (void)state;
  assert_int_equal(ask_thread(m, 3, 1, 1), DMI_ELOST);
  assert_int_equal(ask_thread(m, 3, 1, 1), DMI_ELOST);
  assert_int_equal(ask_thread(m, 3, 700, 1), DMI_ELOST); /* it may have been there */
  assert_int_equal(DMI_WITHOUT_WHY(ask_thread(m, 3, 5000, 1)), DMI_ETHREAD);
  end(m);
}

/* Who asks has taken the crash view already: its answer waits until this process has, too. */
static void test_thread_asked_early(void **state) {
  struct dmi_member *m = successor();
  struct dmi_mact *act;
  (void)state;
  m->coord->since = 0; /* it knows all that have been lost */
  assert_int_equal(ask_thread(m, 3, 4, 4), -1);
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  act = sent(3, DMI_CTL_RESULT);
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_ELOST);
  end(m);
}

/* A leaver tells results with its first DRAINED only.  That one comes when the heir that it names
 * is lost, and another one has been named: the results count. */
static void test_results_for_a_lost_heir(void **state) {
  struct dmi_member *m = successor();
  struct dmi_record *leaver = dmi_coord_find(m->coord, 3);
  struct dmi_pack body;
  (void)state;
  leaver->life = DMI_LIFE_LEAVING;
  leaver->heir = 2;
  for (int i = 0; i < 2; i++) { /* the second time it is known from STATE, for instance */
    dmi_pack_init(&body);
    dmi_pack_u32(&body, 1);
    dmi_pack_u64(&body, 7);  /* thread */
    dmi_pack_u64(&body, 99); /* its result */
    assert_true(give(m, 3, DMI_CTL_DRAINED, 4, &body));
    assert_int_equal(leaver->life, DMI_LIFE_LEAVING);
    assert_int_equal(m->coord->results.num, 1);
  }
  assert_int_equal(ask_thread(m, 4, 3, 7), DMI_OK);
  assert_int_equal(ask_thread(m, 4, 3, 7), -1); /* taken; it is still there, and may tell more */
  end(m);
}

/* ---- Recovery -------------------------------------------------------------------------------- */

/* RECOVER that names `heir`, behind that view. */
static bool told_to_recover(struct dmi_member *m, uint64_t number, uint32_t heir) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u64(&body, 0); /* what is carried */
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 5); /* lost */
  dmi_pack_u32(&body, heir);
  dmi_pack_u64(&body, 0); /* limit */
  dmi_pack_u32(&body, 0); /* mappings */
  return give(m, 1, DMI_CTL_RECOVER, 0, &body);
}

/* RECOVER arrives when there was another loss, that of the heir that it names. */
static void test_late_recover(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  crash(m, 10, 1, 4);
  assert_true(told_to_recover(m, 9, 4));
  assert_int_equal(out.num, 0);
  assert_false(told_to_recover(m, 10, 4));
  assert_true(told_to_recover(m, 10, 3));
  assert_non_null(recovers());
  end(m);
}

/* RECOVER of a second loss says which recovery counts: one that some have resumed, also if others
 * do not know that it is over. */
static void test_carried(void **state) {
  static const struct told ready = {.ready = 8, .resumed = 7, .lost = 1, .heir = 4},
                           resumed = {.resumed = 8}, neither = {.resumed = 7};
  const struct told *const others[] = {&resumed, &neither};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct dmi_member *m = member(2);
    struct dmi_mact *act;
    struct dmi_unpack body;
    m->resumed = 7; /* it was there */
    crash(m, 10, 2, 1);
    give_state_of(m, 4, 10, &ready);
    give_state_of(m, 3, 10, others[i]);
    act = sent(4, DMI_CTL_RECOVER);
    assert_non_null(act);
    dmi_unpack_init(&body, &act->msg.body);
    (void)dmi_unpack_u64(&body); /* view */
    assert_int_equal(dmi_unpack_u64(&body), i == 0 ? 8 : 0);
    (void)dmi_unpack_u64(&body);                /* number of those that are lost; uid 1 */
    assert_int_equal(dmi_unpack_u32(&body), 4); /* stays the heir */
    end(m);
  }
}

/* The coordinator is about to leave.  3, which gets the role, was welcomed after the last view:
 * that one makes it a voter first, since else nobody could lead if a process were lost now.  So it
 * does if 3 has been asked to leave meanwhile, and stays, as it has no heir. */
static void test_role_for_a_voter(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct dmi_member *m = successor();
    bool voter = i & 1, stays = i & 2;
    struct dmi_unpack body;
    struct dmi_mact *act;
    dmi_mout_clear(&out);
    dmi_member_find(m, 3)->voter = voter;
    dmi_coord_find(m->coord, 2)->life = DMI_LIFE_DRAINED;
    dmi_coord_find(m->coord, 2)->heir = 3;
    if (stays) {
      dmi_coord_find(m->coord, 3)->life = DMI_LIFE_NO_HEIR;
      dmi_coord_find(m->coord, 4)->vital = false;
    }
    dmi_member_may_change(m, &out);
    act = sent(4, DMI_CTL_VIEW);
    assert_non_null(act);
    dmi_unpack_init(&body, &act->msg.body);
    assert_int_equal(dmi_unpack_u64(&body), 11);
    assert_int_equal(dmi_unpack_u32(&body), voter ? 3 : 2);
    end(m);
  }
}

/* DMI_welcome of 4 by 3: the answer comes when 4 could go on without the others.  It has said that
 * it is welcome, all have taken the view in which it has its vote, and it has a lease. */
static void test_welcome_is_complete(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    struct dmi_member *m = successor();
    struct dmi_pack taken;
    dmi_member_find(m, 4)->voter = false;
    dmi_member_find(m, 3)->witness = true; /* which cannot go on alone */
    dmi_coord_find(m->coord, 4)->welcomed = dmi_coord_find(m->coord, 4)->vital = false;
    dmi_coord_find(m->coord, 4)->life = DMI_LIFE_JOINED;
    dmi_coord_find(m->coord, 4)->welcome = (struct dmi_caller){3, 77};
    leases = !late;
    dmi_mout_clear(&out);
    assert_true(give_flagged(m, 4, DMI_CTL_OPENED, 0, 0, NULL));
    assert_non_null(sent(4, DMI_CTL_VIEW));
    assert_null(sent(3, DMI_CTL_RESULT));
    dmi_member_viewed(m, &out);
    for (dmi_uid_t uid = 3; uid <= 4; uid++) {
      assert_null(sent(3, DMI_CTL_RESULT));
      dmi_pack_init(&taken);
      dmi_pack_u64(&taken, m->coord->view);
      dmi_pack_u8(&taken, 0);
      assert_true(give_flagged(m, uid, DMI_CTL_VIEW_TAKEN, 0, 0, &taken));
    }
    if (late) {
      assert_null(sent(3, DMI_CTL_RESULT));
      leases = true;
      dmi_member_may_change(m, &out);
    }
    assert_non_null(sent(3, DMI_CTL_RESULT));
    assert_int_equal(sent(3, DMI_CTL_RESULT)->msg.member.op, 77);
    end(m);
  }
}

/* A view by which 5 joins. */
static struct dmi_pack join(uint64_t number) {
  const struct dmi_peer peer = peer_of(5);
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 1);
  dmi_member_pack_peer(&body, &peer);
  dmi_pack_u32(&body, 0);
  return body;
}

/* The agreement overtakes what the coordinator has said before a view: RESUME, so that 5 would join
 * while pages are frozen here, or FORGET.  So the view waits until that one's VIEW is here, too. Or
 * there is another crash view: what is before that is taken. */
static void test_view_heard_early(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    struct dmi_member *m = member(2);
    crash(m, 10, 1, 4);
    hears(m, join(11));
    assert_null(dmi_member_peer(m, 5));
    assert_int_equal(m->view, 10);
    if (again) {
      agree(m, 12, 1, (dmi_uid_t[]){3}, 1);
    } else {
      assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
      dmi_member_resumed(m, &out);
      assert_int_equal(m->view, 10);
      is_told(m, join(11));
    }
    assert_int_equal(m->view, 11);
    dmi_mout_clear(&out);
    dmi_member_viewed(m, &out);
    assert_non_null(dmi_member_peer(m, 5));
    assert_int_equal(m->view, again ? 12 : 11);
    assert_true(again || sent(1, DMI_CTL_VIEW_TAKEN));
    end(m);
  }
}

/* 1 has said it first, when it was not taken as the agreement was at work. */
static void test_view_heard_late(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  takes = false;
  is_told(m, join(10));
  takes = true;
  assert_null(find_action(&out, DMI_MACT_VIEW));
  hears(m, join(10));
  assert_non_null(find_action(&out, DMI_MACT_VIEW));
  dmi_member_viewed(m, &out);
  assert_non_null(sent(1, DMI_CTL_VIEW_TAKEN));
  end(m);
}

/* Nobody is busy any more when a crash view comes: the program ends behind the recovery. */
static void test_end_and_a_loss(void **state) {
  const dmi_uid_t lost = 4;
  struct dmi_member *m = successor();
  (void)state;
  for (uint32_t i = 0; i < m->coord->records.num; i++)
    m->coord->records.at[i].busy = false;
  agree(m, 11, 2, &lost, 1);
  assert_int_equal(m->phase, DMI_PHASE_JOINED);
  dmi_member_viewed(m, &out);
  give_state_of(m, 3, 11, &(struct told){.resumed = 10});
  recover(m, 11);
  assert_non_null(sent(3, DMI_CTL_END));
  end(m);
}

/* ---- A loss behind END ----------------------------------------------------------------------- */

static const dmi_uid_t first = 1;

static bool is_finished(void) {
  return find_action(&out, DMI_MACT_FINISH) != NULL;
}

/* Who has heard END does not end with the crash view: others may not have heard it. */
static void test_over_at_a_member(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  assert_true(give(m, 1, DMI_CTL_END, 0, NULL));
  assert_int_equal(sent(1, DMI_CTL_ENDED)->msg.member.op, 9);
  agree(m, 10, 2, &first, 1);
  assert_false(is_finished());
  assert_int_equal(sent(2, DMI_CTL_ENDED)->msg.member.op, 10);
  assert_true(give(m, 2, DMI_CTL_END, 0, NULL)); /* to all */
  assert_int_equal(out.num, 0);
  dmi_member_lost(m, 2, "it broke", &out); /* the agreement tells what follows */
  assert_false(is_finished());
  assert_true(give(m, 1, DMI_CTL_FINISH, 0, NULL)); /* of one that was deposed */
  assert_true(is_finished());
  end(m);
}

/* A process that is no member says FINISH. */
static void test_over_by_a_stranger(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  assert_true(give(m, 1, DMI_CTL_END, 0, NULL));
  (void)give(m, DMI_NET_TEMP + 7, DMI_CTL_FINISH, 0, NULL);
  assert_false(is_finished());
  end(m);
}

/* With --dead-after 0 the agreement may never tell what follows, so nobody waits for it. */
static void test_over_without_leases(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  m->env.settings.dead_after = 0;
  assert_true(give(m, 1, DMI_CTL_END, 0, NULL));
  dmi_member_lost(m, 2, "it broke", &out); /* not the coordinator */
  assert_false(is_finished());
  dmi_member_lost(m, 1, "it broke", &out);
  assert_true(is_finished());
  assert_null(find_action(&out, DMI_MACT_FATAL));
  end(m);
  m = member(2);
  m->env.settings.dead_after = 0;
  assert_true(give(m, 1, DMI_CTL_END, 0, NULL));
  agree(m, 10, 2, &first, 1);
  assert_true(give(m, 3, DMI_CTL_ENDED, 10, NULL));
  assert_false(is_finished());
  dmi_member_lost(m, 4, "it broke", &out); /* it may not have heard END */
  assert_non_null(sent(3, DMI_CTL_FINISH));
  assert_null(sent(4, DMI_CTL_FINISH));
  assert_true(is_finished());
  end(m);
}

/* It hears of the end in the recovery, by the new coordinator, or has nobody to agree with. */
static void test_over_in_a_recovery(void **state) {
  (void)state;
  for (int alone = 0; alone < 2; alone++) {
    struct dmi_member *m = member(3);
    crash(m, 10, 2, 1);
    assert_true(give(m, 2, DMI_CTL_END, 0, NULL));
    assert_int_equal(sent(2, DMI_CTL_ENDED)->msg.member.op, 10);
    if (alone) dmi_member_cut_off(m, "nobody is left", &out);
    if (!alone) assert_true(give(m, 2, DMI_CTL_FINISH, 0, NULL));
    assert_true(is_finished());
    assert_null(find_action(&out, DMI_MACT_FATAL));
    end(m);
  }
}

/* The new coordinator has heard END, or hears of it from another member, perhaps before it knows of
 * the loss; then it tells all others, and waits for them. */
static void test_over_at_the_coordinator(void **state) {
  (void)state;
  for (int early = 0; early < 2; early++) {
    for (int heard = 0; heard < 2; heard++) {
      struct dmi_member *m = member(2);
      if (heard) assert_true(give(m, 1, DMI_CTL_END, 0, NULL));
      if (early) assert_true(give(m, 3, DMI_CTL_ENDED, 10, NULL));
      agree(m, 10, 2, &first, 1);
      if (!heard) dmi_member_viewed(m, &out);
      if (!early) assert_true(give(m, 3, DMI_CTL_ENDED, 10, NULL));
      assert_false(is_finished());
      give_state_of(m, 4, 10, &(struct told){0});
      assert_non_null(sent(4, DMI_CTL_END));
      assert_true(give(m, 4, DMI_CTL_ENDED, 10, NULL));
      assert_non_null(sent(3, DMI_CTL_FINISH));
      assert_non_null(sent(4, DMI_CTL_FINISH));
      assert_true(is_finished());
      end(m);
    }
  }
}

/* A second crash view is agreed on while the first one is being taken: what another one has said
 * behind that, early, is heard when this process has taken both. */
static void test_over_and_two_losses(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  assert_true(give(m, 3, DMI_CTL_ENDED, 10, NULL));
  agree(m, 10, 2, &first, 1);
  agree(m, 11, 2, (dmi_uid_t[]){4}, 1);
  dmi_member_viewed(m, &out);
  assert_int_equal(m->view, 11);
  assert_null(sent(3, DMI_CTL_END));
  dmi_member_viewed(m, &out);
  assert_non_null(sent(3, DMI_CTL_END));
  assert_non_null(sent(3, DMI_CTL_FINISH));
  assert_true(is_finished());
  end(m);
}

/* One that is busy cannot have been told END, nor can the others. */
static void test_not_over(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  dmi_member_busy(m, 5, &out);
  crash(m, 10, 2, 1);
  assert_false(give(m, 3, DMI_CTL_ENDED, 10, NULL));
  end(m);
}

/* ---- The role is handed over, and somebody is lost ------------------------------------------- */

/* The body of view 10, in which 1 hands the role to 2. */
static struct dmi_pack handover(void) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 10);
  dmi_pack_u32(&body, 2);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 0);
  return body;
}

/* The view comes by the agreement, and overtakes an answer that 1 had sent: that one counts.  (If
 * 1 heard before that this process has taken the view, it would hand the role over.) */
static void test_answer_before_a_handover(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  dmi_member_goodbye(m, 5, peer_of(4).dmi_id, &out);
  hears(m, handover());
  assert_int_equal(out.num, 0);
  answer(m, 1, 5, DMI_EBUSY);
  assert_int_equal(result(), DMI_EBUSY);
  is_told(m, handover());
  assert_non_null(find_action(&out, DMI_MACT_VIEW));
  dmi_member_viewed(m, &out);
  assert_non_null(sent(1, DMI_CTL_VIEW_TAKEN));
  assert_int_equal(dmi_member_coordinator(m), 2);
  end(m);
}

/* The same, but 1 is lost, or leads again: what it had said does not count, and who leads now is
 * asked again. */
static void test_answer_behind_a_loss(void **state) {
  (void)state;
  for (uint32_t next = 1; next <= 2; next++) {
    struct dmi_member *m = member(3);
    const dmi_uid_t lost = next == 1 ? 2 : 1;
    dmi_member_goodbye(m, 5, peer_of(4).dmi_id, &out);
    hears(m, handover());
    agree(m, 11, next, &lost, 1);
    assert_int_equal(m->view, 10);
    dmi_member_viewed(m, &out);
    assert_int_equal(m->view, 11);
    dmi_mout_clear(&out);
    dmi_member_viewed(m, &out);
    dmi_member_check(m);
    assert_non_null(sent(next, DMI_CTL_STATE));
    assert_int_equal(sent(next, DMI_CTL_GOODBYE)->msg.flags, DMI_F_AGAIN);
    if (next == 1) answer(m, 1, 5, DMI_EBUSY);
    if (next == 1) assert_int_equal(out.num, 0);
    end(m);
  }
}

/* uid 2 was to be the coordinator; the view behind a loss says that 1 stays it, which is asked
 * again. If 2 gets the role later, it must not answer, too. */
static void test_calls_to_the_next(void **state) {
  struct dmi_member *m = member(2);
  struct dmi_pack body;
  (void)state;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, A);
  assert_true(give(m, 3, DMI_CTL_LOOKUP, 5, &body));
  m->coordinator = 2; /* it lets those wait that ask to join */
  body = join_body(&(struct dmi_addr){.port = 7881}, &(struct dmi_node_info){.cores = 1}, false);
  assert_true(give(m, DMI_NET_TEMP + 1, DMI_CTL_JOIN, 0, &body));
  m->coordinator = 1;
  crash(m, 10, 1, 4);
  assert_int_equal(m->deferred.num, 2);
  dmi_member_recovered(m, 10, 0, &out);
  assert_non_null(sent(1, DMI_CTL_READY));
  assert_non_null(sent(DMI_NET_TEMP + 1, DMI_CTL_REDIRECT));
  assert_int_equal(m->deferred.num, 0);
  end(m);
}

/* EXIT comes when a member is lost: the others count on this process until RESUME.  A new
 * coordinator says it again. */
static void test_exit_in_a_recovery(void **state) {
  (void)state;
  for (uint32_t again = 0; again < 2; again++) {
    struct dmi_member *m = member(3);
    m->phase = DMI_PHASE_LEFT;
    m->left = true;
    dmi_member_find(m, 3)->left = true;
    crash(m, 10, 1, 4);
    assert_true(give(m, 1, DMI_CTL_EXIT, 0, NULL));
    assert_int_equal(out.num, 0);
    if (again) crash(m, 11, 2, 1);
    if (again) m->unheard = false; /* it has said RECOVER */
    assert_true(give_number(m, 1 + again, DMI_CTL_RESUME, 10 + again));
    dmi_mout_clear(&out);
    dmi_member_resumed(m, &out);
    assert_int_equal(out.num > 0, !again);
    if (!again) assert_non_null(sent(1, DMI_CTL_EXITED));
    end(m);
  }
}

/* 1 is the new coordinator, and lost, too, before anybody has heard of a process that it let join:
 * the next one gives other uids. */
static void test_uids_of_two_coordinators(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  give_view(m, 10, 5000, 0);
  give_view(m, 11, 0, 5000); /* one that has come and gone */
  crash(m, 12, 1, 4);
  crash(m, 13, 2, 1);
  assert_true(m->coord->next_uid > 5000 + 2 * 1000); /* nobody gets its uid again */
  end(m);
}

/* Who joins behind a loss is told of it. */
static void test_joiner_is_told(void **state) {
  struct dmi_member *m = successor();
  const struct dmi_node_info info = {.cores = 2, .memory = 500, .host = "there"};
  struct dmi_settings settings;
  struct dmi_pack body;
  struct dmi_mact *act;
  struct dmi_unpack unpack;
  uint8_t id[16];
  size_t len;
  (void)state;
  body = join_body(&(struct dmi_addr){.port = 7881}, &info, false);
  assert_true(give(m, DMI_NET_TEMP + 1, DMI_CTL_JOIN, 0, &body));
  act = sent(m->coord->next_uid - 1, DMI_CTL_ACCEPT);
  assert_non_null(act);
  dmi_unpack_init(&unpack, &act->msg.body);
  dmi_unpack_raw(&unpack, id, sizeof(id));
  (void)dmi_unpack_u32(&unpack);
  dmi_settings_unpack(&unpack, &settings);
  (void)dmi_unpack_bytes(&unpack, &len);
  assert_int_equal(dmi_unpack_u64(&unpack), 10);
  assert_int_equal(dmi_unpack_u32(&unpack) + 1, m->next_uid); /* with its own, the same */
  assert_true(m->next_uid >= 2000 + 1000);
  end(m);
}

/* ---- Witnesses ------------------------------------------------------------------------------- */

#define WITNESS 1005u /* the uid of who joins next */

/* A witness joins: the program hears nothing of it, and it votes from the next view on. */
static struct dmi_member *with_witness(void) {
  struct dmi_member *m = successor();
  const struct dmi_node_info info = {.cores = 1, .memory = 1, .host = "w"};
  const struct dmi_addr addr = {.port = 7883};
  struct dmi_pack body;
  assert_true(give(m, 3, DMI_CTL_POLL, 8, NULL)); /* that 1 is lost */
  assert_true(give(m, 3, DMI_CTL_POLL, 9, NULL));
  m->coord->next_uid = WITNESS;
  body = join_body(&addr, &info, true);
  assert_true(give(m, DMI_NET_TEMP + 1, DMI_CTL_JOIN, 0, &body));
  assert_non_null(sent(WITNESS, DMI_CTL_ACCEPT));
  for (uint64_t view = 11; view <= 12; view++) {
    dmi_mout_clear(&out);
    dmi_member_viewed(m, &out);
    assert_true(give_number(m, 3, DMI_CTL_VIEW_TAKEN, view));
    assert_true(give_number(m, 4, DMI_CTL_VIEW_TAKEN, view));
    assert_false(dmi_member_peer(m, WITNESS)->voter && view == 11);
    assert_true(give_number(m, WITNESS, DMI_CTL_VIEW_TAKEN, view));
  }
  assert_true(dmi_member_peer(m, WITNESS)->voter);
  assert_int_equal(m->coord->notices.num, 0);
  assert_int_equal(m->coord->polls.num, 1);
  return m;
}

static int welcome(struct dmi_member *m, dmi_uid_t uid) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, dmi_member_peer(m, uid)->dmi_id.n);
  assert_true(give(m, 3, DMI_CTL_WELCOME, 10, &body));
  return sent(3, DMI_CTL_RESULT) ? sent(3, DMI_CTL_RESULT)->msg.member.error : DMI_OK;
}

/* It can be neither welcomed nor listed, is nobody's heir, and leaves without DMI_goodbye. */
static void test_witness(void **state) {
  struct dmi_member *m = with_witness();
  struct dmi_mact *act;
  struct dmi_unpack body;
  (void)state;
  assert_int_equal(welcome(m, WITNESS), DMI_EMEMBER);
  assert_true(give(m, 3, DMI_CTL_NODES, 11, NULL));
  act = sent(3, DMI_CTL_RESULT);
  dmi_unpack_init(&body, &act->msg.body);
  assert_int_equal(dmi_unpack_u32(&body), 3);
  assert_true(dmi_coord_heir(m->coord, 2)->uid != WITNESS);
  assert_true(give(m, WITNESS, DMI_CTL_LEAVE_ASK, 0, NULL));
  act = sent(WITNESS, DMI_CTL_LEAVE_GO);
  assert_non_null(act);
  dmi_unpack_init(&body, &act->msg.body);
  assert_int_equal(dmi_unpack_u32(&body), 2);
  assert_int_equal(m->coord->polls.num, 1);
  end(m);
}

/* The only others that are left are lost: no home goes to a witness.  Nor is its own loss told. */
static void test_witness_and_losses(void **state) {
  struct dmi_member *m = with_witness();
  const struct dmi_mact *act;
  struct dmi_pack body;
  const struct told nothing = {0};
  (void)state;
  crash(m, 13, 2, WITNESS);
  give_state(m, 3, 13);
  give_state(m, 4, 13);
  recover(m, 13);
  assert_int_equal(m->coord->polls.num, 1);
  end(m);
  m = with_witness();
  crash(m, 13, 2, 3);
  crash(m, 14, 2, 4);
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 14);
  dmi_pack_u8(&body, DMI_PHASE_JOINED);
  dmi_pack_u8(&body, DMI_STATE_ASKED);
  for (int i = 0; i < 3; i++)
    dmi_pack_u64(&body, 0); /* heir, leaver; READY; resumed */
  dmi_pack_u64(&body, 0);   /* heirs; notices */
  dmi_pack_u32(&body, 0);   /* causes */
  pack_told(&body, &nothing);
  dmi_pack_u32(&body, 0);
  m->coord->records.at[0].life = DMI_LIFE_DRAINED; /* this process is leaving itself */
  m->coord->records.at[0].heir = 3;
  assert_true(give(m, WITNESS, DMI_CTL_STATE, 0, &body));
  act = recovers();
  assert_int_equal(act->removed[0].heir, 2);
  end(m);
}

/* A view whose leader is faulty removes one that is no member, one twice, or the receiver. */
static void test_agreed_nonsense(void **state) {
  const dmi_uid_t lost[][2] = {{4, 9}, {4, 4}, {4, 3}, {0, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
    struct dmi_member *m = member(3);
    agree(m, 10, 1, lost[i], 2);
    assert_non_null(find_action(&out, DMI_MACT_FATAL));
    assert_null(find_action(&out, DMI_MACT_VIEW));
    end(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agreed_nonsense),
      cmocka_unit_test(test_threads_of_the_lost),
      cmocka_unit_test(test_thread_asked_early),
      cmocka_unit_test(test_results_for_a_lost_heir),
      cmocka_unit_test(test_late_recover),
      cmocka_unit_test(test_carried),
      cmocka_unit_test(test_role_for_a_voter),
      cmocka_unit_test(test_welcome_is_complete),
      cmocka_unit_test(test_end_and_a_loss),
      cmocka_unit_test(test_over_at_a_member),
      cmocka_unit_test(test_over_without_leases),
      cmocka_unit_test(test_over_by_a_stranger),
      cmocka_unit_test(test_over_and_two_losses),
      cmocka_unit_test(test_over_in_a_recovery),
      cmocka_unit_test(test_over_at_the_coordinator),
      cmocka_unit_test(test_not_over),
      cmocka_unit_test(test_view_heard_early),
      cmocka_unit_test(test_view_heard_late),
      cmocka_unit_test(test_uids_of_two_coordinators),
      cmocka_unit_test(test_exit_in_a_recovery),
      cmocka_unit_test(test_joiner_is_told),
      cmocka_unit_test(test_witness),
      cmocka_unit_test(test_witness_and_losses),
      cmocka_unit_test(test_calls_to_the_next),
      cmocka_unit_test(test_answer_before_a_handover),
      cmocka_unit_test(test_answer_behind_a_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
