/*
 * crash_lead.c - the agreement on crash views, as who leads it, or tries to: PREPARE, PROPOSE, and
 * what follows from the answers (docs/crashes.md).
 *
 *   NOT --attempt--> PREPARES --a quorum has promised--> PROPOSES --accepted--> WAITS --> IS
 *    ^                  |   ^                               |                             |
 *    +------ no quorum -+   +----- one did not answer ------+       somebody is lost      |
 *    |                      +-------------------------------------------------------------+
 *    +------ a higher ballot was promised to another
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "core/pulse_int.h"

/* ---- Who tries, and when --------------------------------------------------------------------- */

/* How many of those that may lead have lower uids, and are not suspected: they try first. */
static uint32_t rank(struct dmi_pulse *p) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    num += peer->in && peer->uid < p->config.self && !peer->doubt &&
           dmi_crash_candidate(dmi_pulse_top(p), peer->uid);
  }
  return num;
}

static dmi_ms_t later(struct dmi_pulse *p, dmi_ms_t span) {
  return p->now + span + rank(p) * dmi_pulse_short(p, DMI_SPAN_RANK);
}

/* Whom it follows may have to wait for leases. */
void dmi_crash_follow(struct dmi_pulse *p) {
  p->lead = DMI_LEAD_NOT;
  p->attempt = later(p, dmi_pulse_span(p, DMI_SPAN_GIVEN + DMI_SPAN_ANSWER));
  p->waits = true;
}

static bool anybody_lost(const struct dmi_pulse *p) {
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (peer->in && peer->uid != p->config.self && peer->doubt) return true;
  }
  return false;
}

/* Has this process, which does not lead, a reason to? */
static bool wants(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, top->coordinator);
  if (!dmi_crash_candidate(top, p->config.self)) return false;
  if (p->awaits_role) return anybody_lost(p);
  /* others may follow this ballot, which came to nothing: nobody leads in it */
  if (DMI_BALLOT_UID(p->promised) == p->config.self) return true;
  return top->coordinator == p->config.self || (peer && peer->doubt);
}

static bool gone(struct dmi_pulse *p, dmi_uid_t uid) {
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
  return peer && peer->doubt;
}

/* ---- Asking for promises --------------------------------------------------------------------- */

void dmi_crash_forget_said(struct dmi_pulse *p) {
  for (uint32_t i = 0; i < p->said.num; i++) {
    dmi_crash_chain_free(&p->said.at[i].chain);
    dmi_crash_proposal_free(&p->said.at[i].accepted);
  }
  p->said.num = 0;
}

/* Those who have not told yet. */
static void ask(struct dmi_pulse *p) {
  p->lead = DMI_LEAD_PREPARES;
  p->patience = p->now + dmi_pulse_span(p, DMI_SPAN_ANSWER);
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (!peer->in || peer->uid == p->config.self || peer->told) continue;
    if (peer->doubt < DMI_DOUBT_BROKEN)
      dmi_pulse_send(p, peer->uid, DMI_CTL_PREPARE)->ballot.ballot = p->promised;
  }
}

/* Only faulty processes can have counted so far. */
static void no_rounds_left(struct dmi_pulse *p) {
  dmi_pulse_end(p,
                "this process ends, as the numbers of attempts to lead are used up: one of the "
                "processes must be faulty");
}

static void prepare(struct dmi_pulse *p) {
  if (p->round + 1 >= DMI_ROUNDS) {
    no_rounds_left(p);
    return;
  }
  dmi_crash_forget_said(p);
  p->awaits_role = p->outrun = p->waits = false;
  p->attempt = DMI_MS_NEVER;
  dmi_crash_promise(p, DMI_BALLOT(p->round + 1, p->config.self));
  for (uint32_t i = 0; i < p->peers.num; i++)
    p->peers.at[i].told = p->peers.at[i].force = p->peers.at[i].refused = false;
  ask(p);
}

