/*
 * trace_hold.c - see trace_hold.h.
 */
#include "base/trace_hold.h"

#include <stdlib.h>
#include <uthash.h>

#define TEXT_MORE 64 /* bytes that a text takes beside its own, about */

struct dmi_trace_hold {
  uint32_t member, num;
  bool refused;
  UT_hash_handle hh;
};

static struct dmi_trace_hold *find(struct dmi_trace_holds *holds, uint32_t member) {
  struct dmi_trace_hold *hold;
  HASH_FIND(hh, holds->members, &member, sizeof(member), hold);
  return hold;
}

static struct dmi_trace_hold *add(struct dmi_trace_holds *holds, uint32_t member) {
  struct dmi_trace_hold *hold = calloc(1, sizeof(*hold));
  if (!hold) return NULL;
  hold->member = member;
  HASH_ADD(hh, holds->members, member, sizeof(member), hold);
  return hold;
}

enum dmi_trace_held dmi_trace_hold(struct dmi_trace_holds *holds, uint32_t member) {
  struct dmi_trace_hold *hold = find(holds, member);
  if (!hold) hold = add(holds, member);
  if (!hold || hold->refused) return DMI_TRACE_REFUSED;
  if (hold->num >= DMI_TRACE_HOLD_OWN && holds->shared >= DMI_TRACE_HOLD_SHARED) {
    hold->refused = true;
    return DMI_TRACE_TOO_MUCH;
  }
  if (hold->num++ >= DMI_TRACE_HOLD_OWN) holds->shared++;
  return DMI_TRACE_HELD;
}

void dmi_trace_release(struct dmi_trace_holds *holds, uint32_t member) {
  struct dmi_trace_hold *hold = find(holds, member);
  if (--hold->num >= DMI_TRACE_HOLD_OWN) holds->shared--;
  if (hold->num || hold->refused) return;
  HASH_DEL(holds->members, hold);
  free(hold);
}

void dmi_trace_holds_free(struct dmi_trace_holds *holds) {
  struct dmi_trace_hold *hold, *next;
  HASH_ITER(hh, holds->members, hold, next) {
    HASH_DEL(holds->members, hold);
    free(hold);
  }
  holds->shared = 0;
}

bool dmi_trace_text_fits(uint64_t *own, uint64_t *shared, uint64_t length) {
  const uint64_t bytes = length + TEXT_MORE;
  uint64_t *from = *own + bytes <= DMI_TRACE_TEXTS_OWN ? own : shared;
  if (from == shared && *shared + bytes > DMI_TRACE_TEXTS_SHARED) return false;
  *from += bytes;
  return true;
}
