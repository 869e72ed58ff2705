/*
 * dial.c - connecting to another process: addresses in turn, CALL, its ANSWER, our HELLO, its
 * HELLO_OK.
 *
 * Happy path: connect without blocking, CALL, ANSWER made with our key, PROOF and HELLO,
 * HELLO_OK, the socket becomes a connection.  States: docs/wire.md.
 * Failure modes: nobody listens there (at once), no answer (after DMI_NET_PATIENCE in all),
 * something that is not DMI or has another key, REFUSE, a connection that is closed without a word
 * (tried again AGAIN times: the other may be flooded).  Then the next address; when there is none,
 * the peer is lost, or `joined` says why; but if the peer has itself connected meanwhile (accept.c
 * holds it), that one is used.
 *
 * The name of a host is resolved with getaddrinfo, which blocks: dmi_net_join is called before the
 * program has anything to wait for.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/inner.h"

/* What a user who joins can change. */
#define ADVICE "check dmirun's options -i HOST and -p PORT"

/* What may be wrong with a member that the coordinator told us of. */
#define PEER_ADVICE "is a firewall between, or does it need dmirun's option --advertise ADDR?"

#define AGAIN 5          /* attempts after the first at an address that closes without a word */
#define AGAIN_AFTER 0.05 /* seconds before the first of them, then twice as long each time */

/* What to do about a peer that is reached but is no use, after ": ". */
static const char *advice(const struct dmi_dial *dial) {
  return dial->join ? ADVICE : "has it ended, and something else taken its port?";
}

static void try_next(struct dmi_dial *dial);
static void broken(struct dmi_dial *dial, int error);
static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events);

static void stop_attempt(struct dmi_dial *dial) {
  ev_io_stop(dial->net->loop, &dial->io);
  ev_timer_stop(dial->net->loop, &dial->patience);
  if (dial->fd >= 0) close(dial->fd);
  dial->fd = -1;
}

void dmi_dial_cancel(struct dmi_dial *dial) {
  stop_attempt(dial);
  dial->peer->dial = NULL;
  free(dial->addrs);
  sodium_memzero(dial, sizeof *dial);
  free(dial);
}

/* All addresses have failed. */
static void give_up(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  struct dmi_net_peer *peer = dial->peer;
  char why[DMI_NET_WHY];
  bool join = dial->join;
  uint32_t id = peer->id;
  memcpy(why, dial->why, sizeof why);
  dmi_dial_cancel(dial);
  if (peer->held != NULL && dmi_shake_held(peer->held, false)) return;
  if (join) {
    dmi_peer_free_temp(peer);
    net->handler.joined(net->handler.arg, id, why);
  } else {
    dmi_peer_lost(peer, why);
  }
}

/* This address has failed, dial->why says how.  `final`: so will the others. */
static void failed(struct dmi_dial *dial, bool final) {
  dmi_log(DMI_LOG_DEBUG, "net", "%s", dial->why);
  stop_attempt(dial);
  if (final) dial->at = dial->count;
  try_next(dial);
}

