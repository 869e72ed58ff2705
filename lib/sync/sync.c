/*
 * sync.c - see sync.h.
 *
 * The happy path: a lock is one read-modify-write, which is answered when the lock is given to it,
 * at once or later; an unlock is another one, which gives it to the next.  The process of the
 * holder notes who holds a lock, and by which operation, so that an unlock by another thread fails
 * without a message.
 *
 * Failure modes: those of any read-modify-write (not mapped, not in one page, the program is over,
 * the page is lost).  A holder is lost with its process: the next one holds the lock, and its call
 * fails with DMI_EOWNERDEAD.
 */
#include "sync/sync.h"

#include <stdlib.h>

#include <uthash.h>

#include "base/error.h"
#include "base/lock.h"
#include "core/syncop.h"
#include "access/access.h"

/* A lock that a thread of this process holds. */
struct held {
  UT_hash_handle hh;
  int64_t addr;    /* key */
  uint64_t thread; /* thread_number() of its holder */
  uint64_t op;     /* the operation that took it */
  bool marked;     /* DMI_EOWNERDEAD, and no DMI_mutex_consistent since */
  uint64_t serial; /* of the note, in their order */
  uint64_t doer;   /* dmi_doing_number of its holder, and the call that took it */
  struct dmi_doing_called call;
};

struct dmi_sync {
  struct dmi_access *access;
  _Atomic uint32_t lock; /* guards those below */
  struct held *held;
  uint64_t serial; /* of the last note */
};

struct dmi_sync *dmi_sync_new(struct dmi_access *access) {
  struct dmi_sync *sync = calloc(1, sizeof(*sync));
  if (sync) sync->access = access;
  return sync;
}

void dmi_sync_free(struct dmi_sync *sync) {
  struct held *held, *next;
  if (!sync) return;
  HASH_ITER(hh, sync->held, held, next) {
    HASH_DEL(sync->held, held);
    free(held);
  }
  free(sync);
}

/* ---- Holders -------------------------------------------------------------------------------- */

/* The number of the calling thread.  Never used again for another thread, unlike the system's. */
static uint64_t thread_number(void) {
  static _Atomic uint64_t last;
  static __thread uint64_t mine;
  if (!mine) mine = atomic_fetch_add(&last, 1) + 1;
  return mine;
}

/* The note of a lock that this thread holds; NULL: it does not.  With the lock of the list held. */
static struct held *find(const struct dmi_sync *sync, int64_t addr) {
  struct held *held;
  HASH_FIND(hh, sync->held, &addr, sizeof(addr), held);
  return held && held->thread == thread_number() ? held : NULL;
}

/* Does this thread hold the lock?  Then *copy (may be NULL) gets the note. */
static bool holds(struct dmi_sync *sync, int64_t addr, struct held *copy) {
  const struct held *held;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  held = find(sync, addr);
  if (held && copy) *copy = *held;
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  return held != NULL;
}

/* Notes that this thread holds the lock.  `held` is new memory for the note. */
static void hold(struct dmi_sync *sync, struct held *held, int64_t addr,
                 const struct dmi_locked *locked) {
  struct held *old;
  held->addr = addr;
  held->thread = thread_number();
  held->op = locked->op;
  held->marked = locked->how == DMI_LOCKED_MARKED;
  held->doer = dmi_doing_number(&sync->access->doings);
  held->call = dmi_doing_called(&dmi_doing_mine.call);
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  /* There is an old note only if the program initialised a lock that was held. */
  HASH_FIND(hh, sync->held, &addr, sizeof(addr), old);
  if (old) HASH_DEL(sync->held, old);
  held->serial = ++sync->serial;
  HASH_ADD(hh, sync->held, addr, sizeof(held->addr), held);
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  free(old);
}

/* Deletes the note.  False: this thread does not hold the lock.  *op gets the operation. */
static bool let_go(struct dmi_sync *sync, int64_t addr, uint64_t *op) {
  struct held *held;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  held = find(sync, addr);
  if (held) {
    *op = held->op;
    HASH_DEL(sync->held, held);
  }
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  free(held);
  return held != NULL;
}

/* A table keeps the order in which notes came in. */
uint32_t dmi_sync_look(struct dmi_sync *sync, uint64_t below, struct dmi_sync_held *held,
                       uint32_t most) {
  const struct held *at;
  uint32_t num = 0;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  at = sync->held ? ELMT_FROM_HH(sync->held->hh.tbl, sync->held->hh.tbl->tail) : NULL;
  for (; at && num < most; at = at->hh.prev) {
    if (at->serial >= below) continue;
    held[num++] = (struct dmi_sync_held){at->serial, at->addr, at->doer, at->op, at->call};
  }
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  return num;
}

