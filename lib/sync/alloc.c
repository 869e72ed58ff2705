/*
 * alloc.c - DMI_malloc, DMI_realloc, DMI_free: runs the allocator of lib/core/heap.c on the pages
 * of the system mapping, and gives large objects a mapping of their own.
 */
#include "sync/alloc.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/heap.h"

#define COPY_MOST (INT64_C(1) << 20) /* bytes copied at a time */

struct dmi_alloc {
  struct dmi_access *access;
  struct dmi_heap *_Atomic heap; /* made at its first use */
};

struct dmi_alloc *dmi_alloc_new(struct dmi_access *access) {
  struct dmi_alloc *alloc = calloc(1, sizeof(*alloc));
  if (alloc) alloc->access = access;
  return alloc;
}

void dmi_alloc_free(struct dmi_alloc *alloc) {
  if (!alloc) return;
  dmi_heap_free(atomic_load(&alloc->heap));
  free(alloc);
}

/* ---- What the pure allocator calls (struct dmi_heap_env) ------------------------------------ */

static int32_t map(struct dmi_access *access, uint64_t page_size, uint64_t page_num, uint64_t tag,
                   int64_t *addr) {
  return access->above->map(access->above_arg, page_size, page_num, tag, addr);
}

static int32_t unmap(struct dmi_access *access, uint64_t base, uint64_t tag) {
  return access->above->unmap(access->above_arg, base, tag);
}

static int32_t env_step(void *arg, uint64_t page, uint64_t off, uint64_t len,
                        const struct dmi_heap_in *in, void *answer, uint64_t answer_size,
                        bool here) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_HEAP,
                              .addr = (int64_t)(DMI_SYSTEM_BASE + page * DMI_SYSTEM_PAGE + off),
                              .size = (int64_t)len,
                              .out1 = in,
                              .in = answer,
                              .sizes = {sizeof(*in), 0, answer_size},
                              .mode = here ? DMI_EXCLUSIVE_ATOMIC : DMI_PUT_ATOMIC};
  return dmi_error_of(dmi_access_rmw(arg, &call, NULL));
}

static int32_t env_map(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag,
                       uint64_t *base) {
  int64_t addr = 0;
  int32_t error = map(arg, page_size, page_num, tag, &addr);
  *base = (uint64_t)addr;
  return error;
}

static void env_unmap(void *arg, uint64_t base, uint64_t tag) {
  const struct dmi_access *access = arg;
  access->above->unmap_later(access->above_arg, base, tag);
}

static bool env_is_member(void *arg, uint32_t uid) {
  const struct dmi_access *access = arg;
  /* Also one that has left: its DMI_main may still run, and use an arena. */
  return access->core.is_there(access->core.arg, uid);
}

static bool env_losses(void *arg) {
  return atomic_load(&((struct dmi_access *)arg)->core.losses) != 0;
}

static int32_t env_revive(void *arg, uint64_t page) {
  const int64_t addr = (int64_t)(DMI_SYSTEM_BASE + page * DMI_SYSTEM_PAGE);
  return dmi_error_of(dmi_access_revive(arg, addr, DMI_SYSTEM_PAGE, true, NULL));
}

static bool env_is_mapping(void *arg, uint64_t base, uint64_t tag, uint64_t page_size) {
  struct dmi_access *access = arg;
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(access, (int64_t)base, 1, &error);
  bool is;
  if (!mapping) return false;
  is = mapping->map.base == base && mapping->map.tag == tag && mapping->map.page_size == page_size;
  dmi_mapping_unref(&access->core, mapping);
  return is;
}

/* Makes the allocator at its first use.  NULL: *error says why. */
static struct dmi_heap *heap_of(struct dmi_alloc *alloc, int32_t *error) {
  struct dmi_heap *heap, *none = NULL;
  struct dmi_heap_env env = {.arg = alloc->access,
                             .step = env_step,
                             .map = env_map,
                             .unmap = env_unmap,
                             .is_member = env_is_member,
                             .losses = env_losses,
                             .revive = env_revive,
                             .is_mapping = env_is_mapping};
  *error = dmi_access_usable(alloc ? alloc->access : NULL);
  if (*error != DMI_OK) return NULL;
  heap = atomic_load(&alloc->heap);
  if (heap) return heap;
  env.self = alloc->access->core.self;
  heap = dmi_heap_new(&env);
  *error = DMI_ENOMEM;
  if (heap && !atomic_compare_exchange_strong(&alloc->heap, &none, heap)) {
    dmi_heap_free(heap);
    heap = none;
  }
  return heap;
}

/* ---- Objects -------------------------------------------------------------------------------- */

/* The mapping in which an object lies. */
struct place {
  uint64_t base, page_size, page_num, tag;
};

/* Finds the mapping of an object.  DMI_EADDR: no object can be at this address. */
static int32_t place_of(struct dmi_alloc *alloc, int64_t addr, struct place *place) {
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(alloc->access, addr, 1, &error);
  if (!mapping) return error;
  *place = (struct place){mapping->map.base, mapping->map.page_size, mapping->map.page_num,
                          mapping->map.tag};
  dmi_mapping_unref(&alloc->access->core, mapping);
  if (place->tag == DMI_TAG_USER) return DMI_EADDR;
  if (place->tag == DMI_TAG_OBJECT && (uint64_t)addr != place->base) return DMI_EADDR;
  return DMI_OK;
}

static uint64_t pages_for(uint64_t size, uint64_t page_size) {
  return size / page_size + (size % page_size != 0);
}

