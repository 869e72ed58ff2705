/*
 * member_pair.h - two real members in a unit test, which agree on everything at once: `first`
 * starts the program, `second` joins it.
 *
 * Included by tests of membership, after cmocka.h.
 */
#ifndef MEMBER_PAIR_H
#define MEMBER_PAIR_H

#include "member_one.h"

struct one {
  struct dmi_member *m;
  struct dmi_mout out;
  uint32_t other;         /* by which the other one is known here */
  uint32_t starts, takes; /* of the agreement */
  uint64_t changes;
  uint64_t view, ballot; /* of the start */
  uint32_t voters;
  dmi_uid_t voter, tie;
  uint32_t settings; /* actions SETTINGS */
  int result;        /* of the last call; -1: none */
  int stopped;       /* the status of STOPPING; -1: none */
  dmi_uid_t stopper;
  struct dmi_notice notice; /* that the last call brought */
};

static struct one first, second;

/* ---- The agreement --------------------------------------------------------------------------- */

static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct one *one = arg;
  one->starts++;
  one->view = view->number;
  one->ballot = ballot;
  one->tie = view->tie;
  one->voters = 0;
  for (uint32_t i = 0; i < view->num; i++) {
    one->voters += view->members[i].voter;
    if (view->members[i].voter) one->voter = view->members[i].uid;
  }
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  (void)view, (void)ballot;
  ((struct one *)arg)->takes++;
  return true;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  (void)view;
  ((struct one *)arg)->changes++;
}

static const struct dmi_member_survive survive = {.start = on_start,
                                                  .take = on_take,
                                                  .may_change = agree_may_change,
                                                  .change = on_change,
                                                  .tie = agree_tie,
                                                  .all_taken = agree_all_taken,
                                                  .leased = agree_leased};

/* ---- Two members ----------------------------------------------------------------------------- */

static inline void make(struct one *one, bool survives) {
  const struct dmi_node_info info = {.cores = 1, .memory = 1000, .host = "h"};
  const struct dmi_member_env env = {
      .connected = connected,
      .addrs = addrs,
      .survive = &survive,
      .survive_arg = one,
      .main_lost = DMI_MAIN_ENDS,
      .settings = {.survive = survives, .dead_after = 60},
      .surviving = {.survive = true, .dead_after = 5, .trust_refused = true}};
  memset(one, 0, sizeof(*one));
  one->result = one->stopped = -1;
  one->other = DMI_NET_TEMP;
  one->m = dmi_member_new(&env, &info, &(struct dmi_addr){.port = 7880});
}

static inline void carry(struct one *one, struct one *to) {
  struct dmi_mout out = one->out;
  dmi_mout_init(&one->out);
  for (uint32_t i = 0; i < out.num; i++) {
    struct dmi_mact *act = &out.act[i];
    if (act->type == DMI_MACT_RENAME) one->other = act->uid;
    if (act->type == DMI_MACT_SETTINGS) one->settings++;
    if (act->type == DMI_MACT_RESULT) {
      one->result = act->error;
      if (act->notice_num) one->notice = act->notices[0];
    }
    if (act->type == DMI_MACT_STOPPING) {
      one->stopped = (int)act->value;
      one->stopper = act->uid;
    }
    if (act->type == DMI_MACT_SEND && to)
      assert_true(dmi_member_message(to->m, to->other, &act->msg, &to->out));
    if (act->type == DMI_MACT_VIEW) dmi_member_viewed(one->m, &one->out);
  }
  dmi_mout_free(&out);
}

/* Until nothing is left to do. */
static inline void settle(void) {
  while (first.out.num || second.out.num) {
    carry(&first, second.m ? &second : NULL);
    if (second.m) carry(&second, &first);
  }
}

/* The first process has begun, and perhaps the second one joined. */
static inline void begin(bool survives, bool joins) {
  memset(&second, 0, sizeof second);
  make(&first, survives);
  dmi_member_set_args(first.m, "prog", 5);
  dmi_member_start_first(first.m, program_id, &first.out);
  settle();
  if (!joins) return;
  make(&second, false);
  dmi_member_start_join(second.m, &second.out);
  dmi_mout_clear(&second.out);
  dmi_member_connected(second.m, DMI_NET_TEMP, &second.out);
  settle();
  assert_int_equal(dmi_member_uid(second.m), 2);
}

static inline void end(void) {
  dmi_member_free(first.m);
  dmi_member_free(second.m);
  dmi_mout_free(&first.out);
  dmi_mout_free(&second.out);
}

#endif
