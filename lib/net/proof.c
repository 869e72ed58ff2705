/*
 * proof.c - CALL, ANSWER, PROOF, and the keys that follow from them.
 *
 *   CALL    first 8 bytes, public key C, flags, hash(key, "DMI call",   the bytes before)
 *   ANSWER  first 8 bytes, public key S, flags, hash(key, "DMI answer", CALL, the bytes before)
 *   PROOF   hash(key, "DMI proof", CALL, ANSWER)
 *   keys    hash(key, "DMI keys",  CALL, ANSWER, X25519 of C and S)
 *
 * The hash is keyed BLAKE2b. All labels have the same length, and what follows a given label always
 * has the same length, so two different inputs never give the same bytes. The public keys are
 * random, so no two connections have the same hashes or keys.
 *
 * Must compare secret bytes in constant time only, and wipe a secret key after its use.
 */
#include "net/proof.h"

#include <sodium.h>
#include <string.h>

#include "msg/wire.h"

enum { AT_PUBLIC = 8, AT_FLAGS = 40, AT_ZERO = 41, AT_HASH = 48, HASH = 32, LABEL = 16 };

_Static_assert(DMI_CALL_BYTES == AT_HASH + HASH, "CALL");
_Static_assert(DMI_ANSWER_BYTES == DMI_CALL_BYTES, "CALL and ANSWER have one layout");
_Static_assert(crypto_scalarmult_BYTES == 32 && crypto_generichash_KEYBYTES == DMI_KEY_BYTES,
               "libsodium");

/* hash(key, label, bytes, more) */
static void hash(unsigned char *out, size_t out_size, const uint8_t *key, const char *label,
                 const unsigned char *bytes, size_t size, const unsigned char *more,
                 size_t more_size) {
  crypto_generichash_state state;
  unsigned char name[LABEL] = {0};
  memcpy(name, label, strlen(label));
  crypto_generichash_init(&state, key, DMI_KEY_BYTES, out_size);
  crypto_generichash_update(&state, name, sizeof name);
  crypto_generichash_update(&state, bytes, size);
  crypto_generichash_update(&state, more, more_size);
  crypto_generichash_final(&state, out, out_size);
  sodium_memzero(&state, sizeof state);
}

/* Writes CALL (`at` is 0) or, after it, ANSWER into `said`. */
static void put(struct dmi_proof *proof, size_t at, uint8_t kind, const uint8_t *key,
                const char *label, uint8_t flags) {
  unsigned char *out = proof->said + at;
  memset(out, 0, DMI_CALL_BYTES);
  dmi_hello_put_first(out, kind, DMI_WIRE_VERSION);
  randombytes_buf(proof->secret, sizeof proof->secret);
  crypto_scalarmult_base(out + AT_PUBLIC, proof->secret);
  out[AT_FLAGS] = flags;
  hash(out + AT_HASH, HASH, key, label, proof->said, at + AT_HASH, NULL, 0);
}

/* Checks and stores CALL or ANSWER of the other end. False if it was not made with this key. */
static bool take(struct dmi_proof *proof, size_t at, uint8_t kind, const uint8_t *key,
                 const char *label, const unsigned char *in) {
  static const unsigned char none[AT_HASH - AT_ZERO];
  unsigned char right[HASH], first[DMI_HELLO_FIRST];
  memcpy(proof->said + at, in, DMI_CALL_BYTES);
  hash(right, sizeof right, key, label, proof->said, at + AT_HASH, NULL, 0);
  dmi_hello_put_first(first, kind, DMI_WIRE_VERSION);
  return sodium_memcmp(right, in + AT_HASH, HASH) == 0 && memcmp(first, in, sizeof first) == 0 &&
         memcmp(in + AT_ZERO, none, sizeof none) == 0;
}

static void prove(const struct dmi_proof *proof, const uint8_t *key, unsigned char *out) {
  hash(out, DMI_PROOF_BYTES, key, "DMI proof", proof->said, sizeof proof->said, NULL, 0);
}

/* AES-256-OCB if both can. The flags are in the hashes, so nobody else can change them. */
static enum dmi_cipher chosen(const struct dmi_proof *proof) {
  const uint8_t both =
      proof->said[AT_FLAGS] & proof->said[DMI_CALL_BYTES + AT_FLAGS] & DMI_CALL_OCB;
  return both != 0 ? DMI_CIPHER_OCB : DMI_CIPHER_CHACHA;
}

/* `theirs`: the other's public key; `mine_first`: we have sent CALL. */
static bool make_keys(struct dmi_proof *proof, const uint8_t *key, const unsigned char *theirs,
                      bool mine_first, struct dmi_proof_keys *keys) {
  unsigned char shared[crypto_scalarmult_BYTES], both[64];
  bool good = crypto_scalarmult(shared, proof->secret, theirs) == 0;
  sodium_memzero(proof->secret, sizeof proof->secret);
  if (good) {
    hash(both, sizeof both, key, "DMI keys", proof->said, sizeof proof->said, shared,
         sizeof shared);
    memcpy(keys->out, both + (mine_first ? 0 : 32), 32);
    memcpy(keys->in, both + (mine_first ? 32 : 0), 32);
    keys->cipher = chosen(proof);
  }
  sodium_memzero(shared, sizeof shared);
  sodium_memzero(both, sizeof both);
  return good;
}

void dmi_proof_call(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                    unsigned char out[DMI_CALL_BYTES]) {
  put(proof, 0, DMI_HELLO_CALL, key, "DMI call", flags);
  memcpy(out, proof->said, DMI_CALL_BYTES);
}

bool dmi_proof_answered(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                        const unsigned char in[DMI_ANSWER_BYTES]) {
  return take(proof, DMI_CALL_BYTES, DMI_HELLO_ANSWER, key, "DMI answer", in);
}

bool dmi_proof_make(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                    unsigned char out[DMI_PROOF_BYTES], struct dmi_proof_keys *keys) {
  prove(proof, key, out);
  return make_keys(proof, key, proof->said + DMI_CALL_BYTES + AT_PUBLIC, true, keys);
}

bool dmi_proof_called(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                      const unsigned char in[DMI_CALL_BYTES]) {
  return take(proof, 0, DMI_HELLO_CALL, key, "DMI call", in);
}

void dmi_proof_answer(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES], uint8_t flags,
                      unsigned char out[DMI_ANSWER_BYTES]) {
  put(proof, DMI_CALL_BYTES, DMI_HELLO_ANSWER, key, "DMI answer", flags);
  memcpy(out, proof->said + DMI_CALL_BYTES, DMI_ANSWER_BYTES);
}

bool dmi_proof_check(struct dmi_proof *proof, const uint8_t key[DMI_KEY_BYTES],
                     const unsigned char in[DMI_PROOF_BYTES], struct dmi_proof_keys *keys) {
  unsigned char right[DMI_PROOF_BYTES];
  prove(proof, key, right);
  if (sodium_memcmp(right, in, sizeof right) != 0) return false;
  return make_keys(proof, key, proof->said + AT_PUBLIC, false, keys);
}

uint8_t dmi_proof_flags(const unsigned char *call_or_answer) {
  return call_or_answer[AT_FLAGS];
}
