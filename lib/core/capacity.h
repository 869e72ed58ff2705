/*
 * capacity.h - which members have free memory for pages: what this process knows of the others,
 * which reports it owes them, and what it has promised to those that leave (docs/replacement.md,
 * "Capacity").  What they promise to it is in core/promise.h.
 *
 * Pure: events in, messages out; the caller says how much memory is free here. Not for several
 * threads at once: the caller has a lock.
 */
#ifndef DMI_CORE_CAPACITY_H
#define DMI_CORE_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"

/* What the memory is asked for. */
enum dmi_capacity_kind {
  DMI_CAPACITY_AHEAD,  /* a page that leaves before it must: the memory below the pager's mark */
  DMI_CAPACITY_URGENT, /* a page that must leave, or a write fails: all free memory */
  DMI_CAPACITY_PROMISE /* the pages of a process that leaves: reserved for it */
};

/*
 * Messages: CAPACITY_ASK: how much memory is free?  Exactly one CAPACITY_REPORT with its number
 * answers it; one with number 0 is no answer: there was too little before, and is more now.
 * CAPACITY_RETURN gives back what is left of a promise, up to its bytes.
 */

/* Messages to be sent, in order. */
struct dmi_capacity_out {
  uint64_t num, capacity;
  struct dmi_capacity_send {
    dmi_uid_t to;
    struct dmi_msg msg; /* without `origin` */
  } * send;
};
void dmi_capacity_out_init(struct dmi_capacity_out *out);
void dmi_capacity_out_free(struct dmi_capacity_out *out);

struct dmi_capacity;

struct dmi_capacity *dmi_capacity_new(void); /* aborts without memory */
void dmi_capacity_free(struct dmi_capacity *capacity);

/* This process has a spill file. It may wait for a page to come back from it, and others wait for
 * that page: so it must not wait for them. */
void dmi_capacity_spill(struct dmi_capacity *capacity);

/* Deliberate faults, one rule switched off each, for tests: base/mutation.h. */
enum dmi_capacity_break {
  DMI_CAPACITY_BREAK_NOTHING,
  DMI_CAPACITY_BREAK_OWED,    /* a member that got too little is not remembered */
  DMI_CAPACITY_BREAK_REFUSED, /* a member that had too little is asked again and again */
  DMI_CAPACITY_BREAK_GIVE_UP, /* promises are not given back when a leave ends */
  DMI_CAPACITY_BREAK_GONE,    /* the answer of a member that left is waited for */
  DMI_CAPACITY_BREAK_KNOWN, /* what was offered to a member is not subtracted from what it reported
                             */
  DMI_CAPACITY_BREAK_DEFER, /* an answer that is too small only for a moment is not deferred */
  DMI_CAPACITY_BREAK_WHOLE, /* promises are counted as sums of bytes, not in whole pages */
  DMI_CAPACITY_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_capacity_set_break(struct dmi_capacity *capacity, enum dmi_capacity_break broken);
#endif

/* ---- Events --------------------------------------------------------------------------------- */

/* The other members. Returns the bytes promised to those that are no members any more: the caller
 * returns them to the account. */
uint64_t dmi_capacity_view(struct dmi_capacity *capacity, const dmi_uid_t *uid, uint64_t num);

/* A message of a member, but no REPORT of kind PROMISE.  False, with nothing changed, when it
 * cannot come from a correct peer.  *freed: bytes for the account, as above. */
bool dmi_capacity_message(struct dmi_capacity *capacity, dmi_uid_t from, const struct dmi_msg *msg,
                          uint64_t *freed);

/* A page that was offered to a member was refused. */
void dmi_capacity_refused(struct dmi_capacity *capacity, dmi_uid_t from);

/* ---- This process needs memory ----------------------------------------------------------------
 */

enum dmi_capacity_have {
  DMI_CAPACITY_SOME,  /* dmi_capacity_pick finds a member */
  DMI_CAPACITY_ASKED, /* answers are missing */
  DMI_CAPACITY_NONE   /* no member has any; those that get some will say so */
};

/* For `bytes` in all, of pages of `unit` bytes: asks the members that may have memory if none is
 * known to have any. AHEAD or URGENT. */
enum dmi_capacity_have dmi_capacity_need(struct dmi_capacity *capacity, uint64_t bytes,
                                         uint64_t unit, enum dmi_capacity_kind kind,
                                         struct dmi_capacity_out *out);

/* The number of the last question; 0: none was asked. */
uint64_t dmi_capacity_asked(const struct dmi_capacity *capacity);
/* Forgets that members had no memory for URGENT when they answered questions up to this one.
 * False: none of them did. */
bool dmi_capacity_forget(struct dmi_capacity *capacity, uint64_t number);

/* The member to which a page of `bytes` is offered now; `holder`: uids that may have a copy. 0: no
 * member is known to have memory for it. */
dmi_uid_t dmi_capacity_pick(struct dmi_capacity *capacity, const dmi_uid_t *holder,
                            uint64_t holders, uint64_t bytes, enum dmi_capacity_kind kind);

/* ---- Others need memory -----------------------------------------------------------------------
 */

struct dmi_capacity_asker {
  dmi_uid_t uid;
  uint8_t kind;
  uint64_t bytes, unit;
};

/* What is in use here only transiently, and ends by itself. */
struct dmi_capacity_transient {
  uint64_t bytes; /* now */
  uint64_t ended; /* that ended so far */
  bool copies;    /* some copies could go, but not at the moment (not released, or waited for) */
};

/* A question that was not answered yet, in the order of the members; false: there is none. */
bool dmi_capacity_asker(const struct dmi_capacity *capacity, struct dmi_capacity_asker *asker);

/* True if an answer of `bytes` must be deferred: it is too small, but need not remain so. It is
 * deferred at most until as much transient use has ended as there was at first, whatever came after
 * it. A deferred question is no `asker` before dmi_capacity_again. */
bool dmi_capacity_defer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                        uint64_t bytes, const struct dmi_capacity_transient *transient);
void dmi_capacity_again(struct dmi_capacity *capacity);

/* The answer: `bytes` can be taken, or (PROMISE) have been reserved. False: the member has left
 * meanwhile. */
bool dmi_capacity_answer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                         uint64_t bytes, struct dmi_capacity_out *out);

/* The size of the smallest page for which a member waits for a report; 0: none waits. */
uint64_t dmi_capacity_owed(const struct dmi_capacity *capacity, enum dmi_capacity_kind kind);

/* So much memory is free now, for AHEAD and for URGENT: sends the reports that members wait for. */
void dmi_capacity_freed(struct dmi_capacity *capacity, uint64_t ahead, uint64_t urgent,
                        struct dmi_capacity_out *out);

/* A page arrives from a process that leaves, as promised. Returns the bytes of the promise that the
 * caller returns to the account, since the page uses them. */
uint64_t dmi_capacity_taken(struct dmi_capacity *capacity, dmi_uid_t from, uint64_t bytes);

/* Bytes reserved for others that leave. */
uint64_t dmi_capacity_promised(const struct dmi_capacity *capacity);

#endif
