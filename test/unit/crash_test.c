/*
 * crash_test.c - the agreement on crash views, message by message: what is refused, and that what
 * is refused changes nothing.  (What is agreed on: test/sim/crash_sim; silence: pulse_test.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/pulse.h"
#include "msg/pack.h"

#define BEGIN 5000 /* ms */
#define AFTER 1000
#define BALLOT(round, uid) ((uint64_t)(round) << 32 | (uid))
#define NUM 5

static struct dmi_pulse_out out;
static struct dmi_pulse_member members[NUM];
static dmi_uid_t witness; /* of view_of; 0: none */

static struct dmi_pulse_view view_of(uint64_t number, dmi_uid_t coordinator, const dmi_uid_t *uid,
                                     uint32_t num) {
  for (uint32_t i = 0; i < num; i++)
    members[i] =
        (struct dmi_pulse_member){.uid = uid[i], .voter = true, .witness = uid[i] == witness};
  return (struct dmi_pulse_view){
      .number = number, .coordinator = coordinator, .num = num, .members = members};
}

/* Process `self` in view 3, which 1 made in ballot (0, 1). */
static struct dmi_pulse *started(dmi_uid_t self, dmi_ms_t after, const dmi_uid_t *uid,
                                 uint32_t num) {
  const struct dmi_pulse_config config = {.self = self, .dead_after = after, .survive = true};
  const struct dmi_pulse_view view = view_of(3, 1, uid, num);
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  dmi_pulse_out_init(&out);
  dmi_pulse_start(pulse, BEGIN, &view, BALLOT(0, 1), &out);
  dmi_pulse_out_clear(&out);
  return pulse;
}

static struct dmi_pulse *one_of_three(dmi_uid_t self) {
  static const dmi_uid_t uid[] = {1, 2, 3};
  return started(self, AFTER, uid, 3);
}

static void done(struct dmi_pulse *pulse) {
  dmi_pulse_out_free(&out);
  dmi_pulse_free(pulse);
}

/* The last message of this type to that process; NULL: there is none. */
static const struct dmi_msg *sent(enum dmi_msg_type type, dmi_uid_t to) {
  const struct dmi_msg *last = NULL;
  for (uint32_t i = 0; i < out.num; i++) {
    const struct dmi_pulse_act *act = &out.act[i];
    if (act->type == DMI_PULSE_SEND && act->uid == to && act->msg.type == type) last = &act->msg;
  }
  return last;
}

static uint32_t count(enum dmi_pulse_act_type type) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < out.num; i++)
    num += out.act[i].type == type;
  return num;
}

/* This process ends, once, and says so with these words. */
static void assert_ends(const char *words) {
  assert_int_equal(count(DMI_PULSE_END), 1);
  for (uint32_t i = 0; i < out.num; i++) {
    if (out.act[i].type == DMI_PULSE_END && !strstr(out.act[i].text, words))
      fail_msg("it says: %s", out.act[i].text);
  }
}

static void until(struct dmi_pulse *pulse, dmi_ms_t now) {
  while (dmi_pulse_wake(pulse) <= now)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  dmi_pulse_tick(pulse, now, &out);
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

static void pack_head(struct dmi_pack *pack, uint64_t number, uint64_t ballot, bool crash,
                      dmi_uid_t coordinator, uint32_t num) {
  dmi_pack_u64(pack, number);
  dmi_pack_u64(pack, ballot);
  dmi_pack_u64(pack, ballot);
  dmi_pack_u8(pack, crash);
  dmi_pack_u32(pack, coordinator);
  dmi_pack_u32(pack, coordinator);
  dmi_pack_u32(pack, num);
}

/* Members `first` to `last`, one after the other, up or down. */
static void pack_view(struct dmi_pack *pack, uint64_t number, uint64_t ballot, bool crash,
                      dmi_uid_t coordinator, dmi_uid_t first, dmi_uid_t last) {
  bool up = first <= last;
  uint32_t num = 1 + (up ? last - first : first - last);
  pack_head(pack, number, ballot, crash, coordinator, num);
  for (uint32_t i = 0; i < num; i++) {
    dmi_pack_u32(pack, up ? first + i : first - i);
    dmi_pack_u8(pack, 1);
  }
  dmi_pack_bytes(pack, NULL, 0);
}

/* With the body that was packed, which is freed. */
static bool says(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t from, struct dmi_msg msg,
                 struct dmi_pack *body) {
  bool good;
  msg.origin = from;
  if (body) msg.body = dmi_pack_slice(body);
  good = dmi_pulse_message(pulse, now, from, &msg, &out);
  dmi_slice_drop(&msg.body);
  return good;
}

static bool says_promise(struct dmi_pulse *pulse, dmi_uid_t from, uint64_t promised) {
  struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
  struct dmi_pack body;
  msg.promise.ballot = BALLOT(0, 1);
  msg.promise.promised = promised;
  dmi_pack_init(&body);
  dmi_pack_u8(&body, 0);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
  dmi_pack_u8(&body, 0);
  return says(pulse, BEGIN + 30, from, msg, &body);
}

/* View 6, behind view 5 of members 3 to 5, in which 5 is removed. */
static bool says_propose(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t from, uint64_t ballot) {
  struct dmi_msg msg = {.type = DMI_CTL_PROPOSE};
  struct dmi_pack body;
  msg.propose.ballot = ballot;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 5, BALLOT(1, 5), false, 5, 3, 5);
  dmi_pack_u8(&body, 1);
  dmi_pack_u64(&body, ballot);
  pack_view(&body, 6, ballot, true, from, 3, 4);
  return says(pulse, now, from, msg, &body);
}

