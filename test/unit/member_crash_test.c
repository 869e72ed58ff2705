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
#include "member_one.h"
#include "msg/wire.h"

static struct dmi_mout out;

/* ---- Surroundings: an agreement that says yes ------------------------------------------------ */

static void start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
}

static bool takes = true; /* the views that a coordinator makes */

static bool take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)arg, (void)view, (void)ballot;
  return takes;
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
  return find_send(&out, to, type);
}

static bool give_flagged(struct dmi_member *m, uint32_t from, enum dmi_msg_type type, uint64_t op,
                         uint16_t flags, struct dmi_pack *body) {
  return give_member(m, from, type, op, flags, body, &out);
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
static void agree(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator,
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

static void crash_all(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator,
                      const dmi_uid_t *lost, uint32_t num) {
  agree(m, number, coordinator, lost, num);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_member_check(m);
}

static void crash(struct dmi_member *m, uint64_t number, dmi_uid_t coordinator, dmi_uid_t lost) {
  crash_all(m, number, coordinator, &lost, 1);
}

/* The error of the call that has ended. */
static int result(void) {
  const struct dmi_mact *act = find_action(&out, DMI_MACT_RESULT);
  assert_non_null(act);
  return act->error;
}

/* An ordinary view of coordinator 1: one joins (0: nobody), and one has left. */
static void give_view(struct dmi_member *m, uint64_t number, dmi_uid_t joins, dmi_uid_t left) {
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
};

#define NOBODY UINT32_MAX

static void pack_told(struct dmi_pack *body, const struct told *told) {
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
static void give_state_of(struct dmi_member *m, dmi_uid_t from, uint64_t number,
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
  pack_told(&body, told);
  dmi_pack_u32(&body, 0); /* results */
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

static void give_state(struct dmi_member *m, dmi_uid_t from, uint64_t number) {
  static const struct told nothing;
  give_state_of(m, from, number, &nothing);
  assert_true(give(m, from, DMI_CTL_BUSY, 1, NULL));
}

/* The coordinator has STATE of all: until RESUME. */
static void recover(struct dmi_member *m, uint64_t number) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(m, &num);
  dmi_member_recovered(m, number, 0, &out);
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

/* ---- Mappings -------------------------------------------------------------------------------- */

#define A (DMI_FIRST_BASE)
#define B (DMI_FIRST_BASE + (1u << 20))
#define C (DMI_FIRST_BASE + (2u << 20))
#define LIMIT (DMI_FIRST_BASE + ((uint64_t)5 << 40))

/* RECOVER to this process itself. */
static const struct dmi_mact *recovers(void) {
  for (uint32_t i = 0; i < out.num; i++) {
    if (out.act[i].type == DMI_MACT_RECOVER) return &out.act[i];
  }
  fail_msg("nothing is recovered");
  return NULL;
}

static struct dmi_entry looked_up(struct dmi_member *m, uint64_t addr) {
  const struct dmi_entry *found = dmi_directory_find(m->coord, addr);
  return found ? *found : (struct dmi_entry){0};
}

/* The directory is made of what the members know: A's home lives, B's was the lost coordinator; C
 * is known to one that has forgotten it, and is unmapped.  The heir of B, which does not know it,
 * is told. */
static void test_directory_made_anew(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_mact *act;
  const struct told three = {.limit = LIMIT,
                             .mapping = {{A, 4096, 2, 3, 0}, {B, 64, 9, 1, 5}, {C, 8, 1, 4, 0}}},
                    four = {.limit = A, .forgotten = C, .mapping = {{A, 4096, 2, 3, 0}}};
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  assert_true(give(m, 3, DMI_CTL_BUSY, 1, NULL));
  give_state_of(m, 4, 10, &four);
  act = recovers();
  assert_int_equal(act->removed_num, 1);
  assert_int_equal(act->removed[0].uid, 1);
  assert_int_equal(act->removed[0].heir, 2);
  assert_int_equal(act->mapping_num, 2); /* and the allocator's */
  assert_true(act->mappings[0].base == B && act->mappings[0].tag == 5);
  assert_int_equal(act->mappings[0].home, 1);
  assert_int_equal(act->mappings[1].home, 1);
  assert_true(m->limit > LIMIT);
  recover(m, 10);
  assert_int_equal(looked_up(m, A).home, 3);
  assert_int_equal(looked_up(m, B).home, 2);
  assert_int_equal(looked_up(m, C).base, 0);
  assert_non_null(sent(3, DMI_CTL_FORGET));
  assert_non_null(sent(4, DMI_CTL_FORGET));
  assert_true(m->coord->next_base >= LIMIT);
  end(m);
}

/* STATE of one that is leaving. */
static void give_state_of_leaver(struct dmi_member *m, uint32_t from, uint32_t heir,
                                 const struct told *told) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 10);
  dmi_pack_u8(&body, DMI_PHASE_DRAINING);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED);
  dmi_pack_u32(&body, heir);
  dmi_pack_u32(&body, 0);
  dmi_pack_u64(&body, 0); /* READY, resumed; heirs, notices */
  dmi_pack_u64(&body, 0);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 0);
  pack_told(&body, told);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* The mappings in the RECOVER to `uid`: their number. */
static uint32_t told_mappings(uint32_t uid, struct dmi_unpack *body) {
  struct dmi_mact *act = sent(uid, DMI_CTL_RECOVER);
  assert_non_null(act);
  dmi_unpack_init(body, &act->msg.body);
  for (int i = 0; i < 3; i++)
    (void)dmi_unpack_u64(body); /* view; what is carried; number of those that are lost, uid 1 */
  (void)dmi_unpack_u32(body);   /* its heir */
  (void)dmi_unpack_u64(body);   /* limit */
  return dmi_unpack_count(body, DMI_MAPPING_BYTES);
}

/* The last one is `*entry`. */
static uint32_t recover_tells(uint32_t uid, struct dmi_entry *entry) {
  struct dmi_unpack body;
  uint32_t num = told_mappings(uid, &body);
  for (uint32_t i = 0; i < num; i++)
    dmi_member_unpack_mapping(&body, entry);
  return num;
}

/* The home of A; 0: RECOVER does not say. */
static dmi_uid_t home_told(uint32_t uid) {
  struct dmi_unpack body;
  for (uint32_t num = told_mappings(uid, &body); num; num--) {
    struct dmi_entry entry;
    dmi_member_unpack_mapping(&body, &entry);
    if (entry.base == A) return entry.home;
  }
  return 0;
}

/* 3 has got the home of A from the lost 1; 4 still takes 1 for it, and is told. */
static void test_home_that_moved(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 3, 0}}},
                    four = {.mapping = {{A, 4096, 2, 1, 0}}};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 4, 10, &four);
  give_state_of(m, 3, 10, &three);
  assert_int_equal(recover_tells(4, &entry), 1);
  assert_true(entry.base == A);
  assert_int_equal(entry.home, 3);
  assert_int_equal(looked_up(m, A).home, 3);
  end(m);
}

