/*
 * shake.c - the handshake of those who connect to us: CALL, PROOF, HELLO, and what we answer.
 *
 * Happy path: CALL comes, made with our key; ANSWER goes back; PROOF and HELLO come; HELLO matches,
 * HELLO_OK goes back, the socket becomes a connection.  The states are in docs/wire.md.  Until
 * PROOF is right nothing happens for the other that anybody could notice: it costs one struct
 * dmi_shake, a place in accept.c's table, and a hash; one that repeats an old CALL, a key of our
 * own.
 *
 * When both ends connect at once, the attempt of the lower uid wins.  The lower one holds the
 * other's attempt unanswered until its own is decided, and answers it after all if its own has
 * failed; the higher one gives its own up.  No message is sent before HELLO_OK, so nothing is lost.
 *
 * Failure modes: garbage, another version or key (REFUSE in the clear), a repeated CALL (closed), a
 * HELLO that does not match (REFUSE, sealed; also logged here), silence (patience, for all of it).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "net/inner.h"

#define GOODBYE 2.0 /* seconds a refused process has to read why */

/* ---- A handshake's place --------------------------------------------------------------------- */

static void unlist(struct dmi_shake *shake) {
  if (shake->holder != NULL) {
    shake->holder->held = NULL;
    shake->holder = NULL;
  } else {
    dmi_accept_unlist(shake);
  }
}

/* Frees it; returns the socket, which is the caller's now. */
static int dissolve(struct dmi_shake *shake) {
  int fd = shake->fd;
  ev_io_stop(shake->net->loop, &shake->io);
  ev_timer_stop(shake->net->loop, &shake->patience);
  unlist(shake);
  sodium_memzero(shake, sizeof *shake);
  free(shake);
  return fd;
}

void dmi_shake_drop(struct dmi_shake *shake) {
  close(dissolve(shake));
}

