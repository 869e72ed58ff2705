/*
 * room.h - who has room for pages of others: what this process knows of the other members, what it
 * owes them, and the promises of a leave (docs/replacement.md, "Who has room", "Leaving").
 *
 * Pure: events in, messages out; how much room there is here is told by the caller.  Not for
 * several threads at once: the caller has a lock.
 */
#ifndef DMI_CORE_ROOM_H
#define DMI_CORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"

/* What somebody asks for room for. */
enum dmi_room_kind {
  DMI_ROOM_AHEAD, /* a page that leaves before there is need: what is below the mark of the pager */
  DMI_ROOM_URGENT, /* one that must leave, or a write fails: all there is */
  DMI_ROOM_PROMISE /* those of a process that leaves: set aside for it */
};

enum dmi_room_type {
  DMI_ROOM_ASK,  /* have you room?  Exactly one TELL answers it */
  DMI_ROOM_TELL, /* so much.  With number 0: nobody asked now, but before it was too little */
  DMI_ROOM_BACK  /* gives back what is left of a promise, up to `bytes` */
};

struct dmi_room_msg {
  uint8_t type;    /* enum dmi_room_type */
  uint8_t kind;    /* enum dmi_room_kind; BACK: 0 */
  uint64_t number; /* ASK: of the question, from 1; TELL: of what it answers */
  uint64_t bytes;  /* that are wanted, are there, or go back */
  uint64_t unit;   /* ASK: less than this is of no use: the size of a page */
  bool now;        /* ASK: to be answered at once, whatever is in use only in passing */
};

/* From a message of class ROOM.  False: no correct peer sends it. */
bool dmi_room_of_msg(const struct dmi_msg *msg, struct dmi_room_msg *room);
/* The message that this process sends. */
struct dmi_msg dmi_room_to_msg(const struct dmi_room_msg *room, uint32_t self);

/* Messages to be sent, in order. */
struct dmi_room_out {
  uint64_t num, room;
  struct dmi_room_send {
    uint32_t to; /* uid */
    struct dmi_room_msg msg;
  } * send;
};
void dmi_room_out_init(struct dmi_room_out *out);
void dmi_room_out_free(struct dmi_room_out *out);

struct dmi_rooms;

struct dmi_rooms *dmi_rooms_new(void); /* aborts without memory */
void dmi_rooms_free(struct dmi_rooms *rooms);

/* Who has a file for its pages may wait for one to come back, and others wait for it meanwhile: it
 * must not wait for them. */
void dmi_rooms_spill(struct dmi_rooms *rooms);

