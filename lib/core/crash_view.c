/*
 * crash_view.c - the views that may be in force, as the agreement knows them; what a quorum is; and
 * both as bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "core/pulse_int.h"
#include "msg/addr.h"

#define VIEW_BYTES 45u  /* packed, at least */
#define MEMBER_BYTES 5u /* packed */

/* Flags of a member. */
#define VOTER 0x01u
#define WITNESS 0x02u

/* ---- One view ------------------------------------------------------------------------------- */

static struct dmi_slice copy_body(const struct dmi_slice *body) {
  return body->len ? dmi_slice_xcopy(body->ptr, body->len) : (struct dmi_slice){0};
}

void dmi_crash_view_copy(struct dmi_crash_view *to, const struct dmi_crash_view *from) {
  *to = *from;
  to->members = dmi_xalloc(from->num + 1u, sizeof(*to->members));
  memcpy(to->members, from->members, from->num * sizeof(*to->members));
  to->body = copy_body(&from->body);
}

void dmi_crash_view_free(struct dmi_crash_view *view) {
  free(view->members);
  dmi_slice_drop(&view->body);
  memset(view, 0, sizeof(*view));
}

static int by_uid(const void *left, const void *right) {
  const struct dmi_pulse_member *a = left, *b = right;
  return (a->uid > b->uid) - (a->uid < b->uid);
}

const struct dmi_pulse_member *dmi_crash_member(const struct dmi_crash_view *view, dmi_uid_t uid) {
  const struct dmi_pulse_member key = {.uid = uid};
  if (!view->num) return NULL;
  return bsearch(&key, view->members, view->num, sizeof(key), by_uid);
}

bool dmi_crash_voter(const struct dmi_crash_view *view, dmi_uid_t uid) {
  const struct dmi_pulse_member *member = dmi_crash_member(view, uid);
  return member && member->voter;
}

bool dmi_crash_candidate(const struct dmi_crash_view *view, dmi_uid_t uid) {
  const struct dmi_pulse_member *member = dmi_crash_member(view, uid);
  return member && member->voter && !member->witness;
}

/* The heavier vote stays where it was, or goes to the coordinator. */
void dmi_crash_choose_tie(struct dmi_crash_view *view, dmi_uid_t before) {
  view->tie = before && dmi_crash_voter(view, before) ? before : view->coordinator;
}

void dmi_crash_view_make(struct dmi_crash_view *link, const struct dmi_pulse_view *view,
                         uint64_t ballot, const struct dmi_crash_view *before) {
  struct dmi_crash_view made = {.number = view->number,
                                .made = ballot,
                                .ballot = ballot,
                                .coordinator = view->coordinator,
                                .num = view->num};
  made.members = dmi_xalloc(view->num + 1u, sizeof(*made.members));
  memcpy(made.members, view->members, view->num * sizeof(*made.members));
  qsort(made.members, made.num, sizeof(*made.members), by_uid);
  made.body = copy_body(&view->body);
  dmi_crash_choose_tie(&made, before ? before->tie : view->tie);
  *link = made;
}

/* ---- Chains --------------------------------------------------------------------------------- */

void dmi_crash_chain_free(struct dmi_crash_chain *chain) {
  for (uint32_t i = 0; i < chain->num; i++)
    dmi_crash_view_free(&chain->at[i]);
  free(chain->at);
  memset(chain, 0, sizeof(*chain));
}

void dmi_crash_chain_add(struct dmi_crash_chain *chain, const struct dmi_crash_view *view) {
  DMI_XALLOC_GROW(chain->at, chain->num, chain->capacity);
  dmi_crash_view_copy(&chain->at[chain->num++], view);
}

void dmi_crash_chain_drop(struct dmi_crash_chain *chain, uint32_t first) {
  for (uint32_t i = 0; i < first; i++)
    dmi_crash_view_free(&chain->at[i]);
  chain->num -= first;
  memmove(chain->at, chain->at + first, chain->num * sizeof(*chain->at));
}

