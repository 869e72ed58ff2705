/*
 * seal.c - records of ChaCha20-Poly1305 or AES-256-GCM, by libcrypto or libsodium.
 *
 * libcrypto is two to three times as fast on processors with wide vectors; without it sealing does
 * not keep up with a network of 10 Gbit/s. It is loaded when the first seal is made, because
 * linking it would cost every process a millisecond at its start. If it is not installed, or fails,
 * libsodium is used.
 *
 * Each key of AES-256-GCM is a hash of the direction's key and of the number of its first record,
 * divided by DMI_SEAL_AES_RECORDS.
 *
 * Must not report success for bytes that are not authenticated; `out` may be written before that is
 * known.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/seal.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

/* ---- libcrypto, as OpenSSL 3 documents it -----------------------------------------------------
 */

#define GET_TAG 0x10 /* EVP_CTRL_AEAD_GET_TAG */
#define SET_TAG 0x11

struct evp {
  void *(*fetch)(void *library, const char *name, const char *properties);
  void *(*ctx_new)(void);
  void (*ctx_free)(void *ctx);
  int (*init)(void *ctx, const void *cipher, const unsigned char *key, const unsigned char *nonce,
              int encrypt, const void *params);
  int (*update)(void *ctx, unsigned char *out, int *out_size, const unsigned char *in, int size);
  int (*final)(void *ctx, unsigned char *out, int *out_size);
  int (*ctrl)(void *ctx, int what, int size, void *arg);
  void *ciphers[DMI_CIPHERS]; /* NULL: there is no libcrypto */
};

static struct evp evp;
static pthread_once_t evp_once = PTHREAD_ONCE_INIT;
static bool evp_off;

static void load(void) {
  static const struct dmi_symbol wanted[] = {
      {"EVP_CIPHER_fetch", offsetof(struct evp, fetch)},
      {"EVP_CIPHER_CTX_new", offsetof(struct evp, ctx_new)},
      {"EVP_CIPHER_CTX_free", offsetof(struct evp, ctx_free)},
      {"EVP_CipherInit_ex2", offsetof(struct evp, init)},
      {"EVP_CipherUpdate", offsetof(struct evp, update)},
      {"EVP_CipherFinal_ex", offsetof(struct evp, final)},
      {"EVP_CIPHER_CTX_ctrl", offsetof(struct evp, ctrl)},
  };
  if (dmi_library_load("libcrypto.so.3", &evp, wanted, sizeof wanted / sizeof *wanted)) {
    evp.ciphers[DMI_CIPHER_CHACHA] = evp.fetch(NULL, "ChaCha20-Poly1305", NULL);
    evp.ciphers[DMI_CIPHER_AES] = evp.fetch(NULL, "AES-256-GCM", NULL);
  }
}

static bool has_evp(enum dmi_cipher cipher) {
  pthread_once(&evp_once, load);
  return evp.ciphers[cipher] != NULL && !evp_off;
}

const char *dmi_seal_by(void) {
  return has_evp(DMI_CIPHER_CHACHA) ? "libcrypto" : "libsodium";
}

static _Atomic bool aes_off;

bool dmi_seal_has_aes(void) {
  return crypto_aead_aes256gcm_is_available() != 0 && !atomic_load(&aes_off);
}

void dmi_seal_without_aes(bool without) {
  atomic_store(&aes_off, without);
}

void dmi_seal_plainly(bool plainly) {
  evp_off = plainly;
}

/* ---- The processor's vector registers ---------------------------------------------------------
 *
 * OpenSSL 3.0's ChaCha20-Poly1305 for AVX-512 returns with the upper halves of these registers in
 * use.  Every SSE instruction of the thread then waits for the one before it, and so it is in the
 * threads that this one makes: floating-point code runs at a tenth of its speed.
 */

#ifdef __x86_64__
__attribute__((target("avx"))) static void zero_upper(void) {
  _mm256_zeroupper();
}

/* Called after all calls of libcrypto, and of libsodium, which may use the same vector
 * instructions. */
static void vectors_done(void) {
  if (__builtin_cpu_supports("avx")) zero_upper();
}
#else
static void vectors_done(void) {
}
#endif

/* ---- A direction ------------------------------------------------------------------------------
 */

