/*
 * member_crash.h - what tests of membership behind a loss share: one member is real; of the others
 * there are only the messages that they would send.
 *
 * Included after cmocka.h.
 */
#ifndef MEMBER_CRASH_H
#define MEMBER_CRASH_H

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "member_one.h"
#include "msg/wire.h"

static struct dmi_mout out;

/* ---- Surroundings: an agreement that says yes ------------------------------------------------ */

static inline void start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
}

static bool takes = true; /* the views that a coordinator makes */

static inline bool take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
  return takes;
}

static inline void change(void *arg, const struct dmi_pulse_view *view) {
  (void)arg, (void)view;
}

static bool leases = true; /* what the agreement says: everybody has got one of this process */

static inline bool leased(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return leases;
}

static const struct dmi_member_survive survive = {.start = start,
                                                  .take = take,
                                                  .may_change = agree_may_change,
                                                  .change = change,
                                                  .tie = agree_tie,
                                                  .all_taken = agree_all_taken,
                                                  .leased = leased};

/* ---- What comes, and what goes --------------------------------------------------------------- */

static inline struct dmi_mact *sent(dmi_uid_t to, enum dmi_msg_type type) {
  return find_send(&out, to, type);
}

static inline bool give_flagged(struct dmi_member *m, uint32_t from, enum dmi_msg_type type,
                                uint64_t op, uint16_t flags, struct dmi_pack *body) {
  return give_member(m, from, type, op, flags, body, &out);
}

static inline bool give(struct dmi_member *m, uint32_t from, enum dmi_msg_type type, uint64_t op,
                        struct dmi_pack *body) {
  return give_flagged(m, from, type, op, 0, body);
}

static inline bool give_number(struct dmi_member *m, dmi_uid_t from, enum dmi_msg_type type,
                               uint64_t number) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  if (type == DMI_CTL_VIEW_TAKEN) dmi_pack_u8(&body, 0);
  if (type == DMI_CTL_RESUME) dmi_pack_u32(&body, 0); /* why others have ended */
  return give(m, from, type, 0, &body);
}

static inline struct dmi_peer peer_of(dmi_uid_t uid) {
  return (struct dmi_peer){.uid = uid,
                           .dmi_id = {uid - 1},
                           .voter = true,
                           .info = {.cores = 1, .memory = 1, .host = "h"}};
}

/* What the process that is lost has told this one of its end; NULL: nothing. */
static const char *cause_told;

static inline const char *cause(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return cause_told;
}

static inline struct dmi_member *make(void) {
  struct dmi_member_env env = {
      .connected = connected, .addrs = addrs, .cause = cause, .survive = &survive};
  struct dmi_node_info info = {.cores = 4, .memory = 1000, .host = "here"};
  dmi_mout_clear(&out);
  return dmi_member_new(&env, &info, &(struct dmi_addr){.port = 7880});
}

/* The process with uid `uid` of four, a member since view 9; the coordinator is uid 1. */
static inline struct dmi_member *member(dmi_uid_t uid) {
  struct dmi_member *m = make();
  const struct dmi_settings settings = {.survive = true, .dead_after = 5};
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
      dmi_pack_bytes(view, "", 0); /* arguments of DMI_main */
      dmi_pack_u64(view, 7);       /* the last crash view */
      dmi_pack_u32(view, 2000);    /* a coordinator begins with this uid behind the next one */
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
  assert_int_equal(m->last_crash, 7);
  dmi_member_viewed(m, &out);
  assert_true(give(m, 1, DMI_CTL_JOINED, 0, NULL));
  assert_true(give(m, 1, DMI_CTL_OPEN, 0, NULL));
  return m;
}

/* The others have agreed that `num` are gone, and who the coordinator is. */
static inline void agree(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator,
                         const dmi_uid_t *lost, uint32_t num) {
  struct dmi_pack body;
  struct dmi_slice slice;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, coordinator);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, num);
  for (uint32_t i = 0; i < num; i++) {
    dmi_pack_u32(&body, lost[i]);
    dmi_pack_u32(&body, 0);
    dmi_pack_u8(&body, 2);
  }
  slice = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  dmi_member_agreed(m, &slice, true, &out);
  dmi_slice_drop(&slice);
}

static inline void crash_all(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator,
                             const dmi_uid_t *lost, uint32_t num) {
  agree(m, number, coordinator, lost, num);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_member_check(m);
}

static inline void crash(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator,
                         dmi_uid_t lost) {
  crash_all(m, number, coordinator, &lost, 1);
}

/* The error of the call that has ended. */
static inline int result(void) {
  const struct dmi_mact *act = find_action(&out, DMI_MACT_RESULT);
  assert_non_null(act);
  return act->error;
}

/* An ordinary view of coordinator 1: one joins (0: nobody), and one has left. */
static inline void give_view(struct dmi_member *m, uint64_t number, dmi_uid_t joins,
                             dmi_uid_t left) {
  const struct dmi_peer peer = peer_of(joins);
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, joins != 0);
  if (joins) dmi_member_pack_peer(&body, &peer);
  dmi_pack_u32(&body, left != 0);
  if (left) {
    dmi_pack_u32(&body, left);
    dmi_pack_u32(&body, 0);
    dmi_pack_u8(&body, 0);
  }
  assert_true(give(m, 1, DMI_CTL_VIEW, m->last_crash, &body));
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
}

/* What a member tells of mappings. */
struct told {
  uint64_t ready, resumed;
  dmi_uid_t lost, heir;
  uint64_t limit, forgotten;
  struct dmi_entry mapping[4];
  dmi_uid_t
      moved_from; /* the home of the first before a recovery; 0: the same, NOBODY: not known */
  struct dmi_adopted adopted;
  dmi_uid_t died; /* who has told it of its end, 0: nobody; and what */
  const char *cause;
};

