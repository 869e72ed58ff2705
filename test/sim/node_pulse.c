/*
 * node_pulse.c - the agreement on who goes on as in the product (core/pulse*.c, crash*.c), with
 * --agree: what membership tells it and asks it, and what it decides.
 *
 * node_agree.c is the other one, an oracle.
 */
#include <stdlib.h>
#include <string.h>

#include "core/pulse_int.h"
#include "msg/wire.h"
#include "simulator.h"

#define DEAD_AFTER 1000u /* ms */

/* ---- What was decided ------------------------------------------------------------------------ */

static bool is_in(const struct sim_agreed *view, uint32_t uid) {
  for (uint32_t i = 0; i < view->num; i++) {
    if (view->member[i].uid == uid) return true;
  }
  return false;
}

static bool lives(const struct node *node) {
  return node && node->alive && node->started && !node_is_removed(node);
}

/* From now on its pages are others'. */
static void remove_one(struct node *node, const struct sim_agreed *view) {
  dmi_ms_t lease = dmi_pulse_lease(node->pulse, sim_clock_of(node));
  if (lease && !dmi_pulse_frozen(node->pulse))
    sim_bad(node->sim, "p%u has a lease of %llu ms, and view %llu is decided without it", node->uid,
            (unsigned long long)lease, (unsigned long long)view->number);
  node->sim->totals->removed_alive++;
  node_doom(node);
}

static bool recovers(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (lives(sim->proc[i]) && (sim->proc[i]->m->crash || atomic_load(&sim->proc[i]->core.frozen)))
      return true;
  }
  return false;
}

/* A process has taken this crash view; the first one notes it. */
static void note_view(struct sim *sim, const struct dmi_crash_view *view) {
  struct sim_agreed *made;
  while (sim->agreed.num <= view->number)
    (void)DMI_LIST_ADD(&sim->agreed);
  made = &sim->agreed.at[view->number];
  if (made->crash && made->ballot != view->made)
    sim_bad(sim, "two histories: view %llu", (unsigned long long)view->number);
  if (made->crash) return;
  made->crash = true;
  made->number = view->number;
  made->ballot = view->made;
  made->num = view->num;
  made->member = calloc(view->num + 1, sizeof(*made->member));
  if (!made->member) abort();
  memcpy(made->member, view->members, view->num * sizeof(*made->member));
  sim->totals->crash_views++;
  sim->totals->second_crashes += recovers(sim);
  if (sim->last_crash < view->number) sim->last_crash = view->number;
  sim_log(sim, "crash view %llu: %u members, coordinator p%u", (unsigned long long)view->number,
          view->num, view->coordinator);
  for (uint32_t i = 0; i < sim->nodes; i++) {
    struct node *node = sim->all[i];
    if (lives(node) && !is_in(&sim->agreed.at[view->number], node->m->uid))
      remove_one(node, &sim->agreed.at[view->number]);
  }
}

static void note_views(struct node *node) {
  const struct dmi_crash_chain *chain = &node->pulse->chain;
  for (uint32_t i = 0; i < chain->num; i++) {
    if (chain->at[i].crash) note_view(node->sim, &chain->at[i]);
  }
}

/* Was it given up, or has it been removed, before it heard that it was accepted? */
static bool is_late(const struct sim *sim, uint64_t number, uint32_t uid) {
  for (uint64_t i = number; i < sim->agreed.num; i++) {
    if (sim->agreed.at[i].crash && !is_in(&sim->agreed.at[i], uid)) return true;
  }
  return false;
}

/* ---- Actions --------------------------------------------------------------------------------- */

static void send(struct node *node, struct dmi_pulse_act *act) {
  struct node *to = sim_by_uid(node->sim, act->uid);
  if (act->msg.type > DMI_CTL_PULSE_OK) /* pulses are too many */
    sim_log(node->sim, "p%u says %s to p%u: %llx %llx", node->m->uid, dmi_wire_name(act->msg.type),
            act->uid, (unsigned long long)act->msg.word[0], (unsigned long long)act->msg.word[1]);
  if (to) {
    if (act->msg.type == DMI_CTL_PULSE_OK && act->msg.pulse_ok.left &&
        DMI_BALLOT_UID(node->pulse->promised) == node->m->uid)
      to->was_leased = node->gave_lease = true;
    sim_letter(node, to, (struct sim_letter){.msg = act->msg, .uid = node->m->uid});
    memset(&act->msg, 0, sizeof(act->msg));
  }
}

/* The daemon hears of it when it likes; only that there is no lease is carried out at once. */
static void carry(struct node *node, struct dmi_pulse_out *out) {
  struct sim *sim = node->sim;
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    switch (act->type) {
      case DMI_PULSE_SEND:
        send(node, act);
        break;
      case DMI_PULSE_VIEW:
        *DMI_LIST_ADD(&node->news) = (struct sim_news){act->body, act->crash};
        memset(&act->body, 0, sizeof(act->body));
        break;
      case DMI_PULSE_FREEZE:
        if (!atomic_load(&node->core.paused)) sim_pause_one(node);
        break;
      case DMI_PULSE_END:
        sim_log(sim, "p%u is to end: %s", node->uid, act->text);
        node->gives_up = true;
        break;
      case DMI_PULSE_LOST:
        sim_bad(sim, "LOST although it is to survive");
        break;
      default:
        break;
    }
  }
  dmi_pulse_out_free(out);
  note_views(node);
}

