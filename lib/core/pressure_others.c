/*
 * pressure_others.c - the answers to members that ask for memory.
 *
 * Called by the pager, with the lock held.
 */
#include "core/pressure_int.h"

bool dmi_pressure_can_give(const struct dmi_pressure *p) {
  bool open = p->open || DMI_BROKEN(p, DMI_PRESSURE_BREAK_OPEN);
  bool leaving = p->leaving && !DMI_BROKEN(p, DMI_PRESSURE_BREAK_LEAVING);
  return open && !leaving && !p->waiting.num && !p->stalled.num;
}

/* How full the pool may become with pages of this kind from other members. */
static uint64_t most(const struct dmi_pressure *p, enum dmi_capacity_kind kind) {
  return dmi_pool_limit(p->pool) - (kind == DMI_CAPACITY_AHEAD ? dmi_pressure_high(p) : 0);
}

/* Bytes that other members can have now. */
static uint64_t capacity_for(const struct dmi_pressure *p, enum dmi_capacity_kind kind) {
  uint64_t used = dmi_pool_used(p->pool), up_to = most(p, kind);
  if (!dmi_pressure_can_give(p) || (p->refused && kind == DMI_CAPACITY_AHEAD)) return 0;
  return used < up_to ? up_to - used : 0;
}

/* Reserves as much of the requested memory as there is, if it is enough for a page. */
static uint64_t promise(const struct dmi_pressure *p) {
  for (;;) {
    uint64_t free_bytes = capacity_for(p, DMI_CAPACITY_PROMISE);
    if (free_bytes > p->asker.bytes) free_bytes = p->asker.bytes;
    if (free_bytes < p->asker.unit) return 0;
    if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_PROMISE)) return free_bytes;
    if (dmi_pool_reserve(p->pool, free_bytes, false)) return free_bytes;
  }
}

uint64_t dmi_pressure_copies_for_asker(const struct dmi_pressure *p) {
  const struct dmi_capacity_asker *asker = &p->asker;
  uint64_t up_to = most(p, (enum dmi_capacity_kind)asker->kind), used = dmi_pool_used(p->pool);
  if (!dmi_pressure_can_give(p) || !dmi_pool_copy_bytes(p->pool)) return 0;
  if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_COPIES)) return 0;
  if (used <= up_to && up_to - used >= asker->bytes) return 0;
  return asker->bytes + used - up_to;
}

bool dmi_pressure_asker(struct dmi_pressure *p) {
  if (!dmi_capacity_asker(p->capacity, &p->asker)) return false;
  p->copy_seen = false;
  return true;
}

/* True if there is too little only temporarily: the answer is deferred. */
static bool defer(struct dmi_pressure *p) {
  enum dmi_capacity_kind kind = (enum dmi_capacity_kind)p->asker.kind;
  struct dmi_capacity_transient transient = {0};
  uint64_t promised = dmi_capacity_promised(p->capacity);
  if (kind == DMI_CAPACITY_AHEAD || !p->open || p->leaving) return false;
  transient.bytes = dmi_pool_transient(p->pool);
  transient.bytes -= promised < transient.bytes ? promised : transient.bytes;
  transient.ended = dmi_pool_transient_ended(p->pool);
  transient.copies = p->copy_seen;
  return dmi_capacity_defer(p->capacity, &p->asker, capacity_for(p, kind), &transient);
}

void dmi_pressure_answer(struct dmi_pressure *p, struct dmi_capacity_out *out) {
  enum dmi_capacity_kind kind = (enum dmi_capacity_kind)p->asker.kind;
  uint64_t bytes;
  if (defer(p)) {
    if (p->copy_seen) p->arm = true;
    return;
  }
  bytes = kind == DMI_CAPACITY_PROMISE ? promise(p) : capacity_for(p, kind);
  if (!dmi_capacity_answer(p->capacity, &p->asker, bytes, out) && kind == DMI_CAPACITY_PROMISE)
    dmi_pool_release(p->pool, bytes); /* the member has left */
}

void dmi_pressure_tell(struct dmi_pressure *p, struct dmi_capacity_out *out) {
  dmi_capacity_freed(p->capacity, capacity_for(p, DMI_CAPACITY_AHEAD),
                     capacity_for(p, DMI_CAPACITY_URGENT), out);
}