static bool says_decided(struct dmi_pulse *pulse, dmi_uid_t from, uint64_t ballot,
                         uint64_t of_view) {
  struct dmi_msg msg = {.type = DMI_CTL_DECIDED};
  struct dmi_pack body;
  msg.ballot.ballot = ballot;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 3, of_view, false, 1, 1, 3);
  return says(pulse, BEGIN, from, msg, &body);
}

static bool says_prepare(struct dmi_pulse *pulse, dmi_uid_t from, uint64_t ballot) {
  struct dmi_msg msg = {.type = DMI_CTL_PREPARE};
  msg.ballot.ballot = ballot;
  return says(pulse, BEGIN, from, msg, NULL);
}

static bool says_pulse(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t from, uint64_t ballot,
                       uint64_t view) {
  struct dmi_msg msg = {.type = DMI_CTL_PULSE};
  msg.pulse.sent = now;
  msg.pulse.ballot = ballot;
  msg.pulse.view = msg.pulse.known = view;
  return says(pulse, now, from, msg, NULL);
}

static bool says_accepted(struct dmi_pulse *pulse, dmi_uid_t from, uint64_t left) {
  struct dmi_msg msg = {.type = DMI_CTL_ACCEPTED};
  msg.accepted.ballot = BALLOT(0, 1);
  msg.accepted.number = 4;
  msg.accepted.left = left;
  return says(pulse, BEGIN + 40, from, msg, NULL);
}

/* ---- A port that refuses connections --------------------------------------------------------- */

/* 1, which leads, is gone; 2 has a lease, and nobody to ask. */
static void refused_port(bool trusts) {
  static const dmi_uid_t uid[] = {1, 2};
  const struct dmi_pulse_config config = {
      .self = 2, .dead_after = AFTER, .survive = true, .trust_refused = trusts};
  const struct dmi_pulse_view view = view_of(3, 1, uid, 2);
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  struct dmi_msg msg = {.type = DMI_CTL_PULSE_OK};
  dmi_pulse_out_init(&out);
  dmi_pulse_start(pulse, BEGIN, &view, BALLOT(0, 1), &out);
  msg.pulse_ok.sent = BEGIN;
  msg.pulse_ok.ballot = BALLOT(0, 1);
  msg.pulse_ok.left = 800;
  assert_true(says(pulse, BEGIN + 1, 1, msg, NULL));
  dmi_pulse_refused(pulse, BEGIN + 50, 1, &out); /* nobody suspects it */
  until(pulse, BEGIN + 60);
  dmi_pulse_out_clear(&out);
  dmi_pulse_broken(pulse, BEGIN + 100, 1, &out);
  if (trusts) {
    assert_non_null(sent(DMI_CTL_PROBE, 1));
  } else {
    assert_null(sent(DMI_CTL_PROBE, 1));
  }
  until(pulse, BEGIN + 150);
  assert_int_equal(count(DMI_PULSE_VIEW), 0);
  dmi_pulse_refused(pulse, BEGIN + 150, 1, &out);
  until(pulse, BEGIN + 500);
  assert_int_equal(count(DMI_PULSE_VIEW), trusts);
  until(pulse, BEGIN + 4000);
  if (trusts)
    assert_int_equal(count(DMI_PULSE_END), 0);
  else
    assert_ends("1 of 2 processes seem reachable from here");
  done(pulse);
}

static void refused_port_is_trusted(void **state) {
  (void)state;
  refused_port(true);
}

