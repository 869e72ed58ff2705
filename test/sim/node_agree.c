/*
 * node_agree.c - the agreement on who goes on (core/pulse.h), as an oracle: it decides one history
 * of views, and each process hears of it when it likes, in order.
 *
 * Whoever leads may be another process than before, although that one lives; a join or leave that
 * no living process has taken may be given up.  crash_sim shows that the real agreement keeps to
 * such histories.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

/* ---- The history of views ------------------------------------------------------------------- */

static uint64_t newest(const struct sim *sim) {
  return sim->agreed.num - 1;
}

static struct sim_agreed *newest_view(const struct sim *sim) {
  return &sim->agreed.at[newest(sim)];
}

static const struct dmi_pulse_member *member_of(const struct sim_agreed *view, uint32_t uid) {
  for (uint32_t i = 0; i < view->num; i++) {
    if (view->member[i].uid == uid) return &view->member[i];
  }
  return NULL;
}

static struct sim_agreed *add_view(struct sim *sim, const struct dmi_pulse_view *from) {
  struct sim_agreed *view;
  while (sim->agreed.num < from->number) /* the first one need not be number 0 */
    (void)DMI_LIST_ADD(&sim->agreed);
  view = DMI_LIST_ADD(&sim->agreed);
  view->coordinator = from->coordinator;
  view->num = from->num;
  view->member = calloc(from->num + 1, sizeof(*view->member));
  if (!view->member) abort();
  memcpy(view->member, from->members, from->num * sizeof(*view->member));
  if (from->body.len) view->body = dmi_slice_copy(from->body.ptr, from->body.len);
  return view;
}

static void free_view(struct sim_agreed *view) {
  dmi_slice_drop(&view->body);
  free(view->member);
}

void sim_agree_fini(struct sim *sim) {
  for (uint32_t i = 0; i < sim->agreed.num; i++)
    free_view(&sim->agreed.at[i]);
  free(sim->agreed.at);
}

/* ---- What membership tells it, and asks ----------------------------------------------------- */

/* Was it removed before it heard that it was accepted? */
static bool is_removed(const struct sim *sim, const struct dmi_pulse_view *view, uint32_t uid) {
  for (uint64_t i = view->number + 1; i < sim->agreed.num; i++) {
    if (!member_of(&sim->agreed.at[i], uid)) return true;
  }
  return false;
}

static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct node *node = arg;
  struct sim *sim = node->sim;
  const struct sim_agreed *made;
  if (!sim->agreed.num) add_view(sim, view)->ballot = ballot;
  made = view->number < sim->agreed.num ? &sim->agreed.at[view->number] : NULL;
  node->heard = view->number;
  if (view->num == 1) node->all_taken = view->number;
  node->started = true;
  /* The view that has accepted it was given up, or it is in none any more. */
  if (!made || made->crash || made->ballot != ballot || is_removed(sim, view, node->m->uid)) {
    node->astray = node->no_lease = true; /* nobody has given it one */
    sim_pause_one(node);
  }
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct node *node = arg;
  const struct sim_agreed *made;
  if (view->number != node->heard + 1 || view->number >= node->sim->agreed.num) return false;
  made = &node->sim->agreed.at[view->number];
  if (made->crash || made->ballot != ballot) return false;
  node->heard = view->number;
  return true;
}

static uint64_t on_may_change(void *arg) {
  struct node *node = arg;
  struct sim *sim = node->sim;
  bool well = !node->no_lease && node->all_taken == newest(sim) &&
              !atomic_load(&node->core.paused) &&
              (!sim->agreement->missing(sim) || rng_once_in(&sim->rng, 2));
  if (node->heard == newest(sim) && !node->astray && well) return sim->ballot + 1;
  node->change_refused = true;
  return 0;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  struct node *node = arg;
  struct sim *sim = node->sim;
  if (view->number != sim->agreed.num) {
    sim_bad(sim, "p%u makes view %llu, which was decided on", node->uid,
            (unsigned long long)view->number);
    return;
  }
  add_view(sim, view)->ballot = sim->ballot + 1;
  node->heard = view->number;
}

static uint32_t on_tie(void *arg) {
  return newest_view(((struct node *)arg)->sim)->coordinator;
}

static void on_all_taken(void *arg, uint64_t number) {
  ((struct node *)arg)->all_taken = number;
}

static bool on_leased(void *arg, dmi_uid_t uid) {
  (void)arg, (void)uid;
  return true;
}

static const struct dmi_member_survive survive = {.start = on_start,
                                                  .take = on_take,
                                                  .may_change = on_may_change,
                                                  .change = on_change,
                                                  .tie = on_tie,
                                                  .all_taken = on_all_taken,
                                                  .leased = on_leased};

