/*
 * page.h - the page protocol: state of a page in one process, and its steps (docs/protocol.md).
 *
 * Pure: no sockets, threads, clocks or locks. The caller (lib/access, or the simulator) makes calls
 * on one page one at a time, carries out the actions in `out` in order, and gives messages of one
 * sender in the order in which they were sent. It sends messages before it unlocks the page, or at
 * least puts them into the queue of their peer, so that their order is kept.
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
  DMI_REQ_GET,         /* read without keeping a copy */
  DMI_REQ_READ,        /* read, keep a copy of `kind` */
  DMI_REQ_PUT,         /* write at the owner */
  DMI_REQ_EXCL,        /* write after becoming the owner (own only) */
  DMI_REQ_ATOMIC,      /* read-modify-write at the owner; all kinds that may wait (core/syncop.h) */
  DMI_REQ_ATOMIC_EXCL, /* read-modify-write after becoming the owner (own only) */
  DMI_REQ_OWN          /* become the owner (others only) */
};

/* A part of an own access whose bytes are scattered in the caller's memory. */
struct dmi_part {
  uint64_t off; /* bytes from the page's start */
  uint64_t at;  /* offset in the bytes of all ranges of the operation, put one after another */
  uint64_t len; /* bytes */
  int64_t to;   /* offset from the start of the caller's buffer */
};

/* What an own read has got of a DATA, or BLOCKs, that are still arriving (page_early.c). */
struct dmi_early {
  const struct dmi_frame *frame; /* where they are received; only compared. NULL: nothing yet */
  uint64_t from, to;             /* bytes of the page */
};

/* An operation on (a part of) one page. Own ones belong to the caller: it fills in the fields
 * above the line and calls dmi_page_begin; DMI_ACT_COMPLETE returns each exactly once. The core
 * makes and frees those of other processes. */
struct dmi_req {
  uint8_t type;     /* enum dmi_req_type */
  uint8_t kind;     /* READ: DMI_KIND_*; ATOMIC: enum dmi_rmw */
  int8_t tag;       /* ATOMIC, USER */
  dmi_uid_t origin; /* own ones: dmi_core.self */
  dmi_op_t op; /* number given by its origin; own ones: by the caller, unique while in flight */
  uint64_t off, len; /* bytes in the page; with ranges: 0, and the sum of their lengths */
  /* GET, PUT: number of ranges in the list with which src begins (that of the message), or 0 */
  uint64_t ranges;
  void *dst; /* own reads: for len bytes; own atomics: for sizes.in bytes of answer */
  /* writes: len bytes; atomics: out1, then out2. Own: borrowed or a frame; must stay valid until
   * COMPLETE, when the caller drops it (the core may have replaced it by a frame) */
  struct dmi_slice src;
  const struct dmi_part *part; /* own reads: where the bytes go, relative to dst; required */
  uint64_t parts;              /* with ranges, allowed without; 0 parts: all bytes go to dst */
  struct dmi_rmw_sizes sizes;  /* of atomics */
  /* ---- the core's ---- */
  bool foreign;      /* made by the core for another process */
  _Atomic bool sent; /* own: its message was sent, so an answer may arrive; it is in no list here */
  struct dmi_early early; /* own READ in waiters */
  int error;              /* DMI_OK or DMI_E*; valid at COMPLETE */
  uint16_t flags;         /* OWN: DMI_F_HAVE, DMI_F_NODATA; READ of others: DMI_F_DIRECT */
  dmi_version_t have;     /* OWN with HAVE: version of the origin's copy */
  /* READ of others: their fetch; in waiters: the fetch it joined, 0: waits for the copy */
  dmi_fetch_t fetch;
  struct dmi_req *next;
};

struct dmi_req_list {
  struct dmi_req *first, *last;
};

/* A member of the copyset: it may have a copy of this kind. */
struct dmi_sharer {
  dmi_uid_t uid;
  uint32_t kind;     /* DMI_KIND_* */
  uint32_t children; /* transfers delegated to it since it came into the copyset (R13) */
  uint32_t depth;    /* its depth in the tree of transfers; the owner's is 0 */
  dmi_fetch_t fetch; /* its last fetch that was decided here; 0: unknown */
};

