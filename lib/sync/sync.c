/*
 * sync.c - see sync.h.
 *
 * The happy path: a lock is one read-modify-write, which takes a ticket and is answered when the
 * ticket's turn has come, at once or later; an unlock is another one, which serves the next ticket.
 * The process of the holder notes who holds a lock, so that an unlock by another thread fails
 * without a message.
 *
 * Failure modes: those of any read-modify-write (not mapped, not in one page, the program is over).
 */
#include "sync/sync.h"

#include <stddef.h>
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
};

struct dmi_sync {
  struct dmi_access *access;
  _Atomic uint32_t lock; /* guards held */
  struct held *held;
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

static bool holds(struct dmi_sync *sync, int64_t addr) {
  struct held *held;
  bool mine;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, sync->held, &addr, sizeof(addr), held);
  mine = held && held->thread == thread_number();
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  return mine;
}

/* Notes that this thread holds the lock.  `held` is new memory for the note. */
static void hold(struct dmi_sync *sync, struct held *held, int64_t addr) {
  struct held *old;
  held->addr = addr;
  held->thread = thread_number();
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  /* There is an old note only if the program initialised a lock that was held. */
  HASH_FIND(hh, sync->held, &addr, sizeof(addr), old);
  if (old) HASH_DEL(sync->held, old);
  HASH_ADD(hh, sync->held, addr, sizeof(held->addr), held);
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  free(old);
}

/* Deletes the note.  False: this thread does not hold the lock. */
static bool let_go(struct dmi_sync *sync, int64_t addr) {
  struct held *held;
  dmi_lock(&sync->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, sync->held, &addr, sizeof(addr), held);
  if (held && held->thread != thread_number()) held = NULL;
  if (held) HASH_DEL(sync->held, held);
  dmi_unlock(&sync->lock, DMI_RANK_LEAF);
  free(held);
  return held != NULL;
}

/* ---- Read-modify-writes --------------------------------------------------------------------- */

/* A read-modify-write of a pair of tickets. */
static struct dmi_rmw_call on_tickets(enum dmi_rmw rmw, int64_t addr) {
  struct dmi_rmw_call call = {
      .rmw = rmw, .addr = addr, .size = sizeof(struct dmi_tickets), .mode = DMI_PUT_ATOMIC};
  return call;
}

static int32_t serve_next(struct dmi_sync *sync, int64_t addr, DMI_local_status_t *status) {
  return dmi_access_fad(sync->access, addr + (int64_t)offsetof(struct dmi_tickets, serving),
                        (int64_t)DMI_SYNC_UNIT, NULL, DMI_PUT_ATOMIC, status);
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

int32_t dmi_sync_destroy(struct dmi_sync *sync, int64_t addr) {
  struct dmi_tickets tickets;
  if (!dmi_access_read(sync->access, addr, sizeof(tickets), &tickets, DMI_GET_READ, NULL)) {
    return DMI_FALSE;
  }
  if (!dmi_tickets_valid(&tickets)) return dmi_fail(DMI_EINVAL);
  return tickets.next == tickets.serving ? DMI_TRUE : dmi_fail(DMI_EBUSY);
}

/* ---- Locks ---------------------------------------------------------------------------------- */

/* Locks.  `held` is new memory, which this function keeps or frees. */
static int32_t lock(struct dmi_sync *sync, int64_t addr, bool spin, struct held *held) {
  struct dmi_rmw_call call = on_tickets(DMI_RMW_LOCK, addr);
  call.sizes.in = sizeof(uint64_t);
  call.spin = spin;
  uint64_t begin = dmi_stream_clock(sync->access->stream, DMI_EVENT_lock_taken);
  if (!dmi_access_rmw(sync->access, &call, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  dmi_emit(sync->access->stream, lock_taken, .lock = (uint64_t)addr,
           .waited = dmi_stream_clock(sync->access->stream, DMI_EVENT_lock_taken) - begin);
  hold(sync, held, addr);
  return DMI_TRUE;
}

int32_t dmi_sync_lock(struct dmi_sync *sync, int64_t addr, bool spin) {
  struct held *held;
  if (holds(sync, addr)) return dmi_fail(DMI_EHOLDER);
  held = malloc(sizeof(*held));
  return held ? lock(sync, addr, spin, held) : dmi_fail(DMI_ENOMEM);
}

int32_t dmi_sync_trylock(struct dmi_sync *sync, int64_t addr, int32_t *flag) {
  struct dmi_rmw_call call = on_tickets(DMI_RMW_TRYLOCK, addr);
  struct held *held = malloc(sizeof(*held));
  int8_t got = 0;
  if (!held) return dmi_fail(DMI_ENOMEM);
  call.in = &got;
  call.sizes.in = sizeof(got);
  if (!dmi_access_rmw(sync->access, &call, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  *flag = got ? DMI_TRUE : DMI_FALSE;
  if (got) {
    hold(sync, held, addr);
  } else {
    free(held);
  }
  return DMI_TRUE;
}

int32_t dmi_sync_unlock(struct dmi_sync *sync, int64_t addr) {
  /* The note goes first: the next holder may be another thread of this process, and notes itself as
   * soon as it is served. */
  if (!let_go(sync, addr)) return dmi_fail(DMI_EHOLDER);
  return serve_next(sync, addr, NULL);
}

/* ---- Conditions ----------------------------------------------------------------------------- */

int32_t dmi_sync_cond_wait(struct dmi_sync *sync, int64_t cond, int64_t mutex) {
  struct dmi_rmw_call turn = on_tickets(DMI_RMW_TURN, cond);
  struct dmi_rmw_call take = on_tickets(DMI_RMW_TICKET, cond);
  DMI_local_status_t unlocked;
  struct held *held;
  uint64_t ticket;
  int32_t woken, error;
  bool later;
  if (!holds(sync, mutex)) return dmi_fail(DMI_EHOLDER);
  /* Now: once it has a ticket, this thread must not fail for lack of memory. */
  held = malloc(sizeof(*held));
  if (!held) return dmi_fail(DMI_ENOMEM);
  /* From here on this thread counts as waiting.  Threads that lock the mutex to signal come after
   * the unlock, so no signal is lost. */
  take.in = &ticket;
  take.sizes.in = sizeof(ticket);
  if (!dmi_access_rmw(sync->access, &take, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  ticket += DMI_SYNC_UNIT; /* the ticket's turn has come when the next one is served */
  /* The unlock and the wait are in flight at the same time.  If there is no memory for that, unlock
   * and wait for it: that needs none. */
  later = serve_next(sync, mutex, &unlocked);
  if (!later && !serve_next(sync, mutex, NULL)) {
    free(held);
    return DMI_FALSE;
  }
  let_go(sync, mutex); /* does nothing if another thread of this process holds it by now */
  turn.out1 = &ticket;
  turn.sizes = (struct dmi_rmw_sizes){sizeof(ticket), 0, sizeof(ticket)};
  woken = dmi_access_rmw(sync->access, &turn, NULL);
  error = dmi_error_last();
  if (later) (void)dmi_status_wait(dmi_status_of(&unlocked));
  if (!lock(sync, mutex, false, held)) return DMI_FALSE;
  return woken ? DMI_TRUE : dmi_fail(error);
}

int32_t dmi_sync_signal(struct dmi_sync *sync, int64_t cond, uint64_t most) {
  struct dmi_rmw_call call = on_tickets(DMI_RMW_SIGNAL, cond);
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
