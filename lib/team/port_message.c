/*
 * port_message.c - messages that come to a port.
 */
#include <stddef.h>
#include <string.h>

#include "dmi_api.h"
#include "team/port_int.h"

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

/* Also of older epochs: who has pulled waits for an answer. */
static void gone(const struct dmi_team_port *port, const struct dmi_msg *pull,
                 struct dmi_team_out *out) {
  struct dmi_msg *msg;
  if (DMI_BROKEN(port, DMI_TEAM_NO_GONE)) return;
  msg = dmi_team_say(port, DMI_TEAM_BODY, (int32_t)pull->team.from, out);
  msg->flags = DMI_F_GONE;
  msg->team.epoch = pull->team.epoch;
  msg->team.serial = pull->team.serial;
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
  DL_DELETE(port->pulls, op);
  if (has_gone) {
    dmi_team_over(op, DMI_ERESET, out);
    return true;
  }
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

void *dmi_team_port_where(const struct dmi_team_port *port, const struct dmi_msg *msg) {
  const struct dmi_team_op *op;
  if (msg->type != DMI_TEAM_BODY || msg->team.epoch != port->epoch) return NULL;
  op = find(port->pulls, false, msg);
  return op && op->got == msg->body.len ? op->buf : NULL;
}

/* Of an epoch that has not begun here. */
static bool comes_ahead(struct dmi_team_port *port, struct dmi_msg *msg) {
  struct dmi_team_item *item;
  if (msg->type == DMI_TEAM_RESET) {
    if (msg->team.epoch > port->reset_ahead) port->reset_ahead = msg->team.epoch;
    return true;
  }
  if (msg->type != DMI_TEAM_EAGER && msg->type != DMI_TEAM_OFFER && msg->type != DMI_TEAM_LEAVE)
    return false;
  if (DMI_BROKEN(port, DMI_TEAM_NO_AHEAD)) return true;
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