bool dmi_crash_on_promise(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  struct dmi_crash_said said = {.uid = from};
  struct dmi_unpack body;
  bool good;
  dmi_unpack_init(&body, &msg->body);
  said.unsure = dmi_unpack_u8(&body) != 0;
  good = msg->promise.force <= 1 && dmi_crash_ballot_good(msg->promise.promised) &&
         dmi_crash_chain_unpack(&body, &said.chain) &&
         dmi_crash_proposal_unpack(&body, &said.accepted) && dmi_unpack_done(&body);
  if (good && peer) {
    dmi_pulse_heard(p, peer);
    if (p->round < DMI_BALLOT_ROUND(msg->promise.promised))
      p->round = DMI_BALLOT_ROUND(msg->promise.promised);
  }
  if (good && peer && p->lead == DMI_LEAD_PREPARES && msg->promise.ballot == p->promised &&
      msg->promise.promised == p->promised) {
    peer->told = true;
    peer->force = msg->promise.force;
    DMI_XALLOC_GROW(p->said.at, p->said.num, p->said.capacity);
    p->said.at[p->said.num++] = said;
    return true;
  }
  if (good && peer && msg->promise.ballot == p->promised) peer->refused = true;
  dmi_crash_chain_free(&said.chain);
  dmi_crash_proposal_free(&said.accepted);
  return good;
}

/* ---- What to propose ------------------------------------------------------------------------- */

static bool is_newer(uint64_t ballot, uint64_t number, uint64_t than_ballot, uint64_t than) {
  return ballot > than_ballot || (ballot == than_ballot && number > than);
}

/* The newest view that was told of: by ballot first, then by number. */
static const struct dmi_crash_chain *newest_taken(struct dmi_pulse *p) {
  const struct dmi_crash_chain *best = &p->chain;
  for (uint32_t i = 0; i < p->said.num; i++) {
    const struct dmi_crash_chain *chain = &p->said.at[i].chain;
    const struct dmi_crash_view *top = &chain->at[chain->num - 1], *old = &best->at[best->num - 1];
    if (is_newer(top->ballot, top->number, old->ballot, old->number)) best = chain;
  }
  return best;
}

/* A proposal that is newer than any view, and is not one of the views of the chain: NULL, or it and
 * the chain behind which it is. */
static const struct dmi_crash_proposal *newest_accepted(struct dmi_pulse *p,
                                                        const struct dmi_crash_chain **chain) {
  const struct dmi_crash_chain *taken = *chain;
  const struct dmi_crash_proposal *best = NULL;
  uint64_t ballot = taken->at[taken->num - 1].ballot, number = taken->at[taken->num - 1].number;
  for (uint32_t i = 0; i <= p->said.num; i++) {
    bool own = i == p->said.num;
    const struct dmi_crash_proposal *accepted = own ? &p->accepted : &p->said.at[i].accepted;
    const struct dmi_crash_chain *behind = own ? &p->chain : &p->said.at[i].chain;
    bool newer;
    if (!accepted->any || dmi_crash_chain_find(taken, &accepted->view) != UINT32_MAX) continue;
    newer = is_newer(accepted->ballot, accepted->view.number, ballot, number);
    if (DMI_BROKEN(p, DMI_PULSE_BREAK_BY_NUMBER))
      newer = is_newer(accepted->view.number, accepted->ballot, number, ballot);
    if (!newer) continue;
    best = accepted;
    *chain = behind;
    ballot = accepted->ballot;
    number = accepted->view.number;
  }
  return DMI_BROKEN(p, DMI_PULSE_BREAK_NO_ADOPT) ? NULL : best;
}

/* The chain of one that has joined begins with the view by which it did.  The views before that one
 * count, too, unless all have taken it: this process has those. */
static void take_base(struct dmi_pulse *p, const struct dmi_crash_chain *chain) {
  struct dmi_crash_chain base = {0};
  const struct dmi_crash_view *first = &chain->at[0];
  uint32_t num = dmi_crash_chain_find(&p->chain, first);
  if (num == UINT32_MAX && dmi_pulse_top(p)->number + 1 == first->number) num = p->chain.num;
  for (uint32_t i = 0; num != UINT32_MAX && i < num; i++)
    dmi_crash_chain_add(&base, &p->chain.at[i]);
  for (uint32_t i = 0; i < chain->num; i++)
    dmi_crash_chain_add(&base, &chain->at[i]);
  dmi_crash_chain_free(&p->base);
  p->base = base;
}

/* All that any of them knows to be taken by all. */
static void trim(struct dmi_pulse *p, struct dmi_crash_chain *base) {
  for (uint32_t i = 0; i <= p->said.num; i++) {
    bool own = i == p->said.num;
    const struct dmi_crash_chain *chain = own ? &p->chain : &p->said.at[i].chain;
    uint32_t at = dmi_crash_chain_find(base, &chain->at[0]);
    if (own ? p->unsure : p->said.at[i].unsure) continue;
    if (at != UINT32_MAX) dmi_crash_chain_drop(base, at);
  }
}

