/*
 * access_lend.c - all bytes of a page without copying them: its frame is lent, taken or given.
 *
 * Only what a hit could do; otherwise nothing happens, and the caller reads or writes.
 */
#include "access/access_int.h"
#include "base/lock.h"
#include "base/pool.h"

/* A page that begins at this address, locked, and its mapping. */
struct place {
  struct dmi_mapping *mapping; /* with a reference */
  struct dmi_page *page;
};

/* False: there is none.  With `make`, one that has no record gets one. */
static bool begin(struct dmi_access *access, int64_t addr, bool make, struct place *at) {
  uint64_t index, off;
  int32_t error;
  at->mapping = dmi_access_mapping(access, addr, 1, &error);
  if (!at->mapping) return false;
  index = dmi_mapping_index(at->mapping, (uint64_t)addr, &off);
  if (off == 0) {
    dmi_epoch_enter();
    at->page = dmi_mapping_find(at->mapping, index);
    if (at->page) dmi_lock(&at->page->lock, DMI_RANK_PAGE);
    dmi_epoch_leave();
    if (at->page) return true;
    if (make && (at->page = dmi_mapping_get(&access->core, at->mapping, index, &error))) {
      dmi_lock(&at->page->lock, DMI_RANK_PAGE);
      return true;
    }
  }
  dmi_mapping_unref(&access->core, at->mapping);
  return false;
}

static void end(struct dmi_access *access, const struct place *at) {
  dmi_unlock(&at->page->lock, DMI_RANK_PAGE);
  dmi_mapping_unref(&access->core, at->mapping);
}

struct dmi_frame *dmi_access_lend(struct dmi_access *access, int64_t addr) {
  struct dmi_frame *frame = NULL;
  struct place at;
  if (!begin(access, addr, false, &at)) return NULL;
  if (dmi_access_readable(&access->core, at.page) && at.page->frame)
    frame = dmi_frame_ref(at.page->frame);
  end(access, &at);
  return frame;
}

struct dmi_frame *dmi_access_take(struct dmi_access *access, int64_t addr) {
  struct dmi_frame *frame = NULL;
  struct place at;
  if (!begin(access, addr, false, &at)) return NULL;
  if (dmi_access_writable(&access->core, at.page))
    frame = dmi_page_take_frame(&access->core, at.page);
  end(access, &at);
  if (frame && frame->pool) { /* it is not memory of a page any more */
    dmi_pool_release(frame->pool, frame->size);
    frame->pool = NULL;
  }
  return frame;
}

bool dmi_access_give(struct dmi_access *access, int64_t addr, struct dmi_frame *frame) {
  struct place at;
  bool good;
  if (!begin(access, addr, true, &at)) return false;
  good = dmi_access_writable(&access->core, at.page) &&
         dmi_page_give_frame(&access->core, at.page, frame);
  end(access, &at);
  return good;
}
