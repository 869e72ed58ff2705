/*
 * mapping.c - one mapping: its page table and page records.
 *
 * The page table is a radix tree with nodes of 512 pointers, made as pages are touched, so that a
 * mapping of any number of pages costs nothing at first.  Nothing in it is moved or freed before
 * the mapping is, so finding a record takes no lock.
 */
#include "access/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "dmi_api.h"

#define FANOUT (1u << DMI_TABLE_BITS)
#define SLAB_MAX 64 /* records in a slab; the first ones are smaller */

struct dmi_slab {
  struct dmi_slab *next;
  uint32_t used, capacity;
  struct dmi_page *pages; /* each aligned to a cache line */
};

typedef void *_Atomic node_slot;

uint64_t dmi_mapping_bytes(const struct dmi_mapping *mapping) {
  return atomic_load_explicit(&mapping->bytes, memory_order_relaxed);
}

/* Counts memory of the mapping.  With the lock held. */
static void count(struct dmi_mapping *mapping, size_t bytes) {
  atomic_fetch_add_explicit(&mapping->bytes, bytes, memory_order_relaxed);
}

struct dmi_mapping *dmi_mapping_new(uint64_t base, uint64_t page_size, uint64_t page_num,
                                    uint32_t home) {
  struct dmi_mapping *mapping = calloc(1, sizeof(*mapping));
  if (!mapping) return NULL;
  mapping->map.base = base;
  mapping->map.page_size = page_size;
  mapping->map.page_num = page_num;
  atomic_init(&mapping->map.home, home);
  mapping->end = base + page_size * page_num;
  mapping->shift = (page_size & (page_size - 1)) == 0 ? __builtin_ctzll(page_size) : -1;
  mapping->depth = 1;
  for (uint64_t top = (page_num - 1) >> DMI_TABLE_BITS; top; top >>= DMI_TABLE_BITS) {
    mapping->depth++;
  }
  mapping->deferred_end = &mapping->deferred;
  atomic_init(&mapping->refs, 1);
  dmi_mutex_init(&mapping->lock, DMI_RANK_MAPPING);
  return mapping;
}

static void free_nodes(node_slot *node, int depth) {
  if (!node) return;
  if (depth > 1) {
    for (unsigned i = 0; i < FANOUT; i++)
      free_nodes(atomic_load(&node[i]), depth - 1);
  }
  free(node);
}

static void mapping_free(void *ptr) {
  struct dmi_mapping *mapping = ptr;
  while (mapping->slab) {
    struct dmi_slab *slab = mapping->slab;
    mapping->slab = slab->next;
    free(slab->pages);
    free(slab);
  }
  free_nodes(atomic_load(&mapping->root), mapping->depth);
  dmi_range_set_clear(&mapping->saved);
  dmi_mutex_destroy(&mapping->lock);
  free(mapping);
}

bool dmi_mapping_ref(struct dmi_mapping *mapping) {
  uint32_t refs = atomic_load(&mapping->refs);
  while (refs) {
    if (atomic_compare_exchange_weak(&mapping->refs, &refs, refs + 1)) return true;
  }
  return false;
}

static void fini_page(struct dmi_page *page, void *core) {
  dmi_page_fini(core, page);
}

void dmi_mapping_unref(struct dmi_core *core, struct dmi_mapping *mapping) {
  if (atomic_fetch_sub(&mapping->refs, 1) != 1) return;
  dmi_mapping_each(mapping, fini_page, core);
  dmi_epoch_retire(mapping, mapping_free);
}

struct dmi_page *dmi_mapping_find(const struct dmi_mapping *mapping, uint64_t index) {
  node_slot *node = atomic_load_explicit(&mapping->root, memory_order_acquire);
  for (int level = mapping->depth - 1; node && level > 0; level--) {
    unsigned at = (unsigned)(index >> (level * DMI_TABLE_BITS)) & (FANOUT - 1);
    node = atomic_load_explicit(&node[at], memory_order_acquire);
  }
  if (!node) return NULL;
  return atomic_load_explicit(&node[index & (FANOUT - 1)], memory_order_acquire);
}

/* The first record from page `from` on below a node whose first page is `first`. */
static struct dmi_page *next_below(node_slot *node, int depth, uint64_t first, uint64_t from) {
  int shift = (depth - 1) * DMI_TABLE_BITS;
  for (uint64_t i = from > first ? (from - first) >> shift : 0; i < FANOUT; i++) {
    void *child = atomic_load_explicit(&node[i], memory_order_acquire);
    struct dmi_page *page;
    if (!child) continue;
    if (depth == 1) return child;
    page = next_below(child, depth - 1, first + (i << shift), from);
    if (page) return page;
  }
  return NULL;
}