static int32_t object_new(struct dmi_alloc *alloc, struct dmi_heap *heap, uint64_t size,
                          uint64_t page_size, int64_t *addr) {
  uint64_t at = 0;
  int32_t error = dmi_heap_take(heap, size, page_size, &at);
  if (error == DMI_E_OWN_MAPPING) {
    return map(alloc->access, page_size, pages_for(size, page_size), DMI_TAG_OBJECT, addr);
  }
  if (error == DMI_OK) *addr = (int64_t)at;
  return error;
}

static int32_t object_free(struct dmi_alloc *alloc, struct dmi_heap *heap, int64_t addr) {
  struct place place;
  int32_t error = place_of(alloc, addr, &place);
  if (error != DMI_OK) return error;
  if (place.tag == DMI_TAG_OBJECT) return unmap(alloc->access, place.base, place.tag);
  return dmi_heap_give(heap, place.tag, place.page_size, place.base, (uint64_t)addr - place.base);
}

static int32_t bad_size(int64_t size, int64_t page_size) {
  return dmi_fail(size <= 0
                      ? dmi_because_of(DMI_ESIZE, "the size is not positive", size)
                      : dmi_because_of(DMI_ESIZE, "the page size is not positive", page_size));
}

int32_t dmi_alloc_malloc(struct dmi_alloc *alloc, int64_t *addr, int64_t size, int64_t page_size) {
  int32_t error;
  struct dmi_heap *heap;
  if (!addr) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (size <= 0 || page_size <= 0) return bad_size(size, page_size);
  heap = heap_of(alloc, &error);
  if (!heap) return dmi_fail(error);
  error = object_new(alloc, heap, (uint64_t)size, (uint64_t)page_size, addr);
  return dmi_result(error);
}

int32_t dmi_alloc_release(struct dmi_alloc *alloc, int64_t addr) {
  int32_t error;
  struct dmi_heap *heap = heap_of(alloc, &error);
  if (!heap) return dmi_fail(error);
  error = object_free(alloc, heap, addr);
  return dmi_result(error);
}

/* ---- Realloc -------------------------------------------------------------------------------- */

static int32_t copy(struct dmi_alloc *alloc, int64_t to, int64_t from, int64_t size) {
  int64_t part = size < COPY_MOST ? size : COPY_MOST;
  unsigned char *buf = malloc((size_t)part);
  int32_t good = buf ? DMI_TRUE : dmi_fail(DMI_ENOMEM);
  for (int64_t at = 0; at < size && good; at += part) {
    if (part > size - at) part = size - at;
    good = dmi_access_read(alloc->access, from + at, part, buf, DMI_GET_READ, NULL) &&
           dmi_access_write(alloc->access, to + at, part, buf, DMI_EXCLUSIVE_WRITE, NULL);
  }
  free(buf);
  return dmi_error_of(good);
}

/* *capacity: the bytes that the object may use.  *same: an object of `size` bytes would get the
 * same amount, so it can stay where it is.  DMI_EADDR: there is no object. */
static int32_t capacity_of(struct dmi_heap *heap, const struct place *place, int64_t addr,
                           uint64_t size, uint64_t page_size, uint64_t *capacity, bool *same) {
  uint8_t cls;
  bool small = dmi_heap_class(size, page_size, &cls);
  int32_t error;
  if (place->tag == DMI_TAG_OBJECT) {
    *capacity = place->page_size * place->page_num;
    *same =
        !small && page_size == place->page_size && pages_for(size, page_size) == place->page_num;
    return DMI_OK;
  }
  error =
      dmi_heap_has(heap, place->tag, place->page_size, place->base, (uint64_t)addr - place->base);
  if (error != DMI_OK) return error;
  *capacity = dmi_heap_shape(place->tag, place->page_size).stride;
  *same = small && page_size == place->page_size && cls == dmi_heap_class_of(place->tag);
  return DMI_OK;
}

/* Makes a new object, copies the bytes of the old one to it, and frees the old one. */
static int32_t object_move(struct dmi_alloc *alloc, struct dmi_heap *heap, int64_t old_addr,
                           uint64_t capacity, uint64_t size, uint64_t page_size, int64_t *addr) {
  int64_t fresh;
  int32_t error = object_new(alloc, heap, size, page_size, &fresh);
  if (error != DMI_OK) return error;
  error = copy(alloc, fresh, old_addr, (int64_t)(size < capacity ? size : capacity));
  if (error == DMI_OK) error = object_free(alloc, heap, old_addr);
  if (error == DMI_OK) {
    *addr = fresh;
  } else {
    (void)object_free(alloc, heap, fresh);
  }
  return error;
}

int32_t dmi_alloc_realloc(struct dmi_alloc *alloc, int64_t old_addr, int64_t *addr, int64_t size,
                          int64_t page_size) {
  struct dmi_heap *heap;
  struct place place;
  uint64_t capacity = 0;
  int32_t error;
  bool same = false;
  if (old_addr == DMI_NULL) return dmi_alloc_malloc(alloc, addr, size, page_size);
  if (!addr) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (size <= 0 || page_size <= 0) return bad_size(size, page_size);
  heap = heap_of(alloc, &error);
  if (!heap) return dmi_fail(error);
  error = place_of(alloc, old_addr, &place);
  if (error == DMI_OK) {
    error =
        capacity_of(heap, &place, old_addr, (uint64_t)size, (uint64_t)page_size, &capacity, &same);
  }
  if (error == DMI_OK && same) {
    *addr = old_addr;
  } else if (error == DMI_OK) {
    error = object_move(alloc, heap, old_addr, capacity, (uint64_t)size, (uint64_t)page_size, addr);
  }
  return dmi_result(error);
}
