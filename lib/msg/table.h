/*
 * table.h - THE TABLE of all messages: number, name, handler, sender and receiver, fields and
 * limits, who may send it. The enum of message numbers, names, checks, dispatch, prototypes of the
 * handlers and counters are made from it; a test compares it with the table of docs/wire.md.
 *
 * A new message needs a row here, a struct in msg.h if no other fits, a handler in any file of the
 * folder that handles its set, a row in docs/wire.md, and the next DMI_WIRE_VERSION. Numbers
 * without a row are invalid.
 *
 * The rows of one set have handlers of one type, which these headers declare:
 *   PAGE core/page_int.h, HANDOVER core/handover_int.h, COORD and MEMBER core/member_int.h,
 *   PULSE core/pulse_int.h, THREAD node/thread_int.h, CAPACITY core/node_int.h, NET net/net_int.h,
 *   REMOTE remote/remote_int.h, TEAM team/team_int.h, SEE node/see_int.h
 */
#ifndef DMI_MSG_TABLE_H
#define DMI_MSG_TABLE_H

#include <stdint.h>

/* Must go up when a header, a number or a layout changes. Both ends of a connection must have
 * the same. */
#define DMI_WIRE_VERSION 25

/* Who handles a message. */
enum dmi_msg_class {
  DMI_CLASS_NOBODY,   /* not a message */
  DMI_CLASS_NET,      /* lib/net itself; the handler does not get it */
  DMI_CLASS_PAGE,     /* a step of one page: core/page.h */
  DMI_CLASS_RECOVER,  /* the recovery from a loss: core/recover.h */
  DMI_CLASS_HANDOVER, /* homes and pages that are handed over: docs/protocol.md R8, R12 */
  DMI_CLASS_MEMBER,   /* membership: core/member.h, docs/membership.md "Messages" */
  DMI_CLASS_THREAD,   /* threads of DMI: docs/threads.md */
  DMI_CLASS_CAPACITY, /* free memory of members: core/capacity.h, docs/replacement.md */
  DMI_CLASS_REMOTE,   /* calls of remote functions: lib/remote, docs/remote.md */
  DMI_CLASS_TEAM,     /* messages between ranks of a team: lib/team, docs/teams.md */
  DMI_CLASS_SEE,      /* what a running process is doing: node/see.h, docs/seeing.md */
  DMI_CLASS_PULSE /* who is alive, and who goes on after a loss: core/pulse.h, docs/crashes.md */
};

/* The sender or receiver of a message: its role for the page, mapping or program. */
enum dmi_msg_role {
  DMI_ANYONE,    /* any member */
  DMI_OWNER,  /* owner of the page, or the member that the hint names */
  DMI_HOLDER, /* has a copy of the page, or may have one */
  DMI_HOME,   /* home of the mapping, which forwards to the tail */
  DMI_ORIGIN, /* the process whose operation it is */
  DMI_LEAVER,
  DMI_HEIR,         /* heir of the leaver */
  DMI_COORD,        /* the coordinator; a receiver may become it soon */
  DMI_COORD_BEFORE, /* the coordinator until the last view */
  DMI_JOINER        /* not a member yet */
};

/* Who may send it; lib/net checks this. */
enum dmi_wire_from {
  DMI_WIRE_NOBODY, /* not a message */
  DMI_WIRE_MEMBER, /* processes of the program */
  DMI_WIRE_ANYBODY /* also a process that is connected but not a member yet */
};

/* Limits in bytes. */
#define DMI_WIRE_NONE ((uint64_t)0)
#define DMI_WIRE_PAGE ((uint64_t)1 << 62)     /* bytes of a page */
#define DMI_WIRE_LIST ((uint64_t)64 << 20)    /* TAKE, REFUSE_PAGE, HOME_TAILS; BACK to DECIDE */
#define DMI_WIRE_REPORTS ((uint64_t)48 << 20) /* REPORT: 2^21 pages */
#define DMI_WIRE_HOLDERS ((uint64_t)8 << 20)  /* GRANT: 2^20 members */
#define DMI_WIRE_CONTROL ((uint64_t)1 << 20)
#define DMI_WIRE_COORD ((uint64_t)64 << 20)    /* bodies that grow with members or mappings */
#define DMI_WIRE_EAGER ((uint64_t)64 << 10)    /* EAGER: longer messages are pulled */
#define DMI_WIRE_SEEN ((uint64_t)16 << 10)     /* SEEN: one piece of an answer */
#define DMI_WIRE_DYING ((uint64_t)1 << 9)      /* DYING: a line */
#define DMI_WIRE_STRANGER ((uint64_t)64 << 10) /* from a process that is not a member yet */

