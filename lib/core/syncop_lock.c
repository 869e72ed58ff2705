/*
 * syncop_lock.c - locks at the owner of their page: who gets one, and what becomes of it when its
 * holder is lost.
 *
 * The bytes name the operation that took the lock.  Operations that wait for it are in the page's
 * list of waiting operations, in their order; an unlock names the first of them whose process
 * lives.  All of these may be sent again: a second LOCK finds itself as the holder, a second UNLOCK
 * or MEND finds another one and changes nothing.
 */
#include <string.h>

#include "base/mutation.h"
#include "core/syncop_int.h"

#define MARK UINT32_C(0x6d61726b)

static uint32_t check_of(uint64_t op, dmi_uid_t uid, bool marked) {
  uint64_t mix = op * UINT64_C(0x9e3779b97f4a7c15) + uid * UINT64_C(0xd1b54a32d192ed03);
  return (uint32_t)(mix >> 32) ^ (marked ? MARK : 0);
}

static struct dmi_locked_by holder_of(uint64_t op, dmi_uid_t uid, bool marked) {
  return (struct dmi_locked_by){op, uid, check_of(op, uid, marked)};
}

static struct dmi_locked_by holder_at(const unsigned char *bytes) {
  struct dmi_locked_by holder;
  memcpy(&holder, bytes, sizeof(holder));
  return holder;
}

static bool is_marked(const struct dmi_locked_by *holder) {
  return holder->check != check_of(holder->op, holder->uid, false);
}

bool dmi_locked_by_valid(const struct dmi_locked_by *holder) {
  return !holder->op == !holder->uid &&
         (!is_marked(holder) || holder->check == check_of(holder->op, holder->uid, true));
}

static bool is_holder(const struct dmi_locked_by *holder, dmi_uid_t uid, uint64_t op) {
  return holder->uid && holder->uid == uid && holder->op == op;
}

/* ---- Operations ----------------------------------------------------------------------------- */

/* LOCK, TRYLOCK.  Takes it if it is free, or its holder is lost. */
static bool take(const struct dmi_core *core, const struct dmi_req *req,
                 struct dmi_locked_by *holder) {
  bool marked = is_marked(holder), lost = false;
  if (is_holder(holder, req->origin, req->op.n) && !DMI_BROKEN(core, DMI_BREAK_AGAIN)) return true;
  if (holder->uid) {
    if (DMI_BROKEN(core, DMI_BREAK_HOLDER) || dmi_syncop_lives(core, holder->uid)) return false;
    lost = !DMI_BROKEN(core, DMI_BREAK_UNMARKED);
  }
  *holder = holder_of(req->op.n, req->origin, marked || lost);
  return true;
}

/* The operation that has waited longest for this lock, and whose process lives. */
static const struct dmi_req *next_of(const struct dmi_core *core, const struct dmi_req *waiting,
                                     const struct dmi_req *req) {
  for (; waiting; waiting = waiting->next) {
    if (waiting->kind != DMI_RMW_LOCK || waiting->off != req->off) continue;
    if (dmi_syncop_lives(core, waiting->origin)) break;
  }
  return waiting;
}

static void locked_answer(const struct dmi_locked_by *holder, bool got, unsigned char *answer) {
  struct dmi_locked locked = {.how = DMI_LOCKED_NOT};
  if (got) {
    locked.op = holder->op;
    locked.how = is_marked(holder) ? DMI_LOCKED_MARKED : DMI_LOCKED_YES;
  }
  memcpy(answer, &locked, sizeof(locked));
}

enum dmi_rmw_end dmi_syncop_lock_run(const struct dmi_core *core, const struct dmi_req *waiting,
                                     const struct dmi_req *req, unsigned char *bytes,
                                     unsigned char *answer) {
  struct dmi_locked_by holder = holder_at(bytes);
  enum dmi_rmw_end end = DMI_RMW_DONE;
  const struct dmi_req *next;
  uint64_t op;
  bool got;
  if (!dmi_locked_by_valid(&holder)) return DMI_RMW_NO_OBJECT;
  if (req->kind == DMI_RMW_LOCK || req->kind == DMI_RMW_TRYLOCK) {
    got = take(core, req, &holder);
    if (!got && req->kind == DMI_RMW_LOCK) end = DMI_RMW_WAITS;
    if (end == DMI_RMW_DONE) locked_answer(&holder, got, answer);
  } else {
    memcpy(&op, req->src.ptr, sizeof(op));
    if (!is_holder(&holder, req->origin, op)) return DMI_RMW_DONE;
    if (req->kind == DMI_RMW_MEND) {
      holder = holder_of(op, req->origin, false);
    } else {
      next = next_of(core, waiting, req);
      holder = holder_of(next ? next->op.n : 0, next ? next->origin : 0, is_marked(&holder));
    }
  }
  memcpy(bytes, &holder, sizeof(holder));
  return end;
}

bool dmi_syncop_lock_met(const struct dmi_req *req, const unsigned char *bytes) {
  struct dmi_locked_by holder = holder_at(bytes);
  return is_holder(&holder, req->origin, req->op.n);
}

void dmi_syncop_lock_answer(const unsigned char *bytes, unsigned char *answer) {
  struct dmi_locked_by holder = holder_at(bytes);
  locked_answer(&holder, true, answer);
}
