/*
 * dial.c - connecting to another process: tries its addresses one after the other, and decides what
 * follows from the result of each attempt.
 *
 * Happy path: connect without blocking; send CALL; receive an ANSWER made with our key; send PROOF
 * and HELLO; receive HELLO_OK; the link becomes a connection. States: docs/wire.md.
 *
 * Failure modes of a joiner, whose attempts may take DMI_NET_PATIENCE in all: nobody listens there
 * (known at once), or only this process itself, no answer, a program that is not DMI or has another
 * key, REFUSE, a connection that is closed without an answer (tried again AGAIN times, because the
 * other process may be flooded). Then it tries the next address; after the last one, `joined` says
 * why.
 *
 * A member is lost when nobody listens at its port, when another program does, when it sends
 * REFUSE, or when its machine is silent for config.dead_after. Otherwise this process keeps trying,
 * without a limit: a stopped process does not answer CALL, a flooded one closes connections, and
 * this process may have no descriptor left. Attempts are repeated after growing pauses. If the peer
 * has itself connected meanwhile (handshake.c keeps its connection), that one is used.
 *
 * Must not begin an attempt (join.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net_int.h"

/* Advice when a member cannot be reached at the address that the coordinator sent. */
#define PEER_ADVICE "is a firewall between, or does it need dmirun's option --advertise ADDR?"

#define AGAIN 5 /* more attempts of a joiner when the connection is closed without an answer */
#define AGAIN_AFTER 0.05 /* seconds before the first of them; doubled each time */
#define AGAIN_MOST 1.0   /* at most this many seconds */
#define CONNECTING 4.0   /* seconds for one attempt to reach a member; then a new one begins */

static void on_again(struct ev_loop *loop, struct ev_timer *timer, int events);
static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events);

static void stop_attempt(struct dmi_dial *dial) {
  ev_io_stop(dial->net->loop, &dial->io);
  ev_timer_stop(dial->net->loop, &dial->patience);
  dmi_shm_withdraw(&dial->offer);
  if (dial->shm != NULL) dmi_link_close(dial->shm);
  if (dial->link != NULL) dmi_link_close(dial->link);
  dial->link = dial->shm = NULL;
}

void dmi_dial_cancel(struct dmi_dial *dial) {
  stop_attempt(dial);
  dial->peer->dial = NULL;
  free(dial->addrs);
  sodium_memzero(dial, sizeof *dial);
  free(dial);
}

/* All addresses have failed: ends the attempt. */
static void give_up(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  struct dmi_net_peer *peer = dial->peer;
  char why[DMI_NET_WHY];
  bool join = dial->join, refused = dial->refused;
  uint32_t id = peer->id;
  memcpy(why, dial->why, sizeof why);
  dmi_dial_cancel(dial);
  if (peer->deferred != NULL && dmi_handshake_deferred(peer->deferred, false)) return;
  if (join) {
    dmi_peer_free_temp(peer);
    net->handler.joined(net->handler.arg, id, why);
  } else {
    if (refused && net->handler.refused != NULL) net->handler.refused(net->handler.arg, id);
    dmi_peer_lost(peer, why);
  }
}

/* This address has failed; dial->why says how. `final`: the others would fail as well. */
static void failed(struct dmi_dial *dial, bool final) {
  dmi_emit(dial->net->stream, connect_failed, .why = dial->why);
  stop_attempt(dial);
  if (final) dial->at = dial->count;
  dmi_dial_next(dial);
}

/* Tries the same address again after a pause. */
static void pause_before_next(struct dmi_dial *dial) {
  struct ev_loop *loop = dial->net->loop;
  double pause = AGAIN_AFTER * (double)(1u << dial->again);
  if (pause > AGAIN_MOST) pause = AGAIN_MOST;
  if (dial->again < AGAIN) dial->again++;
  dial->at--;
  dial->state = DMI_DIAL_CONNECTING;
  stop_attempt(dial);
  ev_set_cb(&dial->patience, on_again);
  ev_timer_set(&dial->patience, pause, 0);
  ev_timer_start(loop, &dial->patience);
}

/* An attempt to reach a member failed, but its process may still exist: try again. */
static void once_more(struct dmi_dial *dial) {
  struct dmi_net_peer *peer = dial->peer;
  uint32_t limit = dial->net->config.dead_after;
  dmi_emit(dial->net->stream, connect_again, .host = dial->host, .port = dial->port);
  if (peer->deferred != NULL) {
    dmi_dial_cancel(dial);
    if (!dmi_handshake_deferred(peer->deferred, false)) dmi_dial_peer(peer);
  } else if (limit != 0 && dmi_net_now() - dial->heard >= limit) {
    snprintf(dial->why, sizeof dial->why,
             "%s port %u has been silent for %u s (dmirun --dead-after): " PEER_ADVICE, dial->host,
             dial->port, limit);
    failed(dial, true);
  } else {
    pause_before_next(dial);
  }
}

/* True if the cause is here: this system has no resources for another connection. */
static bool is_ours(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
         error == EADDRNOTAVAIL || error == EAGAIN;
}

