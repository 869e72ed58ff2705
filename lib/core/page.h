/*
 * page.h - the page protocol: state of a page in one process, and its steps (docs/protocol.md).
 *
 * Pure: no sockets, threads, clocks or locks.  The caller (the runtime, or the simulator)
 * serialises the calls on one page, carries out the actions in `out` in order, and gives the
 * messages of one sender in the order in which they were sent.  Messages are sent before the page
 * is unlocked, or at least queued for their peer, so that their order is kept.
 */
#ifndef DMI_CORE_PAGE_H
#define DMI_CORE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/out.h"
#include "msg/msg.h"

enum dmi_role { DMI_ROLE_NONE, DMI_ROLE_PENDING, DMI_ROLE_OWNER };

/* What a dmi_req asks for.  GET..OWN also come from other processes; PULL is local only. */
enum dmi_req_type {
  DMI_REQ_GET,         /* read, nothing kept */
  DMI_REQ_READ,        /* read, keep a copy of `kind` */
  DMI_REQ_PUT,         /* write at the owner */
  DMI_REQ_EXCL,        /* write after becoming owner (own only) */
  DMI_REQ_ATOMIC,      /* kinds that may wait (core/syncop.h) come as this one only */
  DMI_REQ_ATOMIC_EXCL, /* (own only) */
  DMI_REQ_OWN          /* (others only) */
};

/* One piece of an own access whose bytes lie scattered in the caller's memory. */
struct dmi_part {
  uint64_t off; /* in the page */
  uint64_t at;  /* in the bytes of all ranges of the operation, one after another */
  uint64_t len; /* bytes */
  int64_t to;   /* from the caller's buffer */
};

/*
 * An operation on (part of) one page.  Own ones belong to the caller, are filled in by it (the
 * fields above the line), handed to dmi_page_begin, and come back by DMI_ACT_COMPLETE exactly once.
 * Those of other processes are made and freed by the core.
 */
struct dmi_req {
  uint8_t type;         /* enum dmi_req_type */
  uint8_t kind;         /* READ: DMI_KIND_*; ATOMIC: enum dmi_rmw */
  int8_t tag;           /* ATOMIC, USER */
  dmi_uid_t origin;     /* own ones: dmi_core.self */
  dmi_op_t op;          /* origin's number; own ones: set by the caller, unique while in flight */
  uint64_t off, len;    /* bytes, in the page; with ranges: 0, and the bytes of all together */
  uint64_t ranges;      /* GET, PUT: 0, or src begins with a list of so many (the messages') */
  void *dst;            /* own reads: len bytes; own atomics: sizes.in bytes of answer */
  struct dmi_slice src; /* writes: len bytes; atomics: out1 then out2.  Own: borrowed or a frame,
                           must live until COMPLETE; the caller drops it
                           then (the core may have put a frame in its place) */
  const struct dmi_part *part; /* own reads: where the bytes go, from dst on; must be given with */
  uint64_t parts;              /* ranges, may be without; 0: all to dst */
  struct dmi_rmw_sizes sizes;  /* atomics */
  /* ---- the core's ---- */
  bool foreign;       /* made by the core, for another process */
  _Atomic bool sent;  /* own: its message was sent, so an answer may come; in no list here */
  bool filled;        /* own reads, the runtime's: dst has the bytes of the DATA at hand already */
  int error;          /* DMI_OK or DMI_E*, valid at COMPLETE */
  uint16_t flags;     /* OWN: DMI_F_HAVE, DMI_F_NODATA; READ of others: DMI_F_DIRECT */
  dmi_version_t have; /* OWN with HAVE: version */
  dmi_fetch_t
      fetch; /* READ of others: theirs; in waiters: the one it joined, 0: waits for the copy */
  struct dmi_req *next;
};

struct dmi_req_list {
  struct dmi_req *first, *last;
};

/* One of the copyset: it may have a copy of this kind. */
struct dmi_sharer {
  dmi_uid_t uid;
  uint32_t kind;     /* DMI_KIND_* */
  uint32_t children; /* transfers it was given since it came in (R13) */
  uint32_t depth;    /* in the tree of transfers; the owner's is 0 */
  dmi_fetch_t fetch; /* the last one of it that was decided here; 0: not known */
};

