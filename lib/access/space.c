/*
 * space.c - the mappings that this process knows, by address.
 *
 * They are in a sorted array.  A change publishes a new array and retires the old one.  Each thread
 * remembers the mapping that it used last; `generation` says when that may be out of date.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/space.h"
#include "base/epoch.h"

struct dmi_space_table {
  uint64_t num;
  struct dmi_mapping *mapping[]; /* by base */
};

/* All spaces of the OS process share these numbers, so that a thread does not use a mapping that it
 * remembers from another space. */
static _Atomic uint64_t last_generation;

static __thread struct {
  struct dmi_mapping *mapping;
  uint64_t generation;
} last __attribute__((tls_model("initial-exec")));

static uint64_t new_generation(void) {
  return atomic_fetch_add(&last_generation, 1) + 1;
}

void dmi_space_init(struct dmi_space *space) {
  atomic_init(&space->table, NULL);
  atomic_init(&space->generation, new_generation());
  atomic_init(&space->unmapped_lock, 0);
  space->unmapped_num = 0;
}

static struct dmi_space_table *table_new(uint64_t num) {
  struct dmi_space_table *fresh = malloc(sizeof(*fresh) + num * sizeof(fresh->mapping[0]));
  if (!fresh) {
    fprintf(stderr,
            "dmi: no memory left for the table of mappings (a smaller dmirun -s leaves more); "
            "ending\n");
    abort();
  }
  fresh->num = num;
  return fresh;
}

/* The index of the mapping with this base, or where it would be inserted. */
static uint64_t place(const struct dmi_space_table *in, uint64_t base) {
  uint64_t low = 0, high = in ? in->num : 0;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    if (in->mapping[mid]->map.base < base) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static void publish(struct dmi_space *space, struct dmi_space_table *fresh) {
  struct dmi_space_table *old = atomic_exchange(&space->table, fresh);
  if (old) dmi_epoch_retire(old, free);
}

void dmi_space_add(struct dmi_space *space, struct dmi_core *core, struct dmi_mapping *mapping) {
  struct dmi_space_table *old = atomic_load(&space->table);
  uint64_t num = old ? old->num : 0;
  uint64_t at = place(old, mapping->map.base);
  struct dmi_space_table *fresh;
  if (at < num && old->mapping[at]->map.base == mapping->map.base) {
    dmi_mapping_unref(core, mapping); /* it is known already */
    return;
  }
  fresh = table_new(num + 1);
  if (at) memcpy(fresh->mapping, old->mapping, at * sizeof(old->mapping[0]));
  fresh->mapping[at] = mapping;
  if (num > at) {
    memcpy(&fresh->mapping[at + 1], &old->mapping[at], (num - at) * sizeof(old->mapping[0]));
  }
  publish(space, fresh);
}

static void keep(struct dmi_space *space, const struct dmi_mapping *mapping) {
  const struct dmi_map *map = &mapping->map;
  dmi_lock(&space->unmapped_lock, DMI_RANK_LEAF);
  space->unmapped[space->unmapped_num++ % DMI_UNMAPPED_KEPT] =
      (struct dmi_unmapped){map->base, map->page_size, map->page_num, mapping->unmapper};
  dmi_unlock(&space->unmapped_lock, DMI_RANK_LEAF);
}

bool dmi_space_unmapped(struct dmi_space *space, uint64_t addr, struct dmi_unmapped *unmapped) {
  bool found = false;
  dmi_lock(&space->unmapped_lock, DMI_RANK_LEAF);
  for (uint32_t i = 0; i < DMI_UNMAPPED_KEPT && i < space->unmapped_num && !found; i++) {
    *unmapped = space->unmapped[(space->unmapped_num - 1 - i) % DMI_UNMAPPED_KEPT];
    found = addr - unmapped->base < unmapped->page_size * unmapped->page_num;
  }
  dmi_unlock(&space->unmapped_lock, DMI_RANK_LEAF);
  return found;
}

struct dmi_mapping *dmi_space_remove(struct dmi_space *space, uint64_t base) {
  struct dmi_space_table *old = atomic_load(&space->table);
  uint64_t at = place(old, base);
  struct dmi_mapping *mapping;
  struct dmi_space_table *fresh;
  if (!old || at == old->num || old->mapping[at]->map.base != base) return NULL;
  mapping = old->mapping[at];
  fresh = table_new(old->num - 1);
  memcpy(fresh->mapping, old->mapping, at * sizeof(old->mapping[0]));
  memcpy(&fresh->mapping[at], &old->mapping[at + 1], (old->num - at - 1) * sizeof(old->mapping[0]));
  keep(space, mapping);
  publish(space, fresh);
  atomic_store(&space->generation, new_generation());
  return mapping;
}

struct dmi_mapping *dmi_space_find(struct dmi_space *space, uint64_t addr) {
  uint64_t now = atomic_load_explicit(&space->generation, memory_order_acquire);
  struct dmi_space_table *in;
  uint64_t at;
  if (last.generation == now &&
      addr - last.mapping->map.base < last.mapping->end - last.mapping->map.base) {
    return last.mapping;
  }
  in = atomic_load_explicit(&space->table, memory_order_acquire);
  at = place(in, addr + 1);
  if (!at || addr >= in->mapping[at - 1]->end) return NULL;
  last.mapping = in->mapping[at - 1];
  last.generation = now;
  return last.mapping;
}

void dmi_space_near(const struct dmi_space *space, uint64_t addr, const struct dmi_mapping **below,
                    const struct dmi_mapping **above) {
  const struct dmi_space_table *in = atomic_load_explicit(&space->table, memory_order_acquire);
  uint64_t at = place(in, addr + 1);
  *below = at ? in->mapping[at - 1] : NULL;
  *above = in && at < in->num ? in->mapping[at] : NULL;
}

struct dmi_mapping *dmi_space_next(const struct dmi_space *space, uint64_t base) {
  const struct dmi_space_table *in = atomic_load_explicit(&space->table, memory_order_acquire);
  uint64_t at = place(in, base + 1);
  return in && at < in->num ? in->mapping[at] : NULL;
}

void dmi_space_each(const struct dmi_space *space,
                    void (*visit)(struct dmi_mapping *mapping, void *arg), void *arg) {
  struct dmi_space_table *in = atomic_load(&space->table);
  for (uint64_t i = 0; in && i < in->num; i++)
    visit(in->mapping[i], arg);
}

static void add_bytes(struct dmi_mapping *mapping, void *sum) {
  *(uint64_t *)sum += dmi_mapping_bytes(mapping);
}

uint64_t dmi_space_bytes(const struct dmi_space *space) {
  uint64_t sum = 0;
  dmi_space_each(space, add_bytes, &sum);
  return sum;
}

void dmi_space_end(struct dmi_space *space, struct dmi_core *core) {
  struct dmi_space_table *old = atomic_exchange(&space->table, NULL);
  atomic_store(&space->generation, new_generation());
  for (uint64_t i = 0; old && i < old->num; i++)
    dmi_mapping_unref(core, old->mapping[i]);
  free(old);
}
