/*
 * accept.c - the listening socket, and the table of those who have connected but not proved yet
 * that they know the key.
 *
 * Happy path: accept, shake.c does the handshake.
 *
 * A flood of connections must cost the program next to nothing, nor keep others out:
 *   - the table has DMI_NET_UNKNOWN places.  When it is full, one of the address that has most of
 *     them makes room, at random: so who comes from elsewhere is not touched, and one who comes
 * from the same address has good chances (and dial.c tries again).
 *   - accepting is a right of which there are BURST, and RATE more each second; a connection that
 * has proved the key gives its back.  Without a right the others wait in the kernel's backlog.
 *
 * Failure modes: no descriptors left: one of the table makes room; if it is empty, the listener
 * rests for a while.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/inner.h"

#define ACCEPTS 8      /* per turn of the loop */
#define REST 0.1       /* seconds without accepting when there are no descriptors */
#define RATE 1000.0    /* connections a second that prove nothing */
#define BURST 512.0    /* at once, beyond that */
#define THROTTLE 0.005 /* seconds without accepting when there are too many */

/* ---- The table ---------------------------------------------------------------------------------
 */

/* Connections of one address, or of one network of IPv6, are a crowd.  Some share one by chance,
 * which nobody can know. */
static uint8_t crowd_of(struct dmi_net *net, const struct dmi_addr *addr) {
  unsigned char hash[crypto_shorthash_BYTES];
  size_t size = dmi_addr_is_ipv4(addr) ? 16 : 8;
  crypto_shorthash(hash, addr->ip, size, net->crowd_key);
  return hash[0];
}

static void enlist(struct dmi_shake *shake, uint8_t crowd) {
  struct dmi_net *net = shake->net;
  shake->crowd = crowd;
  shake->slot = net->shake_num;
  net->shakes[net->shake_num++] = shake;
  net->crowds[crowd]++;
}

void dmi_accept_unlist(struct dmi_shake *shake) {
  struct dmi_net *net = shake->net;
  struct dmi_shake *last = net->shakes[--net->shake_num];
  net->shakes[shake->slot] = last;
  last->slot = shake->slot;
  net->crowds[shake->crowd]--;
}

/* One of the largest crowd goes. */
static void make_room(struct dmi_net *net) {
  uint16_t most = 0;
  for (int i = 0; i < DMI_NET_CROWDS; i++) {
    if (net->crowds[i] > most) most = net->crowds[i];
  }
  uint32_t at = randombytes_uniform(net->shake_num);
  while (net->crowds[net->shakes[at]->crowd] != most)
    at = (at + 1) % net->shake_num;
  dmi_shake_drop(net->shakes[at]);
}

/* ---- How many ----------------------------------------------------------------------------------
 */

static void pause_for(struct dmi_net *net, double seconds) {
  ev_io_stop(net->loop, &net->listener);
  ev_timer_set(&net->rest, seconds, 0);
  ev_timer_start(net->loop, &net->rest);
}

/* May one more be accepted? */
static bool has_right(struct dmi_net *net) {
  double now = ev_now(net->loop);
  net->rights += (now - net->rights_since) * RATE;
  net->rights_since = now;
  if (net->rights > BURST) net->rights = BURST;
  if (net->rights < 1) return false;
  net->rights -= 1;
  return true;
}

bool dmi_accept_repeats(struct dmi_net *net, const unsigned char call[DMI_CALL_BYTES]) {
  unsigned char hash[crypto_shorthash_BYTES];
  uint64_t mark;
  crypto_shorthash(hash, call, DMI_CALL_BYTES, net->crowd_key);
  memcpy(&mark, hash, sizeof mark);
  uint64_t *place = &net->calls[mark % DMI_NET_CALLS];
  bool repeats = *place == mark;
  *place = mark;
  return repeats;
}

void dmi_accept_proved(struct dmi_net *net) {
  net->rights += 1;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static bool begin(struct dmi_net *net, int fd, const struct sockaddr_storage *from) {
  if (net->shake_num >= DMI_NET_UNKNOWN) make_room(net);
  struct dmi_addr addr;
  dmi_addr_of_socket(&addr, from);
  struct dmi_shake *shake = dmi_shake_new(net, fd, &addr);
  if (shake != NULL) enlist(shake, crowd_of(net, &addr));
  return shake != NULL;
}

/* The system has no descriptor or memory for one more.  True: later, perhaps. */
static bool no_room(struct dmi_net *net, int error) {
  dmi_net_log(net, DMI_ABOUT_STRANGERS, "cannot accept a connection now: %s", strerror(error));
  if (net->shake_num != 0) {
    make_room(net);
    return false;
  }
  pause_for(net, REST);
  return true;
}

static void on_connection(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_net *net = io->data;
  for (int i = 0; i < ACCEPTS; i++) {
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    memset(&from, 0, sizeof from);
    if (!has_right(net)) {
      dmi_net_log(net, DMI_ABOUT_STRANGERS,
                  "very many connections that prove no key: they are accepted slowly");
      pause_for(net, THROTTLE);
      return;
    }
    int fd = accept4(io->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (!begin(net, fd, &from)) close(fd);
      continue;
    }
    int error = errno;
    net->rights += 1;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      if (no_room(net, error)) return;
    } /* else that one connection failed before it was accepted */
  }
}

