/*
 * handshake.c - the accepting side of the handshake: CALL, PROOF and HELLO arrive, and we answer.
 *
 * Happy path: CALL arrives, made with our key; we send ANSWER; PROOF and HELLO arrive; HELLO
 * matches; we send HELLO_OK, and the link becomes a connection. The states are in docs/wire.md.
 * Before PROOF is checked, a connection has no effect outside of lib/net. It costs one struct
 * dmi_handshake, a place in accept.c's table, and a hash; one that repeats an old CALL may also
 * cost a key pair.
 *
 * When two processes connect to each other at the same time, the attempt of the lower uid wins. The
 * process with the lower uid defers its answer to the other's attempt until its own has succeeded
 * or failed, and accepts the other's if its own has failed. The one with the higher uid gives its
 * own attempt up. No message is sent before HELLO_OK, so nothing is lost.
 *
 * Failure modes: bytes that are not DMI's (closed), another version or key (REFUSE in the clear), a
 * repeated CALL (closed), a HELLO that does not match (REFUSE, sealed; also logged here), no answer
 * (closed after config.patience, which covers the whole handshake).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "net/net_int.h"

#define GOODBYE 2.0 /* seconds in which a refused process can read the reason */

/* ---- A handshake's place --------------------------------------------------------------------- */

static void unlist(struct dmi_handshake *handshake) {
  if (handshake->holder != NULL) {
    handshake->holder->deferred = NULL;
    handshake->holder = NULL;
  } else {
    dmi_accept_unlist(handshake);
  }
}

void dmi_handshake_stop(struct dmi_handshake *handshake) {
  ev_io_stop(handshake->net->loop, &handshake->io);
  ev_timer_stop(handshake->net->loop, &handshake->patience);
  unlist(handshake);
}

/* Frees a handshake that was stopped; returns the link, which is the caller's now. */
static struct dmi_link *free_stopped(struct dmi_handshake *handshake) {
  struct dmi_link *link = handshake->link;
  sodium_memzero(handshake, sizeof *handshake);
  free(handshake);
  return link;
}

void dmi_handshake_discard(struct dmi_handshake *handshake) {
  struct dmi_net *net = handshake->net;
  dmi_beside_close(net, free_stopped(handshake));
}

/* Stops and frees a handshake; returns the link, which is the caller's now. */
static struct dmi_link *dissolve(struct dmi_handshake *handshake) {
  dmi_handshake_stop(handshake);
  return free_stopped(handshake);
}

void dmi_handshake_drop(struct dmi_handshake *handshake) {
  struct dmi_net *net = handshake->net;
  dmi_beside_close(net, dissolve(handshake));
}

static void ends_text(struct dmi_handshake *handshake, char here[80], char there[80]) {
  struct dmi_addr addr, theirs;
  handshake->link->ops->ends(handshake->link, &addr, &theirs);
  dmi_addr_text(&addr, here);
  addr = handshake->from;
  if (handshake->hello.port != 0) addr.port = handshake->hello.port;
  dmi_addr_text(&addr, there);
}

/* `why` is the text for the user here, `told` for the other process's user. */
static void refuse_as(struct dmi_handshake *handshake, const char *why, const char *told) {
  unsigned char bytes[DMI_REFUSE_BYTES], sealed[DMI_REFUSE_BYTES + DMI_SEAL_OVER];
  const unsigned char *out = bytes;
  size_t size = sizeof bytes;
  dmi_net_log(handshake->net, handshake->proved ? DMI_ABOUT_OURS : DMI_ABOUT_STRANGERS,
              "refused a connection: %s", why);
  dmi_refuse_put(bytes, told);
  if (handshake->proved) {
    dmi_seal_put_first(handshake->keys.out, sealed, bytes, sizeof bytes);
    out = sealed;
    size = sizeof sealed;
  }
  if (dmi_link_send(handshake->link, out, size) < 0) {
    dmi_handshake_drop(handshake);
    return;
  }
  /* Closing now could destroy data that it has not read yet, so wait until it closes. */
  handshake->link->ops->keep(handshake->link);
  handshake->link->ops->finish(handshake->link);
  handshake->state = DMI_HANDSHAKE_REFUSED;
  ev_timer_stop(handshake->net->loop, &handshake->patience);
  ev_timer_set(&handshake->patience, GOODBYE, 0);
  ev_timer_start(handshake->net->loop, &handshake->patience);
}

static void refuse(struct dmi_handshake *handshake, const char *why) {
  refuse_as(handshake, why, why);
}

