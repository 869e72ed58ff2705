/*
 * recover_round.c - the rounds of a recovery: in each of them every process waits until all others
 * have ended what they say to it (docs/crashes-pages.md, "Rounds").
 *
 * Who has something to say to a process, or may have sent it anything before, tells it the end
 * itself, behind that.  The others have no connection with it, and make none for this: each tells
 * the coordinator whom it speaks to (TELLS), and hears from there who speaks to it (TELLERS).
 */
#include <stdlib.h>
#include <string.h>

#include "core/recover_int.h"

void dmi_recover_rounds_begin(struct dmi_recover *r) {
  for (int i = 0; i < DMI_ROUNDS_NUM; i++) {
    r->tellers[i] = false;
    r->tally[i].heard = 0;
    r->tally[i].num = 0;
  }
}

void dmi_recover_rounds_free(struct dmi_recover *r) {
  for (int i = 0; i < DMI_ROUNDS_NUM; i++)
    free(r->tally[i].at);
}

bool dmi_recover_round_over(const struct dmi_recover *r, enum dmi_recover_round round) {
  if (!r->tellers[round]) return false;
  for (uint32_t i = 0; i < r->peer_num; i++) {
    if (!r->peer[i].ended[round]) return false;
  }
  return true;
}

/* ---- TELLERS -------------------------------------------------------------------------------- */

static int by_uid(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* All but these have nothing to say in the round. */
static void learn(struct dmi_recover *r, enum dmi_recover_round round, uint64_t *uids,
                  uint64_t num) {
  if (num) qsort(uids, num, sizeof(*uids), by_uid);
  dmi_recover_lock(r);
  for (uint32_t i = 0; i < r->peer_num; i++) {
    uint64_t uid = r->peer[i].uid;
    if (!num || !bsearch(&uid, uids, num, sizeof(uid), by_uid)) r->peer[i].ended[round] = true;
  }
  dmi_recover_unlock(r);
  r->tellers[round] = true;
}

/* The uids of a list, in memory of their own; NULL: it is empty. */
static uint64_t *uids_of(const struct dmi_msg *msg, uint64_t *num) {
  uint64_t *uids;
  *num = msg->list.len / sizeof(*uids);
  if (!*num) return NULL;
  uids = dmi_xalloc(*num, sizeof(*uids));
  memcpy(uids, msg->list.ptr, *num * sizeof(*uids));
  return uids;
}

bool dmi_recover_on_tellers(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                            struct dmi_out *out) {
  uint64_t num, *uids;
  if (from != r->coordinator || msg->round.round >= DMI_ROUNDS_NUM || r->tellers[msg->round.round])
    return false;
  uids = uids_of(msg, &num);
  learn(r, (enum dmi_recover_round)msg->round.round, uids, num);
  free(uids);
  dmi_recover_go_on(r, out);
  return true;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static int by_to(const void *a, const void *b) {
  const struct dmi_recover_teller *x = a, *y = b;
  return x->to < y->to ? -1 : x->to > y->to;
}

static struct dmi_msg about(const struct dmi_recover *r, enum dmi_msg_type type,
                            enum dmi_recover_round round) {
  struct dmi_msg msg = dmi_recover_about(r, type, 0);
  msg.round.number = r->number;
  msg.round.round = round;
  return msg;
}

/* The place of the first that is about `to`, or of one behind it. */
static uint64_t first_about(const struct dmi_recover_tally *tally, dmi_uid_t to) {
  uint64_t low = 0, high = tally->num;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (tally->at[middle].to < to) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void tell_one(struct dmi_recover *r, enum dmi_recover_round round, dmi_uid_t to,
                     struct dmi_out *out) {
  const struct dmi_recover_tally *tally = &r->tally[round];
  struct dmi_msg msg = about(r, DMI_MSG_TELLERS, round);
  uint64_t *uids = dmi_xalloc(r->peer_num + 1, sizeof(*uids)), num = 0;
  for (uint64_t at = first_about(tally, to); at < tally->num && tally->at[at].to == to; at++) {
    if (num <= r->peer_num) uids[num++] = tally->at[at].from;
  }
  if (to == r->core->self) {
    learn(r, round, uids, num);
  } else {
    if (num) msg.list = dmi_slice_xcopy(uids, num * sizeof(*uids));
    dmi_out_send(out, to, &msg);
  }
  free(uids);
}

/* TELLS of all is here. */
static void tell_all(struct dmi_recover *r, enum dmi_recover_round round, struct dmi_out *out) {
  struct dmi_recover_tally *tally = &r->tally[round];
  if (tally->num) qsort(tally->at, tally->num, sizeof(*tally->at), by_to);
  for (uint32_t i = 0; i < r->peer_num; i++)
    tell_one(r, round, r->peer[i].uid, out);
  tell_one(r, round, r->core->self, out);
}

static void count(struct dmi_recover *r, enum dmi_recover_round round, dmi_uid_t from,
                  const uint64_t *uids, uint64_t num, struct dmi_out *out) {
  struct dmi_recover_tally *tally = &r->tally[round];
  for (uint64_t i = 0; i < num; i++) {
    DMI_XALLOC_GROW(tally->at, tally->num, tally->capacity);
    tally->at[tally->num++] = (struct dmi_recover_teller){from, (dmi_uid_t)uids[i]};
  }
  if (++tally->heard == r->peer_num + 1) tell_all(r, round, out);
}

bool dmi_recover_on_tells(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                          struct dmi_out *out) {
  struct dmi_recover_peer *peer = dmi_recover_peer(r, from);
  uint64_t num, *uids;
  if (r->coordinator != r->core->self || msg->round.round >= DMI_ROUNDS_NUM ||
      peer->tells[msg->round.round])
    return false;
  uids = uids_of(msg, &num);
  peer->tells[msg->round.round] = true;
  count(r, (enum dmi_recover_round)msg->round.round, from, uids, num, out);
  free(uids);
  dmi_recover_go_on(r, out);
  return true;
}

/* ---- The end of what this process says --------------------------------------------------------
 */

static void mark_told(struct dmi_recover *r, uint32_t first, const struct dmi_out *out) {
  for (uint32_t i = 0; i < r->peer_num; i++)
    r->peer[i].told = !r->ops->speaks || r->ops->speaks(r->ops->arg, r->peer[i].uid);
  for (uint32_t i = first; i < out->num; i++) {
    struct dmi_recover_peer *peer =
        out->act[i].type == DMI_ACT_SEND ? dmi_recover_peer(r, out->act[i].to) : NULL;
    if (peer) peer->told = true;
  }
}

void dmi_recover_end_round(struct dmi_recover *r, enum dmi_recover_round round,
                           const struct dmi_msg *end, uint32_t first, struct dmi_out *out) {
  uint64_t *uids = dmi_xalloc(r->peer_num + 1, sizeof(*uids)), num = 0;
  struct dmi_msg msg = about(r, DMI_MSG_TELLS, round);
  mark_told(r, first, out);
  for (uint32_t i = 0; i < r->peer_num; i++) {
    if (!r->peer[i].told) continue;
    dmi_out_send(out, r->peer[i].uid, end);
    if (!DMI_BROKEN(r->core, DMI_BREAK_TELLERS)) uids[num++] = r->peer[i].uid;
  }
  if (r->coordinator == r->core->self) {
    count(r, round, r->core->self, uids, num, out);
  } else {
    if (num) msg.list = dmi_slice_xcopy(uids, num * sizeof(*uids));
    dmi_out_send(out, r->coordinator, &msg);
  }
  free(uids);
}