/* Deliberate faults, one rule switched off each, for tests: base/mutation.h. */
enum dmi_room_break {
  DMI_ROOM_BREAK_NOTHING,
  DMI_ROOM_BREAK_OWED,    /* who got too little is not remembered */
  DMI_ROOM_BREAK_REFUSED, /* who had too little is asked again and again */
  DMI_ROOM_BREAK_GIVE_UP, /* promises are not given back when a leave ends */
  DMI_ROOM_BREAK_GONE,    /* what a member that left did not answer is waited for */
  DMI_ROOM_BREAK_WORD,    /* what was offered to a member is not deducted from its word */
  DMI_ROOM_BREAK_HOLD,    /* an answer that is too small only for a moment is given */
  DMI_ROOM_BREAK_WHOLE,   /* promises are counted as sums of bytes, not in whole pages */
  DMI_ROOM_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_rooms_set_break(struct dmi_rooms *rooms, enum dmi_room_break broken);
#endif

/* How a leave stands. */
enum dmi_room_leave {
  DMI_ROOM_NO_LEAVE,
  DMI_ROOM_LEAVE_ASKS,  /* an answer is to come */
  DMI_ROOM_LEAVE_READY, /* enough was promised */
  DMI_ROOM_LEAVE_FAILED /* there is not enough room */
};
enum dmi_room_leave dmi_room_leave_state(const struct dmi_rooms *rooms);

/* ---- Events --------------------------------------------------------------------------------- */

/* The other members.  Returns the bytes promised to those that are none any more: the caller gives
 * them back to the account. */
uint64_t dmi_room_view(struct dmi_rooms *rooms, const uint32_t *uid, uint64_t num,
                       struct dmi_room_out *out);

/* A message of a member.  False, with nothing changed, when it cannot come from a correct peer.
 * *freed: bytes for the account, as above. */
bool dmi_room_message(struct dmi_rooms *rooms, uint32_t from, const struct dmi_room_msg *msg,
                      uint64_t *freed, struct dmi_room_out *out);

/* A page was offered to a member and came back. */
void dmi_room_kept(struct dmi_rooms *rooms, uint32_t from);

/* ---- This process needs room ---------------------------------------------------------------- */

enum dmi_room_have {
  DMI_ROOM_SOME,  /* dmi_room_pick finds somebody */
  DMI_ROOM_ASKED, /* answers are to come */
  DMI_ROOM_NONE   /* nobody has; those who get some will say so */
};

/* For `bytes` in all, of pages of `unit` bytes: asks those who may have room if nobody is known to.
 * AHEAD or URGENT. */
enum dmi_room_have dmi_room_need(struct dmi_rooms *rooms, uint64_t bytes, uint64_t unit,
                                 enum dmi_room_kind kind, struct dmi_room_out *out);

/* To whom a page of `bytes` is offered now, `holder` being the uids that may have a copy.  0:
 * nobody is known to have room. */
uint32_t dmi_room_pick(struct dmi_rooms *rooms, const uint32_t *holder, uint64_t holders,
                       uint64_t bytes, enum dmi_room_kind kind);

/* ---- Others need room ----------------------------------------------------------------------- */

struct dmi_room_asker {
  uint32_t uid;
  uint8_t kind;
  uint64_t bytes, unit;
};

/* What is in use here only in passing, and ends by itself. */
struct dmi_room_passing {
  uint64_t bytes;  /* now */
  uint64_t turned; /* that ended so far */
  bool copies;     /* some copies could go, but are held or waited for at the moment */
};

/* A question that has no answer yet; false: none.  The order is that of the members. */
bool dmi_room_asker(const struct dmi_rooms *rooms, struct dmi_room_asker *asker);

/* Is the answer, if it is `bytes`, to be held back?  It is too small then, but need not remain so.
 * For no longer than until as much has ended as was passing at first, whatever comes behind it. A
 * question that was held back is no `asker` before dmi_room_again. */
bool dmi_room_hold(struct dmi_rooms *rooms, const struct dmi_room_asker *asker, uint64_t bytes,
                   const struct dmi_room_passing *passing);
void dmi_room_again(struct dmi_rooms *rooms);

/* The answer: `bytes` can be taken, or (PROMISE) have been reserved for it.  False: it has left
 * meanwhile. */
bool dmi_room_answer(struct dmi_rooms *rooms, const struct dmi_room_asker *asker, uint64_t bytes,
                     struct dmi_room_out *out);

/* The smallest page that somebody waits to hear of room for; 0: nobody does. */
uint64_t dmi_room_owed(const struct dmi_rooms *rooms, enum dmi_room_kind kind);

/* There is so much room now, for AHEAD and for URGENT: those who wait for it are told. */
void dmi_room_freed(struct dmi_rooms *rooms, uint64_t ahead, uint64_t urgent,
                    struct dmi_room_out *out);

/* A page of a process that leaves, which was promised to it, comes here.  Returns the bytes of the
 * promise that the caller gives back to the account, since the page takes them. */
uint64_t dmi_room_taken(struct dmi_rooms *rooms, uint32_t from, uint64_t bytes);

/* Bytes set aside for others that leave. */
uint64_t dmi_room_promised(const struct dmi_rooms *rooms);

/* ---- This process leaves -------------------------------------------------------------------- */

/* Pages of one size. */
struct dmi_room_lot {
  uint64_t size, num; /* bytes of each; pages */
};

/* It has these pages, in any order, each size once; `heir` takes them if it can; others, if not.
 * READY is said when each of them fits as a whole.  No pages: READY at once. */
void dmi_room_leave(struct dmi_rooms *rooms, uint32_t heir, const struct dmi_room_lot *lot,
                    uint64_t lots, struct dmi_room_out *out);

/* Who gets a page of `bytes`, in any order: one of those that were counted goes where its room is;
 * one more (it got its bytes since) to who has promised more than is needed, or else to the heir.
 * READY only. */
uint32_t dmi_room_give(struct dmi_rooms *rooms, uint64_t bytes);

/* All pages are gone, or (FAILED) it stays: what is left of the promises goes back. */
void dmi_room_leave_end(struct dmi_rooms *rooms, struct dmi_room_out *out);

#endif