static void no_connection(struct dmi_dial *dial, int error) {
  const char *hint = dial->join ? ADVICE : PEER_ADVICE;
  if (error == ECONNREFUSED) {
    snprintf(dial->why, sizeof dial->why, "no DMI program listens at %s port %u: %s", dial->host,
             dial->port, hint);
  } else if (error == EAFNOSUPPORT && dial->net->from_size != 0) {
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

static void not_dmi(struct dmi_dial *dial) {
  snprintf(dial->why, sizeof dial->why, "what answers at %s port %u does not speak DMI: %s",
           dial->host, dial->port, advice(dial));
  failed(dial, false);
}

/* HELLO_OK has come and matches. */
static void succeed(struct dmi_dial *dial, const struct dmi_hello *hello) {
  struct dmi_net *net = dial->net;
  struct dmi_net_peer *peer = dial->peer;
  bool join = dial->join;
  uint32_t id = peer->id;
  int fd = dial->fd;
  bool encrypt = dial->encrypt;
  struct dmi_proof_keys keys = dial->keys;
  ev_io_stop(net->loop, &dial->io); /* before another watcher takes the descriptor */
  dial->fd = -1;
  dmi_dial_cancel(dial);
  if (peer->held != NULL) dmi_shake_held(peer->held, true);
  if (join) net->encrypt = encrypt; /* the program's setting is ours from now on */
  struct dmi_conn *conn = dmi_conn_new(peer, fd, true, hello->port, encrypt ? &keys : NULL);
  sodium_memzero(&keys, sizeof keys);
  const char *no_memory = "there is no memory for the connection";
  if (conn == NULL) close(fd);
  if (join) {
    if (conn == NULL) dmi_peer_free_temp(peer);
    net->handler.joined(net->handler.arg, id, conn == NULL ? no_memory : NULL);
  } else if (conn == NULL) {
    dmi_peer_lost(peer, no_memory);
  }
}

/* HELLO_OK or REFUSE has come, sealed. */
static void judge(struct dmi_dial *dial) {
  struct dmi_hello hello, mine = dmi_net_hello(dial->net, DMI_HELLO_HELLO);
  unsigned char bytes[DMI_REFUSE_BYTES];
  char there[80];
  size_t size = dmi_seal_size(dial->buf);
  if (!dmi_seal_get_first(dial->keys.in, bytes, dial->buf) ||
      dmi_hello_size(bytes, DMI_HELLO_FIRST) != size) {
    not_dmi(dial);
    return;
  }
  if (size == DMI_REFUSE_BYTES) {
    dmi_refuse_get(dial->why, bytes);
    failed(dial, true);
    return;
  }
  if (!dmi_hello_get(&hello, bytes) || hello.kind != DMI_HELLO_OK) {
    not_dmi(dial);
    return;
  }
  snprintf(there, sizeof there, "%.60s port %u", dial->host, dial->port);
  if (!dmi_hello_match(&mine, &hello, there, dial->why) ||
      (dial->join && hello.local && !dmi_accept_narrow(dial->net, dial->fd, dial->why))) {
    failed(dial, true);
  } else if (!dial->join && hello.uid != dial->peer->id) {
    snprintf(dial->why, sizeof dial->why, "at %s is member %u instead of member %u", there,
             hello.uid, dial->peer->id);
    failed(dial, true);
  } else {
    succeed(dial, &hello);
  }
}

/* ANSWER has come: PROOF and HELLO go out. */
static void answered(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_HELLO);
  unsigned char hello[DMI_HELLO_BYTES], out[DMI_SHAKE_BYTES];
  if (!dmi_proof_answered(&dial->proof, net->config.key, dial->buf) ||
      !dmi_proof_make(&dial->proof, net->config.key, out, &dial->keys)) {
    snprintf(
        dial->why, sizeof dial->why,
        "what answers at %s port %u does not have the key of this process: " DMI_NET_KEY_ADVICE,
        dial->host, dial->port);
    failed(dial, false);
    return;
  }
  dial->encrypt = (dmi_proof_flags(dial->buf) & DMI_CALL_ENCRYPT) != 0;
  if (net->encrypt && !dial->encrypt) {
    snprintf(dial->why, sizeof dial->why,
             "the process at %s port %u runs without encryption, and this one was started with it: "
             "start the first process of the program with dmirun --encrypt, or this one without",
             dial->host, dial->port);
    failed(dial, true);
    return;
  }
  dmi_hello_put(hello, &mine);
  dmi_seal_put_first(dial->keys.out, out + DMI_PROOF_BYTES, hello, sizeof hello);
  dial->got = 0;
  if (send(dial->fd, out, sizeof out, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof out) {
    broken(dial, errno);
    return;
  }
  dial->state = DMI_DIAL_SAID;
}

/* How many bytes are needed to know more; 0: they cannot be right. */
static size_t wanted(const struct dmi_dial *dial) {
  if (dial->state == DMI_DIAL_SAID) {
    if (dial->got < DMI_SEAL_LENGTH) return DMI_SEAL_LENGTH;
    size_t size = dmi_seal_size(dial->buf);
    return size == DMI_HELLO_BYTES || size == DMI_REFUSE_BYTES ? size + DMI_SEAL_OVER : 0;
  }
  size_t size = dmi_hello_size(dial->buf, dial->got);
  if (size == 0 || dial->got < DMI_HELLO_FIRST) return size;
  struct dmi_hello first;
  dmi_hello_peek(&first, dial->buf);
  if (first.kind == DMI_HELLO_REFUSE) return size;
  if (first.kind != DMI_HELLO_ANSWER) return 0;
  return first.version == DMI_WIRE_VERSION ? size : DMI_HELLO_FIRST;
}

/* What was wanted is there. */
static void take(struct dmi_dial *dial) {
  struct dmi_hello mine, first;
  char there[80];
  if (dial->state == DMI_DIAL_SAID) {
    judge(dial);
    return;
  }
  dmi_hello_peek(&first, dial->buf);
  if (first.kind == DMI_HELLO_REFUSE) {
    dmi_refuse_get(dial->why, dial->buf);
    failed(dial, true);
  } else if (first.version != DMI_WIRE_VERSION) {
    mine = dmi_net_hello(dial->net, DMI_HELLO_HELLO);
    snprintf(there, sizeof there, "%.60s port %u", dial->host, dial->port);
    (void)dmi_hello_match(&mine, &first, there, dial->why);
    failed(dial, true);
  } else {
    answered(dial);
  }
}

static void on_again(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = timer->data;
  ev_set_cb(&dial->patience, on_patience);
  try_next(dial);
}

/* It has closed without a word of its own. */
static void closed(struct dmi_dial *dial, int error) {
  struct ev_loop *loop = dial->net->loop;
  double pause = AGAIN_AFTER * (double)(1u << dial->again);
  if (dial->got == 0 && dial->again < AGAIN && ev_now(loop) + pause < dial->deadline) {
    dial->again++;
    dial->at--;
    dial->state = DMI_DIAL_CONNECTING;
    stop_attempt(dial);
    ev_set_cb(&dial->patience, on_again);
    ev_timer_set(&dial->patience, pause, 0);
    ev_timer_start(loop, &dial->patience);
    return;
  }
  snprintf(dial->why, sizeof dial->why,
           "%s port %u closed the connection at once, so it is perhaps no DMI program%s%s: %s",
           dial->host, dial->port, error != 0 ? ", " : "", error != 0 ? strerror(error) : "",
           advice(dial));
  failed(dial, false);
}

static void on_readable(struct dmi_dial *dial) {
  size_t want = wanted(dial);
  ssize_t got = recv(dial->fd, dial->buf + dial->got, want - dial->got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    closed(dial, got < 0 ? errno : 0);
    return;
  }
  dial->got = (uint16_t)(dial->got + got);
  want = wanted(dial);
  if (want == 0) {
    not_dmi(dial);
  } else if (dial->got >= want) {
    take(dial);
  }
}

/* Connecting, or the first word, has failed: a reset means that the other has closed it already. */
static void broken(struct dmi_dial *dial, int error) {
  if (error == ECONNRESET || error == EPIPE)
    closed(dial, error);
  else
    no_connection(dial, error);
}

static void on_connected(struct dmi_dial *dial) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    broken(dial, error);
    return;
  }
  struct dmi_net *net = dial->net;
  unsigned char bytes[DMI_CALL_BYTES];
  dmi_proof_call(&dial->proof, net->config.key, net->encrypt ? DMI_CALL_ENCRYPT : 0, bytes);
  if (send(dial->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof bytes) {
    broken(dial, errno);
    return;
  }
  dial->state = DMI_DIAL_CALLED;
  ev_io_stop(dial->net->loop, &dial->io);
  ev_io_set(&dial->io, dial->fd, EV_READ);
  ev_io_start(dial->net->loop, &dial->io);
}

static void on_event(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = io->data;
  if (dial->state == DMI_DIAL_CONNECTING)
    on_connected(dial);
  else
    on_readable(dial);
}

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = timer->data;
  double tried = dial->net->config.patience;
  if (dial->state != DMI_DIAL_CONNECTING) {
    snprintf(dial->why, sizeof dial->why,
             "%s port %u accepts connections but does not answer (waited %.0f s), so it is no DMI "
             "program, or one that hangs: %s",
             dial->host, dial->port, tried, advice(dial));
  } else {
    snprintf(dial->why, sizeof dial->why, "%s port %u does not answer (tried for %.0f s): %s",
             dial->host, dial->port, tried,
             dial->join ? ADVICE ", and whether a firewall is between" : PEER_ADVICE);
  }
  failed(dial, false);
}

