/*
 * proof.h - both ends of a connection prove that they know the program's key, and get fresh keys.
 *
 * CALL, ANSWER and PROOF are the first bytes of every connection (docs/wire.md).  Each carries a
 * keyed hash of all that was said before it, with a label that names the message and so the role of
 * who says it: what one end has said proves nothing when it is sent back to it, nor on another
 * connection.  The keys that come out depend on the program's key and on two Diffie-Hellman keys
 * that exist for this connection only.
 *
 * Pure: no sockets, no allocation.  Random numbers come from libsodium.
 */
#ifndef DMI_NET_PROOF_H
#define DMI_NET_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/hello.h"

#define DMI_KEY_BYTES 32
#define DMI_CALL_BYTES 80
#define DMI_ANSWER_BYTES 80
#define DMI_PROOF_BYTES 32

/* In CALL and ANSWER: this end's program seals everything. */
#define DMI_CALL_ENCRYPT 1u

/* One end's side of it, until the connection stands. */
struct dmi_proof {
  unsigned char secret[32]; /* ours, of this connection; zero when it is not needed any more */
  unsigned char said[DMI_CALL_BYTES + DMI_ANSWER_BYTES]; /* CALL, then ANSWER */
};

/* The keys of a connection. */
struct dmi_proof_keys {
  unsigned char out[32]; /* for what this end sends */
  unsigned char in[32];
};

/* The end that connects: CALL, to be sent. */
void dmi_proof_call(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                    unsigned char out[DMI_CALL_BYTES]);
/* Its ANSWER has come.  False: the other does not have the key, or did not answer this CALL. */
bool dmi_proof_answered(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                        const unsigned char in[DMI_ANSWER_BYTES]);
/* PROOF, and the keys.  False: no correct process has answered with such bytes. */
bool dmi_proof_make(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                    unsigned char out[DMI_PROOF_BYTES], struct dmi_proof_keys *keys);

/* The other end: false when a CALL was not made with this key.  Costs one hash. */
bool dmi_proof_called(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                      const unsigned char in[DMI_CALL_BYTES]);
/* ANSWER, to be sent.  Anybody can repeat a CALL that was heard, so nothing else may be done for it
 * yet. */
void dmi_proof_answer(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                      unsigned char out[DMI_ANSWER_BYTES]);
/* PROOF has come: false when it is not the right one; else the keys. */
bool dmi_proof_check(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                     const unsigned char in[DMI_PROOF_BYTES], struct dmi_proof_keys *keys);

/* What the other end has said in its CALL or ANSWER. */
uint8_t dmi_proof_flags(const unsigned char *call_or_answer);

#endif
