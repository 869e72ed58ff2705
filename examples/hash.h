/*
 * hash.h - a number that tells whether two results are the same to the last bit.
 */
#ifndef EXAMPLES_HASH_H
#define EXAMPLES_HASH_H

#include <stdint.h>
#include <string.h>

/* A hash of what was hashed before and these numbers, to the last bit. */
static inline uint64_t hash_doubles(uint64_t hash, const double *a, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    uint64_t bits;
    memcpy(&bits, &a[i], sizeof(bits));
    hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
  }
  return hash;
}

static inline uint64_t hash_int32s(uint64_t hash, const int32_t *a, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    hash = (hash ^ (uint32_t)a[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
  }
  return hash;
}

#endif