/* Starts with the next address, or gives up. */
static void try_next(struct dmi_dial *dial) {
  struct ev_loop *loop = dial->net->loop;
  if (dial->at >= dial->count) {
    give_up(dial);
    return;
  }
  double left = dial->deadline - ev_now(loop);
  double patience = left / (double)(dial->count - dial->at); /* each gets a share of what is left */
  if (patience < 0.1) patience = 0.1;
  struct sockaddr_storage *to = &dial->addrs[dial->at++];
  socklen_t size = to->ss_family == AF_INET ? (socklen_t)sizeof(struct sockaddr_in)
                                            : (socklen_t)sizeof(struct sockaddr_in6);
  dial->state = DMI_DIAL_CONNECTING;
  dial->got = 0;
  dial->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (dial->fd < 0) {
    no_connection(dial, errno);
    return;
  }
  if (!dmi_addr_bind(dial->net, dial->fd, to)) {
    no_connection(dial, errno);
    return;
  }
  if (connect(dial->fd, (struct sockaddr *)to, size) < 0 && errno != EINPROGRESS) {
    no_connection(dial, errno);
    return;
  }
  dmi_log(DMI_LOG_DEBUG, "net", "connecting to %s port %u", dial->host, dial->port);
  ev_io_set(&dial->io, dial->fd, EV_WRITE);
  ev_io_start(loop, &dial->io);
  ev_timer_set(&dial->patience, patience, 0);
  ev_timer_start(loop, &dial->patience);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void on_start(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  struct dmi_dial *dial = timer->data;
  ev_set_cb(&dial->patience, on_patience);
  try_next(dial);
}

/* An attempt with room for `count` addresses, none of them set.  NULL: no memory. */
static struct dmi_dial *begin(struct dmi_net_peer *peer, size_t count) {
  struct dmi_net *net = peer->net;
  struct dmi_dial *dial = calloc(1, sizeof *dial);
  if (dial == NULL) return NULL;
  dial->addrs = calloc(count == 0 ? 1 : count, sizeof *dial->addrs);
  if (dial->addrs == NULL) {
    free(dial);
    return NULL;
  }
  dial->net = net;
  dial->peer = peer;
  dial->count = count;
  dial->fd = -1;
  ev_now_update(net->loop); /* resolving a name may have taken long */
  dial->deadline = ev_now(net->loop) + net->config.patience;
  /* The first address is tried from the loop: failing at once must not call the handler inside the
   * call of its owner. */
  ev_init(&dial->io, on_event);
  ev_set_priority(&dial->io, 1); /* what has come counts, also when its time is over */
  ev_timer_init(&dial->patience, on_start, 0., 0.);
  dial->io.data = dial->patience.data = dial;
  ev_timer_start(net->loop, &dial->patience);
  peer->dial = dial;
  pthread_mutex_lock(&peer->lock);
  peer->state = DMI_PEER_DIALING;
  pthread_mutex_unlock(&peer->lock);
  return dial;
}

void dmi_dial_peer(struct dmi_net_peer *peer) {
  if (dmi_addr_is_zero(&peer->addr)) {
    dmi_peer_lost(peer, "its address is unknown");
    return;
  }
  struct dmi_dial *dial = begin(peer, 1);
  if (dial == NULL) {
    dmi_peer_lost(peer, "there is no memory to connect to it");
    return;
  }
  char text[80];
  dmi_addr_to_socket(&peer->addr, dial->addrs);
  dmi_addr_text(&peer->addr, text);
  snprintf(dial->host, sizeof dial->host, "%.*s", (int)strcspn(text, " "), text);
  dial->port = peer->addr.port;
}

const char *dmi_net_resolve(const char *host, struct dmi_addr *addr) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int error = getaddrinfo(host, NULL, &want, &found);
  if (error != 0) return gai_strerror(error);
  struct sockaddr_storage name = {0};
  memcpy(&name, found->ai_addr, found->ai_addrlen);
  dmi_addr_of_socket(addr, &name);
  freeaddrinfo(found);
  return NULL;
}

