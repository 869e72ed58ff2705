/*
 * pager_int.h - private to the pager's files.
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
  _Atomic uint32_t events;   /* number of events; the thread sleeps on it (futex) */
  _Atomic uint32_t sleeping; /* bool: it must be woken */
  _Atomic uint32_t stop;     /* bool */
  _Atomic uint64_t sent, taken, dropped;
  _Atomic uint64_t coming; /* size of the page of a leaver that was last to be taken; 0: none yet */

  struct dmi_pressure *pressure; /* what is decided; own lock */

  /* ---- used by the pager thread only ---- */
  uint32_t seen;               /* `events` when the last look began */
  struct dmi_replace_map *map; /* mappings of a sweep, each with a reference */
  uint64_t maps, maps_capacity;
  bool spill_said; /* a line said that the file could not be written */
};

/* ---- pager_sweep.c ---- */
/* Makes pages leave; returns how many bytes. */
uint64_t dmi_pager_sweep(struct dmi_pager *pager);
/* Offers a page.  If it could be offered, it holds a reference to its mapping. */
enum dmi_pressure_offer dmi_pager_offer(struct dmi_pager *pager, struct dmi_page *page);
/* Reads the page's bytes back from the file, into memory that is reserved. */
void dmi_pager_unspill(struct dmi_pager *pager, struct dmi_page *page);

#endif
