/*
 * wire.h - what travels between processes: the one list of messages, and their header.
 *
 * A connection carries a handshake (proof.h, hello.h) and then messages: a header of
 * DMI_WIRE_HEADER bytes, `list_len` bytes of list, `body_len` bytes of body.  All integers are
 * little-endian.  Lists are arrays of the structs named in msg/msg.h, as they lie in memory: DMI
 * runs on little-endian machines only (checked below).
 *
 * Pure: no sockets, no allocation, no upper layer.  docs/wire.md is the description for readers.
 */
#ifndef DMI_MSG_WIRE_H
#define DMI_MSG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/member.h"
#include "msg/msg.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lists travel as they lie in memory: DMI needs a little-endian machine"
#endif

/* Changes whenever a header, a number or a layout does.  Both ends must have the same. */
#define DMI_WIRE_VERSION 7

#define DMI_WIRE_HEADER 80

/* The network layer's own: "I send nothing more", the last message of a direction that ends in an
 * orderly way.  Never handed up. */
#define DMI_WIRE_STOP 31

/* Likewise: "does your daemon run?" (kind DMI_WIRE_ASK), and that it does (DMI_WIRE_TELL). */
#define DMI_WIRE_PING 30
#define DMI_WIRE_ASK 1
#define DMI_WIRE_TELL 2

/* Limits in bytes. */
#define DMI_WIRE_NONE ((uint64_t)0)
#define DMI_WIRE_PAGE ((uint64_t)1 << 62)    /* bytes of a page */
#define DMI_WIRE_LIST ((uint64_t)64 << 20)   /* TAKE, KEEP, HOME_TAILS */
#define DMI_WIRE_HOLDERS ((uint64_t)8 << 20) /* GRANT: 2^20 members */
#define DMI_WIRE_CONTROL ((uint64_t)1 << 20)
#define DMI_WIRE_COORD ((uint64_t)64 << 20)    /* what grows with the members or mappings */
#define DMI_WIRE_STRANGER ((uint64_t)64 << 10) /* of a process that is no member yet */

/* Who may send it. */
enum dmi_wire_from {
  DMI_WIRE_NOBODY, /* not a message */
  DMI_WIRE_MEMBER, /* processes of the program */
  DMI_WIRE_ANYBODY /* also a process that has connected but is no member yet */
};

/*
 * THE TABLE: number, name, bytes of a list element (0: no list), most bytes of list, most bytes of
 * body, who may send it.  Numbers up to 127 that are not listed are those of services: no list, a
 * body of at most DMI_WIRE_CONTROL, from members.
 */
/* clang-format off */
#define DMI_WIRE_TABLE(X)                                                                          \
  X(DMI_MSG_GET,         "GET",          0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_READ,        "READ",         0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_PUT,         "PUT",          0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_ATOMIC,      "ATOMIC",      24, 24,               DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_OWN,         "OWN",          0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_GOT,         "GOT",          0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_DATA,        "DATA",         0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_DONE,        "DONE",         0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_FAIL,        "FAIL",         0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_GRANT,       "GRANT",        8, DMI_WIRE_HOLDERS, DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_INVALIDATE,  "INVALIDATE",   0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_INVALIDATED, "INVALIDATED",  0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_UPDATE,      "UPDATE",       0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_UPDATED,     "UPDATED",      0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_RELEASE,     "RELEASE",      0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_TAKE,        "TAKE",        16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_HOME_BEGIN,  "HOME_BEGIN",   0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_HOME_TAILS,  "HOME_TAILS",  16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_HOME_END,    "HOME_END",     0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_HOME_DONE,   "HOME_DONE",    0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_KEEP,        "KEEP",        16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_PASS,        "PASS",         0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_MSG_BLOCK,       "BLOCK",        0, 0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER)  \
  X(DMI_WIRE_PING,       "PING",         0, 0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER)  \
  X(DMI_WIRE_STOP,       "STOP",         0, 0,                DMI_WIRE_NONE,     DMI_WIRE_ANYBODY) \
  X(DMI_CTL_JOIN,        "JOIN",         0, 0,                DMI_WIRE_STRANGER, DMI_WIRE_ANYBODY) \
  X(DMI_CTL_VIEW_TAKEN,  "VIEW_TAKEN",   0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LEAVE_ASK,   "LEAVE_ASK",    0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LEAVE_NO,    "LEAVE_NO",     0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_DRAINED,     "DRAINED",      0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_PARTED,      "PARTED",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_GONE,        "GONE",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_OPENED,      "OPENED",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ADOPTED,     "ADOPTED",      0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_BUSY,        "BUSY",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_IDLE,        "IDLE",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_FORGOT,      "FORGOT",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ENDED,       "ENDED",        0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LOST,        "LOST",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_POLL,        "POLL",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_PEEK,        "PEEK",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_WELCOME,     "WELCOME",      0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_GOODBYE,     "GOODBYE",      0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_NODES,       "NODES",        0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_MMAP,        "MMAP",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LOOKUP,      "LOOKUP",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_MUNMAP,      "MUNMAP",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_THREAD,      "THREAD",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ROOM,        "ROOM",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_REDIRECT,    "REDIRECT",     0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_REFUSE,      "REFUSE",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ACCEPT,      "ACCEPT",       0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_VIEW,        "VIEW",         0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_JOINED,      "JOINED",       0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_OPEN,        "OPEN",         0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LEAVE_GO,    "LEAVE_GO",     0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_PART,        "PART",         0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LEFT,        "LEFT",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_OUT,         "OUT",          0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ADOPT,       "ADOPT",        0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_BUSY_OK,     "BUSY_OK",      0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_FORGET,      "FORGET",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_RESULT,      "RESULT",       0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_END,         "END",          0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_FINISH,      "FINISH",       0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_ABORT,       "ABORT",        0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_COORD,       "COORD",        0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_DRAIN_END,   "DRAIN_END",    0, 0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER)  \
  X(DMI_CTL_DRAIN_OK,    "DRAIN_OK",     0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_BYE,         "BYE",          0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LAST,        "LAST",         0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)  \
  X(DMI_CTL_LAST_OK,     "LAST_OK",      0, 0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER)
/* clang-format on */

/* One row of the table. */
struct dmi_wire_type {
  const char *name;   /* NULL: not a message */
  uint32_t list_size; /* bytes of an element */
  uint32_t from;      /* enum dmi_wire_from */
  uint64_t list_max;  /* bytes */
  uint64_t body_max;  /* bytes */
};

/* The row of a message number; .name is NULL when there is no such message.  Never NULL. */
const struct dmi_wire_type *dmi_wire_type(uint8_t type);

/* NULL when the lengths and the type of `msg` are allowed, else a few words on what is not.
 * `member`: its sender is a member. */
const char *dmi_wire_check(const struct dmi_msg *msg, bool member);

/* The header of `msg`. */
void dmi_wire_put(unsigned char out[DMI_WIRE_HEADER], const struct dmi_msg *msg);

/*
 * The message of a header.  list.len and body.len are set, their bytes are still to come (ptr and
 * frame NULL).  Returns NULL, or what is wrong with it as dmi_wire_check; then nothing that
 * follows on the connection can be understood.
 */
const char *dmi_wire_get(struct dmi_msg *msg, const unsigned char in[DMI_WIRE_HEADER], bool member);

#endif