static bool one_mapping(void *entry, uint64_t above, struct dmi_entry *next, dmi_uid_t *before) {
  *next = *(const struct dmi_entry *)entry;
  *before = next->home;
  return above < next->base;
}

/* 3 has taken the crash view before the answer to its DMI_mmap came; this process has looked the
 * mapping up, and stays the coordinator: 3 is its home, though it does not say so. */
static void test_home_that_is_told(void **state) {
  struct dmi_member *m = successor();
  struct dmi_entry mapping;
  struct dmi_pack body;
  (void)state;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, 2);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  assert_int_equal(m->coord->mappings.num, 1);
  mapping = m->coord->mappings.at[0];
  assert_int_equal(mapping.home, 3);
  m->env.next_mapping = one_mapping;
  m->env.mapping_arg = &mapping;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  assert_int_equal(looked_up(m, mapping.base).home, 3);
  end(m);
}

static struct dmi_mact *again(struct dmi_member *m, dmi_uid_t from, enum dmi_msg_type type,
                              uint64_t a, uint64_t b) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, a);
  dmi_pack_u64(&body, b);
  if (type == DMI_CTL_MMAP) dmi_pack_u64(&body, 0);
  assert_true(give_flagged(m, from, type, 77, DMI_F_AGAIN, &body));
  return sent(from, DMI_CTL_RESULT);
}

/* Calls that the lost coordinator had begun, or completed. */
static void test_calls_again(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.forgotten = C,
                             .mapping = {{A, 4096, 2, 3, 0}},
                             .adopted = {{4, 77}, A}},
                    four = {.mapping = {{C, 8, 1, 3, 0}}};
  struct dmi_mact *act;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of(m, 4, 10, &four);
  assert_true(give(m, 3, DMI_CTL_BUSY, 1, NULL));
  dmi_member_recovered(m, 10, 0, &out);
  assert_null(again(m, 4, DMI_CTL_MMAP, 4096, 2));
  assert_null(again(m, 4, DMI_CTL_MUNMAP, C, 0));
  assert_true(give_number(m, 3, DMI_CTL_READY, 10));
  assert_true(give_number(m, 4, DMI_CTL_READY, 10));
  act = sent(4, DMI_CTL_RESULT); /* of MMAP: it is not done twice */
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_OK);
  assert_int_equal(m->coord->mappings.num, 1);
  assert_int_equal(m->coord->forgets.num, 1); /* MUNMAP waits for FORGOT of all */
  assert_int_equal(m->coord->forgets.at[0].caller.uid, 4);
  end(m);
}

static void map_much(struct dmi_member *m) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, (uint64_t)1 << 40);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  assert_null(sent(3, DMI_CTL_RESULT));
}

