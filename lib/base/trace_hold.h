/*
 * trace_hold.h - how much of what members tell the writer of a trace holds, because its disk is
 * slow or because they tell more than they were asked for.  Pure; the caller guards it.
 *
 * Each member may have OWN messages there at any time, and all of them together SHARED more: so a
 * faulty member costs what is shared, and the others go on.  One that needs more is refused from
 * then on, as what it tells refers to what it has told before.
 */
#ifndef DMI_BASE_TRACE_HOLD_H
#define DMI_BASE_TRACE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#define DMI_TRACE_HOLD_OWN 64                    /* messages, of at most 16 KiB, of a member */
#define DMI_TRACE_HOLD_SHARED 4096               /* more, of all */
#define DMI_TRACE_TEXTS_OWN (UINT64_C(64) << 10) /* bytes of names and places, of a member */
#define DMI_TRACE_TEXTS_SHARED (UINT64_C(16) << 20)

struct dmi_trace_hold;

/* All zero: nothing is held. */
struct dmi_trace_holds {
  struct dmi_trace_hold *members; /* that have something there, or are refused */
  uint32_t shared;                /* messages, beyond OWN of each */
};

enum dmi_trace_held {
  DMI_TRACE_HELD,
  DMI_TRACE_TOO_MUCH, /* from now on it is refused */
  DMI_TRACE_REFUSED   /* it was refused before, or there is no memory */
};

/* A message of that member has come. */
enum dmi_trace_held dmi_trace_hold(struct dmi_trace_holds *holds, uint32_t member);
/* A message that was held is gone. */
void dmi_trace_release(struct dmi_trace_holds *holds, uint32_t member);
void dmi_trace_holds_free(struct dmi_trace_holds *holds);

/* Is there room for a text of this length?  Then it counts: `own`, of the member; `shared`, of
 * all. */
bool dmi_trace_text_fits(uint64_t *own, uint64_t *shared, uint64_t length);

#endif