/* State that exists only while operations or copies exist. */
struct dmi_page_busy {
  struct dmi_req_list queue;            /* owner, pending: operations that have not begun */
  struct dmi_req_list waiters;          /* own reads that wait; frozen, paused: own operations */
  struct dmi_req_list waiting_ops;      /* owner, pending: waiting operations (R11) */
  struct dmi_req *current;              /* the write in progress */
  struct dmi_slice bytes;               /* its new bytes */
  struct dmi_frame *answer;             /* its answer, if it is an atomic */
  uint32_t acks;                        /* acknowledgements that have not arrived */
  uint32_t puts;                        /* own PUT and ATOMIC without an answer */
  uint32_t away;                        /* frozen: how many of them were sent to a lost process */
  dmi_fetch_t fetch;                    /* READ in flight, 0: none */
  bool poisoned;                        /* the floor has risen since it was sent */
  struct dmi_delegated_read *delegated; /* delegated reads that wait for the fetch (R13) */
  struct dmi_assembly *blocks;          /* bytes from BLOCKs of the fetch; NULL: none */
  uint32_t holders, holders_capacity;
  struct dmi_sharer *holder; /* copyset */
  uint32_t children;         /* transfers by the owner itself since the copyset was last empty */
};

struct dmi_map;
struct dmi_promises;

/* One page in one process. `lock` guards the other fields. */
struct dmi_page {
  _Atomic uint32_t lock; /* used by the caller; the core does not touch it */
  uint8_t role;          /* enum dmi_role */
  uint8_t copy;          /* 0: ABSENT, else its DMI_KIND_* */
  uint16_t flags;        /* DMI_PAGE_* */
  dmi_uid_t hint;        /* 0: the home.  OFFERED: who has promised memory for it; 0: nobody */
  dmi_uid_t tail;        /* valid at the home */
  dmi_pageno_t index;    /* in the mapping */
  dmi_version_t version; /* of the bytes here */
  dmi_version_t floor;
  /* the bytes; NULL: absent (all zero, if the role or copy says that there are bytes) */
  struct dmi_frame *frame;
  struct dmi_page_busy *busy; /* NULL when idle and without copies elsewhere */
  struct dmi_map *map;
};

_Static_assert(sizeof(struct dmi_page) == 64, "a page record is one cache line");

#define DMI_PAGE_NODATA 0x0001 /* owner without bytes until its first write has run */
/* an own OWN, void since a change of home, is still in flight (R9) */
#define DMI_PAGE_STALE 0x0002
#define DMI_PAGE_DEAD 0x0004   /* the mapping is unmapped */
#define DMI_PAGE_LISTED 0x0008 /* its tail was in HOME_TAILS; until HOME_END */
/* the copy is unreleased: it has bytes of an update without RELEASE */
#define DMI_PAGE_UNRELEASED 0x0010
/* R12 */
#define DMI_PAGE_RESERVED 0x0020 /* memory for its bytes is reserved here */
/* owner: TAKE was sent, and neither OWN nor REFUSE_PAGE has arrived */
#define DMI_PAGE_OFFERED 0x0040
/* owner: the head of the queue waits for memory, or for its bytes */
#define DMI_PAGE_STALLED 0x0080
/* owner: its bytes are in the file; frame NULL does not mean zeros */
#define DMI_PAGE_SPILLED 0x0100
#define DMI_PAGE_COPY 0x0200 /* counted as a copy that could be dropped */
/* pending without a reservation: taken from a leaver, where it had no bytes */
#define DMI_PAGE_ZEROS 0x0800
/* for core/replace.h: read or written since the clock hand last passed */
#define DMI_PAGE_USED 0x0400
/* docs/crashes-pages.md */
/* owner: the bytes are lost; only a write of the whole page, or REVIVE, can run */
#define DMI_PAGE_LOST 0x1000
#define DMI_PAGE_PAUSED \
  0x2000 /* this process has no lease: copies are not read, nothing is asked */
#define DMI_PAGE_FROZEN 0x8000 /* between a crash view and RESUME: nothing is sent */