/* What is there only while something is going on, or copies exist. */
struct dmi_page_busy {
  struct dmi_req_list queue;            /* owner, pending: not begun */
  struct dmi_req_list waiters;          /* own reads that wait; frozen: own operations */
  struct dmi_req_list waiting_ops;      /* owner, pending: pure waits that are not over (R11) */
  struct dmi_req *current;              /* the write at work */
  struct dmi_slice bytes;               /* its new bytes */
  struct dmi_frame *answer;             /* its answer, atomics */
  uint32_t acks;                        /* still to come */
  uint32_t puts;                        /* own PUT / ATOMIC without a reply */
  uint32_t away;                        /* frozen: so many of them had gone to a lost process */
  dmi_fetch_t fetch;                    /* READ in flight, 0: none */
  bool poisoned;                        /* the floor rose since it was sent */
  struct dmi_delegated_read *delegated; /* READs of others that wait for the fetch (R13) */
  struct dmi_assembly *blocks;          /* what BLOCKs of the fetch have brought; NULL: nothing */
  uint32_t holders, holders_capacity;
  struct dmi_sharer *holder; /* copyset */
  uint32_t children;         /* transfers by the owner itself since the copyset was empty */
};

struct dmi_map;

/* One page in one process.  Everything but `lock` is guarded by it. */
struct dmi_page {
  _Atomic uint32_t lock; /* the runtime's; the core does not look at it */
  uint8_t role;          /* enum dmi_role */
  uint8_t copy;          /* 0: ABSENT, else its DMI_KIND_* */
  uint16_t flags;        /* DMI_PAGE_* */
  dmi_uid_t hint;        /* 0: the home */
  dmi_uid_t tail;        /* meaningful at the home */
  dmi_pageno_t index;    /* in the mapping */
  dmi_version_t version; /* of the bytes here */
  dmi_version_t floor;
  struct dmi_frame *frame;    /* bytes; NULL: absent (zeros, where bytes are meaningful) */
  struct dmi_page_busy *busy; /* NULL when idle and without copies elsewhere */
  struct dmi_map *map;
};

_Static_assert(sizeof(struct dmi_page) == 64, "a page record is one cache line");

#define DMI_PAGE_NODATA 0x0001 /* owner without bytes, until its first write is done */
#define DMI_PAGE_STALE 0x0002  /* an own OWN made void by a change of home is still to come (R9) */
#define DMI_PAGE_DEAD 0x0004   /* the mapping is unmapped */
#define DMI_PAGE_LISTED 0x0008 /* its tail came with HOME_TAILS; until HOME_END */
#define DMI_PAGE_UNRELEASED 0x0010 /* the copy has bytes of an update that is not released yet */
/* R12 */
#define DMI_PAGE_RESERVED 0x0020 /* memory for its bytes is reserved here */
#define DMI_PAGE_OFFERED                                                   \
  0x0040 /* owner: TAKE was sent, and neither OWN nor REFUSE_PAGE has come \
          */
#define DMI_PAGE_STALLED \
  0x0080 /* owner: the head of the queue waits for memory, or for its bytes */
#define DMI_PAGE_SPILLED 0x0100 /* owner: its bytes are outside; frame NULL does not mean zeros */
#define DMI_PAGE_COPY 0x0200    /* counted as a copy that could be dropped */
#define DMI_PAGE_ZEROS \
  0x0800 /* pending without a reservation: a leaver gave it, and it had no bytes */
#define DMI_PAGE_USED 0x0400 /* the policy's: read or written since it last looked */
/* docs/crashes-pages.md */
#define DMI_PAGE_LOST                                                         \
  0x1000 /* owner: the bytes are lost; only a write of the whole page can run \
          */
#define DMI_PAGE_FROZEN 0x8000 /* between a crash view and RESUME: nothing is sent */

/* What the core needs to know of a mapping. */
struct dmi_map {
  uint64_t base;      /* global address */
  uint64_t page_size; /* bytes */
  uint64_t page_num;
  uint64_t tag; /* tag that the directory keeps with it, core/heap.h; not used by the core */
  _Atomic dmi_uid_t home;
  _Atomic uint32_t
      arriving;      /* whose tails are still to come (uid), home of it: R8.2; 0: nobody's */
  _Atomic bool hole; /* at the home: pages without a record are LOST (docs/crashes-pages.md) */
};

/* Deliberate faults, one rule of docs/protocol.md switched off each, so that tests can show that
 * they would notice.  See base/mutation.h. */