/* Properties of a message for its receiver. */
#define DMI_BRINGS_PAGE 1 /* its body becomes a page of the receiver; these are counted */
#define DMI_LENDABLE 2    /* a thread that waits may receive it (docs/wire.md, "Who receives") */
#define DMI_BORROWS 4     /* its handler may be given a body that lies in the connection's buffer */

/* Symbol, number, name, handler, class, sender, receiver; its struct in struct dmi_msg, flags
 * that it may have, bytes of a list element (0: no list), most bytes of the list, most bytes of
 * the body, who may send it, DMI_BRINGS_PAGE, DMI_LENDABLE, DMI_BORROWS. */
/* clang-format off */

/* About a page. */
#define DMI_MSGS_PAGE(X) \
  X(DMI_MSG_GET,         1,  "GET",         dmi_page_on_request,     DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_OWNER,  SAYS(access), 0,                                      0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BORROWS) \
  X(DMI_MSG_READ,        2,  "READ",        dmi_page_on_request,     DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_OWNER,  SAYS(read),   DMI_F_DIRECT,                           0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_PUT,         3,  "PUT",         dmi_page_on_request,     DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_OWNER,  SAYS(access), 0,                                      0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BORROWS) \
  X(DMI_MSG_ATOMIC,      4,  "ATOMIC",      dmi_page_on_request,     DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_OWNER,  SAYS(atomic), DMI_F_WAITING,                          24, 24,               DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BORROWS) \
  X(DMI_MSG_OWN,         5,  "OWN",         dmi_page_on_request,     DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_HOME,   SAYS(own),    DMI_F_HAVE | DMI_F_NODATA | DMI_F_TAIL, 0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_GOT,         6,  "GOT",         dmi_answer_message,      DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_ORIGIN, SAYS(got),    DMI_F_ZERO,                             0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_LENDABLE | DMI_BORROWS) \
  X(DMI_MSG_DATA,        7,  "DATA",        dmi_data_arrives,        DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_ORIGIN, SAYS(data),   DMI_F_ZERO | DMI_F_DELEGATED,           0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BRINGS_PAGE | DMI_LENDABLE) \
  X(DMI_MSG_DONE,        8,  "DONE",        dmi_answer_message,      DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_ORIGIN, SAYS(done),   DMI_F_APPLY,                            0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_LENDABLE | DMI_BORROWS) \
  X(DMI_MSG_FAIL,        9,  "FAIL",        dmi_answer_message,      DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_ORIGIN, SAYS(fail),   0,                                      0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_MSG_GRANT,       10, "GRANT",       dmi_owner_grant_arrives, DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_ORIGIN, SAYS(grant),  DMI_F_ZERO | DMI_F_HAVE | DMI_F_NODATA | DMI_F_LOST, 8,  DMI_WIRE_HOLDERS, DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BRINGS_PAGE) \
  X(DMI_MSG_INVALIDATE,  11, "INVALIDATE",  dmi_copy_message,        DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_HOLDER, SAYS(copy),   0,                                      0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_INVALIDATED, 12, "INVALIDATED", dmi_write_ack,           DMI_CLASS_PAGE, \
    DMI_HOLDER, DMI_OWNER,  SAYS(copy),   0,                                      0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_UPDATE,      13, "UPDATE",      dmi_page_on_update,      DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_HOLDER, SAYS(update), 0,                                      0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_UPDATED,     14, "UPDATED",     dmi_write_ack,           DMI_CLASS_PAGE, \
    DMI_HOLDER, DMI_OWNER,  SAYS(copy),   DMI_F_DROPPED,                          0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_RELEASE,     15, "RELEASE",     dmi_copy_message,        DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_HOLDER, SAYS(copy),   0,                                      0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_DELEGATE,    22, "DELEGATE",    dmi_page_on_delegate,    DMI_CLASS_PAGE, \
    DMI_OWNER,  DMI_HOLDER, SAYS(delegate), 0,                                    0,  0,                DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_BLOCK,       23, "BLOCK",       dmi_block_arrives,       DMI_CLASS_PAGE, \
    DMI_ANYONE,    DMI_ORIGIN, SAYS(block),  DMI_F_DELEGATED,                        0,  0,                DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_BRINGS_PAGE | DMI_LENDABLE)

