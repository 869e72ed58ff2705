/*
 * proof.h - both ends of a connection prove that they know the program's key, and get fresh keys.
 *
 * CALL, ANSWER and PROOF are the first bytes of every connection (docs/wire.md). Each has a keyed
 * hash of all bytes before it, with a label that names the message and so the role of the sender.
 * So bytes of one end prove nothing when they are sent back to it, or on another connection. The
 * resulting keys depend on the program's key and on two Diffie-Hellman keys that are made for this
 * connection only.
 *
 * Pure: no sockets, no allocation.  Random numbers come from libsodium.
 */
#ifndef DMI_NET_PROOF_H
#define DMI_NET_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/hello.h"
#include "net/seal.h"

#define DMI_KEY_BYTES 32
#define DMI_CALL_BYTES 80
#define DMI_ANSWER_BYTES 80
#define DMI_PROOF_BYTES 32

/* A flag in CALL and ANSWER: this end's program seals everything. */
#define DMI_CALL_ENCRYPT 1u
/* This end can seal by AES-256-OCB, by instructions of its processor. */
#define DMI_CALL_OCB 2u

/* The state of one end until the connection is established. */
struct dmi_proof {
  unsigned char secret[32]; /* our secret key for this connection; wiped after its use */
  unsigned char said[DMI_CALL_BYTES + DMI_ANSWER_BYTES]; /* CALL, then ANSWER */
};

/* The keys of a connection. */
struct dmi_proof_keys {
  unsigned char out[32]; /* for bytes that this end sends */
  unsigned char in[32];
  enum dmi_cipher cipher; /* of what follows the handshake, if that is sealed */
};

/* The end that connects: makes the CALL to send. */
void dmi_proof_call(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                    unsigned char out[DMI_CALL_BYTES]);
/* Checks ANSWER. False: the other does not have the key, or did not answer this CALL. */
bool dmi_proof_answered(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                        const unsigned char in[DMI_ANSWER_BYTES]);
/* Makes PROOF and the keys. False: the ANSWER has an invalid public key. */
bool dmi_proof_make(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                    unsigned char out[DMI_PROOF_BYTES], struct dmi_proof_keys *keys);

/* The other end: checks CALL. False: it was not made with this key. Costs one hash. */
bool dmi_proof_called(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                      const unsigned char in[DMI_CALL_BYTES]);
/* Makes the ANSWER to send. Anybody can repeat a CALL that was seen on the network, so the
 * connection must have no other effect yet. */
void dmi_proof_answer(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                      unsigned char out[DMI_ANSWER_BYTES]);
/* Checks PROOF and makes the keys. False: it is wrong. */
bool dmi_proof_check(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                     const unsigned char in[DMI_PROOF_BYTES], struct dmi_proof_keys *keys);

/* The flags in the other end's CALL or ANSWER. */
uint8_t dmi_proof_flags(const unsigned char *call_or_answer);

#endif
