/*
 * hold.c - see hold.h.
 *
 * A hold is a reference to the frame of a page.  Nobody changes a frame to which there are others
 * (dmi_page_own_frame makes a copy first), so the bytes stay as they are.  The account counts them
 * until they are freed, which may be after the end of the process: a hold has a reference to it,
 * too.
 *
 * Must not keep the page: it may move, be written or unmapped meanwhile, as without a hold.
 */
#include "access/hold.h"

#include "access/access_int.h"
#include "base/error.h"
#include "base/pool.h"

#define MARK INT64_C(0x646c6f685f696d64) /* a hold that was not released */

/* The words of a DMI_local_hold_t. */
enum { AT_MARK, AT_FRAME, AT_POOL };

/* Where the page of this range begins.  Not DMI_OK: there is none, or the range leaves it. */
static int32_t find(struct dmi_access *access, int64_t addr, int64_t size, int64_t *base) {
  uint64_t off;
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(access, addr, size, &error);
  if (!mapping) return error;
  (void)dmi_mapping_index(mapping, (uint64_t)addr, &off);
  *base = addr - (int64_t)off;
  if ((uint64_t)size > mapping->map.page_size - off)
    error = dmi_because(DMI_ERANGE, "the range is not in one page");
  dmi_mapping_unref(&access->core, mapping);
  return error;
}

/* A frame of its own with a copy of these bytes: the page has none, as nobody has written it, or it
 * does not stay here. */
static struct dmi_frame *copied(struct dmi_access *access, int64_t addr, int64_t size,
                                int32_t *error) {
  struct dmi_frame *frame = dmi_frame_new((uint64_t)size);
  if (!frame) {
    *error = DMI_ENOMEM;
    return NULL;
  }
  *error =
      dmi_error_of(dmi_access_read(access, addr, size, frame->bytes, DMI_INVALIDATE_READ, NULL));
  if (*error == DMI_OK) return frame;
  dmi_frame_unref(frame);
  return NULL;
}

/* The frame of the page at `base`, which is fetched if it is not here.  NULL: it does not stay, or
 * *error. */
static struct dmi_frame *lent(struct dmi_access *access, int64_t base, int32_t *error) {
  struct dmi_frame *frame = dmi_access_lend(access, base);
  unsigned char byte;
  if (frame) return frame;
  *error = dmi_error_of(dmi_access_read(access, base, 1, &byte, DMI_INVALIDATE_READ, NULL));
  return *error == DMI_OK ? dmi_access_lend(access, base) : NULL;
}

int32_t dmi_hold_begin(struct dmi_access *access, int64_t addr, int64_t size, const void **ptr_ptr,
                       DMI_local_hold_t *hold) {
  struct dmi_frame *frame;
  int64_t base = 0, off;
  int32_t error = DMI_OK;
  if (!ptr_ptr || !hold) return dmi_fail(dmi_because(DMI_EINVAL, "a pointer is NULL"));
  *hold = (DMI_local_hold_t){{0}};
  if (size < 1) return dmi_fail(dmi_because_of(DMI_EINVAL, "the size is below 1", size));
  error = find(access, addr, size, &base);
  if (error != DMI_OK) return dmi_fail(error);
  off = addr - base;
  frame = lent(access, base, &error);
  if (!frame && error == DMI_OK) {
    off = 0;
    frame = copied(access, addr, size, &error);
  }
  if (!frame) return dmi_fail(error);
  if (frame->pool) dmi_pool_ref(frame->pool);
  hold->dmi_private[AT_MARK] = MARK;
  hold->dmi_private[AT_FRAME] = (int64_t)(intptr_t)frame;
  hold->dmi_private[AT_POOL] = (int64_t)(intptr_t)frame->pool;
  *ptr_ptr = frame->bytes + off;
  return DMI_TRUE;
}

int32_t dmi_hold_end(DMI_local_hold_t *hold) {
  struct dmi_pool *pool;
  if (!hold) return dmi_fail(dmi_because(DMI_EINVAL, "the pointer is NULL"));
  if (hold->dmi_private[AT_MARK] != MARK)
    return dmi_fail(dmi_because(DMI_EINVAL, "nothing is held by it (DMI_hold)"));
  pool = (struct dmi_pool *)(intptr_t)hold->dmi_private[AT_POOL];
  dmi_frame_unref((struct dmi_frame *)(intptr_t)hold->dmi_private[AT_FRAME]);
  if (pool) dmi_pool_unref(pool);
  *hold = (DMI_local_hold_t){{0}};
  return DMI_TRUE;
}
