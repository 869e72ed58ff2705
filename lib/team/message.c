/*
 * message.c - messages between ports: of this process by a call, of others by the network.
 */
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "access/access.h"
#include "base/xalloc.h"
#include "team/team_int.h"

void dmi_team_news(struct dmi_team_rank *rank) {
  atomic_fetch_add(&rank->news, 1);
  dmi_futex_wake(&rank->news, 1);
}

/* ---- Ports here ----------------------------------------------------------------------------- */

/* A rank that is left and joined again in one process has two ports for a while: the message is for
 * the one of its epoch, else for the newer one. */
static struct dmi_team_rank *find(struct dmi_teams *teams, const struct dmi_msg *msg) {
  struct dmi_team_rank *rank, *found = NULL;
  DL_FOREACH(teams->ranks, rank) {
    if (rank->port.team != msg->map || rank->port.rank != (int32_t)msg->team.to) continue;
    if (rank->port.epoch == msg->team.epoch) return rank;
    if (!found || rank->port.before > found->port.before) found = rank;
  }
  return found;
}

static bool is_for_all(const struct dmi_msg *msg) {
  return msg->type == DMI_TEAM_RESET || msg->type == DMI_TEAM_EPOCH || msg->type == DMI_TEAM_LEAVE;
}

static bool give(struct dmi_team_rank *rank, struct dmi_msg *msg, struct dmi_team_out *out) {
  bool good = dmi_team_port_message(&rank->port, msg, out);
  if (rank->port.reset || msg->type == DMI_TEAM_EPOCH) dmi_team_news(rank);
  return good;
}

