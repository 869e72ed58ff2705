/*
 * port.c - the life of a port: epochs, resets, losses; and the messages that it keeps.
 */
#include "team/port.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "team/port_int.h"

/* ---- What is to be done --------------------------------------------------------------------- */

struct dmi_msg *dmi_team_out_msg(struct dmi_team_out *out) {
  DMI_XALLOC_GROW(out->msgs, out->num, out->capacity);
  return &out->msgs[out->num++];
}

void dmi_team_out_free(struct dmi_team_out *out) {
  free(out->msgs);
}

struct dmi_msg *dmi_team_say(const struct dmi_team_port *port, enum dmi_msg_type type, int32_t to,
                             struct dmi_team_out *out) {
  struct dmi_msg *msg = dmi_team_out_msg(out);
  *msg = (struct dmi_msg){.type = (uint8_t)type, .map = port->team};
  msg->team.from = (uint32_t)port->rank;
  msg->team.to = (uint32_t)to;
  msg->team.epoch = port->epoch;
  return msg;
}

void dmi_team_over(struct dmi_team_op *op, int32_t error, struct dmi_team_out *out) {
  op->state = DMI_TEAM_OVER;
  op->error = error;
  LL_PREPEND(out->over, op);
}

/* ---- Messages that are kept ----------------------------------------------------------------- */

struct dmi_team_item *dmi_team_item_new(struct dmi_team_port *port, struct dmi_msg *msg) {
  struct dmi_team_item *item = dmi_xalloc(1, sizeof(*item));
  item->msg = *msg;
  if (msg->body.len && !msg->body.frame) /* the sender's buffer */
    item->msg.body = dmi_slice_xcopy(msg->body.ptr, msg->body.len);
  msg->body = (struct dmi_slice){0};
  port->kept += item->msg.body.len + sizeof(*item);
  if (port->account.keep) port->account.keep(port->account.arg, item->msg.body.len + sizeof(*item));
  return item;
}

void dmi_team_item_free(struct dmi_team_port *port, struct dmi_team_item *item) {
  uint64_t bytes = item->msg.body.len + sizeof(*item);
  port->kept -= bytes;
  if (port->account.drop) port->account.drop(port->account.arg, bytes);
  dmi_slice_drop(&item->msg.body);
  free(item);
}

void dmi_team_keep(struct dmi_team_port *port, struct dmi_msg *msg) {
  enum dmi_team_lane lane = dmi_team_lane_of(port, msg);
  struct dmi_team_peer *peer = &port->peers[msg->team.from];
  struct dmi_team_item *item = dmi_team_item_new(port, msg);
  if (peer->last[lane]) {
    peer->last[lane]->next = item;
  } else {
    peer->first[lane] = item;
  }
  peer->last[lane] = item;
  item->prev_all = port->last[lane];
  if (item->prev_all) {
    item->prev_all->next_all = item;
  } else {
    port->first[lane] = item;
  }
  port->last[lane] = item;
}

/* Nearly always the first of its rank. */
void dmi_team_unkeep(struct dmi_team_port *port, struct dmi_team_item *item) {
  enum dmi_team_lane lane = dmi_team_lane_of(port, &item->msg);
  struct dmi_team_peer *peer = &port->peers[item->msg.team.from];
  struct dmi_team_item *before = NULL, *at = peer->first[lane];
  while (at != item) {
    before = at;
    at = at->next;
  }
  if (before) {
    before->next = item->next;
  } else {
    peer->first[lane] = item->next;
  }
  if (peer->last[lane] == item) peer->last[lane] = before;
  if (item->prev_all) {
    item->prev_all->next_all = item->next_all;
  } else {
    port->first[lane] = item->next_all;
  }
  if (item->next_all) {
    item->next_all->prev_all = item->prev_all;
  } else {
    port->last[lane] = item->prev_all;
  }
  item->next = NULL;
}

static void drop_all(struct dmi_team_port *port) {
  for (int lane = 0; lane < DMI_TEAM_LANES; lane++) {
    while (port->first[lane]) {
      struct dmi_team_item *item = port->first[lane];
      dmi_team_unkeep(port, item);
      dmi_team_item_free(port, item);
    }
  }
}

/* ---- Epochs --------------------------------------------------------------------------------- */

void dmi_team_port_init(struct dmi_team_port *port, uint64_t team, int32_t rank, uint64_t before) {
  port->before = before;
  port->team = team;
  port->rank = rank;
}

void dmi_team_port_free(struct dmi_team_port *port) {
  drop_all(port);
  while (port->ahead) {
    struct dmi_team_item *item = port->ahead;
    port->ahead = item->next;
    dmi_team_item_free(port, item);
  }
  dmi_team_ahead_free(port);
  free(port->peers);
  port->peers = NULL;
}

/* What came ahead, in its order; what is still ahead is kept again. */
static bool take_ahead(struct dmi_team_port *port, struct dmi_team_out *out) {
  struct dmi_team_item *item = port->ahead, *next;
  bool good = true;
  port->ahead = port->ahead_last = NULL;
  dmi_team_ahead_free(port);
  for (; item; item = next) {
    struct dmi_msg msg = item->msg;
    next = item->next;
    item->msg.body.frame = NULL; /* passes on */
    dmi_team_item_free(port, item);
    good = dmi_team_port_message(port, &msg, out) && good;
    dmi_slice_drop(&msg.body);
  }
  return good;
}

