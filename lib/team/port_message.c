/*
 * port_message.c - messages that come to a port.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "team/port_int.h"
#include "team/table.h"

/* ---- Messages of the port's epoch ----------------------------------------------------------- */

static bool arrives(struct dmi_team_port *port, struct dmi_msg *msg, struct dmi_team_out *out) {
  if (port->reset && !DMI_BROKEN(port, DMI_TEAM_NO_EMPTY)) return true;
  if (!dmi_team_match(port, msg, out)) dmi_team_keep(port, msg);
  return true;
}

bool dmi_team_port_on_eager(struct dmi_team_port *port, struct dmi_msg *msg,
                            struct dmi_team_out *out) {
  struct dmi_team_peer *peer = &port->peers[msg->team.from];
  uint64_t cost = dmi_team_cost(msg);
  if (cost > DMI_TEAM_WINDOW - peer->used && !DMI_BROKEN(port, DMI_TEAM_NO_EPOCH)) return false;
  peer->used += cost;
  return arrives(port, msg, out);
}

bool dmi_team_port_on_offer(struct dmi_team_port *port, struct dmi_msg *msg,
                            struct dmi_team_out *out) {
  if (msg->team.count > INT64_MAX) return false;
  if (port->peers[msg->team.from].hole) return true;
  return arrives(port, msg, out);
}

/* The operation with this peer and serial; NULL: none. */
static struct dmi_team_op *find(struct dmi_team_op *list, bool is_send, const struct dmi_msg *msg) {
  struct dmi_team_op *op;
  DL_FOREACH(list, op) {
    int32_t with = is_send ? op->peer : op->from;
    if (op->serial == msg->team.serial && with == (int32_t)msg->team.from) return op;
  }
  return NULL;
}

/* Why a send that was offered ended before it was pulled. */
static int32_t why_gone(const struct dmi_team_port *port, const struct dmi_msg *pull) {
  if (port->reset || pull->team.epoch != port->epoch) return DMI_ERESET;
  if (port->stopped) return DMI_EEND;
  return DMI_BROKEN(port, DMI_TEAM_NO_REASON) ? DMI_ERESET : DMI_ELOST;
}

/* Also of older epochs: who has pulled waits for an answer. */
static void gone(const struct dmi_team_port *port, const struct dmi_msg *pull,
                 struct dmi_team_out *out) {
  struct dmi_msg *msg;
  if (DMI_BROKEN(port, DMI_TEAM_NO_GONE)) return;
  msg = dmi_team_say(port, DMI_TEAM_BODY, (int32_t)pull->team.from, out);
  msg->flags = DMI_F_GONE;
  msg->team.epoch = pull->team.epoch;
  msg->team.serial = pull->team.serial;
  msg->team.count = (uint64_t)why_gone(port, pull);
}

/* A receive whose message is gone.  False: there is no such reason. */
static bool end_gone(struct dmi_team_port *port, struct dmi_team_op *op, uint64_t why,
                     struct dmi_team_out *out) {
  if (why != DMI_ERESET && why != DMI_ELOST && why != DMI_EEND) return false;
  DL_DELETE(port->pulls, op);
  dmi_team_over(op, port->reset ? DMI_ERESET : (int32_t)why, out);
  if (why == DMI_ELOST && op->lane == DMI_TEAM_COLLECTIVE) dmi_team_fail(port, out);
  return true;
}

bool dmi_team_port_on_pull(struct dmi_team_port *port, struct dmi_msg *msg,
                           struct dmi_team_out *out) {
  struct dmi_team_op *op = find(port->sends, true, msg);
  struct dmi_msg *body;
  if (!op) {
    gone(port, msg, out);
    return true;
  }
  if (op->state != DMI_TEAM_OFFERED) return false;
  op->state = DMI_TEAM_SENDING;
  body = dmi_team_say(port, DMI_TEAM_BODY, op->peer, out);
  body->team.serial = op->serial;
  body->body = (struct dmi_slice){.ptr = op->buf, .len = op->size};
  return true;
}

bool dmi_team_port_on_body(struct dmi_team_port *port, struct dmi_msg *msg,
                           struct dmi_team_out *out) {
  struct dmi_team_op *op = find(port->pulls, false, msg);
  bool has_gone = (msg->flags & DMI_F_GONE) != 0;
  if (!op) return true; /* the sender was lost, and it came before */
  if (msg->body.len != (has_gone ? 0 : op->got)) return false;
  if (has_gone) return end_gone(port, op, msg->team.count, out);
  if (msg->body.len && !msg->body.ptr) return false;
  DL_DELETE(port->pulls, op);
  /* The network has put it there; another port of this process has not. */
  if (msg->body.len && msg->body.ptr != op->buf) memcpy(op->buf, msg->body.ptr, msg->body.len);
  dmi_team_say(port, DMI_TEAM_PULLED, op->from, out)->team.serial = op->serial;
  dmi_team_over(op, port->reset ? DMI_ERESET : DMI_OK, out);
  return true;
}

bool dmi_team_port_on_pulled(struct dmi_team_port *port, struct dmi_msg *msg,
                             struct dmi_team_out *out) {
  struct dmi_team_op *op = find(port->sends, true, msg);
  if (!op) return true; /* the receiver was lost, and it came before */
  if (op->state != DMI_TEAM_SENDING) return false;
  DL_DELETE(port->sends, op);
  dmi_team_over(op, DMI_OK, out);
  return true;
}

bool dmi_team_port_on_credit(struct dmi_team_port *port, struct dmi_msg *msg,
                             struct dmi_team_out *out) {
  struct dmi_team_peer *peer = &port->peers[msg->team.from];
  (void)out;
  if (msg->team.count > DMI_TEAM_WINDOW - peer->window && !DMI_BROKEN(port, DMI_TEAM_NO_CREDIT) &&
      !DMI_BROKEN(port, DMI_TEAM_NO_WINDOW))
    return false;
  peer->window += msg->team.count;
  return true;
}

