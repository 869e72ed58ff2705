/*
 * accept.c - accepting connections, and the places of those who have connected but not proved yet
 * that they know the key.
 *
 * Happy path: accept, and look at once at what was said; handshake.c does the handshake.
 *
 * A flood of connections must cost the program next to nothing, nor keep others out:
 *   - whatever waits in the kernel's backlog is accepted at once, since a full backlog keeps
 * members out as well.  What is wrong with it is mostly known when it is accepted: no event, no
 * timer has been waited for then.
 *   - there are DMI_NET_UNKNOWN places.  When all are taken, one that has said nothing makes room,
 *     of the address that has most of them: so who comes from elsewhere is not touched.  It is the
 *     older one of two that are drawn: who speaks soon, as members do (dial.c), is seldom turned
 * out before, and who is slow has a chance, too; a member that was unlucky tries again.
 *   - who has said a CALL made with the key does not make room for those; so members are turned out
 *     only by very many that repeat old CALLs, for which there are DMI_NET_CALLED of the places.
 *   - what strangers get is closed with a reset (see tcp.c), so that the kernel keeps nothing of it
 *     either.
 *   - accepting, and refusing with a sentence, are rights, of which there are some, and some more
 *     each second; a connection that has proved the key gives its right back.  ACCEPT_RATE is far
 *     above what a backlog needs, and bounds the processor time of this thread.
 *
 * Failure modes: no descriptors left: one that has said nothing makes room; if there is none, the
 * listener rests for a while.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

#define ACCEPTS 32          /* per turn of the loop */
#define ACCEPT_RATE 20000.0 /* connections a second that prove nothing */
#define ACCEPT_BURST 4096.0 /* at once, beyond that */
#define REFUSE_RATE 50.0    /* sentences for strangers a second */
#define REFUSE_BURST 100.0
#define REST 0.1       /* seconds without accepting when there are no descriptors */
#define THROTTLE 0.005 /* seconds without accepting when there are too many */

/* ---- Places ---------------------------------------------------------------------------------- */

/* Connections of one address, or of one network of IPv6, are a crowd.  Some share one by chance,
 * which nobody can know. */
static uint8_t crowd_of(struct dmi_net *net, const struct dmi_addr *addr) {
  unsigned char hash[crypto_shorthash_BYTES];
  size_t size = dmi_addr_is_ipv4(addr) ? 16 : 8;
  crypto_shorthash(hash, addr->ip, size, net->crowd_key);
  return hash[0];
}

static void enlist(struct dmi_handshake *handshake, struct dmi_unknown *among) {
  handshake->among = among;
  handshake->slot = among->num;
  among->handshakes[among->num++] = handshake;
  among->crowds[handshake->crowd]++;
}

void dmi_accept_unlist(struct dmi_handshake *handshake) {
  struct dmi_unknown *among = handshake->among;
  struct dmi_handshake *last = among->handshakes[--among->num];
  among->handshakes[handshake->slot] = last;
  last->slot = handshake->slot;
  among->crowds[handshake->crowd]--;
}

/* A random one of a crowd that has so many; `number` is random. */
static struct dmi_handshake *pick(struct dmi_unknown *among, uint16_t most, uint32_t number) {
  uint32_t at = number % among->num;
  while (among->crowds[among->handshakes[at]->crowd] != most)
    at = (at + 1) % among->num;
  return among->handshakes[at];
}

/* The older one of two of the largest crowd goes. */
static void make_capacity(struct dmi_net *net, struct dmi_unknown *among) {
  unsigned char hash[crypto_shorthash_BYTES];
  uint32_t numbers[2];
  uint16_t most = 0;
  _Static_assert(sizeof hash == sizeof numbers, "two numbers of one hash");
  for (int i = 0; i < DMI_NET_CROWDS; i++) {
    if (among->crowds[i] > most) most = among->crowds[i];
  }
  net->evictions++;
  crypto_shorthash(hash, (const unsigned char *)&net->evictions, sizeof net->evictions,
                   net->crowd_key);
  memcpy(numbers, hash, sizeof numbers);
  struct dmi_handshake *one = pick(among, most, numbers[0]), *other = pick(among, most, numbers[1]);
  dmi_handshake_drop(one->since < other->since ? one : other);
}