void dmi_crash_chain_copy(struct dmi_crash_chain *to, const struct dmi_crash_chain *from) {
  dmi_crash_chain_free(to);
  for (uint32_t i = 0; i < from->num; i++)
    dmi_crash_chain_add(to, &from->at[i]);
}

uint32_t dmi_crash_chain_find(const struct dmi_crash_chain *chain,
                              const struct dmi_crash_view *view) {
  for (uint32_t i = 0; i < chain->num; i++) {
    if (chain->at[i].number == view->number && chain->at[i].made == view->made) return i;
  }
  return UINT32_MAX;
}

/* ---- Proposals ------------------------------------------------------------------------------ */

void dmi_crash_proposal_free(struct dmi_crash_proposal *proposal) {
  if (proposal->any) dmi_crash_view_free(&proposal->view);
  memset(proposal, 0, sizeof(*proposal));
}

void dmi_crash_proposal_set(struct dmi_crash_proposal *to, const struct dmi_crash_proposal *from) {
  if (to == from) return;
  dmi_crash_proposal_free(to);
  if (!from->any) return;
  *to = *from;
  dmi_crash_view_copy(&to->view, &from->view);
}

/* ---- Quorums -------------------------------------------------------------------------------- */

static bool in_set(struct dmi_pulse *p, dmi_crash_in_set *in, dmi_uid_t uid) {
  const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, uid);
  return uid == p->config.self || (peer && in(p, peer));
}

/* 1: more than half of the weight of all its voters; or 2: all others are dead for certain, and
 * nobody had gone on without those that are left. */
static bool decides_in(struct dmi_pulse *p, const struct dmi_crash_view *view, dmi_crash_in_set *in,
                       bool each) {
  uint32_t all = 0, yes = 0;
  bool others_dead = true, force = p->now < p->lease;
  for (uint32_t i = 0; i < view->num; i++) {
    const struct dmi_pulse_member *member = &view->members[i];
    const struct dmi_pulse_peer *peer = dmi_pulse_peer(p, member->uid);
    uint32_t weight = member->uid == view->tie ? 3 : 2;
    bool dead = peer && peer->doubt == DMI_DOUBT_DEAD;
    if (!member->voter) continue;
    if (DMI_BROKEN(p, DMI_PULSE_BREAK_DEAD_NOT_COUNTED) && dead) continue;
    all += weight;
    if (in_set(p, in, member->uid)) {
      yes += weight;
      if (each && member->uid != p->config.self && !peer->force) force = false;
    } else if (!dead) {
      others_dead = false;
    }
  }
  if (2 * yes > all) return true;
  return others_dead && (force || DMI_BROKEN(p, DMI_PULSE_BREAK_NO_LEASE));
}