/* ---- HELLO is complete ----------------------------------------------------------------------- */

uint8_t dmi_handshake_flags(const struct dmi_net *net) {
  unsigned flags = net->encrypt ? DMI_CALL_ENCRYPT : 0;
  /* a joiner does not know yet whether the program seals; a member of one that does not needs no
   * library */
  if ((net->encrypt || net->uid == 0) && dmi_seal_has_ocb()) flags |= DMI_CALL_OCB;
  return (uint8_t)flags;
}

/* Answers HELLO_OK and makes this the connection of `peer`. NULL: it is lost already. */
static struct dmi_conn *welcome(struct dmi_handshake *handshake, struct dmi_net_peer *peer) {
  struct dmi_net *net = handshake->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_OK);
  unsigned char bytes[DMI_HELLO_BYTES], sealed[DMI_HELLO_BYTES + DMI_SEAL_OVER];
  struct dmi_proof_keys keys = handshake->keys;
  bool encrypt = handshake->encrypt;
  uint16_t port = handshake->hello.port;
  bool offered = handshake->hello.shm && net->config.shm && net->first == NULL;
  int common = offered && !encrypt ? dmi_common_give(&net->common) : -1;
  struct dmi_link *shm = offered ? dmi_shm_take(handshake->link, &keys, common) : NULL;
  mine.shm = shm != NULL;
  dmi_hello_put(bytes, &mine);
  dmi_seal_put_first(keys.out, sealed, bytes, sizeof bytes);
  struct dmi_link *link = dissolve(handshake);
  struct dmi_conn *conn = NULL;
  link->ops->keep(link);
  bool said = dmi_link_send(link, sealed, sizeof sealed) == (ssize_t)sizeof sealed;
  if (shm != NULL) {
    dmi_beside_close(net, link);
    link = shm;
  }
  if (said) conn = dmi_conn_new(peer, link, peer->id < DMI_NET_TEMP, port, encrypt ? &keys : NULL);
  sodium_memzero(&keys, sizeof keys);
  if (conn == NULL) dmi_beside_close(net, link);
  return conn;
}

static void welcome_stranger(struct dmi_handshake *handshake, const char *here) {
  struct dmi_net *net = handshake->net;
  struct dmi_dial *own = dmi_dial_of_call(net, &handshake->proof);
  char why[DMI_NET_WHY];
  if (own != NULL) {
    dmi_handshake_drop(handshake);
    dmi_dial_met_itself(own);
    return;
  }
  if (net->uid == 0) {
    snprintf(why, sizeof why,
             "%s (program '%s') is itself not a member yet: join another process, "
             "or try again later",
             here, net->config.name);
    refuse(handshake, why);
    return;
  }
  if (net->stranger_num >= DMI_NET_STRANGERS) {
    snprintf(why, sizeof why, "%s has %u processes waiting to join: try again later", here,
             net->stranger_num);
    refuse(handshake, why);
    return;
  }
  struct dmi_net_peer *peer = dmi_peer_new(net, DMI_NET_TEMP);
  if (peer == NULL) {
    dmi_handshake_drop(handshake);
    return;
  }
  uint32_t temp = peer->id;
  struct dmi_conn *conn = welcome(handshake, peer);
  if (conn == NULL) {
    dmi_peer_free_temp(peer);
    return;
  }
  conn->stranger = true;
  net->stranger_num++;
  net->handler.stranger(net->handler.arg, temp);
}

/* The peer's record. NULL if there are too many peers that nobody has announced, or no memory. */
static struct dmi_net_peer *peer_for(struct dmi_net *net, uint32_t uid) {
  struct dmi_net_peer *peer = dmi_peer_find(net, uid);
  if (peer != NULL || net->unannounced >= DMI_NET_UNANNOUNCED) return peer;
  peer = dmi_peer_new(net, uid);
  if (peer != NULL) net->unannounced++;
  return peer;
}

static void defer(struct dmi_handshake *handshake, struct dmi_net_peer *peer) {
  if (peer->deferred != NULL) dmi_handshake_drop(peer->deferred);
  unlist(handshake);
  ev_timer_stop(handshake->net->loop, &handshake->patience); /* our own attempt has a time limit */
  handshake->holder = peer;
  peer->deferred = handshake;
  handshake->state = DMI_HANDSHAKE_DEFERRED;
}

