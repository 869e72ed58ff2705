/*
 * heap.c - the allocator of one process: current arenas, finding others, making and ending them
 * (docs/allocator.md).
 *
 * Any number of threads may call at the same time. The lock guards the two tables of this process;
 * it is never held during a step.
 */
#include "core/heap.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/lock.h"
#include "base/mutation.h"
#include "dmi_api.h"

#define PER_TABLE (DMI_SYSTEM_PAGE / 8) /* page sizes in a page of the table */

/* A page size and its number, when it is known here. */
struct size {
  UT_hash_handle hh;
  uint64_t page_size; /* key */
  uint32_t number;
};

struct arena {
  uint64_t number;
  uint64_t base; /* 0: none */
  struct dmi_heap_shape shape;
};

struct bin {
  UT_hash_handle hh;
  uint64_t first; /* key: dmi_heap_bin */
  struct arena current;
};

struct dmi_heap {
  struct dmi_heap_env env;
  _Atomic uint32_t lock;
  struct size *sizes;
  struct bin *bins;
};

struct dmi_heap *dmi_heap_new(const struct dmi_heap_env *env) {
  struct dmi_heap *heap = calloc(1, sizeof(*heap));
  if (heap) heap->env = *env;
  return heap;
}

void dmi_heap_free(struct dmi_heap *heap) {
  struct size *size, *next_size;
  struct bin *bin, *next_bin;
  if (!heap) return;
  HASH_ITER(hh, heap->sizes, size, next_size) {
    HASH_DEL(heap->sizes, size);
    free(size);
  }
  HASH_ITER(hh, heap->bins, bin, next_bin) {
    HASH_DEL(heap->bins, bin);
    free(bin);
  }
  free(heap);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Runs a step on a control page. */
static int32_t control(struct dmi_heap *heap, const struct arena *arena, enum dmi_heap_op op,
                       uint32_t a, bool here, struct dmi_heap_out *out) {
  struct dmi_heap_in in = {.op = op, .self = heap->env.self, .base = arena->base, .a = a};
  return heap->env.step(heap->env.arg, arena->number, 0, dmi_heap_control_size(arena->shape.slots),
                        &in, out, sizeof(*out), here);
}

/* Runs a step on an entry. *done: its condition held. */
static int32_t entry(struct dmi_heap *heap, uint64_t number, enum dmi_heap_op op, uint64_t base,
                     uint32_t a, bool *done) {
  struct dmi_heap_in in = {.op = op, .self = heap->env.self, .base = base, .a = a};
  struct dmi_heap_out out;
  uint64_t k = number & 0xffu, size = sizeof(struct dmi_heap_entry);
  int32_t error =
      heap->env.step(heap->env.arg, number - k, k * size, size, &in, &out, sizeof(out), false);
  if (done) *done = error == DMI_OK && out.result == DMI_HEAP_OK;
  return error;
}

/* ---- What this process knows ---------------------------------------------------------------- */

/* Finds the number of a page size. *number 0: the table is full. */
static int32_t size_number(struct dmi_heap *heap, uint64_t page_size, uint32_t *number) {
  struct dmi_heap_in in = {.op = DMI_HEAP_SIZE, .base = page_size};
  struct dmi_heap_out out = {.result = DMI_HEAP_FULL};
  struct size *size, *fresh;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, heap->sizes, &page_size, sizeof(page_size), size);
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
  if (size) {
    *number = size->number;
    return DMI_OK;
  }
  *number = 0;
  for (uint32_t at = 0; at + PER_TABLE <= DMI_HEAP_SIZES + 1u; at += PER_TABLE) {
    int32_t error = heap->env.step(heap->env.arg, at / PER_TABLE, 0, DMI_SYSTEM_PAGE, &in, &out,
                                   sizeof(out), false);
    if (error != DMI_OK) return error;
    if (out.result != DMI_HEAP_OK) continue;
    if (at + out.a + 1 <= DMI_HEAP_SIZES) *number = at + out.a + 1;
    break;
  }
  if (!*number) return DMI_OK;
  fresh = calloc(1, sizeof(*fresh));
  if (!fresh) return DMI_ENOMEM;
  fresh->page_size = page_size;
  fresh->number = *number;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, heap->sizes, &page_size, sizeof(page_size), size);
  if (!size) HASH_ADD(hh, heap->sizes, page_size, sizeof(page_size), fresh);
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
  if (size) free(fresh);
  return DMI_OK;
}