/* About homes and pages that are handed over. */
#define DMI_MSGS_HANDOVER(X) \
  X(DMI_MSG_TAKE,        16, "TAKE",        dmi_handover_on_take,        DMI_CLASS_HANDOVER, \
    DMI_OWNER,  DMI_ANYONE,    NOTHING,    DMI_F_MUST, 16, DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_HOME_BEGIN,  17, "HOME_BEGIN",  dmi_handover_on_home_begin,  DMI_CLASS_HANDOVER, \
    DMI_LEAVER, DMI_HEIR,   SAYS(home), DMI_F_LOST, 0,  0,             DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_HOME_TAILS,  18, "HOME_TAILS",  dmi_handover_on_home_tails,  DMI_CLASS_HANDOVER, \
    DMI_LEAVER, DMI_HEIR,   NOTHING,    0,          16, DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_HOME_END,    19, "HOME_END",    dmi_handover_on_home_end,    DMI_CLASS_HANDOVER, \
    DMI_LEAVER, DMI_HEIR,   NOTHING,    0,          0,  0,             DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_HOME_DONE,   20, "HOME_DONE",   dmi_handover_on_home_done,   DMI_CLASS_HANDOVER, \
    DMI_HEIR,   DMI_LEAVER, NOTHING,    0,          0,  0,             DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_REFUSE_PAGE, 21, "REFUSE_PAGE", dmi_handover_on_refuse_page, DMI_CLASS_HANDOVER, \
    DMI_ANYONE,    DMI_OWNER,  NOTHING,    DMI_F_MUST, 16, DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0)

/* Of the recovery from a loss. */
#define DMI_MSGS_RECOVER(X) \
  X(DMI_MSG_CHANNEL_CUT, 24, "CUT",    dmi_recover_on_cut,    DMI_CLASS_RECOVER, \
    DMI_ANYONE,  DMI_ANYONE,    SAYS(recover), 0, 0,  0,             DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_BACK,   25, "BACK",   dmi_recover_on_back,   DMI_CLASS_RECOVER, \
    DMI_ANYONE,  DMI_ORIGIN, SAYS(recover), 0, 16, DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_REPORT, 26, "REPORT", dmi_recover_on_report, DMI_CLASS_RECOVER, \
    DMI_ANYONE,  DMI_HOME,   SAYS(report),  DMI_F_LOST, 24, DMI_WIRE_REPORTS, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_ASK,    27, "ASK",    dmi_recover_on_ask,    DMI_CLASS_RECOVER, \
    DMI_HOME, DMI_ANYONE,    SAYS(recover), 0, 8,  DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_DECIDE, 28, "DECIDE", dmi_recover_on_decide, DMI_CLASS_RECOVER, \
    DMI_HOME, DMI_HOLDER, SAYS(recover), 0, 8,  DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_MARKED, 29, "MARKED", dmi_recover_on_marked, DMI_CLASS_RECOVER, \
    DMI_HOLDER, DMI_HOME, SAYS(recover), 0, 0,  0,             DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_TELLS,  112, "TELLS", dmi_recover_on_tells,  DMI_CLASS_RECOVER, \
    DMI_ANYONE,  DMI_COORD,  SAYS(round),   0, 8,  DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_MSG_TELLERS, 113, "TELLERS", dmi_recover_on_tellers, DMI_CLASS_RECOVER, \
    DMI_COORD, DMI_ANYONE,   SAYS(round),   0, 8,  DMI_WIRE_LIST, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0)