static bool stays(struct dmi_pulse *p, dmi_uid_t uid) {
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
  return uid == p->config.self || (peer && peer->told && !peer->doubt);
}

/* What VIEW says of it: nobody is added, and those that are removed have no heirs yet. */
static struct dmi_slice crash_body(const struct dmi_crash_view *base,
                                   const struct dmi_crash_view *view) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, view->number);
  dmi_pack_u32(&body, view->coordinator);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, base->num - view->num);
  for (uint32_t i = 0; i < base->num; i++) {
    if (dmi_crash_member(view, base->members[i].uid)) continue;
    dmi_pack_u32(&body, base->members[i].uid);
    dmi_pack_u32(&body, 0);
    dmi_pack_u8(&body, 2); /* it was lost */
  }
  return dmi_pack_slice(&body);
}

/* All that have promised, and that nobody suspects. */
static void make_proposal(struct dmi_pulse *p) {
  const struct dmi_crash_view *base = &p->base.at[p->base.num - 1];
  struct dmi_crash_view view = {.number = base->number + 1,
                                .made = p->promised,
                                .ballot = p->promised,
                                .crash = true,
                                .coordinator = p->config.self};
  view.members = dmi_xalloc(base->num + 1u, sizeof(*view.members));
  for (uint32_t i = 0; i < base->num; i++) {
    if (stays(p, base->members[i].uid)) view.members[view.num++] = base->members[i];
  }
  dmi_crash_choose_tie(&view, base->tie);
  view.body = crash_body(base, &view);
  dmi_crash_proposal_free(&p->proposal);
  p->proposal.any = true;
  p->proposal.view = view;
}

/* ---- Proposing ------------------------------------------------------------------------------- */

static void send_proposal(struct dmi_pulse *p, struct dmi_pulse_peer *peer) {
  struct dmi_msg *msg = dmi_pulse_send(p, peer->uid, DMI_CTL_PROPOSE);
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_crash_chain_pack(&body, &p->base);
  dmi_crash_proposal_pack(&body, &p->proposal);
  msg->propose.ballot = p->promised;
  msg->propose.told = peer->told;
  msg->body = dmi_pack_slice(&body);
}

/* Another one had proposed a view without this process, and may have decided on it: so it is
 * proposed again. */
bool dmi_crash_leaves_itself(const struct dmi_pulse *p) {
  bool proposes = p->lead == DMI_LEAD_PROPOSES || p->lead == DMI_LEAD_WAITS;
  return proposes && !dmi_crash_member(&p->proposal.view, p->config.self);
}

/* Its own lease must have run out, too, and its copies be frozen, before the others go on; with the
 * margin of dmi_pulse_given, also if it has just run out. */
static void await_own_lease(struct dmi_pulse *p) {
  dmi_ms_t later = dmi_pulse_limit(p, DMI_SPAN_GIVEN) - dmi_pulse_limit(p, DMI_SPAN_LEASE);
  if (p->lease + later > p->lapse) p->lapse = p->lease + later;
}

static void propose(struct dmi_pulse *p) {
  p->proposal.ballot = p->promised;
  dmi_crash_accept(p, &p->proposal);
  p->lead = DMI_LEAD_PROPOSES;
  p->patience = p->now + dmi_pulse_span(p, DMI_SPAN_ANSWER);
  p->lapse = p->now + dmi_pulse_given(p, &p->proposal.view, p->config.self);
  if (dmi_crash_leaves_itself(p)) await_own_lease(p);
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    peer->accepted = false;
    if (!peer->in || peer->uid == p->config.self || peer->doubt >= DMI_DOUBT_BROKEN) continue;
    if (p->again || dmi_crash_member(&p->proposal.view, peer->uid)) send_proposal(p, peer);
  }
}

static bool has_told(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  (void)p;
  return peer->told;
}

/* Nobody is lost, and this process is the coordinator already. */
static bool nothing_to_do(struct dmi_pulse *p) {
  const struct dmi_crash_view *base = &p->base.at[p->base.num - 1];
  return !p->again && base->coordinator == p->config.self && p->proposal.view.num == base->num;
}