static void refused_port_is_not_trusted(void **state) {
  (void)state;
  refused_port(false);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* By one pulse 4 gives 5 a lease, and hears that all know of views in which 1 and 2 have left, so
 * that it forgets them. */
static void lease_and_views(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3, 4, 5};
  struct dmi_pulse *pulse = started(4, AFTER, uid, 5);
  struct dmi_pulse_view view = view_of(4, 5, uid + 1, 4);
  (void)state;
  assert_true(dmi_pulse_take(pulse, BEGIN, &view, BALLOT(0, 1), &out));
  view = view_of(5, 5, uid + 2, 3);
  assert_true(dmi_pulse_take(pulse, BEGIN, &view, BALLOT(1, 5), &out));
  until(pulse, BEGIN + 500);
  assert_true(says_pulse(pulse, BEGIN + 500, 5, BALLOT(1, 5), 5));
  assert_non_null(sent(DMI_CTL_PULSE_OK, 5));
  assert_true(says_propose(pulse, BEGIN + 600, 3, BALLOT(2, 3)));
  assert_non_null(sent(DMI_CTL_ACCEPTED, 3));
  assert_int_equal(sent(DMI_CTL_ACCEPTED, 3)->accepted.left, 740); /* 840 from that pulse on */
  done(pulse);
}

/* 1 leads, and has proposed a view without 5, when it is lost: 3 proposes it again, in which 1
 * still is.  5 may have a lease that 1 gave, as 4 gave 1 one. */
static void lease_of_lost_leader(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3, 4, 5};
  struct dmi_pulse *pulse = started(4, AFTER, uid, 5);
  struct dmi_msg msg = {.type = DMI_CTL_PROPOSE};
  struct dmi_pack body;
  (void)state;
  until(pulse, BEGIN + 500);
  assert_true(says_pulse(pulse, BEGIN + 500, 1, BALLOT(0, 1), 3));
  assert_non_null(sent(DMI_CTL_PULSE_OK, 1));
  dmi_pulse_dead(pulse, BEGIN + 550, 1, &out);
  msg.propose.ballot = BALLOT(2, 3);
  msg.propose.told = 1;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 5);
  dmi_pack_u8(&body, 1);
  dmi_pack_u64(&body, BALLOT(2, 3));
  pack_view(&body, 4, BALLOT(0, 1), true, 1, 1, 4);
  assert_true(says(pulse, BEGIN + 600, 3, msg, &body));
  assert_non_null(sent(DMI_CTL_ACCEPTED, 3));
  assert_int_equal(sent(DMI_CTL_ACCEPTED, 3)->accepted.left, 740); /* 840 from that pulse on */
  done(pulse);
}

/* 1 leads, and has a lease until BEGIN + 900.  It hears of a higher ballot at BEGIN + `higher`. */
static struct dmi_pulse *deposed_leader(dmi_ms_t higher) {
  struct dmi_pulse *pulse = one_of_three(1);
  until(pulse, BEGIN + 100);
  for (dmi_uid_t from = 2; from <= 3; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_PULSE_OK};
    msg.pulse_ok.sent = BEGIN + 100;
    msg.pulse_ok.ballot = BALLOT(0, 1);
    msg.pulse_ok.left = 800;
    assert_true(says(pulse, BEGIN + 101, from, msg, NULL));
  }
  assert_int_equal(dmi_pulse_lease(pulse, BEGIN + 101), 799);
  assert_true(says_pulse(pulse, BEGIN + higher, 2, BALLOT(2, 2), 3));
  return pulse;
}

/* 2 has proposed a view without 1, which may be decided: 1 is told so when it tries to lead again,
 * and proposes it again.  Both accept. */
static void proposes_without_itself(struct dmi_pulse *pulse, dmi_ms_t now) {
  assert_int_equal(sent(DMI_CTL_PREPARE, 3)->ballot.ballot, BALLOT(3, 1));
  for (dmi_uid_t from = 2; from <= 3; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
    struct dmi_pack body;
    msg.promise.ballot = msg.promise.promised = BALLOT(3, 1);
    dmi_pack_init(&body);
    dmi_pack_u8(&body, 0);
    dmi_pack_u32(&body, 1);
    pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
    dmi_pack_u8(&body, 1);
    dmi_pack_u64(&body, BALLOT(2, 2));
    pack_view(&body, 4, BALLOT(2, 2), true, 2, 2, 3);
    assert_true(says(pulse, now, from, msg, &body));
  }
  assert_non_null(sent(DMI_CTL_PROPOSE, 3));
  for (dmi_uid_t from = 2; from <= 3; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_ACCEPTED};
    msg.accepted.ballot = BALLOT(3, 1);
    msg.accepted.number = 4;
    assert_true(says(pulse, now, from, msg, NULL));
  }
}

/* It must not decide before its own lease has run out, nor get another one. */
static void own_lease_of_removed_leader(void **state) {
  struct dmi_pulse *pulse = deposed_leader(110);
  (void)state;
  until(pulse, BEGIN + 500);
  proposes_without_itself(pulse, BEGIN + 510);
  for (dmi_uid_t from = 2; from <= 3; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_PULSE_OK};
    msg.pulse_ok.sent = BEGIN + 500;
    msg.pulse_ok.ballot = BALLOT(3, 1);
    msg.pulse_ok.left = 800;
    assert_true(says(pulse, BEGIN + 530, from, msg, NULL));
  }
  until(pulse, BEGIN + 939);
  assert_null(sent(DMI_CTL_DECIDED, 3));
  assert_int_equal(count(DMI_PULSE_FREEZE), 1);
  until(pulse, BEGIN + 940);
  assert_non_null(sent(DMI_CTL_DECIDED, 3));
  assert_ends("have lost this process, as they had not heard of it");
  done(pulse);
}

