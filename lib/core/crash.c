/*
 * crash.c - the agreement on crash views, as each member takes part in it: promises, acceptance,
 * taking what was decided; and the views that a coordinator makes alone (docs/crashes.md).
 *
 * What was promised, accepted and taken is told to whoever leads next; so each of these happens
 * before the message that says it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "core/pulse_int.h"

/* ---- Promises ------------------------------------------------------------------------------- */

/* From now on pulses of another ballot are not answered, so the leases of those who follow it end.
 */
void dmi_crash_promise(struct dmi_pulse *p, uint64_t ballot) {
  if (p->round < DMI_BALLOT_ROUND(ballot)) p->round = DMI_BALLOT_ROUND(ballot);
  if (p->promised == ballot) return;
#ifdef DMI_DEBUG
  if (ballot < p->promised && !DMI_BROKEN(p, DMI_PULSE_BREAK_NO_BALLOT)) {
    fprintf(stderr, "dmi: bug: ballot %llx is promised after %llx\n", (unsigned long long)ballot,
            (unsigned long long)p->promised);
    abort();
  }
#endif
  p->promised = ballot;
  for (uint32_t i = 0; i < p->peers.num; i++) {
    p->peers.at[i].pulsed = 0;
    p->peers.at[i].leased = false;
  }
}

/* Only voters lead; but it may have become one in a view that this process has not taken. */
static bool may_lead(struct dmi_pulse *p, dmi_uid_t uid) {
  const struct dmi_pulse_member *member = dmi_crash_member(dmi_pulse_top(p), uid);
  return member && !member->witness;
}

/* Only to the coordinator, or when this process has lost it: else one bad link would depose it. */
static bool may_promise(struct dmi_pulse *p, dmi_uid_t from) {
  dmi_uid_t coordinator = dmi_pulse_top(p)->coordinator;
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, coordinator);
  if (!may_lead(p, from)) return false;
  if (from == coordinator || p->now >= p->lease) return true;
  return coordinator != p->config.self && peer && peer->doubt != DMI_DOUBT_NONE;
}

static void tell(struct dmi_pulse *p, dmi_uid_t to, uint64_t ballot) {
  struct dmi_msg *msg = dmi_pulse_send(p, to, DMI_CTL_PROMISE);
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u8(&body, p->unsure);
  dmi_crash_chain_pack(&body, &p->chain);
  dmi_crash_proposal_pack(&body, &p->accepted);
  msg->promise.ballot = ballot;
  msg->promise.promised = p->promised;
  msg->promise.force = p->now < p->lease;
  msg->body = dmi_pack_slice(&body);
}

bool dmi_crash_on_prepare(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  uint64_t ballot = msg->ballot.ballot;
  if (DMI_BALLOT_UID(ballot) != from || !dmi_crash_ballot_good(ballot)) return false;
  if (!peer) return true;
  if (p->round < DMI_BALLOT_ROUND(ballot)) p->round = DMI_BALLOT_ROUND(ballot);
  dmi_pulse_heard(p, peer);
  if ((ballot > p->promised || DMI_BROKEN(p, DMI_PULSE_BREAK_NO_BALLOT)) && may_promise(p, from)) {
    dmi_crash_promise(p, ballot);
    dmi_crash_follow(p);
  }
  tell(p, from, ballot);
  return true;
}

/* ---- Taking views --------------------------------------------------------------------------- */

static void take_one(struct dmi_pulse *p, const struct dmi_crash_view *view) {
  struct dmi_pulse_act *act = dmi_pulse_act(p, DMI_PULSE_VIEW);
  act->crash = view->crash;
  if (view->body.len) act->body = dmi_slice_xcopy(view->body.ptr, view->body.len);
  dmi_crash_chain_add(&p->chain, view);
}

/* The newest view is another one than before. */
static void taken(struct dmi_pulse *p) {
  const struct dmi_crash_view *top = dmi_pulse_top(p);
  if (p->promised < top->ballot) dmi_crash_promise(p, top->ballot);
  if (p->accepted.any && p->accepted.view.number <= top->number)
    dmi_crash_proposal_free(&p->accepted);
  dmi_pulse_viewed(p);
  dmi_pulse_give_all(p);
}

static void known_again(struct dmi_pulse *p, const struct dmi_crash_chain *chain) {
  for (uint32_t i = 0; i < chain->num; i++) {
    uint32_t at = dmi_crash_chain_find(&p->chain, &chain->at[i]);
    if (at != UINT32_MAX && p->chain.at[at].ballot < chain->at[i].ballot)
      p->chain.at[at].ballot = chain->at[i].ballot;
  }
}

/* How many views of the chain are decided: those up to the last crash view; and those behind it, if
 * no other leader has a promise. */
