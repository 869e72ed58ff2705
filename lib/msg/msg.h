/*
 * msg.h - the messages of the page protocol as the core sees them (docs/protocol.md, "Messages").
 *
 * wire.c turns them into bytes and back; the simulator passes them on unchanged.
 */
#ifndef DMI_MSG_MSG_H
#define DMI_MSG_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "msg/table.h"
#include "msg/types.h"

/* dmi_msg.flags. In these comments "I" is the sender and "you" the receiver. */
#define DMI_F_ZERO 0x0001      /* GOT, DATA, GRANT: all bytes are zero, so none are sent */
#define DMI_F_HAVE 0x0002      /* OWN: `version` is that of my copy. GRANT: use your copy's bytes */
#define DMI_F_NODATA 0x0004    /* OWN: I overwrite the whole page. GRANT: no bytes, as OWN asked */
#define DMI_F_APPLY 0x0008     /* DONE: change your copy too */
#define DMI_F_DROPPED 0x0010   /* UPDATED: I have no copy (any more) */
#define DMI_F_DIRECT 0x0020    /* READ: the owner itself must send the page (R13) */
#define DMI_F_DELEGATED 0x0040 /* DATA, BLOCK: not sent by the owner (R13) */
#define DMI_F_TAIL 0x0080      /* OWN: the home sends it to the tail */
#define DMI_F_WAITING 0x0100   /* ATOMIC: a waiting operation, moved with the ownership (R11) */
/* TAKE: you must take it (memory was promised, or you are the heir). REFUSE_PAGE: answers such a
 * TAKE */
#define DMI_F_MUST 0x0200
/* CAPACITY_ASK: answer it at once, even if memory is in transient use */
#define DMI_F_URGENT 0x0400

/* GRANT: the page is LOST (docs/crashes-pages.md). HOME_BEGIN: so are pages without a record.
 * REPORT: the home is lost, and you are its heir */
#define DMI_F_LOST 0x0800
/* calls of the coordinator: the one before may have done it, and is lost */
#define DMI_F_AGAIN 0x1000
/* EAGER, OFFER: of a collective call */
#define DMI_F_COLLECTIVE 0x2000
/* BODY: the send was reset, there are no bytes */
#define DMI_F_GONE 0x4000

/* Kinds of copies: in READ, DATA, DELEGATE and BLOCK, and in copysets. */
#define DMI_KIND_INVALIDATE 1
#define DMI_KIND_UPDATE 2

/* Kinds of PING. */
#define DMI_WIRE_ASK 1  /* asks whether the daemon runs */
#define DMI_WIRE_TELL 2 /* answers that it does */

/* One range of a list. */
struct dmi_range {
  uint64_t off; /* bytes from the page's start */
  uint64_t len; /* bytes */
};

/* What an ATOMIC does to its bytes. */
enum dmi_rmw {
  DMI_RMW_CAS = 1,
  DMI_RMW_FAS,
  DMI_RMW_FAD,
  DMI_RMW_USER,
  /* fill free cells of a table: input dmi_claim[]; answer: number of cells that were not free */
  DMI_RMW_CLAIM,
  DMI_RMW_HEAP, /* a step of the allocator: core/heap.h */
  /* of a page, not of bytes in it: if it is LOST it is zero from now on; answer: 1 if it was */
  DMI_RMW_REVIVE,
  /* these are explained in core/syncop.h */
  DMI_RMW_TRYLOCK, /* take the lock if it is free */
  DMI_RMW_UNLOCK,  /* give it to the operation LOCK that has waited longest */
  DMI_RMW_MEND,    /* the data behind the lock are consistent again */
  DMI_RMW_SIGNAL,  /* wake waiters of a condition */
  DMI_RMW_TICKET,  /* take a ticket; TURN, the wait for it, is another operation */
  /* these may wait at the owner (R11) */
  DMI_RMW_LOCK,   /* take the lock, or wait until it is given to this operation */
  DMI_RMW_ARRIVE, /* arrive at a barrier and wait as ROUND */
  /* these only wait */
  DMI_RMW_TURN,  /* until a ticket is served */
  DMI_RMW_ROUND, /* until a round has ended */
  DMI_RMW_WATCH  /* until the bytes differ from the input; the answer is the bytes */
};

