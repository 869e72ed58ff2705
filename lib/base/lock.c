/*
 * lock.c - the contended side of lock.h: a short spin, then sleep; and the order of locks.
 */
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>

#define SPINS 100 /* about as long as a lock is usually held */

void dmi_lock_slow(_Atomic uint32_t *lock) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t expected = DMI_LOCK_FREE;
    if (atomic_compare_exchange_weak_explicit(lock, &expected, DMI_LOCK_HELD, memory_order_acquire,
                                              memory_order_relaxed)) {
      return;
    }
    dmi_relax();
  }
  while (atomic_exchange_explicit(lock, DMI_LOCK_CONTENDED, memory_order_acquire) !=
         DMI_LOCK_FREE) {
    dmi_futex_wait(lock, DMI_LOCK_CONTENDED);
  }
}

#ifdef DMI_DEBUG
static __thread uint32_t held; /* the ranks of the locks that this thread holds, one bit each */

void dmi_lock_taken(enum dmi_rank rank) {
  if (held >> rank) {
    fprintf(stderr, "dmi: bug: a lock of rank %d is taken while those of ranks %#x are held\n",
            (int)rank, held);
    abort();
  }
  held |= 1u << rank;
}

void dmi_lock_released(enum dmi_rank rank) {
  held &= ~(1u << rank);
}
#endif