enum dmi_break {
  DMI_BREAK_NOTHING,
  DMI_BREAK_RELEASE,    /* R6 UPDATE: the copy is not held */
  DMI_BREAK_ACK_WAIT,   /* R4: a write does not wait for acknowledgements */
  DMI_BREAK_INVALIDATE, /* R4: INVALIDATE copies are not invalidated */
  DMI_BREAK_FLOOR,      /* R6 DATA: kept although it is older than the floor */
  DMI_BREAK_POISON,     /* R2.4: reads join a poisoned fetch */
  DMI_BREAK_PUTS,       /* R2, R6: the writer goes on reading its copy while its PUT is in flight */
  DMI_BREAK_GAP,        /* R6 UPDATE, DONE: applied although versions are missing */
  DMI_BREAK_FORWARD,    /* R5: what is left in the queue is not forwarded */
  DMI_BREAK_COPYSET,    /* R5: GRANT leaves the copyset out */
  DMI_BREAK_STALE,      /* R9: a void OWN is not dropped */
  DMI_BREAK_AWAY,       /* R9: nor by who is not the home any more, who does not wait for it */
  DMI_BREAK_TAILS,      /* R8: the heir is not told the tails */
  DMI_BREAK_TAKE,       /* R8: pages owned by the leaver are not taken */
  DMI_BREAK_LIST,       /* R6: a copy takes only the first range of a list */
  DMI_BREAK_LOOK,       /* R11: a write does not look at what waits */
  DMI_BREAK_MOVE,       /* R11: what waits stays behind when ownership moves */
  DMI_BREAK_TOLD,       /* R11: the copy of a process that has to wait is not told of its write */
  DMI_BREAK_DROP,       /* R12: a copy is dropped while the ownership is to come */
  DMI_BREAK_LEAVER,     /* R12: a leaver takes what it is offered */
  DMI_BREAK_REOFFER,    /* R12: a leaver does not offer again what it was refused */
  DMI_BREAK_STALL,      /* R12: a write that stalled is lost */
  DMI_BREAK_BEHIND,     /* R12: reads and waits stay behind a write that stalls */
  DMI_BREAK_REFUSE,     /* R12: a write that was refused has changed the page */
  DMI_BREAK_RESERVE,    /* R12: READ is sent without a reservation for its bytes */
  DMI_BREAK_RETURN,     /* R12: a reservation for bytes that did not come is not returned */
  DMI_BREAK_SPILL,      /* R12: a spilled page is read as if it were zero */
  DMI_BREAK_DELEGATE,   /* R13: whatever copy there is is passed on */
  DMI_BREAK_AFTER,      /* R13: DELEGATE waits for any fetch */
  DMI_BREAK_DELEGATED,  /* R13: forgotten when the fetch ends otherwise than by DATA */
  DMI_BREAK_DATA,       /* R13: passed on, of whatever version DATA is */
  DMI_BREAK_DECIDE,     /* R13: the origin of a READ that is passed is not in the copyset */
  DMI_BREAK_DIRECT,     /* R13: a READ with DIRECT is passed, too */
  /* docs/crashes-pages.md */
  DMI_BREAK_FREEZE,     /* frozen copies are read */
  DMI_BREAK_CUT,        /* nobody waits for what is under way */
  DMI_BREAK_GRANT,      /* a frozen process drops a GRANT */
  DMI_BREAK_BACK,       /* what is away is begun anew */
  DMI_BREAK_EXACT,      /* the copy of who has an operation away is promoted */
  DMI_BREAK_WAITS,      /* what waits stays where its GRANT was lost */
  DMI_BREAK_STALE_KEPT, /* R9 goes on waiting for an OWN that was dropped */
  DMI_BREAK_FLOOR_KEPT, /* the floor stays */
  DMI_BREAK_DROP_EARLY, /* copies are dropped as soon as an owner is decided */
  DMI_BREAK_DOUBT,      /* marks that some may have carried out are forgotten */
  DMI_BREAK_LAST
};

/*
 * The account of the memory for page bytes (R12).  A page's bytes take `bytes` = the page size.
 * Called with the page locked: must not wait, nor call the core.
 */
