/*
 * arena.c - see arena.h.
 *
 * Sizes of pages are 64 bytes and quarters between powers of two from there, so at most a fifth of
 * a page is not used (what is behind the value in a page costs its owner memory, but is not read by
 * others).  Pages cost nothing before they are written, so an arena may have many; each further one
 * of a class has twice as many.
 *
 * Own lock, of rank LEAF; mappings are made without it.
 */
#include "remote/arena.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "node/calls.h"

#define SMALLEST 64
#define FIRST_BYTES ((uint64_t)1 << 20) /* of a first arena, if its pages are smaller */
#define MOST_BYTES ((uint64_t)1 << 28)
#define ALONE ((uint64_t)8 << 20) /* pages of this size have arenas of their own */

struct arena {
  struct arena *next;
  uint64_t base, page;    /* bytes of a page */
  uint32_t num, used;     /* pages; of these, the first `used` were given out at some time */
  uint32_t live, retired; /* pages with a value; that are not used again */
  uint32_t *free_at;      /* numbers of pages that are free again */
  uint32_t free_num, free_room;
};

struct dmi_remote_store {
  struct dmi_process *process;
  struct dmi_mutex lock;
  uint64_t *fresh; /* bases of arenas that nobody was told of */
  uint32_t fresh_num, fresh_room;
  struct arena *arenas; /* the one that was used last is first */
};

struct dmi_remote_store *dmi_remote_store_new(struct dmi_process *process) {
  struct dmi_remote_store *store = dmi_xalloc(1, sizeof(*store));
  store->process = process;
  dmi_mutex_init(&store->lock, DMI_RANK_LEAF);
  return store;
}

static void unmap(struct dmi_remote_store *store, struct arena *arena) {
  dmi_call_unmap_later(store->process, arena->base, 0); /* DMI_TAG_USER */
  free(arena->free_at);
  free(arena);
}

/* Without arenas. */
static void delete_store(struct dmi_remote_store *store) {
  dmi_mutex_destroy(&store->lock);
  free(store->fresh);
  free(store);
}

void dmi_remote_store_forget(struct dmi_remote_store *store) {
  while (store->arenas) {
    struct arena *arena = store->arenas;
    store->arenas = arena->next;
    free(arena->free_at);
    free(arena);
  }
  delete_store(store);
}

void dmi_remote_store_free(struct dmi_remote_store *store) {
  while (store->arenas) {
    struct arena *arena = store->arenas;
    store->arenas = arena->next;
    unmap(store, arena);
  }
  delete_store(store);
}

uint64_t dmi_remote_page_size(uint64_t size) {
  uint64_t power = SMALLEST;
  if (size <= SMALLEST) return SMALLEST;
  while (2 * power < size)
    power *= 2;
  return power + (size - power + power / 4 - 1) / (power / 4) * (power / 4);
}

static bool has_room(const struct arena *arena) {
  return arena->free_num > 0 || arena->used < arena->num;
}

/* Takes a page of this size, if there is one. */
static bool take(struct dmi_remote_store *store, uint64_t page, int64_t *addr) {
  struct arena **at = &store->arenas, *arena;
  uint32_t index;
  while (*at && ((*at)->page != page || !has_room(*at)))
    at = &(*at)->next;
  if (!*at) return false;
  arena = *at;
  *at = arena->next;
  arena->next = store->arenas;
  store->arenas = arena;
  index = arena->free_num ? arena->free_at[--arena->free_num] : arena->used++;
  arena->live++;
  *addr = (int64_t)(arena->base + index * page);
  return true;
}

/* How many pages the next arena of this size has. */
static uint64_t next_num(const struct dmi_remote_store *store, uint64_t page) {
  uint64_t bytes = FIRST_BYTES;
  if (page >= ALONE) return 1;
  for (const struct arena *arena = store->arenas; arena; arena = arena->next) {
    if (arena->page == page && bytes < MOST_BYTES) bytes *= 2;
  }
  return bytes / page > 4 ? bytes / page : 4;
}

int32_t dmi_remote_page_make(struct dmi_remote_store *store, uint64_t size, int64_t *addr) {
  uint64_t page = dmi_remote_page_size(size), num;
  struct arena *arena;
  int64_t base;
  bool found;
  *addr = 0;
  if (!size) return DMI_OK;
  dmi_mutex_lock(&store->lock);
  found = take(store, page, addr);
  num = next_num(store, page);
  dmi_mutex_unlock(&store->lock);
  if (found) return DMI_OK;
  if (!dmi_call_mmap(store->process, &base, (int64_t)page, (int64_t)num, NULL))
    return dmi_error_of(DMI_FALSE);
  arena = dmi_xalloc(1, sizeof(*arena));
  arena->base = (uint64_t)base;
  arena->page = page;
  arena->num = (uint32_t)num;
  dmi_mutex_lock(&store->lock);
  arena->next = store->arenas;
  store->arenas = arena;
  DMI_XALLOC_GROW(store->fresh, store->fresh_num, store->fresh_room);
  store->fresh[store->fresh_num++] = arena->base;
  (void)take(store, page, addr);
  dmi_mutex_unlock(&store->lock);
  return DMI_OK;
}

uint64_t dmi_remote_store_new_arena(struct dmi_remote_store *store) {
  uint64_t base;
  dmi_mutex_lock(&store->lock);
  base = store->fresh_num ? store->fresh[--store->fresh_num] : 0;
  dmi_mutex_unlock(&store->lock);
  return base;
}

/* With the lock: true if the arena has no value and another one, or none, will do. */
static bool is_spare(const struct dmi_remote_store *store, const struct arena *arena) {
  if (arena->live || arena->retired) return false;
  if (arena->page >= ALONE) return true;
  for (const struct arena *other = store->arenas; other; other = other->next) {
    if (other != arena && other->page == arena->page && has_room(other)) return true;
  }
  return false;
}

void dmi_remote_page_free(struct dmi_remote_store *store, int64_t addr, uint64_t size,
                          bool retire) {
  struct arena **at, *arena;
  const uint64_t where = (uint64_t)addr;
  if (!size) return;
  dmi_mutex_lock(&store->lock);
  at = &store->arenas;
  while (*at && (where < (*at)->base || where - (*at)->base >= (*at)->num * (*at)->page))
    at = &(*at)->next;
  arena = *at;
  if (arena) {
    arena->live--;
    if (retire) {
      arena->retired++;
    } else {
      DMI_XALLOC_GROW(arena->free_at, arena->free_num, arena->free_room);
      arena->free_at[arena->free_num++] = (uint32_t)((where - arena->base) / arena->page);
    }
    if (is_spare(store, arena)) {
      *at = arena->next;
    } else {
      arena = NULL;
    }
  }
  dmi_mutex_unlock(&store->lock);
  if (arena) unmap(store, arena);
}

void dmi_remote_store_trim(struct dmi_remote_store *store) {
  struct arena **at, *spare = NULL;
  dmi_mutex_lock(&store->lock);
  for (at = &store->arenas; *at;) {
    struct arena *arena = *at;
    if (arena->live) {
      at = &arena->next;
    } else {
      *at = arena->next;
      arena->next = spare;
      spare = arena;
    }
  }
  dmi_mutex_unlock(&store->lock);
  while (spare) {
    struct arena *arena = spare;
    spare = arena->next;
    unmap(store, arena);
  }
}