/* With the lock held. */
static struct bin *bin_find(struct dmi_heap *heap, uint64_t first) {
  struct bin *bin;
  HASH_FIND(hh, heap->bins, &first, sizeof(first), bin);
  return bin;
}

static void current_get(struct dmi_heap *heap, uint64_t first, struct arena *arena) {
  struct bin *bin;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, first);
  if (bin) {
    *arena = bin->current;
  } else {
    arena->base = 0;
  }
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
}

static bool current_is(struct dmi_heap *heap, const struct arena *arena) {
  struct arena current;
  current_get(heap, arena->number & ~UINT64_C(0xffffff), &current);
  return current.base == arena->base;
}

static void current_drop(struct dmi_heap *heap, const struct arena *arena) {
  struct bin *bin;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, arena->number & ~UINT64_C(0xffffff));
  if (bin && bin->current.base == arena->base) bin->current.base = 0;
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
}

/* Makes it the current arena if there is none. *set: it is the current one. */
static int32_t current_set(struct dmi_heap *heap, const struct arena *arena, bool *set) {
  uint64_t first = arena->number & ~UINT64_C(0xffffff);
  struct bin *bin, *fresh = calloc(1, sizeof(*fresh));
  if (!fresh) return DMI_ENOMEM;
  fresh->first = first;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, first);
  if (!bin) {
    bin = fresh;
    fresh = NULL;
    HASH_ADD(hh, heap->bins, first, sizeof(bin->first), bin);
  }
  if (!bin->current.base) bin->current = *arena;
  *set = bin->current.base == arena->base;
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
  free(fresh);
  return DMI_OK;
}

/* ---- The end of an arena -------------------------------------------------------------------- */

/* True if the arena of another process may be taken over. */
static bool is_free(struct dmi_heap *heap, uint32_t holder) {
  if (holder == 0 || holder == heap->env.self) return true;
  return !DMI_HEAP_BROKEN(DMI_HEAP_BREAK_HOLDER) && !heap->env.is_member(heap->env.arg, holder);
}

/* True if the process that has reserved an entry will not go on. */
static bool is_lost(struct dmi_heap *heap, uint32_t holder) {
  return holder && holder != heap->env.self && !heap->env.is_member(heap->env.arg, holder);
}

/* True if it has no objects. False also if it does not exist any more: then there is nothing to
 * do. */
static bool is_empty(struct dmi_heap *heap, const struct arena *arena) {
  struct dmi_heap_out out;
  return control(heap, arena, DMI_HEAP_COUNT, 0, false, &out) == DMI_OK &&
         out.result == DMI_HEAP_OK && out.a == 0;
}

/* Takes an arena that no process holds. True if this process holds it now. */
static bool seize(struct dmi_heap *heap, const struct arena *arena) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry now;
  uint64_t k = arena->number & 0xffu;
  bool done;
  if (heap->env.step(heap->env.arg, arena->number - k, k * sizeof(now), sizeof(now), &in, &now,
                     sizeof(now), false) != DMI_OK) {
    return false;
  }
  if (now.base != arena->base || !is_free(heap, now.holder)) return false;
  (void)entry(heap, arena->number, DMI_HEAP_SEIZE, arena->base, now.holder, &done);
  return done;
}

/* Unmaps an arena that has no objects and is not the current one here, unless another process
 * uses it. Objects freed while this process holds it need no action of the other process, which
 * sees the holder. */
static void retire(struct dmi_heap *heap, const struct arena *arena) {
  struct dmi_heap_out out;
  if (DMI_HEAP_BROKEN(DMI_HEAP_BREAK_EMPTY)) return;
  do {
    if (!seize(heap, arena)) return;
    if (control(heap, arena, DMI_HEAP_KILL, 0, false, &out) != DMI_OK) return;
    if (out.result == DMI_HEAP_OK) {
      (void)entry(heap, arena->number, DMI_HEAP_CLEAR, arena->base, 0, NULL);
      heap->env.unmap(heap->env.arg, arena->base, arena->number);
      return;
    }
    (void)entry(heap, arena->number, DMI_HEAP_LET, arena->base, 0, NULL);
  } while (is_empty(heap, arena));
}

/* Its control page is lost: nobody finds room in it any more. The objects stay; they are never
 * freed. */