/* ... also if one that has not answered ends; its answer may come behind EXIT. */
static void test_reserve_and_exit(void **state) {
  struct dmi_member *m = successor();
  (void)state;
  map_much(m);
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, m->limit));
  dmi_coord_find(m->coord, 4)->life = DMI_LIFE_EXITING;
  assert_true(give_number(m, 4, DMI_CTL_RESERVED, m->limit));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give(m, 4, DMI_CTL_EXITED, 0, NULL));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  end(m);
}

/* Addresses beyond what all members know are given when they know it. */
static void test_reserve(void **state) {
  struct dmi_member *m = successor();
  struct dmi_mact *act;
  uint64_t limit = m->coord->limit;
  (void)state;
  map_much(m);
  act = sent(4, DMI_CTL_RESERVE);
  assert_non_null(act);
  assert_true(m->limit > limit);
  limit = m->limit;
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, limit));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give_number(m, 4, DMI_CTL_RESERVED, limit));
  act = sent(3, DMI_CTL_RESULT);
  assert_non_null(act);
  assert_int_equal(act->msg.member.error, DMI_OK);
  assert_true(m->coord->next_base <= limit);
  end(m);
}

/* The homes that 3 and 4 are told of A, 1 being lost, when they say this; 0: none. */
static void homes_told(const struct told *three, const struct told *four, dmi_uid_t told[2],
                       dmi_uid_t home) {
  struct dmi_member *m = member(2);
  m->resumed = 7;
  crash(m, 10, 2, 1);
  give_state_of(m, 4, 10, four);
  give_state_of(m, 3, 10, three);
  for (uint32_t i = 0; i < 2; i++)
    told[i] = home_told(3 + i);
  assert_int_equal(looked_up(m, A).home, home);
  end(m);
}

/* In a recovery before this one the home of A has moved from the lost 1 to 3. 4 takes an earlier
 * one for it, and must report its pages: so the home moves once more, unless some have resumed. */
static void test_home_moved_in_a_void_recovery(void **state) {
  struct told three = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 3, 0}}};
  struct told four = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 2, 0}}};
  dmi_uid_t told[2];
  (void)state;
  three.moved_from = 1;
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[0], 0);
  assert_int_equal(told[1], 1);
  three.ready = 8; /* one that 4 and 2 were not ready in */
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[1], 1);
  four.resumed = 8;
  homes_told(&three, &four, told, 3);
  assert_int_equal(told[0], 0);
  assert_int_equal(told[1], 3);
}

/* ... and 3 had not known the mapping then.  It is not lost with those that told it. */
static void test_home_that_was_not_known(void **state) {
  struct told three = {.resumed = 7, .lost = 1, .heir = 3, .mapping = {{A, 4096, 2, 3, 0}}};
  const struct told alone = {.resumed = 7, .lost = 1, .heir = 3},
                    knows = {.resumed = 7, .mapping = {{A, 4096, 2, 1, 0}}};
  dmi_uid_t told[2];
  (void)state;
  three.moved_from = NOBODY;
  homes_told(&three, &knows, told, 3);
  assert_int_equal(told[0], 1); /* it is arriving there, so it stays */
  assert_int_equal(told[1], 0);
  homes_told(&three, &alone, told, 3);
  assert_int_equal(told[0], 0);
}

/* 1 was handing A over to 3, as 4 has heard, and is lost; nothing of that has arrived at 3. */
static void test_home_that_never_came(void **state) {
  const struct told three = {.resumed = 7}, four = {.mapping = {{A, 4096, 2, 3, 0}}};
  dmi_uid_t told[2];
  (void)state;
  homes_told(&three, &four, told, 2);
  assert_int_equal(told[1], 1);
}

/* The directory has A, whose home is 4, and nobody else knows it.  2 stays the coordinator; the
 * heir of those that are lost is 3, as 2 has asked to leave. */
static struct dmi_member *with_home(void) {
  struct dmi_member *m = successor();
  *DMI_LIST_ADD(&m->coord->mappings) = (struct dmi_entry){A, 4096, 2, 4, 0};
  m->coord->next_base = B;
  dmi_coord_find(m->coord, 2)->life = DMI_LIFE_CLOSING;
  return m;
}

/* 4 is lost, and another loss comes before 3 has heard that it is the home now: it hears it then.
 */
static void test_heir_that_was_not_told(void **state) {
  struct dmi_member *m = with_home();
  const struct told nothing = {.resumed = 10};
  (void)state;
  for (uint64_t number = 11; number <= 12; number++) {
    if (number == 11) crash(m, number, 2, 4);
    if (number == 12) agree(m, number, 2, NULL, 0), dmi_member_viewed(m, &out);
    give_state_of(m, 3, number, &nothing);
    assert_int_equal(home_told(3), 4);
    assert_int_equal(looked_up(m, A).home, 3);
  }
  recover(m, 12);
  assert_int_equal(looked_up(m, A).home, 3);
  assert_int_equal(m->coord->homes.num, 0);
  end(m);
}