/* In the newest view this process has left, so it may not lead: it takes that view, and another one
 * leads.  Only not to propose would not do: it would try again, with higher ballots, before anybody
 * else does.  False: it can not take that view, and has not ended either. */
static bool give_way(struct dmi_pulse *p) {
  if (!dmi_crash_take(p, &p->base, true)) return p->over;
  dmi_crash_forget_said(p);
  dmi_crash_follow(p);
  return true;
}

/* False: those that have promised are no quorum; or faulty ones have told of a base that does not
 * have what this process has taken. */
static bool choose(struct dmi_pulse *p) {
  const struct dmi_crash_chain *chain = newest_taken(p);
  const struct dmi_crash_proposal *accepted = newest_accepted(p, &chain);
  take_base(p, chain);
  trim(p, &p->base);
  if (!dmi_crash_member(&p->base.at[p->base.num - 1], p->config.self)) return false;
  if (!dmi_crash_decides(p, &p->base, has_told, true)) return false;
  if (!dmi_crash_candidate(&p->base.at[p->base.num - 1], p->config.self)) return give_way(p);
  p->again = accepted != NULL;
  if (accepted) dmi_crash_proposal_set(&p->proposal, accepted);
  if (!dmi_crash_take(p, &p->base, true)) return p->over;
  dmi_crash_forget_said(p);
  if (!accepted) make_proposal(p);
  if (nothing_to_do(p)) {
    p->lead = DMI_LEAD_IS;
    p->patience = DMI_MS_NEVER;
  } else {
    propose(p);
  }
  return true;
}

/* Who refuses is not left out for that: it hears the coordinator, which goes on, or whose lease
 * will have run out by the next attempt. */
static void look_prepares(struct dmi_pulse *p) {
  bool all = true, refused = false;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    const struct dmi_pulse_peer *peer = &p->peers.at[i];
    if (!peer->in || peer->uid == p->config.self || peer->doubt || peer->told) continue;
    all = false;
    if (peer->refused) refused = true;
  }
  if (!all && p->now < p->patience) return;
  if ((!refused && choose(p)) || p->now < p->patience) return;
  p->lead = DMI_LEAD_NOT;
  p->attempt = later(p, dmi_pulse_span(p, DMI_SPAN_ANSWER));
}

/* ---- Deciding -------------------------------------------------------------------------------- */

bool dmi_crash_on_accepted(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  if (msg->accepted.force > 1 || msg->accepted.left > DMI_MS_NEVER) return false;
  if (!peer) return true;
  dmi_pulse_heard(p, peer);
  if (p->lead != DMI_LEAD_PROPOSES || msg->accepted.ballot != p->promised ||
      msg->accepted.number != p->proposal.view.number)
    return true;
  peer->accepted = true;
  peer->force = msg->accepted.force;
  if (p->now + msg->accepted.left > p->lapse) p->lapse = p->now + msg->accepted.left;
  return true;
}

static bool has_accepted(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer) {
  (void)p;
  return peer->accepted;
}

/* All that it is for, and a quorum; if it was accepted before, a quorum is enough. */
static bool accepted_by_enough(struct dmi_pulse *p) {
  const struct dmi_crash_view *view = &p->proposal.view;
  for (uint32_t i = 0; i < view->num; i++) {
    const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, view->members[i].uid);
    if (view->members[i].uid == p->config.self) continue;
    if (!p->again && !(peer && peer->accepted)) return false;
  }
  return dmi_crash_decides(p, &p->base, has_accepted, true);
}

static void look_proposes(struct dmi_pulse *p) {
  if (accepted_by_enough(p)) {
    p->lead = DMI_LEAD_WAITS;
    p->patience = DMI_BROKEN(p, DMI_PULSE_BREAK_NO_WAIT) ? p->now : p->lapse;
    return;
  }
  if (p->now < p->patience) return;
  for (uint32_t i = 0; i < p->proposal.view.num && !p->again; i++) {
    struct dmi_pulse_peer *peer = dmi_pulse_peer(p, p->proposal.view.members[i].uid);
    if (peer && peer->uid != p->config.self && !peer->accepted)
      dmi_pulse_doubt(p, peer, DMI_DOUBT_UNANSWERED);
  }
  prepare(p);
}