static struct dmi_dial *begin_join(struct dmi_net *net, size_t count) {
  struct dmi_net_peer *peer = dmi_peer_new(net, DMI_NET_TEMP);
  struct dmi_dial *dial = peer == NULL ? NULL : begin(peer, count);
  if (dial != NULL) {
    dial->join = true;
    return dial;
  }
  if (peer != NULL) dmi_peer_free_temp(peer);
  net->handler.joined(net->handler.arg, 0, "there is no memory to connect");
  return NULL;
}

void dmi_net_join(struct dmi_net *net, const char *host, uint16_t port) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  char service[8];
  size_t count = 0;
  snprintf(service, sizeof service, "%u", port);
  int error = getaddrinfo(host, service, &want, &found);
  if (error != 0) found = NULL;
  for (struct addrinfo *info = found; info != NULL; info = info->ai_next)
    count++;
  struct dmi_dial *dial = begin_join(net, count);
  if (dial != NULL) {
    snprintf(dial->host, sizeof dial->host, "%s", host);
    dial->port = port;
    snprintf(dial->why, sizeof dial->why, "cannot find host '%.200s': %s; " ADVICE, host,
             gai_strerror(error));
    size_t at = 0;
    for (struct addrinfo *info = found; info != NULL; info = info->ai_next) {
      memcpy(&dial->addrs[at++], info->ai_addr, info->ai_addrlen);
    }
  }
  if (found != NULL) freeaddrinfo(found);
}

void dmi_net_join_addr(struct dmi_net *net, const struct dmi_addr *addr) {
  char text[80];
  struct dmi_dial *dial = begin_join(net, 1);
  if (dial == NULL) return;
  dmi_addr_to_socket(addr, dial->addrs);
  dmi_addr_text(addr, text);
  snprintf(dial->host, sizeof dial->host, "%.*s", (int)strcspn(text, " "), text);
  dial->port = addr->port;
}

void dmi_dial_free_all(struct dmi_net *net) {
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
  }
}