void sim_pulse_tick(struct node *node) {
  struct dmi_pulse_out out = {0};
  dmi_pulse_tick(node->pulse, sim_clock_of(node), &out);
  carry(node, &out);
}

void sim_pulse_letter(struct node *node, const struct sim_letter *letter) {
  struct dmi_pulse_out out = {0};
  dmi_ms_t now = sim_clock_of(node);
  uint32_t from = letter->from->uid;
  switch (letter->what) {
    case SIM_LETTER_PULSE:
      if (!dmi_pulse_message(node->pulse, now, letter->uid, &letter->msg, &out))
        sim_bad(node->sim, "p%u refuses a pulse message of p%u", node->uid, letter->uid);
      break;
    case SIM_LETTER_BROKEN:
      if (from) dmi_pulse_broken(node->pulse, now, from, &out);
      break;
    case SIM_LETTER_DEAD:
      if (from) dmi_pulse_dead(node->pulse, now, from, &out);
      break;
  }
  carry(node, &out);
}

void sim_pulse_broken(struct node *node, uint32_t uid) {
  struct dmi_pulse_out out = {0};
  const struct node *other = sim_by_uid(node->sim, uid);
  if (!node->pulse || !other || !other->killed) return;
  dmi_pulse_broken(node->pulse, sim_clock_of(node), uid, &out);
  carry(node, &out);
}

/* ---- What membership tells it, and asks ------------------------------------------------------ */

static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct node *node = arg;
  struct sim *sim = node->sim;
  const struct dmi_pulse_config config = {
      .self = node->m->uid, .dead_after = DEAD_AFTER, .survive = true};
  struct dmi_pulse_out out = {0};
  node->clock_rate = 0.99 + rng_below(&sim->rng, 20) / 1000.0;
  node->clock_offset = rng_below(&sim->rng, 1000000);
  node->pulse = dmi_pulse_new(&config);
  dmi_pulse_set_break(node->pulse, sim->opt.pulse_break);
  node->started = true;
  node->astray = is_late(sim, view->number, node->m->uid);
  dmi_pulse_start(node->pulse, sim_clock_of(node), view, ballot, &out);
  carry(node, &out);
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct node *node = arg;
  struct dmi_pulse_out out = {0};
  bool takes = dmi_pulse_take(node->pulse, sim_clock_of(node), view, ballot, &out);
  carry(node, &out);
  return takes;
}

static uint64_t on_may_change(void *arg) {
  struct node *node = arg;
  if (dmi_pulse_may_change(node->pulse, sim_clock_of(node))) return dmi_pulse_promised(node->pulse);
  node->change_refused = true;
  return 0;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  struct node *node = arg;
  struct dmi_pulse_out out = {0};
  (void)dmi_pulse_change(node->pulse, sim_clock_of(node), view, &out);
  carry(node, &out);
}

static uint32_t on_tie(void *arg) {
  return dmi_pulse_tie(((struct node *)arg)->pulse);
}

static void on_all_taken(void *arg, uint64_t number) {
  struct node *node = arg;
  struct dmi_pulse_out out = {0};
  dmi_pulse_all_taken(node->pulse, sim_clock_of(node), number, &out);
  carry(node, &out);
}

static bool on_leased(void *arg, dmi_uid_t uid) {
  struct node *node = arg;
  if (dmi_pulse_leased(node->pulse, uid)) return true;
  node->awaits_lease = true;
  return false;
}

static const struct dmi_member_survive survive = {.start = on_start,
                                                  .take = on_take,
                                                  .may_change = on_may_change,
                                                  .change = on_change,
                                                  .tie = on_tie,
                                                  .all_taken = on_all_taken,
                                                  .leased = on_leased};

/* ---- Is all well? ---------------------------------------------------------------------------- */

/* A member that has gone is in the newest view of some process. */
static bool missing(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    const struct dmi_crash_view *top = lives(node) ? dmi_pulse_top(node->pulse) : NULL;
    for (uint32_t k = 0; top && k < top->num; k++) {
      const struct node *other = sim_by_uid(sim, top->members[k].uid);
      if (!lives(other)) return true;
    }
  }
  return false;
}

/* All have the same view, and have recovered. */
static bool calm(const struct sim *sim) {
  const struct dmi_crash_view *first = NULL;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    const struct dmi_crash_view *top;
    if (node && (node->astray || node->gives_up)) return false;
    if (!lives(node)) continue;
    top = dmi_pulse_top(node->pulse);
    if (node->news.num || node->m->crash || atomic_load(&node->core.frozen)) return false;
    if (first && (first->number != top->number || first->made != top->made)) return false;
    first = top;
  }
  return !missing(sim);
}

