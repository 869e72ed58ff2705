/*
 * wire.c - the header of a message as bytes and back, and the limits of each type.
 *
 * Must not allocate, read beyond the header, or trust any field before dmi_wire_check has checked
 * it.
 */
#include "msg/wire.h"

#include <string.h>

#include "msg/packed.h"

_Static_assert(sizeof(struct dmi_holder) == 8, "GRANT's list element");
_Static_assert(sizeof(struct dmi_tail) == 16, "list element of TAKE, REFUSE_PAGE and HOME_TAILS");
_Static_assert(sizeof(struct dmi_rmw_sizes) == 24, "ATOMIC's list element");

/* Offsets of the header's fields. The header begins with struct dmi_msg as in memory, up to the
 * slices. */
enum {
  AT_LIST_LEN = 56,
  AT_BEHIND = 60, /* 4 bytes: how many are packed behind it (packed.h); written by lib/net */
  AT_BODY_LEN = 64,
  /* 8 bytes, zero: see DMI_WIRE_HEADER; and a check that both ends are at the same place in the
   * stream */
  AT_FILL = 72
};

_Static_assert(offsetof(struct dmi_msg, list) == AT_LIST_LEN, "what travels as it lies in memory");
_Static_assert(sizeof(((struct dmi_msg *)0)->word) == 32, "each message's own fields fit");
_Static_assert(DMI_WIRE_HEADER == AT_FILL + 8, "the header ends with the bytes that fill it up");
_Static_assert(DMI_WIRE_HEADER % 16 == 0, "bodies lie as their copies in the kernel do");

/* The bits of word `i` that a message does not use; `size` is the size of its own fields. */
#define NOTHING 0
#define SAYS(member) sizeof(((struct dmi_msg *)0)->member)
#define OWN_WORD(size, i) \
  ((size) <= 8 * (i) ? UINT64_MAX : (size) >= 8 * (i) + 8 ? 0 : UINT64_MAX << 8 * ((size) % 8))

/* The same for the header: the class decides whether origin, map and page are used. */
#define HAS_ORIGIN(class)                                                                    \
  ((class) != DMI_CLASS_NET && (class) != DMI_CLASS_THREAD && (class) != DMI_CLASS_REMOTE && \
   (class) != DMI_CLASS_TEAM && (class) != DMI_CLASS_SEE)
#define HAS_MAP(class)                                                                           \
  ((class) == DMI_CLASS_PAGE || (class) == DMI_CLASS_HANDOVER || (class) == DMI_CLASS_RECOVER || \
   (class) == DMI_CLASS_TEAM)
#define HAS_PAGE(class) ((class) == DMI_CLASS_PAGE)
#define FIRST_WORD(class, flags)                            \
  (UINT64_C(0xff00) | (uint64_t)(uint16_t) ~(flags) << 16 | \
   (HAS_ORIGIN(class) ? 0 : (uint64_t)UINT32_MAX << 32))

#define ROW(symbol, number, name_, handler_, class_, sender_, receiver_, own, flags, size, list, \
            body, from_, marks)                                                                  \
  [number] = {.name = name_,                                                                     \
              .list_size = size,                                                                 \
              .from = from_,                                                                     \
              .class = class_,                                                                   \
              .sender = sender_,                                                                 \
              .receiver = receiver_,                                                             \
              .brings_page = ((marks)&DMI_BRINGS_PAGE) != 0,                                     \
              .lendable = ((marks)&DMI_LENDABLE) != 0,                                           \
              .borrows = ((marks)&DMI_BORROWS) != 0,                                             \
              .list_max = list,                                                                  \
              .body_max = body,                                                                  \
              .zero = {FIRST_WORD(class_, flags), HAS_MAP(class_) ? 0 : UINT64_MAX,              \
                       HAS_PAGE(class_) ? 0 : UINT64_MAX, OWN_WORD(own, 0), OWN_WORD(own, 1),    \
                       OWN_WORD(own, 2), OWN_WORD(own, 3)}},

const struct dmi_wire_type dmi_wire_rows[256] = {DMI_MSG_TABLE(ROW)};

const char *dmi_wire_name(uint8_t type) {
  const char *name = dmi_wire_type(type)->name;
  return name != NULL ? name : "no message";
}

_Static_assert(DMI_WIRE_WORDS == 7, "dmi_wire_check looks at all words");

const char *dmi_wire_check(const struct dmi_msg *msg, bool member) {
  const struct dmi_wire_type *row = &dmi_wire_rows[msg->type];
  const uint64_t *zero = row->zero;
  uint64_t word[DMI_WIRE_WORDS];
  if (row->name == NULL) return "no message has that number";
  if (!member && row->from != DMI_WIRE_ANYBODY) return "only a member may send that message";
  if (msg->list.len > row->list_max) return "its list is too long";
  if (msg->list.len != 0 && msg->list.len % row->list_size != 0) {
    return "its list is not a whole number of elements";
  }
  if (msg->body.len > row->body_max) return "its body is too long";
  /* No loop: each message comes here, and that would be a percent of a GET. */
  memcpy(word, msg, sizeof word);
  if (((word[0] & zero[0]) | (word[1] & zero[1]) | (word[2] & zero[2]) | (word[3] & zero[3]) |
       (word[4] & zero[4]) | (word[5] & zero[5]) | (word[6] & zero[6])) != 0) {
    return "it has something in fields that it does not use";
  }
  return NULL;
}

void dmi_wire_put(unsigned char out[DMI_WIRE_HEADER], const struct dmi_msg *msg) {
  uint32_t list_len = (uint32_t)msg->list.len; /* the list_max of every row fits into 32 bits */
  memcpy(out, msg, AT_LIST_LEN);
  memcpy(out + AT_LIST_LEN, &list_len, sizeof list_len);
  memset(out + AT_BEHIND, 0, AT_BODY_LEN - AT_BEHIND);
  memcpy(out + AT_BODY_LEN, &msg->body.len, sizeof msg->body.len);
  memset(out + AT_FILL, 0, DMI_WIRE_HEADER - AT_FILL);
}

const char *dmi_wire_get(struct dmi_msg *msg, const unsigned char in[DMI_WIRE_HEADER],
                         bool member) {
  uint32_t list_len, behind;
  uint64_t fill;
  memcpy(msg, in, AT_LIST_LEN);
  memcpy(&list_len, in + AT_LIST_LEN, sizeof list_len);
  memcpy(&behind, in + AT_BEHIND, sizeof behind);
  memcpy(&fill, in + AT_FILL, sizeof fill);
  msg->list = (struct dmi_slice){.len = list_len};
  msg->body = (struct dmi_slice){0};
  memcpy(&msg->body.len, in + AT_BODY_LEN, sizeof msg->body.len);
  if (behind != 0 && (!dmi_packed_may(msg->type) || behind > DMI_PACKED_MOST)) {
    return "something is packed behind it that must not be";
  }
  if (fill != 0) return "its header has something where there must be nothing";
  return dmi_wire_check(msg, member);
}
