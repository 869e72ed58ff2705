/*
 * lock.h - locks with a rank: one of four bytes, small enough for every page to have its
 * own, and the system's mutex.
 *
 * Held for a few hundred nanoseconds, or for one memcpy; never across a system call that can block.
 * A thread takes locks in the order of their ranks, and of each rank but one at a time:
 * docs/locking.md says which lock guards what.  Builds with --enable-debug check it at each lock.
 */
#ifndef DMI_BASE_LOCK_H
#define DMI_BASE_LOCK_H

#include <pthread.h>

#include "base/futex.h"

/* While one is held only those below it in this list may be taken. */
enum dmi_rank {
  DMI_RANK_TURN,    /* who receives on a connection */
  DMI_RANK_MAPPING, /* making page records */
  DMI_RANK_PAGE,    /* a page */
  DMI_RANK_PAGER,   /* stalled pages, capacity of members */
  DMI_RANK_TEMP,    /* temporary ids of the network */
  DMI_RANK_LEAF,    /* those under which no other lock is taken, but the network's work */
  DMI_RANK_PEER,    /* the queue of a peer */
  DMI_RANK_WORK,    /* what the network's daemon is to do */
  DMI_RANK_EVENT    /* the line that a launcher gets: events are told with any lock held */
};

#ifdef DMI_DEBUG
/* Aborts when the rule is broken. */
void dmi_lock_taken(enum dmi_rank rank);
void dmi_lock_released(enum dmi_rank rank);
#else
static inline void dmi_lock_taken(enum dmi_rank rank) {
  (void)rank;
}
static inline void dmi_lock_released(enum dmi_rank rank) {
  (void)rank;
}
#endif

/* ---- Four bytes ---- */

enum { DMI_LOCK_FREE, DMI_LOCK_HELD, DMI_LOCK_CONTENDED };

void dmi_lock_slow(_Atomic uint32_t *lock);

static inline void dmi_lock(_Atomic uint32_t *lock, enum dmi_rank rank) {
  uint32_t expected = DMI_LOCK_FREE;
  dmi_lock_taken(rank);
  if (!atomic_compare_exchange_strong_explicit(lock, &expected, DMI_LOCK_HELD, memory_order_acquire,
                                               memory_order_relaxed)) {
    dmi_lock_slow(lock);
  }
}

static inline void dmi_unlock(_Atomic uint32_t *lock, enum dmi_rank rank) {
  dmi_lock_released(rank);
  if (atomic_exchange_explicit(lock, DMI_LOCK_FREE, memory_order_release) == DMI_LOCK_CONTENDED) {
    dmi_futex_wake(lock, 1);
  }
}

/* ---- A mutex ---- */

struct dmi_mutex {
  pthread_mutex_t mutex;
  enum dmi_rank rank;
};

static inline void dmi_mutex_init(struct dmi_mutex *mutex, enum dmi_rank rank) {
  pthread_mutex_init(&mutex->mutex, NULL);
  mutex->rank = rank;
}

static inline void dmi_mutex_destroy(struct dmi_mutex *mutex) {
  pthread_mutex_destroy(&mutex->mutex);
}

static inline void dmi_mutex_lock(struct dmi_mutex *mutex) {
  dmi_lock_taken(mutex->rank);
  pthread_mutex_lock(&mutex->mutex);
}

static inline void dmi_mutex_unlock(struct dmi_mutex *mutex) {
  dmi_lock_released(mutex->rank);
  pthread_mutex_unlock(&mutex->mutex);
}

#endif