static int32_t abandon(struct dmi_heap *heap, const struct arena *arena) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry now;
  uint64_t k = arena->number & 0xffu;
  int32_t error;
  current_drop(heap, arena);
  error = heap->env.step(heap->env.arg, arena->number - k, k * sizeof(now), sizeof(now), &in, &now,
                         sizeof(now), false);
  if (error != DMI_OK || now.base != arena->base) return error;
  return entry(heap, arena->number, DMI_HEAP_SHUT, arena->base, now.version >> 1, NULL);
}

/* Makes an arena that this process holds the current one. If another thread of this process was
 * faster, gives it up instead. So a process holds no arenas except its current ones. */
static int32_t use(struct dmi_heap *heap, const struct arena *arena) {
  bool set;
  int32_t error = current_set(heap, arena, &set);
  if (error == DMI_OK && set) return DMI_OK;
  (void)entry(heap, arena->number, DMI_HEAP_LET, arena->base, 0, NULL);
  if (is_empty(heap, arena)) retire(heap, arena);
  return error;
}

/* A TAKE found the current arena full, so it is not current any more. If other threads have
 * freed enough since then, it is open again and this process still holds it. */
static int32_t shut(struct dmi_heap *heap, const struct arena *arena, uint32_t version) {
  bool done;
  int32_t error;
  current_drop(heap, arena);
  error = entry(heap, arena->number, DMI_HEAP_SHUT, arena->base, version, &done);
  if (error == DMI_OK && !done) return use(heap, arena);
  /* A thread of this process that still saw it as the current one may have emptied it. */
  if (error == DMI_OK && is_empty(heap, arena)) retire(heap, arena);
  return error;
}

/* ---- Finding an arena ----------------------------------------------------------------------- */

/* Makes an arena in a reserved entry. */
static int32_t arena_make(struct dmi_heap *heap, struct arena *arena) {
  struct dmi_heap_out out;
  bool done;
  int32_t error = heap->env.map(heap->env.arg, arena->shape.page_size, arena->shape.page_num,
                                arena->number, &arena->base);
  if (error != DMI_OK) {
    arena->base = 0;
    (void)entry(heap, arena->number, DMI_HEAP_CLEAR, 1, 0, NULL);
    return error;
  }
  error = control(heap, arena, DMI_HEAP_INIT, arena->shape.slots, true, &out);
  if (error == DMI_OK) error = entry(heap, arena->number, DMI_HEAP_OPEN, arena->base, 0, &done);
  return error;
}

/* The result of a search in a bin. */
struct found {
  /* number of an arena with spare slots, or of a free entry; 0: nothing was found */
  uint64_t number;
  uint64_t base;   /* 0: a free entry */
  uint32_t holder; /* of a free entry: the lost process that has reserved it, or 0 */
  bool end;        /* no entry after these was ever used */
};

/* Searches one page of entries. */
static int32_t table_look(struct dmi_heap *heap, uint64_t first, struct found *found) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry *entries = malloc(DMI_SYSTEM_PAGE);
  int32_t error;
  if (!entries) return DMI_ENOMEM;
  error = heap->env.step(heap->env.arg, first, 0, DMI_SYSTEM_PAGE, &in, entries, DMI_SYSTEM_PAGE,
                         false);
  for (uint32_t k = 1; k <= DMI_HEAP_ENTRIES && error == DMI_OK && !found->end; k++) {
    const struct dmi_heap_entry *at = &entries[k];
    if (at->base == 0) {
      if (!found->number) *found = (struct found){.number = first + k};
      found->end = at->version == 0;
    } else if (at->base == 1 && is_lost(heap, at->holder)) {
      if (!found->number) *found = (struct found){.number = first + k, .holder = at->holder};
    } else if (at->base > 1 && (at->version & 1) && is_free(heap, at->holder)) {
      *found = (struct found){first + k, at->base, at->holder, true};
    }
  }
  free(entries);
  return error;
}

/* Finds an arena with spare slots and makes it the current one; it may be full again by then. */
static int32_t arena_find(struct dmi_heap *heap, uint64_t first, uint64_t page_size) {
  for (;;) {
    struct found found = {0, 0, 0, false};
    struct arena arena;
    bool done;
    int32_t error = DMI_OK;
    for (uint64_t j = 0; j < DMI_HEAP_TABLES && !found.end && error == DMI_OK; j++) {
      error = table_look(heap, first + (j << 8), &found);
    }
    if (error != DMI_OK) return error;
    if (!found.number) return DMI_E_OWN_MAPPING;
    arena = (struct arena){found.number, found.base, dmi_heap_shape(found.number, page_size)};
    if (found.base) {
      error = entry(heap, found.number, DMI_HEAP_HOLD, found.base, found.holder, &done);
    } else {
      error = entry(heap, found.number, DMI_HEAP_RESERVE, 0, found.holder, &done);
      if (error == DMI_OK && done) error = arena_make(heap, &arena);
    }
    if (error != DMI_OK) return error;
    if (done) return use(heap, &arena);
    /* Another process was faster. */
  }
}