/* What the core needs of a mapping. */
struct dmi_map {
  uint64_t base;      /* global address */
  uint64_t page_size; /* bytes */
  uint64_t page_num;
  uint64_t tag; /* its tag in the directory (core/heap.h); not used by the page protocol */
  _Atomic dmi_uid_t home;
  _Atomic uint32_t arriving; /* uid of the leaver whose home is arriving here (R8.2); 0: none */
  dmi_uid_t given;   /* the daemon's: the heir to which this process has given the home; 0: none */
  _Atomic bool hole; /* at the home: pages without a record are LOST (docs/crashes-pages.md) */
};

/* Deliberate faults: each switches off one rule of docs/protocol.md, so that tests can show that
 * they would notice. See base/mutation.h. */
enum dmi_break {
  DMI_BREAK_NOTHING,
  DMI_BREAK_RELEASE,    /* R6 UPDATE: the copy is not unreleased: it can be read at once */
  DMI_BREAK_ACK_WAIT,   /* R4: a write does not wait for acknowledgements */
  DMI_BREAK_INVALIDATE, /* R4: INVALIDATE copies are not invalidated */
  DMI_BREAK_FLOOR,      /* R6 DATA: kept although it is older than the floor */
  DMI_BREAK_POISON,     /* R2.4: reads join a poisoned fetch */
  DMI_BREAK_PUTS,       /* R2, R6: the writer reads its copy while its PUT is in flight */
  DMI_BREAK_GAP,        /* R6 UPDATE, DONE: applied although versions are missing */
  DMI_BREAK_FORWARD,    /* R5: requests left in the queue are not forwarded */
  DMI_BREAK_COPYSET,    /* R5: GRANT does not have the copyset */
  DMI_BREAK_STALE,      /* R9: a void OWN is not dropped */
  DMI_BREAK_AWAY,       /* R9: a former home does not drop it or wait for it either */
  DMI_BREAK_TAILS,      /* R8: the heir does not get the tails */
  DMI_BREAK_TAKE,       /* R8: pages owned by the leaver are not taken */
  DMI_BREAK_LIST,       /* R6: a copy takes only the first range of a list */
  DMI_BREAK_LOOK,       /* R11: a write does not check waiting operations */
  DMI_BREAK_MOVE,       /* R11: waiting operations do not move with the ownership */
  DMI_BREAK_TOLD,       /* R11: the copy of a waiting operation's origin does not get its write */
  DMI_BREAK_DROP,       /* R12: a copy is dropped while the ownership is arriving */
  DMI_BREAK_LEAVER,     /* R12: a leaver takes offered pages */
  DMI_BREAK_REOFFER,    /* R12: a leaver does not offer a refused page again */
  DMI_BREAK_STALL,      /* R12: a stalled write is lost */
  DMI_BREAK_BEHIND,     /* R12: reads and waits do not overtake a stalled write */
  DMI_BREAK_REFUSE,     /* R12: a write that failed has changed the page */
  DMI_BREAK_RESERVE,    /* R12: READ is sent without a reservation for its bytes */
  DMI_BREAK_RETURN,     /* R12: a reservation is not returned if its bytes do not arrive */
  DMI_BREAK_SPILL,      /* R12: a spilled page is read as if it were zero */
  DMI_BREAK_EARLY,      /* R13: a reader keeps what it got early, whatever its fetch ends with */
  DMI_BREAK_DELEGATE,   /* R13: a delegate sends its copy whatever its version */
  DMI_BREAK_AFTER,      /* R13: DELEGATE waits for any fetch */
  DMI_BREAK_DELEGATED,  /* R13: delegated reads are forgotten if the fetch ends without DATA */
  DMI_BREAK_DATA,       /* R13: DATA is sent on to delegated reads whatever its version */
  DMI_BREAK_DECIDE,     /* R13: the origin of a delegated READ is not put into the copyset */
  DMI_BREAK_DIRECT,     /* R13: a READ with DIRECT is delegated, too */
  /* docs/crashes-pages.md */
  DMI_BREAK_FREEZE,     /* frozen copies are read */
  DMI_BREAK_CUT,        /* messages in flight are not waited for */
  DMI_BREAK_GRANT,      /* a frozen process drops a GRANT */
  DMI_BREAK_BACK,       /* operations sent to a lost process are begun again */
  DMI_BREAK_EXACT,      /* a copy is promoted though its process has an operation at the lost one */
  DMI_BREAK_WAITS,      /* waiting operations stay where their GRANT was lost */
  DMI_BREAK_STALE_KEPT, /* R9 still waits for a dropped OWN */
  DMI_BREAK_FLOOR_KEPT, /* the floor is not reset */
  DMI_BREAK_DROP_EARLY, /* copies are dropped as soon as an owner is decided */
  DMI_BREAK_DOUBT,      /* marks of operations that may have run are forgotten */
  DMI_BREAK_REVIVE,     /* a page that is not LOST is made zero, too */
  DMI_BREAK_TELLERS,    /* nobody is said to tell the end of a round itself */
  DMI_BREAK_LAST,
  /* what waits for a lost process; test/sim/lock_sim shows these */
  DMI_BREAK_HOLDER,   /* a lock stays with a lost holder */
  DMI_BREAK_UNMARKED, /* a lost holder's lock is not marked */
  DMI_BREAK_AGAIN,    /* a LOCK that is sent again does not find itself as the holder */
  DMI_BREAK_SWALLOW,  /* a signal is spent on the ticket of a lost process */
  DMI_BREAK_ROUND     /* arrivals of before a loss count in a round */
};