/* 4 leaves, and has begun to hand A over to 3.  While all recover from another loss it is lost,
 * too, and HOME_BEGIN with it: 3 hears of A as the heir of a lost home. */
static void test_home_lost_on_its_way(void **state) {
  struct dmi_member *m = with_home();
  const struct told nothing = {.resumed = 10},
                    four = {.resumed = 10, .mapping = {{A, 4096, 2, 3, 0}}, .moved_from = 4};
  (void)state;
  dmi_coord_find(m->coord, 4)->life = DMI_LIFE_LEAVING;
  dmi_coord_find(m->coord, 4)->heir = 3;
  agree(m, 11, 2, NULL, 0);
  dmi_member_viewed(m, &out);
  give_state_of(m, 3, 11, &nothing);
  give_state_of(m, 4, 11, &four);
  assert_int_equal(looked_up(m, A).home, 3);
  crash(m, 12, 2, 4);
  give_state_of(m, 3, 12, &nothing);
  assert_int_equal(home_told(3), 4);
  end(m);
}

/* A home that was to adopt a mapping is lost: the next one gets other addresses, and no more than
 * all members know. */
static void test_reserve_for_another_home(void **state) {
  struct dmi_member *m = successor();
  struct dmi_adopt *adopt = DMI_LIST_ADD(&m->coord->adopts);
  uint64_t limit = m->coord->limit;
  (void)state;
  *adopt = (struct dmi_adopt){.home = 4, .caller = {3, 77}, .mapping = {A, 4096, 2, 4, 0}};
  m->coord->next_base = limit;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  assert_true(m->coord->next_base == limit);
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_non_null(sent(3, DMI_CTL_RESERVE));
  assert_true(give_number(m, 3, DMI_CTL_RESERVED, m->limit));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  assert_int_equal(sent(3, DMI_CTL_RESULT)->msg.member.error, DMI_OK);
  assert_true(m->coord->next_base > limit && m->coord->next_base <= m->coord->limit);
  end(m);
}

/* 4 leaves with the heir 3, where the home of A has not arrived completely: 3 still takes 4 for it.
 * It is not told: HOME_BEGIN, which is under way, would find a home there. */
static void test_home_on_its_way(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 4, 0}}},
                    four = {.mapping = {{A, 4096, 2, 3, 0}}, .moved_from = 4};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of_leaver(m, 4, 3, &four);
  assert_int_equal(recover_tells(3, &entry), 0);
  assert_int_equal(looked_up(m, A).home, 3);
  end(m);
}

/* 4 leaves with the heir 3, which it takes for the home of A, as all do: the lost 1 had told that
 * in a recovery, and was giving the home to 3, where nothing of it has arrived. */
static void test_home_of_the_same_heir(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.resumed = 7}, four = {.mapping = {{A, 4096, 2, 3, 0}}};
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of(m, 3, 10, &three);
  give_state_of_leaver(m, 4, 3, &four);
  assert_int_equal(home_told(4), 1);
  end(m);
}

/* 3 has left with the heir 4, and takes it for the home of A; but 4 is giving that to 2. */
static void test_home_that_is_handed_on(void **state) {
  struct dmi_member *m = member(2);
  const struct told three = {.mapping = {{A, 4096, 2, 4, 0}}},
                    four = {.mapping = {{A, 4096, 2, 2, 0}}, .moved_from = 4};
  struct dmi_entry entry;
  (void)state;
  crash(m, 10, 2, 1);
  give_state_of_leaver(m, 3, 4, &three);
  give_state_of_leaver(m, 4, 2, &four);
  assert_int_equal(recover_tells(4, &entry), 0);
  assert_int_equal(recover_tells(3, &entry), 1);
  assert_true(entry.base == A && entry.home == 2);
  assert_int_equal(looked_up(m, A).home, 2);
  end(m);
}

/* The place of the message among what was sent. */
static uint32_t place(dmi_uid_t to, enum dmi_msg_type type) {
  const struct dmi_mact *act = sent(to, type);
  assert_non_null(act);
  return (uint32_t)(act - out.act);
}

/* 3 has forgotten A, and learns of it again as the heir of its lost home, before 4 has forgotten
 * it. It is asked once more, and before it resumes. */
