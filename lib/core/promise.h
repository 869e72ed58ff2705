/*
 * promise.h - who takes the pages of this process when it leaves: the members are asked, one after
 * the other, to reserve memory for them, and it is planned which pages each of them gets
 * (docs/replacement.md, "Leaving").  What happens at those who promise is in core/capacity.h.
 *
 * Pure: events in, messages out.  Of the daemon's thread alone, so it needs no lock.
 */
#ifndef DMI_CORE_PROMISE_H
#define DMI_CORE_PROMISE_H

#include "core/capacity.h"
#include "core/out.h"
#include "core/page.h"

struct dmi_promises;

/* `core` tells who this is; it must live as long.  Aborts without memory. */
struct dmi_promises *dmi_promises_new(const struct dmi_core *core);
void dmi_promises_free(struct dmi_promises *promises);
#ifdef DMI_MUTATIONS
void dmi_promises_set_break(struct dmi_promises *promises, enum dmi_capacity_break broken);
#endif

/* The other members. */
void dmi_promises_view(struct dmi_promises *promises, const dmi_uid_t *uid, uint64_t num);

/* CAPACITY_REPORT of a member.  False, with nothing changed, when it cannot come from a correct
 * peer.
 */
bool dmi_promises_report(struct dmi_promises *promises, dmi_uid_t from, const struct dmi_msg *msg);

/* Pages of one size. */
struct dmi_promise_size {
  uint64_t size, num; /* bytes of each; pages */
};

/* This process has these pages, each size once; `heir` is asked first. */
void dmi_promises_begin(struct dmi_promises *promises, dmi_uid_t heir,
                        const struct dmi_promise_size *sizes, uint64_t size_num);

enum dmi_promises_state {
  DMI_PROMISES_ASKED,     /* one more member was asked */
  DMI_PROMISES_WAIT,      /* its answer is missing */
  DMI_PROMISES_ENOUGH,    /* each page fits as a whole somewhere */
  DMI_PROMISES_TOO_LITTLE /* ... and there is nobody left to ask */
};
/* Asks the next one, if that is needed. */
enum dmi_promises_state dmi_promises_ask(struct dmi_promises *promises, struct dmi_out *out);

/* The member that gets a page of `bytes`; in any order.  A page that was counted goes where it was
 * planned; another one (it got its bytes later) to a member that has promised more than is needed.
 * 0: there is none, it is for the heir. */
dmi_uid_t dmi_promises_give(struct dmi_promises *promises, uint64_t bytes);

/* All pages have been given away, or this process stays: what is left of the promises is returned.
 */
void dmi_promises_end(struct dmi_promises *promises, struct dmi_out *out);

#endif
