/*
 * msg.h - the messages of the page protocol as the core sees them (docs/protocol.md, "Messages").
 *
 * The wire layer turns them into bytes and back; the simulator passes them on as they are.
 */
#ifndef DMI_MSG_MSG_H
#define DMI_MSG_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "msg/table.h"
#include "msg/types.h"

/* dmi_msg.flags: each bit has one meaning */
#define DMI_F_ZERO 0x0001      /* GOT, DATA, GRANT: all bytes are zero, none are carried */
#define DMI_F_HAVE 0x0002      /* OWN: `version` is that of my copy.  GRANT: use your copy */
#define DMI_F_NODATA 0x0004    /* OWN: I overwrite the whole page.  GRANT: no bytes, as asked */
#define DMI_F_APPLY 0x0008     /* DONE: change your copy too */
#define DMI_F_DROPPED 0x0010   /* UPDATED: I have no copy (any more) */
#define DMI_F_DIRECT 0x0020    /* READ: the owner itself shall send it (R13) */
#define DMI_F_DELEGATED 0x0040 /* DATA, BLOCK: not from the owner (R13) */
#define DMI_F_TAIL 0x0080      /* OWN: the home sends it to the tail */
#define DMI_F_WAITING 0x0100   /* ATOMIC: waits at the owner, and moves with the ownership (R11) */
#define DMI_F_MUST                                                                               \
  0x0200 /* TAKE: memory was promised, or you are the heir: take it; REFUSE_PAGE: answers such a \
            TAKE */
#define DMI_F_URGENT \
  0x0400 /* CAPACITY_ASK: answer it at once, whatever is in use only transiently */

#define DMI_F_LOST                                                                            \
  0x0800 /* GRANT: the page is LOST (docs/crashes-pages.md); HOME_BEGIN: so are pages without \
            a record */
#define DMI_F_AGAIN \
  0x1000 /* calls of the coordinator: the one before may have done it, and is lost */

/* Kinds of copies: in READ, DATA, DELEGATE and BLOCK, and in copysets. */
#define DMI_KIND_INVALIDATE 1
#define DMI_KIND_UPDATE 2

/* Kinds of PING */
#define DMI_WIRE_ASK 1  /* does your daemon run? */
#define DMI_WIRE_TELL 2 /* it does */

/* One range of a list. */
struct dmi_range {
  uint64_t off; /* in the page */
  uint64_t len; /* bytes */
};

/* What an ATOMIC does. */
enum dmi_rmw {
  DMI_RMW_CAS = 1,
  DMI_RMW_FAS,
  DMI_RMW_FAD,
  DMI_RMW_USER,
  DMI_RMW_CLAIM, /* fill free cells of a table: input dmi_claim[], answer: how many were not free */
  DMI_RMW_HEAP,  /* a step of the allocator: core/heap.h */
  /* core/syncop.h says what these do */
  DMI_RMW_TRYLOCK, /* take the lock if nobody has it */
  DMI_RMW_SIGNAL,  /* let waiters of a condition go */
  DMI_RMW_TICKET,  /* take a ticket; the wait, TURN, is an operation of its own */
  /* may wait at the owner (R11) */
  DMI_RMW_LOCK,   /* take a ticket, then TURN */
  DMI_RMW_ARRIVE, /* at a barrier, then ROUND */
  /* only wait */
  DMI_RMW_TURN,  /* until a ticket is served */
  DMI_RMW_ROUND, /* until a round is over */
  DMI_RMW_WATCH  /* until the bytes differ from the input; answers them */
};

/* One 64-bit cell, counted from the start of the operation's range, and what it shall be; it is
 * free while it is 0. */
struct dmi_claim {
  uint64_t cell;
  uint64_t value;
};

/* One member of a copyset, as GRANT carries them in `list`. */
struct dmi_holder {
  dmi_uid_t uid;
  uint32_t kind;
};

