/*
 * wire.h - messages as bytes and back: the header, and the checks before anything else is read.
 *
 * A connection carries a handshake (proof.h, hello.h) and then messages: a header of
 * DMI_WIRE_HEADER bytes, `list_len` bytes of list, `body_len` bytes of body. All integers are
 * little-endian. Header and lists are sent as the structs of msg/msg.h are laid out in memory, so
 * DMI runs on little-endian machines only (checked below).
 *
 * Pure: no sockets, no allocation, no upper layer. docs/wire.md describes the format.
 */
#ifndef DMI_MSG_WIRE_H
#define DMI_MSG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/msg.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages travel as they lie in memory: DMI needs a little-endian machine"
#endif

/* A multiple of 16: the kernel copies a body of a page into its buffers behind the header, and some
 * processors copy three to four times slower between addresses that differ by 8 modulo 16
 * (docs/performance.md, "Where bodies lie"). */
#define DMI_WIRE_HEADER 80

#define DMI_WIRE_WORDS 7 /* words of 8 bytes in struct dmi_msg before the slices */

/* One row of the table. */
struct dmi_wire_type {
  const char *name;              /* NULL: not a message */
  uint32_t list_size;            /* bytes of a list element */
  uint8_t from;                  /* enum dmi_wire_from */
  uint8_t class;                 /* enum dmi_msg_class */
  uint8_t sender;                /* enum dmi_msg_role */
  uint8_t receiver;              /* enum dmi_msg_role */
  bool brings_page;              /* its body becomes a page of the receiver */
  bool lendable;                 /* a waiting thread may receive it */
  bool borrows;                  /* its body may lie in the connection's buffer */
  uint64_t list_max;             /* bytes */
  uint64_t body_max;             /* bytes */
  uint64_t zero[DMI_WIRE_WORDS]; /* the bits that the message does not use */
};

extern const struct dmi_wire_type dmi_wire_rows[256];

/* The row of a message number, never NULL; its .name is NULL if there is no such message. */
static inline const struct dmi_wire_type *dmi_wire_type(uint8_t type) {
  return &dmi_wire_rows[type];
}

/* The name, such as "JOIN"; "no message" for an unknown number. */
const char *dmi_wire_name(uint8_t type);

/* The class of a message: which part handles it. */
static inline enum dmi_msg_class dmi_wire_class(const struct dmi_msg *msg) {
  return (enum dmi_msg_class)dmi_wire_type(msg->type)->class;
}

/* True if the message is about a mapping or a page. */
static inline bool dmi_wire_about_page(uint8_t type) {
  uint8_t class = dmi_wire_type(type)->class;
  return class == DMI_CLASS_PAGE || class == DMI_CLASS_HANDOVER;
}

/* Returns NULL if the type, the lengths and the flags of `msg` are allowed and unused fields are
 * zero; otherwise a phrase that says what is wrong. `member`: the sender is a member. */
const char *dmi_wire_check(const struct dmi_msg *msg, bool member);

/* Writes the header of `msg`. */
void dmi_wire_put(unsigned char out[DMI_WIRE_HEADER], const struct dmi_msg *msg);

/* Reads a message from its header. Sets list.len and body.len; their bytes have not arrived yet
 * (ptr and frame are NULL). Returns NULL, or what is wrong, as dmi_wire_check; then nothing that
 * follows on the connection can be understood. */
const char *dmi_wire_get(struct dmi_msg *msg, const unsigned char in[DMI_WIRE_HEADER], bool member);

#endif