/* ---- Read-modify-writes --------------------------------------------------------------------- */

_Static_assert(sizeof(struct dmi_locked_by) == sizeof(struct dmi_tickets), "on_object serves both");

/* A read-modify-write of a lock or a condition. */
static struct dmi_rmw_call on_object(enum dmi_rmw rmw, int64_t addr) {
  struct dmi_rmw_call call = {
      .rmw = rmw, .addr = addr, .size = sizeof(struct dmi_tickets), .mode = DMI_PUT_ATOMIC};
  return call;
}

/* UNLOCK or MEND by the thread whose operation `op` took the lock. */
static int32_t as_holder(struct dmi_sync *sync, enum dmi_rmw rmw, int64_t addr, uint64_t op,
                         DMI_local_status_t *status) {
  struct dmi_rmw_call call = on_object(rmw, addr);
  call.out1 = &op;
  call.sizes.out1 = sizeof(op);
  return dmi_access_rmw(sync->access, &call, status);
}

int32_t dmi_sync_init(struct dmi_sync *sync, int64_t addr, int64_t size) {
  unsigned char zeros[sizeof(struct dmi_round)] = {0}, old[sizeof(zeros)];
  struct dmi_rmw_call call = {.rmw = DMI_RMW_FAS,
                              .addr = addr,
                              .size = size,
                              .out1 = zeros,
                              .in = old,
                              .sizes = {(uint64_t)size, 0, (uint64_t)size},
                              .mode = DMI_PUT_ATOMIC};
  return dmi_access_rmw(sync->access, &call, NULL);
}

int32_t dmi_sync_destroy_lock(struct dmi_sync *sync, int64_t addr) {
  struct dmi_locked_by holder;
  if (!dmi_access_read(sync->access, addr, sizeof(holder), &holder, DMI_GET_READ, NULL))
    return DMI_FALSE;
  if (!dmi_locked_by_valid(&holder)) return dmi_fail(DMI_EINVAL);
  if (holder.uid && dmi_syncop_lives(&sync->access->core, holder.uid)) return dmi_fail(DMI_EBUSY);
  return DMI_TRUE;
}

int32_t dmi_sync_destroy_cond(struct dmi_sync *sync, int64_t addr) {
  struct dmi_tickets tickets;
  if (!dmi_access_read(sync->access, addr, sizeof(tickets), &tickets, DMI_GET_READ, NULL))
    return DMI_FALSE;
  if (!dmi_tickets_valid(&tickets)) return dmi_fail(DMI_EINVAL);
  return tickets.next == tickets.serving ? DMI_TRUE : dmi_fail(DMI_EBUSY);
}

/* ---- Locks ---------------------------------------------------------------------------------- */

/* What a call returns whose thread holds the lock now. */
static int32_t held_result(const struct dmi_locked *locked) {
  return locked->how == DMI_LOCKED_MARKED ? dmi_fail(DMI_EOWNERDEAD) : DMI_TRUE;
}

