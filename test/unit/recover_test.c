/*
 * recover_test.c - in which order a recovery takes what came before it and what comes from it
 * (core/recover.c); sim and node_sim show the rest.
 *
 * This process is 2, the coordinator of all views is 1; 3 lives, and 4 and 5 are lost one after the
 * other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/recover.h"

static struct dmi_map map; /* its home is 4, which is handing it over to this process */
static uint32_t entered;   /* mappings */

/* ---- Surroundings: one mapping without a page, no operation ---------------------------------- */

static struct dmi_map *next_map(void *arg, uint64_t base) {
  (void)arg;
  return base < map.base ? &map : NULL;
}

static struct dmi_page *next_record(void *arg, struct dmi_map *of, uint64_t from) {
  (void)arg, (void)of, (void)from;
  return NULL;
}

static struct dmi_map *find(void *arg, uint64_t base) {
  (void)arg;
  return base == map.base ? &map : NULL;
}

static void enter(void *arg, const struct dmi_map *what) {
  (void)arg, (void)what;
  entered++;
}

static void nothing(void *arg, struct dmi_map *of) {
  (void)arg, (void)of;
}

static void arrived(void *arg, struct dmi_map *of) {
  (void)arg;
  atomic_store(&of->arriving, 0);
}

static struct dmi_req *next_op(void *arg, uint64_t *at, struct dmi_page **page) {
  (void)arg, (void)at, (void)page;
  return NULL;
}

static const struct dmi_handover_env records = {.find = find,
                                                .enter = enter,
                                                .next_map = next_map,
                                                .next_record = next_record,
                                                .hold = nothing,
                                                .release = nothing,
                                                .arrived = arrived};
static const struct dmi_recover_env ops = {.next_op = next_op};

static struct dmi_core core;
static struct dmi_out out;

static bool is_member(void *arg, dmi_uid_t uid) {
  (void)arg;
  return uid <= 3;
}

static struct dmi_recover *make(void) {
  memset(&core, 0, sizeof(core));
  core.self = 2;
  core.is_member = is_member;
  dmi_out_init(&out);
  memset(&map, 0, sizeof(map));
  map.base = 4096;
  map.page_size = map.page_num = 1;
  atomic_init(&map.home, 2);
  return dmi_recover_new(&core, &records, &ops);
}

/* ---- What happens ---------------------------------------------------------------------------- */

static void view_heir(struct dmi_recover *r, uint64_t number, dmi_uid_t lost, dmi_uid_t heir) {
  static const dmi_uid_t member[] = {1, 2, 3};
  const struct dmi_homeless removed = {lost, heir};
  const struct dmi_recover_view view = {.number = number,
                                        .coordinator = 1,
                                        .member_num = 3,
                                        .member = member,
                                        .removed_num = 1,
                                        .removed = &removed};
  dmi_recover_begin(r, &view, &out);
}

static void view(struct dmi_recover *r, uint64_t number, dmi_uid_t lost) {
  view_heir(r, number, lost, 2);
}

static void give(struct dmi_recover *r, dmi_uid_t from, enum dmi_msg_type type, uint64_t number,
                 uint16_t round) {
  struct dmi_msg msg = {.type = (uint8_t)type};
  if (type == DMI_MSG_TELLERS) {
    msg.round.number = number;
    msg.round.round = round;
  } else {
    msg.recover.number = number;
  }
  assert_true(dmi_recover_message(r, from, &msg, &out));
}

/* Takes actions until one of this kind. */
static struct dmi_act next(enum dmi_act_type type) {
  struct dmi_act act;
  do {
    assert_true(dmi_out_take(&out, &act));
    dmi_slice_drop(&act.msg.list);
  } while (act.type != type);
  return act;
}

static void begun(struct dmi_recover *r, uint64_t number) {
  struct dmi_act act = next(DMI_ACT_BEGUN);
  assert_int_equal(act.number, number);
  dmi_recover_begun(r, act.number, &out);
}

static void end(struct dmi_recover *r) {
  struct dmi_act act;
  while (dmi_out_take(&out, &act))
    dmi_slice_drop(&act.msg.list);
  dmi_out_free(&out);
  dmi_recover_free(r);
}

