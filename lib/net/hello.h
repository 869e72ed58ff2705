/*
 * hello.h - the first bytes of a connection in both directions: who this process is, or why it
 * refuses.
 *
 * CALL and ANSWER come first (proof.h), in the clear; then HELLO and HELLO_OK, sealed. HELLO and
 * HELLO_OK have DMI_HELLO_BYTES, REFUSE has DMI_REFUSE_BYTES. The first 8 bytes (magic, kind, wire
 * version) and the layout of REFUSE must never change, so that processes of different versions can
 * tell each other why they refuse.
 *
 * Pure: no sockets, no allocation.
 */
#ifndef DMI_NET_HELLO_H
#define DMI_NET_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/types.h"

#define DMI_HELLO_BYTES 128
#define DMI_HELLO_FIRST 8 /* bytes: magic, kind, version */
#define DMI_REFUSE_BYTES 512
#define DMI_REFUSE_TEXT (DMI_REFUSE_BYTES - DMI_HELLO_FIRST)
#define DMI_HELLO_NAME 64

enum dmi_hello_kind {
  DMI_HELLO_CALL = 1,   /* sent by the process that connects: see proof.h */
  DMI_HELLO_ANSWER = 2, /* the other's answer: see proof.h */
  DMI_HELLO_REFUSE = 3, /* says why, then the connection ends; instead of ANSWER or HELLO_OK */
  DMI_HELLO_HELLO = 4,  /* sent by the process that connects */
  DMI_HELLO_OK = 5      /* the other's answer; both may send messages from here on */
};

struct dmi_hello {
  uint8_t kind;              /* enum dmi_hello_kind */
  uint16_t version;          /* of the wire */
  uint8_t build[16];         /* hash of the executable; zero: it runs no program, but votes */
  uint8_t program[16];       /* program id; zero: it belongs to no program yet */
  dmi_uid_t uid;             /* 0: not a member yet */
  uint16_t port;             /* where it listens */
  bool narrow;               /* it listens at one of the addresses of its machine only */
  bool beside;               /* for the second networks of both processes: dmi_net_open_beside */
  bool shm;                  /* HELLO: it offers a link in shared memory; HELLO_OK: it is taken */
  char name[DMI_HELLO_NAME]; /* of the program, ends with 0 */
};

/* Writes the first 8 bytes of any kind. */
void dmi_hello_put_first(unsigned char out[DMI_HELLO_FIRST], uint8_t kind, uint16_t version);

void dmi_hello_put(unsigned char out[DMI_HELLO_BYTES], const struct dmi_hello *hello);

/* The size of the whole that begins with these `have` bytes (DMI_HELLO_FIRST while the kind is
 * not known yet). 0: this is not DMI. */
size_t dmi_hello_size(const unsigned char *in, size_t have);

/* Reads a HELLO or HELLO_OK. If the wire version differs, it reads only kind and version. False:
 * invalid bytes. */
bool dmi_hello_get(struct dmi_hello *hello, const unsigned char in[DMI_HELLO_BYTES]);

/* Reads kind and version from the first DMI_HELLO_FIRST bytes. */
void dmi_hello_peek(struct dmi_hello *hello, const unsigned char in[DMI_HELLO_FIRST]);

/* True if a process whose HELLO is `mine` and one whose HELLO is `theirs` may belong to the same
 * program. If false, `why` has a sentence for the user of the process with `mine`, which it
 * calls "this process"; the other one is named by `there` ("10.0.0.2 port 7880"). For a sentence
 * for the other user swap the two. */
bool dmi_hello_match(const struct dmi_hello *mine, const struct dmi_hello *theirs,
                     const char *there, char why[DMI_REFUSE_TEXT]);

void dmi_refuse_put(unsigned char out[DMI_REFUSE_BYTES], const char *why);
/* Reads the sentence; other than printable characters are replaced. */
void dmi_refuse_get(char why[DMI_REFUSE_TEXT], const unsigned char in[DMI_REFUSE_BYTES]);

#endif