/* ---- Deciding ------------------------------------------------------------------------------- */

/* It goes on, if it is a member. */
static bool goes_on(const struct node *node) {
  return node && node->alive && node->started && !node->no_lease && !node->astray;
}

static bool missing(const struct sim *sim) {
  const struct sim_agreed *view = newest_view(sim);
  for (uint32_t i = 0; i < view->num; i++) {
    const struct node *node = sim_by_uid(sim, view->member[i].uid);
    if (node && !goes_on(node)) return true;
  }
  return false;
}

/* One of them was accepted, and ended before it knew. */
static bool unborn(const struct sim *sim) {
  const struct sim_agreed *view = newest_view(sim);
  for (uint32_t i = 0; i < view->num; i++) {
    if (!sim_by_uid(sim, view->member[i].uid)) return true;
  }
  return false;
}

static bool votes(const struct sim *sim, const struct dmi_pulse_member *member) {
  return member->voter && goes_on(sim_by_uid(sim, member->uid));
}

static bool has_voter(const struct sim *sim, const struct sim_agreed *view,
                      const struct node *but) {
  for (uint32_t i = 0; i < view->num; i++) {
    if (view->member[i].uid != but->uid && votes(sim, &view->member[i])) return true;
  }
  return false;
}

static bool is_heard(const struct sim *sim, uint64_t number, const struct node *but) {
  for (uint32_t i = 0; i < sim->nodes; i++) {
    const struct node *node = sim->all[i];
    if (node != but && goes_on(node) && node->heard >= number) return true;
  }
  return false;
}

/* In each view that may be the newest: joins and leaves may be given up. */
static bool spares(const struct sim *sim, const struct node *but) {
  uint64_t number = newest(sim);
  while (has_voter(sim, &sim->agreed.at[number], but)) {
    if (sim->agreed.at[number].crash || number < 2 || is_heard(sim, number, but)) return true;
    number--;
  }
  return false;
}

/* Some process that may lead; 0: none. */
static uint32_t any_voter(struct sim *sim, bool oldest) {
  const struct sim_agreed *view = newest_view(sim);
  uint32_t found = 0, seen = 0;
  for (uint32_t i = 0; i < view->num; i++) {
    uint32_t uid = view->member[i].uid;
    if (!votes(sim, &view->member[i])) continue;
    if (oldest ? !found || uid < found : rng_once_in(&sim->rng, ++seen)) found = uid;
  }
  return found;
}

/* Who leads rather goes on with that; while the role is handed over it may be either. */
static uint32_t choose_coordinator(struct sim *sim) {
  const struct sim_agreed *view = newest_view(sim),
                          *before = view > sim->agreed.at ? view - 1 : view;
  const struct dmi_pulse_member *member = member_of(view, view->coordinator);
  if (before->coordinator && before->coordinator != view->coordinator && rng_once_in(&sim->rng, 2))
    member = member_of(view, before->coordinator);
  if (member && votes(sim, member) && !rng_once_in(&sim->rng, 12)) return member->uid;
  return any_voter(sim, !rng_once_in(&sim->rng, 4));
}

/* The newest join or leave is given up if nobody who goes on has taken it.  Who has taken it ends.
 */
static bool give_up_newest(struct sim *sim) {
  if (newest_view(sim)->crash || newest(sim) < 2 || !rng_once_in(&sim->rng, 2)) return false;
  if (is_heard(sim, newest(sim), NULL)) return false;
  for (uint32_t i = 0; i < sim->nodes; i++) {
    struct node *node = sim->all[i];
    if (node->alive && node->started && node->heard >= newest(sim)) node->astray = true;
  }
  free_view(newest_view(sim));
  sim->agreed.num--;
  sim->totals->given_up_views++;
  return true;
}

static void pack_crash(const struct dmi_pulse_view *view, const struct sim_agreed *base,
                       struct dmi_pack *body) {
  uint32_t removed = base->num - view->num;
  dmi_pack_init(body);
  dmi_pack_u64(body, view->number);
  dmi_pack_u32(body, view->coordinator);
  dmi_pack_u32(body, 0);
  dmi_pack_u32(body, removed);
  for (uint32_t i = 0; i < base->num; i++) {
    bool stays = false;
    for (uint32_t k = 0; k < view->num; k++)
      stays |= view->members[k].uid == base->member[i].uid;
    if (stays) continue;
    dmi_pack_u32(body, base->member[i].uid);
    dmi_pack_u32(body, 0);
    dmi_pack_u8(body, 2);
  }
}

