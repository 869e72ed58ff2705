/*
 * mapping.h - a mapping, and its page records.
 *
 * Any thread may look up pages, without a lock; it must be inside an epoch (base/epoch.h), or have
 * a reference to the mapping.
 */
#ifndef DMI_ACCESS_MAPPING_H
#define DMI_ACCESS_MAPPING_H

#include <pthread.h>

#include "base/doing.h"
#include "base/lock.h"
#include "core/page.h"
#include "mem/range_set.h"

#define DMI_TABLE_BITS 9 /* children of a node of the page table: 2^9 */

struct dmi_slab;

struct dmi_deferred_request {
  struct dmi_deferred_request *next;
  dmi_uid_t from;
  struct dmi_msg msg;
};

/* The call of this process that unmaps a mapping. */
struct dmi_unmapper {
  struct dmi_doing_called call; /* its name is NULL: not known */
  char thread[40];              /* "thread NAME"; empty: it is not one of this process */
};

struct dmi_mapping {
  struct dmi_map map;    /* the core's part; first */
  uint64_t end;          /* base + page_size * page_num */
  int32_t shift;         /* log2 of the page size, -1: not a power of two */
  int32_t depth;         /* levels of the page table */
  _Atomic uint32_t refs; /* one of the space, and one for each operation in flight */
  _Atomic uint32_t dead; /* bool: unmapped */
  void *_Atomic root;    /* nodes of 2^9 pointers; leaves point to records */
  struct dmi_mutex lock; /* held while records are made; guards slab */
  struct dmi_slab *slab; /* the memory of records; freed with the mapping */
  struct dmi_deferred_request
      *deferred; /* requests until the home has arrived, in order; guarded by the */
  struct dmi_deferred_request **deferred_end; /* deferred_lock of struct dmi_access */
  _Atomic uint32_t saved_lock;                /* guards saved */
  _Atomic uint32_t any_saved;                 /* bool: a page was saved at some time */
  struct dmi_range_set saved;                 /* numbers of the pages that DMI_save asks to keep */
  _Atomic uint64_t bytes;                     /* of nodes and slabs */
  _Atomic uint64_t faults;                    /* access/faults.h */
  uint64_t hand;                              /* of the pager: core/replace.h */
  struct dmi_doing_call made;   /* the call that made it, in this process; name: set last, once */
  struct dmi_unmapper unmapper; /* of the daemon thread */
};

/* Makes a mapping with one reference.  NULL: no memory. */
struct dmi_mapping *dmi_mapping_new(uint64_t base, uint64_t page_size, uint64_t page_num,
                                    dmi_uid_t home);

/* Takes a further reference; false if the last one was given back already. */
bool dmi_mapping_ref(struct dmi_mapping *mapping);
/* Gives back a reference; after the last the mapping is freed, as soon as no epoch can see it. */
void dmi_mapping_unref(struct dmi_core *core, struct dmi_mapping *mapping);

/* The number of the page of an address inside the mapping, and the offset in the page. */
static inline dmi_pageno_t dmi_mapping_index(const struct dmi_mapping *mapping, uint64_t addr,
                                             uint64_t *off) {
  uint64_t at = addr - mapping->map.base;
  dmi_pageno_t index = mapping->shift >= 0 ? at >> mapping->shift : at / mapping->map.page_size;
  *off = at - index * mapping->map.page_size;
  return index;
}

/* The record of a page; NULL if it was not made yet. */
struct dmi_page *dmi_mapping_find(const struct dmi_mapping *mapping, dmi_pageno_t index);

/* The same, but makes the record if necessary.  NULL: the mapping is dead, or there is no memory;
 * *error says which. */
struct dmi_page *dmi_mapping_get(struct dmi_core *core, struct dmi_mapping *mapping,
                                 dmi_pageno_t index, int32_t *error);

/* Calls `visit` for every record.  If the mapping's lock is held, no record is made meanwhile. */
void dmi_mapping_each(struct dmi_mapping *mapping, void (*visit)(struct dmi_page *page, void *arg),
                      void *arg);

/* The first record of the page with number `from` or a later one; NULL: there is none.  As
 * dmi_mapping_find. */
struct dmi_page *dmi_mapping_next(const struct dmi_mapping *mapping, uint64_t from);

/* Adds the pages [first, end) to the saved ones, or removes them.  Any thread.  False: no memory;
 * nothing has changed. */
bool dmi_mapping_save(struct dmi_mapping *mapping, dmi_pageno_t first, dmi_pageno_t end,
                      bool saved);

/* True if DMI_save asks to keep this page: it must not be dropped, or offered to another process,
 * for lack of memory.  Any thread, with any lock of docs/locking.md held. */
bool dmi_mapping_saved(struct dmi_mapping *mapping, dmi_pageno_t index);

/* Bytes of its page table and records.  Any thread. */
uint64_t dmi_mapping_bytes(const struct dmi_mapping *mapping);

#endif
