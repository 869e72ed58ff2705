/*
 * accept.c - accepting connections, and limits on those that have not proved yet that they know the
 * key.
 *
 * Happy path: accept a connection and read at once what has arrived; handshake.c does the
 * handshake.
 *
 * A flood of connections must cost the program very little, and must not keep other processes out:
 *   - All connections in the kernel's backlog are accepted at once, because a full backlog keeps
 *     members out as well. Most bad ones are recognised when they are accepted, before any event
 *     or timer is needed.
 *   - There are DMI_NET_UNKNOWN places. When all are taken, a connection that has sent nothing is
 *     closed. It is one from the address that has the most of them, so connections from other
 *     addresses stay. Of two random ones the older is closed: a process that sends CALL soon, as
 *     members do (dial.c), is seldom closed before, and a slow one has a chance, too. A member
 *     whose connection was closed tries again.
 *   - A connection that has sent a CALL made with the key is not closed for one that has sent
 *     nothing. So only a great many repeated old CALLs, which have DMI_NET_CALLED of the places,
 *     can push members out.
 *   - Connections of strangers are closed with a reset (see tcp.c), so that the kernel keeps
 *     nothing of them either.
 *   - Accepting, and refusing with a sentence, are limited by token buckets; a connection that has
 *     proved the key gives its token back. ACCEPT_RATE is far above what a backlog needs, and
 *     bounds the processor time of this thread.
 *
 * Failure modes: when no descriptor is left, a connection that has sent nothing is closed; if there
 * is none, the listener pauses.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

#define ACCEPTS 32          /* connections accepted per iteration of the loop */
#define ACCEPT_RATE 20000.0 /* per second, connections that do not prove the key */
#define ACCEPT_BURST 4096.0 /* size of that token bucket */
#define REFUSE_RATE 50.0    /* per second, refusals of strangers with a sentence */
#define REFUSE_BURST 100.0
#define REST 0.1       /* seconds without accepting when no descriptor is left */
#define THROTTLE 0.005 /* seconds without accepting when the bucket is empty */

/* ---- Places ---------------------------------------------------------------------------------- */

/* Counts connections by IPv4 address or IPv6 network, hashed to one of DMI_NET_CROWDS counters
 * ("crowds"). The key of the hash is secret, so nobody can choose addresses that share one. */
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

/* A random connection of a crowd that has `most` members. `number` is random. */
static struct dmi_handshake *pick(struct dmi_unknown *among, uint16_t most, uint32_t number) {
  uint32_t at = number % among->num;
  while (among->crowds[among->handshakes[at]->crowd] != most)
    at = (at + 1) % among->num;
  return among->handshakes[at];
}

/* Closes one connection: the older one of two random ones of the largest crowd. */
static void close_one(struct dmi_net *net, struct dmi_unknown *among) {
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
  if (called->num >= DMI_NET_CALLED) close_one(handshake->net, called);
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

/* Takes a token. False if there is none. */
static bool take(struct dmi_bucket *bucket, double rate, double burst) {
  double now = dmi_net_now();
  bucket->tokens += (now - bucket->since) * rate;
  bucket->since = now;
  if (bucket->tokens > burst) bucket->tokens = burst;
  if (bucket->tokens < 1) return false;
  bucket->tokens -= 1;
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
  memmove(set + 1, set, (DMI_NET_CALLS_SET - 1) * sizeof *set); /* drops the oldest */
  set[0] = mark;
  return false;
}

void dmi_accept_proved(struct dmi_net *net) {
  net->accepts.tokens += 1;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static bool begin(struct dmi_net *net, struct dmi_link *link, const struct dmi_addr *from) {
  if (net->silent.num + net->called.num >= DMI_NET_UNKNOWN) close_one(net, &net->silent);
  struct dmi_handshake *handshake = dmi_handshake_new(net, link, from);
  if (handshake == NULL) return false;
  handshake->crowd = crowd_of(net, from);
  handshake->since = ++net->accepted;
  enlist(handshake, &net->silent);
  dmi_handshake_look(handshake);
  return true;
}

/* The system has no descriptor or memory for another connection. Returns true if accepting
 * pauses, false if a connection was closed, so that the caller can try again at once. Those that
 * have sent CALL are closed only the second time in a row, because most of them are about to
 * become established. */
static bool cannot_accept(struct dmi_net *net, int error) {
  dmi_net_log(
      net, DMI_ABOUT_STRANGERS, "cannot accept a connection now: %s%s", strerror(error),
      error == EMFILE ? " (ulimit -Hn: a process needs a descriptor for each other one)" : "");
  if (net->silent.num != 0) {
    close_one(net, &net->silent);
    return false;
  }
  if (net->called.num != 0 && net->rested) {
    net->rested = false;
    close_one(net, &net->called);
    return false;
  }
  net->rested = true;
  pause_for(net, REST);
  return true;
}

/* Accepts one connection. False: stop accepting for now. */
static bool accept_one(struct dmi_net *net) {
  struct dmi_addr from;
  struct dmi_link *link;
  int error = net->transport->ops->accept(net->transport, &link, &from);
  if (error == 0) {
    net->rested = false;
    if (!begin(net, link, &from)) dmi_link_close(link);
    return true;
  }
  net->accepts.tokens += 1;
  if (error == -EAGAIN || error == -EWOULDBLOCK) return false;
  if (error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM) {
    return !cannot_accept(net, -error);
  }
  return true; /* that connection failed before it was accepted */
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

/* True for an address, false for all addresses of a kind (:: and 0.0.0.0). */
static bool is_one(const struct dmi_addr *addr) {
  static const uint8_t none[4];
  return !dmi_addr_is_any(addr) &&
         !(dmi_addr_is_ipv4(addr) && memcmp(addr->ip + 12, none, sizeof none) == 0);
}

bool dmi_accept_open(struct dmi_net *net, const char **why) {
  char *text = dmi_net_why_not();
  struct dmi_addr at = {.port = net->config.listen_port};
  int error = net->transport->ops->listen(net->transport, &at);
  if (error < 0) {
    *why = text;
    cannot_listen(net, at.port, -error, text);
    return false;
  }
  net->port = net->transport->here.port;
  net->narrow = is_one(&net->transport->here);
  net->accepts = (struct dmi_bucket){ACCEPT_BURST, dmi_net_now()};
  net->refusals = (struct dmi_bucket){REFUSE_BURST, dmi_net_now()};
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
  if (net->narrow || net->config.bind != NULL || net->config.advertised) return true;
  ev_timer_stop(net->loop, &net->rest);
  ev_io_stop(net->loop, &net->listener);
  here.port = net->port;
  int error = net->transport->ops->listen(net->transport, &here);
  ev_io_set(&net->listener, net->transport->incoming, EV_READ);
  if (error < 0) {
    cannot_listen(net, net->port, -error, why);
    return false;
  }
  net->narrow = true;
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