bool dmi_team_port_begin(struct dmi_team_port *port, uint64_t epoch, int32_t size,
                         const uint32_t *processes, struct dmi_team_out *out) {
  struct dmi_team_item *first = port->first[0], *next;
  bool old = DMI_BROKEN(port, DMI_TEAM_NO_EMPTY);
  if (!old) drop_all(port);
  free(port->peers);
  port->peers = dmi_xalloc((size_t)size, sizeof(*port->peers));
  port->epoch = epoch;
  if (port->begun < epoch) port->begun = epoch;
  port->size = size;
  port->reset = false;
  port->holes = port->left = 0;
  port->serial = 0;
  for (int32_t i = 0; i < size; i++) {
    port->peers[i].window = DMI_TEAM_WINDOW;
    port->peers[i].process = processes[i];
    port->peers[i].hole = processes[i] == 0;
    if (port->peers[i].hole) port->holes++;
  }
  port->failed = port->holes != 0;
  if (old) { /* only with the rule switched off */
    port->first[0] = port->last[0] = NULL;
    for (; first; first = next) {
      next = first->next_all;
      if (first->msg.team.from < (uint32_t)size) dmi_team_keep(port, &first->msg);
      dmi_team_item_free(port, first);
    }
  }
  return take_ahead(port, out);
}

static void end_all(struct dmi_team_op **list, int32_t error, struct dmi_team_out *out) {
  while (*list) {
    struct dmi_team_op *op = *list;
    DL_DELETE(*list, op);
    dmi_team_over(op, error, out);
  }
}

/* Ends what waits, but for what a peer is working on. */
static void release(struct dmi_team_port *port, int32_t error, struct dmi_team_out *out) {
  struct dmi_team_op *op, *next;
  if (!DMI_BROKEN(port, DMI_TEAM_NO_RELEASE)) end_all(&port->posted, error, out);
  DL_FOREACH_SAFE(port->sends, op, next) {
    if (op->state != DMI_TEAM_OFFERED) continue;
    DL_DELETE(port->sends, op);
    dmi_team_over(op, error, out);
  }
}

void dmi_team_port_reset(struct dmi_team_port *port, struct dmi_team_out *out) {
  if (port->reset || !port->epoch) return;
  port->reset = true;
  release(port, DMI_ERESET, out);
  if (!DMI_BROKEN(port, DMI_TEAM_NO_EMPTY)) drop_all(port);
}

void dmi_team_port_stop(struct dmi_team_port *port, struct dmi_team_out *out) {
  port->stopped = true;
  release(port, DMI_EEND, out);
}

bool dmi_team_port_drained(const struct dmi_team_port *port) {
  if (DMI_BROKEN(port, DMI_TEAM_NO_DRAIN)) return true;
  return !port->sends && !port->pulls && !port->posted;
}

/* ---- Losses --------------------------------------------------------------------------------- */

/* Why operations end. */
enum why {
  LOST,  /* a rank was lost */
  LEFT,  /* a rank has left */
  ALONE, /* and all others had */
  FAILED /* a collective call has failed */
};

static bool ends(const struct dmi_team_op *op, int32_t rank, enum why why) {
  if (op->state == DMI_TEAM_PULLING) return why == LOST && op->from == rank;
  if (op->state == DMI_TEAM_SENDING)
    return why == LOST && op->peer == rank; /* else it is answered */
  if (why == FAILED) return op->lane == DMI_TEAM_COLLECTIVE;
  if (op->peer == DMI_TEAM_FROM_ANY) return why != LEFT;
  return op->peer == rank;
}

/* True if a part of a collective call has ended. */
static bool end_with(struct dmi_team_op **list, int32_t rank, enum why why,
                     struct dmi_team_out *out) {
  struct dmi_team_op *op, *next;
  bool collective = false;
  DL_FOREACH_SAFE(*list, op, next) {
    if (!ends(op, rank, why)) continue;
    if (op->lane == DMI_TEAM_COLLECTIVE) collective = true;
    DL_DELETE(*list, op);
    dmi_team_over(op, DMI_ELOST, out);
  }
  return collective;
}

void dmi_team_fail(struct dmi_team_port *port, struct dmi_team_out *out) {
  if (port->failed) return;
  port->failed = true;
  if (!DMI_BROKEN(port, DMI_TEAM_NO_FAIL)) (void)end_with(&port->sends, -1, FAILED, out);
  (void)end_with(&port->posted, -1, FAILED, out);
}

void dmi_team_port_lost(struct dmi_team_port *port, int32_t rank, struct dmi_team_out *out) {
  struct dmi_team_peer *peer;
  if (!port->epoch || rank >= port->size || port->peers[rank].hole) return;
  peer = &port->peers[rank];
  if (peer->left) port->left--;
  peer->left = false;
  peer->hole = true;
  port->holes++;
  for (int lane = 0; lane < DMI_TEAM_LANES; lane++) {
    struct dmi_team_item *item = peer->first[lane], *next;
    for (; item; item = next) {
      next = item->next;
      if (item->msg.type != DMI_TEAM_OFFER) continue;
      dmi_team_unkeep(port, item);
      dmi_team_item_free(port, item);
    }
  }
  if (DMI_BROKEN(port, DMI_TEAM_NO_HOLE)) return;
  (void)end_with(&port->sends, rank, LOST, out);
  (void)end_with(&port->pulls, rank, LOST, out);
  (void)end_with(&port->posted, rank, LOST, out);
  dmi_team_fail(port, out);
}

void dmi_team_end_left(struct dmi_team_port *port, int32_t rank, struct dmi_team_out *out) {
  const enum why why = dmi_team_alone(port) ? ALONE : LEFT;
  bool collective = end_with(&port->sends, rank, LEFT, out);
  if (end_with(&port->posted, rank, why, out) || collective) dmi_team_fail(port, out);
}
