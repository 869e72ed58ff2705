/*
 * pulse_test.c - who is silent, lost or back, without and with `survive`; and messages that no
 * correct process sends.  (What is agreed on after a loss: test/sim/crash_sim.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pulse.h"
#include "msg/pack.h"

#define AFTER 1000 /* ms */

static struct dmi_pulse_out out;

static uint32_t count(enum dmi_pulse_act_type type, dmi_uid_t uid) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < out.num; i++)
    num += out.act[i].type == type && out.act[i].uid == uid;
  return num;
}

/* This process ends, once, and says so with these words. */
static void assert_ends(const char *words) {
  assert_int_equal(count(DMI_PULSE_END, 0), 1);
  for (uint32_t i = 0; i < out.num; i++) {
    if (out.act[i].type == DMI_PULSE_END && !strstr(out.act[i].text, words))
      fail_msg("it says: %s", out.act[i].text);
  }
}

static uint32_t sent(enum dmi_msg_type type, dmi_uid_t to) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < out.num; i++)
    num += out.act[i].type == DMI_PULSE_SEND && out.act[i].uid == to && out.act[i].msg.type == type;
  return num;
}

/* One of three processes; 1 is the coordinator. */
static struct dmi_pulse *one(dmi_uid_t self, dmi_ms_t after, bool survive) {
  const struct dmi_pulse_config config = {.self = self, .dead_after = after, .survive = survive};
  const struct dmi_pulse_member members[] = {
      {.uid = 1, .voter = true}, {.uid = 2, .voter = true}, {.uid = 3, .voter = true}};
  const struct dmi_pulse_view view = {
      .number = 3, .coordinator = 1, .num = 3, .members = members, .tie = 1};
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  dmi_pulse_out_init(&out);
  dmi_pulse_start(pulse, 5000, &view, 1, &out);
  dmi_pulse_out_clear(&out);
  return pulse;
}

/* Process 1, the coordinator, with processes 2 and 3. */
static struct dmi_pulse *coordinator(dmi_ms_t after, bool survive) {
  return one(1, after, survive);
}

/* The time goes on until then; 3 sends pulses. */
static void until(struct dmi_pulse *pulse, dmi_ms_t now) {
  struct dmi_msg msg = {.type = DMI_CTL_PULSE, .origin = 3};
  while (dmi_pulse_wake(pulse) <= now) {
    dmi_ms_t wake = dmi_pulse_wake(pulse);
    msg.pulse.sent = wake;
    msg.pulse.ballot = 1;
    msg.pulse.view = 3;
    assert_true(dmi_pulse_message(pulse, wake, 3, &msg, &out));
    dmi_pulse_tick(pulse, wake, &out);
  }
}

static void done(struct dmi_pulse *pulse) {
  dmi_pulse_out_free(&out);
  dmi_pulse_free(pulse);
}

static void silence(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  (void)state;
  until(pulse, 5499);
  assert_int_equal(count(DMI_PULSE_SILENT, 2), 0);
  assert_true(sent(DMI_CTL_PULSE, 2) >= 4);
  until(pulse, 5500);
  assert_int_equal(count(DMI_PULSE_SILENT, 2), 1);
  until(pulse, 5800);
  assert_int_equal(sent(DMI_CTL_PROBE, 3), 1); /* it is asked about 2 */
  until(pulse, 5999);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 0);
  until(pulse, 6000);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1);
  assert_int_equal(count(DMI_PULSE_LOST, 3), 0);
  until(pulse, 9000);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1); /* once */
  assert_int_equal(count(DMI_PULSE_END, 0), 0);
  done(pulse);
}