/* One page of a TAKE or REFUSE_PAGE (tail unused) or HOME_TAILS, in `list`. */
struct dmi_tail {
  dmi_pageno_t page;
  dmi_uid_t tail;
  uint32_t zero; /* TAKE with MUST: 1: the page has no bytes so far; else 0 */
};

/* One operation of a BACK. */
struct dmi_place {
  dmi_op_t op;   /* the receiver's */
  uint64_t what; /* enum dmi_op_place */
};

/* One page of a REPORT; of ASK and DECIDE: dmi_pageno_t. */
struct dmi_reported {
  dmi_pageno_t page;
  dmi_version_t version; /* of the bytes there */
  uint32_t role;         /* enum dmi_role */
  uint32_t eligible;     /* 1: there is a copy, and it is exact */
};

/* Sizes that ATOMIC carries beside its range, in `list` (one element). */
struct dmi_rmw_sizes {
  uint64_t out1;
  uint64_t out2;
  uint64_t in;
};

/*
 * What each message carries beside the header and the bytes.  Laid out as it travels: all integers
 * little-endian, each field of 8 bytes (or two of 4 in their place), so that there is no padding.
 * One that ends with a single field of 4 bytes is DMI_MSG_CUT there: what is behind it must be zero
 * on the wire.
 */
#define DMI_MSG_CUT __attribute__((packed, aligned(4)))

/* GET, PUT: bytes of a page are read, or written, at the owner. */
struct dmi_msg_access {
  dmi_op_t op;     /* the origin's number of the operation */
  uint64_t off;    /* in the page; 0 with ranges */
  uint64_t len;    /* bytes; those of all ranges together */
  uint64_t ranges; /* 0, or so many struct dmi_range begin the body (docs/protocol.md, "Lists") */
};

/* READ: the page, to keep a copy. */
struct dmi_msg_read {
  dmi_fetch_t fetch; /* the origin's number of the fetch */
  uint64_t kind;     /* DMI_KIND_*, of the copy */
};

/* ATOMIC: read-modify-write at the owner; its inputs, out1 then out2, are the body. */
struct dmi_msg_atomic {
  dmi_op_t op;
  uint64_t off; /* in the page */
  uint64_t len; /* bytes */
  uint32_t rmw; /* enum dmi_rmw */
  int32_t tag;  /* DMI_RMW_USER: the user's, of 8 bits */
};

/* OWN: the ownership, asked of the home. */
struct dmi_msg_own {
  dmi_version_t version; /* with HAVE: of the origin's copy */
};

/* GOT: the bytes that GET asked for. */
struct dmi_msg_got {
  dmi_op_t op;
  uint64_t len; /* bytes, carried or ZERO */
};

/* DATA: the page that READ asked for. */
struct dmi_msg_data {
  dmi_fetch_t fetch;
  uint64_t kind;
  dmi_version_t version; /* of the bytes */
};

/* BLOCK: a part of it (R13). */
struct dmi_msg_block {
  dmi_fetch_t fetch;
  uint64_t kind;
  dmi_version_t version;
  uint64_t off; /* in the page, of the body */
};

/* DELEGATE: send your copy to the origin (R13). */
struct dmi_msg_pass {
  dmi_fetch_t fetch; /* the origin's */
  uint64_t kind;
  dmi_version_t version; /* that the copy must have */
  dmi_fetch_t after;     /* the receiver's fetch that the owner decided last; 0: not known */
};

/* DONE: a PUT or ATOMIC has been carried out. */
struct dmi_msg_done {
  dmi_op_t op;
  dmi_version_t version; /* that it made; 0: none that concerns the origin's copy */
  uint64_t answer; /* ATOMIC: bytes of the answer, which begins the body; with APPLY the new bytes
                      of its range follow */
};