/* The lease has run out just before: copies are being frozen, so the margin counts all the same. */
static void own_lease_that_has_run_out(void **state) {
  struct dmi_pulse *pulse = deposed_leader(600);
  (void)state;
  until(pulse, BEGIN + 901);
  proposes_without_itself(pulse, BEGIN + 902);
  until(pulse, BEGIN + 939);
  assert_null(sent(DMI_CTL_DECIDED, 3));
  until(pulse, BEGIN + 940);
  assert_non_null(sent(DMI_CTL_DECIDED, 3));
  done(pulse);
}

/* Who is never lost is waited for, without a lease, too; but not busily. */
static void no_lease_for_ever(void **state) {
  static const dmi_uid_t uid[] = {1, 2};
  struct dmi_pulse *pulse = started(2, 0, uid, 2);
  (void)state;
  for (dmi_ms_t now = BEGIN; now < BEGIN + 30000; now += 400) {
    dmi_pulse_tick(pulse, now, &out);
    assert_true(dmi_pulse_wake(pulse) > now);
  }
  assert_int_equal(count(DMI_PULSE_END), 0);
  done(pulse);
}

/* A pulse that says nothing new is answered, and brings no pulse of this process forward: two
 * processes would send pulses to each other as fast as they can, or twice as many as are needed. */
static void no_echo(void **state, bool survive) {
  static const dmi_uid_t uid[] = {1, 2};
  struct dmi_pulse_config config = {.self = 2, .dead_after = AFTER, .survive = survive};
  struct dmi_pulse_view view = view_of(3, 1, uid, 2);
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  (void)state;
  dmi_pulse_out_init(&out);
  dmi_pulse_start(pulse, BEGIN, &view, BALLOT(0, 1), &out);
  until(pulse, BEGIN + 50);
  dmi_pulse_out_clear(&out);
  assert_true(says_pulse(pulse, BEGIN + 50, 1, BALLOT(0, 1), 3));
  until(pulse, BEGIN + 50);
  assert_non_null(sent(DMI_CTL_PULSE_OK, 1));
  assert_null(sent(DMI_CTL_PULSE, 1));
  done(pulse);
}

static void no_echo_alone(void **state) {
  no_echo(state, false);
}

static void no_echo_survive(void **state) {
  no_echo(state, true);
}

/* ---- Ballots --------------------------------------------------------------------------------- */

/* The coordinator is dead: which round does process 2 try? */
static uint64_t next_round(struct dmi_pulse *pulse) {
  const struct dmi_msg *msg;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  until(pulse, BEGIN + 200);
  msg = sent(DMI_CTL_PREPARE, 3);
  return msg ? msg->ballot.ballot >> 32 : 0;
}

static void too_high(void **state) {
  static const uint64_t rounds[] = {0x80000000u, UINT32_MAX};
  static const dmi_uid_t uid[] = {1, 2};
  struct dmi_pulse_view view = view_of(4, 1, uid, 2);
  struct dmi_pulse *pulse = one_of_three(2);
  (void)state;
  for (int i = 0; i < 2; i++) {
    uint64_t ballot = BALLOT(rounds[i], 3);
    assert_false(says_prepare(pulse, 3, ballot));
    assert_false(says_pulse(pulse, BEGIN, 3, ballot, 3));
    assert_false(says_propose(pulse, BEGIN, 3, ballot));
    assert_false(says_promise(pulse, 3, ballot));
    assert_false(says_decided(pulse, 3, ballot, BALLOT(0, 1)));
    assert_false(says_decided(pulse, 3, BALLOT(0, 3), ballot));
    assert_false(dmi_pulse_take(pulse, BEGIN, &view, BALLOT(rounds[i], 1), &out));
  }
  assert_int_equal(next_round(pulse), 1);
  done(pulse);
}

/* The highest one that may come leaves no other: this process does not begin again at 0. */
static void used_up(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  (void)state;
  assert_true(says_prepare(pulse, 3, BALLOT(0x7fffffffu, 3)));
  assert_int_equal(next_round(pulse), 0);
  assert_ends("the numbers of attempts to lead are used up");
  done(pulse);
}