static void on_rest(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)events;
  struct dmi_net *net = timer->data;
  ev_io_start(loop, &net->listener);
}

/* A listening socket at this address, or -1 with errno. */
static int listen_at(const struct sockaddr_storage *name, socklen_t size) {
  int on = 1, off = 0;
  int fd = socket(name->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (name->ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, (const struct sockaddr *)name, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* At all addresses of this machine: IPv6 with IPv4, or IPv4 alone. */
static int listen_anywhere(uint16_t port) {
  struct sockaddr_storage name;
  struct dmi_addr any = {.port = port};
  socklen_t size = dmi_addr_to_socket(&any, &name);
  int fd = listen_at(&name, size);
  if (fd >= 0 || errno == EADDRINUSE || errno == EACCES) return fd;
  any.ip[10] = any.ip[11] = 0xff;
  size = dmi_addr_to_socket(&any, &name);
  return listen_at(&name, size);
}

/* At net->config.bind alone, from which it also connects. */
static int listen_there(struct dmi_net *net, const char **why, char text[DMI_NET_WHY]) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int fd = -1, error = getaddrinfo(net->config.bind, NULL, &want, &found);
  if (error != 0) {
    snprintf(text, DMI_NET_WHY,
             "cannot find the address '%.200s': %s; check dmirun's option --bind", net->config.bind,
             gai_strerror(error));
    *why = text;
    return -1;
  }
  memcpy(&net->from, found->ai_addr, found->ai_addrlen);
  net->from_size = found->ai_addrlen;
  struct sockaddr_storage name = net->from;
  dmi_addr_set_port(&name, net->config.listen_port);
  fd = listen_at(&name, net->from_size);
  error = errno;
  freeaddrinfo(found);
  if (fd < 0 && error == EADDRNOTAVAIL) {
    snprintf(text, DMI_NET_WHY,
             "this machine has no address '%.200s': check dmirun's option --bind",
             net->config.bind);
    *why = text;
  }
  errno = error;
  return fd;
}

bool dmi_accept_open(struct dmi_net *net, const char **why) {
  static _Thread_local char text[DMI_NET_WHY];
  struct sockaddr_storage name;
  struct dmi_addr addr;
  socklen_t size = sizeof name;
  uint16_t port = net->config.listen_port;
  *why = NULL;
  int fd = net->config.bind == NULL ? listen_anywhere(port) : listen_there(net, why, text);
  if (fd < 0) {
    if (*why != NULL) return false;
    *why = text;
    if (errno == EADDRINUSE) {
      snprintf(text, sizeof text,
               "port %u is in use on this machine, perhaps by another process of "
               "a DMI program: choose another with dmirun -l PORT (0: any free one)",
               port);
    } else {
      snprintf(text, sizeof text,
               "cannot listen on port %u: %s; choose another with dmirun -l PORT", port,
               strerror(errno));
    }
    return false;
  }
  memset(&name, 0, sizeof name);
  getsockname(fd, (struct sockaddr *)&name, &size);
  dmi_addr_of_socket(&addr, &name);
  net->port = addr.port;
  net->rights = BURST;
  net->rights_since = ev_now(net->loop);
  randombytes_buf(net->crowd_key, sizeof net->crowd_key);
  ev_io_init(&net->listener, on_connection, fd, EV_READ);
  ev_timer_init(&net->rest, on_rest, REST, 0);
  net->listener.data = net->rest.data = net;
  ev_io_start(net->loop, &net->listener);
  return true;
}

void dmi_accept_free_all(struct dmi_net *net) {
  while (net->shake_num != 0)
    dmi_shake_drop(net->shakes[0]);
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->held != NULL) dmi_shake_drop(peer->held);
  }
  ev_timer_stop(net->loop, &net->rest);
  ev_io_stop(net->loop, &net->listener);
  close(net->listener.fd);
}