/* FAIL: a request could not be carried out. */
struct dmi_msg_fail {
  dmi_op_t op;       /* 0 when it was a READ */
  dmi_fetch_t fetch; /* of the READ; 0 when it was another */
  int32_t error;     /* DMI_E* */
} DMI_MSG_CUT;

/* GRANT: you are the owner. */
struct dmi_msg_grant {
  dmi_version_t version;
};

/* UPDATE: the copy takes this write, and is held. */
struct dmi_msg_update {
  dmi_version_t version; /* that the write makes */
  uint64_t off;          /* in the page; 0 with ranges */
  uint64_t len;          /* bytes; those of all ranges together */
  uint64_t ranges;       /* as in PUT */
};

/* INVALIDATE, INVALIDATED, UPDATED, RELEASE: of the write that is about to be, or is, in effect. */
struct dmi_msg_copy {
  dmi_version_t version;
};

/* HOME_BEGIN: a leaver hands over the home of a mapping. */
struct dmi_msg_home {
  uint64_t page_size; /* bytes */
  uint64_t page_num;
  uint64_t tag; /* what the directory keeps with the mapping */
};

/* CUT, BACK, ASK, DECIDE, MARKED: of the recovery from a loss (docs/crashes-pages.md). */
struct dmi_msg_recover {
  uint64_t number; /* of the crash view */
};

/* REPORT: pages of a mapping that its home, or the home's heir, must know of. */
struct dmi_msg_report {
  uint64_t number;    /* as above */
  uint64_t page_size; /* bytes; 0 with the mapping: the end of all REPORTs */
  uint64_t page_num;
  uint64_t tag;
};

/* PING */
struct dmi_msg_ping {
  uint64_t kind; /* DMI_WIRE_ASK, _TELL */
};

/* PULSE */
struct dmi_msg_pulse {
  uint64_t sent;   /* when, by the sender's clock: the answer repeats it */
  uint64_t ballot; /* that the sender has promised */
  uint64_t view;   /* number of its newest */
  uint64_t known;  /* number of the newest that it knows to be taken by all */
};

/* PULSE_OK */
struct dmi_msg_pulse_ok {
  uint64_t sent; /* of the PULSE */
  uint64_t ballot;
  uint64_t left; /* ms: what is left of the answerer's lease */
};

/* PROBE, PROBED, DEAD, LINK_LOST */
struct dmi_msg_probe {
  uint64_t about; /* uid */
};

/* PREPARE, DECIDED */
struct dmi_msg_ballot {
  uint64_t ballot; /* of who leads, or wants to */
};

/* PROMISE: body: the views that may be in force, and what was accepted. */
struct dmi_msg_promise {
  uint64_t ballot;   /* of the PREPARE */
  uint64_t promised; /* now; another one: it was refused */
  uint64_t force;    /* 1: the sender's lease is in force */
};

/* PROPOSE: body: the views behind which it is proposed, and the view. */
struct dmi_msg_propose {
  uint64_t ballot;
  uint64_t told; /* 1: the receiver has promised this ballot */
};

/* ACCEPTED */
struct dmi_msg_accepted {
  uint64_t ballot;
  uint64_t number; /* of the view */
  uint64_t left;   /* ms: leases of those that it removes may last so long */
  uint64_t force;
};

/* All messages of membership; what else they say is in the body (msg/pack.h). */
struct dmi_msg_member {
  uint64_t op;   /* the asker's number of a call, which its answer repeats */
  int32_t error; /* DMI_E*, in answers */
} DMI_MSG_CUT;

/* CREATE */
struct dmi_msg_create {
  uint64_t op; /* the caller's number of the call */
  int64_t arg; /* of DMI_thread */
};

/* CREATED */
struct dmi_msg_created {
  uint64_t op;
  uint64_t thread; /* its number in its process */
  int32_t error;
} DMI_MSG_CUT;

/* THREAD_JOIN, DETACH, WAKE */
struct dmi_msg_thread {
  uint64_t op;
  uint64_t thread;
};