static uint32_t decided(const struct dmi_pulse *p, const struct dmi_crash_chain *chain, bool all) {
  for (uint32_t i = chain->num; i-- > 0;) {
    if (all || chain->at[i].crash || chain->at[i].ballot >= p->promised) return i + 1;
  }
  return 0;
}

/* They may have ended since, for want of DMI_main. */
static void lost_by_others(struct dmi_pulse *p) {
  char stood[DMI_PULSE_STOOD], text[200];
  if (!dmi_pulse_stood_still(p, p->now, stood)) {
    dmi_pulse_end(p,
                  "the others have lost this process, as they had not heard of it for too long "
                  "(--dead-after); it ends");
    return;
  }
  snprintf(text, sizeof(text),
           "the others have lost this process, as it stood still for %s, longer than --dead-after "
           "allows (was it stopped?); it ends",
           stood);
  dmi_pulse_end(p, text);
}

bool dmi_crash_take(struct dmi_pulse *p, const struct dmi_crash_chain *chain, bool all) {
  const struct dmi_crash_view *last = &chain->at[chain->num - 1];
  uint32_t at = dmi_crash_chain_find(chain, dmi_pulse_top(p)), num = decided(p, chain, all);
  known_again(p, chain);
  if (dmi_crash_chain_find(&p->chain, last) != UINT32_MAX) return true; /* nothing new */
  if (!dmi_crash_member(last, p->config.self)) {
    if (num < chain->num || last->number < dmi_pulse_top(p)->number) return false;
    lost_by_others(p);
    return false;
  }
  if (at == UINT32_MAX) {
    if (last->number <= dmi_pulse_top(p)->number && !last->crash)
      return false; /* of who was deposed */
    dmi_pulse_end(p,
                  "this process was told of a member that has come or gone, and that was taken "
                  "back, as the coordinator was lost at that moment; it ends");
    return false;
  }
  if (at + 1 >= num) return false;
  while (++at < num)
    take_one(p, &chain->at[at]);
  taken(p);
  return true;
}

/* ---- Acceptance ----------------------------------------------------------------------------- */

void dmi_crash_accept(struct dmi_pulse *p, const struct dmi_crash_proposal *proposal) {
  dmi_crash_promise(p, proposal->ballot);
  dmi_crash_proposal_set(&p->accepted, proposal);
}

/* It has told the proposer of all that it has, or has nothing that could matter. */
static bool nothing_behind(struct dmi_pulse *p, const struct dmi_crash_view *base) {
  if (dmi_pulse_top(p)->number > base->number) return false;
  return !p->accepted.any || p->accepted.view.number <= base->number + 1;
}

static bool is_old(const struct dmi_pulse *p, uint64_t ballot) {
  return ballot < p->promised && !DMI_BROKEN(p, DMI_PULSE_BREAK_NO_BALLOT);
}

static void accept_from(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *asked,
                        const struct dmi_crash_chain *chain,
                        const struct dmi_crash_proposal *proposal) {
  const struct dmi_crash_view *base = &chain->at[chain->num - 1];
  struct dmi_msg *msg;
  if (is_old(p, asked->propose.ballot) || !may_lead(p, from) ||
      !(asked->propose.told || nothing_behind(p, base))) {
    tell(p, from, asked->propose.ballot);
    return;
  }
  if (!dmi_crash_take(p, chain, true)) return;
  if (is_old(p, asked->propose.ballot)) { /* by what is said of the views behind which it is */
    tell(p, from, asked->propose.ballot);
    return;
  }
  if (asked->propose.ballot > p->promised) dmi_crash_follow(p);
  dmi_crash_accept(p, proposal);
  msg = dmi_pulse_send(p, from, DMI_CTL_ACCEPTED);
  msg->accepted.ballot = proposal->ballot;
  msg->accepted.number = proposal->view.number;
  msg->accepted.left = dmi_pulse_given(p, &proposal->view, from);
  msg->accepted.force = p->now < p->lease;
}

/* A crash view behind that base, in which the proposer may lead. */
static bool proposal_good(const struct dmi_crash_chain *chain,
                          const struct dmi_crash_proposal *proposal, dmi_uid_t from) {
  const struct dmi_crash_view *base = &chain->at[chain->num - 1];
  return proposal->any && proposal->view.crash && proposal->view.number == base->number + 1 &&
         dmi_crash_candidate(base, from);
}

bool dmi_crash_on_propose(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_crash_chain chain;
  struct dmi_crash_proposal proposal = {0};
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  struct dmi_unpack body;
  bool good;
  if (DMI_BALLOT_UID(msg->propose.ballot) != from || msg->propose.told > 1 ||
      !dmi_crash_ballot_good(msg->propose.ballot))
    return false;
  dmi_unpack_init(&body, &msg->body);
  good = dmi_crash_chain_unpack(&body, &chain) && dmi_crash_proposal_unpack(&body, &proposal) &&
         dmi_unpack_done(&body) && proposal.ballot == msg->propose.ballot &&
         proposal_good(&chain, &proposal, from);
  if (good && p->round < DMI_BALLOT_ROUND(msg->propose.ballot))
    p->round = DMI_BALLOT_ROUND(msg->propose.ballot);
  if (good && peer) {
    dmi_pulse_heard(p, peer);
    accept_from(p, from, msg, &chain, &proposal);
  }
  dmi_crash_chain_free(&chain);
  dmi_crash_proposal_free(&proposal);
  return good;
}

