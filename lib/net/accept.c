/*
 * accept.c - the listening socket, and HELLO of those who connect to us.
 *
 * Happy path: accept, a whole HELLO comes, it matches, HELLO_OK goes back, the socket becomes a
 * connection.  Until HELLO is complete a connection costs one struct dmi_shake; there are at most
 * DMI_NET_UNKNOWN of them, the oldest makes room.
 *
 * When both ends connect at once, the attempt of the lower uid wins.  The lower one holds the
 * other's attempt unanswered until its own is decided, and answers it after all if its own has
 * failed; the higher one gives its own up.  Nothing but HELLO is sent before the answer, so nothing
 * is lost.
 *
 * Failure modes: garbage, a HELLO that does not match (REFUSE with a sentence, also logged here),
 * silence (patience), no descriptors left (the listener rests for a while).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/inner.h"

#define ACCEPTS 32  /* per turn of the loop */
#define REST 0.1    /* seconds without accepting when there are no descriptors */
#define GOODBYE 2.0 /* seconds a refused process has to read why */

/* ---- A handshake's place --------------------------------------------------------------------- */

static void unlist(struct dmi_shake *shake) {
  struct dmi_net *net = shake->net;
  if (shake->holder != NULL) {
    shake->holder->held = NULL;
    shake->holder = NULL;
    return;
  }
  if (shake->prev != NULL)
    shake->prev->next = shake->next;
  else
    net->shakes = shake->next;
  if (shake->next != NULL)
    shake->next->prev = shake->prev;
  else
    net->shakes_last = shake->prev;
  net->shake_num--;
}

/* Frees it; returns the socket, which is the caller's now. */
static int dissolve(struct dmi_shake *shake) {
  int fd = shake->fd;
  ev_io_stop(shake->net->loop, &shake->io);
  ev_timer_stop(shake->net->loop, &shake->patience);
  unlist(shake);
  free(shake);
  return fd;
}

static void drop(struct dmi_shake *shake) {
  close(dissolve(shake));
}

static void ends_text(struct dmi_shake *shake, char here[80], char there[80]) {
  struct sockaddr_storage name;
  struct dmi_addr addr = {0};
  socklen_t size = sizeof name;
  if (getsockname(shake->fd, (struct sockaddr *)&name, &size) == 0) {
    dmi_addr_of_socket(&addr, &name);
  }
  dmi_addr_text(&addr, here);
  memset(&addr, 0, sizeof addr);
  size = sizeof name;
  if (getpeername(shake->fd, (struct sockaddr *)&name, &size) == 0) {
    dmi_addr_of_socket(&addr, &name);
  }
  if (shake->hello.port != 0) addr.port = shake->hello.port;
  dmi_addr_text(&addr, there);
}

/* `why` is what the user here reads, `told` what the other's user does. */
static void refuse_as(struct dmi_shake *shake, const char *why, const char *told) {
  unsigned char bytes[DMI_REFUSE_BYTES];
  dmi_net_log(shake->net, "refused a connection: %s", why);
  dmi_refuse_put(bytes, told);
  if (send(shake->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    drop(shake);
    return;
  }
  /* Closing now could destroy what it has not read yet; so wait for it to close. */
  shutdown(shake->fd, SHUT_WR);
  shake->refused = true;
  ev_timer_stop(shake->net->loop, &shake->patience);
  ev_timer_set(&shake->patience, GOODBYE, 0);
  ev_timer_start(shake->net->loop, &shake->patience);
}

static void refuse(struct dmi_shake *shake, const char *why) {
  refuse_as(shake, why, why);
}

/* ---- HELLO is complete ----------------------------------------------------------------------- */

/* Answers HELLO_OK and makes it the connection of `peer`.  NULL: it is gone already. */
static struct dmi_conn *welcome(struct dmi_shake *shake, struct dmi_net_peer *peer) {
  struct dmi_net *net = shake->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_OK);
  unsigned char bytes[DMI_HELLO_BYTES];
  uint16_t port = shake->hello.port;
  dmi_hello_put(bytes, &mine);
  int fd = dissolve(shake);
  if (send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof bytes) {
    struct dmi_conn *conn = dmi_conn_new(peer, fd, peer->id < DMI_NET_TEMP, port);
    if (conn != NULL) return conn;
  }
  close(fd);
  return NULL;
}

