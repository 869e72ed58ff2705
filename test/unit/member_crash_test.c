/*
 * member_crash_test.c - what a coordinator knows behind a crash view (core/coord_crash.c,
 * directory.c): one member is real; of the others there are only the messages that they would send.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "core/member_int.h"
#include "msg/wire.h"

static const uint8_t program_id[16] = {7};
static struct dmi_mout out;

/* ---- Surroundings: an agreement that says yes ------------------------------------------------ */

static bool connected(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return true;
}

static void addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  (void)arg, (void)id;
  memset(ours, 0, sizeof(*ours));
  memset(theirs, 0, sizeof(*theirs));
  theirs->ip[15] = 9;
}

static void start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
}

static bool take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
  return true;
}

static uint64_t may_change(void *arg) {
  (void)arg;
  return 1;
}

static void change(void *arg, const struct dmi_pulse_view *view) {
  (void)arg, (void)view;
}

static dmi_uid_t tie(void *arg) {
  (void)arg;
  return 1;
}

static void all_taken(void *arg, uint64_t number) {
  (void)arg, (void)number;
}

static const struct dmi_member_survive survive = {.start = start,
                                                  .take = take,
                                                  .may_change = may_change,
                                                  .change = change,
                                                  .tie = tie,
                                                  .all_taken = all_taken};

/* ---- What comes, and what goes --------------------------------------------------------------- */

static struct dmi_mact *sent(dmi_uid_t to, enum dmi_msg_type type) {
  for (uint32_t i = 0; i < out.num; i++) {
    struct dmi_mact *act = &out.act[i];
    if (act->type == DMI_MACT_SEND && act->id == to && act->msg.type == type) return act;
  }
  return NULL;
}

static bool give_flagged(struct dmi_member *m, uint32_t from, enum dmi_msg_type type, uint64_t op,
                         uint16_t flags, struct dmi_pack *body) {
  struct dmi_msg msg = {.type = (uint8_t)type, .flags = flags};
  bool good;
  msg.member.op = op;
  if (body) msg.body = dmi_pack_slice(body);
  dmi_mout_clear(&out);
  good = dmi_member_message(m, from, &msg, &out);
  dmi_slice_drop(&msg.body);
  dmi_member_check(m);
  return good;
}

static bool give(struct dmi_member *m, uint32_t from, enum dmi_msg_type type, uint64_t op,
                 struct dmi_pack *body) {
  return give_flagged(m, from, type, op, 0, body);
}

static bool give_number(struct dmi_member *m, dmi_uid_t from, enum dmi_msg_type type,
                        uint64_t number) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  if (type == DMI_CTL_VIEW_TAKEN) dmi_pack_u8(&body, 0);
  return give(m, from, type, 0, &body);
}

static struct dmi_peer peer_of(dmi_uid_t uid) {
  return (struct dmi_peer){.uid = uid,
                           .dmi_id = {uid - 1},
                           .voter = true,
                           .info = {.cores = 1, .memory = 1, .host = "h"}};
}

static struct dmi_member *make(void) {
  struct dmi_member_env env = {.connected = connected, .addrs = addrs, .survive = &survive};
  struct dmi_node_info info = {.cores = 4, .memory = 1000, .host = "here"};
  dmi_mout_clear(&out);
  return dmi_member_new(&env, &info, &(struct dmi_addr){.port = 7880});
}

/* The process with uid `uid` of four, a member since view 9; the coordinator is uid 1. */
static struct dmi_member *member(dmi_uid_t uid) {
  const struct dmi_settings settings = {.survive = true, .dead_after = 1};
  struct dmi_member *m = make();
  struct dmi_pack body, made;
  dmi_member_start_join(m, &out);
  dmi_member_connected(m, DMI_NET_TEMP, &out);
  for (int i = 0; i < 2; i++) { /* the view that the others get, then the one with all members */
    struct dmi_pack *view = i ? &body : &made;
    dmi_pack_init(view);
    if (i) {
      dmi_pack_raw(view, program_id, sizeof(program_id));
      dmi_pack_u32(view, uid);
      dmi_settings_pack(view, &settings);
      dmi_pack_bytes(view, made.bytes, made.len);
    }
    dmi_pack_u64(view, 9);
    dmi_pack_u32(view, 1);
    dmi_pack_u32(view, i ? 4 : 1);
    for (dmi_uid_t other = i ? 1 : uid; other <= (i ? 4 : uid); other++) {
      struct dmi_peer peer = peer_of(other);
      dmi_member_pack_peer(view, &peer);
    }
    dmi_pack_u32(view, 0);
  }
  dmi_pack_free(&made);
  assert_true(give(m, DMI_NET_TEMP, DMI_CTL_ACCEPT, 1, &body));
  dmi_member_viewed(m, &out);
  assert_true(give(m, 1, DMI_CTL_JOINED, 0, NULL));
  assert_true(give(m, 1, DMI_CTL_OPEN, 0, NULL));
  return m;
}

/* The others have agreed that `lost` is gone, and who the coordinator is. */
static void crash(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator, dmi_uid_t lost) {
  struct dmi_pack body;
  struct dmi_slice slice;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, coordinator);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, lost);
  dmi_pack_u32(&body, 0);
  dmi_pack_u8(&body, 2);
  slice = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  dmi_member_agreed(m, &slice, true, &out);
  dmi_slice_drop(&slice);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_member_check(m);
}

/* STATE of a welcomed member that has not asked to leave, and is busy. */
static void give_state(struct dmi_member *m, dmi_uid_t from, uint64_t number) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_JOINED);
  dmi_pack_u8(&body, DMI_STATE_OPENED);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
  assert_true(give(m, from, DMI_CTL_BUSY, 1, NULL));
}

/* The coordinator has STATE of all: until RESUME. */
static void recover(struct dmi_member *m, uint64_t number) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(m, &num);
  dmi_member_recovered(m, number, &out);
  for (uint32_t i = 0; i < num; i++) {
    if (peers[i].uid != 2) assert_true(give_number(m, peers[i].uid, DMI_CTL_READY, number));
  }
  assert_non_null(sent(3, DMI_CTL_RESUME));
}

/* uid 2 is the coordinator, as 1 was lost; 3 and 4 are there. */
static struct dmi_member *successor(void) {
  struct dmi_member *m = member(2);
  crash(m, 10, 2, 1);
  give_state(m, 3, 10);
  give_state(m, 4, 10);
  recover(m, 10);
  return m;
}

static void end(struct dmi_member *m) {
  dmi_member_free(m);
  dmi_mout_free(&out);
}

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
  assert_int_equal(ask_thread(m, 3, 4, 4), -1);
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  act = sent(3, DMI_CTL_RESULT);
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_ELOST);
  end(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_of_the_lost),
      cmocka_unit_test(test_thread_asked_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