static void welcome_member(struct dmi_handshake *handshake, const char *there) {
  struct dmi_net *net = handshake->net;
  struct dmi_net_peer *peer = peer_for(net, handshake->hello.uid);
  char why[DMI_NET_WHY];
  if (peer == NULL) {
    dmi_handshake_drop(handshake);
    return;
  }
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  enum dmi_peer_state state = peer->state;
  bool fenced = peer->fenced;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (fenced) {
    snprintf(why, sizeof why,
             "member %u at %s was lost, and the others have gone on without it: it has to join "
             "again",
             peer->id, there);
    refuse(handshake, why);
  } else if (state == DMI_PEER_LOST) {
    snprintf(why, sizeof why, "the connection with member %u at %s was lost before", peer->id,
             there);
    refuse(handshake, why);
  } else if (peer->conn != NULL) {
    dmi_handshake_drop(handshake); /* the other has given this attempt up for ours meanwhile */
  } else if (state == DMI_PEER_DIALING && net->uid < peer->id) {
    defer(handshake, peer);
  } else {
    if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
    if (welcome(handshake, peer) == NULL) dmi_peer_lost(peer, "it connected and went away at once");
  }
}

static void complete(struct dmi_handshake *handshake) {
  struct dmi_net *net = handshake->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_OK);
  char here[80], there[80], why[DMI_REFUSE_TEXT], told[DMI_REFUSE_TEXT];
  ends_text(handshake, here, there);
  if (!dmi_hello_match(&mine, &handshake->hello, there, why)) {
    (void)dmi_hello_match(&handshake->hello, &mine, here, told);
    refuse_as(handshake, why, told);
  } else if (handshake->hello.beside && net->first == NULL) {
    dmi_beside_give(handshake);
  } else if (handshake->hello.uid == 0 && net->first != NULL) {
    dmi_handshake_drop(handshake); /* only members send pulses */
  } else if (handshake->hello.uid == 0) {
    welcome_stranger(handshake, here);
  } else if (handshake->net->uid == 0) {
    dmi_handshake_drop(handshake); /* it has learnt our uid before we have; it tries again */
  } else if (handshake->hello.uid == net->uid) {
    snprintf(why, sizeof why, "%s and %s both say they are member %u", here, there, net->uid);
    refuse(handshake, why);
  } else {
    welcome_member(handshake, there);
  }
}

bool dmi_handshake_deferred(struct dmi_handshake *handshake, bool ours_won) {
  struct dmi_net_peer *peer = handshake->holder;
  if (!ours_won) return welcome(handshake, peer) != NULL;
  dmi_handshake_drop(handshake);
  return false;
}

/* ---- What comes before it ---------------------------------------------------------------------
 */

static void close_as(struct dmi_handshake *handshake, const char *what) {
  char here[80], there[80];
  if (dmi_net_may_log(handshake->net, DMI_ABOUT_STRANGERS)) {
    ends_text(handshake, here, there);
    dmi_net_say(handshake->net, DMI_ABOUT_STRANGERS, "closed a connection from %s: %s", there,
                what);
  }
  dmi_handshake_drop(handshake);
}

static void garbage(struct dmi_handshake *handshake) {
  close_as(handshake, "it does not speak DMI");
}

static void refuse_key(struct dmi_handshake *handshake) {
  char here[80], there[80], why[DMI_REFUSE_TEXT], told[DMI_REFUSE_TEXT];
  if (!dmi_accept_may_refuse(handshake->net)) {
    close_as(handshake, "it has another key");
    return;
  }
  ends_text(handshake, here, there);
  snprintf(why, sizeof why, "the process at %s has another key than this one (see dmirun --key)",
           there);
  snprintf(told, sizeof told,
           "the process at %s has another key than this one: " DMI_NET_KEY_ADVICE, here);
  refuse_as(handshake, why, told);
}

/* CALL has arrived. */
static void called(struct dmi_handshake *handshake) {
  struct dmi_net *net = handshake->net;
  unsigned char answer[DMI_ANSWER_BYTES];
  if (!dmi_proof_called(&handshake->proof, net->config.key, handshake->buf)) {
    refuse_key(handshake);
    return;
  }
  if (dmi_accept_repeats(net, handshake->buf)) {
    close_as(handshake, "it repeats the beginning of another connection");
    return;
  }
  handshake->encrypt = net->encrypt;
  dmi_proof_answer(&handshake->proof, net->config.key, dmi_handshake_flags(net), answer);
  handshake->state = DMI_HANDSHAKE_PROOF;
  handshake->got = 0;
  dmi_accept_called(handshake);
  if (dmi_link_send(handshake->link, answer, sizeof answer) != (ssize_t)sizeof answer) {
    dmi_handshake_drop(handshake);
  }
}