struct dmi_seal {
  crypto_aead_aes256gcm_state aes; /* of libsodium, for DMI_CIPHER_AES without ctx */
  enum dmi_cipher cipher;
  unsigned char key[DMI_SEAL_KEY]; /* of the direction */
  uint64_t records;                /* the number of the next record */
  uint64_t part;          /* with DMI_CIPHER_AES: its number divided by DMI_SEAL_AES_RECORDS */
  void *ctx;              /* of libcrypto, with the cipher's key; NULL: libsodium is used */
  unsigned char *scratch; /* only without ctx, because libsodium needs contiguous bytes */
};

/* For calls that cannot fail with correct arguments. */
static void must(bool good) {
  if (!good) abort();
}

/* The key of the cipher for the records of this part. */
static void make_key(const struct dmi_seal *seal, unsigned char out[DMI_SEAL_KEY]) {
  unsigned char input[24] = "DMI aes-256-gcm";
  memcpy(out, seal->key, DMI_SEAL_KEY);
  if (seal->cipher != DMI_CIPHER_AES) return;
  memcpy(input + 16, &seal->part, sizeof seal->part);
  must(crypto_generichash(out, DMI_SEAL_KEY, input, sizeof input, seal->key, DMI_SEAL_KEY) == 0);
}

/* A context of libcrypto. NULL: use libsodium. */
static void *new_ctx(enum dmi_cipher cipher, const unsigned char *key) {
  void *ctx = has_evp(cipher) ? evp.ctx_new() : NULL;
  if (ctx != NULL && evp.init(ctx, evp.ciphers[cipher], key, NULL, 1, NULL) != 1) {
    evp.ctx_free(ctx);
    ctx = NULL;
  }
  return ctx;
}

static void set_key(struct dmi_seal *seal, bool first) {
  unsigned char key[DMI_SEAL_KEY];
  make_key(seal, key);
  if (first) seal->ctx = new_ctx(seal->cipher, key);
  if (!first && seal->ctx != NULL) must(evp.init(seal->ctx, NULL, key, NULL, 1, NULL) == 1);
  if (seal->ctx == NULL && seal->cipher == DMI_CIPHER_AES)
    must(crypto_aead_aes256gcm_beforenm(&seal->aes, key) == 0);
  sodium_memzero(key, sizeof key);
  vectors_done();
}

struct dmi_seal *dmi_seal_new(const unsigned char key[DMI_SEAL_KEY], uint64_t records,
                              enum dmi_cipher cipher) {
  struct dmi_seal *seal = calloc(1, sizeof *seal);
  if (seal == NULL) return NULL;
  memcpy(seal->key, key, sizeof seal->key);
  seal->cipher = cipher;
  seal->records = records;
  seal->part = records / DMI_SEAL_AES_RECORDS;
  set_key(seal, true);
  if (seal->ctx != NULL) return seal;
  seal->scratch = malloc(DMI_SEAL_MOST);
  if (seal->scratch != NULL) return seal;
  dmi_seal_free(seal);
  return NULL;
}

void dmi_seal_free(struct dmi_seal *seal) {
  if (seal == NULL) return;
  if (seal->ctx != NULL) evp.ctx_free(seal->ctx); /* also wipes the key */
  vectors_done();
  if (seal->scratch != NULL) sodium_memzero(seal->scratch, DMI_SEAL_MOST);
  free(seal->scratch);
  sodium_memzero(seal, sizeof *seal);
  free(seal);
}

static void next_nonce(struct dmi_seal *seal, unsigned char nonce[12]) {
  if (seal->cipher == DMI_CIPHER_AES && seal->records / DMI_SEAL_AES_RECORDS != seal->part) {
    seal->part = seal->records / DMI_SEAL_AES_RECORDS;
    set_key(seal, false);
  }
  memset(nonce, 0, 4);
  memcpy(nonce + 4, &seal->records, 8);
  seal->records++;
}

static void put_length(unsigned char *out, size_t size) {
  uint32_t length = (uint32_t)size;
  memcpy(out, &length, sizeof length);
}

size_t dmi_seal_size(const unsigned char in[DMI_SEAL_LENGTH]) {
  uint32_t length;
  memcpy(&length, in, sizeof length);
  return length <= DMI_SEAL_MOST ? length : 0;
}

