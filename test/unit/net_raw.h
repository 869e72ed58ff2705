/*
 * net_raw.h - for tests and fuzzers: a plain socket as the other end of a dmi_net, which does the
 * handshake step by step.
 *
 * The state of a connection is found by its descriptor.  Waits have a hard limit.
 */
#ifndef NET_RAW_H
#define NET_RAW_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/hello.h"
#include "net/proof.h"
#include "net/seal.h"
#include "msg/wire.h"
#include "net_node.h"

#define RAW_MOST 1024 /* descriptors */
#define RAW_HELLO (DMI_HELLO_BYTES + DMI_SEAL_OVER)
#define RAW_SAID (DMI_PROOF_BYTES + RAW_HELLO)

struct raw {
  struct dmi_proof proof;
  struct dmi_proof_keys keys;
};

static struct raw raws[RAW_MOST];

/* Connects to a local port.  -1: refused. */
static inline int raw_connect_to(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0 && fd < RAW_MOST && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/* Reads until the other end closes, or `size` bytes. */
static inline size_t raw_read(int fd, void *buf, size_t size) {
  size_t have = 0;
  while (have < size) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (poll(&poll_fd, 1, node_limit() * 1000) != 1) break;
    ssize_t got = recv(fd, (char *)buf + have, size - have, 0);
    if (got <= 0) break;
    have += (size_t)got;
  }
  return have;
}

/* Waits until the other end closes.  False: it says something, or does not close within the limit.
 */
static inline bool raw_closed(int fd) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  char byte;
  if (poll(&poll_fd, 1, node_limit() * 1000) != 1) return false;
  return recv(fd, &byte, 1, 0) <= 0;
}

/* -1: nobody connects. */
static inline int raw_accept(int listener) {
  struct pollfd in = {.fd = listener, .events = POLLIN};
  return poll(&in, 1, node_limit() * 1000) == 1 ? accept(listener, NULL, NULL) : -1;
}

static inline bool raw_send(int fd, const void *bytes, size_t size) {
  return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static inline struct dmi_hello raw_hello(uint32_t uid) {
  struct dmi_hello hello = {.kind = DMI_HELLO_HELLO, .version = DMI_WIRE_VERSION, .uid = uid};
  memcpy(hello.build, node_build, 16);
  memcpy(hello.program, node_program, 16);
  snprintf(hello.name, sizeof hello.name, "prog");
  return hello;
}

/* Sends CALL with these flags and receives ANSWER; `said` gets the bytes to send next, with this
 * HELLO. */
static inline bool raw_call_with(int fd, uint8_t flags, const struct dmi_hello *hello,
                                 unsigned char said[RAW_SAID]) {
  struct raw *raw = &raws[fd];
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES], bytes[DMI_HELLO_BYTES];
  dmi_proof_call(&raw->proof, node_key, flags, call);
  if (!raw_send(fd, call, sizeof call) || raw_read(fd, answer, sizeof answer) != sizeof answer ||
      !dmi_proof_answered(&raw->proof, node_key, answer) ||
      !dmi_proof_make(&raw->proof, node_key, said, &raw->keys)) {
    return false;
  }
  dmi_hello_put(bytes, hello);
  dmi_seal_put_first(raw->keys.out, said + DMI_PROOF_BYTES, bytes, sizeof bytes);
  return true;
}

static inline bool raw_call(int fd, const struct dmi_hello *hello, unsigned char said[RAW_SAID]) {
  return raw_call_with(fd, 0, hello, said);
}

/* Sends everything that comes before the other's HELLO_OK. */
static inline bool raw_say(int fd, const struct dmi_hello *hello) {
  unsigned char said[RAW_SAID];
  return raw_call(fd, hello, said) && raw_send(fd, said, sizeof said);
}

/* The kind of the other's answer to HELLO; 0: a wrong one.  raw_why has the text of a refusal. */
static char raw_why[DMI_REFUSE_TEXT];

static inline uint8_t raw_answer(int fd) {
  unsigned char sealed[DMI_REFUSE_BYTES + DMI_SEAL_OVER], bytes[DMI_REFUSE_BYTES];
  struct dmi_hello hello;
  raw_why[0] = '\0';
  if (raw_read(fd, sealed, DMI_SEAL_LENGTH) != DMI_SEAL_LENGTH) return 0;
  size_t size = dmi_seal_size(sealed);
  if (size != DMI_HELLO_BYTES && size != DMI_REFUSE_BYTES) return 0;
  if (raw_read(fd, sealed + DMI_SEAL_LENGTH, size + DMI_SEAL_TAG) != size + DMI_SEAL_TAG ||
      !dmi_seal_get_first(raws[fd].keys.in, bytes, sealed)) {
    return 0;
  }
  if (dmi_hello_size(bytes, DMI_HELLO_FIRST) != size) return 0;
  if (size == DMI_REFUSE_BYTES) dmi_refuse_get(raw_why, bytes);
  dmi_hello_peek(&hello, bytes);
  return hello.kind;
}

/* The text of a sealed REFUSE; "" if it was something else. */
static inline const char *raw_refusal(int fd) {
  return raw_answer(fd) == DMI_HELLO_REFUSE ? raw_why : "";
}

/* The text of a REFUSE that is not sealed, before PROOF. */
static inline const char *raw_plain_refusal(int fd) {
  unsigned char bytes[DMI_REFUSE_BYTES + 1];
  raw_why[0] = '\0';
  if (raw_read(fd, bytes, sizeof bytes) == DMI_REFUSE_BYTES &&
      dmi_hello_size(bytes, DMI_HELLO_FIRST) == DMI_REFUSE_BYTES) {
    dmi_refuse_get(raw_why, bytes);
  }
  return raw_why;
}

/* The other side: receives CALL and answers it; then receives PROOF and HELLO. */
static inline bool raw_welcome(int fd, uint8_t flags, struct dmi_hello *hello) {
  struct raw *raw = &raws[fd];
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES], said[RAW_SAID];
  unsigned char bytes[DMI_HELLO_BYTES];
  if (raw_read(fd, call, sizeof call) != sizeof call ||
      !dmi_proof_called(&raw->proof, node_key, call)) {
    return false;
  }
  dmi_proof_answer(&raw->proof, node_key, flags, answer);
  return raw_send(fd, answer, sizeof answer) && raw_read(fd, said, sizeof said) == sizeof said &&
         dmi_proof_check(&raw->proof, node_key, said, &raw->keys) &&
         dmi_seal_get_first(raw->keys.in, bytes, said + DMI_PROOF_BYTES) &&
         dmi_hello_get(hello, bytes);
}

#endif
