/*
 * conn.c - an established connection: how it begins, how it ends in order, how it is lost.
 *
 * Each direction ends on its own: the sender's last message is FIN, then it shuts its side. A
 * connection is closed when both directions have ended, and nobody is told; one that ends without
 * FIN is lost.
 *
 * Must not parse messages (receive.c) or touch the queue (send.c).  No function here may be called
 * from inside a callback of the same connection, because it may free it: they run from the loop
 * only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "net/net_int.h"

/* Ends to wait until the link can be written to. */
static void stop_writable(struct dmi_conn *conn) {
  if (!ev_is_active(&conn->writable)) return;
  ev_io_stop(conn->net->loop, &conn->writable);
  conn->net->full--;
}

void dmi_conn_await_writable(struct dmi_conn *conn) {
  if (ev_is_active(&conn->writable)) return;
  ev_io_start(conn->net->loop, &conn->writable);
  conn->net->full++;
}

static void on_writable(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_conn *conn = io->data;
  if (!dmi_send_writable(conn->peer)) stop_writable(conn);
}

static void finish(struct dmi_conn *conn);

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_conn *conn = timer->data;
  if (conn->sent_end)
    finish(conn);
  else
    dmi_conn_lose(conn, "it connected but sent no message");
}

static void find_addresses(struct dmi_conn *conn, uint16_t their_port) {
  conn->link->ops->ends(conn->link, &conn->ours, &conn->theirs);
  conn->ours.port = conn->net->port;
  conn->theirs.port = their_port;
}

/* Makes this the connection on which messages to the peer are sent. `out` is not NULL if they
 * are sealed. */
static void become_way_out(struct dmi_conn *conn, struct dmi_sealed *out) {
  struct dmi_net_peer *peer = conn->peer;
  dmi_lend_way_out(peer, conn);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  if (peer->state < DMI_PEER_UP) {
    dmi_peer_move(peer, DMI_PEER_UP);
    peer->link = conn->link;
    peer->out = out;
    out = NULL;
  } else {
    conn->sent_end = true; /* dmi_net_close came before the connection: we only receive */
  }
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  dmi_send_free_out(out);
  dmi_send_flush(peer);
}

static void log_new(const struct dmi_conn *conn) {
  char text[80];
  if (conn->member && conn->peer->id < DMI_NET_TEMP) {
    dmi_emit(conn->net->stream, member_connected, .member = conn->peer->id,
             .address = dmi_addr_text(&conn->theirs, text));
  } else {
    dmi_emit(conn->net->stream, stranger_connected, .address = dmi_addr_text(&conn->theirs, text),
             .what = conn->member ? "to be joined" : "no member yet");
  }
}

/* Says how it ended in order. NULL: it was lost. */
static const char *orderly_end(const struct dmi_conn *conn, const char *why) {
  struct dmi_net_peer *peer = conn->peer;
  if (!*why) return "both sides have closed it";
  if (conn->net->expect_close) return "this process ends";
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool left = peer->closing || peer->state == DMI_PEER_SHUT;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return left ? "it has left" : NULL;
}

static void log_end(const struct dmi_conn *conn, const char *why) {
  char text[80];
  const char *orderly = orderly_end(conn, why);
  if (orderly) {
    dmi_emit(conn->net->stream, connection_closed, .address = dmi_addr_text(&conn->theirs, text),
             .why = orderly);
  } else {
    dmi_emit(conn->net->stream, connection_lost, .address = dmi_addr_text(&conn->theirs, text),
             .why = why);
  }
}

/* Frees the connection's memory. */
static void free_memory(struct dmi_conn *conn) {
  dmi_seal_free(conn->opener);
  dmi_receive_free_in(conn);
  free(conn->list);
  free(conn->buf);
  free(conn);
}

static struct dmi_conn *allocate(bool member, const struct dmi_proof_keys *keys) {
  struct dmi_conn *conn = calloc(1, sizeof *conn);
  if (conn == NULL) return NULL;
  conn->cap = member || keys != NULL ? DMI_NET_BUFFER : DMI_NET_BUFFER_SMALL;
  conn->buf = malloc(conn->cap);
  if (keys != NULL) conn->opener = dmi_seal_new(keys->in, 1, keys->cipher);
  if (conn->buf != NULL && (keys == NULL || (conn->opener != NULL && dmi_receive_begin_in(conn))))
    return conn;
  free_memory(conn);
  return NULL;
}