/* True if this error may be temporary; false if the attempt has failed for good. */
static bool may_pass(struct dmi_dial *dial, int error) {
  struct dmi_net *net = dial->net;
  if (dial->join || error == ECONNREFUSED || error == EAFNOSUPPORT || error == EINVAL) return false;
  /* a local error says nothing about the other machine, so the time of its silence begins again */
  if (is_ours(error)) dial->heard = dmi_net_now();
  if (is_ours(error) && !net->short_said) {
    net->short_said = true;
    dmi_net_log(
        net, DMI_ABOUT_OURS, "cannot connect to %s port %u now, trying again: %s%s", dial->host,
        dial->port, strerror(error),
        error == EMFILE ? " (ulimit -n: a process needs a descriptor for each other one)" : "");
  }
  return true;
}

static void no_connection(struct dmi_dial *dial, int error) {
  const char *hint = dial->join ? dial->net->config.join_advice : PEER_ADVICE;
  dial->refused = error == ECONNREFUSED;
  if (may_pass(dial, error)) {
    once_more(dial);
    return;
  }
  if (error == ECONNREFUSED) {
    snprintf(dial->why, sizeof dial->why, "no DMI program listens at %s port %u: %s", dial->host,
             dial->port, hint);
  } else if (error == EAFNOSUPPORT && dial->net->config.bind != NULL) {
    snprintf(
        dial->why, sizeof dial->why,
        "cannot connect to %s port %u from the address that --bind gives: one is an IPv4 and the "
        "other an IPv6 address; give an address of the same kind (dmirun -i, --bind)",
        dial->host, dial->port);
  } else {
    snprintf(dial->why, sizeof dial->why, "cannot connect to %s port %u: %s; %s", dial->host,
             dial->port, strerror(error), hint);
  }
  failed(dial, false);
}

/* HELLO_OK has arrived and matches. */
static void succeed(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  struct dmi_net_peer *peer = dial->peer;
  bool join = dial->join;
  uint32_t id = peer->id;
  struct dmi_link *link = dial->shm != NULL ? dial->shm : dial->link;
  uint16_t port = dial->their_port;
  bool encrypt = dial->encrypt;
  struct dmi_proof_keys keys = dial->keys;
  ev_io_stop(net->loop, &dial->io); /* before another watcher uses the descriptor */
  if (dial->shm == NULL) dial->link = NULL;
  dial->shm = NULL;
  dmi_dial_cancel(dial);
  if (peer->deferred != NULL) dmi_handshake_deferred(peer->deferred, true);
  link->ops->keep(link);
  if (join) net->encrypt = encrypt; /* a joiner takes over the program's setting */
  struct dmi_conn *conn = dmi_conn_new(peer, link, true, port, encrypt ? &keys : NULL);
  sodium_memzero(&keys, sizeof keys);
  const char *no_memory = "there is no memory for the connection";
  if (conn == NULL) dmi_link_close(link);
  if (join) {
    if (conn == NULL) dmi_peer_free_temp(peer);
    net->handler.joined(net->handler.arg, id, conn == NULL ? no_memory : NULL);
  } else if (conn == NULL) {
    dmi_peer_lost(peer, no_memory);
  }
}

static void on_again(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = timer->data;
  if (!dial->join && dial->peer->deferred != NULL) {
    once_more(dial);
  } else {
    dmi_dial_next(dial);
  }
}

/* The other side has closed the connection without an answer. */
static void closed(struct dmi_dial *dial, int error) {
  if (!dial->join) {
    if (!dmi_alive_is_silence(error)) dial->heard = dmi_net_now();
    once_more(dial);
    return;
  }
  if (dial->got == 0 && dial->again < AGAIN && dmi_net_now() < dial->deadline) {
    pause_before_next(dial);
    return;
  }
  snprintf(dial->why, sizeof dial->why,
           "%s port %u closed the connection at once, so it is perhaps no DMI program%s%s: %s",
           dial->host, dial->port, error != 0 ? ", " : "", error != 0 ? strerror(error) : "",
           dial->net->config.join_advice);
  failed(dial, false);
}

/* Connecting, or sending CALL, has failed. */
static void broken(struct dmi_dial *dial, int error) {
  if (dmi_alive_is_closed(error))
    closed(dial, error);
  else
    no_connection(dial, error);
}

static void act(struct dmi_dial *dial, enum dmi_dial_outcome what) {
  switch (what) {
    case DMI_CALLER_MORE:
      break;
    case DMI_CALLER_FAILED:
    case DMI_CALLER_REFUSED:
      failed(dial, what == DMI_CALLER_REFUSED);
      break;
    case DMI_CALLER_BROKEN:
      broken(dial, dial->error);
      break;
    case DMI_CALLER_CLOSED:
      closed(dial, dial->error);
      break;
    case DMI_CALLER_DONE:
      succeed(dial);
      break;
  }
}

