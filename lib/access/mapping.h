/*
 * mapping.h - a mapping, and its page records.
 *
 * Lookups are for any thread and lock nothing; they must be inside an epoch (base/epoch.h), or hold
 * a reference to the mapping.
 */
#ifndef DMI_ACCESS_MAPPING_H
#define DMI_ACCESS_MAPPING_H

#include <pthread.h>

#include "base/lock.h"
#include "core/page.h"
#include "mem/range_set.h"

#define DMI_TABLE_BITS 9 /* children of a node of the page table: 2^9 */

struct dmi_slab;

struct dmi_deferred_request {
  struct dmi_deferred_request *next;
  uint32_t from;
  struct dmi_msg msg;
};

struct dmi_mapping {
  struct dmi_map map;    /* what the protocol core sees; first */
  uint64_t end;          /* base + page_size * page_num */
  int32_t shift;         /* log2 of the page size, -1: not a power of two */
  int32_t depth;         /* levels of the page table */
  _Atomic uint32_t refs; /* the table's one, and one per operation in flight */
  _Atomic uint32_t dead; /* bool: unmapped */
  void *_Atomic root;    /* nodes of 2^9 pointers; leaves point to records */
  struct dmi_mutex lock; /* making records; guards slab */
  struct dmi_slab *slab; /* records live in slabs, freed with the mapping */
  struct dmi_deferred_request
      *deferred; /* requests for the home that is arriving, in order; guarded by the */
  struct dmi_deferred_request **deferred_end; /* process's park lock */
  _Atomic uint32_t saved_lock;                /* guards saved */
  _Atomic uint32_t any_saved;                 /* bool: some page was saved once */
  struct dmi_range_set saved;                 /* numbers of pages that are to stay here: DMI_save */
  _Atomic uint64_t bytes;                     /* in nodes and slabs */
  uint64_t hand;                              /* the pager's: core/replace.h */
};

/* Makes one, with one reference.  NULL: no memory. */
struct dmi_mapping *dmi_mapping_new(uint64_t base, uint64_t page_size, uint64_t page_num,
                                    uint32_t home);

/* A further reference; false when the last is gone already. */
bool dmi_mapping_ref(struct dmi_mapping *mapping);
/* The last one frees the mapping when no epoch can see it any more. */
void dmi_mapping_unref(struct dmi_core *core, struct dmi_mapping *mapping);

/* The page of an address inside the mapping, and the offset in the page. */
static inline uint64_t dmi_mapping_index(const struct dmi_mapping *mapping, uint64_t addr,
                                         uint64_t *off) {
  uint64_t at = addr - mapping->map.base;
  uint64_t index = mapping->shift >= 0 ? at >> mapping->shift : at / mapping->map.page_size;
  *off = at - index * mapping->map.page_size;
  return index;
}

/* The record of a page, NULL when there is none yet. */
struct dmi_page *dmi_mapping_find(const struct dmi_mapping *mapping, uint64_t index);

/* The same, made if need be.  NULL: the mapping is dead, or there is no memory (*error tells). */
struct dmi_page *dmi_mapping_get(struct dmi_core *core, struct dmi_mapping *mapping, uint64_t index,
                                 int32_t *error);

/* Calls visit for every record there is.  With the mapping's lock held no record is made meanwhile.
 */
void dmi_mapping_each(struct dmi_mapping *mapping, void (*visit)(struct dmi_page *page, void *arg),
                      void *arg);

/* The first record of a page from number `from` on, NULL: there is none.  As dmi_mapping_find. */
struct dmi_page *dmi_mapping_next(const struct dmi_mapping *mapping, uint64_t from);

/* Saves the pages [first, end), or ends that; any thread.  False: no memory, nothing was changed.
 */
bool dmi_mapping_save(struct dmi_mapping *mapping, uint64_t first, uint64_t end, bool saved);

/* Must this page not be replaced here?  What replaces pages asks this of each page that it might
 * drop, or give to another process; any thread, any lock of docs/locking.md held. */
bool dmi_mapping_saved(struct dmi_mapping *mapping, uint64_t index);

/* Bytes in its page table and records.  Any thread. */
uint64_t dmi_mapping_bytes(const struct dmi_mapping *mapping);

#endif