/* Those that are removed and live have no lease.  From now on nobody need hear of them. */
static void doom(struct sim *sim, uint64_t number) {
  const struct sim_agreed *base = &sim->agreed.at[number - 1], *view = &sim->agreed.at[number];
  for (uint32_t i = 0; i < base->num; i++) {
    struct node *node = sim_by_uid(sim, base->member[i].uid);
    if (node && node->alive && !member_of(view, node->uid)) node_doom(node);
  }
}

/* Has somebody not heard of a crash view, or not recovered? */
static bool recovers(const struct sim *sim) {
  for (uint32_t i = 0; sim->last_crash && i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    if (node && node->started &&
        (node->heard < sim->last_crash || node->m->crash || atomic_load(&node->core.frozen)))
      return true;
  }
  return false;
}

/* A crash view.  False: it cannot be made now. */
static bool decide(struct sim *sim) {
  struct dmi_pulse_member *member;
  struct dmi_pulse_view view = {0};
  struct sim_agreed *made;
  struct dmi_pack body;
  bool first = !recovers(sim);
  while (give_up_newest(sim))
    ;
  view.number = sim->agreed.num;
  view.coordinator = choose_coordinator(sim);
  if (!view.coordinator) return false;
  member = calloc(newest_view(sim)->num + 1, sizeof(*member));
  if (!member) abort();
  for (uint32_t i = 0; i < newest_view(sim)->num; i++) {
    struct dmi_pulse_member *of = &newest_view(sim)->member[i];
    if (goes_on(sim_by_uid(sim, of->uid))) member[view.num++] = *of;
  }
  view.members = member;
  pack_crash(&view, newest_view(sim), &body);
  view.body = dmi_pack_slice(&body);
  sim->ballot++;
  made = add_view(sim, &view);
  made->crash = true;
  made->ballot = sim->ballot;
  sim->last_crash = view.number;
  sim->totals->crash_views++;
  sim->totals->second_crashes += !first;
  sim_log(sim, "crash view %llu: %u members, coordinator p%u", (unsigned long long)view.number,
          view.num, view.coordinator);
  dmi_slice_drop(&view.body);
  free(member);
  doom(sim, view.number);
  return true;
}

/* ---- Hearing of it -------------------------------------------------------------------------- */

static bool hear(struct node *node) {
  struct sim *sim = node->sim;
  const struct sim_agreed *view;
  struct dmi_msg msg;
  if (!node->started || node_frozen(node) || node->heard >= sim->last_crash || node->no_lease)
    return false;
  view = &sim->agreed.at[++node->heard];
  if (view->crash && !member_of(view, node->uid)) { /* it has begun since */
    node_doom(node);
    return true;
  }
  msg = (struct dmi_msg){.body = {.ptr = view->body.ptr, .len = view->body.len}};
  (void)node_input(node,
                   &(struct dmi_input){.type = DMI_IN_AGREED, .msg = &msg, .yes = view->crash});
  return true;
}

/* It was refused, and would not be now. */
static bool change_again(struct node *node) {
  if (!node->change_refused || node->heard != newest(node->sim) || node_frozen(node) ||
      atomic_load(&node->core.paused) || node->no_lease)
    return false;
  node->change_refused = false;
  (void)node_input(node, &(struct dmi_input){.type = DMI_IN_MAY_CHANGE});
  return true;
}

static bool hear_some(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[(start + i) % SIM_LIVING];
    if (!node) continue;
    if (node->astray) {
      node_doom(node);
      return true;
    }
    if (hear(node) || change_again(node)) return true;
  }
  return false;
}

static bool calm(const struct sim *sim) {
  return !recovers(sim) && !missing(sim);
}

/* While the program ends: those that may lead have ended with it, and who has heard that it is over
 * is cut off from them. */
static bool cut_off_some(struct sim *sim) {
  if (!sim->ending || any_voter(sim, true)) return false;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (!sim->proc[i] || !sim->proc[i]->over) continue;
    node_cut_off(sim->proc[i]);
    return true;
  }
  return false;
}

static bool step(struct sim *sim, bool forced) {
  if (sim->open.num && calm(sim)) sim_close_calls(sim);
  if (missing(sim) && (forced || rng_once_in(&sim->rng, 8)) && decide(sim)) return true;
  if (forced && unborn(sim) && decide(sim)) return true;
  return hear_some(sim) || (forced && cut_off_some(sim));
}

/* Another process leads, though nobody was lost. */
static void coup(struct sim *sim) {
  (void)decide(sim);
}

const struct sim_agreement sim_agreement_oracle = {.survive = &survive,
                                                   .missing = missing,
                                                   .spares = spares,
                                                   .calm = calm,
                                                   .step = step,
                                                   .coup = coup};