/* The account of the memory for page bytes (R12). `bytes` is the page size. The functions are
 * called with the page locked: they must not wait, nor call the core. */
struct dmi_account {
  /* Reserves memory for one page. False: there is none. With `force` it is never false: the
   * bytes arrive in any case. */
  bool (*reserve)(void *arg, uint64_t bytes, bool force);
  /* Returns a reservation. */
  void (*release)(void *arg, uint64_t bytes);
  /* The frame has become the bytes of a page here. `reserved`: a reservation becomes the
   * frame's. The caller holds a reference; messages may hold others. */
  void (*attach)(void *arg, struct dmi_frame *frame, bool reserved);
  /* The frame is not the bytes of a page any more; messages may still hold references. The core
   * drops its own one afterwards. */
  void (*detach)(void *arg, struct dmi_frame *frame);
  /* Adds `more` (negative: subtracts) to the bytes of copies that could be dropped at once. */
  void (*copies)(void *arg, int64_t more);
  /* The spilled bytes of this page are not needed any more: it was overwritten, or unmapped. */
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
  /* True if it is a member, or has left and may still wait for answers. NULL: no process has
   * left. */
  bool (*is_there)(void *arg, dmi_uid_t uid);
  /* True if bytes reach this member by shared memory, and use no network.  NULL: none.  Called with
   * the page locked. */
  bool (*is_near)(void *arg, dmi_uid_t uid);
  /* For a recovery (docs/crashes-pages.md), called with the page locked, only between
   * dmi_page_freeze and dmi_page_resume. is_cut: has this process's CUT arrived? The others: a
   * request was dropped; an operation is kept here. Their first argument is `recover`. */
  bool (*is_cut)(void *recover, dmi_uid_t uid);
  void (*dropped)(void *recover, dmi_uid_t origin, dmi_op_t op);
  void (*held)(void *recover, dmi_uid_t origin, dmi_op_t op);
  void *recover;
  /* The program's DMI_function, or NULL; and what negative tags are for, or NULL. */
  void (*function)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag);
  void (*step)(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
               int64_t out2_size, void *in, int64_t in_size, int8_t tag);
  const struct dmi_account *account; /* NULL: memory is unlimited */
  void *arg;
  uint64_t hop;   /* cost of one more hop, in bytes (R13); 0: DMI_HOP */
  uint64_t block; /* bytes of a BLOCK; 0: DMI_BLOCK */
  /* records that are OWNER or PENDING, and those STALE (R9); 0, and no home here: drained */
  _Atomic uint64_t owned;
  _Atomic dmi_uid_t heir; /* uid, not 0: this process is leaving, R8 */
  /* the pages to hand over are counted: this process comes to own no others (R12) */
  _Atomic bool counted;
  struct dmi_promises *promises; /* memory that members have promised a leaver; NULL: none */
  _Atomic uint64_t fetches;      /* the last fetch number given out */
  _Atomic bool frozen;           /* new records are FROZEN */
  _Atomic bool paused;           /* new records are PAUSED */
  /* not 0: DMI_exit was called, with this status + 1: nothing waits at the owner but for a lock */
  _Atomic uint32_t stopping;
  /* number of the last crash view (modulo 2^32) that this process knows of, 0: none */
  _Atomic uint32_t losses;
};

