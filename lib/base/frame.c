/*
 * frame.c - reference-counted byte buffers.
 *
 * Independent of pages and messages. A zeroed large frame (large.h) uses no memory until it is
 * touched, unless its memory was in use before.
 */
#include "base/frame.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "base/pool.h"
#include "base/xalloc.h"

static _Atomic uint64_t total; /* bytes of all frames */

_Static_assert(sizeof(struct dmi_frame) == DMI_LARGE_OWN, "a frame's head fits before its bytes");

/* False under the address sanitizer, which checks only memory of malloc. */
static bool is_large(uint64_t size) {
#ifdef __SANITIZE_ADDRESS__
  (void)size;
  return false;
#else
  return size >= DMI_LARGE_MIN;
#endif
}

static struct dmi_frame *make(uint64_t size, bool zero) {
  bool large = is_large(size);
  struct dmi_frame *frame;
  if (size > (uint64_t)PTRDIFF_MAX - sizeof(struct dmi_frame)) return NULL;
  if (large) {
    unsigned char *bytes = dmi_large_new(size, zero);
    frame = bytes ? (struct dmi_frame *)(void *)(bytes - sizeof(struct dmi_frame)) : NULL;
  } else {
    size_t all = sizeof(struct dmi_frame) + size;
    frame = zero ? dmi_zalloc(1, all) : malloc(all);
  }
  if (!frame) return NULL;
  atomic_init(&frame->refs, 1);
  frame->large = large;
  frame->size = size;
  frame->pool = NULL;
  atomic_fetch_add_explicit(&total, size, memory_order_relaxed);
  return frame;
}

struct dmi_frame *dmi_frame_new(uint64_t size) {
  return make(size, false);
}

struct dmi_frame *dmi_frame_new_zero(uint64_t size) {
  return make(size, true);
}

struct dmi_frame *dmi_frame_ref(struct dmi_frame *frame) {
  atomic_fetch_add_explicit(&frame->refs, 1, memory_order_relaxed);
  return frame;
}

bool dmi_frame_is_private(struct dmi_frame *frame) {
  return atomic_load_explicit(&frame->refs, memory_order_acquire) == 1;
}

void dmi_frame_unref(struct dmi_frame *frame) {
  struct dmi_pool *pool;
  uint64_t size;
  if (!frame) return;
  /* Of the only reference nobody can make another one meanwhile. */
  if (!dmi_frame_is_private(frame) &&
      atomic_fetch_sub_explicit(&frame->refs, 1, memory_order_acq_rel) != 1)
    return;
  pool = frame->pool;
  size = frame->size;
  atomic_fetch_sub_explicit(&total, size, memory_order_relaxed);
  if (frame->large)
    dmi_large_free(frame->bytes);
  else
    free(frame);
  if (pool) dmi_pool_release(pool, size); /* only now: another thread may use the bytes at once */
}

struct dmi_slice dmi_slice_of(struct dmi_frame *frame, uint64_t off, uint64_t len) {
  return (struct dmi_slice){dmi_frame_ref(frame), frame->bytes + off, len};
}

struct dmi_slice dmi_slice_copy(const void *bytes, uint64_t len) {
  struct dmi_frame *frame = dmi_frame_new(len);
  if (!frame) return (struct dmi_slice){NULL, NULL, len};
  if (len) memcpy(frame->bytes, bytes, len);
  return (struct dmi_slice){frame, frame->bytes, len};
}

struct dmi_slice dmi_slice_xcopy(const void *bytes, uint64_t len) {
  struct dmi_slice slice = dmi_slice_copy(bytes, len);
  if (!slice.frame) dmi_xalloc_fail(len);
  return slice;
}

void dmi_slice_drop(struct dmi_slice *slice) {
  dmi_frame_unref(slice->frame);
  *slice = (struct dmi_slice){NULL, NULL, 0};
}

uint64_t dmi_frame_total(void) {
  return atomic_load_explicit(&total, memory_order_relaxed);
}
