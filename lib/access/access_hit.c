/*
 * access_hit.c - hits: reads and writes that are done here and now, in a page that this process
 * has.
 *
 * Find the page's record, lock it, copy, unlock; no message, no allocation, no system call, and no
 * shared state but the page.  What is no hit, for whatever reason, changes nothing here: the caller
 * then begins anew as a call that may wait (access_bytes.c).  So a hit prepares nothing that only
 * such a call needs; nor does it note in which call the thread is (docs/seeing.md).
 */
#include <string.h>

#include "access/access_int.h"
#include "base/epoch.h"
#include "base/lock.h"

/* Inline by all means: a call with five arguments costs a tenth of a hit. */
#define INLINE static inline __attribute__((always_inline))

INLINE bool read_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                     void *buf) {
  struct dmi_frame *frame;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  if (!dmi_access_readable(&access->core, page)) return false;
  frame = page->frame;
  if (frame && size <= DMI_COPY_LOCKED) {
    memcpy(buf, frame->bytes + off, size);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    return true;
  }
  if (frame) dmi_frame_ref(frame);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (frame) {
    memcpy(buf, frame->bytes + off, size);
    dmi_frame_unref(frame);
  } else {
    memset(buf, 0, size);
  }
  return true;
}

INLINE bool write_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                      const void *buf) {
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  if (!dmi_access_writable(&access->core, page)) return false;
  if (!dmi_page_write_now(&access->core, page, off, buf, size)) return false;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return true;
}

bool dmi_access_hit(const struct transfer *transfer, struct dmi_page *page, uint64_t off,
                    uint64_t size, unsigned char *buf) {
  return transfer->write ? write_hit(transfer->access, page, off, size, buf)
                         : read_hit(transfer->access, page, off, size, buf);
}

/* The page that has this range, and where in it the range begins.  Afterwards the thread is inside
 * an epoch.  NULL: it is not, as there can be no hit: the program is not active, the mapping or the
 * page is not known here, or the range is not in one page. */
INLINE struct dmi_page *find(struct dmi_access *access, int64_t addr, int64_t size, uint64_t *off) {
  struct dmi_mapping *mapping;
  struct dmi_page *page = NULL;
  if (dmi_access_usable(access) != DMI_OK || addr >= (int64_t)DMI_SYSTEM_BASE) return NULL;
  dmi_epoch_enter();
  mapping = dmi_space_find(&access->space, (uint64_t)addr);
  if (mapping) {
    dmi_pageno_t index = dmi_mapping_index(mapping, (uint64_t)addr, off);
    /* A size of 0, or below, is far too large. */
    if ((uint64_t)size - 1 < mapping->map.page_size - *off) page = dmi_mapping_find(mapping, index);
  }
  if (!page) dmi_epoch_leave();
  return page;
}

/* Behind a try: the page is locked if it was no hit. */
INLINE bool end(struct dmi_page *page, bool hit) {
  if (!hit) dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_epoch_leave();
  return hit;
}

bool dmi_access_read_now(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                         int8_t mode) {
  struct dmi_page *page;
  uint64_t off;
  if (!buf || mode < DMI_INVALIDATE_READ || mode > DMI_GET_READ) return false;
  page = find(access, addr, size, &off);
  return page && end(page, read_hit(access, page, off, (uint64_t)size, buf));
}

bool dmi_access_write_now(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                          int8_t mode) {
  struct dmi_page *page;
  uint64_t off;
  if (!buf || (mode != DMI_EXCLUSIVE_WRITE && mode != DMI_PUT_WRITE)) return false;
  page = find(access, addr, size, &off);
  return page && end(page, write_hit(access, page, off, (uint64_t)size, buf));
}