/* Initialises a new page record: OWNER of a page of zeros if this process is the home (and the
 * home is not arriving), otherwise NONE. */
void dmi_page_init(struct dmi_core *core, struct dmi_map *map, struct dmi_page *page,
                   dmi_pageno_t index);

/* Frees what the record holds. It must have been killed, or be idle except for waiting
 * operations (R11): nobody gets an answer, and own ones stay the caller's. */
void dmi_page_fini(struct dmi_core *core, struct dmi_page *page);

/* Begins an own operation. Its range must be in the page. While core->heir is set, it is done by
 * GET, PUT or ATOMIC whatever its mode (R8). */
void dmi_page_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                    struct dmi_out *out);

/* True if an owner's bytes are not just zeros that nobody has written: they are here, or spilled,
 * or a write that has begun brings them. */
static inline bool dmi_page_has_bytes(const struct dmi_page *page) {
  if (page->frame || (page->flags & (DMI_PAGE_SPILLED | DMI_PAGE_NODATA))) return true;
  return page->busy && page->busy->current;
}

/* True if any read can be served from here at once, without an action. */
bool dmi_page_readable(const struct dmi_core *core, const struct dmi_page *page);

/* True if an own write can be done in place at once, by dmi_page_write_now, without a message. */
bool dmi_page_writable(const struct dmi_core *core, const struct dmi_page *page);
/* Writes at once. False: no memory for the bytes, nothing was changed. */
bool dmi_page_write_now(struct dmi_core *core, struct dmi_page *page, uint64_t off, const void *src,
                        uint64_t len);

/* The same for several parts, in their order, with bytes from `src`. */
bool dmi_page_write_parts_now(struct dmi_core *core, struct dmi_page *page,
                              const struct dmi_part *part, uint64_t parts,
                              const unsigned char *src);

/* The same two for all bytes of a page, without copying them. Both need dmi_page_writable. Takes
 * the frame out of the page, which is then as one that was never written; it has no other
 * reference. NULL: there is none, or others use it. */
struct dmi_frame *dmi_page_take_frame(struct dmi_core *core, struct dmi_page *page);
/* Makes the frame, of which nobody has another reference, the bytes of the page; takes the
 * reference over. False: no memory, nothing was changed. */
bool dmi_page_give_frame(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame);

/* Handles a message of class PAGE about this page. GOT, DONE and FAIL without a fetch answer an
 * own operation: `own` is the one whose op number the message has and whose `sent` is set (NULL:
 * unknown, the message is ignored). Takes over the slices of msg. Returns false, changing
 * nothing, if a correct peer cannot have sent the message. */
bool dmi_page_message(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out);

/* True if dmi_page_message will neither keep nor pass on the body of this message, so that it may
 * be borrowed. */
bool dmi_page_at_once(const struct dmi_page *page, const struct dmi_msg *msg);

/* True if a message of which dmi_page_at_once is true, and whose operation is known, does nothing
 * but to end that: most answers to a thread that waits. */
bool dmi_page_only_ends(const struct dmi_page *page, const struct dmi_msg *msg);
/* What dmi_page_message does with such a message, but for its one action: if true, the operation is
 * complete.  Frees no slices. */
bool dmi_page_ended(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                    const struct dmi_msg *msg, struct dmi_req *own);

/* Bytes [off, got) of the body of this DATA or BLOCK, which belongs to the page, have come, and are
 * in its frame, behind those that had come before; the rest is arriving. */
void dmi_page_part(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                   uint64_t off, uint64_t got, struct dmi_out *out);

/* Where the body of an arriving BLOCK is received: at its place in the page; sets
 * msg->body.frame. NULL: it is not needed, but dmi_page_message must still be called. */
unsigned char *dmi_page_block_body(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                                   struct dmi_msg *msg);

/* core->stopping was set: operations that wait here end with DMI_EEND, but for those that wait for
 * a lock.  A frozen page does so when it resumes. */