struct dmi_conn *dmi_conn_new(struct dmi_net_peer *peer, struct dmi_link *link, bool member,
                              uint16_t their_port, const struct dmi_proof_keys *keys) {
  struct dmi_net *net = peer->net;
  struct dmi_conn *conn = allocate(member, keys);
  struct dmi_sealed *out = keys == NULL ? NULL : dmi_send_out(keys);
  if (conn == NULL || (keys != NULL && out == NULL)) goto err;
  conn->net = net;
  conn->peer = peer;
  conn->link = link;
  conn->member = member;
  if (!dmi_lend_begin(conn)) goto err;
  find_addresses(conn, their_port);
  if (dmi_addr_is_zero(&peer->addr)) peer->addr = conn->theirs;
  ev_io_init(&conn->writable, on_writable, link->out, EV_WRITE);
  ev_timer_init(&conn->patience, on_patience, net->config.patience, 0);
  conn->writable.data = conn->patience.data = conn;
  if (!member) ev_timer_start(net->loop, &conn->patience);
  conn->next = net->conns;
  if (net->conns != NULL) net->conns->prev = conn;
  net->conns = conn;
  become_way_out(conn, out);
  log_new(conn);
  /* HELLO_OK may still be in flight, with no message after it */
  (void)dmi_alive_need(net);
  dmi_alive_begin(net);
  return conn;

err:
  dmi_send_free_out(out);
  if (conn != NULL) free_memory(conn);
  return NULL;
}

/* Removes it from the loop and from all lists. Frees what it holds, but not its link. */
static void dissolve(struct dmi_conn *conn) {
  struct dmi_net *net = conn->net;
  dmi_lend_end(conn);
  stop_writable(conn);
  ev_timer_stop(net->loop, &conn->patience);
  if (conn->prev != NULL)
    conn->prev->next = conn->next;
  else
    net->conns = conn->next;
  if (conn->next != NULL) conn->next->prev = conn->prev;
  if (conn->stranger) net->stranger_num--;
  if (conn->peer->conn == conn) dmi_lend_way_out(conn->peer, NULL);
  net->gone.received += atomic_load_explicit(&conn->heard, memory_order_relaxed);
  dmi_frame_unref(conn->msg.body.frame); /* of a message that did not arrive completely */
  free_memory(conn);
}

/* There may be two, when both have connected at the same time. */
static bool has_conn(const struct dmi_net *net, const struct dmi_net_peer *peer) {
  const struct dmi_conn *conn = net->conns;
  while (conn != NULL && conn->peer != peer)
    conn = conn->next;
  return conn != NULL;
}

void dmi_conn_lose(struct dmi_conn *conn, const char *why) {
  struct dmi_net *net = conn->net;
  struct dmi_link *link = conn->link;
  struct dmi_net_peer *peer = conn->peer;
  const uint32_t id = peer->id;
  bool way_out = peer->conn == conn, gone;
  log_end(conn, why);
  dissolve(conn);
  gone = id < DMI_NET_TEMP && !has_conn(net, peer);
  /* No thread may be writing to the link when it is closed: dmi_peer_lost waits for that. */
  if (way_out) dmi_peer_lost(peer, why);
  dmi_beside_close(net, link);
  if (gone && net->handler.gone != NULL) net->handler.gone(net->handler.arg, id);
}

/* Both directions have ended. */
static void finish(struct dmi_conn *conn) {
  dmi_conn_lose(conn, ""); /* its peer is SHUT, so handler.lost is not called */
}

bool dmi_conn_eof(struct dmi_conn *conn) {
  conn->got_eof = true;
  if (!conn->got_end) {
    dmi_conn_lose(conn, "it closed the connection unexpectedly");
  } else if (conn->sent_end || conn->stranger || conn->peer->conn != conn) {
    finish(conn);
  } else {
    dmi_lend_eof(conn);
    return true;
  }
  return false;
}

void dmi_conn_end(struct dmi_conn *conn) {
  struct dmi_net_peer *peer = conn->peer;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  dmi_peer_move(peer, DMI_PEER_SHUT);
  peer->link = NULL;
  /* the queue is empty; this frees spare segments, so a peer that left needs no memory */
  struct dmi_seg *rest = dmi_outgoing_take_all(peer);
  struct dmi_sealed *out = peer->out;
  peer->out = NULL;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  dmi_send_free_out(out);
  dmi_outgoing_free(rest);
  conn->sent_end = true;
  conn->link->ops->finish(conn->link);
  stop_writable(conn);
  if (conn->got_eof) {
    finish(conn);
  } else if (!conn->member) {
    /* The handler refused it. Do not wait until the other side closes. */
    ev_timer_stop(conn->net->loop, &conn->patience);
    ev_timer_set(&conn->patience, conn->net->config.patience, 0);
    ev_timer_start(conn->net->loop, &conn->patience);
  }
}

void dmi_conn_free_all(struct dmi_net *net) {
  while (net->conns != NULL) {
    struct dmi_link *link = net->conns->link;
    if (net->expect_close) log_end(net->conns, "this process ends");
    dissolve(net->conns);
    dmi_beside_close(net, link);
  }
}