/* The socket is not reset when it is closed, as those of strangers are. */
static void close_gently(int fd) {
  struct linger none = {.l_onoff = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

static void ends_text(struct dmi_shake *shake, char here[80], char there[80]) {
  struct sockaddr_storage name;
  struct dmi_addr addr = {0};
  socklen_t size = sizeof name;
  if (getsockname(shake->fd, (struct sockaddr *)&name, &size) == 0) {
    dmi_addr_of_socket(&addr, &name);
  }
  dmi_addr_text(&addr, here);
  addr = shake->from;
  if (shake->hello.port != 0) addr.port = shake->hello.port;
  dmi_addr_text(&addr, there);
}

/* `why` is what the user here reads, `told` what the other's user does. */
static void refuse_as(struct dmi_shake *shake, const char *why, const char *told) {
  unsigned char bytes[DMI_REFUSE_BYTES], sealed[DMI_REFUSE_BYTES + DMI_SEAL_OVER];
  const unsigned char *out = bytes;
  size_t size = sizeof bytes;
  dmi_net_log(shake->net, shake->proved ? DMI_ABOUT_OURS : DMI_ABOUT_STRANGERS,
              "refused a connection: %s", why);
  dmi_refuse_put(bytes, told);
  if (shake->proved) {
    dmi_seal_put_first(shake->keys.out, sealed, bytes, sizeof bytes);
    out = sealed;
    size = sizeof sealed;
  }
  if (send(shake->fd, out, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    dmi_shake_drop(shake);
    return;
  }
  /* Closing now could destroy what it has not read yet; so wait for it to close. */
  close_gently(shake->fd);
  shutdown(shake->fd, SHUT_WR);
  shake->state = DMI_SHAKE_REFUSED;
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
  unsigned char bytes[DMI_HELLO_BYTES], sealed[DMI_HELLO_BYTES + DMI_SEAL_OVER];
  struct dmi_proof_keys keys = shake->keys;
  bool encrypt = shake->encrypt;
  uint16_t port = shake->hello.port;
  dmi_hello_put(bytes, &mine);
  dmi_seal_put_first(keys.out, sealed, bytes, sizeof bytes);
  int fd = dissolve(shake);
  struct dmi_conn *conn = NULL;
  close_gently(fd);
  if (send(fd, sealed, sizeof sealed, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof sealed) {
    conn = dmi_conn_new(peer, fd, peer->id < DMI_NET_TEMP, port, encrypt ? &keys : NULL);
  }
  sodium_memzero(&keys, sizeof keys);
  if (conn == NULL) close(fd);
  return conn;
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
    dmi_shake_drop(shake);
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
  if (peer->held != NULL) dmi_shake_drop(peer->held);
  unlist(shake);
  ev_timer_stop(shake->net->loop, &shake->patience); /* our own attempt has a time limit */
  shake->holder = peer;
  peer->held = shake;
  shake->state = DMI_SHAKE_HELD;
}

static void welcome_member(struct dmi_shake *shake, const char *there) {
  struct dmi_net *net = shake->net;
  struct dmi_net_peer *peer = peer_for(net, shake->hello.uid);
  char why[DMI_NET_WHY];
  if (peer == NULL) {
    dmi_shake_drop(shake);
    return;
  }
  dmi_mutex_lock(&peer->lock);
  enum dmi_peer_state state = peer->state;
  dmi_mutex_unlock(&peer->lock);
  if (state == DMI_PEER_LOST) {
    snprintf(why, sizeof why, "the connection with member %u at %s was lost before", peer->id,
             there);
    refuse(shake, why);
  } else if (peer->conn != NULL) {
    dmi_shake_drop(shake); /* an attempt that it has given up for ours meanwhile */
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
  } else if (shake->net->uid == 0) {
    dmi_shake_drop(shake); /* it knows of us sooner than we do; it tries again */
  } else if (shake->hello.uid == net->uid) {
    snprintf(why, sizeof why, "%s and %s both say they are member %u", here, there, net->uid);
    refuse(shake, why);
  } else {
    welcome_member(shake, there);
  }
}

bool dmi_shake_held(struct dmi_shake *shake, bool ours_won) {
  struct dmi_net_peer *peer = shake->holder;
  if (!ours_won) return welcome(shake, peer) != NULL;
  dmi_shake_drop(shake);
  return false;
}

/* ---- What comes before it ---------------------------------------------------------------------
 */

static void close_as(struct dmi_shake *shake, const char *what) {
  char here[80], there[80];
  if (!dmi_net_mute(shake->net, DMI_ABOUT_STRANGERS)) {
    ends_text(shake, here, there);
    dmi_net_log(shake->net, DMI_ABOUT_STRANGERS, "closed a connection from %s: %s", there, what);
  }
  dmi_shake_drop(shake);
}

static void garbage(struct dmi_shake *shake) {
  close_as(shake, "it does not speak DMI");
}

static void refuse_key(struct dmi_shake *shake) {
  char here[80], there[80], why[DMI_REFUSE_TEXT], told[DMI_REFUSE_TEXT];
  if (!dmi_accept_may_refuse(shake->net)) {
    close_as(shake, "it has another key");
    return;
  }
  ends_text(shake, here, there);
  snprintf(why, sizeof why, "the process at %s has another key than this one (see dmirun --key)",
           there);
  snprintf(told, sizeof told,
           "the process at %s has another key than this one: " DMI_NET_KEY_ADVICE, here);
  refuse_as(shake, why, told);
}

/* CALL is whole. */
static void called(struct dmi_shake *shake) {
  struct dmi_net *net = shake->net;
  unsigned char answer[DMI_ANSWER_BYTES];
  if (!dmi_proof_called(&shake->proof, net->config.key, shake->buf)) {
    refuse_key(shake);
    return;
  }
  if (dmi_accept_repeats(net, shake->buf)) {
    close_as(shake, "it repeats what another one has said");
    return;
  }
  shake->encrypt = net->encrypt;
  dmi_proof_answer(&shake->proof, net->config.key, shake->encrypt ? DMI_CALL_ENCRYPT : 0, answer);
  shake->state = DMI_SHAKE_PROOF;
  shake->got = 0;
  dmi_accept_called(shake);
  if (send(shake->fd, answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) !=
      (ssize_t)sizeof answer) {
    dmi_shake_drop(shake);
  }
}

/* As many bytes of CALL as there are. */
static void take_call(struct dmi_shake *shake) {
  if (dmi_hello_size(shake->buf, shake->got) == 0) {
    garbage(shake);
    return;
  }
  if (shake->got < DMI_HELLO_FIRST) return;
  dmi_hello_peek(&shake->hello, shake->buf);
  if (shake->hello.kind != DMI_HELLO_CALL) {
    garbage(shake);
  } else if (shake->hello.version != DMI_WIRE_VERSION) {
    if (dmi_accept_may_refuse(shake->net))
      complete(shake); /* with a sentence about versions */
    else
      close_as(shake, "it speaks another wire version");
  } else if (shake->got == DMI_CALL_BYTES) {
    called(shake);
  }
}

/* PROOF and the sealed HELLO are whole. */
static void proved(struct dmi_shake *shake) {
  unsigned char hello[DMI_HELLO_BYTES];
  const unsigned char *sealed = shake->buf + DMI_PROOF_BYTES;
  if (!dmi_proof_check(&shake->proof, shake->net->config.key, shake->buf, &shake->keys)) {
    close_as(shake, "it has begun with the words of another one, but does not have the key");
  } else if (dmi_seal_size(sealed) != DMI_HELLO_BYTES ||
             !dmi_seal_get_first(shake->keys.in, hello, sealed) ||
             !dmi_hello_get(&shake->hello, hello) || shake->hello.kind != DMI_HELLO_HELLO) {
    garbage(shake);
  } else {
    shake->proved = true;
    dmi_accept_proved(shake->net);
    complete(shake);
  }
}

/* How many bytes the state waits for. */
static size_t wanted(const struct dmi_shake *shake) {
  return shake->state == DMI_SHAKE_CALL ? DMI_CALL_BYTES : sizeof shake->buf;
}

void dmi_shake_look(struct dmi_shake *shake) {
  unsigned char waste[256];
  bool waiting = shake->state >= DMI_SHAKE_HELD;
  ssize_t got =
      waiting ? recv(shake->fd, waste, sizeof waste, MSG_DONTWAIT)
              : recv(shake->fd, shake->buf + shake->got, wanted(shake) - shake->got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || shake->state == DMI_SHAKE_HELD) { /* held: nothing may come before our answer */
    dmi_shake_drop(shake);
    return;
  }
  if (shake->state == DMI_SHAKE_REFUSED) return;
  shake->got = (uint16_t)(shake->got + got);
  if (shake->state == DMI_SHAKE_CALL)
    take_call(shake);
  else if (shake->got == sizeof shake->buf)
    proved(shake);
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  dmi_shake_look(io->data);
}

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  dmi_shake_drop(timer->data);
}

struct dmi_shake *dmi_shake_new(struct dmi_net *net, int fd, const struct dmi_addr *from) {
  struct dmi_shake *shake = calloc(1, sizeof *shake);
  if (shake == NULL) return NULL;
  shake->net = net;
  shake->fd = fd;
  shake->from = *from;
  ev_io_init(&shake->io, on_readable, fd, EV_READ);
  ev_set_priority(&shake->io, 1); /* what has come counts, also when its time is over */
  ev_timer_init(&shake->patience, on_patience, net->config.patience, 0);
  shake->io.data = shake->patience.data = shake;
  ev_io_start(net->loop, &shake->io);
  ev_timer_start(net->loop, &shake->patience);
  return shake;
}
