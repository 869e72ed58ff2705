/*
 * pool.c - the account of the memory that this process lends to the program.
 *
 * A few atomic counters.  `used` is never above the limit but by what comes with `force`.  A mark
 * is taken away by the step that crosses it, so that it wakes once.
 */
#include "mem/pool.h"

#include <stdatomic.h>
#include <stddef.h>

static uint64_t limit = UINT64_MAX;
static void (*wake)(void *arg);
static void *wake_arg;

static _Atomic uint64_t used, peak, refused;
static _Atomic int64_t copies; /* for a moment more than is used, or below zero: steps overlap */
static _Atomic uint64_t above = UINT64_MAX, below;
static _Atomic uint32_t closed;
static _Atomic uint64_t refusals, patience = 1;
static _Atomic int64_t paged; /* bytes of frames that are pages' now; for a moment as `copies` */
static _Atomic uint64_t turned;
static _Atomic uint32_t awaited;

void dmi_pool_open(uint64_t most, void (*call)(void *arg), void *arg) {
  limit = most ? most : UINT64_MAX;
  wake = call;
  wake_arg = arg;
  atomic_store(&used, 0);
  atomic_store(&peak, 0);
  atomic_store(&refused, 0);
  atomic_store(&copies, 0);
  atomic_store(&closed, 0);
  atomic_store(&paged, 0);
  atomic_store(&awaited, 0);
  dmi_pool_patience(1);
  dmi_pool_watch(UINT64_MAX, 0);
}

static void call_wake(void) {
  if (wake) wake(wake_arg);
}

void dmi_pool_watch(uint64_t rises, uint64_t falls) {
  atomic_store(&above, rises);
  atomic_store(&below, falls);
}

static void risen(uint64_t now) {
  uint64_t most = atomic_load_explicit(&peak, memory_order_relaxed);
  while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
    continue;
  if (now > atomic_load(&above) && atomic_exchange(&above, UINT64_MAX) != UINT64_MAX) call_wake();
}

/* What was in use in passing is free, or a page's. */
static void ended(uint64_t bytes) {
  atomic_fetch_add(&turned, bytes);
  if (atomic_load(&awaited) && atomic_exchange(&awaited, 0)) call_wake();
}

static bool add(uint64_t bytes) {
  uint64_t now = atomic_load_explicit(&used, memory_order_relaxed);
  do {
    if (now > limit || bytes > limit - now) {
      atomic_store(&refused, bytes);
      if (atomic_fetch_add(&refusals, 1) + 1 >= atomic_load(&patience)) {
        atomic_store(&refusals, 0);
        call_wake();
      }
      return false;
    }
  } while (!atomic_compare_exchange_weak(&used, &now, now + bytes));
  risen(now + bytes);
  return true;
}

bool dmi_pool_reserve(uint64_t bytes, bool force) {
  if (force) {
    risen(atomic_fetch_add(&used, bytes) + bytes);
    return true;
  }
  return !atomic_load(&closed) && add(bytes);
}

bool dmi_pool_reserve_first(uint64_t bytes) {
  return add(bytes);
}

void dmi_pool_close(bool waited_for) {
  atomic_store(&closed, waited_for);
}

void dmi_pool_release(uint64_t bytes) {
  uint64_t now = atomic_fetch_sub(&used, bytes) - bytes;
  if (now < atomic_load(&below) && atomic_exchange(&below, 0) != 0) call_wake();
  ended(bytes);
}

void dmi_pool_attach(struct dmi_frame *frame, bool reserved) {
  bool counted = frame->counted;
  frame->counted = true;
  if (!counted && !reserved) dmi_pool_reserve(frame->size, true);
  atomic_fetch_add(&paged, (int64_t)frame->size);
  if (counted && reserved) {
    dmi_pool_release(frame->size);
  } else {
    ended(frame->size);
  }
}

void dmi_pool_detach(const struct dmi_frame *frame) {
  atomic_fetch_sub(&paged, (int64_t)frame->size);
}

uint64_t dmi_pool_passing(void) {
  int64_t bytes;
  atomic_store(&awaited, 1); /* before it looks: or what ends now would go unnoticed */
  bytes = (int64_t)atomic_load(&used) - atomic_load(&paged);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t dmi_pool_turned(void) {
  return atomic_load(&turned);
}

void dmi_pool_copies(int64_t more) {
  atomic_fetch_add_explicit(&copies, more, memory_order_relaxed);
}

void dmi_pool_patience(uint64_t most) {
  atomic_store(&patience, most);
  atomic_store(&refusals, 0);
}

uint64_t dmi_pool_limit(void) {
  return limit;
}

uint64_t dmi_pool_used(void) {
  return atomic_load(&used);
}

uint64_t dmi_pool_peak(void) {
  return atomic_load(&peak);
}

uint64_t dmi_pool_copy_bytes(void) {
  int64_t bytes = atomic_load(&copies);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t dmi_pool_refused(void) {
  return atomic_load(&refused);
}
