/*
 * pool.c - the account of the memory that this process lends to the program.
 *
 * It consists of atomic counters. `used` exceeds the limit only by reservations with `force`. The
 * step that crosses a mark removes the mark, so that it wakes once.
 */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct dmi_pool {
  _Atomic uint32_t refs;
  uint64_t limit;            /* UINT64_MAX: none */
  pthread_mutex_t wake_lock; /* guards wake; taken inside of any other lock */
  void (*wake)(void *arg);
  void *wake_arg;
  _Atomic uint64_t used, peak, refused;
  _Atomic int64_t copies; /* may be above `used` or below zero for a moment: steps overlap */
  _Atomic uint64_t above, below;
  _Atomic uint32_t closed;
  _Atomic uint64_t refusals, patience;
  _Atomic int64_t paged; /* bytes of frames that are pages now; inexact for a moment, as `copies` */
  _Atomic uint64_t transient_ended;
  _Atomic uint32_t awaited;
};

struct dmi_pool *dmi_pool_new(uint64_t limit, void (*wake)(void *arg), void *arg) {
  struct dmi_pool *pool = calloc(1, sizeof(*pool));
  if (!pool) return NULL;
  atomic_init(&pool->refs, 1);
  pthread_mutex_init(&pool->wake_lock, NULL);
  pool->limit = limit ? limit : UINT64_MAX;
  pool->wake = wake;
  pool->wake_arg = arg;
  dmi_pool_patience(pool, 1);
  dmi_pool_watch(pool, UINT64_MAX, 0);
  return pool;
}

void dmi_pool_ref(struct dmi_pool *pool) {
  atomic_fetch_add(&pool->refs, 1);
}

void dmi_pool_unref(struct dmi_pool *pool) {
  if (atomic_fetch_sub(&pool->refs, 1) != 1) return;
  pthread_mutex_destroy(&pool->wake_lock);
  free(pool);
}

void dmi_pool_free(struct dmi_pool *pool) {
  pthread_mutex_lock(&pool->wake_lock);
  pool->wake = NULL;
  pthread_mutex_unlock(&pool->wake_lock);
  dmi_pool_unref(pool);
}

static void call_wake(struct dmi_pool *pool) {
  pthread_mutex_lock(&pool->wake_lock);
  if (pool->wake) pool->wake(pool->wake_arg);
  pthread_mutex_unlock(&pool->wake_lock);
}

void dmi_pool_watch(struct dmi_pool *pool, uint64_t rises, uint64_t falls) {
  atomic_store(&pool->above, rises);
  atomic_store(&pool->below, falls);
}

/* Transient use has ended: it is free, or belongs to a page. */
static void ended(struct dmi_pool *pool, uint64_t bytes) {
  atomic_fetch_add(&pool->transient_ended, bytes);
  if (atomic_load(&pool->awaited) && atomic_exchange(&pool->awaited, 0)) call_wake(pool);
}

/* Counts `bytes` as used. False: there is no memory, and not `force`. */
static bool take(struct dmi_pool *pool, uint64_t bytes, bool force) {
  uint64_t now = atomic_load_explicit(&pool->used, memory_order_relaxed), most;
  do {
    if (!force && (now > pool->limit || bytes > pool->limit - now)) {
      atomic_store(&pool->refused, bytes);
      if (atomic_fetch_add(&pool->refusals, 1) + 1 >= atomic_load(&pool->patience)) {
        atomic_store(&pool->refusals, 0);
        call_wake(pool);
      }
      return false;
    }
  } while (!atomic_compare_exchange_weak(&pool->used, &now, now + bytes));
  now += bytes;
  most = atomic_load_explicit(&pool->peak, memory_order_relaxed);
  while (now > most && !atomic_compare_exchange_weak(&pool->peak, &most, now))
    continue;
  if (now > atomic_load(&pool->above) && atomic_exchange(&pool->above, UINT64_MAX) != UINT64_MAX)
    call_wake(pool);
  return true;
}

bool dmi_pool_reserve(struct dmi_pool *pool, uint64_t bytes, bool force) {
  return (force || !atomic_load(&pool->closed)) && take(pool, bytes, force);
}

bool dmi_pool_reserve_first(struct dmi_pool *pool, uint64_t bytes) {
  return take(pool, bytes, false);
}

void dmi_pool_close(struct dmi_pool *pool, bool waited_for) {
  atomic_store(&pool->closed, waited_for);
}

void dmi_pool_release(struct dmi_pool *pool, uint64_t bytes) {
  uint64_t now = atomic_fetch_sub(&pool->used, bytes) - bytes;
  if (now < atomic_load(&pool->below) && atomic_exchange(&pool->below, 0) != 0) call_wake(pool);
  ended(pool, bytes);
}

void dmi_pool_attach(struct dmi_pool *pool, struct dmi_frame *frame, bool reserved) {
  bool counted = frame->pool != NULL;
  frame->pool = pool;
  if (!counted && !reserved) dmi_pool_reserve(pool, frame->size, true);
  atomic_fetch_add(&pool->paged, (int64_t)frame->size);
  if (counted && reserved) {
    dmi_pool_release(pool, frame->size);
  } else {
    ended(pool, frame->size);
  }
}

void dmi_pool_detach(struct dmi_pool *pool, const struct dmi_frame *frame) {
  atomic_fetch_sub(&pool->paged, (int64_t)frame->size);
}

uint64_t dmi_pool_transient(struct dmi_pool *pool) {
  int64_t bytes;
  atomic_store(&pool->awaited, 1); /* before reading: otherwise an end right now would be missed */
  bytes = (int64_t)atomic_load(&pool->used) - atomic_load(&pool->paged);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t dmi_pool_transient_ended(const struct dmi_pool *pool) {
  return atomic_load(&pool->transient_ended);
}

void dmi_pool_copies(struct dmi_pool *pool, int64_t more) {
  atomic_fetch_add_explicit(&pool->copies, more, memory_order_relaxed);
}

void dmi_pool_patience(struct dmi_pool *pool, uint64_t most) {
  atomic_store(&pool->patience, most);
  atomic_store(&pool->refusals, 0);
}

uint64_t dmi_pool_limit(const struct dmi_pool *pool) {
  return pool->limit;
}

uint64_t dmi_pool_used(const struct dmi_pool *pool) {
  return atomic_load(&pool->used);
}

uint64_t dmi_pool_peak(const struct dmi_pool *pool) {
  return atomic_load(&pool->peak);
}

uint64_t dmi_pool_copy_bytes(const struct dmi_pool *pool) {
  int64_t bytes = atomic_load(&pool->copies);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t dmi_pool_refused(const struct dmi_pool *pool) {
  return atomic_load(&pool->refused);
}