static void test_forgotten_and_learnt_again(void **state) {
  struct dmi_member *m = successor();
  const struct told three = {.resumed = 10, .forgotten = DMI_FIRST_BASE}, four = {.resumed = 10};
  struct dmi_pack body;
  uint64_t base;
  (void)state;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 4096);
  dmi_pack_u64(&body, 2);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MMAP, 5, &body));
  base = m->coord->mappings.at[0].base;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, base);
  dmi_pack_u64(&body, 0);
  assert_true(give(m, 3, DMI_CTL_MUNMAP, 6, &body));
  assert_non_null(sent(4, DMI_CTL_FORGET));
  assert_true(give_number(m, 3, DMI_CTL_FORGOT, base));
  crash_all(m, 11, 2, NULL, 0);
  assert_int_equal(base, three.forgotten);
  give_state_of(m, 3, 11, &three);
  give_state_of(m, 4, 11, &four);
  recover(m, 11);
  assert_true(place(3, DMI_CTL_FORGET) < place(3, DMI_CTL_RESUME));
  assert_null(sent(4, DMI_CTL_FORGET)); /* it has still to answer */
  dmi_member_forgot(m, base, &out);
  assert_true(give_number(m, 4, DMI_CTL_FORGOT, base));
  assert_null(sent(3, DMI_CTL_RESULT));
  assert_true(give_number(m, 3, DMI_CTL_FORGOT, base));
  assert_non_null(sent(3, DMI_CTL_RESULT));
  end(m);
}

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

/* The answer to a lookup names a home that this process knows is lost: it is asked again at RESUME.
 */
static void test_lookup_of_a_lost_home(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0}, new = {A, 4096, 2, 3, 0};
  struct dmi_pack body;
  (void)state;
  dmi_member_lookup(m, 5, A, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_int_equal(out.num, 0);
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &new);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].type, DMI_MACT_RESULT);
  assert_int_equal(out.act[0].mapping.home, 3);
  end(m);
}

/* It names a home that has left, or is gone, as this process has heard by the agreement first: it
 * is asked again at once.  It is refused if that answer, too, names one, as the coordinator knows
 * the view by then; and so is a home that was never a member. */
static void test_lookup_of_a_home_that_left(void **state) {
  static const struct {
    dmi_uid_t home;
    bool good;
  } told[] = {{4, true}, {1000, true}, {0, false}, {DMI_NET_TEMP - 1, false}};
  (void)state;
  for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
    struct dmi_member *m = member(2);
    struct dmi_entry old = {A, 4096, 2, told[i].home, 0};
    struct dmi_pack body;
    dmi_member_lookup(m, 5, A, &out);
    dmi_member_find(m, 4)->left = true;
    dmi_pack_init(&body);
    dmi_member_pack_mapping(&body, &old);
    assert_int_equal(give(m, 1, DMI_CTL_RESULT, 5, &body), told[i].good);
    assert_int_equal(out.num, told[i].good);
    if (told[i].good) {
      assert_non_null(sent(1, DMI_CTL_LOOKUP));
      dmi_pack_init(&body);
      dmi_member_pack_mapping(&body, &old);
      assert_false(give(m, 1, DMI_CTL_RESULT, 5, &body));
      assert_int_equal(out.num, 0);
    }
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

/* A view by which 5 joins, as the agreement tells it. */
static void agree_join(struct dmi_member *m, uint64_t number) {
  const struct dmi_peer peer = peer_of(5);
  struct dmi_pack body;
  struct dmi_slice slice;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 1);
  dmi_member_pack_peer(&body, &peer);
  dmi_pack_u32(&body, 0);
  slice = dmi_pack_slice(&body);
  dmi_member_agreed(m, &slice, false, &out);
  dmi_slice_drop(&slice);
}

/* The view behind a crash view overtakes RESUME: 5 must not join while pages are frozen here.  Or
 * there is another crash view: what is before that is taken. */
static void test_view_before_resume(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    struct dmi_member *m = member(2);
    crash(m, 10, 1, 4);
    agree_join(m, 11);
    assert_null(dmi_member_peer(m, 5));
    assert_int_equal(m->view, 10);
    if (again) {
      agree(m, 12, 1, (dmi_uid_t[]){3}, 1);
    } else {
      assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
      assert_int_equal(m->view, 10); /* the pages resume first */
      dmi_member_resumed(m, &out);
    }
    assert_int_equal(m->view, 11);
    dmi_member_viewed(m, &out);
    assert_non_null(dmi_member_peer(m, 5));
    assert_int_equal(m->view, again ? 12 : 11);
    end(m);
  }
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

/* The same, and there is a second loss before RESUME: it is asked once, then. */
static void test_lookup_and_two_losses(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0};
  struct dmi_pack body;
  (void)state;
  dmi_member_lookup(m, 5, A, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  crash(m, 11, 1, 3);
  assert_non_null(sent(1, DMI_CTL_STATE));
  assert_null(sent(1, DMI_CTL_LOOKUP));
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 11));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  end(m);
}

static void answer(struct dmi_member *m, dmi_uid_t from, uint64_t op, int error) {
  struct dmi_msg msg = {.type = DMI_CTL_RESULT};
  msg.member.op = op;
  msg.member.error = error;
  dmi_mout_clear(&out);
  assert_true(dmi_member_message(m, from, &msg, &out));
}

