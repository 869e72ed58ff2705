/*
 * packed.c - see packed.h.
 *
 * A short header: a mask of 16 bits that says which of the words differ from those before, then for
 * each of these the difference, small numbers of either sign in few bytes.  There is one way only
 * to write each header.
 */
#include "msg/packed.h"

#include <string.h>

#define AT_BEHIND 60 /* in the header of the first message: wire.c */

static void words_of(uint64_t word[DMI_PACKED_WORDS], const struct dmi_msg *msg) {
  memcpy(word, msg, DMI_WIRE_WORDS * sizeof(*word));
  word[DMI_WIRE_WORDS] = msg->list.len;
  word[DMI_WIRE_WORDS + 1] = msg->body.len;
}

void dmi_packed_begin(struct dmi_packed_before *before, const struct dmi_msg *msg) {
  words_of(before->word, msg);
}

/* Numbers of either sign, the small ones first: 0, -1, 1, -2, ... */
static uint64_t fold(uint64_t difference) {
  return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static uint64_t unfold(uint64_t folded) {
  return folded >> 1 ^ (0 - (folded & 1));
}

/* Seven bits a byte, the lowest first; the last byte is the one below 128. */
static size_t put_number(unsigned char *out, uint64_t number) {
  size_t size = 0;
  for (; number >= 0x80; number >>= 7)
    out[size++] = (unsigned char)(number | 0x80);
  out[size++] = (unsigned char)number;
  return size;
}

/* 0: not complete, or (*wrong) not as put_number writes it. */
static size_t get_number(uint64_t *number, const unsigned char *in, size_t have,
                         const char **wrong) {
  if (have && in[0] - 1u < 0x7f) { /* most are of one byte */
    *number = in[0];
    return 1;
  }
  *number = 0;
  for (size_t i = 0; i < have; i++) {
    *number |= (uint64_t)(in[i] & 0x7f) << 7 * i;
    /* no more than 64 bits; and a difference is not 0, and a number does not end with zeros */
    if ((i == 9 && in[i] > 1) || in[i] == 0) {
      *wrong = "a packed header has a bad number";
      return 0;
    }
    if (!(in[i] & 0x80)) return i + 1;
  }
  return 0;
}

size_t dmi_packed_put(unsigned char out[DMI_PACKED_HEADER], const struct dmi_msg *msg,
                      struct dmi_packed_before *before) {
  uint64_t word[DMI_PACKED_WORDS];
  uint16_t mask = 0;
  size_t size = sizeof(mask);
  words_of(word, msg);
  for (unsigned i = 0; i < DMI_PACKED_WORDS; i++) {
    if (word[i] == before->word[i]) continue;
    mask |= (uint16_t)(1u << i);
    size += put_number(out + size, fold(word[i] - before->word[i]));
    before->word[i] = word[i];
  }
  memcpy(out, &mask, sizeof(mask));
  return size;
}

size_t dmi_packed_get(struct dmi_msg *msg, const unsigned char *in, size_t have,
                      const struct dmi_packed_before *before, const char **wrong) {
  uint64_t word[DMI_PACKED_WORDS];
  uint16_t mask;
  size_t size = sizeof(mask);
  *wrong = NULL;
  if (have < size) return 0;
  memcpy(&mask, in, sizeof(mask));
  if (mask >> DMI_PACKED_WORDS) {
    *wrong = "a packed header has an unknown field";
    return 0;
  }
  memcpy(word, before->word, sizeof(word));
  for (unsigned left = mask; left; left &= left - 1) {
    uint64_t folded;
    const size_t part = get_number(&folded, in + size, have - size, wrong);
    if (!part) return 0;
    size += part;
    word[__builtin_ctz(left)] += unfold(folded);
  }
  memcpy(msg, word, DMI_WIRE_WORDS * sizeof(*word));
  msg->list = (struct dmi_slice){.len = word[DMI_WIRE_WORDS]};
  msg->body = (struct dmi_slice){.len = word[DMI_WIRE_WORDS + 1]};
  *wrong = dmi_packed_may(msg->type) ? dmi_wire_check(msg, true) : "its type is never packed";
  return *wrong ? 0 : size;
}

uint32_t dmi_packed_behind(const unsigned char header[DMI_WIRE_HEADER]) {
  uint32_t bytes;
  memcpy(&bytes, header + AT_BEHIND, sizeof(bytes));
  return bytes;
}

void dmi_packed_set_behind(unsigned char header[DMI_WIRE_HEADER], uint32_t bytes) {
  memcpy(header + AT_BEHIND, &bytes, sizeof(bytes));
}
