/*
 * table.h - THE TABLE of all messages: number, name, who handles it, who sends it to whom, what it
 * may carry, who may send it.  The enum of message numbers, names, checks, dispatch and
 * counters come from it; the table of docs/wire.md is compared with it by a test.
 *
 * A new message: a row here, its struct in msg.h if no other fits, a `case` where its class is
 * handled, a row in docs/wire.md.  Numbers
 * that are not listed are no messages.
 */
#ifndef DMI_MSG_TABLE_H
#define DMI_MSG_TABLE_H

#include <stdint.h>

/* Who handles a message. */
enum dmi_msg_class {
  DMI_CLASS_NOBODY,   /* not a message */
  DMI_CLASS_NET,      /* the network layer itself; never handed up */
  DMI_CLASS_PAGE,     /* a step of one page: core/page.h */
  DMI_CLASS_HANDOVER, /* homes and pages that change hands: docs/protocol.md R8, R12 */
  DMI_CLASS_MEMBER,   /* membership: core/member.h, docs/membership.md "Messages" */
  DMI_CLASS_THREAD,   /* threads of DMI: docs/threads.md */
  DMI_CLASS_CAPACITY  /* capacity of members for pages: core/capacity.h, docs/replacement.md */
};

/* Who sends a message, and to whom: what a process is to the page, mapping or program. */
enum dmi_msg_role {
  DMI_ANY,    /* any member */
  DMI_OWNER,  /* of the page, or who is believed to be it */
  DMI_HOLDER, /* has a copy of it, or may have */
  DMI_HOME,   /* of the mapping, and from there the tail */
  DMI_ORIGIN, /* whose operation it is */
  DMI_LEAVER,
  DMI_HEIR,  /* of the leaver */
  DMI_COORD, /* the coordinator; as receiver it may be about to become it */
  DMI_JOINER /* no member yet */
};

/* Who may send it: checked by the network. */
enum dmi_wire_from {
  DMI_WIRE_NOBODY, /* not a message */
  DMI_WIRE_MEMBER, /* processes of the program */
  DMI_WIRE_ANYBODY /* also a process that has connected but is no member yet */
};

/* Limits in bytes. */
#define DMI_WIRE_NONE ((uint64_t)0)
#define DMI_WIRE_PAGE ((uint64_t)1 << 62)    /* bytes of a page */
#define DMI_WIRE_LIST ((uint64_t)64 << 20)   /* TAKE, REFUSE_PAGE, HOME_TAILS */
#define DMI_WIRE_HOLDERS ((uint64_t)8 << 20) /* GRANT: 2^20 members */
#define DMI_WIRE_CONTROL ((uint64_t)1 << 20)
#define DMI_WIRE_COORD ((uint64_t)64 << 20)    /* what grows with the members or mappings */
#define DMI_WIRE_STRANGER ((uint64_t)64 << 10) /* of a process that is no member yet */

/* Symbol, number, name, class, sender, receiver; the member of struct dmi_msg with what is its own,
 * flags it may have, bytes of a list element (0: no list), most bytes of list, most bytes of body,
 * who may send it, does its body become a page of the receiver (those are counted)? */
