/*
 * pulse.c - the frame of every event of pulses and the agreement: time, actions, who is known.
 *
 * Each event begins with looking whether the lease is still in force, and ends with looking at
 * everything that may be due now.
 */
#include "core/pulse_int.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "msg/wire.h"

/* ---- Actions -------------------------------------------------------------------------------- */

void dmi_pulse_out_init(struct dmi_pulse_out *out) {
  memset(out, 0, sizeof(*out));
}

void dmi_pulse_out_clear(struct dmi_pulse_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    dmi_slice_drop(&out->act[i].msg.body);
    dmi_slice_drop(&out->act[i].body);
    free(out->act[i].text);
  }
  out->num = 0;
}

void dmi_pulse_out_free(struct dmi_pulse_out *out) {
  dmi_pulse_out_clear(out);
  free(out->act);
  dmi_pulse_out_init(out);
}

struct dmi_pulse_act *dmi_pulse_act(struct dmi_pulse *p, enum dmi_pulse_act_type type) {
  struct dmi_pulse_out *out = p->out;
  struct dmi_pulse_act *act;
  DMI_XALLOC_GROW(out->act, out->num, out->capacity);
  act = &out->act[out->num++];
  memset(act, 0, sizeof(*act));
  act->type = type;
  return act;
}

struct dmi_msg *dmi_pulse_send(struct dmi_pulse *p, dmi_uid_t to, enum dmi_msg_type type) {
  struct dmi_pulse_act *act = dmi_pulse_act(p, DMI_PULSE_SEND);
  act->uid = to;
  act->msg.type = (uint8_t)type;
  act->msg.origin = p->config.self;
  return &act->msg;
}

void dmi_pulse_end(struct dmi_pulse *p, const char *why) {
  if (p->over) return;
  p->over = true;
  dmi_pulse_act(p, DMI_PULSE_END)->text = dmi_xalloc_text(why);
}

/* ---- Making and ending ---------------------------------------------------------------------- */

struct dmi_pulse *dmi_pulse_new(const struct dmi_pulse_config *config) {
  struct dmi_pulse *p = dmi_xalloc(1, sizeof(*p));
  p->config = *config;
  p->attempt = p->due = DMI_MS_NEVER;
  return p;
}

void dmi_pulse_free(struct dmi_pulse *p) {
  if (!p) return;
  dmi_crash_chain_free(&p->chain);
  dmi_crash_chain_free(&p->base);
  dmi_crash_proposal_free(&p->accepted);
  dmi_crash_proposal_free(&p->proposal);
  dmi_crash_forget_said(p);
  free(p->said.at);
  free(p->peers.at);
  free(p->askers.at);
  free(p->links.at);
  free(p);
}

#ifdef DMI_MUTATIONS
void dmi_pulse_set_break(struct dmi_pulse *p, enum dmi_pulse_break broken) {
  p->broken = broken;
}
#endif

/* ---- Who is known --------------------------------------------------------------------------- */

static int by_uid(const void *left, const void *right) {
  dmi_uid_t a = *(const dmi_uid_t *)left, b = *(const dmi_uid_t *)right;
  return (a > b) - (a < b);
}

_Static_assert(offsetof(struct dmi_pulse_peer, uid) == 0, "by_uid compares peers, too");

/* They are in order. */
struct dmi_pulse_peer *dmi_pulse_peer(struct dmi_pulse *p, dmi_uid_t uid) {
  if (!p->peers.num) return NULL;
  return bsearch(&uid, p->peers.at, p->peers.num, sizeof(*p->peers.at), by_uid);
}

struct dmi_pulse_peer *dmi_pulse_self(struct dmi_pulse *p) {
  return dmi_pulse_peer(p, p->config.self);
}

/* The uids of all that are in any view that may be in force, in order.  A view of a faulty leader
 * may have millions of members, so none is looked for among all. */
static uint32_t all_uids(const struct dmi_pulse *p, dmi_uid_t **uids) {
  uint32_t num = 0, different = 0;
  dmi_uid_t *at;
  for (uint32_t i = 0; i < p->chain.num; i++)
    num += p->chain.at[i].num;
  at = *uids = dmi_xalloc(num + 1u, sizeof(*at));
  num = 0;
  for (uint32_t i = 0; i < p->chain.num; i++) {
    for (uint32_t j = 0; j < p->chain.at[i].num; j++)
      at[num++] = p->chain.at[i].members[j].uid;
  }
  qsort(at, num, sizeof(*at), by_uid);
  for (uint32_t i = 0; i < num; i++) {
    if (!different || at[different - 1] != at[i]) at[different++] = at[i];
  }
  return different;
}