static void on_connected(struct dmi_dial *dial) {
  struct ev_loop *loop = dial->net->loop;
  int error = dial->link->ops->connected(dial->link);
  if (error < 0) {
    broken(dial, -error);
    return;
  }
  dial->heard = dmi_net_now();
  dial->net->short_said = false;
  ev_io_stop(loop, &dial->io);
  ev_io_set(&dial->io, dial->link->in, EV_READ);
  ev_io_start(loop, &dial->io);
  act(dial, dmi_caller_begin(dial));
}

static void on_event(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = io->data;
  if (dial->state == DMI_DIAL_CONNECTING)
    on_connected(dial);
  else
    act(dial, dmi_caller_receive(dial));
}

/* True if nothing has come back for too long to what was sent to a member's machine, which was
 * there when the attempt began. (The system would wait for a quarter of an hour.) */
static bool is_silent(struct dmi_dial *dial) {
  uint32_t limit = dial->net->config.dead_after;
  double since, now = dmi_net_now();
  (void)dmi_alive_is_waiting(dial->link, now, &since);
  if (since > dial->heard) dial->heard = since;
  return limit != 0 && now - dial->heard >= limit;
}

static double pause_between_looks(const struct dmi_dial *dial) {
  double pause = dial->net->config.dead_after / DMI_ALIVE_LOOKS;
  return pause == 0 || pause > dial->net->config.patience ? dial->net->config.patience : pause;
}

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)events;
  struct dmi_dial *dial = timer->data;
  double tried = dial->net->config.patience;
  if (!dial->join) {
    bool deferred = dial->peer->deferred != NULL;
    if (dial->state == DMI_DIAL_CONNECTING || (dial->state == DMI_DIAL_CALLED && deferred)) {
      once_more(dial);
    } else if (is_silent(dial)) {
      once_more(dial);
    } else { /* its machine answers */
      ev_timer_set(timer, pause_between_looks(dial), 0);
      ev_timer_start(loop, timer);
    }
    return;
  }
  if (dial->state != DMI_DIAL_CONNECTING) {
    snprintf(dial->why, sizeof dial->why,
             "%s port %u accepts connections but does not answer (waited %.0f s), so it is no DMI "
             "program, or one that hangs or is stopped (ps shows T): %s",
             dial->host, dial->port, tried, dial->net->config.join_advice);
  } else {
    snprintf(dial->why, sizeof dial->why,
             "%s port %u does not answer (tried for %.0f s): %s, and whether a firewall is between",
             dial->host, dial->port, tried, dial->net->config.join_advice);
  }
  failed(dial, false);
}

struct dmi_dial *dmi_dial_of_call(const struct dmi_net *net, const struct dmi_proof *proof) {
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    struct dmi_dial *dial = peer->dial;
    if (dial == NULL || !dial->join || dial->state == DMI_DIAL_CONNECTING) continue;
    if (memcmp(dial->proof.said, proof->said, DMI_CALL_BYTES) == 0) return dial;
  }
  return NULL;
}

void dmi_dial_met_itself(struct dmi_dial *dial) {
  snprintf(dial->why, sizeof dial->why,
           "no other DMI program listens at %s port %u, which is the port of this process itself: "
           "start one there first, without -i, or name the port of one that runs (-p PORT)",
           dial->host, dial->port);
  failed(dial, false);
}

/* The time limit of this attempt in seconds. */
static double patience_for(const struct dmi_dial *dial) {
  double now = dmi_net_now(), left;
  if (dial->join) { /* the addresses share the time that is left */
    left = (dial->deadline - now) / (double)(dial->count - dial->at);
  } else {
    uint32_t limit = dial->net->config.dead_after;
    left = limit == 0 ? CONNECTING : dial->heard + limit - now;
    if (left > CONNECTING) left = CONNECTING;
  }
  return left < 0.1 ? 0.1 : left;
}

void dmi_dial_next(struct dmi_dial *dial) {
  struct ev_loop *loop = dial->net->loop;
  if (dial->at >= dial->count) {
    give_up(dial);
    return;
  }
  double patience = patience_for(dial);
  const struct dmi_addr *to = &dial->addrs[dial->at++];
  if (dmi_addr_is_link_local(to)) {
    snprintf(
        dial->why, sizeof dial->why,
        "%s is a link-local address, which each host can use only with the name of an interface "
        "of its own, so the processes could not tell it to each other: name a host by an IPv4, "
        "a global or a unique local (fd00::/8) address",
        dial->host);
    failed(dial, false);
    return;
  }
  dial->state = DMI_DIAL_CONNECTING;
  dial->got = 0;
  struct dmi_transport *transport = dial->net->transport;
  int error = transport->ops->connect(transport, &dial->link, to);
  if (error < 0) {
    no_connection(dial, -error);
    return;
  }
  dmi_emit(dial->net->stream, connecting, .host = dial->host, .port = dial->port);
  ev_set_cb(&dial->io, on_event);
  ev_io_set(&dial->io, dial->link->out, EV_WRITE);
  ev_io_start(loop, &dial->io);
  ev_set_cb(&dial->patience, on_patience);
  ev_timer_set(&dial->patience, patience, 0);
  ev_timer_start(loop, &dial->patience);
}