void dmi_accept_list(struct dmi_handshake *handshake) {
  struct dmi_unknown *called = &handshake->net->called;
  if (called->num >= DMI_NET_CALLED) make_capacity(handshake->net, called);
  enlist(handshake, called);
}

void dmi_accept_called(struct dmi_handshake *handshake) {
  dmi_accept_unlist(handshake);
  dmi_accept_list(handshake);
}

/* ---- How many ----------------------------------------------------------------------------------
 */

static void pause_for(struct dmi_net *net, double seconds) {
  ev_io_stop(net->loop, &net->listener);
  ev_timer_set(&net->rest, seconds, 0);
  ev_timer_start(net->loop, &net->rest);
}

/* May it be done once more? */
static bool take(struct dmi_right *right, double rate, double burst) {
  double now = dmi_net_now();
  right->left += (now - right->since) * rate;
  right->since = now;
  if (right->left > burst) right->left = burst;
  if (right->left < 1) return false;
  right->left -= 1;
  return true;
}

bool dmi_accept_may_refuse(struct dmi_net *net) {
  return take(&net->refusals, REFUSE_RATE, REFUSE_BURST);
}

bool dmi_accept_repeats(struct dmi_net *net, const unsigned char call[DMI_CALL_BYTES]) {
  unsigned char hash[crypto_shorthash_BYTES];
  uint64_t mark;
  crypto_shorthash(hash, call, DMI_CALL_BYTES, net->crowd_key);
  memcpy(&mark, hash, sizeof mark);
  uint64_t *set = net->calls[mark % DMI_NET_CALLS];
  for (int i = 0; i < DMI_NET_CALLS_SET; i++) {
    if (set[i] == mark) return true;
  }
  memmove(set + 1, set, (DMI_NET_CALLS_SET - 1) * sizeof *set); /* the oldest is forgotten */
  set[0] = mark;
  return false;
}

void dmi_accept_proved(struct dmi_net *net) {
  net->accepts.left += 1;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static bool begin(struct dmi_net *net, struct dmi_link *link, const struct dmi_addr *from) {
  if (net->silent.num + net->called.num >= DMI_NET_UNKNOWN) make_capacity(net, &net->silent);
  struct dmi_handshake *handshake = dmi_handshake_new(net, link, from);
  if (handshake == NULL) return false;
  handshake->crowd = crowd_of(net, from);
  handshake->since = ++net->accepted;
  enlist(handshake, &net->silent);
  dmi_handshake_look(handshake);
  return true;
}

/* The system has no descriptor or memory for one more.  True: later, perhaps.  Who has said a CALL
 * makes room only when that was so before: mostly it is about to become a connection. */
static bool no_capacity(struct dmi_net *net, int error) {
  dmi_net_log(
      net, DMI_ABOUT_STRANGERS, "cannot accept a connection now: %s%s", strerror(error),
      error == EMFILE ? " (ulimit -Hn: a process needs a descriptor for each other one)" : "");
  if (net->silent.num != 0) {
    make_capacity(net, &net->silent);
    return false;
  }
  if (net->called.num != 0 && net->rested) {
    net->rested = false;
    make_capacity(net, &net->called);
    return false;
  }
  net->rested = true;
  pause_for(net, REST);
  return true;
}

/* Accepts one.  False: no more for now. */
static bool accept_one(struct dmi_net *net) {
  struct dmi_addr from;
  struct dmi_link *link;
  int error = net->transport->ops->accept(net->transport, &link, &from);
  if (error == 0) {
    net->rested = false;
    if (!begin(net, link, &from)) dmi_link_close(link);
    return true;
  }
  net->accepts.left += 1;
  if (error == -EAGAIN || error == -EWOULDBLOCK) return false;
  if (error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM) {
    return !no_capacity(net, -error);
  }
  return true; /* that one connection failed before it was accepted */
}

static void on_connection(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = io->data;
  for (int i = 0; i < ACCEPTS; i++) {
    if (!take(&net->accepts, ACCEPT_RATE, ACCEPT_BURST)) {
      dmi_net_log(net, DMI_ABOUT_STRANGERS,
                  "very many connections without the key: they are accepted slowly");
      pause_for(net, THROTTLE);
      return;
    }
    if (!accept_one(net)) return;
  }
}

static void on_rest(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)events;
  struct dmi_net *net = timer->data;
  ev_io_start(loop, &net->listener);
}