/* Of the network layer itself. */
#define DMI_MSGS_NET(X) \
  X(DMI_MSG_PING, 30, "PING", dmi_alive_ping,  DMI_CLASS_NET, \
    DMI_ANYONE, DMI_ANYONE, SAYS(ping), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER,  0) \
  X(DMI_MSG_FIN,  31, "FIN",  dmi_receive_fin, DMI_CLASS_NET, \
    DMI_ANYONE, DMI_ANYONE, NOTHING,    0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_ANYBODY, 0)

/* Of membership, for the coordinator. */
#define DMI_MSGS_COORD(X) \
  X(DMI_CTL_VIEW_TAKEN,  33, "VIEW_TAKEN",  dmi_coord_on_taken,       DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_COORD,   DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LEAVE_ASK,   34, "LEAVE_ASK",   dmi_coord_on_leave_ask,   DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LEAVE_NO,    35, "LEAVE_NO",    dmi_coord_on_leave_no,    DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_DRAINED,     36, "DRAINED",     dmi_coord_on_drained,     DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_COORD,   DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_FLUSHED,     37, "FLUSHED",     dmi_coord_on_flushed,     DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_EXITED,      38, "EXITED",      dmi_coord_on_exited,      DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_OPENED,      39, "OPENED",      dmi_coord_on_opened,      DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_ADOPTED,     40, "ADOPTED",     dmi_directory_on_adopted, DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_BUSY,        41, "BUSY",        dmi_coord_on_busy,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_IDLE,        42, "IDLE",        dmi_coord_on_idle,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_FORGOT,      43, "FORGOT",      dmi_directory_on_forgot,  DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_ENDED,       44, "ENDED",       dmi_coord_on_ended,       DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LOST,        45, "LOST",        dmi_coord_on_lost,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_POLL,        46, "POLL",        dmi_coord_on_poll,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PEEK,        47, "PEEK",        dmi_coord_on_poll,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_WELCOME,     48, "WELCOME",     dmi_coord_on_welcome,     DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_GOODBYE,     49, "GOODBYE",     dmi_coord_on_goodbye,     DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_NODES,       50, "NODES",       dmi_coord_on_nodes,       DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_MMAP,        51, "MMAP",        dmi_directory_on_mmap,    DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LOOKUP,      52, "LOOKUP",      dmi_directory_on_lookup,  DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_MUNMAP,      53, "MUNMAP",      dmi_directory_on_munmap,  DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_THREAD,      54, "THREAD",      dmi_directory_on_thread,  DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LEAVE_RETRY, 55, "LEAVE_RETRY", dmi_coord_on_leave_retry, DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_STATE,       90, "STATE",       dmi_coord_on_state,       DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_COORD,   DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_READY,       91, "READY",       dmi_coord_on_ready,       DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_NOTICE_OK,   92, "NOTICE_OK",   dmi_coord_on_notice_ok,   DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_RESERVED,   108, "RESERVED",    dmi_directory_on_reserved, DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_ROOT_SET,    109, "ROOT_SET",   dmi_coord_on_root_set,    DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_ROOT_GET,    110, "ROOT_GET",   dmi_coord_on_root_get,    DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_SURVIVE,    114, "SURVIVE",     dmi_coord_on_survive,     DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_MAIN,       111, "MAIN",        dmi_coord_on_main,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_STOP,       115, "STOP",        dmi_coord_on_stop,        DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_NOTIFY,     116, "NOTIFY",      dmi_coord_on_notify,      DMI_CLASS_MEMBER, \
    DMI_ANYONE, DMI_COORD, SAYS(member), DMI_F_AGAIN, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0)

