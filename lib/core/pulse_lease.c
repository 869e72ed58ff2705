/*
 * pulse_lease.c - pulses, and the leases that their answers give.
 *
 * A lease says: until then nobody has decided on a view without this process.  It begins when the
 * pulse was sent that was answered, and is not longer than that of who answered.  Who gave one by
 * an answer waits, before it lets others go on, until it must have run out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/pulse_int.h"

#define VOTERS_GONE                                                                               \
  "this process ends, as all are dead that could go on with the program: only processes can for " \
  "which DMI_welcome has returned, and that have not left. Start the program again"

static bool leads(const struct dmi_pulse *p) {
  return p->config.survive && DMI_BALLOT_UID(p->promised) == p->config.self;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void pulse_to(struct dmi_pulse *p, dmi_uid_t to) {
  struct dmi_msg *msg = dmi_pulse_send(p, to, DMI_CTL_PULSE);
  msg->pulse.sent = p->now;
  msg->pulse.ballot = p->promised;
  msg->pulse.view = dmi_pulse_top(p)->number;
  msg->pulse.known = p->chain.at[0].number;
}

/* The coordinator sends to all, the others to it. */
void dmi_pulse_look_pulse(struct dmi_pulse *p) {
  if (p->now < p->next_pulse) return;
  p->next_pulse = p->now + dmi_pulse_span(p, DMI_SPAN_PULSE);
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (peer->watched && peer->doubt < DMI_DOUBT_BROKEN) pulse_to(p, peer->uid);
    if (peer->in) dmi_pulse_knock(p, peer);
  }
}

/* ---- Leases --------------------------------------------------------------------------------- */

static dmi_ms_t after(dmi_ms_t begin, dmi_ms_t span) {
  return span >= DMI_MS_NEVER ? DMI_MS_NEVER : begin + span;
}

static void extend(struct dmi_pulse *p, dmi_ms_t until) {
  if (until > p->lease) p->lease = until;
}

/* Is it among those that have answered the pulses that are looked at? */
static bool is_chosen(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  (void)p;
  return peer->chosen;
}

/* Do those decide that have answered pulses that were sent at `since` or later? */
static bool decide_since(struct dmi_pulse *p, dmi_ms_t since) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    peer->chosen = peer->pulsed && peer->pulsed >= since;
  }
  return dmi_crash_decides(p, &p->chain, is_chosen, false);
}

static int by_time(const void *left, const void *right) {
  dmi_ms_t a = *(const dmi_ms_t *)left, b = *(const dmi_ms_t *)right;
  return (a > b) - (a < b);
}

/* The latest time at which a pulse was sent that, with all sent since, a quorum has answered.  (The
 * earlier, the more have.)  0: there is none. */
static dmi_ms_t answered_since(struct dmi_pulse *p) {
  dmi_ms_t *at = dmi_xalloc(p->peers.num + 1u, sizeof(*at)), best;
  uint32_t low = 0, high = p->peers.num;
  for (uint32_t i = 0; i < p->peers.num; i++)
    at[i + 1] = p->peers.at[i].pulsed;
  qsort(at, p->peers.num + 1u, sizeof(*at), by_time);
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (at[middle] && !decide_since(p, at[middle])) {
      high = middle - 1;
    } else {
      low = middle;
    }
  }
  best = at[low];
  free(at);
  return best;
}

/* The leader's begins when it sent the oldest of the pulses whose answers make a quorum. */
static void own_lease(struct dmi_pulse *p) {
  dmi_ms_t best = p->now;                 /* if nobody else could decide anything now */
  if (dmi_crash_leaves_itself(p)) return; /* it waits until it has none */
  if (!decide_since(p, DMI_MS_NEVER)) best = answered_since(p);
  if (best) extend(p, after(best, dmi_pulse_limit(p, DMI_SPAN_LEASE)));
}

/* Of one that is removed, and does not know, or that this process does not know yet: it hears what
 * was decided. */
