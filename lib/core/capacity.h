/*
 * capacity.h - which members have free memory for pages: what this process knows about the others,
 * which reports it owes them, and what it has promised to members that leave (docs/replacement.md,
 * "Capacity"). Promises of others to this process are in core/promise.h.
 *
 * Pure: events in, messages out; the caller says how much memory is free here. Not thread-safe: the
 * caller has a lock.
 */
#ifndef DMI_CORE_CAPACITY_H
#define DMI_CORE_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"

/* The purpose of the memory that is asked for. */
enum dmi_capacity_kind {
  DMI_CAPACITY_AHEAD, /* for a page that leaves ahead of need: the memory below the pager's mark */
  /* for a page that must leave, because otherwise a write fails: all free memory */
  DMI_CAPACITY_URGENT,
  DMI_CAPACITY_PROMISE /* for the pages of a leaver: reserved for it */
};

/* Messages: CAPACITY_ASK asks how much memory is free. Exactly one CAPACITY_REPORT with its
 * number answers it; one with number 0 is not an answer: it says that there is more than before,
 * when there was too little. CAPACITY_RETURN gives back the rest of a promise, up to its bytes. */

/* Messages to send, in order. */
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

struct dmi_capacity *dmi_capacity_new(void); /* aborts if there is no memory */
void dmi_capacity_free(struct dmi_capacity *capacity);

/* This process has a spill file. It may wait until a page is read back from it, and others wait
 * for that page, so it must not wait for them. */
void dmi_capacity_spill(struct dmi_capacity *capacity);

/* Deliberate faults, one rule switched off each, for tests: base/mutation.h. */
enum dmi_capacity_break {
  DMI_CAPACITY_BREAK_NOTHING,
  DMI_CAPACITY_BREAK_OWED,    /* a member that got too little is not remembered */
  DMI_CAPACITY_BREAK_REFUSED, /* a member that had too little is asked again and again */
  DMI_CAPACITY_BREAK_GIVE_UP, /* promises are not given back when a leave ends */
  DMI_CAPACITY_BREAK_GONE,    /* it waits for the answer of a member that left */
  DMI_CAPACITY_BREAK_KNOWN,   /* offers to a member are not subtracted from its report */
  DMI_CAPACITY_BREAK_DEFER,   /* an answer that is only temporarily too small is not deferred */
  DMI_CAPACITY_BREAK_WHOLE,   /* promises are counted as sums of bytes, not in whole pages */
  DMI_CAPACITY_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_capacity_set_break(struct dmi_capacity *capacity, enum dmi_capacity_break broken);
#endif

/* ---- Events --------------------------------------------------------------------------------- */

/* Sets the other members. Returns the bytes promised to those that are not members any more; the
 * caller returns them to the account. */
uint64_t dmi_capacity_view(struct dmi_capacity *capacity, const dmi_uid_t *uid, uint64_t num);

/* Handles a member's message, except a REPORT of kind PROMISE. False, with nothing changed: a
 * correct peer does not send it. *freed: bytes for the account, as above. */
bool dmi_capacity_message(struct dmi_capacity *capacity, dmi_uid_t from, const struct dmi_msg *msg,
                          uint64_t *freed);

/* A member refused a page that was offered to it. */
void dmi_capacity_refused(struct dmi_capacity *capacity, dmi_uid_t from);

/* ---- This process needs memory ----------------------------------------------------------------
 */

enum dmi_capacity_have {
  DMI_CAPACITY_SOME,  /* dmi_capacity_pick finds a member */
  DMI_CAPACITY_ASKED, /* answers are missing */
  DMI_CAPACITY_NONE   /* no member has any; those that get some will report it */
};

/* Memory is needed for `bytes` in all, in pages of `unit` bytes: asks the members that may have
 * some if none is known to have any. AHEAD or URGENT. */
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

/* The transient use here, which ends by itself. */
struct dmi_capacity_transient {
  uint64_t bytes; /* bytes in transient use now */
  uint64_t ended; /* bytes whose transient use has ended so far */
  bool copies;    /* some copies could be dropped, but are busy now (unreleased, or waited for) */
};

/* Finds an unanswered question, in the order of the members. False: there is none. */
bool dmi_capacity_asker(const struct dmi_capacity *capacity, struct dmi_capacity_asker *asker);

/* True if an answer of `bytes` must be deferred: it is too small, but may not remain so. It is
 * deferred at most until as much transient use has ended as there was at first, even if there is
 * new use. dmi_capacity_asker does not return a deferred question before dmi_capacity_again. */
bool dmi_capacity_defer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                        uint64_t bytes, const struct dmi_capacity_transient *transient);
void dmi_capacity_again(struct dmi_capacity *capacity);

/* Answers: `bytes` can be taken, or (PROMISE) are reserved. False: the member has left
 * meanwhile. */
bool dmi_capacity_answer(struct dmi_capacity *capacity, const struct dmi_capacity_asker *asker,
                         uint64_t bytes, struct dmi_capacity_out *out);

/* The size of the smallest page for which a member waits for a report; 0: none waits. */
uint64_t dmi_capacity_owed(const struct dmi_capacity *capacity, enum dmi_capacity_kind kind);

/* So many bytes are free now for AHEAD and for URGENT: sends the reports for which members wait. */
void dmi_capacity_freed(struct dmi_capacity *capacity, uint64_t ahead, uint64_t urgent,
                        struct dmi_capacity_out *out);

/* A promised page arrives from a leaver. Returns the bytes of the promise that the caller
 * returns to the account, because the page itself is counted now. */
uint64_t dmi_capacity_taken(struct dmi_capacity *capacity, dmi_uid_t from, uint64_t bytes);

/* Bytes reserved for other members that leave. */
uint64_t dmi_capacity_promised(const struct dmi_capacity *capacity);

#endif