/* Locks.  `held` is new memory, which this function keeps or frees. */
static int32_t lock(struct dmi_sync *sync, int64_t addr, bool spin, struct held *held) {
  struct dmi_rmw_call call = on_object(DMI_RMW_LOCK, addr);
  struct dmi_locked locked = {0};
  call.in = &locked;
  call.sizes.in = sizeof(locked);
  call.spin = spin;
  uint64_t begin = dmi_stream_clock(sync->access->stream, DMI_EVENT_lock_taken);
  if (!dmi_access_rmw(sync->access, &call, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  dmi_emit(sync->access->stream, lock_taken, .lock = (uint64_t)addr,
           .waited = dmi_stream_clock(sync->access->stream, DMI_EVENT_lock_taken) - begin);
  hold(sync, held, addr, &locked);
  return held_result(&locked);
}

int32_t dmi_sync_lock(struct dmi_sync *sync, int64_t addr, bool spin) {
  struct held *held;
  if (holds(sync, addr, NULL)) return dmi_fail(DMI_EHOLDER);
  held = malloc(sizeof(*held));
  return held ? lock(sync, addr, spin, held) : dmi_fail(DMI_ENOMEM);
}

int32_t dmi_sync_trylock(struct dmi_sync *sync, int64_t addr, int32_t *flag) {
  struct dmi_rmw_call call = on_object(DMI_RMW_TRYLOCK, addr);
  struct dmi_locked locked = {0};
  struct held *held = malloc(sizeof(*held));
  if (!held) return dmi_fail(DMI_ENOMEM);
  call.in = &locked;
  call.sizes.in = sizeof(locked);
  if (!dmi_access_rmw(sync->access, &call, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  *flag = locked.how == DMI_LOCKED_NOT ? DMI_FALSE : DMI_TRUE;
  if (*flag) {
    hold(sync, held, addr, &locked);
  } else {
    free(held);
  }
  return held_result(&locked);
}

int32_t dmi_sync_unlock(struct dmi_sync *sync, int64_t addr) {
  uint64_t op;
  /* The note goes first: the next holder may be another thread of this process, and notes itself as
   * soon as it is served. */
  if (!let_go(sync, addr, &op)) return dmi_fail(DMI_EHOLDER);
  return as_holder(sync, DMI_RMW_UNLOCK, addr, op, NULL);
}

int32_t dmi_sync_consistent(struct dmi_sync *sync, int64_t addr) {
  struct held copy, *held;
  if (!holds(sync, addr, &copy)) return dmi_fail(DMI_EHOLDER);
  if (!copy.marked)
    return dmi_fail(dmi_because(DMI_EINVAL, "no process was lost that held this mutex"));
  if (!as_holder(sync, DMI_RMW_MEND, addr, copy.op, NULL)) return DMI_FALSE;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  held = find(sync, addr);
  if (held) held->marked = false;
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  return DMI_TRUE;
}

/* ---- Conditions ----------------------------------------------------------------------------- */

/* Takes a ticket: the number that is served when its turn has come. */
static int32_t take_ticket(struct dmi_sync *sync, int64_t cond, uint64_t *ticket) {
  struct dmi_rmw_call take = on_object(DMI_RMW_TICKET, cond);
  take.in = ticket;
  take.sizes.in = sizeof(*ticket);
  if (!dmi_access_rmw(sync->access, &take, NULL)) return DMI_FALSE;
  *ticket += DMI_SYNC_UNIT;
  return DMI_TRUE;
}

int32_t dmi_sync_cond_wait(struct dmi_sync *sync, int64_t cond, int64_t mutex) {
  struct dmi_rmw_call turn = on_object(DMI_RMW_TURN, cond);
  DMI_local_status_t unlocked;
  struct held *held, copy;
  uint64_t ticket, op;
  int32_t woken, error;
  bool later;
  if (!holds(sync, mutex, &copy)) return dmi_fail(DMI_EHOLDER);
  /* Now: once it has a ticket, this thread must not fail for lack of memory. */
  held = malloc(sizeof(*held));
  if (!held) return dmi_fail(DMI_ENOMEM);
  /* From here on this thread counts as waiting.  Threads that lock the mutex to signal come after
   * the unlock, so no signal is lost. */
  if (!take_ticket(sync, cond, &ticket)) {
    free(held);
    return DMI_FALSE;
  }
  /* The unlock and the wait are in flight at the same time.  If there is no memory for that, unlock
   * and wait for it: that needs none. */
  later = as_holder(sync, DMI_RMW_UNLOCK, mutex, copy.op, &unlocked);
  if (!later && !as_holder(sync, DMI_RMW_UNLOCK, mutex, copy.op, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  let_go(sync, mutex, &op); /* does nothing if another thread of this process holds it by now */
  turn.out1 = &ticket;
  turn.sizes = (struct dmi_rmw_sizes){sizeof(ticket), 0, sizeof(ticket)};
  woken = dmi_access_rmw(sync->access, &turn, NULL);
  error = dmi_error_last();
  if (later) (void)dmi_status_wait(dmi_status_of(&unlocked));
  if (!lock(sync, mutex, false, held)) return DMI_FALSE;
  return woken ? DMI_TRUE : dmi_fail(error);
}

int32_t dmi_sync_signal(struct dmi_sync *sync, int64_t cond, uint64_t most) {
  struct dmi_rmw_call call = on_object(DMI_RMW_SIGNAL, cond);
  call.out1 = &most;
  call.sizes.out1 = sizeof(most);
  return dmi_access_rmw(sync->access, &call, NULL);
}

/* ---- Watching ------------------------------------------------------------------------------- */

int32_t dmi_sync_watch(struct dmi_sync *sync, int64_t addr, int64_t size, const void *in, void *out,
                       DMI_local_status_t *status) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_WATCH,
                              .addr = addr,
                              .size = size,
                              .out1 = in,
                              .in = out,
                              .sizes = {(uint64_t)size, 0, (uint64_t)size},
                              .mode = DMI_PUT_ATOMIC};
  return dmi_access_rmw(sync->access, &call, status);
}