bool dmi_crash_decides(struct dmi_pulse *p, const struct dmi_crash_chain *chain,
                       dmi_crash_in_set *in, bool each) {
  for (uint32_t i = chain->num; i-- > 0;) {
    if (!decides_in(p, &chain->at[i], in, each)) return false;
    if (DMI_BROKEN(p, DMI_PULSE_BREAK_NEWEST_VIEW_ONLY)) return true;
  }
  return true;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void view_pack(struct dmi_pack *pack, const struct dmi_crash_view *view) {
  dmi_pack_u64(pack, view->number);
  dmi_pack_u64(pack, view->made);
  dmi_pack_u64(pack, view->ballot);
  dmi_pack_u8(pack, view->crash);
  dmi_pack_u32(pack, view->coordinator);
  dmi_pack_u32(pack, view->tie);
  dmi_pack_u32(pack, view->num);
  for (uint32_t i = 0; i < view->num; i++) {
    dmi_pack_u32(pack, view->members[i].uid);
    dmi_pack_u8(pack, (uint8_t)((view->members[i].voter ? VOTER : 0u) |
                                (view->members[i].witness ? WITNESS : 0u)));
  }
  dmi_pack_bytes(pack, view->body.ptr, view->body.len);
}

static bool unpack_flag(struct dmi_unpack *unpack) {
  uint8_t flag = dmi_unpack_u8(unpack);
  if (flag > 1) unpack->bad = true;
  return flag == 1;
}

static void member_unpack(struct dmi_unpack *unpack, struct dmi_pulse_member *member) {
  uint8_t flags;
  member->uid = dmi_unpack_u32(unpack);
  flags = dmi_unpack_u8(unpack);
  if (flags > (VOTER | WITNESS)) unpack->bad = true;
  member->voter = flags & VOTER;
  member->witness = flags & WITNESS;
}

/* Uids ascend, so the members differ; the coordinator is one of them, and no witness.  Ballots can
 * be followed by higher ones. */
static bool view_good(const struct dmi_crash_view *view) {
  const struct dmi_pulse_member *coordinator = dmi_crash_member(view, view->coordinator);
  for (uint32_t i = 0; i < view->num; i++) {
    dmi_uid_t uid = view->members[i].uid;
    if (uid <= (i ? view->members[i - 1].uid : 0) || uid >= DMI_NET_TEMP) return false;
  }
  return view->number > 0 && dmi_crash_ballot_good(view->made) &&
         dmi_crash_ballot_good(view->ballot) && coordinator && !coordinator->witness;
}

static void view_unpack(struct dmi_unpack *unpack, struct dmi_crash_view *view) {
  const uint8_t *body;
  size_t len;
  memset(view, 0, sizeof(*view));
  view->number = dmi_unpack_u64(unpack);
  view->made = dmi_unpack_u64(unpack);
  view->ballot = dmi_unpack_u64(unpack);
  view->crash = unpack_flag(unpack);
  view->coordinator = dmi_unpack_u32(unpack);
  view->tie = dmi_unpack_u32(unpack);
  view->num = dmi_unpack_count(unpack, MEMBER_BYTES);
  view->members = dmi_xalloc(view->num + 1u, sizeof(*view->members));
  for (uint32_t i = 0; i < view->num; i++)
    member_unpack(unpack, &view->members[i]);
  body = dmi_unpack_bytes(unpack, &len);
  if (len) view->body = dmi_slice_xcopy(body, len);
  if (!view_good(view)) unpack->bad = true;
}

void dmi_crash_chain_pack(struct dmi_pack *pack, const struct dmi_crash_chain *chain) {
  dmi_pack_u32(pack, chain->num);
  for (uint32_t i = 0; i < chain->num; i++)
    view_pack(pack, &chain->at[i]);
}

/* One number after the other. */
bool dmi_crash_chain_unpack(struct dmi_unpack *unpack, struct dmi_crash_chain *chain) {
  uint32_t num = dmi_unpack_count(unpack, VIEW_BYTES);
  memset(chain, 0, sizeof(*chain));
  for (uint32_t i = 0; i < num && !unpack->bad; i++) {
    DMI_XALLOC_GROW(chain->at, chain->num, chain->capacity);
    view_unpack(unpack, &chain->at[chain->num++]);
    if (i && chain->at[i].number != chain->at[i - 1].number + 1) unpack->bad = true;
  }
  if (!num) unpack->bad = true;
  return !unpack->bad;
}

void dmi_crash_proposal_pack(struct dmi_pack *pack, const struct dmi_crash_proposal *proposal) {
  dmi_pack_u8(pack, proposal->any);
  if (!proposal->any) return;
  dmi_pack_u64(pack, proposal->ballot);
  view_pack(pack, &proposal->view);
}

bool dmi_crash_proposal_unpack(struct dmi_unpack *unpack, struct dmi_crash_proposal *proposal) {
  memset(proposal, 0, sizeof(*proposal));
  proposal->any = unpack_flag(unpack);
  if (!proposal->any) return !unpack->bad;
  proposal->ballot = dmi_unpack_u64(unpack);
  if (!dmi_crash_ballot_good(proposal->ballot)) unpack->bad = true;
  view_unpack(unpack, &proposal->view);
  return !unpack->bad;
}