static void cannot_listen(const struct dmi_net *net, uint16_t port, int error,
                          char text[DMI_NET_WHY]) {
  if (error == EADDRINUSE) {
    snprintf(text, DMI_NET_WHY,
             "port %u is in use on this machine, perhaps by another process of "
             "a DMI program: choose another with dmirun -l PORT (0: any free one)",
             port);
  } else if (error == EADDRNOTAVAIL && net->config.bind != NULL) {
    snprintf(text, DMI_NET_WHY,
             "this machine has no address '%.200s': check dmirun's option --bind",
             net->config.bind);
  } else {
    snprintf(text, DMI_NET_WHY, "cannot listen on port %u: %s; choose another with dmirun -l PORT",
             port, strerror(error));
  }
}

bool dmi_accept_open(struct dmi_net *net, const char **why) {
  static _Thread_local char text[DMI_NET_WHY];
  struct dmi_addr at = {.port = net->config.listen_port};
  int error = net->transport->ops->listen(net->transport, &at);
  if (error < 0) {
    *why = text;
    cannot_listen(net, at.port, -error, text);
    return false;
  }
  net->port = net->transport->here.port;
  net->local = dmi_addr_is_loopback(&net->transport->here);
  net->accepts = (struct dmi_right){ACCEPT_BURST, dmi_net_now()};
  net->refusals = (struct dmi_right){REFUSE_BURST, dmi_net_now()};
  randombytes_buf(net->crowd_key, sizeof net->crowd_key);
  ev_io_init(&net->listener, on_connection, net->transport->incoming, EV_READ);
  ev_timer_init(&net->rest, on_rest, REST, 0);
  net->listener.data = net->rest.data = net;
  ev_io_start(net->loop, &net->listener);
  return true;
}

bool dmi_accept_narrow(struct dmi_net *net, struct dmi_link *connection, char why[DMI_NET_WHY]) {
  struct dmi_addr here, there;
  connection->ops->ends(connection, &here, &there);
  if (net->local || net->config.bind != NULL || !dmi_addr_is_loopback(&here)) return true;
  ev_timer_stop(net->loop, &net->rest);
  ev_io_stop(net->loop, &net->listener);
  here.port = net->port;
  int error = net->transport->ops->listen(net->transport, &here);
  ev_io_set(&net->listener, net->transport->incoming, EV_READ);
  if (error < 0) {
    cannot_listen(net, net->port, -error, why);
    return false;
  }
  net->local = true;
  ev_io_start(net->loop, &net->listener);
  return true;
}

void dmi_accept_free_all(struct dmi_net *net) {
  while (net->silent.num != 0)
    dmi_handshake_drop(net->silent.handshakes[0]);
  while (net->called.num != 0)
    dmi_handshake_drop(net->called.handshakes[0]);
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->deferred != NULL) dmi_handshake_drop(peer->deferred);
  }
  ev_timer_stop(net->loop, &net->rest);
  ev_io_stop(net->loop, &net->listener);
}