static void welcome_stranger(struct dmi_shake *shake, const char *here) {
  struct dmi_net *net = shake->net;
  char why[DMI_NET_WHY];
  if (net->uid == 0) {
    snprintf(why, sizeof why,
             "%s (program '%s') is itself not a member yet: join another process, "
             "or try again later",
             here, net->config.name);
    refuse(shake, why);
    return;
  }
  if (net->stranger_num >= DMI_NET_STRANGERS) {
    snprintf(why, sizeof why, "%s has %u processes that ask to join: try again later", here,
             net->stranger_num);
    refuse(shake, why);
    return;
  }
  struct dmi_net_peer *peer = dmi_peer_new(net, DMI_NET_TEMP);
  if (peer == NULL) {
    drop(shake);
    return;
  }
  uint32_t temp = peer->id;
  struct dmi_conn *conn = welcome(shake, peer);
  if (conn == NULL) {
    dmi_peer_free_temp(peer);
    return;
  }
  conn->stranger = true;
  net->stranger_num++;
  net->handler.stranger(net->handler.arg, temp);
}

/* The peer's record; NULL when there is no room for one more that nobody has announced. */
static struct dmi_net_peer *peer_for(struct dmi_net *net, uint32_t uid) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer != NULL || net->unannounced >= DMI_NET_UNANNOUNCED) return peer;
  peer = dmi_peer_new(net, uid);
  if (peer != NULL) net->unannounced++;
  return peer;
}

static void hold(struct dmi_shake *shake, struct dmi_net_peer *peer) {
  if (peer->held != NULL) drop(peer->held);
  unlist(shake);
  ev_timer_stop(shake->net->loop, &shake->patience); /* our own attempt has a time limit */
  shake->holder = peer;
  peer->held = shake;
}

static void welcome_member(struct dmi_shake *shake, const char *there) {
  struct dmi_net *net = shake->net;
  struct dmi_net_peer *peer = peer_for(net, shake->hello.uid);
  char why[DMI_NET_WHY];
  if (peer == NULL) {
    drop(shake);
    return;
  }
  pthread_mutex_lock(&peer->lock);
  enum dmi_peer_state state = peer->state;
  pthread_mutex_unlock(&peer->lock);
  if (state == DMI_PEER_LOST) {
    snprintf(why, sizeof why, "the connection with member %u at %s was lost before", peer->id,
             there);
    refuse(shake, why);
  } else if (peer->conn != NULL) {
    drop(shake); /* an attempt that it has given up for ours meanwhile */
  } else if (state == DMI_PEER_DIALING && net->uid < peer->id) {
    hold(shake, peer);
  } else {
    if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
    if (welcome(shake, peer) == NULL) dmi_peer_lost(peer, "it connected and went away at once");
  }
}

static void complete(struct dmi_shake *shake) {
  struct dmi_net *net = shake->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_OK);
  char here[80], there[80], why[DMI_REFUSE_TEXT], told[DMI_REFUSE_TEXT];
  ends_text(shake, here, there);
  if (!dmi_hello_match(&mine, &shake->hello, there, why)) {
    (void)dmi_hello_match(&shake->hello, &mine, here, told);
    refuse_as(shake, why, told);
  } else if (shake->hello.uid == 0) {
    welcome_stranger(shake, here);
  } else if (shake->hello.uid == net->uid) {
    snprintf(why, sizeof why, "%s and %s both say they are member %u", here, there, net->uid);
    refuse(shake, why);
  } else {
    welcome_member(shake, there);
  }
}

bool dmi_accept_held(struct dmi_shake *shake, bool ours_won) {
  struct dmi_net_peer *peer = shake->holder;
  if (!ours_won) return welcome(shake, peer) != NULL;
  drop(shake);
  return false;
}

/* ---- Bytes of HELLO -------------------------------------------------------------------------- */

