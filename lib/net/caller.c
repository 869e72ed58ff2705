/*
 * caller.c - the connecting side of the handshake: we send CALL, the other ANSWER, we PROOF and
 * HELLO, the other HELLO_OK. States: docs/wire.md.
 *
 * Each function returns the state of the attempt. dial.c decides what follows, so no function here
 * ends an attempt. dial->why has the reason for the user.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>

#include "net/net_int.h"

static enum dmi_dial_outcome not_dmi(struct dmi_dial *dial) {
  snprintf(dial->why, sizeof dial->why, "what answers at %s port %u does not speak DMI: %s",
           dial->host, dial->port,
           dial->join ? dial->net->config.join_advice
                      : "has it ended, and something else taken its port?");
  return DMI_CALLER_FAILED;
}

/* REFUSE has arrived. If it is not sealed, anybody may have sent it. */
static enum dmi_dial_outcome refused(struct dmi_dial *dial,
                                     const unsigned char refuse[DMI_REFUSE_BYTES]) {
  char text[DMI_REFUSE_TEXT];
  dmi_refuse_get(text, refuse);
  for (char *c = text; *c != '\0'; c++)
    if (*c == '"') *c = '\'';
  snprintf(dial->why, sizeof dial->why, "%.60s port %u refuses: \"%s\"", dial->host, dial->port,
           text);
  return DMI_CALLER_REFUSED;
}

/* HELLO_OK or REFUSE has arrived, sealed. */
static enum dmi_dial_outcome judge(struct dmi_dial *dial) {
  struct dmi_hello hello, mine = dmi_net_hello(dial->net, DMI_HELLO_HELLO);
  unsigned char bytes[DMI_REFUSE_BYTES];
  char there[80];
  size_t size = dmi_seal_size(dial->buf);
  if (!dmi_seal_get_first(dial->keys.in, bytes, dial->buf) ||
      dmi_hello_size(bytes, DMI_HELLO_FIRST) != size) {
    return not_dmi(dial);
  }
  if (size == DMI_REFUSE_BYTES) return refused(dial, bytes);
  if (!dmi_hello_get(&hello, bytes) || hello.kind != DMI_HELLO_OK || hello.beside != mine.beside) {
    return not_dmi(dial);
  }
  snprintf(there, sizeof there, "%.60s port %u", dial->host, dial->port);
  if (!dmi_hello_match(&mine, &hello, there, dial->why) ||
      (dial->join && hello.narrow && !dmi_accept_narrow(dial->net, dial->link, dial->why))) {
    return DMI_CALLER_REFUSED;
  }
  if (!dial->join && hello.uid != dial->peer->id) {
    snprintf(dial->why, sizeof dial->why, "at %s is member %u instead of member %u", there,
             hello.uid, dial->peer->id);
    return DMI_CALLER_REFUSED;
  }
  dial->their_port = hello.port;
  if (!hello.shm) return DMI_CALLER_DONE;
  int common = -1;
  if (dial->offer.listener >= 0)
    dial->shm = dmi_shm_open(&dial->offer, dial->link, &dial->keys, &common);
  dmi_common_take(&dial->net->common, common);
  if (dial->shm != NULL) return DMI_CALLER_DONE;
  dial->error = EPROTO;
  return DMI_CALLER_CLOSED;
}

static enum dmi_dial_outcome say(struct dmi_dial *dial, const void *bytes, size_t size,
                                 enum dmi_dial_state then) {
  ssize_t sent = dmi_link_send(dial->link, bytes, size);
  if (sent == (ssize_t)size) {
    dial->state = then;
    return DMI_CALLER_MORE;
  }
  /* a new link is never full, so a short write is an error */
  dial->error = sent < 0 ? (int)-sent : EAGAIN;
  return DMI_CALLER_BROKEN;
}

/* ANSWER has arrived: sends PROOF and HELLO. */
static enum dmi_dial_outcome answered(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  struct dmi_hello mine = dmi_net_hello(net, DMI_HELLO_HELLO);
  unsigned char hello[DMI_HELLO_BYTES], out[DMI_HANDSHAKE_BYTES];
  if (!dmi_proof_answered(&dial->proof, net->config.key, dial->buf) ||
      !dmi_proof_make(&dial->proof, net->config.key, out, &dial->keys)) {
    snprintf(
        dial->why, sizeof dial->why,
        "what answers at %s port %u does not have the key of this process: " DMI_NET_KEY_ADVICE,
        dial->host, dial->port);
    return DMI_CALLER_FAILED;
  }
  mine.shm =
      net->config.shm && net->first == NULL && dmi_shm_offer(&dial->offer, dial->link, &dial->keys);
  dial->encrypt = (dmi_proof_flags(dial->buf) & DMI_CALL_ENCRYPT) != 0;
  if (net->encrypt && !dial->encrypt) {
    snprintf(dial->why, sizeof dial->why,
             "the process at %s port %u runs without encryption, and this one was started with it: "
             "start the first process of the program with dmirun --encrypt, or this one without",
             dial->host, dial->port);
    return DMI_CALLER_REFUSED;
  }
  dmi_hello_put(hello, &mine);
  dmi_seal_put_first(dial->keys.out, out + DMI_PROOF_BYTES, hello, sizeof hello);
  dial->got = 0;
  return say(dial, out, sizeof out, DMI_DIAL_SAID);
}

/* How many bytes must arrive before the next decision; 0: the bytes so far are invalid. */
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

/* All bytes that wanted() asked for have arrived. */
static enum dmi_dial_outcome take(struct dmi_dial *dial) {
  struct dmi_hello mine, first;
  char there[80];
  if (dial->state == DMI_DIAL_SAID) return judge(dial);
  dmi_hello_peek(&first, dial->buf);
  if (first.kind == DMI_HELLO_REFUSE) return refused(dial, dial->buf);
  if (first.version == DMI_WIRE_VERSION) return answered(dial);
  mine = dmi_net_hello(dial->net, DMI_HELLO_HELLO);
  snprintf(there, sizeof there, "%.60s port %u", dial->host, dial->port);
  (void)dmi_hello_match(&mine, &first, there, dial->why);
  return DMI_CALLER_REFUSED;
}

enum dmi_dial_outcome dmi_caller_begin(struct dmi_dial *dial) {
  struct dmi_net *net = dial->net;
  unsigned char bytes[DMI_CALL_BYTES];
  dmi_proof_call(&dial->proof, net->config.key, dmi_handshake_flags(net), bytes);
  return say(dial, bytes, sizeof bytes, DMI_DIAL_CALLED);
}

enum dmi_dial_outcome dmi_caller_receive(struct dmi_dial *dial) {
  size_t want = wanted(dial);
  ssize_t got = dmi_link_receive(dial->link, dial->buf + dial->got, want - dial->got);
  if (dmi_link_is_later(got)) return DMI_CALLER_MORE;
  if (got <= 0) {
    dial->error = (int)-got;
    return DMI_CALLER_CLOSED;
  }
  dial->got = (uint16_t)(dial->got + got);
  want = wanted(dial);
  if (want == 0) return not_dmi(dial);
  return dial->got >= want ? take(dial) : DMI_CALLER_MORE;
}