/* The home of what DMI_mmap has made is lost, and nobody else knew the mapping: another is made. */
static void test_mmap_of_a_lost_home(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry old = {A, 4096, 2, 4, 0};
  const struct dmi_mact *asked;
  struct dmi_unpack request;
  struct dmi_pack body;
  (void)state;
  dmi_member_mmap(m, 5, 4096, 2, &out);
  crash(m, 10, 1, 4);
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &old);
  assert_true(give(m, 1, DMI_CTL_RESULT, 5, &body));
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_non_null(sent(1, DMI_CTL_LOOKUP));
  answer(m, 1, 5, DMI_EADDR);
  assert_int_equal(out.num, 1);
  asked = sent(1, DMI_CTL_MMAP);
  assert_non_null(asked);
  dmi_unpack_init(&request, &asked->msg.body);
  assert_int_equal(dmi_unpack_u64(&request), 4096);
  assert_int_equal(dmi_unpack_u64(&request), 2);
  answer(m, 1, 5, DMI_ENOMEM);
  assert_int_equal(out.act[0].type, DMI_MACT_RESULT);
  assert_int_equal(out.act[0].error, DMI_ENOMEM);
  end(m);
}

/* By this view a process leaves. */
static void leaves(struct dmi_member *m, uint64_t number, dmi_uid_t uid, dmi_uid_t heir) {
  struct dmi_slice slice;
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, uid);
  dmi_pack_u32(&body, heir);
  dmi_pack_u8(&body, 0);
  slice = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  dmi_member_agreed(m, &slice, false, &out);
  dmi_slice_drop(&slice);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
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

/* It comes by the agreement. */
static void hears_handover(struct dmi_member *m) {
  struct dmi_pack body = handover();
  struct dmi_slice slice = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  dmi_member_agreed(m, &slice, false, &out);
  dmi_slice_drop(&slice);
  assert_non_null(find_action(&out, DMI_MACT_VIEW));
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_member_check(m);
}

/* From 1 itself. */
static void is_told_handover(struct dmi_member *m) {
  struct dmi_pack body = handover();
  assert_true(give(m, 1, DMI_CTL_VIEW, 1, &body));
}

/* The view came by the agreement, and before it an answer that 1 had sent: that one counts, and
 * only when all that 1 has said is here it hears that this process has taken the view. */
static void test_answer_before_a_handover(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  dmi_member_goodbye(m, 5, peer_of(4).dmi_id, &out);
  hears_handover(m);
  assert_null(sent(1, DMI_CTL_VIEW_TAKEN));
  answer(m, 1, 5, DMI_EBUSY);
  assert_int_equal(result(), DMI_EBUSY);
  is_told_handover(m);
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
    dmi_member_goodbye(m, 5, peer_of(4).dmi_id, &out);
    hears_handover(m);
    crash(m, 11, next, next == 1 ? 2 : 1);
    assert_non_null(sent(next, DMI_CTL_STATE));
    assert_int_equal(sent(next, DMI_CTL_GOODBYE)->msg.flags, DMI_F_AGAIN);
    if (next == 1) answer(m, 1, 5, DMI_EBUSY);
    if (next == 1) assert_int_equal(out.num, 0);
    end(m);
  }
}

/* 1 has said it first, when it was not taken as the agreement was at work. */
static void test_handover_refused_first(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  takes = false;
  is_told_handover(m);
  takes = true;
  assert_null(find_action(&out, DMI_MACT_VIEW));
  hears_handover(m);
  assert_non_null(sent(1, DMI_CTL_VIEW_TAKEN));
  assert_int_equal(dmi_member_coordinator(m), 2);
  end(m);
}

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

/* 3 leaves with the heir 4, as DMI_goodbye has asked for. */
static struct dmi_member *dismissed(void) {
  struct dmi_member *m = member(2);
  dmi_member_goodbye(m, 5, peer_of(3).dmi_id, &out);
  leaves(m, 10, 3, 4);
  return m;
}

/* The coordinator is lost before it has answered, and the next one knows nothing of 3, which has
 * ended; or it ends before that one is asked. */
static void test_goodbye_and_a_loss(void **state) {
  const dmi_uid_t lost[] = {1, 3};
  struct dmi_member *m = dismissed();
  (void)state;
  crash_all(m, 11, 4, lost, 2);
  assert_null(sent(4, DMI_CTL_GOODBYE));
  assert_int_equal(result(), DMI_OK);
  dmi_member_check(m);
  end(m);
  m = dismissed();
  crash(m, 11, 4, 1);
  assert_non_null(sent(4, DMI_CTL_GOODBYE));
  m->unheard = false; /* RECOVER has come */
  answer(m, 4, 5, DMI_EMEMBER);
  assert_int_equal(result(), DMI_OK);
  end(m);
}

