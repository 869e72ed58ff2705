/*
 * lock.h - locks with a rank: a lock of four bytes, small enough for every page to have one, and
 * the system's mutex.
 *
 * A lock is held for a few hundred nanoseconds, for one memcpy, or for a system call that cannot
 * block. A thread takes locks in the order of their ranks, and only one of each rank at a time;
 * docs/locking.md says what each lock guards. Builds with --enable-debug check the order each time
 * a lock is taken.
 */
#ifndef DMI_BASE_LOCK_H
#define DMI_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/futex.h"

/* A thread that holds a lock may take only locks that are further down in this list. */
enum dmi_rank {
  DMI_RANK_REMOTE,  /* pools and books of remote functions */
  DMI_RANK_TURN,    /* who receives on a connection */
  DMI_RANK_MAPPING, /* creation of page records */
  DMI_RANK_PAGE,    /* a page */
  DMI_RANK_PAGER,   /* stalled pages, capacity of members */
  DMI_RANK_TEMP,    /* temporary ids of the network */
  DMI_RANK_LEAF,    /* no other lock is taken while one of these is held, except the network's */
  DMI_RANK_PEER,    /* the queue of a peer */
  DMI_RANK_WORK,    /* work for the network's daemon */
  DMI_RANK_EVENT    /* a launcher's line: events are emitted with any lock held */
};

#ifdef DMI_DEBUG
/* Aborts if the order is violated. */
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

/* Between two looks at a word that another thread is about to change. */
static inline void dmi_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

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

/* False: another thread has it. */
static inline bool dmi_lock_try(_Atomic uint32_t *lock, enum dmi_rank rank) {
  uint32_t expected = DMI_LOCK_FREE;
  if (!atomic_compare_exchange_strong_explicit(lock, &expected, DMI_LOCK_HELD, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  dmi_lock_taken(rank);
  return true;
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