/* A proposal in a ballot below that of a view behind which it is: nothing is promised backwards. */
static void below_its_base(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  struct dmi_msg msg = {.type = DMI_CTL_PROPOSE};
  struct dmi_pack body;
  (void)state;
  msg.propose.ballot = BALLOT(2, 3);
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 2);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
  pack_view(&body, 4, BALLOT(9, 3), true, 3, 2, 3);
  dmi_pack_u8(&body, 1);
  dmi_pack_u64(&body, BALLOT(2, 3));
  pack_view(&body, 5, BALLOT(2, 3), true, 3, 2, 3);
  assert_true(says(pulse, BEGIN, 3, msg, &body));
  assert_null(sent(DMI_CTL_ACCEPTED, 3));
  assert_non_null(sent(DMI_CTL_PROMISE, 3));
  assert_true(sent(DMI_CTL_PROMISE, 3)->promise.promised == BALLOT(9, 3));
  done(pulse);
}

/* ---- Members --------------------------------------------------------------------------------- */

/* So many members, from `first` to `last`, and then perhaps `more`. */
static bool says_many(struct dmi_pulse *pulse, dmi_uid_t first, dmi_uid_t last, dmi_uid_t more) {
  struct dmi_msg msg = {.type = DMI_CTL_DECIDED};
  struct dmi_pack body;
  uint32_t num = last - first + 1 + (more != 0);
  msg.ballot.ballot = BALLOT(0, 3);
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  pack_head(&body, 3, BALLOT(0, 1), false, 1, num);
  for (uint32_t i = 0; i < num; i++) {
    dmi_pack_u32(&body, i == num - 1 && more ? more : first + i);
    dmi_pack_u8(&body, 1);
  }
  dmi_pack_bytes(&body, NULL, 0);
  return says(pulse, BEGIN, 3, msg, &body);
}

/* A body may have millions of members: each is looked at once.  (SIGALRM ends what takes the square
 * of that.) */
static void many_members(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  (void)state;
  alarm(60);
  assert_true(says_many(pulse, 1, 1000000, 0));
  assert_false(says_many(pulse, 1, 1000000, 1000000));
  assert_false(says_many(pulse, 1, 1000000, 0x80000000u));
  alarm(0);
  assert_false(says_many(pulse, 1, 3, 2)); /* twice; */
  assert_false(says_many(pulse, 0, 3, 0)); /* nobody's uid; */
  assert_false(says_many(pulse, 2, 3, 1)); /* out of order */
  assert_true(says_many(pulse, 1, 2, 3));
  done(pulse);
}

/* Nor does taking such a view take the square of that. */
static void takes_many(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  struct dmi_msg msg = {.type = DMI_CTL_DECIDED};
  struct dmi_pack body;
  (void)state;
  msg.ballot.ballot = BALLOT(0, 1);
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 2);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
  pack_view(&body, 4, BALLOT(0, 1), true, 1, 1, 300000);
  alarm(60);
  assert_true(says(pulse, BEGIN, 1, msg, &body));
  alarm(0);
  assert_int_equal(count(DMI_PULSE_VIEW), 1);
  done(pulse);
}

/* So who sends puts them in order, in whatever order its daemon told them. */
static void in_order(void **state) {
  static const dmi_uid_t uid[] = {3, 1, 2};
  struct dmi_pulse *pulse = started(1, AFTER, uid, 3);
  const struct dmi_msg *msg;
  struct dmi_unpack body;
  uint8_t head[4 + 8 + 8 + 8 + 1 + 4 + 4];
  (void)state;
  assert_true(says_pulse(pulse, BEGIN, 2, BALLOT(0, 1), 2)); /* it does not know view 3 */
  msg = sent(DMI_CTL_DECIDED, 2);
  assert_non_null(msg);
  dmi_unpack_init(&body, &msg->body);
  dmi_unpack_raw(&body, head, sizeof(head));
  assert_int_equal(dmi_unpack_u32(&body), 3);
  for (uint32_t i = 1; i <= 3; i++) {
    assert_int_equal(dmi_unpack_u32(&body), i);
    assert_int_equal(dmi_unpack_u8(&body), 1);
  }
  done(pulse);
}

/* A leader that was stopped finds the answers when it goes on: it does not leave out who gave them.
 */
static void stopped_leader(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
  struct dmi_pack body;
  (void)state;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  until(pulse, BEGIN + 150);
  assert_non_null(sent(DMI_CTL_PREPARE, 3));
  msg.promise.ballot = msg.promise.promised = sent(DMI_CTL_PREPARE, 3)->ballot.ballot;
  dmi_pulse_tick(pulse, BEGIN + 1000, &out);
  dmi_pack_init(&body);
  dmi_pack_u8(&body, 0);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
  dmi_pack_u8(&body, 0);
  assert_true(says(pulse, BEGIN + 1000, 3, msg, &body));
  assert_non_null(sent(DMI_CTL_PROPOSE, 3));
  done(pulse);
}

/* ---- Who has left ---------------------------------------------------------------------------- */

#define LEFT_BALLOT BALLOT(0, 1)