/* clang-format off */
#define DMI_MSG_TABLE(X) \
  X(DMI_MSG_GET,         1,   "GET",           DMI_CLASS_PAGE,     DMI_ANY,    DMI_OWNER,  SAYS(access),    0,                                      \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_READ,        2,   "READ",          DMI_CLASS_PAGE,     DMI_ANY,    DMI_OWNER,  SAYS(read),      DMI_F_DIRECT,                           \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_PUT,         3,   "PUT",           DMI_CLASS_PAGE,     DMI_ANY,    DMI_OWNER,  SAYS(access),    0,                                      \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_ATOMIC,      4,   "ATOMIC",        DMI_CLASS_PAGE,     DMI_ANY,    DMI_OWNER,  SAYS(atomic),    DMI_F_WAITING,                           \
    24, 24,               DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_OWN,         5,   "OWN",           DMI_CLASS_PAGE,     DMI_ANY,    DMI_HOME,   SAYS(own),       DMI_F_HAVE | DMI_F_NODATA | DMI_F_TAIL, \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_GOT,         6,   "GOT",           DMI_CLASS_PAGE,     DMI_OWNER,  DMI_ORIGIN, SAYS(got),       DMI_F_ZERO,                             \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_DATA,        7,   "DATA",          DMI_CLASS_PAGE,     DMI_ANY,    DMI_ORIGIN, SAYS(data),      DMI_F_ZERO | DMI_F_DELEGATED,              \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  true)                                                                                \
  X(DMI_MSG_DONE,        8,   "DONE",          DMI_CLASS_PAGE,     DMI_OWNER,  DMI_ORIGIN, SAYS(done),      DMI_F_APPLY,                            \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_FAIL,        9,   "FAIL",          DMI_CLASS_PAGE,     DMI_ANY,    DMI_ORIGIN, SAYS(fail),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_GRANT,       10,  "GRANT",         DMI_CLASS_PAGE,     DMI_OWNER,  DMI_ORIGIN, SAYS(grant),     DMI_F_ZERO | DMI_F_HAVE | DMI_F_NODATA, \
    8,  DMI_WIRE_HOLDERS, DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  true)                                                                                \
  X(DMI_MSG_INVALIDATE,  11,  "INVALIDATE",    DMI_CLASS_PAGE,     DMI_OWNER,  DMI_HOLDER, SAYS(copy),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_INVALIDATED, 12,  "INVALIDATED",   DMI_CLASS_PAGE,     DMI_HOLDER, DMI_OWNER,  SAYS(copy),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_UPDATE,      13,  "UPDATE",        DMI_CLASS_PAGE,     DMI_OWNER,  DMI_HOLDER, SAYS(update),    0,                                      \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_UPDATED,     14,  "UPDATED",       DMI_CLASS_PAGE,     DMI_HOLDER, DMI_OWNER,  SAYS(copy),      DMI_F_DROPPED,                          \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_RELEASE,     15,  "RELEASE",       DMI_CLASS_PAGE,     DMI_OWNER,  DMI_HOLDER, SAYS(copy),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_TAKE,        16,  "TAKE",          DMI_CLASS_HANDOVER, DMI_OWNER,  DMI_ANY,    NOTHING,         DMI_F_MUST,                             \
    16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_HOME_BEGIN,  17,  "HOME_BEGIN",    DMI_CLASS_HANDOVER, DMI_LEAVER, DMI_HEIR,   SAYS(home),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_HOME_TAILS,  18,  "HOME_TAILS",    DMI_CLASS_HANDOVER, DMI_LEAVER, DMI_HEIR,   NOTHING,         0,                                      \
    16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_HOME_END,    19,  "HOME_END",      DMI_CLASS_HANDOVER, DMI_LEAVER, DMI_HEIR,   NOTHING,         0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_HOME_DONE,   20,  "HOME_DONE",     DMI_CLASS_HANDOVER, DMI_HEIR,   DMI_LEAVER, NOTHING,         0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_REFUSE_PAGE,        21,  "REFUSE_PAGE",          DMI_CLASS_HANDOVER, DMI_ANY,    DMI_OWNER,  NOTHING,         DMI_F_MUST,                             \
    16, DMI_WIRE_LIST,    DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_DELEGATE,        22,  "DELEGATE",          DMI_CLASS_PAGE,     DMI_OWNER,  DMI_HOLDER, SAYS(pass),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_BLOCK,       23,  "BLOCK",         DMI_CLASS_PAGE,     DMI_ANY,    DMI_ORIGIN, SAYS(block),     DMI_F_DELEGATED,                           \
    0,  0,                DMI_WIRE_PAGE,     DMI_WIRE_MEMBER,  true)                                                                                \
  X(DMI_MSG_PING,        30,  "PING",          DMI_CLASS_NET,      DMI_ANY,    DMI_ANY,    SAYS(ping),      0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_MSG_FIN,        31,  "FIN",          DMI_CLASS_NET,      DMI_ANY,    DMI_ANY,    NOTHING,         0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_ANYBODY, false)                                                                               \
  X(DMI_CTL_JOIN,        32,  "JOIN",          DMI_CLASS_MEMBER,   DMI_JOINER, DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_STRANGER, DMI_WIRE_ANYBODY, false)                                                                               \
  X(DMI_CTL_VIEW_TAKEN,  33,  "VIEW_TAKEN",    DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LEAVE_ASK,   34,  "LEAVE_ASK",     DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LEAVE_NO,    35,  "LEAVE_NO",      DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_DRAINED,     36,  "DRAINED",       DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_FLUSHED,      37,  "FLUSHED",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_EXITED,        38,  "EXITED",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_OPENED,      39,  "OPENED",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_ADOPTED,     40,  "ADOPTED",       DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_BUSY,        41,  "BUSY",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_IDLE,        42,  "IDLE",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_FORGOT,      43,  "FORGOT",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_ENDED,       44,  "ENDED",         DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LOST,        45,  "LOST",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_POLL,        46,  "POLL",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_PEEK,        47,  "PEEK",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_WELCOME,     48,  "WELCOME",       DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_GOODBYE,     49,  "GOODBYE",       DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_NODES,       50,  "NODES",         DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_MMAP,        51,  "MMAP",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LOOKUP,      52,  "LOOKUP",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_MUNMAP,      53,  "MUNMAP",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_THREAD,      54,  "THREAD",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LEAVE_RETRY,        55,  "LEAVE_RETRY",          DMI_CLASS_MEMBER,   DMI_ANY,    DMI_COORD,  SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_REDIRECT,    56,  "REDIRECT",      DMI_CLASS_MEMBER,   DMI_ANY,    DMI_JOINER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_REFUSE,      57,  "REFUSE",        DMI_CLASS_MEMBER,   DMI_ANY,    DMI_JOINER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_ACCEPT,      58,  "ACCEPT",        DMI_CLASS_MEMBER,   DMI_COORD,  DMI_JOINER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_VIEW,        59,  "VIEW",          DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_JOINED,      60,  "JOINED",        DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_OPEN,        61,  "OPEN",          DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LEAVE_GO,    62,  "LEAVE_GO",      DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_FLUSH,        63,  "FLUSH",          DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LEFT,        64,  "LEFT",          DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_EXIT,         65,  "EXIT",           DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_ADOPT,       66,  "ADOPT",         DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_BUSY_OK,     67,  "BUSY_OK",       DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_FORGET,      68,  "FORGET",        DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_RESULT,      69,  "RESULT",        DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_END,         70,  "END",           DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_FINISH,      71,  "FINISH",        DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_ABORT,       72,  "ABORT",         DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_COORD,       73,  "COORD",         DMI_CLASS_MEMBER,   DMI_COORD,  DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_DRAIN_END,   74,  "DRAIN_END",     DMI_CLASS_MEMBER,   DMI_LEAVER, DMI_HEIR,   SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_DRAIN_OK,    75,  "DRAIN_OK",      DMI_CLASS_MEMBER,   DMI_HEIR,   DMI_LEAVER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LAST_REQUEST,         76,  "LAST_REQUEST",           DMI_CLASS_MEMBER,   DMI_ANY,    DMI_LEAVER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LAST_MESSAGE,        77,  "LAST_MESSAGE",          DMI_CLASS_MEMBER,   DMI_LEAVER, DMI_ANY,    SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_CTL_LAST_MESSAGE_OK,     78,  "LAST_MESSAGE_OK",       DMI_CLASS_MEMBER,   DMI_ANY,    DMI_LEAVER, SAYS(member),    0,                                      \
    0,  0,                DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_CREATE,      96,  "CREATE",        DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(create),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_CREATED,     97,  "CREATED",       DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(created),   0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_JOIN,        98,  "THREAD_JOIN",   DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(thread),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_JOINED,      99,  "THREAD_JOINED", DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(joined),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_DETACH,      100, "DETACH",        DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(thread),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_DETACHED,    101, "DETACHED",      DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(answer),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_WAKE,        102, "WAKE",          DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(thread),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_WOKEN,       103, "WOKEN",         DMI_CLASS_THREAD,   DMI_ANY,    DMI_ANY,    SAYS(answer),    0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_CAPACITY_ASK,    104, "CAPACITY_ASK",      DMI_CLASS_CAPACITY,     DMI_ANY,    DMI_ANY,    SAYS(capacity_ask),  DMI_F_URGENT,                           \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_CAPACITY_REPORT,   105, "CAPACITY_REPORT",     DMI_CLASS_CAPACITY,     DMI_ANY,    DMI_ANY,    SAYS(capacity_tell), 0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)                                                                               \
  X(DMI_SVC_CAPACITY_RETURN,   106, "CAPACITY_RETURN",     DMI_CLASS_CAPACITY,     DMI_ANY,    DMI_ANY,    SAYS(capacity_back), 0,                                      \
    0,  0,                DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  false)
/* clang-format on */

#define DMI_MSG_TABLE_ENUM(symbol, number, ...) symbol = number,
enum dmi_msg_type {
  DMI_MSG_TABLE(DMI_MSG_TABLE_ENUM) /* the rows are in order of their numbers, so this is: */
  DMI_MSG_NUMBERS                   /* one more than the highest */
};

#endif