static bool give_all(struct dmi_teams *teams, struct dmi_msg *msg, struct dmi_team_out *out) {
  struct dmi_team_rank *rank;
  bool good = true;
  DL_FOREACH(teams->ranks, rank) {
    if (rank->port.team == msg->map) good = give(rank, msg, out) && good;
  }
  return good;
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* The bytes of an EAGER are the caller's again when its call returns; those of a BODY stay until
 * PULLED. */
static void send(struct dmi_teams *teams, dmi_uid_t uid, struct dmi_msg *msg,
                 struct dmi_flush *flush) {
  if (msg->type == DMI_TEAM_EAGER && msg->body.len > DMI_NET_COPY)
    msg->body = dmi_slice_xcopy(msg->body.ptr, msg->body.len);
  if (dmi_net_send(teams->process->access.net, uid, msg)) {
    dmi_access_flush_later(&teams->process->access, uid, flush);
  } else {
    dmi_slice_drop(&msg->body); /* it has left */
  }
}

/* A port here of the team in which this was said.  `hint`: probably one; or NULL. */
static const struct dmi_team_rank *said_by(struct dmi_teams *teams, const struct dmi_msg *msg,
                                           const struct dmi_team_rank *hint) {
  const struct dmi_team_rank *rank, *found = NULL;
  if (hint && hint->port.team == msg->map) return hint;
  DL_FOREACH(teams->ranks, rank) {
    if (rank->port.team != msg->map) continue;
    if (rank->port.epoch == msg->team.epoch) return rank;
    found = rank; /* an answer to a message of an older epoch */
  }
  return found;
}

/* Large ones are copied behind the lock: both operations wait for that. */
static bool copies_later(const struct dmi_team_rank *to, const struct dmi_msg *msg,
                         struct dmi_team_carry *carry) {
  void *at = msg->body.len > DMI_TEAM_EAGER_MOST ? dmi_team_port_where(&to->port, msg) : NULL;
  if (!at) return false;
  DMI_XALLOC_GROW(carry->copies, carry->copy_num, carry->copy_capacity);
  carry->copies[carry->copy_num++] = (struct dmi_team_copy){*msg, at};
  return true;
}

/* Also what the ports here say to each other in turn. */
static void deliver(struct dmi_teams *teams, const struct dmi_team_rank *rank,
                    struct dmi_team_carry *carry) {
  for (uint32_t i = 0; i < carry->out.num; i++) {
    struct dmi_msg msg = carry->out.msgs[i];
    const struct dmi_team_rank *by = said_by(teams, &msg, rank);
    dmi_uid_t uid = by && msg.team.to < (uint32_t)by->port.size ? by->uids[msg.team.to] : 0;
    struct dmi_team_rank *to;
    if (uid == 0) {
      dmi_slice_drop(&msg.body);
      continue;
    }
    if (uid != teams->process->access.core.self) {
      send(teams, uid, &msg, &carry->flush);
      continue;
    }
    msg.origin = uid;
    to = find(teams, &msg);
    if (to && copies_later(to, &msg, carry)) continue;
    if (to) (void)give(to, &msg, &carry->out);
    dmi_slice_drop(&msg.body);
  }
  carry->out.num = 0;
}

/* ---- The lock ------------------------------------------------------------------------------- */

void dmi_team_lock(struct dmi_teams *teams, struct dmi_team_carry *carry) {
  carry->out = (struct dmi_team_out){0};
  dmi_access_flush_init(&carry->flush);
  carry->copies = NULL;
  carry->copy_num = carry->copy_capacity = 0;
  dmi_lock(&teams->lock, DMI_RANK_LEAF);
}

static void over(struct dmi_team_op *op) {
  struct dmi_team_wait *wait = (struct dmi_team_wait *)(void *)op;
  struct dmi_status *status = wait->status;
  int32_t error = op->error;
  if (wait->got && (error == DMI_OK || error == DMI_ESIZE))
    *wait->got = (DMI_got_t){(int64_t)op->got, op->from};
  if (wait->heap) free(wait);
  dmi_status_done(status, error);
}

/* Says that they are there: what that leads to may be more of them. */
static void copy(struct dmi_teams *teams, struct dmi_team_carry *carry) {
  for (uint32_t i = 0; i < carry->copy_num; i++) {
    struct dmi_team_copy done = carry->copies[i];
    struct dmi_team_rank *to;
    memcpy(done.to, done.msg.body.ptr, done.msg.body.len);
    done.msg.body.ptr = done.to;
    dmi_lock(&teams->lock, DMI_RANK_LEAF);
    to = find(teams, &done.msg);
    if (to) (void)give(to, &done.msg, &carry->out);
    deliver(teams, to, carry);
    dmi_unlock(&teams->lock, DMI_RANK_LEAF);
  }
  free(carry->copies);
}

static void unlock(struct dmi_teams *teams, struct dmi_team_carry *carry) {
  dmi_unlock(&teams->lock, DMI_RANK_LEAF);
  if (carry->flush.num) dmi_access_flush(&teams->process->access, &carry->flush);
  if (carry->copy_num) {
    copy(teams, carry);
    dmi_access_flush(&teams->process->access, &carry->flush);
  }
  while (carry->out.over) {
    struct dmi_team_op *op = carry->out.over;
    carry->out.over = op->next;
    over(op);
  }
  if (carry->out.msgs) dmi_team_out_free(&carry->out);
}

void dmi_team_unlock(struct dmi_teams *teams, const struct dmi_team_rank *rank,
                     struct dmi_team_carry *carry) {
  deliver(teams, rank, carry);
  unlock(teams, carry);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

bool dmi_team_message(struct dmi_teams *teams, dmi_uid_t from, struct dmi_msg *msg) {
  struct dmi_team_carry carry;
  struct dmi_team_rank *rank = NULL;
  bool good = true;
  msg->origin = from;
  if (msg->type == DMI_TEAM_EAGER && msg->body.len && !msg->body.ptr)
    dmi_xalloc_fail(msg->body.len);
  dmi_team_lock(teams, &carry);
  if (is_for_all(msg)) {
    good = give_all(teams, msg, &carry.out);
  } else {
    rank = find(teams, msg);
    if (rank) good = give(rank, msg, &carry.out); /* else its thread has left */
  }
  deliver(teams, rank, &carry);
  unlock(teams, &carry);
  return good;
}

void *dmi_team_where(struct dmi_teams *teams, dmi_uid_t from, struct dmi_msg *msg) {
  struct dmi_team_carry carry;
  const struct dmi_team_rank *rank;
  void *buf;
  msg->origin = from;
  dmi_team_lock(teams, &carry);
  rank = find(teams, msg);
  buf = rank ? dmi_team_port_where(&rank->port, msg) : NULL;
  unlock(teams, &carry);
  return buf;
}

/* ---- To all --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Others from number *at on, as many as can be flushed at once behind the lock. */
static void tell_some(struct dmi_teams *teams, const struct dmi_msg *msg, const uint32_t *uids,
                      uint32_t num, uint32_t *at) {
  const dmi_uid_t self = teams->process->access.core.self;
  struct dmi_team_carry carry;
  uint32_t told = 0;
  dmi_team_lock(teams, &carry);
  for (; *at < num && told < DMI_FLUSH_MAX; ++*at) {
    struct dmi_msg each = *msg;
    if (uids[*at] == 0 || uids[*at] == self || (*at && uids[*at] == uids[*at - 1])) continue;
    send(teams, uids[*at], &each, &carry.flush);
    told++;
  }
  unlock(teams, &carry);
}

void dmi_team_tell(struct dmi_teams *teams, const struct dmi_msg *msg, const uint32_t *uids,
                   uint32_t num) {
  uint32_t *sorted = dmi_xalloc(num, sizeof(*sorted)), at = 0;
  struct dmi_team_carry carry;
  struct dmi_msg here = *msg;
  memcpy(sorted, uids, num * sizeof(*sorted));
  qsort(sorted, num, sizeof(*sorted), by_number);
  while (at < num)
    tell_some(teams, msg, sorted, num, &at);
  free(sorted);
  here.origin = teams->process->access.core.self;
  dmi_team_lock(teams, &carry);
  (void)give_all(teams, &here, &carry.out);
  deliver(teams, NULL, &carry);
  unlock(teams, &carry);
}