static void garbage(struct dmi_shake *shake) {
  char here[80], there[80];
  ends_text(shake, here, there);
  dmi_net_log(shake->net, "closed a connection from %s: it does not speak DMI", there);
  drop(shake);
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  struct dmi_shake *shake = io->data;
  unsigned char waste[256];
  bool waiting = shake->refused || shake->holder != NULL;
  ssize_t got = waiting ? recv(shake->fd, waste, sizeof waste, MSG_DONTWAIT)
                        : recv(shake->fd, shake->buf + shake->got, sizeof shake->buf - shake->got,
                               MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || shake->holder != NULL) { /* held: nothing may come before our answer */
    drop(shake);
    return;
  }
  if (shake->refused) return;
  shake->got = (uint16_t)(shake->got + got);
  if (dmi_hello_size(shake->buf, shake->got) == 0) {
    garbage(shake);
    return;
  }
  if (shake->got < DMI_HELLO_FIRST) return;
  dmi_hello_peek(&shake->hello, shake->buf);
  bool other_version = shake->hello.version != DMI_WIRE_VERSION;
  if (!other_version) {
    if (shake->got < DMI_HELLO_BYTES) return;
    if (!dmi_hello_get(&shake->hello, shake->buf)) {
      garbage(shake);
      return;
    }
  }
  if (shake->hello.kind != DMI_HELLO_HELLO)
    garbage(shake);
  else
    complete(shake);
}

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  drop(timer->data);
}

static bool begin(struct dmi_net *net, int fd) {
  struct dmi_shake *shake = calloc(1, sizeof *shake);
  if (shake == NULL) return false;
  shake->net = net;
  shake->fd = fd;
  ev_io_init(&shake->io, on_readable, fd, EV_READ);
  ev_set_priority(&shake->io, 1); /* what has come counts, also when its time is over */
  ev_timer_init(&shake->patience, on_patience, net->config.patience, 0);
  shake->io.data = shake->patience.data = shake;
  ev_io_start(net->loop, &shake->io);
  ev_timer_start(net->loop, &shake->patience);
  if (net->shake_num >= DMI_NET_UNKNOWN) drop(net->shakes);
  shake->prev = net->shakes_last;
  if (shake->prev != NULL)
    shake->prev->next = shake;
  else
    net->shakes = shake;
  net->shakes_last = shake;
  net->shake_num++;
  return true;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static void on_connection(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)events;
  struct dmi_net *net = io->data;
  for (int i = 0; i < ACCEPTS; i++) {
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (!begin(net, fd)) close(fd);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      dmi_net_log(net, "cannot accept a connection now: %s", strerror(errno));
      ev_io_stop(loop, io);
      ev_timer_set(&net->rest, REST, 0);
      ev_timer_start(loop, &net->rest);
      return;
    } /* else that one connection failed before it was accepted */
  }
}

static void on_rest(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)events;
  struct dmi_net *net = timer->data;
  ev_io_start(loop, &net->listener);
}

/* A listening socket of this family, or -1 with errno. */
static int listen_on(int family, uint16_t port) {
  int on = 1, off = 0;
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct dmi_addr any = {.port = port};
  struct sockaddr_storage name;
  if (family == AF_INET) any.ip[10] = any.ip[11] = 0xff;
  socklen_t size = dmi_addr_to_socket(&any, &name);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, (struct sockaddr *)&name, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool dmi_accept_open(struct dmi_net *net, const char **why) {
  static _Thread_local char text[DMI_NET_WHY];
  struct sockaddr_storage name;
  struct dmi_addr addr;
  socklen_t size = sizeof name;
  uint16_t port = net->config.listen_port;
  int fd = listen_on(AF_INET6, port);
  if (fd < 0 && errno != EADDRINUSE && errno != EACCES) fd = listen_on(AF_INET, port);
  if (fd < 0) {
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
  ev_io_init(&net->listener, on_connection, fd, EV_READ);
  ev_timer_init(&net->rest, on_rest, REST, 0);
  net->listener.data = net->rest.data = net;
  ev_io_start(net->loop, &net->listener);
  return true;
}

void dmi_accept_free_all(struct dmi_net *net) {
  while (net->shakes != NULL)
    drop(net->shakes);
  for (struct dmi_net_peer *peer = net->peers; peer != NULL; peer = peer->next) {
    if (peer->held != NULL) drop(peer->held);
  }
  ev_timer_stop(net->loop, &net->rest);
  ev_io_stop(net->loop, &net->listener);
  close(net->listener.fd);
}
