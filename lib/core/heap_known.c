/*
 * heap_known.c - what one process knows of the allocator: the numbers of page sizes, and its
 * current arenas (docs/allocator.md).
 */
#include <stdlib.h>

#include <uthash.h>

#include "base/lock.h"
#include "core/heap_int.h"
#include "dmi_api.h"

#define PER_TABLE (DMI_SYSTEM_PAGE / 8) /* page sizes in a page of the table */

/* A page size and its number. */
struct dmi_known_size {
  UT_hash_handle hh;
  uint64_t page_size; /* key */
  uint32_t number;
};

struct dmi_bin {
  UT_hash_handle hh;
  struct dmi_bin_key key;
  struct dmi_arena current;
};

struct dmi_heap *dmi_heap_new(const struct dmi_heap_env *env) {
  struct dmi_heap *heap = calloc(1, sizeof(*heap));
  if (heap) heap->env = *env;
  return heap;
}

void dmi_heap_free(struct dmi_heap *heap) {
  struct dmi_known_size *size, *next_size;
  struct dmi_bin *bin, *next_bin;
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

/* ---- Page sizes ----------------------------------------------------------------------------- */

int32_t dmi_heap_size_number(struct dmi_heap *heap, uint64_t page_size, uint32_t *number) {
  struct dmi_heap_in in = {.op = DMI_HEAP_SIZE, .base = page_size};
  struct dmi_heap_out out = {.result = DMI_HEAP_FULL};
  struct dmi_known_size *size, *fresh;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, heap->sizes, &page_size, sizeof(page_size), size);
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
  if (size) {
    *number = size->number;
    return DMI_OK;
  }
  *number = 0;
  for (uint32_t at = 0; at + PER_TABLE <= DMI_HEAP_SIZES + 1u; at += PER_TABLE) {
    int32_t error =
        dmi_heap_renew(heap, at / PER_TABLE, DMI_SYSTEM_PAGE, &in, &out, sizeof(out), false);
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

/* ---- Current arenas -------------------------------------------------------------------------- */

struct dmi_bin_key dmi_heap_key_of(const struct dmi_arena *arena) {
  return (struct dmi_bin_key){arena->number & ~UINT64_C(0xffffff), arena->shape.page_size};
}

/* With the lock held. */
static struct dmi_bin *bin_find(struct dmi_heap *heap, struct dmi_bin_key key) {
  struct dmi_bin *bin;
  HASH_FIND(hh, heap->bins, &key, sizeof(key), bin);
  return bin;
}

void dmi_heap_current_get(struct dmi_heap *heap, struct dmi_bin_key key, struct dmi_arena *arena) {
  struct dmi_bin *bin;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, key);
  if (bin) {
    *arena = bin->current;
  } else {
    arena->base = 0;
  }
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
}

bool dmi_heap_current_is(struct dmi_heap *heap, const struct dmi_arena *arena) {
  struct dmi_arena current;
  dmi_heap_current_get(heap, dmi_heap_key_of(arena), &current);
  return current.base == arena->base;
}

void dmi_heap_current_drop(struct dmi_heap *heap, const struct dmi_arena *arena) {
  struct dmi_bin *bin;
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, dmi_heap_key_of(arena));
  if (bin && bin->current.base == arena->base) bin->current.base = 0;
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
}

int32_t dmi_heap_current_set(struct dmi_heap *heap, const struct dmi_arena *arena, bool *set) {
  struct dmi_bin *bin, *fresh = calloc(1, sizeof(*fresh));
  if (!fresh) return DMI_ENOMEM;
  fresh->key = dmi_heap_key_of(arena);
  dmi_lock(&heap->lock, DMI_RANK_LEAF);
  bin = bin_find(heap, fresh->key);
  if (!bin) {
    bin = fresh;
    fresh = NULL;
    HASH_ADD(hh, heap->bins, key, sizeof(bin->key), bin);
  }
  if (!bin->current.base) bin->current = *arena;
  *set = bin->current.base == arena->base;
  dmi_unlock(&heap->lock, DMI_RANK_LEAF);
  free(fresh);
  return DMI_OK;
}