struct dmi_account {
  /* Reserves memory for one page. False: there is none. With `force` it is never false: the bytes
   * come anyway. */
  bool (*reserve)(void *arg, uint64_t bytes, bool force);
  /* Returns a reservation. */
  void (*release)(void *arg, uint64_t bytes);
  /* The frame has become the bytes of a page here; a reservation passes to it (`reserved`), or it
   * had none.  The caller holds a reference, and others may: messages that carry it. */
  void (*attach)(void *arg, struct dmi_frame *frame, bool reserved);
  /* It is no page's bytes here any more; those references may live on.  After it the core gives
   * its own reference up. */
  void (*detach)(void *arg, struct dmi_frame *frame);
  /* Bytes of copies that could be dropped at once: so many more, or (negative) fewer. */
  void (*copies)(void *arg, int64_t more);
  /* What was spilled of this page is of no use any more: overwritten, or the mapping is freed. */
  void (*unspilled)(void *arg, struct dmi_page *page);
};

#define DMI_HOP ((uint64_t)256 << 10)
#define DMI_BLOCK ((uint64_t)256 << 10)

/* One process's side of the protocol. */
struct dmi_core {
  dmi_uid_t self;
#ifdef DMI_MUTATIONS
  enum dmi_break broken;
#endif
  /* True if the process is a member in the newest view taken here and has not left. Called with the
   * page locked. */
  bool (*is_member)(void *arg, dmi_uid_t uid);
  /* True if it is one, or has left and may still wait for answers. NULL: no process has left. */
  bool (*is_there)(void *arg, dmi_uid_t uid);
  /* Of the recovery at work (docs/crashes-pages.md), called with the page locked, between
   * dmi_page_freeze and dmi_page_resume only: has this one's CUT come?  A request was dropped; an
   * operation is held here. */
  bool (*is_cut)(void *arg, dmi_uid_t uid);
  void (*dropped)(void *arg, dmi_uid_t origin, dmi_op_t op);
  void (*held)(void *arg, dmi_uid_t origin, dmi_op_t op);
  /* The program's DMI_function, or NULL. */
  void (*function)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag);
  const struct dmi_account *account; /* NULL: memory is unlimited */
  void *arg;
  uint64_t hop;             /* bytes that one more hop is worth (R13); 0: DMI_HOP */
  uint64_t block;           /* bytes of a BLOCK; 0: DMI_BLOCK */
  _Atomic uint64_t owned;   /* pages OWNER or PENDING that have a record, and those STALE (R9): 0
                               and no home: drained */
  _Atomic dmi_uid_t heir;   /* uid, not 0: this process is leaving, R8 */
  _Atomic uint64_t fetches; /* fetch numbers given out */
  _Atomic bool frozen;      /* records are made FROZEN */
};

/* Sets up a page record just made: OWNER of a zero page when this process is the home (and it is
 * not arriving), NONE otherwise. */
void dmi_page_init(struct dmi_core *core, struct dmi_map *map, struct dmi_page *page,
                   dmi_pageno_t index);

/* Frees what the record holds; it must have been killed, or be idle but for what waits (R11):
 * nobody is told, own ones stay the caller's. */
void dmi_page_fini(struct dmi_core *core, struct dmi_page *page);

/* An own operation begins.  Its range must lie in the page.  While core->heir is set it is taken as
 * GET, PUT or ATOMIC whatever its mode (R8). */
void dmi_page_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                    struct dmi_out *out);

/* Any read now, served from here, without an action: returns false when that is not possible. */
bool dmi_page_readable(const struct dmi_core *core, const struct dmi_page *page);

/* True if an own write can be done in place at once, by dmi_page_write_now, without a message. */
bool dmi_page_writable(const struct dmi_core *core, const struct dmi_page *page);
/* False: no memory for the bytes, nothing was changed. */
bool dmi_page_write_now(struct dmi_core *core, struct dmi_page *page, uint64_t off, const void *src,
                        uint64_t len);

/* The same for a write of several parts, in their order, from `src` on. */
bool dmi_page_write_parts_now(struct dmi_core *core, struct dmi_page *page,
                              const struct dmi_part *part, uint64_t parts,
                              const unsigned char *src);

/*
 * A message of class PAGE about this page.  GOT, DONE and FAIL without a fetch
 * answer an own operation: `own` is the one whose op number the message has (NULL: unknown, the
 * message is ignored), with `sent` set. Takes the slices of msg over. Returns false, changing
 * nothing, when the message cannot come from a correct peer.
 */
bool dmi_page_message(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out);

