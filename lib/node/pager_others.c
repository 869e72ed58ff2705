/*
 * pager_others.c - the pager's part that answers others who need room, and sends what the rooms
 * (core/room.h) have to say.
 *
 * The pager thread's, but for dmi_pager_rooms_begin and _end.
 */
#include "base/lock.h"
#include "node/pager_int.h"
#include "node/runtime.h"
#include "msg/service.h"

void dmi_pager_rooms_begin(struct dmi_pager *pager, struct dmi_room_out *out) {
  dmi_room_out_init(out);
  dmi_mutex_lock(&pager->lock);
}

static void put_in_line(struct dmi_pager *pager, const struct dmi_room_send *send) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)(DMI_SVC_ROOM_ASK + send->msg.type);
  msg.kind = send->msg.kind;
  msg.origin = pager->process->access.core.self;
  msg.op = send->msg.number;
  msg.len = send->msg.bytes;
  msg.off = send->msg.unit;
  if (send->msg.now) msg.flags = DMI_F_MUST;
  (void)dmi_net_send(pager->process->access.net, send->to, &msg); /* false: it has left */
}

void dmi_pager_rooms_end(struct dmi_pager *pager, struct dmi_room_out *out) {
  for (uint64_t i = 0; i < out->num; i++)
    put_in_line(pager, &out->send[i]);
  dmi_mutex_unlock(&pager->lock);
  for (uint64_t i = 0; i < out->num; i++)
    dmi_net_flush(pager->process->access.net, out->send[i].to);
  dmi_room_out_free(out);
}

/* May others have something now?  With the lock held. */
bool dmi_pager_can_give(const struct dmi_pager *pager) {
  return pager->open && !pager->leaving && !pager->waiting.num && !pager->stalled.num;
}

static uint64_t left_below(const struct dmi_pager *pager, uint64_t mark) {
  uint64_t used = dmi_pool_used(pager->pool);
  return used < mark ? mark - used : 0;
}

/* What there is for others now. */
static uint64_t room_for(const struct dmi_pager *pager, enum dmi_room_kind kind) {
  if (!dmi_pager_can_give(pager) || (pager->refused && kind == DMI_ROOM_AHEAD)) return 0;
  return left_below(
      pager, dmi_pool_limit(pager->pool) - (kind == DMI_ROOM_AHEAD ? dmi_pager_high(pager) : 0));
}

/* As much as there is of what is asked for, set aside, if it is enough for a page. */
static uint64_t promise(const struct dmi_pager *pager, const struct dmi_room_asker *asker) {
  for (;;) {
    uint64_t room = room_for(pager, DMI_ROOM_PROMISE);
    if (room > asker->bytes) room = asker->bytes;
    if (room < asker->unit) return 0;
    if (dmi_pool_reserve(pager->pool, room, false)) return room;
  }
}

/* Copies go when others need their room. */
static void make_room_for(struct dmi_pager *pager, const struct dmi_room_asker *asker) {
  uint64_t mark =
      dmi_pool_limit(pager->pool) - (asker->kind == DMI_ROOM_AHEAD ? dmi_pager_high(pager) : 0);
  uint64_t used = dmi_pool_used(pager->pool);
  bool can;
  dmi_mutex_lock(&pager->lock);
  can = dmi_pager_can_give(pager);
  dmi_mutex_unlock(&pager->lock);
  if (!can || !dmi_pool_copy_bytes(pager->pool) || (used <= mark && mark - used >= asker->bytes))
    return;
  dmi_pager_sweep(pager, asker->bytes - (mark - used), DMI_CLASS_COPY, DMI_ROOM_AHEAD, false);
}

/* With the lock held.  Is there too little only for the moment? */
static bool hold(struct dmi_pager *pager, const struct dmi_room_asker *asker) {
  struct dmi_room_passing passing = {0};
  uint64_t promised = dmi_room_promised(pager->rooms);
  if (asker->kind == DMI_ROOM_AHEAD || !pager->open || pager->leaving) return false;
  passing.bytes = dmi_pool_passing(pager->pool);
  passing.bytes -= promised < passing.bytes ? promised : passing.bytes;
  passing.turned = dmi_pool_turned(pager->pool);
  passing.copies = pager->copy_seen;
  return dmi_room_hold(pager->rooms, asker, room_for(pager, (enum dmi_room_kind)asker->kind),
                       &passing);
}

static bool answer_one(struct dmi_pager *pager) {
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  uint64_t bytes;
  bool any, held;
  dmi_mutex_lock(&pager->lock);
  any = dmi_room_asker(pager->rooms, &asker);
  dmi_mutex_unlock(&pager->lock);
  if (!any) return false;
  pager->copy_seen = false;
  make_room_for(pager, &asker);
  dmi_pager_rooms_begin(pager, &out);
  held = hold(pager, &asker);
  if (!held) {
    bytes = asker.kind == DMI_ROOM_PROMISE ? promise(pager, &asker)
                                           : room_for(pager, (enum dmi_room_kind)asker.kind);
    if (!dmi_room_answer(pager->rooms, &asker, bytes, &out) && asker.kind == DMI_ROOM_PROMISE)
      dmi_pool_release(pager->pool, bytes); /* it has left */
  }
  dmi_pager_rooms_end(pager, &out);
  if (held && pager->copy_seen) pager->curious = true;
  return true;
}

void dmi_pager_answer(struct dmi_pager *pager) {
  struct dmi_room_out out;
  dmi_mutex_lock(&pager->lock);
  dmi_room_again(pager->rooms);
  dmi_mutex_unlock(&pager->lock);
  while (answer_one(pager))
    continue;
  dmi_pager_rooms_begin(pager, &out);
  dmi_room_freed(pager->rooms, room_for(pager, DMI_ROOM_AHEAD), room_for(pager, DMI_ROOM_URGENT),
                 &out);
  dmi_pager_rooms_end(pager, &out);
}
