/*
 * decode.h - bytes as messages, in pieces of any size.  Pure.
 *
 *   TAG+SERIAL --DATA--> ITEM --> INT32 | DOUBLE | LENGTH --> BODY --> (next item, or done)
 *       |                 |                         |
 *       |--COMMAND--> CODE|                         | negative
 *       |                 | unknown type            |
 *       +----no tag-------+-------------------------+--> SEARCH --> a message of known type
 *
 * Of an object of an unknown type the end is not known.  After such a message, and after what is
 * none, the decoder searches for the next command of the table, an object of a known type as data,
 * or SYNC_BALL.  A message that is
 * too large or too deep is read to its end, and nothing of it is kept but the number of items that
 * are still to come.  Memory is allocated as bytes arrive, never for a length that was only said.
 *
 * A rational is two bodies of integers (length with sign, words).  That each has the type of an
 * integer before it is understood, too, if the first one has at most 18 words: that type, 20, may
 * also be the length of the first one, and is not if the type of the second one is where it must
 * be.
 */
#ifndef DMI_OX_DECODE_H
#define DMI_OX_DECODE_H

#include <stdbool.h>

#include "ox/value.h"

struct dmi_ox_message {
  int32_t tag; /* enum dmi_ox_tag; FAULT: code and why */
  uint32_t serial;
  int32_t code;               /* of COMMAND; of FAULT: enum dmi_ox_code */
  struct dmi_ox_value *value; /* of DATA: one use of it */
  const char *why;
};

enum dmi_ox_decoding {
  DMI_OX_AT_HEAD,
  DMI_OX_AT_CODE,
  DMI_OX_AT_ITEM,
  DMI_OX_AT_INT32,
  DMI_OX_AT_DOUBLE,
  DMI_OX_AT_LENGTH,
  DMI_OX_AT_BODY,
  DMI_OX_AT_SEARCH
};

/* A list whose items are being read. */
struct dmi_ox_frame {
  int32_t tag;
  int32_t left; /* items that are not complete */
  size_t num, room;
  struct dmi_ox_value **at;
};

struct dmi_ox_decoder {
  const struct dmi_ox_limits *limits;
  bool little;  /* order of bytes */
  bool control; /* commands of the control connection */
  bool second;  /* of a rational: its denominator is being read */
  bool skips;   /* this message is only read to its end */
  enum dmi_ox_decoding state;
  uint32_t have;          /* bytes in word */
  unsigned char word[12]; /* SEARCH: the last bytes */
  struct dmi_ox_message message;
  int32_t item;      /* the type of the item that is being read */
  int32_t length;    /* its length as it came */
  uint64_t used;     /* bytes that the message takes when decoded */
  uint64_t left;     /* skips: items that are not complete */
  uint64_t body_len; /* bytes of the body of the item */
  uint64_t body_have;
  size_t body_room;
  unsigned char *body;
  mpz_t numerator; /* second: initialized */
  struct dmi_ox_frame *frames;
  size_t num, room;
};

void dmi_ox_decoder_init(struct dmi_ox_decoder *d, const struct dmi_ox_limits *limits, bool little,
                         bool control);
void dmi_ox_decoder_free(struct dmi_ox_decoder *d);

/* Reads up to `len` bytes, and returns how many it has used. `*done`: a message is complete, and
 * the rest belongs to the next one. */
size_t dmi_ox_decode(struct dmi_ox_decoder *d, const unsigned char *at, size_t len,
                     struct dmi_ox_message *message, bool *done);
/* True when some of a message has come, and not all. */
static inline bool dmi_ox_decoder_inside(const struct dmi_ox_decoder *d) {
  return d->state != DMI_OX_AT_HEAD || d->have > 0;
}

#endif
