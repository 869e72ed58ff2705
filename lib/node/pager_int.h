/*
 * pager_int.h - what the files of the pager share; nobody else includes it.
 */
#ifndef DMI_NODE_PAGER_INT_H
#define DMI_NODE_PAGER_INT_H

#include "base/lock.h"
#include "base/pool.h"
#include "core/pressure.h"
#include "node/pager.h"

struct dmi_pager {
  struct dmi_process *process;
  struct dmi_pool *pool;  /* what this process lends */
  struct dmi_spill *file; /* NULL: pages are not spilled */
  pthread_t thread;
  bool started;
  _Atomic uint32_t events;   /* goes up with each; what the thread sleeps on */
  _Atomic uint32_t sleeping; /* bool: it must be woken */
  _Atomic uint32_t stop;     /* bool */
  _Atomic uint64_t sent, taken, dropped;

  struct dmi_mutex lock; /* see docs/locking.md */
  struct dmi_pressure
      *pressure; /* what is decided; which of its functions need the lock, it says */

  /* ---- the thread's alone ---- */
  uint32_t seen;               /* `events` when this look began */
  struct dmi_replace_map *map; /* mappings of a sweep, each with a reference */
  uint64_t maps, maps_capacity;
  bool spill_said; /* that the file took no more */
};

/* ---- pager_sweep.c ---- */
/* Has pages leave; returns the bytes. */
uint64_t dmi_pager_sweep(struct dmi_pager *pager);
/* Offers a page, which is held if it could be. */
enum dmi_pressure_offer dmi_pager_offer(struct dmi_pager *pager, struct dmi_page *page);
/* Its bytes come back from the file, into room that is reserved. */
void dmi_pager_unspill(struct dmi_pager *pager, struct dmi_page *page);

#endif