/* Checks the bytes of CALL that have arrived so far. */
static void take_call(struct dmi_handshake *handshake) {
  if (dmi_hello_size(handshake->buf, handshake->got) == 0) {
    garbage(handshake);
    return;
  }
  if (handshake->got < DMI_HELLO_FIRST) return;
  dmi_hello_peek(&handshake->hello, handshake->buf);
  if (handshake->hello.kind != DMI_HELLO_CALL) {
    garbage(handshake);
  } else if (handshake->hello.version != DMI_WIRE_VERSION) {
    if (dmi_accept_may_refuse(handshake->net))
      complete(handshake); /* refuses with a sentence about versions */
    else
      close_as(handshake, "it speaks another wire version");
  } else if (handshake->got == DMI_CALL_BYTES) {
    called(handshake);
  }
}

/* PROOF and the sealed HELLO have arrived. */
static void proved(struct dmi_handshake *handshake) {
  unsigned char hello[DMI_HELLO_BYTES];
  const unsigned char *sealed = handshake->buf + DMI_PROOF_BYTES;
  if (!dmi_proof_check(&handshake->proof, handshake->net->config.key, handshake->buf,
                       &handshake->keys)) {
    close_as(handshake, "it repeats the beginning of another connection and does not have the key");
  } else if (dmi_seal_size(sealed) != DMI_HELLO_BYTES ||
             !dmi_seal_get_first(handshake->keys.in, hello, sealed) ||
             !dmi_hello_get(&handshake->hello, hello) || handshake->hello.kind != DMI_HELLO_HELLO) {
    garbage(handshake);
  } else {
    handshake->proved = true;
    dmi_accept_proved(handshake->net);
    complete(handshake);
  }
}

/* How many bytes this state waits for. */
static size_t wanted(const struct dmi_handshake *handshake) {
  return handshake->state == DMI_HANDSHAKE_CALL ? DMI_CALL_BYTES : sizeof handshake->buf;
}

void dmi_handshake_look(struct dmi_handshake *handshake) {
  unsigned char waste[256];
  bool waiting = handshake->state >= DMI_HANDSHAKE_DEFERRED;
  ssize_t got = waiting ? dmi_link_receive(handshake->link, waste, sizeof waste)
                        : dmi_link_receive(handshake->link, handshake->buf + handshake->got,
                                           wanted(handshake) - handshake->got);
  if (dmi_link_is_later(got)) return;
  /* deferred: nothing may arrive before our answer */
  if (got <= 0 || handshake->state == DMI_HANDSHAKE_DEFERRED) {
    dmi_handshake_drop(handshake);
    return;
  }
  if (handshake->state == DMI_HANDSHAKE_REFUSED) return;
  handshake->got = (uint16_t)(handshake->got + got);
  if (handshake->state == DMI_HANDSHAKE_CALL)
    take_call(handshake);
  else if (handshake->got == sizeof handshake->buf)
    proved(handshake);
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events) {
  (void)loop, (void)events;
  dmi_handshake_look(io->data);
}

static void on_patience(struct ev_loop *loop, struct ev_timer *timer, int events) {
  (void)loop, (void)events;
  dmi_handshake_drop(timer->data);
}

/* Watches its link and its time limit in the loop of its net. */
static void watch(struct dmi_handshake *handshake) {
  struct dmi_net *net = handshake->net;
  ev_io_init(&handshake->io, on_readable, handshake->link->in, EV_READ);
  /* ahead of the timer: bytes that have arrived count, even if the time is over */
  ev_set_priority(&handshake->io, 1);
  ev_timer_init(&handshake->patience, on_patience, net->config.patience, 0);
  handshake->io.data = handshake->patience.data = handshake;
  /* Not in a second loop: see beside.c.  All has been said, so only its end could come: then the
   * connection, or the refusal, finds that out. */
  if (net->first == NULL) ev_io_start(net->loop, &handshake->io);
  ev_timer_start(net->loop, &handshake->patience);
}

struct dmi_handshake *dmi_handshake_new(struct dmi_net *net, struct dmi_link *link,
                                        const struct dmi_addr *from) {
  struct dmi_handshake *handshake = calloc(1, sizeof *handshake);
  if (handshake == NULL) return NULL;
  handshake->net = net;
  handshake->link = link;
  handshake->from = *from;
  watch(handshake);
  return handshake;
}

void dmi_handshake_go_on(struct dmi_handshake *handshake, struct dmi_net *net) {
  handshake->net = net;
  dmi_accept_list(handshake);
  watch(handshake);
  complete(handshake);
}