/* What waited for the home of a lost process came before the CUT of its sender. */
static void test_deferred(void **state) {
  struct dmi_recover *r = make();
  (void)state;
  atomic_store(&map.arriving, 4);
  give(r, 3, DMI_MSG_CHANNEL_CUT, 7, 0);
  view(r, 7, 4);
  (void)next(DMI_ACT_REPLAY);
  assert_false(dmi_recover_is_cut(r, 3));
  begun(r, 7);
  assert_true(dmi_recover_is_cut(r, 3));
  end(r);
}

/* The same of what was held until the end of a recovery that others have resumed: this process
 * hears of its end by RECOVER of the next one. */
static void test_held_in_doubt(void **state) {
  struct dmi_recover *r = make();
  (void)state;
  view(r, 7, 4);
  begun(r, 7);
  for (uint16_t round = 0; round < DMI_ROUNDS_NUM; round++)
    give(r, 1, DMI_MSG_TELLERS, 7, round);
  (void)next(DMI_ACT_READY);
  dmi_recover_freeze(r);
  assert_true(dmi_recover_is_cut(r, 3)); /* all is held */
  give(r, 3, DMI_MSG_CHANNEL_CUT, 8, 0);
  dmi_recover_carry(r, 7, &out);
  view(r, 8, 5);
  (void)next(DMI_ACT_RESUMED);
  assert_true(atomic_load(&core.frozen));
  assert_false(dmi_recover_is_cut(r, 3));
  begun(r, 8);
  assert_true(dmi_recover_is_cut(r, 3));
  end(r);
}

/* A loss that comes before it has begun: CUT is of the one before. */
static void test_begun_late(void **state) {
  struct dmi_recover *r = make();
  (void)state;
  give(r, 3, DMI_MSG_CHANNEL_CUT, 7, 0);
  view(r, 7, 4);
  dmi_recover_freeze(r);
  view(r, 8, 5);
  begun(r, 7);
  begun(r, 8);
  assert_false(dmi_recover_is_cut(r, 3));
  end(r);
}

/* REPORT about a mapping that is not known here: this process is the heir of its home; or it was
 * the home, has forgotten the mapping, and others have that still to do. */
static void test_report_of_unknown(void **state) {
  struct dmi_msg msg = {.type = DMI_MSG_REPORT, .map = 8192};
  struct dmi_recover *r = make();
  (void)state;
  view(r, 7, 4);
  begun(r, 7);
  msg.report = (struct dmi_msg_report){.number = 7, .page_size = 8, .page_num = 1};
  entered = 0;
  assert_true(dmi_recover_message(r, 3, &msg, &out));
  assert_int_equal(entered, 0);
  msg.flags = DMI_F_LOST;
  assert_true(dmi_recover_message(r, 3, &msg, &out));
  assert_int_equal(entered, 1);
  end(r);
}

/* The home is said to be another lost process than the one whose heir this process was in a
 * recovery that is void, or that was handing the home over to it: so the heir of that one gets it.
 * But a leaver that lives goes on handing it over. */
static void test_corrected_home(void **state) {
  static const struct {
    dmi_uid_t from;
    bool corrected;
  } arriving[] = {{2, true}, {4, true}, {3, false}};
  (void)state;
  for (size_t i = 0; i < sizeof(arriving) / sizeof(arriving[0]); i++) {
    struct dmi_recover *r = make();
    atomic_store(&map.home, arriving[i].from == 2 ? 4 : 2);
    if (arriving[i].from != 2) atomic_store(&map.arriving, arriving[i].from);
    view(r, 7, arriving[i].from == 2 ? 4 : 6);
    begun(r, 7);
    assert_int_equal(atomic_load(&map.home), 2);
    assert_int_equal(atomic_load(&map.arriving), arriving[i].from);
    dmi_recover_freeze(r);
    dmi_recover_correct_home(r, &map, 5, &out);
    if (arriving[i].corrected) (void)next(DMI_ACT_REPLAY);
    view_heir(r, 8, 5, 3);
    assert_int_equal(atomic_load(&map.home), arriving[i].corrected ? 3 : 2);
    assert_int_equal(atomic_load(&map.arriving), arriving[i].corrected ? 0 : 3);
    end(r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deferred), cmocka_unit_test(test_held_in_doubt),
      cmocka_unit_test(test_begun_late), cmocka_unit_test(test_report_of_unknown),
      cmocka_unit_test(test_corrected_home)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