bool dmi_pulse_on_pulse(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  dmi_ms_t left = p->lease > p->now ? p->lease - p->now : 0;
  dmi_ms_t span = dmi_pulse_limit(p, DMI_SPAN_LEASE);
  bool follows = DMI_BALLOT_UID(msg->pulse.ballot) == from, leader = leads(p);
  struct dmi_msg *answer;
  if (!dmi_crash_ballot_good(msg->pulse.ballot)) return false;
  if (!peer || !peer->in) {
    dmi_crash_send_decided(p, from);
    return true;
  }
  dmi_pulse_heard(p, peer);
  if (p->config.survive && msg->pulse.ballot != p->promised) {
    dmi_crash_on_ballot(p, from, msg->pulse.ballot);
    return true;
  }
  if (leader && msg->pulse.view < dmi_pulse_top(p)->number) dmi_crash_send_decided(p, from);
  if (p->config.survive && !leader && !follows) return true;
  if (peer->doubt || (p->accepted.any && !dmi_crash_member(&p->accepted.view, from)))
    return true; /* it is to be removed, so it gets no lease any more */
  if (!leader || left > span) left = span;
  peer->given = after(p->now, dmi_pulse_limit(p, DMI_SPAN_GIVEN));
  if (follows) peer->led = peer->given;
  answer = dmi_pulse_send(p, from, DMI_CTL_PULSE_OK);
  answer->pulse_ok.sent = msg->pulse.sent;
  answer->pulse_ok.ballot = msg->pulse.ballot;
  answer->pulse_ok.left = left;
  peer->leased |= leader && left;
  if (!leader) dmi_crash_known(p, msg->pulse.known); /* last: it moves the records of peers */
  return true;
}

bool dmi_pulse_on_pulse_ok(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  dmi_ms_t span = dmi_pulse_limit(p, DMI_SPAN_LEASE);
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  if (msg->pulse_ok.sent > p->now) return false; /* no pulse was sent then */
  if (!peer) return true;
  dmi_pulse_heard(p, peer);
  if (!p->config.survive || msg->pulse_ok.ballot != p->promised) return true;
  if (leads(p)) {
    if (msg->pulse_ok.sent > peer->pulsed) peer->pulsed = msg->pulse_ok.sent;
    own_lease(p);
  } else if (DMI_BALLOT_UID(p->promised) == from) {
    if (msg->pulse_ok.left < span && !DMI_BROKEN(p, DMI_PULSE_BREAK_LEFT))
      span = msg->pulse_ok.left;
    extend(p, after(msg->pulse_ok.sent, span));
  }
  return true;
}

/* Whatever leases there are when this process takes a view: they may be of other quorums than those
 * of the new view, so they count as given by it. */
void dmi_pulse_give_all(struct dmi_pulse *p) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (peer->in) peer->given = peer->led = after(p->now, dmi_pulse_limit(p, DMI_SPAN_GIVEN));
  }
}

/* A leader that stays in the view, or is thought to, may be dead, and those that are removed may
 * have leases that it gave: none of these lasts longer than its own. */
dmi_ms_t dmi_pulse_given(struct dmi_pulse *p, const struct dmi_crash_view *view,
                         dmi_uid_t proposer) {
  dmi_ms_t until = 0;
  bool all_dead = true;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    bool stays = dmi_crash_member(view, peer->uid) != NULL;
    dmi_ms_t given = stays ? peer->led : peer->given;
    if (!peer->in || peer->uid == proposer) continue;
    if (!stays && peer->doubt != DMI_DOUBT_DEAD) all_dead = false;
    if (stays && DMI_BROKEN(p, DMI_PULSE_BREAK_GIVER)) continue;
    if (given > until) until = given;
  }
  return all_dead || until < p->now ? 0 : until - p->now;
}

/* ---- Without a lease ------------------------------------------------------------------------ */