/* The first `got` bytes of this DATA, which belongs to the page, are in its frame; the rest is on
 * its way. */
void dmi_page_part(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *data,
                   uint64_t got, struct dmi_out *out);

/* Where the body of an arriving BLOCK is received: at its place in the page; sets msg->body.frame.
 * NULL: nowhere, but the message must still be handed in. */
unsigned char *dmi_page_block_body(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                                   struct dmi_msg *msg);

/* The mapping is unmapped (R10): fails everything that waits here, frees the bytes. */
void dmi_page_kill(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* The answer of a process that does not know the mapping (R10): fills *reply and returns whom it
 * goes to, 0 for nobody. */
uint32_t dmi_page_unknown(dmi_uid_t from, const struct dmi_msg *msg, struct dmi_msg *reply);

/* ---- Leaving (home.c): the caller goes over all its pages ---- */

/* R8.1: the tail to hand over, for a page whose mapping this process was home of. */
dmi_uid_t dmi_page_tail(const struct dmi_core *core, const struct dmi_page *page);

/* R8.2.  At HOME_TAILS: the page has this tail (listed).  At HOME_END, for every record of the
 * mapping: not listed; those that were are left alone.  False: not from a correct peer. */
bool dmi_page_home_arrived(struct dmi_core *core, struct dmi_page *page, bool listed,
                           dmi_uid_t tail, struct dmi_out *out);

/* R8.3 at the leaver: sends TAKE, which must be obeyed, to `to` if the page is owned here.  Called
 * by the core itself, with the heir, when a leaver comes to own a page. */
void dmi_page_give(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to, struct dmi_out *out);

/* A message of a step could not be sent any more: `to` left between the step and the sending.  The
 * caller has published the new membership and homes before.  Takes msg's slices over. */
void dmi_page_bounced(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                      struct dmi_msg *msg, struct dmi_out *out);

/* R8.3 and R12 at the receiver, for each page of a TAKE (`must`: its flag MUST; `zero`: of the
 * entry: such a page takes no room before its bytes come, then by force).  False: the page belongs
 * into a REFUSE_PAGE, which the caller sends back. */
bool dmi_page_take(struct dmi_core *core, struct dmi_page *page, bool must, bool zero,
                   struct dmi_out *out);
/* For each page of a REFUSE_PAGE (`must`: its flag MUST, that of the TAKE it answers). */
void dmi_page_refused(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from, bool must,
                      struct dmi_out *out);

/* ---- Room (R12; page_reserve.c): the caller decides what leaves, docs/replacement.md ---- */

/* Drops a copy.  False: there is none, or it must stay for now. */
bool dmi_page_drop(struct dmi_core *core, struct dmi_page *page);

/* R8.4 at a leaver: drops the copy.  False: there is still one, or a fetch is in flight; to be
 * called again when a step of the page is over. */
bool dmi_page_depart(struct dmi_core *core, struct dmi_page *page);

/* Sends TAKE to `to`, a member.  Also for a page that stalls: its writes go on where there is
 * memory.  False: not owned, busy, or offered already. */
bool dmi_page_offer(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                    struct dmi_out *out);

/* After DMI_ACT_STALLED.  DMI_OK: the caller has reserved room for this page, which passes to it.
 * An error: the operation at the head of the queue fails with it.  The queue goes on, and may stall
 * again, with another action.  False: nothing was changed, and a reservation stays the caller's: it
 * does not stall (any more); or it is spilled, and the head needs the bytes (dmi_page_unspill) or
 * is an OWN, which cannot fail. */
bool dmi_page_unstall(struct dmi_core *core, struct dmi_page *page, int error, struct dmi_out *out);

/* Takes the bytes out of an idle page whose bytes nobody else has, and returns them with a
 * reference (NULL: not now).  The page is spilled: an operation that needs the bytes stalls. */
struct dmi_frame *dmi_page_spill(struct dmi_core *core, struct dmi_page *page);
/* Puts them back: the frame passes, and a reservation for it that the caller has made.  False: not
 * spilled any more, both stay the caller's. */
bool dmi_page_unspill(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                      struct dmi_out *out);

/* Which invariant of docs/protocol.md does not hold; NULL: all do. */
const char *dmi_page_wrong(const struct dmi_core *core, const struct dmi_page *page);
/* Aborts with a message when one does not. */
void dmi_page_check(const struct dmi_core *core, const struct dmi_page *page);

#endif
