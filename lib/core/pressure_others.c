/*
 * pressure_others.c - what members are told that ask for room.
 *
 * The pager's; with the caller's lock.
 */
#include "core/pressure_int.h"

bool dmi_pressure_can_give(const struct dmi_pressure *p) {
  bool open = p->open || DMI_BROKEN(p, DMI_PRESSURE_BREAK_OPEN);
  bool leaving = p->leaving && !DMI_BROKEN(p, DMI_PRESSURE_BREAK_LEAVING);
  return open && !leaving && !p->waiting.num && !p->stalled.num;
}

/* How full the pool may become by what others give of this kind. */
static uint64_t most(const struct dmi_pressure *p, enum dmi_room_kind kind) {
  return dmi_pool_limit(p->pool) - (kind == DMI_ROOM_AHEAD ? dmi_pressure_high(p) : 0);
}

/* What there is for others now. */
static uint64_t room_for(const struct dmi_pressure *p, enum dmi_room_kind kind) {
  uint64_t used = dmi_pool_used(p->pool), up_to = most(p, kind);
  if (!dmi_pressure_can_give(p) || (p->refused && kind == DMI_ROOM_AHEAD)) return 0;
  return used < up_to ? up_to - used : 0;
}

/* As much as there is of what is asked for, set aside, if it is enough for a page. */
static uint64_t promise(const struct dmi_pressure *p) {
  for (;;) {
    uint64_t room = room_for(p, DMI_ROOM_PROMISE);
    if (room > p->asker.bytes) room = p->asker.bytes;
    if (room < p->asker.unit) return 0;
    if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_PROMISE)) return room;
    if (dmi_pool_reserve(p->pool, room, false)) return room;
  }
}

uint64_t dmi_pressure_copies_for_asker(const struct dmi_pressure *p) {
  const struct dmi_room_asker *asker = &p->asker;
  uint64_t up_to = most(p, (enum dmi_room_kind)asker->kind), used = dmi_pool_used(p->pool);
  if (!dmi_pressure_can_give(p) || !dmi_pool_copy_bytes(p->pool)) return 0;
  if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_COPIES)) return 0;
  if (used <= up_to && up_to - used >= asker->bytes) return 0;
  return asker->bytes + used - up_to;
}

bool dmi_pressure_asker(struct dmi_pressure *p) {
  if (!dmi_room_asker(p->rooms, &p->asker)) return false;
  p->copy_seen = false;
  return true;
}

/* Is there too little only for the moment? */
static bool hold(struct dmi_pressure *p) {
  enum dmi_room_kind kind = (enum dmi_room_kind)p->asker.kind;
  struct dmi_room_passing passing = {0};
  uint64_t promised = dmi_room_promised(p->rooms);
  if (kind == DMI_ROOM_AHEAD || !p->open || p->leaving) return false;
  passing.bytes = dmi_pool_passing(p->pool);
  passing.bytes -= promised < passing.bytes ? promised : passing.bytes;
  passing.turned = dmi_pool_turned(p->pool);
  passing.copies = p->copy_seen;
  return dmi_room_hold(p->rooms, &p->asker, room_for(p, kind), &passing);
}

void dmi_pressure_answer(struct dmi_pressure *p, struct dmi_room_out *out) {
  enum dmi_room_kind kind = (enum dmi_room_kind)p->asker.kind;
  uint64_t bytes;
  if (hold(p)) {
    if (p->copy_seen) p->arm = true;
    return;
  }
  bytes = kind == DMI_ROOM_PROMISE ? promise(p) : room_for(p, kind);
  if (!dmi_room_answer(p->rooms, &p->asker, bytes, out) && kind == DMI_ROOM_PROMISE)
    dmi_pool_release(p->pool, bytes); /* it has left */
}

void dmi_pressure_tell(struct dmi_pressure *p, struct dmi_room_out *out) {
  dmi_room_freed(p->rooms, room_for(p, DMI_ROOM_AHEAD), room_for(p, DMI_ROOM_URGENT), out);
}
