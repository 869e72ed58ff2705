/*
 * bytes.h - sums of bytes, and where the parts of one block begin.  Pure.
 */
#ifndef DMI_REMOTE_BYTES_H
#define DMI_REMOTE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* The greatest number instead of one that is too large. */
static inline uint64_t dmi_remote_sum(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The size of a part behind which any type may begin. */
static inline size_t dmi_remote_round_up(size_t size) {
  return (size + 15) & ~(size_t)15;
}

#endif
