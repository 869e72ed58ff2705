/*
 * promise.h - who takes the pages of this process when it leaves: it asks the members, one after
 * the other, to reserve memory for them, and plans which pages each member gets
 * (docs/replacement.md, "Leaving"). The members' side is in core/capacity.h.
 *
 * Pure: events in, messages out. The daemon's thread calls; but dmi_promises_give and
 * dmi_promises_untaken any thread may call, also with a page locked: there is a lock inside
 * (docs/locking.md).
 */
#ifndef DMI_CORE_PROMISE_H
#define DMI_CORE_PROMISE_H

#include "core/capacity.h"
#include "core/out.h"
#include "core/page.h"

/* `core` tells this process's uid, and must live as long. Aborts if there is no memory. */
struct dmi_promises *dmi_promises_new(const struct dmi_core *core);
void dmi_promises_free(struct dmi_promises *promises);
#ifdef DMI_MUTATIONS
void dmi_promises_set_break(struct dmi_promises *promises, enum dmi_capacity_break broken);
/* Chooses who gets a page (0: the heir), instead of the members that have promised memory. */
void dmi_promises_set_receiver(struct dmi_promises *promises,
                               dmi_uid_t (*receiver)(void *arg, uint64_t bytes), void *arg);
#endif

/* The other members. */
void dmi_promises_view(struct dmi_promises *promises, const dmi_uid_t *uid, uint64_t num);

/* CAPACITY_REPORT from a member. False, with nothing changed: a correct peer does not send it. */
bool dmi_promises_report(struct dmi_promises *promises, dmi_uid_t from, const struct dmi_msg *msg);

/* Pages of one size. */
struct dmi_promise_size {
  uint64_t size, num; /* bytes of each; number of pages */
};

/* A leave begins: this process has these pages, each size once; `heir` is asked first. */
void dmi_promises_begin(struct dmi_promises *promises, dmi_uid_t heir,
                        const struct dmi_promise_size *sizes, uint64_t size_num);

enum dmi_promises_state {
  DMI_PROMISES_ASKED,     /* another member was asked */
  DMI_PROMISES_WAIT,      /* its answer has not arrived */
  DMI_PROMISES_ENOUGH,    /* each page has a place */
  DMI_PROMISES_TOO_LITTLE /* not enough, and no member is left to ask */
};
/* Asks the next member, if necessary. */
enum dmi_promises_state dmi_promises_ask(struct dmi_promises *promises, struct dmi_out *out);

/* The member that gets a page of `bytes`; pages may come in any order. A page that was counted
 * goes where it was planned; another one (it got its bytes later) to a member that has promised
 * more than planned. 0: there is none, so it goes to the heir. */
dmi_uid_t dmi_promises_give(struct dmi_promises *promises, uint64_t bytes);

/* A page of `bytes` was offered to `uid`, and will be offered again: what that one has promised
 * for it counts again. */
void dmi_promises_untaken(struct dmi_promises *promises, dmi_uid_t uid, uint64_t bytes);

/* All pages have been handed over, or this process stays: returns the rest of the promises.
 * `untaken`: of those that were offered some may not have been taken, and will not be; members
 * return no more than they still have. */
void dmi_promises_end(struct dmi_promises *promises, bool untaken, struct dmi_out *out);

#endif