/* Members come and go, with the coordinator's role: who is watched follows each view. */
static void follows_views(void **state) {
  const struct dmi_pulse_config config = {.self = 1, .dead_after = AFTER};
  const struct dmi_pulse_member members[][2] = {
      {{.uid = 1, .voter = true}},
      {{.uid = 1, .voter = true}, {.uid = 2, .voter = true}},
      {{.uid = 1, .voter = true}, {.uid = 3, .voter = true}},
      {{.uid = 1, .voter = true}, {.uid = 4, .voter = true}}};
  static const dmi_uid_t coordinators[] = {1, 1, 3, 1};
  struct dmi_pulse *pulse = dmi_pulse_new(&config);
  (void)state;
  dmi_pulse_out_init(&out);
  for (uint32_t i = 0; i < 4; i++) {
    struct dmi_pulse_view view = {
        .number = i + 1, .coordinator = coordinators[i], .num = i ? 2 : 1, .members = members[i]};
    if (i == 0) {
      dmi_pulse_start(pulse, 5000, &view, 0, &out);
    } else {
      assert_true(dmi_pulse_take(pulse, 5000 + i, &view, 0, &out));
    }
    dmi_pulse_all_taken(pulse, 5000 + i, view.number, &out);
  }
  while (dmi_pulse_wake(pulse) <= 6100)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  assert_int_equal(count(DMI_PULSE_SILENT, 2) + count(DMI_PULSE_SILENT, 3), 0);
  assert_int_equal(count(DMI_PULSE_LOST, 4), 1);
  done(pulse);
}

/* The coordinator has called DMI_survive, and this process has not heard of it: it takes no part.
 */
static void not_agreed_yet(void **state) {
  static const enum dmi_msg_type types[] = {DMI_CTL_PREPARE,  DMI_CTL_PROMISE, DMI_CTL_PROPOSE,
                                            DMI_CTL_ACCEPTED, DMI_CTL_DECIDED, DMI_CTL_LINK_LOST};
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  (void)state;
  for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    struct dmi_msg msg = {.type = (uint8_t)types[i], .origin = 2};
    msg.ballot.ballot = (uint64_t)5 << 32 | 2;
    assert_true(dmi_pulse_message(pulse, 5001, 2, &msg, &out));
  }
  assert_int_equal(sent(DMI_CTL_PROMISE, 2) + count(DMI_PULSE_END, 0), 0);
  done(pulse);
}

static void comes_back(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  struct dmi_msg msg = {.type = DMI_CTL_PULSE_OK, .origin = 2};
  (void)state;
  until(pulse, 5900);
  msg.pulse_ok.sent = 5800;
  assert_true(dmi_pulse_message(pulse, 5900, 2, &msg, &out));
  assert_int_equal(count(DMI_PULSE_HEARD, 2), 1);
  until(pulse, 6899);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 0);
  until(pulse, 6900);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1);
  done(pulse);
}

/* Another one hears it: as long again, once. */
static void probed(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  struct dmi_msg msg = {.type = DMI_CTL_PROBED, .origin = 3};
  (void)state;
  msg.probe.about = 2;
  for (dmi_ms_t now = 5800; now < 7000; now += 100) {
    until(pulse, now);
    assert_true(dmi_pulse_message(pulse, now, 3, &msg, &out));
    assert_int_equal(count(DMI_PULSE_LOST, 2), 0);
  }
  until(pulse, 7000);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1);
  done(pulse);
}

static void never(void **state) {
  struct dmi_pulse *pulse = coordinator(0, false);
  (void)state;
  until(pulse, 100000);
  assert_int_equal(count(DMI_PULSE_SILENT, 2) + count(DMI_PULSE_LOST, 2), 0);
  dmi_pulse_broken(pulse, 100000, 2, &out);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1);
  done(pulse);
}

/* Who comes late itself forgives. */
static void late(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  (void)state;
  until(pulse, 5400);
  dmi_pulse_tick(pulse, 9000, &out);
  assert_int_equal(count(DMI_PULSE_LOST, 2) + count(DMI_PULSE_LOST, 3), 0);
  until(pulse, 9300);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 0);
  until(pulse, 10000);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 1);
  assert_int_equal(count(DMI_PULSE_LOST, 3), 0);
  done(pulse);
}