/* The coordinator hears of all, the others only of it: what they think of each other stays. */
static bool doubts(struct node *node) {
  const struct dmi_pulse *pulse = node->pulse;
  uint32_t coordinator = dmi_pulse_top(node->pulse)->coordinator;
  for (uint32_t i = 0; i < pulse->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &pulse->peers.at[i];
    bool watched = coordinator == pulse->config.self || peer->uid == coordinator;
    if (peer->in && watched && peer->doubt) return true;
  }
  return false;
}

/* A DMI_welcome waits until the process has a lease. */
static bool welcomes(const struct node *node) {
  const struct dmi_coord *c = node->m->coord;
  for (uint32_t i = 0; c && i < c->records.num; i++) {
    if (c->records.at[i].welcomed && c->records.at[i].welcome.uid) return true;
  }
  return false;
}

/* Nothing that has happened so far will change anything any more: pulses go on for ever. */
static bool is_settled(const struct sim *sim) {
  if (!calm(sim) || sim->heals) return false;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    if (!lives(node)) continue;
    if (dmi_pulse_frozen(node->pulse) || atomic_load(&node->core.paused)) return false;
    if (node->pulse->chain.num != 1 || doubts(node)) return false;
    if (node->change_refused && dmi_member_is_coordinator(node->m)) return false;
    if (welcomes(node)) return false;
  }
  return true;
}

/* ---- Who may be lost ------------------------------------------------------------------------- */

static bool stays(const struct sim *sim, uint32_t uid, const struct node *but) {
  const struct node *node = sim_by_uid(sim, uid);
  return lives(node) && node != but && !node->cut && !node->gives_up && !node_frozen(node);
}

/* Do those that are left decide, in this view? */
static bool decides(const struct sim *sim, const struct dmi_crash_view *view,
                    const struct node *but) {
  uint32_t all = 0, yes = 0;
  for (uint32_t i = 0; i < view->num; i++) {
    uint32_t weight = view->members[i].uid == view->tie ? 3 : 2;
    if (!view->members[i].voter) continue;
    all += weight;
    if (stays(sim, view->members[i].uid, but)) yes += weight;
  }
  return 2 * yes > all;
}

static bool spares(const struct sim *sim, const struct node *but) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    if (!lives(node) || node == but) continue;
    for (uint32_t k = 0; k < node->pulse->chain.num; k++) {
      if (!decides(sim, &node->pulse->chain.at[k], but)) return false;
    }
  }
  return true;
}

/* ---- From step to step ----------------------------------------------------------------------- */

static void end_one(struct node *node) {
  struct sim *sim = node->sim;
  sim->totals->gave_up++;
  if (node->noted) {
    node_end_doomed(node);
  } else {
    node_lose(node);
  }
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (lives(sim->proc[i])) return;
  }
  sim->finished = sim->ending = true; /* nobody could go on */
}

static bool hear(struct node *node) {
  struct sim_news news;
  struct dmi_msg msg = {0};
  if (!node->news.num) return false;
  news = node->news.at[0];
  DMI_LIST_DROP(&node->news, 0);
  msg.body = (struct dmi_slice){.ptr = news.body.ptr, .len = news.body.len};
  (void)node_input(node,
                   &(struct dmi_input){.type = DMI_IN_AGREED, .msg = &msg, .yes = news.crash});
  dmi_slice_drop(&news.body);
  return true;
}

static bool may_change_now(struct node *node) {
  if (!node->change_refused || !dmi_pulse_may_change(node->pulse, sim_clock_of(node))) return false;
  node->change_refused = false;
  return true;
}

static bool has_given_lease(struct node *node) {
  if (!node->awaits_lease || !node->gave_lease) return false;
  node->awaits_lease = node->gave_lease = false;
  return true;
}

/* What its pulse thread has for its daemon. */
static bool tell(struct node *node) {
  if (node_frozen(node) || node->carrying) return false;
  if (node->gives_up && node->over) {
    node_cut_off(node);
    return true;
  }
  if (node->gives_up) {
    end_one(node);
    return true;
  }
  if (node->astray && !node->noted) {
    node_doom(node);
    return true;
  }
  if (!lives(node)) return false;
  if (hear(node)) return true;
  if (atomic_load(&node->core.paused) && !dmi_pulse_frozen(node->pulse)) {
    sim_unpause_one(node);
    return true;
  }
  if (!may_change_now(node) && !has_given_lease(node)) return false;
  (void)node_input(node, &(struct dmi_input){.type = DMI_IN_MAY_CHANGE});
  return true;
}

static bool tell_some(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, sim->nodes);
  for (uint32_t i = 0; i < sim->nodes; i++) {
    struct node *node = sim->all[(start + i) % sim->nodes];
    if (node->alive && node->started && tell(node)) return true;
  }
  return false;
}

static bool step(struct sim *sim, bool forced) {
  if (sim->open.num && calm(sim)) sim_close_calls(sim);
  if (tell_some(sim)) return true;
  return forced && !is_settled(sim) && sim_clock_jump(sim);
}

static void nothing(struct sim *sim) {
  (void)sim;
}

const struct sim_agreement sim_agreement_real = {.survive = &survive,
                                                 .missing = missing,
                                                 .spares = spares,
                                                 .calm = calm,
                                                 .step = step,
                                                 .coup = nothing};
