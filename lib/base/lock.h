/*
 * lock.h - a lock of four bytes, small enough for every page to have its own.
 *
 * Held for a few hundred nanoseconds, or for one memcpy; never across a system call that can block.
 * Which lock may be taken while which is held: docs/locking.md.
 */
#ifndef DMI_BASE_LOCK_H
#define DMI_BASE_LOCK_H

#include "base/futex.h"

enum { DMI_LOCK_FREE, DMI_LOCK_HELD, DMI_LOCK_CONTENDED };

void dmi_lock_slow(_Atomic uint32_t *lock);

static inline void dmi_lock(_Atomic uint32_t *lock) {
  uint32_t expected = DMI_LOCK_FREE;
  if (!atomic_compare_exchange_strong_explicit(lock, &expected, DMI_LOCK_HELD, memory_order_acquire,
                                               memory_order_relaxed)) {
    dmi_lock_slow(lock);
  }
}

static inline void dmi_unlock(_Atomic uint32_t *lock) {
  if (atomic_exchange_explicit(lock, DMI_LOCK_FREE, memory_order_release) == DMI_LOCK_CONTENDED) {
    dmi_futex_wake(lock, 1);
  }
}

#endif
