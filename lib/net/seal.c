/*
 * seal.c - records of AES-256-OCB or ChaCha20-Poly1305, by libgcrypt or libsodium.
 *
 * libgcrypt is loaded when it is first asked for, because linking it would cost every process a
 * part of a millisecond at its start. If it is not installed, libsodium is used, which has no
 * AES-256-OCB.
 *
 * Each key of AES-256-OCB is a hash of the direction's key and of the number of its first record,
 * divided by DMI_SEAL_OCB_RECORDS.
 *
 * The tag of AES-256-OCB is made of the plain bytes, which are read once to encrypt them and once
 * for the tag. So nobody may change them meanwhile: bytes that may change are copied first, and a
 * record that does not open into its place is opened once more, where nobody else writes.
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

/* For calls that cannot fail with correct arguments. */
static void must(bool good) {
  if (!good) abort();
}

/* ---- libgcrypt, as its manual documents it ----------------------------------------------------
 *
 * The program may use it, too, and initialize it before or afterwards, as its manual says: so no
 * more is done here than gcry_check_version does, which may be called many times, and which prints
 * nothing. No secure memory is used, so none is set up.
 */

enum {
  ALGO_AES256 = 9,     /* GCRY_CIPHER_AES256 */
  ALGO_CHACHA20 = 316, /* GCRY_CIPHER_CHACHA20 */
  MODE_POLY1305 = 10,  /* GCRY_CIPHER_MODE_POLY1305 */
  MODE_OCB = 11,       /* GCRY_CIPHER_MODE_OCB */
  LAST_PART = 5        /* GCRYCTL_FINALIZE: the next bytes are the last ones */
};

struct gcrypt {
  const char *(*check_version)(const char *least);
  char *(*get_config)(int mode, const char *what);
  void (*free)(void *bytes);
  unsigned (*open)(void **ctx, int algo, int mode, unsigned flags);
  void (*close)(void *ctx); /* also wipes the key */
  unsigned (*setkey)(void *ctx, const void *key, size_t size);
  unsigned (*setiv)(void *ctx, const void *nonce, size_t size);
  unsigned (*authenticate)(void *ctx, const void *bytes, size_t size);
  unsigned (*ctl)(void *ctx, int what, void *buf, size_t size);
  /* `in` is NULL: in place */
  unsigned (*encrypt)(void *ctx, void *out, size_t out_size, const void *in, size_t size);
  unsigned (*decrypt)(void *ctx, void *out, size_t out_size, const void *in, size_t size);
  unsigned (*gettag)(void *ctx, void *tag, size_t size);
  unsigned (*checktag)(void *ctx, const void *tag, size_t size); /* in constant time */
  bool has[DMI_CIPHERS];
};

static struct gcrypt gcrypt;
static pthread_once_t gcrypt_once = PTHREAD_ONCE_INIT;
static _Atomic bool gcrypt_off, ocb_off;

/* NULL: it cannot, as in FIPS mode, or there is no memory. */
static void *open_cipher(enum dmi_cipher cipher) {
  const bool aes = cipher == DMI_CIPHER_OCB;
  void *ctx = NULL;
  if (gcrypt.open(&ctx, aes ? ALGO_AES256 : ALGO_CHACHA20, aes ? MODE_OCB : MODE_POLY1305, 0) != 0)
    return NULL;
  return ctx;
}

static bool can_open(enum dmi_cipher cipher) {
  void *ctx = open_cipher(cipher);
  if (ctx == NULL) return false;
  gcrypt.close(ctx);
  return true;
}

/* True if libgcrypt uses instructions for AES. It says so itself, as it knows more processors, and
 * can be told not to (/etc/gcrypt/hwf.deny). */
static bool has_instructions(void) {
  static const char *const names[] = {":intel-aesni:", ":arm-aes:", ":ppc-vcrypto:"};
  char *list = gcrypt.get_config(0, "hwflist"); /* "hwflist:intel-bmi2:intel-aesni:" */
  bool found = false;
  for (size_t i = 0; list != NULL && i < sizeof names / sizeof *names; i++)
    if (strstr(list, names[i]) != NULL) found = true;
  gcrypt.free(list);
  return found;
}

