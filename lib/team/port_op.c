/*
 * port_op.c - what a rank's thread asks of its port: sends, receives, probes.
 */
#include <string.h>

#include "dmi_api.h"
#include "team/port_int.h"

static bool fits(const struct dmi_team_op *op, enum dmi_team_lane lane, uint32_t from) {
  return op->lane == lane && (op->peer == DMI_TEAM_FROM_ANY || op->peer == (int32_t)from);
}

/* The bytes of a message of this rank were received: its window grows again. */
static void give_back(struct dmi_team_port *port, uint32_t from, uint64_t bytes,
                      struct dmi_team_out *out) {
  struct dmi_team_peer *peer = &port->peers[from];
  struct dmi_msg *msg;
  peer->received += bytes;
  if (peer->received < DMI_TEAM_RETURN) return;
  msg = dmi_team_say(port, DMI_TEAM_CREDIT, (int32_t)from, out);
  msg->team.count = peer->received;
  if (DMI_BROKEN(port, DMI_TEAM_NO_CREDIT)) msg->team.count *= 2;
  peer->used -= peer->received;
  peer->received = 0;
}

bool dmi_team_take(struct dmi_team_port *port, struct dmi_team_op *op, const struct dmi_msg *msg,
                   struct dmi_team_out *out) {
  uint64_t size = dmi_team_size_of(msg);
  op->from = (int32_t)msg->team.from;
  op->got = size;
  if (op->probe || (size > op->size && !DMI_BROKEN(port, DMI_TEAM_CUT))) {
    dmi_team_over(op, op->probe ? DMI_OK : DMI_ESIZE, out);
    return false;
  }
  if (msg->type == DMI_TEAM_OFFER) {
    op->state = DMI_TEAM_PULLING;
    op->serial = msg->team.serial;
    DL_APPEND(port->pulls, op);
    dmi_team_say(port, DMI_TEAM_PULL, op->from, out)->team.serial = op->serial;
    return true;
  }
  if (size > op->size) size = op->size; /* only with the rule switched off */
  if (size) memcpy(op->buf, msg->body.ptr, size);
  give_back(port, msg->team.from, dmi_team_cost(msg), out);
  dmi_team_over(op, DMI_OK, out);
  return true;
}

bool dmi_team_match(struct dmi_team_port *port, const struct dmi_msg *msg,
                    struct dmi_team_out *out) {
  enum dmi_team_lane lane = dmi_team_lane_of(port, msg);
  struct dmi_team_op *op, *next, *last = NULL;
  DL_FOREACH_SAFE(port->posted, op, next) {
    if (!fits(op, lane, msg->team.from)) continue;
    if (DMI_BROKEN(port, DMI_TEAM_NO_POSTED) && !op->probe) {
      last = op;
      continue;
    }
    DL_DELETE(port->posted, op);
    if (dmi_team_take(port, op, msg, out)) return true;
  }
  if (!last) return false;
  DL_DELETE(port->posted, last);
  return dmi_team_take(port, last, msg, out);
}

/* The message for this receive; NULL: none. */
static struct dmi_team_item *find(const struct dmi_team_port *port, const struct dmi_team_op *op) {
  bool any = op->peer == DMI_TEAM_FROM_ANY;
  if (DMI_BROKEN(port, DMI_TEAM_NO_ORDER))
    return any ? port->last[op->lane] : port->peers[op->peer].last[op->lane];
  return any ? port->first[op->lane] : port->peers[op->peer].first[op->lane];
}

/* True if waiting for it would not end.  A message to oneself may still come. */
static bool hopeless(const struct dmi_team_port *port, const struct dmi_team_op *op) {
  bool any = op->peer == DMI_TEAM_FROM_ANY;
  if (DMI_BROKEN(port, DMI_TEAM_NO_HOLE)) return false;
  if (op->lane == DMI_TEAM_COLLECTIVE && port->failed) return true;
  if (any) return port->holes != 0 || (port->left != 0 && dmi_team_alone(port));
  return port->peers[op->peer].hole || port->peers[op->peer].left;
}

/* True if nobody will take what this sends. */
static bool is_lost(const struct dmi_team_port *port, const struct dmi_team_op *op) {
  const struct dmi_team_peer *peer = &port->peers[op->peer];
  if (peer->hole || peer->left) return true;
  return op->lane == DMI_TEAM_COLLECTIVE && port->failed && !DMI_BROKEN(port, DMI_TEAM_NO_FAIL);
}

void dmi_team_port_send(struct dmi_team_port *port, struct dmi_team_op *op,
                        struct dmi_team_out *out) {
  struct dmi_team_peer *peer = &port->peers[op->peer];
  uint64_t cost = op->size + DMI_TEAM_OVERHEAD;
  bool eager = op->size <= DMI_TEAM_EAGER_MOST &&
               (cost <= peer->window || DMI_BROKEN(port, DMI_TEAM_NO_WINDOW));
  struct dmi_msg *msg;
  if (port->reset || port->stopped) {
    dmi_team_over(op, port->stopped ? DMI_EEND : DMI_ERESET, out);
    return;
  }
  if (is_lost(port, op)) {
    dmi_team_over(op, DMI_ELOST, out);
    if (op->lane == DMI_TEAM_COLLECTIVE) dmi_team_fail(port, out);
    return;
  }
  msg = dmi_team_say(port, eager ? DMI_TEAM_EAGER : DMI_TEAM_OFFER, op->peer, out);
  if (op->lane == DMI_TEAM_COLLECTIVE) msg->flags |= DMI_F_COLLECTIVE;
  if (eager) {
    peer->window -= cost;
    msg->body = (struct dmi_slice){.ptr = op->buf, .len = op->size};
    dmi_team_over(op, DMI_OK, out);
    return;
  }
  op->state = DMI_TEAM_OFFERED;
  msg->team.serial = op->serial = ++port->serial;
  msg->team.count = op->size;
  DL_APPEND(port->sends, op);
}

void dmi_team_port_receive(struct dmi_team_port *port, struct dmi_team_op *op,
                           struct dmi_team_out *out) {
  struct dmi_team_item *item;
  if ((port->reset && !DMI_BROKEN(port, DMI_TEAM_NO_RELEASE)) || port->stopped) {
    dmi_team_over(op, port->stopped ? DMI_EEND : DMI_ERESET, out);
    return;
  }
  item = find(port, op);
  if (item) {
    if (!dmi_team_take(port, op, &item->msg, out)) return;
    dmi_team_unkeep(port, item);
    dmi_team_item_free(port, item);
    return;
  }
  if (hopeless(port, op)) {
    dmi_team_over(op, DMI_ELOST, out);
    if (op->lane == DMI_TEAM_COLLECTIVE) dmi_team_fail(port, out);
    return;
  }
  op->state = DMI_TEAM_POSTED;
  DL_APPEND(port->posted, op);
}

bool dmi_team_port_look(struct dmi_team_port *port, struct dmi_team_op *op) {
  const struct dmi_team_item *item = find(port, op);
  op->error = DMI_OK;
  if (port->stopped) {
    op->error = DMI_EEND;
  } else if (port->reset) {
    op->error = DMI_ERESET;
  } else if (!item && hopeless(port, op)) {
    op->error = DMI_ELOST;
  } else if (item) {
    op->from = (int32_t)item->msg.team.from;
    op->got = dmi_team_size_of(&item->msg);
  }
  return item != NULL;
}