/* A 64-bit cell, by its index in the operation's range, and its new value; it is free while it
 * is 0. */
struct dmi_claim {
  uint64_t cell;
  uint64_t value;
};

/* A member of a copyset, in the `list` of GRANT. */
struct dmi_holder {
  dmi_uid_t uid;
  uint32_t kind;
};

/* A page, in the `list` of TAKE, REFUSE_PAGE (without tail) and HOME_TAILS. */
struct dmi_tail {
  dmi_pageno_t page;
  dmi_uid_t tail;
  uint32_t zero; /* TAKE with MUST: 1 if all bytes of the page are zero; else 0 */
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

/* Sizes of an ATOMIC, in its `list` (one element). */
struct dmi_rmw_sizes {
  uint64_t out1;
  uint64_t out2;
  uint64_t in;
};

/* The fields of each message besides the header, list and body. Laid out as on the wire:
 * integers are little-endian, and each field has 8 bytes (or two have 4), so that there is no
 * padding. A struct that ends with a single field of 4 bytes is marked DMI_MSG_CUT: the 4 bytes
 * after it must be zero on the wire. */
#define DMI_MSG_CUT __attribute__((packed, aligned(4)))

/* GET, PUT: read or write bytes of a page at the owner. */
struct dmi_msg_access {
  dmi_op_t op;  /* number of the operation at its origin */
  uint64_t off; /* bytes from the page's start; 0 with ranges */
  uint64_t len; /* bytes, of all ranges together */
  /* number of struct dmi_range at the start of the body, or 0 (docs/protocol.md, "Lists") */
  uint64_t ranges;
};

/* READ: asks for a copy of the page. */
struct dmi_msg_read {
  dmi_fetch_t fetch; /* number of the fetch at its origin */
  uint64_t kind;     /* DMI_KIND_* of the copy */
};

/* ATOMIC: a read-modify-write at the owner; its inputs, out1 then out2, are the body. */
struct dmi_msg_atomic {
  dmi_op_t op;
  uint64_t off; /* bytes from the page's start */
  uint64_t len; /* bytes */
  uint32_t rmw; /* enum dmi_rmw */
  int32_t tag;  /* DMI_RMW_USER: the user's tag, 8 bits */
};

/* OWN: asks the home for the ownership. */
struct dmi_msg_own {
  dmi_version_t version; /* with HAVE: version of the origin's copy */
};

/* GOT: the bytes that GET asked for. */
struct dmi_msg_got {
  dmi_op_t op;
  uint64_t len; /* bytes, in the body or (ZERO) all zero */
};

/* DATA: the page that READ asked for. */
struct dmi_msg_data {
  dmi_fetch_t fetch;
  uint64_t kind;
  dmi_version_t version; /* of the bytes */
};

/* BLOCK: a part of a DATA (R13). */
struct dmi_msg_block {
  dmi_fetch_t fetch;
  uint64_t kind;
  dmi_version_t version;
  uint64_t off; /* where the body begins: bytes from the page's start */
};

/* DELEGATE: send your copy to the origin (R13). */
struct dmi_msg_delegate {
  dmi_fetch_t fetch; /* the fetch of the origin */
  uint64_t kind;
  dmi_version_t version; /* version that the copy must have */
  /* the last fetch of the receiver that the owner answered or delegated; 0: unknown */
  dmi_fetch_t after;
};

/* DONE: a PUT or ATOMIC has been carried out. */
struct dmi_msg_done {
  dmi_op_t op;
  dmi_version_t version; /* version after it; 0: the origin's copy does not change */
  /* ATOMIC: bytes of the answer, at the start of the body; with APPLY the new bytes of its range
   * follow */
  uint64_t answer;
};

/* FAIL: a request could not be carried out. */
struct dmi_msg_fail {
  dmi_op_t op;       /* 0 if it was a READ */
  dmi_fetch_t fetch; /* the READ's fetch; 0 if it was not a READ */
  int32_t error;     /* DMI_E* */
} DMI_MSG_CUT;

/* GRANT: the receiver becomes the owner. */
struct dmi_msg_grant {
  dmi_version_t version;
};

/* UPDATE: a write for a copy, which is unreleased then. */
struct dmi_msg_update {
  dmi_version_t version; /* version after the write */
  uint64_t off;          /* bytes from the page's start; 0 with ranges */
  uint64_t len;          /* bytes, of all ranges together */
  uint64_t ranges;       /* as in PUT */
};

/* INVALIDATE, INVALIDATED, UPDATED, RELEASE: about the write that is taking effect, or (RELEASE)
 * has. */
struct dmi_msg_copy {
  dmi_version_t version;
};

/* HOME_BEGIN: a leaver hands over the home of a mapping. */
struct dmi_msg_home {
  uint64_t page_size; /* bytes */
  uint64_t page_num;
  uint64_t tag; /* the mapping's tag in the directory */
};

/* CUT, BACK, ASK, DECIDE, MARKED: of the recovery from a loss (docs/crashes-pages.md). */
struct dmi_msg_recover {
  uint64_t number; /* of the crash view */
};

/* TELLS, TELLERS: who says the end of a round to whom. */
struct dmi_msg_round {
  uint64_t number; /* as above */
  uint64_t round;  /* enum dmi_recover_round */
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

/* PROMISE: body: u8 (1: the first of the views is one that not all may have taken, as the sender
 * joined by it), the views that may be in force, and what was accepted. */
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

/* All messages of membership; their other fields are in the body (msg/pack.h). */
struct dmi_msg_member {
  uint64_t op;   /* the asker's number of the call; the answer repeats it */
  int32_t error; /* DMI_E*, in answers */
} DMI_MSG_CUT;

/* CREATE */
struct dmi_msg_create {
  uint64_t op;   /* the caller's number of the call */
  int64_t arg;   /* the argument of its body */
  uint32_t body; /* enum dmi_body */
} DMI_MSG_CUT;

/* CREATED */
struct dmi_msg_created {
  uint64_t op;
  uint64_t thread; /* number of the thread in its process */
  int32_t error;
} DMI_MSG_CUT;

/* THREAD_JOIN, DETACH, WAKE, WAKE_WITH */
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

/* An error in THREAD_JOINED and DETACHED: the coordinator has the results of that process's
 * threads now. */
#define DMI_E_HANDED_OVER 1000

/* DETACHED, WOKEN */
struct dmi_msg_answer {
  uint64_t op;
  int32_t error;
} DMI_MSG_CUT;

/* CAPACITY_ASK */
struct dmi_msg_capacity_ask {
  uint64_t number; /* the asker's number of the question */
  uint64_t kind;   /* enum dmi_capacity_kind */
  uint64_t bytes;
  uint64_t unit; /* bytes of a page: less memory is of no use */
};

/* CAPACITY_REPORT */
struct dmi_msg_capacity_report {
  uint64_t number; /* number of the question; 0: not an answer */
  uint64_t kind;
  uint64_t bytes;
};

/* CAPACITY_RETURN: promised memory that is not needed. */
struct dmi_msg_capacity_return {
  uint64_t bytes;
};

/* SERVES, CALL, WANT, HAVE, CALL_DONE, RETURN, STEAL, STOLEN, DROP, CLOSE, ARENA: several of a
 * kind, one after the other in the body (docs/remote.md). */
struct dmi_msg_remote {
  uint64_t num;
};

/* All messages between ranks of a team; dmi_msg.map is the number of the team. */
struct dmi_msg_team {
  uint32_t from; /* ranks; EPOCH: 0 */
  uint32_t to;
  uint64_t epoch;
  uint64_t serial; /* OFFER, PULL, BODY, PULLED: number of the send in its port and epoch */
  uint64_t count;  /* OFFER: bytes of the message; CREDIT: of the window; BODY with GONE: the
                      error (DMI_E*) of the receive */
};

/* What SEE asks for. */
enum dmi_see_what {
  DMI_SEE_MEMBERS = 1, /* the members, as the process knows them */
  DMI_SEE_PROCESS,     /* itself: state, memory, traffic */
  DMI_SEE_MAPPINGS,    /* its pages of each mapping */
  DMI_SEE_THREADS,     /* what its threads are doing */
  DMI_SEE_LOCKS,       /* the locks that they hold */
  DMI_SEE_BARRIERS,    /* the barriers that they use */
  DMI_SEE_PAGE,        /* the page of an address, and what waits there */
  DMI_SEE_MUTEX,       /* the same, and the lock, */
  DMI_SEE_BARRIER,     /* the barrier */
  DMI_SEE_COND,        /* or the condition there */
  DMI_SEE_HOT,         /* the pages for which it asks most often */
  DMI_SEE_WAITS,       /* how long its threads have waited for what */
  DMI_SEE_PEERS,       /* its traffic with each member */
  DMI_SEE_PROFILE,     /* which lines of the program have waited for what (--profile) */
  DMI_SEE_TRACE,       /* from now on, what it does (docs/trace.md); of a member only */
  DMI_SEE_CLOCK,       /* what its clock says; likewise */
  DMI_SEE_KINDS
};

/* SEE (docs/seeing.md) */
struct dmi_msg_see {
  uint32_t number; /* the asker's number of the question */
  uint32_t heard;  /* from one that looks: how many answers it has got */
  uint32_t what;   /* enum dmi_see_what */
  uint32_t of;     /* uid of the process that it asks about; 0: the receiver */
  uint64_t at;     /* 0: from the start; else dmi_msg_seen.next of the piece before */
  uint64_t addr;   /* PAGE, MUTEX, BARRIER, COND: global address */
};

/* How an answer is. */
enum dmi_seen_how {
  DMI_SEEN_GOOD,
  DMI_SEEN_SILENT, /* the process gives no answer */
  DMI_SEEN_NOBODY  /* there is no such member */
};

/* SEEN; body: lines of JSON; of TRACE: a piece (base/trace_piece.h), of CLOCK: two times */
struct dmi_msg_seen {
  uint32_t number; /* of the SEE; 0: farewell, the process ends in order */
  uint32_t how;    /* enum dmi_seen_how; farewell: GOOD, the program ends; NOBODY, it leaves */
  uint64_t next;   /* where the next piece begins; 0: that was all; farewell: the exit status */
};

struct dmi_msg {
  uint8_t type;      /* enum dmi_msg_type */
  uint8_t zero;      /* not used */
  uint16_t flags;    /* DMI_F_* */
  dmi_uid_t origin;  /* the process whose operation it is */
  uint64_t map;      /* base address of the mapping; class TEAM: number of the team */
  dmi_pageno_t page; /* in the mapping */
  union {            /* by type; bytes that a message does not use are zero */
    uint64_t word[4];
    struct dmi_msg_access access;
    struct dmi_msg_read read;
    struct dmi_msg_atomic atomic;
    struct dmi_msg_own own;
    struct dmi_msg_got got;
    struct dmi_msg_data data;
    struct dmi_msg_block block;
    struct dmi_msg_delegate delegate;
    struct dmi_msg_done done;
    struct dmi_msg_fail fail;
    struct dmi_msg_grant grant;
    struct dmi_msg_update update;
    struct dmi_msg_copy copy;
    struct dmi_msg_home home;
    struct dmi_msg_recover recover;
    struct dmi_msg_round round;
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
    struct dmi_msg_remote remote;
    struct dmi_msg_team team;
    struct dmi_msg_see see;
    struct dmi_msg_seen seen;
  };
  struct dmi_slice list; /* GRANT: dmi_holder[]; TAKE, REFUSE_PAGE, HOME_TAILS: dmi_tail[]; ATOMIC:
                            dmi_rmw_sizes; BACK: dmi_place[]; REPORT: dmi_reported[]; ASK, DECIDE:
                            dmi_pageno_t[] */
  struct dmi_slice body; /* the page, a write's bytes, inputs, or an answer */
  /* received: the body (frame NULL) is in the connection's buffer, until the handler returns */
  bool borrowed;
};

/* True if it answers an operation of its receiver that is not a READ; *op is the operation. */
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