#define NOBODY UINT32_MAX

static inline void pack_told(struct dmi_pack *body, const struct told *told) {
  uint32_t num = 0;
  while (num < 4 && told->mapping[num].base)
    num++;
  dmi_pack_u64(body, told->limit);
  dmi_pack_u32(body, num);
  for (uint32_t i = 0; i < num; i++) {
    bool moved = i == 0 && told->moved_from;
    dmi_member_pack_mapping(body, &told->mapping[i]);
    dmi_pack_u32(body, !moved                       ? told->mapping[i].home
                       : told->moved_from == NOBODY ? 0
                                                    : told->moved_from);
  }
  dmi_pack_u32(body, told->forgotten != 0);
  if (told->forgotten) dmi_pack_u64(body, told->forgotten);
  dmi_pack_u32(body, told->adopted.base != 0);
  if (told->adopted.base) {
    dmi_member_pack_caller(body, &told->adopted.caller);
    dmi_pack_u64(body, told->adopted.base);
  }
}

/* STATE of a welcomed member that has not asked to leave, and is busy. */
static inline bool try_state_of(struct dmi_member *m, dmi_uid_t from, uint64_t number,
                                const struct told *told) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_JOINED);
  dmi_pack_u8(&body, DMI_STATE_OPENED);
  dmi_pack_u64(&body, 0); /* heir, leaver */
  dmi_pack_u64(&body, told->ready);
  dmi_pack_u64(&body, told->resumed);
  dmi_pack_u32(&body, told->lost ? 1 : 0);
  if (told->lost) {
    dmi_pack_u32(&body, told->lost);
    dmi_pack_u32(&body, told->heir);
  }
  dmi_pack_u32(&body, 0); /* notices */
  dmi_pack_u32(&body, told->died ? 1 : 0);
  if (told->died) {
    dmi_pack_u32(&body, told->died);
    dmi_pack_text(&body, told->cause);
  }
  pack_told(&body, told);
  dmi_pack_u32(&body, 0); /* results */
  return give(m, from, DMI_CTL_STATE, 0, &body);
}

static inline void give_state_of(struct dmi_member *m, dmi_uid_t from, uint64_t number,
                                 const struct told *told) {
  assert_true(try_state_of(m, from, number, told));
}

static inline void give_state(struct dmi_member *m, dmi_uid_t from, uint64_t number) {
  static const struct told nothing;
  give_state_of(m, from, number, &nothing);
  assert_true(give(m, from, DMI_CTL_BUSY, 1, NULL));
}

/* The coordinator has STATE of all: until RESUME. */
static inline void recover(struct dmi_member *m, uint64_t number) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(m, &num);
  dmi_member_recovered(m, number, 0, &out);
  for (uint32_t i = 0; i < num; i++) {
    if (peers[i].uid != 2) assert_true(give_number(m, peers[i].uid, DMI_CTL_READY, number));
  }
  assert_non_null(sent(3, DMI_CTL_RESUME));
}

/* uid 2 is the coordinator, as 1 was lost; 3 and 4 are there. */
static inline struct dmi_member *successor(void) {
  struct dmi_member *m = member(2);
  crash(m, 10, 2, 1);
  give_state(m, 3, 10);
  give_state(m, 4, 10);
  recover(m, 10);
  return m;
}

static inline void end(struct dmi_member *m) {
  dmi_member_free(m);
  dmi_mout_free(&out);
}

/* ---- What it does ---------------------------------------------------------------------------- */

#define A (DMI_FIRST_BASE)
#define B (DMI_FIRST_BASE + (1u << 20))
#define C (DMI_FIRST_BASE + (2u << 20))
#define LIMIT (DMI_FIRST_BASE + ((uint64_t)5 << 40))

/* RECOVER to this process itself. */
static inline const struct dmi_mact *recovers(void) {
  for (uint32_t i = 0; i < out.num; i++) {
    if (out.act[i].type == DMI_MACT_RECOVER) return &out.act[i];
  }
  fail_msg("nothing is recovered");
  return NULL;
}

static inline void answer(struct dmi_member *m, dmi_uid_t from, uint64_t op, int error) {
  struct dmi_msg msg = {.type = DMI_CTL_RESULT};
  msg.member.op = op;
  msg.member.error = error;
  dmi_mout_clear(&out);
  assert_true(dmi_member_message(m, from, &msg, &out));
}

/* A join or leave, as the agreement tells of it. */
static inline void hears(struct dmi_member *m, struct dmi_pack body) {
  struct dmi_slice slice = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  dmi_member_agreed(m, &slice, false, &out);
  dmi_slice_drop(&slice);
}

/* The same, as 1 tells of it. */
static inline void is_told(struct dmi_member *m, struct dmi_pack body) {
  assert_true(give(m, 1, DMI_CTL_VIEW, 1, &body));
}

/* By this view a process leaves. */
static inline void leaves(struct dmi_member *m, uint64_t number, dmi_uid_t uid, dmi_uid_t heir) {
  for (int i = 0; i < 2; i++) {
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u64(&body, number);
    dmi_pack_u32(&body, 1);
    dmi_pack_u32(&body, 0);
    dmi_pack_u32(&body, 1);
    dmi_pack_u32(&body, uid);
    dmi_pack_u32(&body, heir);
    dmi_pack_u8(&body, 0);
    if (i == 0) hears(m, body);
    if (i == 1) is_told(m, body);
  }
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
}

#endif