void dmi_page_wait_stop(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* The mapping is unmapped (R10): fails everything that waits here and frees the bytes. */
void dmi_page_kill(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* Makes the answer of a process that does not know the mapping (R10). Returns the uid to send it
 * to; 0: no answer. */
uint32_t dmi_page_unknown(dmi_uid_t from, const struct dmi_msg *msg, struct dmi_msg *reply);

/* ---- Leaving (home.c): the caller goes over all its pages ---- */

/* R8.1: the tail to hand over, for a page whose mapping this process was home of. */
dmi_uid_t dmi_page_tail(const struct dmi_core *core, const struct dmi_page *page);

/* R8.2. At HOME_TAILS: sets this tail (listed). At HOME_END, for every record of the mapping:
 * not listed; pages that were listed are not changed. False: not from a correct peer. */
bool dmi_page_home_arrived(struct dmi_core *core, struct dmi_page *page, bool listed,
                           dmi_uid_t tail, struct dmi_out *out);

/* R8.3 at the leaver: sends TAKE with MUST if the page is owned here: to a member that has promised
 * memory for it (core->promises), or else to the heir; not if it was offered by a promise already.
 * The core calls it itself when a leaver becomes the owner of a page. */
void dmi_page_hand_over(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);
/* The same to `to`, whatever was promised. */
void dmi_page_give(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to, struct dmi_out *out);

/* A message of a step could not be sent any more, because `to` left between the step and the
 * sending. The caller has published the new members and homes before. Takes over msg's slices. */
void dmi_page_bounced(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                      struct dmi_msg *msg, struct dmi_out *out);

/* R8.3 and R12 at the receiver, for each page of a TAKE. `must`: its flag MUST; `zero`: of the
 * entry: such a page needs no memory until its bytes arrive, and gets it by force then. False:
 * the page is refused; the caller sends REFUSE_PAGE. */
bool dmi_page_take(struct dmi_core *core, struct dmi_page *page, bool must, bool zero,
                   struct dmi_out *out);
/* Called for each page of a REFUSE_PAGE (`must`: its flag MUST, the same as in the TAKE). */
void dmi_page_refused(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from, bool must,
                      struct dmi_out *out);

/* ---- Memory (R12; page_reserve.c): the caller decides what leaves, docs/replacement.md ---- */

/* Drops a copy.  False: there is none, or it must stay for now. */
bool dmi_page_drop(struct dmi_core *core, struct dmi_page *page);

/* R8.4 at a leaver: drops the copy. False: there is still one, or a fetch is in flight; call it
 * again after another step of the page. */
bool dmi_page_depart(struct dmi_core *core, struct dmi_page *page);

/* Sends TAKE to `to`, a member. A stalled page can be offered, too: its writes go on where there
 * is memory. False: not owned, busy, or offered already. */
bool dmi_page_offer(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                    struct dmi_out *out);

/* After DMI_ACT_STALLED. DMI_OK: the caller has reserved memory for this page, and the
 * reservation passes to it. An error: the operation at the head of the queue fails with it. The
 * queue goes on, and may stall again, with another action. False: nothing was changed, and a
 * reservation stays the caller's: the page is not stalled (any more); or it is spilled, and the
 * operation at the head needs the bytes (dmi_page_unspill) or is an OWN, which cannot fail. */
bool dmi_page_unstall(struct dmi_core *core, struct dmi_page *page, int error, struct dmi_out *out);

/* Takes the bytes out of an idle page that has no copies elsewhere, and returns them with a
 * reference (NULL: not now). The page is spilled then: an operation that needs the bytes stalls. */
struct dmi_frame *dmi_page_spill(struct dmi_core *core, struct dmi_page *page);
/* Puts spilled bytes back: takes over the frame and a reservation for it. False: not spilled any
 * more; both stay the caller's. */
bool dmi_page_unspill(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                      struct dmi_out *out);

/* A text that says which invariant of docs/protocol.md is violated; NULL: none. */
const char *dmi_page_wrong(const struct dmi_core *core, const struct dmi_page *page);
/* Aborts with a message if an invariant is violated. */
void dmi_page_check(const struct dmi_core *core, const struct dmi_page *page);

#endif
