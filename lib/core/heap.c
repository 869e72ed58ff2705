/*
 * heap.c - the allocator of one process: takes and gives back slots, finds arenas, makes and ends
 * them (docs/allocator.md).
 *
 * Any number of threads may call at the same time.
 */
#include <stdlib.h>

#include "base/mutation.h"
#include "core/heap_int.h"
#include "dmi_api.h"

/* ---- Steps ---------------------------------------------------------------------------------- */

int32_t dmi_heap_renew(struct dmi_heap *heap, uint64_t page, uint64_t len,
                       const struct dmi_heap_in *in, void *answer, uint64_t size, bool here) {
  for (;;) {
    int32_t error = heap->env.step(heap->env.arg, page, 0, len, in, answer, size, here);
    if (error != DMI_ELOST || DMI_HEAP_BROKEN(DMI_HEAP_BREAK_REVIVE)) return error;
    error = heap->env.revive(heap->env.arg, page);
    if (error != DMI_OK && error != DMI_ELOST) return error;
  }
}

/* Runs a step on a control page. */
static int32_t control(struct dmi_heap *heap, const struct dmi_arena *arena, enum dmi_heap_op op,
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
static bool is_empty(struct dmi_heap *heap, const struct dmi_arena *arena) {
  struct dmi_heap_out out;
  return control(heap, arena, DMI_HEAP_COUNT, 0, false, &out) == DMI_OK &&
         out.result == DMI_HEAP_OK && out.a == 0;
}

/* Takes an arena that no process holds. True if this process holds it now. */
static bool seize(struct dmi_heap *heap, const struct dmi_arena *arena) {
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
static void retire(struct dmi_heap *heap, const struct dmi_arena *arena) {
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

/* Its control page is lost, or is that of another arena: nobody finds room in it any more. The
 * objects stay; they are never freed. */
static int32_t abandon(struct dmi_heap *heap, const struct dmi_arena *arena) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry now;
  uint64_t k = arena->number & 0xffu;
  int32_t error;
  dmi_heap_current_drop(heap, arena);
  error = heap->env.step(heap->env.arg, arena->number - k, k * sizeof(now), sizeof(now), &in, &now,
                         sizeof(now), false);
  if (error == DMI_OK && now.base == arena->base)
    error = entry(heap, arena->number, DMI_HEAP_SHUT, arena->base, now.version >> 1, NULL);
  return error == DMI_ELOST ? DMI_OK : error;
}

/* Its entry was lost: it is that of another arena now, or of none. */
static bool is_forgotten(struct dmi_heap *heap, const struct dmi_arena *arena) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry now;
  uint64_t k = arena->number & 0xffu;
  if (!heap->env.losses(heap->env.arg)) return false;
  return heap->env.step(heap->env.arg, arena->number - k, k * sizeof(now), sizeof(now), &in, &now,
                        sizeof(now), false) != DMI_OK ||
         now.base != arena->base;
}

/* Makes an arena that this process holds the current one. If another thread of this process was
 * faster, gives it up instead. So a process holds no arenas except its current ones. */
static int32_t use(struct dmi_heap *heap, const struct dmi_arena *arena) {
  bool set;
  int32_t error = dmi_heap_current_set(heap, arena, &set);
  if (error == DMI_OK && set) return DMI_OK;
  (void)entry(heap, arena->number, DMI_HEAP_LET, arena->base, 0, NULL);
  if (is_empty(heap, arena)) retire(heap, arena);
  return error;
}

/* A TAKE found the current arena full, so it is not current any more. If other threads have
 * freed enough since then, it is open again and this process still holds it. */
static int32_t shut(struct dmi_heap *heap, const struct dmi_arena *arena, uint32_t version) {
  bool done;
  int32_t error;
  dmi_heap_current_drop(heap, arena);
  error = entry(heap, arena->number, DMI_HEAP_SHUT, arena->base, version, &done);
  if (error == DMI_ELOST || (error == DMI_OK && !done && is_forgotten(heap, arena)))
    return DMI_OK; /* its slots that are freed from now on are found by nobody */
  if (error == DMI_OK && !done) return use(heap, arena);
  /* A thread of this process that still saw it as the current one may have emptied it. */
  if (error == DMI_OK && is_empty(heap, arena)) retire(heap, arena);
  return error;
}

/* ---- Finding an arena ----------------------------------------------------------------------- */

/* Makes an arena in a reserved entry.  The control page may be that of an arena whose entry was
 * lost: it is no arena any more then, but a mapping with objects. */
static int32_t arena_make(struct dmi_heap *heap, struct dmi_arena *arena) {
  struct dmi_heap_in in = {.op = DMI_HEAP_INIT, .self = heap->env.self, .a = arena->shape.slots};
  struct dmi_heap_out out;
  bool done;
  int32_t error = heap->env.map(heap->env.arg, arena->shape.page_size, arena->shape.page_num,
                                arena->number, &arena->base);
  if (error != DMI_OK) {
    arena->base = 0;
    (void)entry(heap, arena->number, DMI_HEAP_CLEAR, 1, 0, NULL);
    return error;
  }
  in.base = arena->base;
  error = dmi_heap_renew(heap, arena->number, dmi_heap_control_size(in.a), &in, &out, sizeof(out),
                         true);
  if (error == DMI_OK) error = entry(heap, arena->number, DMI_HEAP_OPEN, arena->base, 0, &done);
  return error == DMI_ELOST ? DMI_OK : error; /* it is used until it is full */
}

/* Behind a loss an entry may be that of an arena of another page size, or of a mapping that
 * nobody knows any more. */
static bool fits(struct dmi_heap *heap, uint64_t number, uint64_t base, uint64_t page_size) {
  if (!heap->env.losses(heap->env.arg) || DMI_HEAP_BROKEN(DMI_HEAP_BREAK_FITS)) return true;
  return heap->env.is_mapping(heap->env.arg, base, number, page_size);
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
static int32_t table_look(struct dmi_heap *heap, uint64_t first, uint64_t page_size,
                          struct found *found) {
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  struct dmi_heap_entry *entries = malloc(DMI_SYSTEM_PAGE);
  int32_t error;
  if (!entries) return DMI_ENOMEM;
  error = dmi_heap_renew(heap, first, DMI_SYSTEM_PAGE, &in, entries, DMI_SYSTEM_PAGE, false);
  for (uint32_t k = 1; k <= DMI_HEAP_ENTRIES && error == DMI_OK && !found->end; k++) {
    const struct dmi_heap_entry *at = &entries[k];
    if (at->base == 0) {
      if (!found->number) *found = (struct found){.number = first + k};
      found->end = at->version == 0;
    } else if (at->base == 1 && is_lost(heap, at->holder)) {
      if (!found->number) *found = (struct found){.number = first + k, .holder = at->holder};
    } else if (at->base > 1 && (at->version & 1) && is_free(heap, at->holder) &&
               fits(heap, first + k, at->base, page_size)) {
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
    struct dmi_arena arena;
    bool done = false;
    int32_t error = DMI_OK;
    for (uint64_t j = 0; j < DMI_HEAP_TABLES && !found.end && error == DMI_OK; j++) {
      error = table_look(heap, first + (j << 8), page_size, &found);
    }
    if (error != DMI_OK) return error;
    if (!found.number) return DMI_E_OWN_MAPPING;
    arena = (struct dmi_arena){found.number, found.base, dmi_heap_shape(found.number, page_size)};
    if (found.base) {
      error = entry(heap, found.number, DMI_HEAP_HOLD, found.base, found.holder, &done);
    } else {
      error = entry(heap, found.number, DMI_HEAP_RESERVE, 0, found.holder, &done);
      if (error == DMI_OK && done) error = arena_make(heap, &arena);
    }
    if (error != DMI_OK && error != DMI_ELOST) return error;
    if (done) return use(heap, &arena);
    /* Another process was faster, or the entry is lost. */
  }
}

/* ---- Allocating ----------------------------------------------------------------------------- */

/* The control page is of another arena: behind a loss, one that got the same number. */
static bool is_lost_to_another(struct dmi_heap *heap, const struct dmi_heap_out *out) {
  return out->result == DMI_HEAP_GONE && heap->env.losses(heap->env.arg);
}

int32_t dmi_heap_take(struct dmi_heap *heap, uint64_t size, uint64_t page_size, uint64_t *addr) {
  struct dmi_heap_out out;
  struct dmi_arena arena;
  uint32_t number;
  struct dmi_bin_key key = {0, page_size};
  uint8_t cls;
  int32_t error;
  if (!dmi_heap_class(size, page_size, &cls)) return DMI_E_OWN_MAPPING;
  error = dmi_heap_size_number(heap, page_size, &number);
  if (error != DMI_OK) return error;
  if (!number) return DMI_E_OWN_MAPPING;
  key.first = dmi_heap_bin(number, cls);
  for (;;) {
    dmi_heap_current_get(heap, key, &arena);
    if (!arena.base) {
      error = arena_find(heap, key.first, page_size);
      if (error != DMI_OK) return error;
      continue;
    }
    error = control(heap, &arena, DMI_HEAP_TAKE, 0, true, &out);
    if (error == DMI_ELOST || (error == DMI_OK && is_lost_to_another(heap, &out))) {
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
      dmi_heap_current_drop(heap, &arena);
    }
  }
}

/* ---- Freeing -------------------------------------------------------------------------------- */

/* Finds the arena and the slot of an object. The number is the mapping's tag in the directory,
 * which any member may have made, so it is checked. */
static bool locate(uint64_t number, uint64_t page_size, uint64_t base, uint64_t offset,
                   struct dmi_arena *arena, uint32_t *slot) {
  if (!dmi_heap_number_good(number, page_size)) return false;
  *arena = (struct dmi_arena){number, base, dmi_heap_shape(number, page_size)};
  return dmi_heap_slot(&arena->shape, offset, slot);
}

int32_t dmi_heap_give(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                      uint64_t offset) {
  struct dmi_heap_out out;
  struct dmi_arena arena;
  uint32_t slot;
  bool mine;
  int32_t error;
  if (!locate(number, page_size, base, offset, &arena, &slot)) return DMI_EADDR;
  mine = dmi_heap_current_is(heap, &arena);
  error = control(heap, &arena, DMI_HEAP_GIVE, slot, mine, &out);
  if (error == DMI_ELOST) return DMI_OK; /* the slot is lost with the control page */
  if (error != DMI_OK) return error;
  if (is_lost_to_another(heap, &out)) return DMI_OK;
  if (out.result != DMI_HEAP_OK) return DMI_EADDR;
  if ((out.flags & DMI_HEAP_REOPENED) && !DMI_HEAP_BROKEN(DMI_HEAP_BREAK_SPARE)) {
    (void)entry(heap, number, DMI_HEAP_SPARE, base, out.a, NULL);
  }
  if ((out.flags & DMI_HEAP_EMPTY) && !dmi_heap_current_is(heap, &arena)) retire(heap, &arena);
  return DMI_OK;
}

int32_t dmi_heap_has(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                     uint64_t offset) {
  struct dmi_heap_out out;
  struct dmi_arena arena;
  uint32_t slot;
  int32_t error;
  if (!locate(number, page_size, base, offset, &arena, &slot)) return DMI_EADDR;
  error = control(heap, &arena, DMI_HEAP_HAS, slot, false, &out);
  if (error != DMI_OK && error != DMI_ELOST) return error;
  /* nobody can tell: it is believed */
  if (error == DMI_ELOST || is_lost_to_another(heap, &out)) return DMI_OK;
  return out.result == DMI_HEAP_OK ? DMI_OK : DMI_EADDR;
}

bool dmi_heap_uses(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base) {
  struct dmi_arena arena = {.number = number, .base = base, .shape = {.page_size = page_size}};
  return dmi_heap_current_is(heap, &arena);
}
