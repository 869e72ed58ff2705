/*
 * wire.c - the header of a message as bytes and back, and the limits of each type.
 *
 * Must not allocate, read beyond the header, or trust any field before dmi_wire_check has seen it.
 */
#include "msg/wire.h"

#include <string.h>

_Static_assert(sizeof(struct dmi_holder) == 8, "GRANT's list element");
_Static_assert(sizeof(struct dmi_tail) == 16, "list element of TAKE, KEEP and HOME_TAILS");
_Static_assert(sizeof(struct dmi_rmw_sizes) == 24, "ATOMIC's list element");

/* Where the fields of the header are: it begins with struct dmi_msg as it lies in memory, up to the
 * slices. */
enum {
  AT_LIST_LEN = 56,
  AT_ZERO = 60, /* 4 bytes, zero: they show that both ends are at the same place of the stream */
  AT_BODY_LEN = 64
};

_Static_assert(offsetof(struct dmi_msg, list) == AT_LIST_LEN, "what travels as it lies in memory");
_Static_assert(sizeof(((struct dmi_msg *)0)->word) == 32, "each message's own fields fit");
_Static_assert(DMI_WIRE_HEADER == AT_BODY_LEN + 8, "the body's length is the last field");

#define ROW(symbol, number, name_, class_, size, list, body, from_) \
  [number] = {.name = name_,                                        \
              .list_size = size,                                    \
              .from = from_,                                        \
              .class = class_,                                      \
              .list_max = list,                                     \
              .body_max = body},

static const struct dmi_wire_type rows[256] = {DMI_MSG_TABLE(ROW)};

const struct dmi_wire_type *dmi_wire_type(uint8_t type) {
  return &rows[type];
}

const char *dmi_wire_name(uint8_t type) {
  return rows[type].name != NULL ? rows[type].name : "no message";
}

const char *dmi_wire_check(const struct dmi_msg *msg, bool member) {
  const struct dmi_wire_type *row = dmi_wire_type(msg->type);
  if (row->name == NULL) return "no message has that number";
  if (!member && row->from != DMI_WIRE_ANYBODY) return "only a member may send that message";
  if (msg->list.len > row->list_max) return "its list is too long";
  if (msg->list.len != 0 && msg->list.len % row->list_size != 0) {
    return "its list is not a whole number of elements";
  }
  if (msg->body.len > row->body_max) return "its body is too long";
  return NULL;
}

void dmi_wire_put(unsigned char out[DMI_WIRE_HEADER], const struct dmi_msg *msg) {
  uint32_t list_len = (uint32_t)msg->list.len; /* list_max of every row fits */
  memcpy(out, msg, AT_LIST_LEN);
  memcpy(out + AT_LIST_LEN, &list_len, sizeof list_len);
  memset(out + AT_ZERO, 0, AT_BODY_LEN - AT_ZERO);
  memcpy(out + AT_BODY_LEN, &msg->body.len, sizeof msg->body.len);
}

const char *dmi_wire_get(struct dmi_msg *msg, const unsigned char in[DMI_WIRE_HEADER],
                         bool member) {
  uint32_t list_len, zero;
  memcpy(msg, in, AT_LIST_LEN);
  memcpy(&list_len, in + AT_LIST_LEN, sizeof list_len);
  memcpy(&zero, in + AT_ZERO, sizeof zero);
  msg->list = (struct dmi_slice){.len = list_len};
  msg->body = (struct dmi_slice){0};
  memcpy(&msg->body.len, in + AT_BODY_LEN, sizeof msg->body.len);
  if (zero != 0) return "its header has something where there must be nothing";
  return dmi_wire_check(msg, member);
}