/* Of membership, for members and joiners. */
#define DMI_MSGS_MEMBER(X) \
  X(DMI_CTL_JOIN,            32, "JOIN",            dmi_member_on_join,            DMI_CLASS_MEMBER, \
    DMI_JOINER,       DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_STRANGER, DMI_WIRE_ANYBODY, 0) \
  X(DMI_CTL_REDIRECT,        56, "REDIRECT",        dmi_member_on_redirect,        DMI_CLASS_MEMBER, \
    DMI_ANYONE,          DMI_JOINER, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_REFUSE,          57, "REFUSE",          dmi_member_on_refuse,          DMI_CLASS_MEMBER, \
    DMI_ANYONE,          DMI_JOINER, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_ACCEPT,          58, "ACCEPT",          dmi_member_on_accept,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_JOINER, SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_VIEW,            59, "VIEW",            dmi_member_on_view,            DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_JOINED,          60, "JOINED",          dmi_member_on_joined,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_OPEN,            61, "OPEN",            dmi_member_on_open,            DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_LEAVE_GO,        62, "LEAVE_GO",        dmi_member_on_leave_go,        DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_FLUSH,           63, "FLUSH",           dmi_member_on_flush,           DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_LEFT,            64, "LEFT",            dmi_member_on_left,            DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_EXIT,            65, "EXIT",            dmi_member_on_exit,            DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_ADOPT,           66, "ADOPT",           dmi_member_on_adopt,           DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_BUSY_OK,         67, "BUSY_OK",         dmi_member_on_busy_ok,         DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_FORGET,          68, "FORGET",          dmi_member_on_forget,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_RESULT,          69, "RESULT",          dmi_member_on_result,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_END,             70, "END",             dmi_member_on_end,             DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_FINISH,          71, "FINISH",          dmi_member_on_finish,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_ABORT,           72, "ABORT",           dmi_member_on_abort,           DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_COORD,           73, "COORD",           dmi_coord_on_handed,           DMI_CLASS_MEMBER, \
    DMI_COORD_BEFORE, DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_RESERVE,        107, "RESERVE",         dmi_member_on_reserve,         DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_DRAIN_END,       74, "DRAIN_END",       dmi_member_on_drain_end,       DMI_CLASS_MEMBER, \
    DMI_LEAVER,       DMI_HEIR,   SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_DRAIN_OK,        75, "DRAIN_OK",        dmi_member_on_drain_ok,        DMI_CLASS_MEMBER, \
    DMI_HEIR,         DMI_LEAVER, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_LAST_REQUEST,    76, "LAST_REQUEST",    dmi_member_on_last_request,    DMI_CLASS_MEMBER, \
    DMI_ANYONE,          DMI_LEAVER, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_LAST_MESSAGE,    77, "LAST_MESSAGE",    dmi_member_on_last_message,    DMI_CLASS_MEMBER, \
    DMI_LEAVER,       DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_LAST_MESSAGE_OK, 78, "LAST_MESSAGE_OK", dmi_member_on_last_message_ok, DMI_CLASS_MEMBER, \
    DMI_ANYONE,          DMI_LEAVER, SAYS(member), 0, 0, 0, DMI_WIRE_CONTROL,  DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_RECOVER,         93, "RECOVER",         dmi_member_on_recover,         DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_RESUME,          94, "RESUME",          dmi_member_on_resume,          DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_COORD,    DMI_WIRE_MEMBER,  0) \
  X(DMI_CTL_NOTED,          117, "NOTED",           dmi_member_on_noted,           DMI_CLASS_MEMBER, \
    DMI_COORD,        DMI_ANYONE,    SAYS(member), 0, 0, 0, DMI_WIRE_NONE,     DMI_WIRE_MEMBER,  0)