/* View 3 of members 1 to 4, and view 4, in which 2 has left. */
static void pack_left(struct dmi_pack *body) {
  dmi_pack_u32(body, 2);
  pack_view(body, 3, LEFT_BALLOT, false, 1, 1, 4);
  pack_head(body, 4, LEFT_BALLOT, false, 1, 4);
  for (dmi_uid_t uid = 1; uid <= 4; uid++) {
    dmi_pack_u32(body, uid);
    dmi_pack_u8(body, uid != 2);
  }
  dmi_pack_bytes(body, NULL, 0);
}

/* Process 2 wants to lead, and hears by the promises that it has left: it takes that view, and lets
 * another one lead. */
static void has_left(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3, 4};
  struct dmi_pulse *pulse = started(2, AFTER, uid, 4);
  uint64_t ballot;
  (void)state;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  until(pulse, BEGIN + 200);
  assert_non_null(sent(DMI_CTL_PREPARE, 3));
  ballot = sent(DMI_CTL_PREPARE, 3)->ballot.ballot;
  for (dmi_uid_t from = 3; from <= 4; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
    struct dmi_pack body;
    msg.promise.ballot = msg.promise.promised = ballot;
    dmi_pack_init(&body);
    dmi_pack_u8(&body, 0);
    pack_left(&body);
    dmi_pack_u8(&body, 0);
    assert_true(says(pulse, BEGIN + 210, from, msg, &body));
  }
  assert_null(sent(DMI_CTL_PROPOSE, 3));
  assert_int_equal(count(DMI_PULSE_VIEW), 1); /* the one in which it has left */
  dmi_pulse_out_clear(&out);
  until(pulse, BEGIN + 2000);
  assert_null(sent(DMI_CTL_PREPARE, 3));
  done(pulse);
}

/* A member of bad faith tells of a view of a higher ballot without this one's vote, that can not be
 * behind what this one has taken.  It is not taken, and the next attempt comes later: the thread
 * does not wake at once again and again. */
static void left_another_way(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3, 4};
  struct dmi_pulse *pulse = started(2, AFTER, uid, 4);
  uint64_t ballot;
  (void)state;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  until(pulse, BEGIN + 200);
  ballot = sent(DMI_CTL_PREPARE, 3)->ballot.ballot;
  for (dmi_uid_t from = 3; from <= 4; from++) {
    struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
    struct dmi_pack body;
    msg.promise.ballot = msg.promise.promised = ballot;
    dmi_pack_init(&body);
    dmi_pack_u8(&body, 0);
    dmi_pack_u32(&body, 1);
    pack_head(&body, 3, BALLOT(0, 3), false, 3, 3);
    for (dmi_uid_t member = 2; member <= 4; member++) {
      dmi_pack_u32(&body, member);
      dmi_pack_u8(&body, member != 2);
    }
    dmi_pack_bytes(&body, NULL, 0);
    dmi_pack_u8(&body, 0);
    assert_true(says(pulse, BEGIN + 210, from, msg, &body));
  }
  for (int i = 0; i < 100 && dmi_pulse_wake(pulse) <= BEGIN + 600; i++)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  assert_true(dmi_pulse_wake(pulse) > BEGIN + 600);
  assert_int_equal(count(DMI_PULSE_VIEW), 0);
  assert_int_equal(count(DMI_PULSE_END), 0);
  done(pulse);
}

/* No correct process proposes a view behind one in which it has left. */
static void proposes_and_has_left(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3, 4};
  (void)state;
  for (dmi_uid_t from = 2; from <= 4; from += 2) {
    struct dmi_pulse *pulse = started(3, AFTER, uid, 4);
    struct dmi_msg msg = {.type = DMI_CTL_PROPOSE};
    struct dmi_pack body;
    msg.propose.ballot = BALLOT(2, from);
    msg.propose.told = 1;
    dmi_pack_init(&body);
    pack_left(&body);
    dmi_pack_u8(&body, 1);
    dmi_pack_u64(&body, msg.propose.ballot);
    pack_view(&body, 5, msg.propose.ballot, true, from, 2, 4);
    assert_int_equal(says(pulse, BEGIN, from, msg, &body), from == 4);
    assert_int_equal(count(DMI_PULSE_VIEW), from == 4); /* its base */
    done(pulse);
  }
}

/* ---- Witnesses ------------------------------------------------------------------------------- */