/* ---- What was decided ----------------------------------------------------------------------- */

void dmi_crash_send_decided(struct dmi_pulse *p, dmi_uid_t to) {
  struct dmi_msg *msg;
  struct dmi_pack body;
  if (p->lead != DMI_LEAD_IS) return;
  msg = dmi_pulse_send(p, to, DMI_CTL_DECIDED);
  dmi_pack_init(&body);
  dmi_crash_chain_pack(&body, &p->chain);
  msg->ballot.ballot = p->promised;
  msg->body = dmi_pack_slice(&body);
}

bool dmi_crash_on_decided(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_crash_chain chain;
  struct dmi_pulse_peer *peer = dmi_pulse_peer(p, from);
  struct dmi_unpack body;
  bool good,
      leads = msg->ballot.ballot >= p->promised && DMI_BALLOT_UID(msg->ballot.ballot) == from;
  dmi_unpack_init(&body, &msg->body);
  good = dmi_crash_chain_unpack(&body, &chain) && dmi_unpack_done(&body) &&
         dmi_crash_ballot_good(msg->ballot.ballot);
  if (good) {
    if (peer) dmi_pulse_heard(p, peer);
    if (dmi_crash_take(p, &chain, leads)) {
      if (msg->ballot.ballot > p->promised) dmi_crash_promise(p, msg->ballot.ballot);
      if (DMI_BALLOT_UID(p->promised) != p->config.self) dmi_crash_follow(p);
    }
  }
  dmi_crash_chain_free(&chain);
  return good;
}

/* ---- Views that the coordinator makes alone -------------------------------------------------- */

/* Who takes a view in which the role is handed over promises the new coordinator a ballot of its
 * own by that: nothing else can have been accepted behind this view.  Without `survive` there are
 * no ballots. */
static void handed_over(struct dmi_pulse *p, const struct dmi_crash_view *view) {
  if (!p->config.survive) return;
  p->awaits_role = false;
  if (DMI_BALLOT_UID(view->ballot) == view->coordinator) return;
  dmi_crash_promise(p, DMI_BALLOT(DMI_BALLOT_ROUND(view->ballot) + 1, view->coordinator));
  p->awaits_role = view->coordinator == p->config.self;
  p->lead = DMI_LEAD_NOT;
  p->attempt = DMI_MS_NEVER;
}

/* All had taken the view before, else it would not have been made. */
static void take_made(struct dmi_pulse *p, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct dmi_crash_view made;
  p->unsure = false;
  dmi_crash_view_make(&made, view, ballot, dmi_pulse_top(p));
  dmi_crash_chain_add(&p->chain, &made);
  taken(p);
  handed_over(p, &made);
  dmi_crash_view_free(&made);
}

bool dmi_crash_take_change(struct dmi_pulse *p, const struct dmi_pulse_view *view,
                           uint64_t ballot) {
  if (view->number != dmi_pulse_top(p)->number + 1 || ballot < p->promised ||
      !dmi_crash_ballot_good(ballot))
    return false;
  take_made(p, view, ballot);
  return true;
}

void dmi_crash_change(struct dmi_pulse *p, const struct dmi_pulse_view *view) {
  take_made(p, view, p->promised);
}

/* `known`: number of a view that all have taken, as the coordinator says that this process
 * follows. */
void dmi_crash_known(struct dmi_pulse *p, uint64_t known) {
  for (uint32_t i = 0; i < p->chain.num; i++) {
    if (p->chain.at[i].number != known) continue;
    p->unsure = false;
    if (i == 0) return; /* nothing new: a pulse now would be answered by one, and so on for ever */
    dmi_crash_chain_drop(&p->chain, i);
    dmi_pulse_viewed(p);
    return;
  }
}

void dmi_crash_all_taken(struct dmi_pulse *p, uint64_t number) {
  dmi_crash_known(p, number);
  if (dmi_pulse_top(p)->number != number) return;
  if (DMI_BALLOT_UID(p->promised) == p->config.self && p->lead == DMI_LEAD_NOT) {
    p->lead = DMI_LEAD_IS;
    p->patience = p->attempt = DMI_MS_NEVER;
  }
  p->awaits_role = false;
  if (p->lead == DMI_LEAD_IS) {
    for (uint32_t i = 0; i < p->peers.num; i++)
      p->peers.at[i].told = p->peers.at[i].in;
  }
  dmi_pulse_viewed(p);
}