/* About who is alive, and who goes on after a loss. */
#define DMI_MSGS_PULSE(X) \
  X(DMI_CTL_PULSE,     79, "PULSE",     dmi_pulse_on_pulse,      DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(pulse),    0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PULSE_OK,  80, "PULSE_OK",  dmi_pulse_on_pulse_ok,   DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(pulse_ok), 0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PROBE,     81, "PROBE",     dmi_pulse_on_probe,      DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(probe),    0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PROBED,    82, "PROBED",    dmi_pulse_on_probed,     DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(probe),    0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_DEAD,      83, "DEAD",      dmi_pulse_on_dead,       DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(probe),    0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_LINK_LOST, 84, "LINK_LOST", dmi_pulse_on_link_lost,  DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_COORD, SAYS(probe),    0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PREPARE,   85, "PREPARE",   dmi_crash_on_prepare,    DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(ballot),   0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PROMISE,   86, "PROMISE",   dmi_crash_on_promise,    DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_ANYONE,   SAYS(promise),  0, 0, 0, DMI_WIRE_COORD, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_PROPOSE,   87, "PROPOSE",   dmi_crash_on_propose,    DMI_CLASS_PULSE, \
    DMI_COORD, DMI_ANYONE,   SAYS(propose),  0, 0, 0, DMI_WIRE_COORD, DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_ACCEPTED,  88, "ACCEPTED",  dmi_crash_on_accepted,   DMI_CLASS_PULSE, \
    DMI_ANYONE,   DMI_COORD, SAYS(accepted), 0, 0, 0, DMI_WIRE_NONE,  DMI_WIRE_MEMBER, 0) \
  X(DMI_CTL_DECIDED,   89, "DECIDED",   dmi_crash_on_decided,    DMI_CLASS_PULSE, \
    DMI_COORD, DMI_ANYONE,   SAYS(ballot),   0, 0, 0, DMI_WIRE_COORD, DMI_WIRE_MEMBER, 0)

/* About threads. */
#define DMI_MSGS_THREAD(X) \
  X(DMI_SVC_CREATE,   96,  "CREATE",        dmi_thread_on_create,  DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(create),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_CREATED,  97,  "CREATED",       dmi_thread_on_created, DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(created), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_JOIN,     98,  "THREAD_JOIN",   dmi_thread_on_join,    DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(thread),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_JOINED,   99,  "THREAD_JOINED", dmi_thread_on_joined,  DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(joined),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_DETACH,   100, "DETACH",        dmi_thread_on_detach,  DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(thread),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_DETACHED, 101, "DETACHED",      dmi_thread_on_answer,  DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(answer),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_WAKE,     102, "WAKE",          dmi_thread_on_wake,    DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(thread),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_WOKEN,    103, "WOKEN",         dmi_thread_on_answer,  DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(answer),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_WAKE_WITH, 118, "WAKE_WITH",    dmi_thread_on_wake_with, DMI_CLASS_THREAD, \
    DMI_ANYONE, DMI_ANYONE, SAYS(thread),  0, 0, 0, DMI_WIRE_PAGE, DMI_WIRE_MEMBER, 0)

/* About capacity. */
#define DMI_MSGS_CAPACITY(X) \
  X(DMI_SVC_CAPACITY_ASK,    104, "CAPACITY_ASK",    dmi_node_on_capacity_ask,    DMI_CLASS_CAPACITY, \
    DMI_ANYONE, DMI_ANYONE, SAYS(capacity_ask),  DMI_F_URGENT, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_CAPACITY_REPORT, 105, "CAPACITY_REPORT", dmi_node_on_capacity_report, DMI_CLASS_CAPACITY, \
    DMI_ANYONE, DMI_ANYONE, SAYS(capacity_report), 0,            0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_SVC_CAPACITY_RETURN, 106, "CAPACITY_RETURN", dmi_node_on_capacity_return, DMI_CLASS_CAPACITY, \
    DMI_ANYONE, DMI_ANYONE, SAYS(capacity_return), 0,            0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0)

/* About calls of remote functions. */
#define DMI_MSGS_REMOTE(X) \
  X(DMI_RMT_SERVES,    119, "SERVES",    dmi_remote_on_serves, DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_CALL,      120, "CALL",      dmi_remote_on_call,   DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_PAGE,    DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_WANT,      121, "WANT",      dmi_remote_on_want,   DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_HAVE,      122, "HAVE",      dmi_remote_on_have,   DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_DONE,      123, "CALL_DONE", dmi_remote_on_done,   DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_PAGE,    DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_RETURN,    124, "RETURN",    dmi_remote_on_return, DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_STEAL,     125, "STEAL",     dmi_remote_on_steal,  DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_STOLEN,    126, "STOLEN",    dmi_remote_on_stolen, DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_DROP,      127, "DROP",      dmi_remote_on_drop,   DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_CLOSE,     128, "CLOSE",     dmi_remote_on_close,  DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_ARENA,     129, "ARENA",     dmi_remote_on_arena,  DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0) \
  X(DMI_RMT_FIRED,     139, "FIRED",     dmi_remote_on_fired,  DMI_CLASS_REMOTE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(remote), 0, 0, 0, DMI_WIRE_CONTROL, DMI_WIRE_MEMBER, 0)