/* 1 is dead, and 2 the only other voter; 3 has just joined, and has no lease yet. */
static void joined_before_a_death(void **state) {
  static const dmi_uid_t uid[] = {1, 2, 3};
  const struct dmi_pulse_config config = {.self = 2, .dead_after = AFTER, .survive = true};
  struct dmi_pulse_view view = view_of(3, 1, uid, 2);
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
  struct dmi_pack body;
  (void)state;
  dmi_pulse_out_init(&out);
  dmi_pulse_start(pulse, BEGIN, &view, BALLOT(0, 1), &out);
  view = view_of(4, 1, uid, 3);
  members[2].voter = false;
  assert_true(dmi_pulse_take(pulse, BEGIN, &view, BALLOT(0, 1), &out));
  until(pulse, BEGIN + 10);
  msg.type = DMI_CTL_PULSE_OK;
  msg.pulse_ok.sent = BEGIN;
  msg.pulse_ok.ballot = BALLOT(0, 1);
  msg.pulse_ok.left = 800;
  assert_true(says(pulse, BEGIN + 10, 1, msg, NULL));
  assert_false(dmi_pulse_frozen(pulse));
  dmi_pulse_dead(pulse, BEGIN + 20, 1, &out);
  until(pulse, BEGIN + 100);
  assert_non_null(sent(DMI_CTL_PREPARE, 3));
  msg = (struct dmi_msg){.type = DMI_CTL_PROMISE};
  msg.promise.ballot = msg.promise.promised = sent(DMI_CTL_PREPARE, 3)->ballot.ballot;
  dmi_pack_init(&body);
  dmi_pack_u8(&body, 1); /* not all may have taken the view by which it joined */
  dmi_pack_u32(&body, 1);
  pack_head(&body, 4, BALLOT(0, 1), false, 1, 3);
  for (uint32_t i = 0; i < 3; i++) {
    dmi_pack_u32(&body, uid[i]);
    dmi_pack_u8(&body, uid[i] < 3);
  }
  dmi_pack_bytes(&body, NULL, 0);
  dmi_pack_u8(&body, 0);
  assert_true(says(pulse, BEGIN + 110, 3, msg, &body));
  assert_non_null(sent(DMI_CTL_PROPOSE, 3));
  done(pulse);
}

/* The process `self` of 1, 2 and the witness 3. */
static struct dmi_pulse *beside_witness(dmi_uid_t self) {
  struct dmi_pulse *pulse;
  witness = 3;
  pulse = one_of_three(self);
  witness = 0;
  return pulse;
}

/* 1, which has the heavier vote, cannot be reached, and is not known to be dead: 2 asks the
 * witness, and both are more than half. */
static void with_a_witness(void **state) {
  struct dmi_pulse *pulse = beside_witness(2);
  struct dmi_msg msg = {.type = DMI_CTL_PROMISE};
  struct dmi_pack body;
  uint64_t ballot;
  (void)state;
  dmi_pulse_broken(pulse, BEGIN + 100, 1, &out);
  until(pulse, BEGIN + 200);
  assert_non_null(sent(DMI_CTL_PREPARE, 3));
  ballot = sent(DMI_CTL_PREPARE, 3)->ballot.ballot;
  msg.promise.ballot = msg.promise.promised = ballot;
  dmi_pack_init(&body);
  dmi_pack_u8(&body, 0);
  dmi_pack_u32(&body, 1);
  pack_view(&body, 3, BALLOT(0, 1), false, 1, 1, 3);
  dmi_pack_u8(&body, 0);
  assert_true(says(pulse, BEGIN + 210, 3, msg, &body));
  assert_non_null(sent(DMI_CTL_PROPOSE, 3));
  msg = (struct dmi_msg){.type = DMI_CTL_ACCEPTED};
  msg.accepted.ballot = ballot;
  msg.accepted.number = 4;
  assert_true(says(pulse, BEGIN + 220, 3, msg, NULL));
  until(pulse, BEGIN + 2000);
  assert_int_equal(count(DMI_PULSE_VIEW), 1);
  assert_int_equal(count(DMI_PULSE_END), 0);
  done(pulse);
}

/* A witness does not lead itself, nor promise anything to another one. */
static void never_leads(void **state) {
  struct dmi_pulse *pulse = beside_witness(3);
  (void)state;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  dmi_pulse_broken(pulse, BEGIN + 100, 2, &out);
  until(pulse, BEGIN + 2000);
  assert_null(sent(DMI_CTL_PREPARE, 2));
  assert_int_equal(count(DMI_PULSE_END), 0);
  until(pulse, BEGIN + 2200);
  assert_ends("this witness ends, as it cannot reach enough");
  done(pulse);
  pulse = beside_witness(2);
  dmi_pulse_dead(pulse, BEGIN, 1, &out);
  assert_true(says_prepare(pulse, 3, BALLOT(1, 3)));
  assert_non_null(sent(DMI_CTL_PROMISE, 3));
  assert_true(sent(DMI_CTL_PROMISE, 3)->promise.promised == BALLOT(0, 1));
  done(pulse);
}