struct dmi_page *dmi_mapping_next(const struct dmi_mapping *mapping, uint64_t from) {
  node_slot *root = atomic_load_explicit(&mapping->root, memory_order_acquire);
  return root && from < mapping->map.page_num ? next_below(root, mapping->depth, 0, from) : NULL;
}

static struct dmi_page *slab_take(struct dmi_mapping *mapping) {
  struct dmi_slab *slab = mapping->slab;
  if (!slab || slab->used == slab->capacity) {
    uint32_t capacity = slab ? 2 * slab->capacity : 1;
    if (capacity > SLAB_MAX) capacity = SLAB_MAX;
    slab = malloc(sizeof(*slab));
    if (!slab) return NULL;
    slab->pages = aligned_alloc(64, capacity * sizeof(struct dmi_page));
    if (!slab->pages) {
      free(slab);
      return NULL;
    }
    count(mapping, capacity * sizeof(struct dmi_page));
    slab->capacity = capacity;
    slab->used = 0;
    slab->next = mapping->slab;
    mapping->slab = slab;
  }
  return &slab->pages[slab->used++];
}

/* Returns the slot for a record, and makes missing nodes above it.  With the lock held. */
static node_slot *slot_make(struct dmi_mapping *mapping, uint64_t index) {
  node_slot *at = &mapping->root;
  for (int level = mapping->depth - 1; level >= 0; level--) {
    node_slot *node = atomic_load(at);
    if (!node) {
      node = calloc(FANOUT, sizeof(node_slot));
      if (!node) return NULL;
      count(mapping, FANOUT * sizeof(node_slot));
      atomic_store_explicit(at, (void *)node, memory_order_release);
    }
    at = &node[(index >> (level * DMI_TABLE_BITS)) & (FANOUT - 1)];
  }
  return at;
}

struct dmi_page *dmi_mapping_get(struct dmi_core *core, struct dmi_mapping *mapping, uint64_t index,
                                 int32_t *error) {
  struct dmi_page *page = dmi_mapping_find(mapping, index);
  node_slot *slot;
  if (page) return page;
  dmi_mutex_lock(&mapping->lock);
  page = dmi_mapping_find(mapping, index);
  *error = DMI_EADDR;
  if (!page && !atomic_load(&mapping->dead)) {
    *error = DMI_ENOMEM;
    slot = slot_make(mapping, index);
    page = slot ? slab_take(mapping) : NULL;
    if (page) {
      dmi_page_init(core, &mapping->map, page, index);
      atomic_store_explicit(slot, (void *)page, memory_order_release);
    }
  }
  dmi_mutex_unlock(&mapping->lock);
  return page;
}

bool dmi_mapping_save(struct dmi_mapping *mapping, uint64_t first, uint64_t end, bool saved) {
  bool good;
  dmi_lock(&mapping->saved_lock, DMI_RANK_LEAF);
  if (saved) {
    atomic_store(&mapping->any_saved, 1);
    good = dmi_range_set_add(&mapping->saved, first, end);
  } else {
    good = dmi_range_set_remove(&mapping->saved, first, end);
  }
  dmi_unlock(&mapping->saved_lock, DMI_RANK_LEAF);
  return good;
}

bool dmi_mapping_saved(struct dmi_mapping *mapping, uint64_t index) {
  bool saved;
  if (!atomic_load(&mapping->any_saved)) return false;
  dmi_lock(&mapping->saved_lock, DMI_RANK_LEAF);
  saved = dmi_range_set_has(&mapping->saved, index);
  dmi_unlock(&mapping->saved_lock, DMI_RANK_LEAF);
  return saved;
}

static void each_below(node_slot *node, int depth, void (*visit)(struct dmi_page *, void *),
                       void *arg) {
  for (unsigned i = 0; i < FANOUT; i++) {
    void *child = atomic_load(&node[i]);
    if (!child) continue;
    if (depth > 1) {
      each_below(child, depth - 1, visit, arg);
    } else {
      visit(child, arg);
    }
  }
}

void dmi_mapping_each(struct dmi_mapping *mapping, void (*visit)(struct dmi_page *page, void *arg),
                      void *arg) {
  node_slot *root = atomic_load(&mapping->root);
  if (root) each_below(root, mapping->depth, visit, arg);
}