static void load(void) {
  static const struct dmi_symbol wanted[] = {
      {"gcry_check_version", offsetof(struct gcrypt, check_version)},
      {"gcry_get_config", offsetof(struct gcrypt, get_config)},
      {"gcry_free", offsetof(struct gcrypt, free)},
      {"gcry_cipher_open", offsetof(struct gcrypt, open)},
      {"gcry_cipher_close", offsetof(struct gcrypt, close)},
      {"gcry_cipher_setkey", offsetof(struct gcrypt, setkey)},
      {"gcry_cipher_setiv", offsetof(struct gcrypt, setiv)},
      {"gcry_cipher_authenticate", offsetof(struct gcrypt, authenticate)},
      {"gcry_cipher_ctl", offsetof(struct gcrypt, ctl)},
      {"gcry_cipher_encrypt", offsetof(struct gcrypt, encrypt)},
      {"gcry_cipher_decrypt", offsetof(struct gcrypt, decrypt)},
      {"gcry_cipher_gettag", offsetof(struct gcrypt, gettag)},
      {"gcry_cipher_checktag", offsetof(struct gcrypt, checktag)},
  };
  if (!dmi_library_load("libgcrypt.so.20", &gcrypt, wanted, sizeof wanted / sizeof *wanted)) return;
  if (gcrypt.check_version(NULL) == NULL) return;
  gcrypt.has[DMI_CIPHER_CHACHA] = can_open(DMI_CIPHER_CHACHA);
  gcrypt.has[DMI_CIPHER_OCB] = has_instructions() && can_open(DMI_CIPHER_OCB);
}

static bool has_gcrypt(enum dmi_cipher cipher) {
  pthread_once(&gcrypt_once, load);
  return gcrypt.has[cipher];
}

const char *dmi_seal_by(void) {
  return has_gcrypt(DMI_CIPHER_CHACHA) && !atomic_load(&gcrypt_off) ? "libgcrypt" : "libsodium";
}

bool dmi_seal_has_ocb(void) {
  return has_gcrypt(DMI_CIPHER_OCB) && !atomic_load(&gcrypt_off) && !atomic_load(&ocb_off);
}

void dmi_seal_without_ocb(bool without) {
  atomic_store(&ocb_off, without);
}

void dmi_seal_plainly(bool plainly) {
  atomic_store(&gcrypt_off, plainly);
}

/* ---- The processor's vector registers ---------------------------------------------------------
 *
 * A library may return with the upper halves of these registers in use (OpenSSL 3.0 does).  Every
 * SSE instruction of the thread then waits for the one before it, and so it is in the threads that
 * this one makes: floating-point code runs at a tenth of its speed.
 */

#ifdef __x86_64__
__attribute__((target("avx"))) static void zero_upper(void) {
  _mm256_zeroupper();
}

/* Called after all calls of libgcrypt and libsodium, which use vector instructions. */
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
  enum dmi_cipher cipher;
  unsigned char key[DMI_SEAL_KEY]; /* of the direction */
  uint64_t records;                /* the number of the next record */
  uint64_t part;                   /* with DMI_CIPHER_OCB: its number / DMI_SEAL_OCB_RECORDS */
  void *ctx;                       /* of libgcrypt, with the cipher's key; NULL: libsodium */
};

/* The key of the cipher for the records of this part. */
static void make_key(const struct dmi_seal *seal, unsigned char out[DMI_SEAL_KEY]) {
  unsigned char input[24] = "DMI aes-256-ocb";
  memcpy(out, seal->key, DMI_SEAL_KEY);
  if (seal->cipher != DMI_CIPHER_OCB) return;
  memcpy(input + 16, &seal->part, sizeof seal->part);
  must(crypto_generichash(out, DMI_SEAL_KEY, input, sizeof input, seal->key, DMI_SEAL_KEY) == 0);
}

static void set_key(struct dmi_seal *seal) {
  unsigned char key[DMI_SEAL_KEY];
  if (seal->ctx == NULL) return;
  make_key(seal, key);
  must(gcrypt.setkey(seal->ctx, key, sizeof key) == 0);
  sodium_memzero(key, sizeof key);
}

struct dmi_seal *dmi_seal_new(const unsigned char key[DMI_SEAL_KEY], uint64_t records,
                              enum dmi_cipher cipher) {
  const bool aes = cipher == DMI_CIPHER_OCB;
  struct dmi_seal *seal = calloc(1, sizeof *seal);
  if (seal == NULL) return NULL;
  memcpy(seal->key, key, sizeof seal->key);
  seal->cipher = cipher;
  seal->records = records;
  seal->part = records / DMI_SEAL_OCB_RECORDS;
  if (aes) must(has_gcrypt(DMI_CIPHER_OCB));
  if (aes || (has_gcrypt(DMI_CIPHER_CHACHA) && !atomic_load(&gcrypt_off))) {
    seal->ctx = open_cipher(cipher);
    if (seal->ctx == NULL) {
      dmi_seal_free(seal);
      return NULL;
    }
  }
  set_key(seal);
  vectors_done();
  return seal;
}

void dmi_seal_free(struct dmi_seal *seal) {
  if (seal == NULL) return;
  if (seal->ctx != NULL) gcrypt.close(seal->ctx);
  vectors_done();
  sodium_memzero(seal, sizeof *seal);
  free(seal);
}

