/*
 * peer_member.c - what the layer above says and asks about other processes: who is a member and
 * where, which connection is whose, who is to be closed or kept out.
 *
 * Only the daemon calls these, but for dmi_net_connected and dmi_net_sent.
 */
#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "net/net_int.h"

void dmi_net_add_peer(struct dmi_net *net, uint32_t uid, const struct dmi_addr *addr) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer == NULL) {
    peer = dmi_peer_new(net, uid);
    if (peer == NULL) {
      dmi_net_log(net, DMI_ABOUT_OURS, "no memory to take note of member %u", uid);
      return;
    }
    peer->announced = true;
  }
  if (!peer->announced) {
    peer->announced = true;
    net->unannounced--;
  }
  peer->addr = *addr;
}

/* Gives `to` the connection and the queue of `from`, whose messages come first. */
static void move_connection(struct dmi_net_peer *from, struct dmi_net_peer *to) {
  dmi_lock(&from->lock, DMI_RANK_PEER);
  dmi_send_settle(from);
  struct dmi_seg *head = from->head, *tail = from->tail;
  struct dmi_link *link = from->link;
  bool blocked = from->blocked;
  struct dmi_sealed *out = from->out;
  from->out = NULL;
  from->head = from->tail = NULL;
  from->link = NULL;
  dmi_peer_move(from, DMI_PEER_SHUT);
  dmi_unlock(&from->lock, DMI_RANK_PEER);
  dmi_lock(&to->lock, DMI_RANK_PEER);
  if (head != NULL) {
    tail->next = to->head;
    to->head = head;
    if (to->tail == NULL) to->tail = tail;
  }
  to->link = link;
  to->out = out;
  to->blocked = blocked;
  dmi_peer_move(to, DMI_PEER_UP);
  dmi_unlock(&to->lock, DMI_RANK_PEER);
  struct dmi_conn *conn = from->conn;
  dmi_lend_way_out(from, NULL);
  conn->peer = to;
  dmi_lend_way_out(to, conn);
}

void dmi_net_rename(struct dmi_net *net, uint32_t temp, uint32_t uid) {
  struct dmi_net_peer *from = dmi_peer_find(net, temp);
  if (from == NULL || temp == uid || from->conn == NULL) return;
  struct dmi_conn *conn = from->conn;
  struct dmi_net_peer *to = dmi_peer_find(net, uid);
  if (to == NULL && (to = dmi_peer_new(net, uid)) == NULL) {
    dmi_net_log(net, DMI_ABOUT_OURS, "no memory to take note of member %u", uid);
    return;
  }
  if (!to->announced && to->conn != NULL) net->unannounced--;
  to->announced = true;
  if (dmi_addr_is_zero(&to->addr)) to->addr = conn->theirs;
  if (conn->stranger) {
    conn->stranger = false;
    net->stranger_num--;
  }
  conn->member = true;
  ev_timer_stop(net->loop, &conn->patience);
  dmi_lock(&to->lock, DMI_RANK_PEER);
  enum dmi_peer_state state = to->state;
  dmi_unlock(&to->lock, DMI_RANK_PEER);
  /* If `to` has a connection already, this one is only used to receive. An attempt to connect to
   * it is given up, unless HELLO was sent: then the other may already use that connection. */
  if (state == DMI_PEER_IDLE || (state == DMI_PEER_DIALING && to->dial->state != DMI_DIAL_SAID)) {
    if (to->dial != NULL) dmi_dial_cancel(to->dial);
    move_connection(from, to);
  } else {
    dmi_send_flush(from);
  }
  conn->peer = to;
  dmi_peer_free_temp(from);
  dmi_send_flush(to);
}

bool dmi_net_connected(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, id);
  if (peer == NULL) return false;
  bool is = peer->state == DMI_PEER_UP || peer->state == DMI_PEER_DIALING ||
            (peer->state == DMI_PEER_IDLE && peer->head != NULL);
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return is;
}

void dmi_net_close(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, id);
  if (peer == NULL) return;
  bool wake = false;
  if (peer->state == DMI_PEER_IDLE && peer->head == NULL) {
    dmi_peer_move(peer, DMI_PEER_SHUT);
  } else if (peer->state < DMI_PEER_SHUT && !peer->closing) {
    struct dmi_msg end = {.type = DMI_MSG_FIN};
    peer->closing = peer->ended = true;
    if (!dmi_outgoing_append(peer, &end)) {
      peer->broken = ENOMEM;
      wake = dmi_net_need_daemon(peer);
    }
  }
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (wake) dmi_net_wake(net);
  dmi_send_flush(peer);
}

#define REMOVED "the others have gone on without it"

/* Ends its connections, but not one whose message is being handled: that brings no more. */
static void fence_connections(struct dmi_net_peer *peer) {
  struct dmi_conn *conn = peer->net->conns;
  while (conn != NULL) {
    if (conn->peer != peer || conn->turn == DMI_TURN_DAEMON) {
      if (conn->peer == peer) conn->got_end = true;
      conn = conn->next;
    } else {
      dmi_conn_lose(conn, REMOVED);
      conn = peer->net->conns; /* the handler was called */
    }
  }
}

void dmi_net_fence(struct dmi_net *net, dmi_uid_t uid) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer == NULL && (peer = dmi_peer_new(net, uid)) != NULL) peer->announced = true;
  if (peer == NULL) {
    dmi_net_log(net, DMI_ABOUT_OURS, "no memory to take note of member %u", uid);
    return;
  }
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  peer->fenced = true;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  fence_connections(peer);
  if (peer->deferred != NULL) dmi_handshake_drop(peer->deferred);
  if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool open = peer->state < DMI_PEER_SHUT, handled = peer->conn != NULL, wake = false;
  if (open && handled) {
    peer->broken = ECONNABORTED;
    wake = dmi_net_need_daemon(peer);
  }
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (open && !handled) dmi_peer_lost(peer, REMOVED);
  if (wake) dmi_net_wake(net);
}

void dmi_net_drop(struct dmi_net *net, uint32_t temp) {
  struct dmi_net_peer *peer = temp >= DMI_NET_TEMP ? dmi_peer_find(net, temp) : NULL;
  if (peer != NULL && peer->conn != NULL && peer->conn->turn != DMI_TURN_DAEMON)
    dmi_conn_lose(peer->conn, "others ask in its place");
}

void dmi_net_addrs(struct dmi_net *net, uint32_t id, struct dmi_addr *ours,
                   struct dmi_addr *theirs) {
  struct dmi_net_peer *peer = dmi_peer_find(net, id);
  memset(ours, 0, sizeof *ours);
  memset(theirs, 0, sizeof *theirs);
  if (peer == NULL) return;
  *theirs = peer->addr;
  if (peer->conn == NULL) return;
  *ours = peer->conn->ours;
  *theirs = peer->conn->theirs;
}

bool dmi_net_flushed(struct dmi_net *net) {
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (!dmi_send_idle(peer)) return false;
  }
  return true;
}

bool dmi_net_sent(struct dmi_net *net, dmi_uid_t uid) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  return peer == NULL || dmi_send_idle(peer);
}
