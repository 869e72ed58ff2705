/*
 * ocb_reference.h - AES-OCB with a tag of 128 bits, as RFC 7253 defines it, step by step, and slow.
 *
 * For comparison only: not in constant time. A block of AES comes from libgcrypt's ECB mode, which
 * shares nothing with its OCB mode but AES itself.
 */
#ifndef OCB_REFERENCE_H
#define OCB_REFERENCE_H

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned char bytes[16];
} ocb_block_t;

typedef struct {
  void *ecb;
  unsigned (*encrypt)(void *ctx, void *out, size_t out_size, const void *in, size_t size);
  void (*close)(void *ctx);
  ocb_block_t star, dollar, l[24]; /* L_*, L_$, L_i */
} ocb_t;

static inline ocb_block_t ocb_xor(ocb_block_t a, ocb_block_t b) {
  for (int i = 0; i < 16; i++)
    a.bytes[i] ^= b.bytes[i];
  return a;
}

/* ENCIPHER(K, block) */
static inline ocb_block_t ocb_aes(const ocb_t *ocb, ocb_block_t block) {
  ocb_block_t out;
  if (ocb->encrypt(ocb->ecb, &out, sizeof out, &block, sizeof block) != 0) abort();
  return out;
}

static inline ocb_block_t ocb_double(ocb_block_t s) {
  ocb_block_t out;
  for (int i = 0; i < 16; i++)
    out.bytes[i] = (unsigned char)(s.bytes[i] << 1 | (i < 15 ? s.bytes[i + 1] >> 7 : 0));
  if (s.bytes[0] & 0x80) out.bytes[15] ^= 0x87;
  return out;
}

/* `library` is that of libgcrypt.  The key has 16 or 32 bytes. */
static inline void ocb_begin(ocb_t *ocb, void *library, const unsigned char *key, size_t size) {
  unsigned (*open)(void **ctx, int algo, int mode, unsigned flags);
  unsigned (*setkey)(void *ctx, const void *key, size_t size);
  *(void **)&open = dlsym(library, "gcry_cipher_open");
  *(void **)&setkey = dlsym(library, "gcry_cipher_setkey");
  *(void **)&ocb->encrypt = dlsym(library, "gcry_cipher_encrypt");
  *(void **)&ocb->close = dlsym(library, "gcry_cipher_close");
  if (open(&ocb->ecb, size == 16 ? 7 : 9, 1 /* ECB */, 0) != 0) abort();
  if (setkey(ocb->ecb, key, size) != 0) abort();
  ocb->star = ocb_aes(ocb, (ocb_block_t){{0}});
  ocb->dollar = ocb_double(ocb->star);
  ocb->l[0] = ocb_double(ocb->dollar);
  for (int i = 1; i < 24; i++)
    ocb->l[i] = ocb_double(ocb->l[i - 1]);
}

static inline void ocb_end(ocb_t *ocb) {
  ocb->close(ocb->ecb);
}

/* The part of the block at `bytes` that there is, and what pads it. */
static inline ocb_block_t ocb_padded(const unsigned char *bytes, size_t size) {
  ocb_block_t block = {{0}};
  if (size != 0) memcpy(block.bytes, bytes, size);
  if (size < 16) block.bytes[size] = 0x80;
  return block;
}

static inline ocb_block_t ocb_whole(const unsigned char *bytes) {
  ocb_block_t block;
  memcpy(block.bytes, bytes, 16);
  return block;
}

/* HASH(K, bytes) */
static inline ocb_block_t ocb_hash(const ocb_t *ocb, const unsigned char *bytes, size_t size) {
  ocb_block_t sum = {{0}}, offset = {{0}};
  for (size_t i = 1; size >= 16; i++, bytes += 16, size -= 16) {
    offset = ocb_xor(offset, ocb->l[__builtin_ctzll(i)]);
    sum = ocb_xor(sum, ocb_aes(ocb, ocb_xor(ocb_whole(bytes), offset)));
  }
  if (size == 0) return sum;
  offset = ocb_xor(offset, ocb->star);
  return ocb_xor(sum, ocb_aes(ocb, ocb_xor(ocb_padded(bytes, size), offset)));
}

/* Offset_0 for this nonce, which has 12 bytes. */
static inline ocb_block_t ocb_offset(const ocb_t *ocb, const unsigned char *nonce) {
  ocb_block_t top = {{0}}, out;
  unsigned char stretch[24];
  const unsigned bottom = nonce[11] & 63;
  top.bytes[3] = 1; /* TAGLEN mod 128 is 0 */
  memcpy(top.bytes + 4, nonce, 12);
  top.bytes[15] &= 0xc0;
  top = ocb_aes(ocb, top);
  memcpy(stretch, top.bytes, 16);
  for (int i = 0; i < 8; i++)
    stretch[16 + i] = top.bytes[i] ^ top.bytes[i + 1];
  for (unsigned i = 0; i < 16; i++) {
    const unsigned at = i + bottom / 8, shift = bottom % 8;
    out.bytes[i] =
        (unsigned char)(stretch[at] << shift | (shift ? stretch[at + 1] >> (8 - shift) : 0));
  }
  return out;
}

/* OCB-ENCRYPT; `out` has `size` bytes and a tag. */
static inline void ocb_encrypt(const ocb_t *ocb, const unsigned char *nonce,
                               const unsigned char *added, size_t added_size,
                               const unsigned char *bytes, size_t size, unsigned char *out) {
  ocb_block_t offset = ocb_offset(ocb, nonce), sum = {{0}};
  for (size_t i = 1; size >= 16; i++, bytes += 16, size -= 16, out += 16) {
    offset = ocb_xor(offset, ocb->l[__builtin_ctzll(i)]);
    const ocb_block_t block = ocb_whole(bytes);
    const ocb_block_t sealed = ocb_xor(offset, ocb_aes(ocb, ocb_xor(block, offset)));
    memcpy(out, sealed.bytes, 16);
    sum = ocb_xor(sum, block);
  }
  if (size != 0) {
    offset = ocb_xor(offset, ocb->star);
    const ocb_block_t pad = ocb_aes(ocb, offset);
    for (size_t i = 0; i < size; i++)
      out[i] = bytes[i] ^ pad.bytes[i];
    sum = ocb_xor(sum, ocb_padded(bytes, size));
    out += size;
  }
  const ocb_block_t tag = ocb_xor(ocb_aes(ocb, ocb_xor(ocb_xor(sum, offset), ocb->dollar)),
                                  ocb_hash(ocb, added, added_size));
  memcpy(out, tag.bytes, 16);
}

#endif