/* Those that are in no view any more are forgotten; new ones count as heard. */
static void know_all(struct dmi_pulse *p) {
  dmi_uid_t *uids;
  uint32_t num = all_uids(p, &uids);
  struct dmi_pulse_peer *peers = dmi_xalloc(num + 1u, sizeof(*peers));
  for (uint32_t i = 0; i < num; i++) {
    const struct dmi_pulse_peer *known = dmi_pulse_peer(p, uids[i]);
    if (known) peers[i] = *known;
    if (known) continue;
    peers[i].uid = uids[i];
    peers[i].heard = peers[i].direct = p->now;
  }
  free(uids);
  free(p->peers.at);
  p->peers.at = peers;
  p->peers.num = num;
}

/* The coordinator watches all; everybody watches the coordinator. */
void dmi_pulse_viewed(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  bool all = dmi_pulse_coordinates(p);
  know_all(p);
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    peer->in = dmi_crash_member(top, peer->uid) != NULL;
    dmi_pulse_watch(
        p, peer, peer->in && peer->uid != p->config.self && (all || peer->uid == top->coordinator));
  }
  p->next_pulse = p->now;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    if (p->peers.at[i].in && p->peers.at[i].doubt == DMI_DOUBT_BROKEN)
      dmi_pulse_tell_link(p, &p->peers.at[i]);
  }
}

/* ---- The frame of every event --------------------------------------------------------------- */

/* This process was late itself: what the others have said meanwhile is about to come, also the
 * answers to an attempt to lead. */
static void forgive(struct dmi_pulse *p, dmi_ms_t late, dmi_ms_t stood) {
  p->woke = p->now;
  p->stood = stood;
  dmi_pulse_forgive(p, late);
  if (p->lead == DMI_LEAD_PREPARES || p->lead == DMI_LEAD_PROPOSES) p->patience += late;
}

/* False: there is nothing to do (any more). */
static bool begin(struct dmi_pulse *p, dmi_ms_t now, struct dmi_pulse_out *out) {
  dmi_ms_t late = now > p->due ? now - p->due : 0, before = p->now;
  if (now > p->now) p->now = now;
  p->out = out;
  if (!p->started || p->ending || p->over) return false;
  if (late > dmi_pulse_span(p, DMI_SPAN_LATE) && !DMI_BROKEN(p, DMI_PULSE_BREAK_LATE))
    forgive(p, late, now - before);
  dmi_pulse_look_lease(p);
  return !p->over;
}

static dmi_ms_t earlier(dmi_ms_t a, dmi_ms_t b) {
  return a < b ? a : b;
}

static void finish(struct dmi_pulse *p) {
  if (p->started && !p->ending && !p->over) {
    dmi_pulse_look_links(p);
    dmi_pulse_look_silent(p);
    if (p->config.survive) dmi_crash_look(p);
    dmi_pulse_look_pulse(p);
    dmi_pulse_look_lease(p);
  }
  p->due = DMI_MS_NEVER;
  if (p->started && !p->ending && !p->over) {
    p->due = earlier(earlier(dmi_pulse_watch_wake(p), dmi_pulse_lease_wake(p)), dmi_crash_wake(p));
  }
  p->out = NULL;
}

void dmi_pulse_tick(struct dmi_pulse *p, dmi_ms_t now, struct dmi_pulse_out *out) {
  (void)begin(p, now, out);
  finish(p);
}

dmi_ms_t dmi_pulse_wake(const struct dmi_pulse *p) {
  return p->due;
}