/* STATE of one that has left with this heir. */
static void give_state_of_left(struct dmi_member *m, uint32_t from, uint64_t number,
                               uint32_t heir) {
  static const struct told nothing;
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_LEFT);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED | DMI_STATE_LEFT);
  dmi_pack_u32(&body, heir);
  dmi_pack_u32(&body, 0);
  dmi_pack_u64(&body, 0); /* READY, resumed; heirs, notices */
  dmi_pack_u64(&body, 0);
  dmi_pack_u64(&body, 0);
  pack_told(&body, &nothing);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* 3 and 4 have left, and the heir of one is lost, who was that of the other, too: none of them is
 * the heir of one that stays, as it may be gone soon.  And a leaver knows the heir of its heir. */
static void test_heirs_that_have_left(void **state) {
  struct dmi_member *m = member(2);
  (void)state;
  m->heir = 3;
  leaves(m, 10, 3, 1);
  assert_int_equal(m->heir, 1);
  m->heir = 0;
  leaves(m, 11, 4, 3);
  crash(m, 12, 2, 1);
  give_state_of_left(m, 3, 12, 1);
  give_state_of_left(m, 4, 12, 3);
  recover(m, 12);
  assert_int_equal(dmi_coord_find(m->coord, 3)->heir, 2);
  assert_int_equal(dmi_coord_find(m->coord, 4)->heir, 2);
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

/* ---- A heir that is lost --------------------------------------------------------------------- */

static bool leave_go(struct dmi_member *m, dmi_uid_t heir) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, heir);
  return give(m, 1, DMI_CTL_LEAVE_GO, 0, &body);
}

/* The heir is lost while the threads stop: nothing is handed to it. */
static void test_heir_lost_while_stopping(void **state) {
  struct dmi_member *m = member(3);
  (void)state;
  dmi_member_leave_asked(m, &out);
  assert_true(leave_go(m, 4));
  assert_int_equal(m->phase, DMI_PHASE_STOPPING);
  crash(m, 10, 1, 4);
  dmi_mout_clear(&out);
  dmi_member_stopped(m, true, &out);
  assert_int_equal(out.num, 0);
  assert_true(give_number(m, 1, DMI_CTL_RESUME, 10));
  assert_true(leave_go(m, 2));
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].type, DMI_MACT_START_DRAIN);
  assert_int_equal(out.act[0].uid, 2);
  end(m);
}

/* LEAVE_GO with another heir begins the leave anew, as the first one did. */
static void test_leave_begins_anew(void **state) {
  struct dmi_member *m = successor();
  struct dmi_record *leaver = dmi_coord_find(m->coord, 3);
  (void)state;
  leaver->life = DMI_LIFE_LEAVING;
  leaver->heir = 4;
  leaver->no_capacity = true;
  m->coord->capacity_changes = 5;
  crash(m, 11, 2, 4);
  give_state(m, 3, 11);
  recover(m, 11);
  leaver = dmi_coord_find(m->coord, 3);
  assert_non_null(sent(3, DMI_CTL_LEAVE_GO));
  assert_int_equal(leaver->heir, 2);
  assert_false(leaver->no_capacity);
  assert_int_equal(leaver->capacity_changes, m->coord->capacity_changes);
  end(m);
}

/* STATE of one that has asked to leave, and found no memory. */
static void give_state_without_memory(struct dmi_member *m, uint32_t from, uint64_t number) {
  static const struct told nothing;
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_pack_u8(&body, DMI_PHASE_JOINED);
  dmi_pack_u8(&body, DMI_STATE_OPENED | DMI_STATE_ASKED | DMI_STATE_NO_CAPACITY);
  for (int i = 0; i < 4; i++)
    dmi_pack_u64(&body, 0); /* heir, leaver; READY; resumed; heirs, notices */
  pack_told(&body, &nothing);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, from, DMI_CTL_STATE, 0, &body));
}

/* The program is told once more that 3 wants to leave: there may be memory since, and only the lost
 * coordinator would have known. */
static void test_memory_and_a_loss(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    struct dmi_member *m = member(2);
    uint32_t num = 0;
    crash(m, 10, 2, 1);
    if (given) *DMI_LIST_ADD(&m->coord->got) = (struct dmi_got){3, DMI_CLOSE};
    give_state_without_memory(m, 3, 10);
    give_state(m, 4, 10);
    recover(m, 10);
    for (uint32_t i = 0; i < m->coord->notices.num; i++)
      num += m->coord->notices.at[i].uid == 3 && m->coord->notices.at[i].notice.state == DMI_CLOSE;
    assert_int_equal(num, 1);
    end(m);
  }
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

