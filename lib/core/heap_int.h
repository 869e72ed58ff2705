/*
 * heap_int.h - what heap.c and heap_known.c share; no other file includes it.
 */
#ifndef DMI_CORE_HEAP_INT_H
#define DMI_CORE_HEAP_INT_H

#include "core/heap.h"

struct dmi_arena {
  uint64_t number;
  uint64_t base; /* 0: none */
  struct dmi_heap_shape shape;
};

/* A bin.  Behind a loss two page sizes may have the same number. */
struct dmi_bin_key {
  uint64_t first; /* dmi_heap_bin */
  uint64_t page_size;
};

struct dmi_heap {
  struct dmi_heap_env env;
  _Atomic uint32_t lock; /* guards the two tables of this process; never held during a step */
  struct dmi_known_size *sizes;
  struct dmi_bin *bins;
};

/* ---- heap.c ---- */
/* Runs a step that may be run twice, on the first `len` bytes of a page.  If the page is LOST it
 * begins anew, with zeros. */
int32_t dmi_heap_renew(struct dmi_heap *heap, uint64_t page, uint64_t len,
                       const struct dmi_heap_in *in, void *answer, uint64_t size, bool here);

/* ---- heap_known.c: what one process knows ---- */
/* Finds the number of a page size. *number 0: the table is full. */
int32_t dmi_heap_size_number(struct dmi_heap *heap, uint64_t page_size, uint32_t *number);
struct dmi_bin_key dmi_heap_key_of(const struct dmi_arena *arena);
/* The current arena of a bin; arena->base 0: there is none. */
void dmi_heap_current_get(struct dmi_heap *heap, struct dmi_bin_key key, struct dmi_arena *arena);
bool dmi_heap_current_is(struct dmi_heap *heap, const struct dmi_arena *arena);
void dmi_heap_current_drop(struct dmi_heap *heap, const struct dmi_arena *arena);
/* Makes it the current arena if there is none. *set: it is the current one. */
int32_t dmi_heap_current_set(struct dmi_heap *heap, const struct dmi_arena *arena, bool *set);

#endif