/* Whom it votes for can lead: a witness, or a process that has no vote yet, never does. */
static bool never_leads(struct dmi_pulse *p) {
  return !dmi_crash_candidate(dmi_pulse_top(p), p->config.self);
}

static bool is_witness(struct dmi_pulse *p) {
  const struct dmi_pulse_member *self = dmi_crash_member(dmi_pulse_top(p), p->config.self);
  return self && self->witness;
}

static bool is_dead(struct dmi_pulse *p, dmi_uid_t uid) {
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
  return peer && peer->doubt == DMI_DOUBT_DEAD;
}

/* Is this process none that leads, and are all others dead that could go on? */
static bool program_is_gone(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  if (!never_leads(p)) return false;
  for (uint32_t i = 0; i < top->num; i++) {
    const struct dmi_pulse_member *member = &top->members[i];
    if (!member->witness && member->uid != p->config.self && !is_dead(p, member->uid)) return false;
  }
  return true;
}

/* Are all dead that had a vote, and a program? */
static bool voters_are_gone(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  for (uint32_t i = 0; i < top->num; i++) {
    if (dmi_crash_candidate(top, top->members[i].uid) && !is_dead(p, top->members[i].uid))
      return false;
  }
  return true;
}

static void give_up(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  char text[500];
  uint32_t heard = 1;
  if (is_witness(p)) {
    dmi_pulse_end(
        p,
        "this witness ends, as it cannot reach enough of the other processes: the program "
        "has ended, or goes on without it");
    return;
  }
  if (voters_are_gone(p)) {
    dmi_pulse_end(p, VOTERS_GONE);
    return;
  }
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (!peer->in || peer->uid == p->config.self || peer->doubt) continue;
    heard += !peer->watched || p->now < peer->direct + dmi_pulse_span(p, DMI_SPAN_LEASE);
  }
  snprintf(
      text, sizeof(text),
      "this process ends, as it cannot reach enough of the others: %u of %u processes seem "
      "reachable from here, and the rest may be going on without them. For two processes on "
      "two hosts a third one that only votes helps (dmirun --witness), or to take a process for "
      "dead when its port refuses connections (dmirun --trust-refused)",
      heard, top->num);
  dmi_pulse_end(p, text);
}

/* Who was stopped itself hears first why the others have gone on. */
static dmi_ms_t end_at(const struct dmi_pulse *p) {
  dmi_ms_t since = p->lease > p->woke ? p->lease : p->woke;
  return after(since, dmi_pulse_limit(p, DMI_SPAN_END));
}

void dmi_pulse_look_lease(struct dmi_pulse *p) {
  struct dmi_pulse_peer *coordinator = dmi_pulse_peer(p, dmi_pulse_top(p)->coordinator);
  bool frozen;
  if (!p->config.survive) return;
  if (leads(p)) own_lease(p);
  frozen = p->now >= p->lease || (coordinator && coordinator->uid != p->config.self &&
                                  coordinator->doubt >= DMI_DOUBT_BROKEN);
  if (frozen != p->frozen) {
    p->frozen = frozen;
    (void)dmi_pulse_act(p, frozen ? DMI_PULSE_FREEZE : DMI_PULSE_THAW);
  }
  /* the view in which it has its vote may be on its way */
  if (program_is_gone(p) && (is_witness(p) || p->now >= p->lease)) {
    dmi_pulse_end(p, is_witness(p) ? "this witness ends, as all processes of the program are dead"
                                   : VOTERS_GONE);
  } else if (p->now >= end_at(p)) {
    give_up(p);
  }
}

dmi_ms_t dmi_pulse_lease_wake(const struct dmi_pulse *p) {
  dmi_ms_t wake = p->next_pulse, end;
  if (!p->config.survive || p->lease >= DMI_MS_NEVER) return wake;
  if (p->lease > p->now) return p->lease < wake ? p->lease : wake;
  end = end_at(p);
  return end < wake ? end : wake;
}
