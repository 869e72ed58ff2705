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

/* Where the fields of the header are. */
enum {
  AT_TYPE = 0,
  AT_FLAGS = 1,
  AT_KIND = 2,
  AT_TAG = 3,
  AT_ORIGIN = 4,
  AT_ERROR = 8,
  AT_LIST_LEN = 12,
  AT_BODY_LEN = 16,
  AT_MAP = 24,
  AT_PAGE = 32,
  AT_OP = 40,
  AT_OFF = 48,
  AT_LEN = 56,
  AT_VERSION = 64,
  AT_ZERO = 72 /* 8 bytes, zero: room, and a check that both ends are at the same place */
};

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

/* Little-endian is checked in wire.h, so a copy does. */
static void put32(unsigned char *at, uint32_t value) {
  memcpy(at, &value, sizeof value);
}
static void put64(unsigned char *at, uint64_t value) {
  memcpy(at, &value, sizeof value);
}

static uint32_t get32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t get64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

void dmi_wire_put(unsigned char out[DMI_WIRE_HEADER], const struct dmi_msg *msg) {
  out[AT_TYPE] = msg->type;
  out[AT_FLAGS] = msg->flags;
  out[AT_KIND] = msg->kind;
  out[AT_TAG] = (unsigned char)msg->tag;
  put32(out + AT_ORIGIN, msg->origin);
  put32(out + AT_ERROR, msg->error);
  put32(out + AT_LIST_LEN, (uint32_t)msg->list.len); /* list_max of every row fits */
  put64(out + AT_BODY_LEN, msg->body.len);
  put64(out + AT_MAP, msg->map);
  put64(out + AT_PAGE, msg->page);
  put64(out + AT_OP, msg->op);
  put64(out + AT_OFF, msg->off);
  put64(out + AT_LEN, msg->len);
  put64(out + AT_VERSION, msg->version);
  put64(out + AT_ZERO, 0);
}

const char *dmi_wire_get(struct dmi_msg *msg, const unsigned char in[DMI_WIRE_HEADER],
                         bool member) {
  memset(msg, 0, sizeof *msg);
  msg->type = in[AT_TYPE];
  msg->flags = in[AT_FLAGS];
  msg->kind = in[AT_KIND];
  msg->tag = (int8_t)in[AT_TAG];
  msg->origin = get32(in + AT_ORIGIN);
  msg->error = get32(in + AT_ERROR);
  msg->list.len = get32(in + AT_LIST_LEN);
  msg->body.len = get64(in + AT_BODY_LEN);
  msg->map = get64(in + AT_MAP);
  msg->page = get64(in + AT_PAGE);
  msg->op = get64(in + AT_OP);
  msg->off = get64(in + AT_OFF);
  msg->len = get64(in + AT_LEN);
  msg->version = get64(in + AT_VERSION);
  if (get64(in + AT_ZERO) != 0) return "its last field is not zero";
  return dmi_wire_check(msg, member);
}