/* It tells that from what others do; and so may the daemon, before it has had its turn. */
static void stood_still(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, false);
  char text[DMI_PULSE_STOOD];
  (void)state;
  until(pulse, 5400);
  assert_false(dmi_pulse_stood_still(pulse, 5400, text));
  assert_false(
      dmi_pulse_stood_still(pulse, 5400 + AFTER / 2, text)); /* nobody has lost it for that */
  assert_true(dmi_pulse_stood_still(pulse, 5400 + 3 * AFTER + 600, text));
  dmi_pulse_tick(pulse, 9000, &out);
  assert_true(dmi_pulse_stood_still(pulse, 9010, text));
  assert_non_null(strstr(text, "3.6 s"));
  until(pulse, 9100);
  assert_true(dmi_pulse_stood_still(pulse, 9100, text));
  until(pulse, 9001 + AFTER);
  assert_false(dmi_pulse_stood_still(pulse, 9001 + AFTER, text)); /* long ago */
  done(pulse);
}

/* With `survive` nobody is LOST: it is proposed to go on without it. */
static void survives(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  (void)state;
  dmi_pulse_all_taken(pulse, 5000, 3, &out);
  until(pulse, 5100);
  dmi_pulse_dead(pulse, 5100, 2, &out);
  until(pulse, 5130);
  assert_int_equal(count(DMI_PULSE_LOST, 2), 0);
  assert_int_equal(sent(DMI_CTL_DEAD, 3), 1);
  assert_int_equal(sent(DMI_CTL_PROPOSE, 3), 1);
  assert_int_equal(sent(DMI_CTL_PROPOSE, 2), 0);
  assert_false(dmi_pulse_may_change(pulse, 5130));
  done(pulse);
}

/* ... and people may be told for what: silence, but not an end that everybody can see. */
static void says_why(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  (void)state;
  until(pulse, 5999);
  assert_int_equal(count(DMI_PULSE_DOUBT, 2), 0);
  until(pulse, 6100);
  assert_int_equal(count(DMI_PULSE_DOUBT, 2), 1);
  assert_int_equal(count(DMI_PULSE_DOUBT, 3) + count(DMI_PULSE_LOST, 2), 0);
  done(pulse);
  pulse = coordinator(AFTER, true);
  dmi_pulse_dead(pulse, 5100, 2, &out);
  assert_int_equal(count(DMI_PULSE_DOUBT, 2), 0);
  done(pulse);
}

static bool hears_dead(struct dmi_pulse *pulse, dmi_uid_t from, dmi_uid_t about) {
  struct dmi_msg msg = {.type = DMI_CTL_DEAD, .origin = from};
  msg.probe.about = about;
  return dmi_pulse_message(pulse, 5100, from, &msg, &out);
}

/* The coordinator tells all of a death, once; others tell it alone.  When it is dead, who would
 * lead next does, and hears of all who are. */
static void one_tells_of_deaths(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  (void)state;
  assert_true(hears_dead(pulse, 2, 3));
  assert_true(hears_dead(pulse, 2, 3));
  assert_int_equal(sent(DMI_CTL_DEAD, 2), 1);
  done(pulse);
  pulse = one(3, AFTER, true);
  dmi_pulse_dead(pulse, 5100, 2, &out);
  assert_int_equal(sent(DMI_CTL_DEAD, 1), 1);
  assert_int_equal(sent(DMI_CTL_DEAD, 2), 0);
  done(pulse);
  pulse = one(3, AFTER, true);
  dmi_pulse_dead(pulse, 5100, 1, &out);
  assert_int_equal(sent(DMI_CTL_DEAD, 2), 1);
  done(pulse);
  pulse = one(2, AFTER, true);
  assert_true(hears_dead(pulse, 3, 1));
  assert_int_equal(sent(DMI_CTL_DEAD, 3), 1);
  done(pulse);
}