/* THREAD_JOINED */
struct dmi_msg_joined {
  uint64_t op;
  int64_t value; /* what DMI_thread returned */
  int32_t error;
} DMI_MSG_CUT;

/* THREAD_JOINED, DETACHED: the thread's process has handed its results to the coordinator. */
#define DMI_E_HANDED_OVER 1000

/* DETACHED, WOKEN */
struct dmi_msg_answer {
  uint64_t op;
  int32_t error;
} DMI_MSG_CUT;

/* CAPACITY_ASK */
struct dmi_msg_capacity_ask {
  uint64_t number; /* the asker's, of the question */
  uint64_t kind;   /* enum dmi_capacity_kind */
  uint64_t bytes;
  uint64_t unit; /* bytes of a page: less is of no use */
};

/* CAPACITY_REPORT */
struct dmi_msg_capacity_report {
  uint64_t number; /* of the question; 0: nobody asked */
  uint64_t kind;
  uint64_t bytes;
};

/* CAPACITY_RETURN: what was promised is not needed. */
struct dmi_msg_capacity_return {
  uint64_t bytes;
};

struct dmi_msg {
  uint8_t type;      /* enum dmi_msg_type */
  uint8_t zero;      /* not used */
  uint16_t flags;    /* DMI_F_* */
  dmi_uid_t origin;  /* the process whose operation it is */
  uint64_t map;      /* base address of the mapping */
  dmi_pageno_t page; /* in the mapping */
  union {            /* by type; what a message does not use is zero */
    uint64_t word[4];
    struct dmi_msg_access access;
    struct dmi_msg_read read;
    struct dmi_msg_atomic atomic;
    struct dmi_msg_own own;
    struct dmi_msg_got got;
    struct dmi_msg_data data;
    struct dmi_msg_block block;
    struct dmi_msg_pass pass;
    struct dmi_msg_done done;
    struct dmi_msg_fail fail;
    struct dmi_msg_grant grant;
    struct dmi_msg_update update;
    struct dmi_msg_copy copy;
    struct dmi_msg_home home;
    struct dmi_msg_recover recover;
    struct dmi_msg_report report;
    struct dmi_msg_ping ping;
    struct dmi_msg_pulse pulse;
    struct dmi_msg_pulse_ok pulse_ok;
    struct dmi_msg_probe probe;
    struct dmi_msg_ballot ballot;
    struct dmi_msg_promise promise;
    struct dmi_msg_propose propose;
    struct dmi_msg_accepted accepted;
    struct dmi_msg_member member;
    struct dmi_msg_create create;
    struct dmi_msg_created created;
    struct dmi_msg_thread thread;
    struct dmi_msg_joined joined;
    struct dmi_msg_answer answer;
    struct dmi_msg_capacity_ask capacity_ask;
    struct dmi_msg_capacity_report capacity_report;
    struct dmi_msg_capacity_return capacity_return;
  };
  struct dmi_slice list; /* GRANT: dmi_holder[]; TAKE, REFUSE_PAGE, HOME_TAILS: dmi_tail[]; ATOMIC:
                            dmi_rmw_sizes; BACK: dmi_place[]; REPORT: dmi_reported[]; ASK, DECIDE:
                            dmi_pageno_t[] */
  struct dmi_slice body; /* bytes of the page, of a write, inputs, or an answer */
};

/* Does it answer an operation (not a READ), and which of its receiver's? */
static inline bool dmi_msg_answers(const struct dmi_msg *msg, dmi_op_t *op) {
  switch (msg->type) {
    case DMI_MSG_GOT:
      *op = msg->got.op;
      return true;
    case DMI_MSG_DONE:
      *op = msg->done.op;
      return true;
    case DMI_MSG_FAIL:
      *op = msg->fail.op;
      return !dmi_fetch_any(msg->fail.fetch);
    default:
      return false;
  }
}

#endif
