/*
 * msg.h - the messages of the page protocol as the core sees them (docs/protocol.md, "Messages").
 *
 * The wire layer turns them into bytes and back; the simulator passes them on as they are.
 */
#ifndef DMI_MSG_MSG_H
#define DMI_MSG_MSG_H

#include <stdint.h>

#include "base/frame.h"
#include "msg/table.h"

/* dmi_msg.flags */
#define DMI_F_ZERO 0x01    /* GOT, DATA, GRANT: all bytes are zero, none are carried */
#define DMI_F_HAVE 0x02    /* OWN: `version` is that of my copy.  GRANT: use your copy */
#define DMI_F_NODATA 0x04  /* OWN: I overwrite the whole page.  GRANT: no bytes, as asked */
#define DMI_F_APPLY 0x08   /* DONE: change your copy too */
#define DMI_F_DROPPED 0x10 /* UPDATED: I have no copy (any more) */
#define DMI_F_DIRECT 0x08  /* READ: the owner itself shall send it (R13) */
#define DMI_F_PASSED 0x10  /* DATA, BLOCK: not from the owner (R13) */
#define DMI_F_FETCH 0x20   /* FAIL: `op` is the fetch number of a READ */
#define DMI_F_MUST 0x01    /* TAKE: there is room, or you are the heir: take it; KEEP: of such */
#define DMI_F_TAIL 0x40    /* OWN: the home sends it to the tail */
#define DMI_F_PARKED 0x80  /* ATOMIC: waits at the owner, and moves with the ownership (R11) */

/* Kinds of copies: dmi_msg.kind of READ, DATA, PASS and BLOCK, and in copysets. */
#define DMI_KIND_INVALIDATE 1
#define DMI_KIND_UPDATE 2

/* dmi_msg.kind of PING */
#define DMI_WIRE_ASK 1  /* does your daemon run? */
#define DMI_WIRE_TELL 2 /* it does */

/* dmi_msg.kind of GET, PUT and UPDATE: 0, or the body begins with a list of ranges: `off` is their
 * number, `len` their bytes together (docs/protocol.md, "Lists"). */
#define DMI_KIND_LIST 3

/* One range of a list. */
struct dmi_range {
  uint64_t off; /* in the page */
  uint64_t len; /* bytes */
};

/* dmi_msg.kind of ATOMIC */
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
  uint32_t uid;
  uint32_t kind;
};

/* One page of a TAKE or KEEP (tail unused) or HOME_TAILS, in `list`. */
struct dmi_tail {
  uint64_t page;
  uint32_t tail;
  uint32_t zero; /* TAKE with MUST: 1: the page has no bytes so far; else 0 */
};

/* Sizes that ATOMIC carries beside off and len, in `list` (one element). */
struct dmi_rmw_sizes {
  uint64_t out1;
  uint64_t out2;
  uint64_t in;
};

/* Fields a message does not use are zero. */
struct dmi_msg {
  uint8_t type;    /* enum dmi_msg_type */
  uint8_t flags;   /* DMI_F_* */
  uint8_t kind;    /* DMI_KIND_*, 0 or enum dmi_rmw */
  int8_t tag;      /* ATOMIC, DMI_RMW_USER: the user's tag */
  uint32_t origin; /* uid of the process whose operation it is */
  uint32_t error;  /* FAIL: DMI_E* */
  uint64_t map;    /* base address of the mapping */
  uint64_t page;   /* page number in the mapping */
  uint64_t op;     /* origin's number of the operation; READ, DATA, PASS, BLOCK: fetch number */
  uint64_t off; /* bytes, in the page; of kind LIST: number of ranges; PASS: the fetch before it */
  uint64_t len; /* bytes; HOME_BEGIN: the mapping's word; DONE of an ATOMIC: bytes of the answer at
                   the start of body */
  uint64_t version; /* HOME_BEGIN: the page count of the mapping (off: its page size) */
  struct dmi_slice
      list; /* GRANT: dmi_holder[]; TAKE, KEEP, HOME_TAILS: dmi_tail[]; ATOMIC: dmi_rmw_sizes */
  struct dmi_slice body; /* bytes of the page, of a write, inputs (out1 then out2), or an answer
                            followed, with APPLY, by the new bytes of [off, off + .. ) */
};

#endif
