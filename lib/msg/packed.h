/*
 * packed.h - the short headers of packed messages: what differs from the header before.
 *
 * Messages about pages that are queued one behind the other travel in one envelope: the first is an
 * ordinary message whose header says how many bytes of packed ones follow it.  docs/wire.md has the
 * format.
 *
 * Pure: no sockets, no allocation.  The bytes may be anything: dmi_packed_get refuses all that
 * dmi_packed_put does not write.
 */
#ifndef DMI_MSG_PACKED_H
#define DMI_MSG_PACKED_H

#include <stdbool.h>
#include <stddef.h>

#include "msg/wire.h"

#define DMI_PACKED_WORDS (DMI_WIRE_WORDS + 2)         /* and the lengths of list and body */
#define DMI_PACKED_HEADER (2 + 10 * DMI_PACKED_WORDS) /* bytes, at most */
#define DMI_PACKED_MOST ((uint32_t)64 << 10)          /* bytes of all that is packed behind one */

/* Most bytes of list and body of a packed message.  Longer bodies lie better behind a whole header
 * (DMI_WIRE_HEADER), which costs them little. */
#define DMI_PACKED_BODY 4096

/* The header before. */
struct dmi_packed_before {
  uint64_t word[DMI_PACKED_WORDS];
};

/* True if a message of this type may be in an envelope, as the first one or behind it. */
static inline bool dmi_packed_may(uint8_t type) {
  return dmi_wire_type(type)->class == DMI_CLASS_PAGE;
}

/* The header of `msg` is the one before. */
void dmi_packed_begin(struct dmi_packed_before *before, const struct dmi_msg *msg);

/* Writes a short header, of which it returns the number of bytes; `before` becomes that of `msg`.
 */
size_t dmi_packed_put(unsigned char out[DMI_PACKED_HEADER], const struct dmi_msg *msg,
                      struct dmi_packed_before *before);

/* Reads one from `have` bytes.  Returns its size, and leaves `before` as it is; 0: they are fewer
 * than it has, or (*wrong not NULL) they are none, or not of a message that may be packed.  Sets
 * lengths, as dmi_wire_get. */
size_t dmi_packed_get(struct dmi_msg *msg, const unsigned char *in, size_t have,
                      const struct dmi_packed_before *before, const char **wrong);

/* How many bytes are packed behind the message of this header, and changing that. */
uint32_t dmi_packed_behind(const unsigned char header[DMI_WIRE_HEADER]);
void dmi_packed_set_behind(unsigned char header[DMI_WIRE_HEADER], uint32_t bytes);

#endif