static bool handle(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(p, from, msg);
    DMI_MSGS_PULSE(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

/* Who has not heard yet that the program has called DMI_survive takes no part. */
static bool is_ignored(const struct dmi_pulse *p, uint8_t type) {
  return !p->config.survive && type != DMI_CTL_PULSE && type != DMI_CTL_PULSE_OK &&
         type != DMI_CTL_PROBE && type != DMI_CTL_PROBED && type != DMI_CTL_DEAD;
}

bool dmi_pulse_message(struct dmi_pulse *p, dmi_ms_t now, dmi_uid_t from, const struct dmi_msg *msg,
                       struct dmi_pulse_out *out) {
  bool good = true;
  if (dmi_wire_class(msg) != DMI_CLASS_PULSE || from == p->config.self) return false;
  if (begin(p, now, out) && !is_ignored(p, msg->type)) good = handle(p, from, msg);
  finish(p);
  return good;
}

void dmi_pulse_broken(struct dmi_pulse *p, dmi_ms_t now, dmi_uid_t uid, struct dmi_pulse_out *out) {
  if (begin(p, now, out)) {
    struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
    if (peer && peer->in && peer->doubt < DMI_DOUBT_BROKEN) {
      dmi_pulse_doubt(p, peer, DMI_DOUBT_BROKEN);
      dmi_pulse_tell_link(p, peer);
      dmi_pulse_knock(p, peer);
    }
  }
  finish(p);
}

void dmi_pulse_dead(struct dmi_pulse *p, dmi_ms_t now, dmi_uid_t uid, struct dmi_pulse_out *out) {
  if (begin(p, now, out)) {
    struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
    if (peer) dmi_pulse_dead_known(p, peer);
  }
  finish(p);
}

void dmi_pulse_refused(struct dmi_pulse *p, dmi_ms_t now, dmi_uid_t uid,
                       struct dmi_pulse_out *out) {
  if (begin(p, now, out)) {
    struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
    if (p->config.trust_refused && peer && peer->doubt) dmi_pulse_dead_known(p, peer);
  }
  finish(p);
}

/* ---- Views ---------------------------------------------------------------------------------- */

void dmi_pulse_start(struct dmi_pulse *p, dmi_ms_t now, const struct dmi_pulse_view *view,
                     uint64_t ballot, struct dmi_pulse_out *out) {
  struct dmi_crash_view first;
  if (now > p->now) p->now = now;
  p->out = out;
  dmi_crash_view_make(&first, view, ballot, NULL);
  dmi_crash_chain_add(&p->chain, &first);
  dmi_crash_view_free(&first);
  p->started = true;
  p->unsure = view->number > 1;
  dmi_crash_promise(p, ballot);
  dmi_pulse_viewed(p);
  p->lease = p->now; /* until a pulse is answered */
  if (DMI_BALLOT_UID(p->promised) == p->config.self) p->lead = DMI_LEAD_IS;
  finish(p);
}

bool dmi_pulse_take(struct dmi_pulse *p, dmi_ms_t now, const struct dmi_pulse_view *view,
                    uint64_t ballot, struct dmi_pulse_out *out) {
  bool takes = false;
  if (begin(p, now, out)) takes = dmi_crash_take_change(p, view, ballot);
  finish(p);
  return takes;
}

bool dmi_pulse_may_change(const struct dmi_pulse *p, dmi_ms_t now) {
  return p->started && !p->over && dmi_crash_may_change(p, now);
}

uint64_t dmi_pulse_change(struct dmi_pulse *p, dmi_ms_t now, const struct dmi_pulse_view *view,
                          struct dmi_pulse_out *out) {
  uint64_t ballot = p->promised;
  if (begin(p, now, out)) dmi_crash_change(p, view);
  finish(p);
  return ballot;
}

void dmi_pulse_all_taken(struct dmi_pulse *p, dmi_ms_t now, uint64_t number,
                         struct dmi_pulse_out *out) {
  if (begin(p, now, out)) dmi_crash_all_taken(p, number);
  finish(p);
}

void dmi_pulse_ending(struct dmi_pulse *p) {
  p->ending = true;
  p->due = DMI_MS_NEVER;
}

/* The pulse thread may not have had its turn since: then it is late now. */
bool dmi_pulse_stood_still(const struct dmi_pulse *p, dmi_ms_t now, char text[DMI_PULSE_STOOD]) {
  const bool late = now > p->due && now - p->due > dmi_pulse_span(p, DMI_SPAN_LATE);
  const dmi_ms_t stood = late ? now - p->now : p->stood, until = late ? now : p->woke;
  /* a pulse has come to the others at most so long before */
  if (!p->config.dead_after || stood + dmi_pulse_span(p, DMI_SPAN_PULSE) < p->config.dead_after ||
      now - until > p->config.dead_after)
    return false;
  snprintf(text, DMI_PULSE_STOOD, "%llu.%llu s", (unsigned long long)(stood / 1000),
           (unsigned long long)(stood % 1000 / 100));
  return true;
}

bool dmi_pulse_frozen(const struct dmi_pulse *p) {
  return p->frozen;
}

bool dmi_pulse_leased(struct dmi_pulse *p, dmi_uid_t uid) {
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
  return uid == p->config.self || (peer && peer->leased);
}

dmi_ms_t dmi_pulse_lease(const struct dmi_pulse *p, dmi_ms_t now) {
  return p->lease > now ? p->lease - now : 0;
}

dmi_uid_t dmi_pulse_tie(const struct dmi_pulse *p) {
  return p->chain.at[p->chain.num - 1].tie;
}

uint64_t dmi_pulse_ballot(const struct dmi_pulse *p) {
  return p->chain.at[p->chain.num - 1].ballot;
}

uint64_t dmi_pulse_promised(const struct dmi_pulse *p) {
  return p->promised;
}