/* Between ranks of a team. */
#define DMI_MSGS_TEAM(X) \
  X(DMI_TEAM_EAGER,   130, "EAGER",    dmi_team_port_on_eager,    DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), DMI_F_COLLECTIVE, 0, 0, DMI_WIRE_EAGER, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_OFFER,   131, "OFFER",    dmi_team_port_on_offer,    DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), DMI_F_COLLECTIVE, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_PULL,    132, "PULL",     dmi_team_port_on_pull,     DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_BODY,    133, "BODY",     dmi_team_port_on_body,     DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), DMI_F_GONE, 0, 0, DMI_WIRE_PAGE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_PULLED,  134, "PULLED",   dmi_team_port_on_pulled,   DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_CREDIT,  135, "CREDIT",   dmi_team_port_on_credit,   DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, DMI_LENDABLE) \
  X(DMI_TEAM_RESET,   136, "RESET",    dmi_team_port_on_reset,    DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_TEAM_EPOCH,   137, "EPOCH",    dmi_team_port_on_epoch,    DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0) \
  X(DMI_TEAM_LEAVE,   138, "LEAVE",    dmi_team_port_on_leave,    DMI_CLASS_TEAM, \
    DMI_ANYONE, DMI_ANYONE, SAYS(team), 0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_MEMBER, 0)

/* For those who look at a running program. */
#define DMI_MSGS_SEE(X) \
  X(DMI_SEE_ASK,      150, "SEE",      dmi_see_on_ask,    DMI_CLASS_SEE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(see),  0, 0, 0, DMI_WIRE_NONE, DMI_WIRE_ANYBODY, 0) \
  X(DMI_SEE_ANSWER,   151, "SEEN",     dmi_see_on_answer, DMI_CLASS_SEE, \
    DMI_ANYONE, DMI_ANYONE, SAYS(seen), 0, 0, 0, DMI_WIRE_SEEN, DMI_WIRE_MEMBER, 0) \
  X(DMI_SEE_DYING,    152, "DYING",    dmi_see_on_dying,  DMI_CLASS_SEE, \
    DMI_ANYONE, DMI_ANYONE, NOTHING,    0, 0, 0, DMI_WIRE_DYING, DMI_WIRE_MEMBER, 0)

/* clang-format on */

#define DMI_MSG_TABLE(X) \
  DMI_MSGS_PAGE(X)       \
  DMI_MSGS_HANDOVER(X)   \
  DMI_MSGS_RECOVER(X)    \
  DMI_MSGS_NET(X)        \
  DMI_MSGS_COORD(X)      \
  DMI_MSGS_MEMBER(X)     \
  DMI_MSGS_PULSE(X)      \
  DMI_MSGS_THREAD(X)     \
  DMI_MSGS_CAPACITY(X)   \
  DMI_MSGS_REMOTE(X)     \
  DMI_MSGS_TEAM(X)       \
  DMI_MSGS_SEE(X)

#define DMI_MSG_TABLE_ENUM(symbol, number, ...) symbol = number,
enum dmi_msg_type { DMI_MSG_TABLE(DMI_MSG_TABLE_ENUM) };

/* One more than the highest number. */
#define DMI_MSG_TABLE_BYTES(symbol, number, ...) char symbol##_[(number) + 1];
union dmi_msg_numbers {
  DMI_MSG_TABLE(DMI_MSG_TABLE_BYTES)
};
#define DMI_MSG_NUMBERS sizeof(union dmi_msg_numbers)

#endif