static void put_evp(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                    const struct iovec *iov, size_t num, size_t size) {
  unsigned char *at = out + DMI_SEAL_LENGTH;
  int done;
  must(evp.init(seal->ctx, NULL, NULL, nonce, 1, NULL) == 1);
  must(evp.update(seal->ctx, NULL, &done, out, DMI_SEAL_LENGTH) == 1);
  for (size_t i = 0; i < num && size != 0; i++) {
    size_t part = iov[i].iov_len < size ? iov[i].iov_len : size;
    must(evp.update(seal->ctx, at, &done, iov[i].iov_base, (int)part) == 1);
    at += part;
    size -= part;
  }
  must(evp.final(seal->ctx, at, &done) == 1);
  must(evp.ctrl(seal->ctx, GET_TAG, DMI_SEAL_TAG, at) == 1);
}

static void put_contiguous(const unsigned char *key, const unsigned char *nonce, unsigned char *out,
                           const unsigned char *bytes, size_t size) {
  put_length(out, size);
  crypto_aead_chacha20poly1305_ietf_encrypt(out + DMI_SEAL_LENGTH, NULL, bytes, size, out,
                                            DMI_SEAL_LENGTH, NULL, nonce, key);
}

static void put_sodium(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                       const struct iovec *iov, size_t num, size_t size) {
  size_t have = 0;
  for (size_t i = 0; i < num && have < size; i++) {
    size_t part = iov[i].iov_len < size - have ? iov[i].iov_len : size - have;
    memcpy(seal->scratch + have, iov[i].iov_base, part);
    have += part;
  }
  if (seal->cipher == DMI_CIPHER_CHACHA) {
    put_contiguous(seal->key, nonce, out, seal->scratch, size);
    return;
  }
  put_length(out, size);
  crypto_aead_aes256gcm_encrypt_afternm(out + DMI_SEAL_LENGTH, NULL, seal->scratch, size, out,
                                        DMI_SEAL_LENGTH, NULL, nonce, &seal->aes);
}

void dmi_seal_put(struct dmi_seal *seal, unsigned char *out, const struct iovec *iov, size_t num,
                  size_t size) {
  unsigned char nonce[12];
  next_nonce(seal, nonce);
  if (seal->ctx != NULL) {
    put_length(out, size);
    put_evp(seal, nonce, out, iov, num, size);
  } else {
    put_sodium(seal, nonce, out, iov, num, size);
  }
  vectors_done();
}

static bool get_evp(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                    const unsigned char *in, size_t size) {
  unsigned char tag[DMI_SEAL_TAG], end[16];
  int done;
  memcpy(tag, in + DMI_SEAL_LENGTH + size, sizeof tag);
  must(evp.init(seal->ctx, NULL, NULL, nonce, 0, NULL) == 1);
  must(evp.update(seal->ctx, NULL, &done, in, DMI_SEAL_LENGTH) == 1);
  must(evp.update(seal->ctx, out, &done, in + DMI_SEAL_LENGTH, (int)size) == 1);
  must(evp.ctrl(seal->ctx, SET_TAG, DMI_SEAL_TAG, tag) == 1);
  return evp.final(seal->ctx, end, &done) == 1;
}

static bool get_contiguous(const unsigned char *key, const unsigned char *nonce, unsigned char *out,
                           const unsigned char *in, size_t size) {
  return crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in + DMI_SEAL_LENGTH,
                                                   size + DMI_SEAL_TAG, in, DMI_SEAL_LENGTH, nonce,
                                                   key) == 0;
}

static bool get_sodium(const struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                       const unsigned char *in, size_t size) {
  if (seal->cipher == DMI_CIPHER_CHACHA) return get_contiguous(seal->key, nonce, out, in, size);
  return crypto_aead_aes256gcm_decrypt_afternm(out, NULL, NULL, in + DMI_SEAL_LENGTH,
                                               size + DMI_SEAL_TAG, in, DMI_SEAL_LENGTH, nonce,
                                               &seal->aes) == 0;
}

bool dmi_seal_get(struct dmi_seal *seal, unsigned char *out, const unsigned char *in) {
  size_t size = dmi_seal_size(in);
  unsigned char nonce[12];
  bool good;
  if (size == 0) return false;
  next_nonce(seal, nonce);
  good = seal->ctx != NULL ? get_evp(seal, nonce, out, in, size)
                           : get_sodium(seal, nonce, out, in, size);
  vectors_done();
  return good;
}

static const unsigned char first_nonce[12];

void dmi_seal_put_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *bytes, size_t size) {
  put_contiguous(key, first_nonce, out, bytes, size);
  vectors_done();
}

bool dmi_seal_get_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *in) {
  size_t size = dmi_seal_size(in);
  bool good = size != 0 && get_contiguous(key, first_nonce, out, in, size);
  vectors_done();
  return good;
}