static void next_nonce(struct dmi_seal *seal, unsigned char nonce[12]) {
  if (seal->cipher == DMI_CIPHER_OCB && seal->records / DMI_SEAL_OCB_RECORDS != seal->part) {
    seal->part = seal->records / DMI_SEAL_OCB_RECORDS;
    set_key(seal);
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

/* Begins a record, whose length is at `length`. */
static void begin(const struct dmi_seal *seal, const unsigned char *nonce,
                  const unsigned char *length) {
  must(gcrypt.setiv(seal->ctx, nonce, 12) == 0);
  must(gcrypt.authenticate(seal->ctx, length, DMI_SEAL_LENGTH) == 0);
  if (seal->cipher == DMI_CIPHER_OCB) must(gcrypt.ctl(seal->ctx, LAST_PART, NULL, 0) == 0);
}

/* `from` is `to`, or where bytes are that nobody changes. */
static void put_gcrypt(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                       const unsigned char *from, size_t size) {
  unsigned char *to = out + DMI_SEAL_LENGTH;
  begin(seal, nonce, out);
  must(gcrypt.encrypt(seal->ctx, to, size, from == to ? NULL : from, from == to ? 0 : size) == 0);
  must(gcrypt.gettag(seal->ctx, to + size, DMI_SEAL_TAG) == 0);
}

/* `bytes` may be in their place in the record. */
static void put_sodium(const unsigned char *key, const unsigned char *nonce, unsigned char *out,
                       const unsigned char *bytes, size_t size) {
  crypto_aead_chacha20poly1305_ietf_encrypt(out + DMI_SEAL_LENGTH, NULL, bytes, size, out,
                                            DMI_SEAL_LENGTH, NULL, nonce, key);
}

static void gather(unsigned char *to, const struct iovec *iov, size_t num, size_t size) {
  for (size_t i = 0; i < num && size != 0; i++) {
    size_t part = iov[i].iov_len < size ? iov[i].iov_len : size;
    memcpy(to, iov[i].iov_base, part);
    to += part;
    size -= part;
  }
}

void dmi_seal_put(struct dmi_seal *seal, unsigned char *out, const struct iovec *iov, size_t num,
                  size_t size, bool fixed) {
  unsigned char nonce[12], *to = out + DMI_SEAL_LENGTH;
  const unsigned char *from = to;
  next_nonce(seal, nonce);
  put_length(out, size);
  /* the tag of ChaCha20-Poly1305 is of the encrypted bytes */
  if (iov->iov_len >= size && (fixed || seal->cipher == DMI_CIPHER_CHACHA))
    from = iov->iov_base;
  else
    gather(to, iov, num, size);
  if (seal->ctx != NULL)
    put_gcrypt(seal, nonce, out, from, size);
  else
    put_sodium(seal->key, nonce, out, from, size);
  vectors_done();
}

/* `out` is NULL: in place. */
static bool get_gcrypt(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                       unsigned char *in, size_t size) {
  unsigned char *bytes = in + DMI_SEAL_LENGTH;
  begin(seal, nonce, in);
  if (out != NULL)
    must(gcrypt.decrypt(seal->ctx, out, size, bytes, size) == 0);
  else
    must(gcrypt.decrypt(seal->ctx, bytes, size, NULL, 0) == 0);
  return gcrypt.checktag(seal->ctx, bytes + size, DMI_SEAL_TAG) == 0;
}

/* As get_gcrypt, if the record was not authentic at its first reading: perhaps because another
 * thread has written into its place. */
static bool get_again(struct dmi_seal *seal, const unsigned char *nonce, unsigned char *out,
                      unsigned char *in, size_t size) {
  const bool good = get_gcrypt(seal, nonce, NULL, in, size);
  if (good) memcpy(out, in + DMI_SEAL_LENGTH, size);
  return good;
}

static bool get_sodium(const unsigned char *key, const unsigned char *nonce, unsigned char *out,
                       const unsigned char *in, size_t size) {
  return crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in + DMI_SEAL_LENGTH,
                                                   size + DMI_SEAL_TAG, in, DMI_SEAL_LENGTH, nonce,
                                                   key) == 0;
}

bool dmi_seal_get(struct dmi_seal *seal, unsigned char *out, unsigned char *in) {
  size_t size = dmi_seal_size(in);
  unsigned char nonce[12];
  bool good;
  if (size == 0) return false;
  next_nonce(seal, nonce);
  if (seal->ctx == NULL)
    good = get_sodium(seal->key, nonce, out, in, size);
  else
    good = get_gcrypt(seal, nonce, out, in, size) || get_again(seal, nonce, out, in, size);
  vectors_done();
  return good;
}

static const unsigned char first_nonce[12];

void dmi_seal_put_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *bytes, size_t size) {
  put_length(out, size);
  put_sodium(key, first_nonce, out, bytes, size);
  vectors_done();
}

bool dmi_seal_get_first(const unsigned char key[DMI_SEAL_KEY], unsigned char *out,
                        const unsigned char *in) {
  size_t size = dmi_seal_size(in);
  bool good = size != 0 && get_sodium(key, first_nonce, out, in, size);
  vectors_done();
  return good;
}