/* ---- Allocating ----------------------------------------------------------------------------- */

int32_t dmi_heap_take(struct dmi_heap *heap, uint64_t size, uint64_t page_size, uint64_t *addr) {
  struct dmi_heap_out out;
  struct arena arena;
  uint32_t number;
  uint64_t first;
  uint8_t cls;
  int32_t error;
  if (!dmi_heap_class(size, page_size, &cls)) return DMI_E_OWN_MAPPING;
  error = size_number(heap, page_size, &number);
  if (error != DMI_OK) return error;
  if (!number) return DMI_E_OWN_MAPPING;
  first = dmi_heap_bin(number, cls);
  for (;;) {
    current_get(heap, first, &arena);
    if (!arena.base) {
      error = arena_find(heap, first, page_size);
      if (error != DMI_OK) return error;
      continue;
    }
    error = control(heap, &arena, DMI_HEAP_TAKE, 0, true, &out);
    if (error == DMI_ELOST) {
      error = abandon(heap, &arena);
      if (error != DMI_OK) return error;
      continue;
    }
    if (error != DMI_OK) return error;
    if (out.result == DMI_HEAP_OK) {
      if (out.a >= arena.shape.slots) return DMI_EINVAL; /* the owner's bytes are inconsistent */
      *addr = arena.base + dmi_heap_offset(&arena.shape, out.a);
      return DMI_OK;
    }
    if (out.result == DMI_HEAP_FULL) {
      error = shut(heap, &arena, out.a);
      if (error != DMI_OK) return error;
    } else {
      current_drop(heap, &arena);
    }
  }
}

/* ---- Freeing -------------------------------------------------------------------------------- */

/* Finds the arena and the slot of an object. The number is the mapping's tag in the directory,
 * which any member may have made, so it is checked. */
static bool locate(uint64_t number, uint64_t page_size, uint64_t base, uint64_t offset,
                   struct arena *arena, uint32_t *slot) {
  if (!dmi_heap_number_good(number, page_size)) return false;
  *arena = (struct arena){number, base, dmi_heap_shape(number, page_size)};
  return dmi_heap_slot(&arena->shape, offset, slot);
}

int32_t dmi_heap_give(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                      uint64_t offset) {
  struct dmi_heap_out out;
  struct arena arena;
  uint32_t slot;
  bool mine;
  int32_t error;
  if (!locate(number, page_size, base, offset, &arena, &slot)) return DMI_EADDR;
  mine = current_is(heap, &arena);
  error = control(heap, &arena, DMI_HEAP_GIVE, slot, mine, &out);
  if (error == DMI_ELOST) return DMI_OK; /* the slot is lost with the control page */
  if (error != DMI_OK) return error;
  if (out.result != DMI_HEAP_OK) return DMI_EADDR;
  if ((out.flags & DMI_HEAP_REOPENED) && !DMI_HEAP_BROKEN(DMI_HEAP_BREAK_SPARE)) {
    (void)entry(heap, number, DMI_HEAP_SPARE, base, out.a, NULL);
  }
  if ((out.flags & DMI_HEAP_EMPTY) && !current_is(heap, &arena)) retire(heap, &arena);
  return DMI_OK;
}

int32_t dmi_heap_has(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                     uint64_t offset) {
  struct dmi_heap_out out;
  struct arena arena;
  uint32_t slot;
  int32_t error;
  if (!locate(number, page_size, base, offset, &arena, &slot)) return DMI_EADDR;
  error = control(heap, &arena, DMI_HEAP_HAS, slot, false, &out);
  if (error == DMI_ELOST) return DMI_OK; /* nobody can tell: it is believed */
  if (error != DMI_OK) return error;
  return out.result == DMI_HEAP_OK ? DMI_OK : DMI_EADDR;
}

bool dmi_heap_uses(struct dmi_heap *heap, uint64_t number, uint64_t base) {
  struct arena arena = {.number = number, .base = base};
  return current_is(heap, &arena);
}
