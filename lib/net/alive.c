/*
 * alive.c - finds out which members' machines, and which members' daemons, do not answer.
 *
 * A machine: while no data is in flight to it, the system probes it (TCP keep-alive; transport.h).
 * While data is in flight, the system retransmits for a quarter of an hour before it gives up. That
 * is too long, so the daemon checks DMI_ALIVE_LOOKS times in config.dead_after since when nothing
 * has come back on each connection. It checks while data is in flight, and once more.
 *
 * TCP_USER_TIMEOUT cannot be used. With it Linux (5.11 and later) also ends a connection whose
 * other end has kept its window closed for that time, though its machine answers. That happens to a
 * process that was stopped while data was in flight to it, and such a process is not lost.
 *
 * A daemon: it answers PING; dmi_net_ping shows whether anything arrives from it.
 *
 * Must not decide what a silent daemon means: the upper layer says for whom it waits.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "net/net_int.h"

/* ---- Machines -------------------------------------------------------------------------------- */

bool dmi_alive_is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EHOSTDOWN || error == ENETDOWN;
}

bool dmi_alive_is_closed(int error) {
  return error == EPIPE || error == ECONNRESET;
}

void dmi_alive_why(const struct dmi_net *net, char why[DMI_NET_WHY], const char *what, int error) {
  if (error == EPROTO) { /* of ring.c */
    snprintf(why, DMI_NET_WHY, "%s: it wrote into the shared memory what no process would", what);
  } else if (!dmi_alive_is_silence(error)) {
    snprintf(why, DMI_NET_WHY, "%s: %s", what, strerror(error));
  } else if (net->config.dead_after == 0) {
    snprintf(why, DMI_NET_WHY, "its machine is silent (%s)", strerror(error));
  } else {
    snprintf(why, DMI_NET_WHY, "its machine has been silent for %u s (dmirun --dead-after)",
             net->config.dead_after);
  }
}

bool dmi_alive_is_waiting(struct dmi_link *link, double now, double *since) {
  bool waiting = link->ops->unacknowledged(link) != 0;
  *since = waiting ? now - link->ops->silence(link) : now;
  return waiting;
}

/* Ends the connection: its machine has not answered for config.dead_after. */
static void give_up(struct dmi_net_peer *peer) {
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool up = peer->state == DMI_PEER_UP;
  if (up && peer->broken == 0) peer->broken = ETIMEDOUT;
  bool wake = up && dmi_net_need_daemon(peer);
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (wake) dmi_net_wake(peer->net);
}

/* True if data is in flight on this connection; gives the peer up if nothing came back for too
 * long. */
static bool look_at(struct dmi_conn *conn, double now) {
  double since;
  bool waiting = dmi_alive_is_waiting(conn->link, now, &since);
  /* If no data was in flight at the last check, the time counts from now: the last answer may be
   * much older. */
  if (!conn->waiting || since > conn->mute_since) conn->mute_since = conn->waiting ? since : now;
  conn->waiting = waiting;
  if (!waiting || now - conn->mute_since < conn->net->config.dead_after) return waiting;
  if (conn->peer->conn == conn) give_up(conn->peer);
  return true;
}

static void on_alive(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = timer->data;
  bool more = false;
  /* Cleared before the check: a thread that sends after this starts the timer again. */
  atomic_store(&net->watching, false);
  for (struct dmi_conn *conn = net->conns; conn != NULL; conn = conn->next)
    if (look_at(conn, dmi_net_now())) more = true;
  if (more) atomic_store(&net->watching, true);
  dmi_alive_begin(net);
}

void dmi_alive_open(struct dmi_net *net) {
  ev_init(&net->alive, on_alive);
  net->alive.data = net;
  /* With dead_after 0 `watching` stays true, so nobody starts the timer. */
  atomic_store(&net->watching, net->config.dead_after == 0);
}

void dmi_net_set_dead_after(struct dmi_net *net, uint32_t seconds) {
  if (seconds == net->config.dead_after) return;
  net->config.dead_after = net->transport->dead_after = seconds;
  for (struct dmi_conn *conn = net->conns; conn != NULL; conn = conn->next)
    conn->link->ops->keep(conn->link);
  ev_timer_stop(net->loop, &net->alive);
  atomic_store(&net->watching, true);
  dmi_alive_begin(net); /* as something may be in flight already */
}

void dmi_alive_close(struct dmi_net *net) {
  ev_timer_stop(net->loop, &net->alive);
}

bool dmi_alive_need(struct dmi_net *net) {
  if (atomic_load_explicit(&net->watching, memory_order_relaxed)) return false;
  return !atomic_exchange(&net->watching, true);
}

void dmi_alive_begin(struct dmi_net *net) {
  if (net->config.dead_after == 0 || ev_is_active(&net->alive) || !atomic_load(&net->watching)) {
    return;
  }
  ev_timer_set(&net->alive, net->config.dead_after / DMI_ALIVE_LOOKS, 0);
  ev_timer_start(net->loop, &net->alive);
}

/* ---- Daemons --------------------------------------------------------------------------------- */

static bool send_ping(struct dmi_net *net, uint32_t uid, uint8_t kind) {
  struct dmi_msg ping = {.type = DMI_MSG_PING};
  ping.ping.kind = kind;
  return dmi_net_send(net, uid, &ping);
}

bool dmi_alive_ping(struct dmi_conn *conn, const struct dmi_msg *ping) {
  struct dmi_net_peer *peer = conn->peer;
  if (ping->ping.kind == DMI_WIRE_ASK) {
    (void)send_ping(conn->net, peer->id, DMI_WIRE_TELL); /* fails only if we have closed it */
  } else {
    peer->pinged = false;
  }
  return ping->ping.kind == DMI_WIRE_ASK || ping->ping.kind == DMI_WIRE_TELL;
}

bool dmi_net_ping(struct dmi_net *net, uint32_t uid, struct dmi_net_signs *signs) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer == NULL) return false;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool open = peer->state < DMI_PEER_SHUT && !peer->closing;
  struct dmi_link *link = peer->link; /* only this thread closes it */
  uint64_t sent = peer->sent;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (!open) return false;
  if (!peer->pinged) peer->pinged = send_ping(net, uid, DMI_WIRE_ASK);
  *signs = (struct dmi_net_signs){.taken = sent};
  if (link != NULL) signs->taken -= link->ops->unacknowledged(link);
  signs->heard = dmi_peer_heard(peer);
  return true;
}