static void send_decided(struct dmi_pulse *p, dmi_uid_t to) {
  struct dmi_msg *msg = dmi_pulse_send(p, to, DMI_CTL_DECIDED);
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_crash_chain_pack(&body, &p->base);
  msg->ballot.ballot = p->promised;
  msg->body = dmi_pack_slice(&body);
}

/* Those that are removed hear of it, too, if they can. */
static void decide(struct dmi_pulse *p) {
  struct dmi_crash_view *view = &p->proposal.view;
  view->ballot = p->promised;
  dmi_crash_chain_add(&p->base, view);
  for (uint32_t i = 0; i < p->peers.num; i++) {
    struct dmi_pulse_peer *peer = &p->peers.at[i];
    peer->told = peer->accepted && dmi_crash_member(view, peer->uid);
    if (peer->in && peer->uid != p->config.self && peer->doubt < DMI_DOUBT_BROKEN)
      send_decided(p, peer->uid);
  }
  p->lead = DMI_LEAD_IS;
  p->patience = DMI_MS_NEVER;
  (void)dmi_crash_take(p, &p->base, true);
  dmi_crash_proposal_free(&p->proposal);
}

/* ---- Leading --------------------------------------------------------------------------------- */

/* Somebody is lost, or has promised a ballot that came to nothing; or the view that was decided is
 * one that another had proposed. */
static void look_leads(struct dmi_pulse *p) {
  bool reason = anybody_lost(p) || p->outrun || !dmi_pulse_coordinates(p);
  if (!reason) {
    p->patience = DMI_MS_NEVER;
    return;
  }
  if (p->patience == DMI_MS_NEVER)
    p->patience = p->now + (p->outrun ? dmi_pulse_span(p, DMI_SPAN_ANSWER)
                                      : dmi_pulse_short(p, DMI_SPAN_GATHER));
  if (p->now < p->patience) return;
  if (p->outrun) {
    prepare(p);
  } else {
    ask(p);
  }
}

void dmi_crash_on_ballot(struct dmi_pulse *p, dmi_uid_t from, uint64_t ballot) {
  if (p->round < DMI_BALLOT_ROUND(ballot)) p->round = DMI_BALLOT_ROUND(ballot);
  if (p->lead != DMI_LEAD_IS) return;
  if (ballot > p->promised) {
    p->outrun = true;
  } else {
    dmi_crash_send_decided(p, from);
  }
}

bool dmi_crash_may_change(const struct dmi_pulse *p, dmi_ms_t now) {
  struct dmi_pulse *q = (struct dmi_pulse *)p; /* looking marks peers, and changes nothing else */
  if (p->lead != DMI_LEAD_IS || p->chain.num != 1 || p->outrun || p->links.num) return false;
  if (DMI_BROKEN(p, DMI_PULSE_BREAK_NO_LEADER)) return true;
  if (now >= p->lease || anybody_lost(p)) return false;
  return dmi_crash_decides(q, &p->chain, has_told, false);
}

/* ---- What is due ------------------------------------------------------------------------------
 */

static void look_once(struct dmi_pulse *p) {
  switch (p->lead) {
    case DMI_LEAD_NOT:
      if (!wants(p)) {
        p->attempt = DMI_MS_NEVER;
      } else if (p->attempt == DMI_MS_NEVER || (p->waits && gone(p, DMI_BALLOT_UID(p->promised)))) {
        p->waits = false;
        p->attempt = later(p, dmi_pulse_short(p, DMI_SPAN_GATHER));
      } else if (p->now >= p->attempt) {
        prepare(p);
      }
      break;
    case DMI_LEAD_PREPARES:
      look_prepares(p);
      break;
    case DMI_LEAD_PROPOSES:
      look_proposes(p);
      break;
    case DMI_LEAD_WAITS:
      if (p->now >= p->patience) decide(p);
      break;
    case DMI_LEAD_IS:
      look_leads(p);
  }
}

/* One thing may make the next possible at once. */
void dmi_crash_look(struct dmi_pulse *p) {
  enum dmi_pulse_lead before;
  do {
    before = p->lead;
    look_once(p);
  } while (p->lead != before && !p->over);
}

dmi_ms_t dmi_crash_wake(const struct dmi_pulse *p) {
  if (!p->config.survive) return DMI_MS_NEVER;
  return p->lead == DMI_LEAD_NOT ? p->attempt : p->patience;
}