/* All that it could vote for are dead. */
static void nobody_to_vote_for(void **state) {
  struct dmi_pulse *pulse = beside_witness(3);
  (void)state;
  dmi_pulse_dead(pulse, BEGIN + 100, 1, &out);
  assert_int_equal(count(DMI_PULSE_END), 0);
  dmi_pulse_dead(pulse, BEGIN + 110, 2, &out);
  until(pulse, BEGIN + 120);
  assert_ends("this witness ends, as all processes of the program are dead");
  done(pulse);
}

/* A view whose coordinator is a witness. */
static void led_by_a_witness(void **state) {
  struct dmi_pulse *pulse = beside_witness(2);
  (void)state;
  for (uint8_t flags = 1; flags <= 4; flags++) {
    struct dmi_msg msg = {.type = DMI_CTL_DECIDED};
    struct dmi_pack body;
    msg.ballot.ballot = BALLOT(0, 1);
    dmi_pack_init(&body);
    dmi_pack_u32(&body, 1);
    pack_head(&body, 3, BALLOT(0, 1), false, 1, 2);
    for (dmi_uid_t uid = 1; uid <= 2; uid++) {
      dmi_pack_u32(&body, uid);
      dmi_pack_u8(&body, uid == 1 ? flags : 1);
    }
    dmi_pack_bytes(&body, NULL, 0);
    assert_int_equal(says(pulse, BEGIN, 1, msg, &body), flags == 1);
  }
  done(pulse);
}

/* ---- Refused, and nothing has changed ----------------------------------------------------------
 */

/* A uid has 31 bits, the field 64. */
static void about_nobody(void **state) {
  static const enum dmi_msg_type types[] = {DMI_CTL_DEAD, DMI_CTL_PROBE, DMI_CTL_PROBED,
                                            DMI_CTL_LINK_LOST};
  static const uint64_t about[] = {0, 0x80000000u, UINT64_C(1) << 32 | 1, UINT64_C(1) << 32 | 2};
  struct dmi_pulse *pulse = one_of_three(1);
  (void)state;
  for (int i = 0; i < 16; i++) {
    struct dmi_msg msg = {.type = (uint8_t)types[i / 4]};
    msg.probe.about = about[i % 4];
    assert_false(says(pulse, BEGIN, 3, msg, NULL));
  }
  assert_int_equal(out.num, 0);
  done(pulse);
}

/* An acceptance that says what cannot be counts for nothing. */
static void bad_acceptance(void **state) {
  struct dmi_pulse *pulse = one_of_three(1);
  (void)state;
  dmi_pulse_dead(pulse, BEGIN, 2, &out);
  until(pulse, BEGIN + 30);
  assert_non_null(sent(DMI_CTL_PREPARE, 3));
  assert_true(says_promise(pulse, 3, BALLOT(0, 1)));
  assert_non_null(sent(DMI_CTL_PROPOSE, 3));
  assert_false(says_accepted(pulse, 3, DMI_MS_NEVER + 1));
  until(pulse, BEGIN + 50);
  assert_int_equal(count(DMI_PULSE_VIEW), 0);
  assert_true(says_accepted(pulse, 3, 0));
  until(pulse, BEGIN + 60);
  assert_int_equal(count(DMI_PULSE_VIEW), 1);
  done(pulse);
}

/* Nor does the round of a proposal that is malformed. */
static void bad_proposal(void **state) {
  struct dmi_pulse *pulse = one_of_three(2);
  struct dmi_msg msg = {.type = DMI_CTL_PROPOSE};
  (void)state;
  msg.propose.ballot = BALLOT(1000, 3);
  assert_false(says(pulse, BEGIN, 3, msg, NULL));
  assert_int_equal(next_round(pulse), 1);
  done(pulse);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused_port_is_trusted),
      cmocka_unit_test(refused_port_is_not_trusted),
      cmocka_unit_test(lease_and_views),
      cmocka_unit_test(lease_of_lost_leader),
      cmocka_unit_test(own_lease_of_removed_leader),
      cmocka_unit_test(own_lease_that_has_run_out),
      cmocka_unit_test(no_lease_for_ever),
      cmocka_unit_test(no_echo_alone),
      cmocka_unit_test(no_echo_survive),
      cmocka_unit_test(too_high),
      cmocka_unit_test(used_up),
      cmocka_unit_test(below_its_base),
      cmocka_unit_test(in_order),
      cmocka_unit_test(about_nobody),
      cmocka_unit_test(bad_acceptance),
      cmocka_unit_test(bad_proposal),
      cmocka_unit_test(has_left),
      cmocka_unit_test(left_another_way),
      cmocka_unit_test(proposes_and_has_left),
      cmocka_unit_test(joined_before_a_death),
      cmocka_unit_test(stopped_leader),
      cmocka_unit_test(with_a_witness),
      cmocka_unit_test(never_leads),
      cmocka_unit_test(nobody_to_vote_for),
      cmocka_unit_test(led_by_a_witness),
      cmocka_unit_test(many_members),
      cmocka_unit_test(takes_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