/* A lease begins when it is asked for, and ends; without one for long the process ends. */
static void lease(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  struct dmi_msg msg = {.type = DMI_CTL_PULSE_OK, .origin = 3};
  (void)state;
  msg.pulse_ok.sent = 5010;
  msg.pulse_ok.ballot = 1;
  assert_true(dmi_pulse_message(pulse, 5050, 3, &msg, &out));
  assert_false(dmi_pulse_frozen(pulse));
  assert_int_equal(dmi_pulse_lease(pulse, 5100), 710);
  msg.pulse_ok.sent = 6000; /* later than now */
  assert_false(dmi_pulse_message(pulse, 5100, 3, &msg, &out));
  dmi_pulse_tick(pulse, 5809, &out);
  assert_false(dmi_pulse_frozen(pulse));
  dmi_pulse_tick(pulse, 5810, &out);
  assert_true(dmi_pulse_frozen(pulse));
  assert_int_equal(count(DMI_PULSE_END, 0), 0);
  while (dmi_pulse_wake(pulse) < 8010)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  assert_int_equal(count(DMI_PULSE_END, 0), 0);
  dmi_pulse_tick(pulse, 8010, &out);
  assert_ends("1 of 3 processes seem reachable from here");
  assert_int_equal(dmi_pulse_wake(pulse), DMI_MS_NEVER);
  done(pulse);
}

/* Who was stopped for long is to hear first what the others have decided, which says why it ends.
 */
static void stopped(void **state) {
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  (void)state;
  dmi_pulse_tick(pulse, 20000, &out);
  assert_true(dmi_pulse_frozen(pulse));
  while (dmi_pulse_wake(pulse) < 22200)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  assert_int_equal(count(DMI_PULSE_END, 0), 0);
  dmi_pulse_tick(pulse, 22200, &out);
  assert_ends("1 of 3 processes seem reachable from here");
  done(pulse);
}

/* Proof of death needs no time, however long silence is borne. */
static void at_once(void **state) {
  struct dmi_pulse *pulse = coordinator(60 * AFTER, true);
  (void)state;
  dmi_pulse_all_taken(pulse, 5000, 3, &out);
  dmi_pulse_dead(pulse, 5100, 2, &out);
  while (dmi_pulse_wake(pulse) <= 5120)
    dmi_pulse_tick(pulse, dmi_pulse_wake(pulse), &out);
  assert_int_equal(sent(DMI_CTL_PROPOSE, 3), 1);
  done(pulse);
}

/* Bodies that are cut short, too long, or random: refused, and nothing is sent or decided. */
static void rubbish(void **state) {
  static const enum dmi_msg_type types[] = {DMI_CTL_PROMISE, DMI_CTL_PROPOSE, DMI_CTL_DECIDED};
  struct dmi_pulse *pulse = coordinator(AFTER, true);
  unsigned char bytes[200];
  uint32_t seed = 1;
  (void)state;
  for (uint32_t i = 0; i < 30000; i++) {
    struct dmi_msg msg = {.type = (uint8_t)types[i % 3], .origin = 3};
    for (size_t k = 0; k < sizeof(bytes); k++) {
      seed = seed * 1664525u + 1013904223u;
      bytes[k] = seed >> 28 ? (unsigned char)((seed >> 20) & 3) : (unsigned char)(seed >> 16);
    }
    msg.word[0] = UINT64_C(5) << 32 | 3;
    msg.word[1] = bytes[0] & 1;
    msg.body = (struct dmi_slice){NULL, bytes, i % sizeof(bytes)};
    assert_false(dmi_pulse_message(pulse, 5000, 3, &msg, &out));
  }
  assert_int_equal(count(DMI_PULSE_VIEW, 0) + count(DMI_PULSE_END, 0), 0);
  done(pulse);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(silence),
      cmocka_unit_test(not_agreed_yet),
      cmocka_unit_test(comes_back),
      cmocka_unit_test(probed),
      cmocka_unit_test(never),
      cmocka_unit_test(late),
      cmocka_unit_test(stood_still),
      cmocka_unit_test(survives),
      cmocka_unit_test(says_why),
      cmocka_unit_test(one_tells_of_deaths),
      cmocka_unit_test(follows_views),
      cmocka_unit_test(lease),
      cmocka_unit_test(stopped),
      cmocka_unit_test(at_once),
      cmocka_unit_test(rubbish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