bool dmi_team_port_on_reset(struct dmi_team_port *port, struct dmi_msg *msg,
                            struct dmi_team_out *out) {
  if (msg->team.epoch == port->epoch) dmi_team_port_reset(port, out);
  return true;
}

bool dmi_team_port_on_leave(struct dmi_team_port *port, struct dmi_msg *msg,
                            struct dmi_team_out *out) {
  struct dmi_team_peer *peer = &port->peers[msg->team.from];
  if (peer->left || peer->hole || (int32_t)msg->team.from == port->rank) return true;
  peer->left = true;
  port->left++;
  dmi_team_end_left(port, (int32_t)msg->team.from, out);
  return true;
}

bool dmi_team_port_on_epoch(struct dmi_team_port *port, struct dmi_msg *msg,
                            struct dmi_team_out *out) {
  (void)out;
  if (msg->team.epoch > port->begun) port->begun = msg->team.epoch;
  return true;
}

/* ---- Any message ---------------------------------------------------------------------------- */

/* It comes from the process that has the rank. */
static bool is_of(const struct dmi_team_port *port, const struct dmi_msg *msg) {
  return msg->team.from < (uint32_t)port->size &&
         port->peers[msg->team.from].process == msg->origin;
}

void *dmi_team_port_where(const struct dmi_team_port *port, const struct dmi_msg *msg) {
  const struct dmi_team_op *op;
  if (msg->type != DMI_TEAM_BODY || msg->team.epoch != port->epoch || !is_of(port, msg))
    return NULL;
  op = find(port->pulls, false, msg);
  return op && op->got == msg->body.len ? op->buf : NULL;
}

void dmi_team_ahead_free(struct dmi_team_port *port) {
  struct dmi_team_ahead *ahead, *next;
  HASH_ITER(hh, port->windows, ahead, next) {
    HASH_DEL(port->windows, ahead);
    free(ahead);
  }
}

static struct dmi_team_ahead *ahead_of(struct dmi_team_port *port, const struct dmi_msg *msg) {
  struct dmi_team_sender sender;
  struct dmi_team_ahead *ahead;
  memset(&sender, 0, sizeof(sender)); /* it is compared as bytes */
  sender.epoch = msg->team.epoch;
  sender.process = msg->origin;
  sender.rank = msg->team.from;
  HASH_FIND(hh, port->windows, &sender, sizeof(sender), ahead);
  if (ahead) return ahead;
  ahead = dmi_xalloc(1, sizeof(*ahead));
  ahead->sender = sender;
  HASH_ADD(hh, port->windows, sender, sizeof(sender), ahead);
  return ahead;
}

/* False: it has sent more than its window, or has left already. */
static bool may_be_ahead(struct dmi_team_ahead *ahead, const struct dmi_msg *msg) {
  if (ahead->left) return false;
  if (msg->type == DMI_TEAM_RESET) {
    ahead->reset = true;
  } else if (msg->type == DMI_TEAM_LEAVE) {
    ahead->left = true;
  } else {
    if (dmi_team_cost(msg) > DMI_TEAM_WINDOW - ahead->used) return false;
    ahead->used += dmi_team_cost(msg);
  }
  return true;
}

/* Of an epoch that has not begun here.  The one behind it cannot begin without this rank: such a
 * message is for another thread that has had the rank since. */
static bool comes_ahead(struct dmi_team_port *port, struct dmi_msg *msg) {
  struct dmi_team_ahead *ahead;
  struct dmi_team_item *item;
  if (msg->type != DMI_TEAM_EAGER && msg->type != DMI_TEAM_OFFER && msg->type != DMI_TEAM_LEAVE &&
      msg->type != DMI_TEAM_RESET)
    return false;
  if (msg->team.from >= DMI_TEAM_RANKS_MOST) return false;
  if (port->epoch && msg->team.epoch > port->epoch + 1) return true;
  if (DMI_BROKEN(port, DMI_TEAM_NO_AHEAD)) return true;
  ahead = ahead_of(port, msg);
  if (msg->type == DMI_TEAM_RESET && ahead->reset) return true;
  if (!may_be_ahead(ahead, msg)) return false;
  item = dmi_team_item_new(port, msg);
  if (port->ahead_last) {
    port->ahead_last->next = item;
  } else {
    port->ahead = item;
  }
  port->ahead_last = item;
  return true;
}

/* An older one.  A BODY with GONE, CREDIT and the like are of no use any more. */
static bool is_old(struct dmi_team_port *port, const struct dmi_msg *msg,
                   struct dmi_team_out *out) {
  if (msg->type == DMI_TEAM_PULL) gone(port, msg, out);
  return true;
}

bool dmi_team_port_message(struct dmi_team_port *port, struct dmi_msg *msg,
                           struct dmi_team_out *out) {
  bool old = msg->team.epoch < port->epoch || msg->team.epoch <= port->before;
  if (msg->type == DMI_TEAM_EPOCH) return dmi_team_port_on_epoch(port, msg, out);
  if (msg->team.epoch > port->epoch && !old) return comes_ahead(port, msg);
  if (old && DMI_BROKEN(port, DMI_TEAM_NO_EPOCH) && msg->type == DMI_TEAM_EAGER &&
      msg->team.from < (uint32_t)port->size)
    old = false;
  if (old) return is_old(port, msg, out);
  if (msg->team.from >= (uint32_t)port->size) return false;
  if (port->peers[msg->team.from].process == 0) return true; /* it is known to be lost, not here */
  if (!is_of(port, msg)) return false;
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(port, msg, out);
    DMI_MSGS_TEAM(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}