/* The end of the STATE that was sent. */
static struct dmi_known state_sent(dmi_uid_t to) {
  struct dmi_mact *act = sent(to, DMI_CTL_STATE);
  struct dmi_known known = {0};
  struct dmi_unpack body;
  assert_non_null(act);
  dmi_unpack_init(&body, &act->msg.body);
  (void)dmi_unpack_u64(&body); /* view */
  (void)dmi_unpack_u16(&body); /* phase, flags */
  for (int i = 0; i < 3; i++)
    (void)dmi_unpack_u64(&body); /* heir, leaver; READY; resumed */
  for (uint32_t num = dmi_unpack_count(&body, 8); num > 0; num--)
    (void)dmi_unpack_u64(&body); /* heirs */
  for (uint32_t num = dmi_unpack_count(&body, 8); num > 0; num--)
    (void)dmi_unpack_u64(&body); /* notices */
  assert_true(dmi_directory_unpack_state(&known, 2, &body));
  return known;
}

/* What a member remembers of FORGETs and ADOPTs, in the STATE that it sends: until all have
 * answered a FORGET, and until what it has adopted is forgotten. */
static void test_member_remembers(void **state) {
  struct dmi_member *m = member(2);
  const struct dmi_entry mapping = {A, 4096, 2, 2, 0};
  const uint64_t bases[] = {B, C};
  struct dmi_known known = {0};
  struct dmi_pack body;
  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    dmi_pack_init(&body);
    dmi_pack_u64(&body, bases[i]);
    dmi_pack_u64(&body, 7 + i); /* with C: all have answered that of B */
    assert_true(give(m, 1, DMI_CTL_FORGET, 7 + i, &body));
  }
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, &mapping);
  dmi_member_pack_caller(&body, &(struct dmi_caller){4, 77});
  assert_true(give(m, 1, DMI_CTL_ADOPT, 0, &body));
  assert_true(give_number(m, 1, DMI_CTL_RESERVE, LIMIT));
  crash(m, 10, 3, 1);
  known = state_sent(3);
  assert_int_equal(known.forgotten.num, 1);
  assert_true(known.forgotten.at[0] == C);
  assert_int_equal(known.adopted.num, 1);
  assert_true(known.adopted.at[0].base == A && known.adopted.at[0].caller.op == 77);
  assert_true(known.limit == LIMIT);
  dmi_directory_known_free(&known);
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
      cmocka_unit_test(test_directory_made_anew),
      cmocka_unit_test(test_home_that_moved),
      cmocka_unit_test(test_home_that_is_told),
      cmocka_unit_test(test_home_moved_in_a_void_recovery),
      cmocka_unit_test(test_home_that_was_not_known),
      cmocka_unit_test(test_home_that_never_came),
      cmocka_unit_test(test_heir_that_was_not_told),
      cmocka_unit_test(test_home_lost_on_its_way),
      cmocka_unit_test(test_calls_again),
      cmocka_unit_test(test_reserve),
      cmocka_unit_test(test_reserve_and_exit),
      cmocka_unit_test(test_reserve_for_another_home),
      cmocka_unit_test(test_home_on_its_way),
      cmocka_unit_test(test_home_that_is_handed_on),
      cmocka_unit_test(test_home_of_the_same_heir),
      cmocka_unit_test(test_member_remembers),
      cmocka_unit_test(test_lookup_of_a_lost_home),
      cmocka_unit_test(test_lookup_of_a_home_that_left),
      cmocka_unit_test(test_role_for_a_voter),
      cmocka_unit_test(test_end_and_a_loss),
      cmocka_unit_test(test_view_before_resume),
      cmocka_unit_test(test_late_recover),
      cmocka_unit_test(test_uids_of_two_coordinators),
      cmocka_unit_test(test_exit_in_a_recovery),
      cmocka_unit_test(test_joiner_is_told),
      cmocka_unit_test(test_witness),
      cmocka_unit_test(test_carried),
      cmocka_unit_test(test_witness_and_losses),
      cmocka_unit_test(test_loss_told),
      cmocka_unit_test(test_loss_of_an_id_in_use),
      cmocka_unit_test(test_lookup_and_two_losses),
      cmocka_unit_test(test_mmap_of_a_lost_home),
      cmocka_unit_test(test_goodbye_and_a_loss),
      cmocka_unit_test(test_welcome_and_a_loss),
      cmocka_unit_test(test_heirs_that_have_left),
      cmocka_unit_test(test_forgotten_and_learnt_again),
      cmocka_unit_test(test_calls_to_the_next),
      cmocka_unit_test(test_answer_before_a_handover),
      cmocka_unit_test(test_answer_behind_a_loss),
      cmocka_unit_test(test_handover_refused_first),
      cmocka_unit_test(test_given_and_handed_over),
      cmocka_unit_test(test_given_about_the_lost),
      cmocka_unit_test(test_given_is_forgotten),
      cmocka_unit_test(test_leave_begins_anew),
      cmocka_unit_test(test_memory_and_a_loss),
      cmocka_unit_test(test_heir_lost_while_stopping),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
