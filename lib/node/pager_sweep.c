/*
 * pager_sweep.c - makes pages leave: shows the page records to core/pressure.h and carries out what
 * it decides, as steps of the protocol (R12); writes pages to the file, and reads them back.
 *
 * Runs in the pager thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "mem/spill.h"
#include "node/pager_int.h"

/* ---- The file ------------------------------------------------------------------------------- */

static bool is_spilled(struct dmi_page *page) {
  bool yes;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  yes = (page->flags & DMI_PAGE_SPILLED) && !(page->flags & DMI_PAGE_DEAD);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return yes;
}

static bool read_back(struct dmi_pager *pager, struct dmi_page *page, struct dmi_frame *frame) {
  struct dmi_out out;
  bool back;
  dmi_access_step_begin(page, &out);
  back = dmi_pressure_read_back(pager->pressure, page, frame, &out);
  dmi_access_step_end(&pager->process->access, page, &out);
  return back;
}

void dmi_pager_unspill(struct dmi_pager *pager, struct dmi_page *page) {
  uint64_t size = page->map->page_size;
  struct dmi_frame *frame = dmi_frame_new(size);
  if (!frame) abort();
  if (!dmi_spill_get(pager->file, page, frame->bytes, size) && is_spilled(page)) {
    /* these bytes exist nowhere else, so the program cannot go on */
    dmi_say(&pager->process->stream, DMI_LOG_ERROR, "memory",
            "cannot read the file for spilled pages (dmirun --spill %s): %s",
            pager->process->config.spill_dir, strerror(errno));
    pager->process->host.end(1);
  }
  if (read_back(pager, page, frame)) dmi_spill_drop(pager->file, page);
}

static enum dmi_pressure_spill spill(void *arg, void *map, uint64_t index) {
  struct dmi_pager *pager = arg;
  struct dmi_page *page = dmi_mapping_find(map, index);
  uint64_t bytes = page->map->page_size;
  struct dmi_frame *frame;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  frame = dmi_page_spill(&pager->process->access.core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!frame) return DMI_PRESSURE_NOT_IDLE;
  if (!dmi_spill_put(pager->file, page, frame->bytes, bytes)) {
    if (!pager->spill_said)
      dmi_say(&pager->process->stream, DMI_LOG_ERROR, "memory",
              "cannot write to the file for spilled pages (dmirun --spill %s): %s",
              pager->process->config.spill_dir, dmi_file_why(errno));
    pager->spill_said = true;
    dmi_pool_reserve(pager->pool, bytes, true);
    (void)read_back(pager, page, frame);
    return DMI_PRESSURE_FULL;
  }
  dmi_frame_unref(frame);
  /* The page may have been overwritten while it was being written to the file. */
  if (!is_spilled(page)) dmi_spill_drop(pager->file, page);
  return DMI_PRESSURE_WRITTEN;
}

/* ---- Page records --------------------------------------------------------------------------- */

static bool look(void *arg, void *map, uint64_t from, struct dmi_look *look,
                 enum dmi_pressure_busy *busy) {
  struct dmi_page *page = dmi_mapping_next(map, from);
  (void)arg;
  if (!page) return false;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  *busy = dmi_pressure_look_at(page, look);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (look->droppable || look->offerable || *busy != DMI_PRESSURE_IDLE)
    look->saved = dmi_mapping_saved(map, look->index);
  return true;
}

static void spare(void *arg, void *map, uint64_t index) {
  struct dmi_page *page = dmi_mapping_find(map, index);
  (void)arg;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  page->flags &= (uint16_t)~DMI_PAGE_USED;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

static bool drop(void *arg, void *map, uint64_t index) {
  struct dmi_pager *pager = arg;
  struct dmi_page *page = dmi_mapping_find(map, index);
  bool dropped;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  dropped = dmi_page_drop(&pager->process->access.core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (dropped) atomic_fetch_add_explicit(&pager->dropped, 1, memory_order_relaxed);
  return dropped;
}

enum dmi_pressure_offer dmi_pager_offer(struct dmi_pager *pager, struct dmi_page *page) {
  enum dmi_pressure_offer offer;
  struct dmi_out out;
  dmi_access_step_begin(page, &out);
  offer = dmi_pressure_offer(pager->pressure, page, &out);
  if (offer == DMI_PRESSURE_OFFERED)
    (void)dmi_mapping_ref((struct dmi_mapping *)page->map); /* the caller has one */
  dmi_access_step_end(&pager->process->access, page, &out);
  return offer;
}

static enum dmi_pressure_offer offer(void *arg, void *map, uint64_t index) {
  return dmi_pager_offer(arg, dmi_mapping_find(map, index));
}

/* ---- A sweep -------------------------------------------------------------------------------- */

static void add_map(struct dmi_mapping *mapping, void *arg) {
  struct dmi_pager *pager = arg;
  if (!dmi_mapping_ref(mapping)) return;
  DMI_XALLOC_GROW(pager->map, pager->maps, pager->maps_capacity);
  pager->map[pager->maps++] =
      (struct dmi_replace_map){mapping, mapping->map.page_size, &mapping->hand};
}

uint64_t dmi_pager_sweep(struct dmi_pager *pager) {
  const struct dmi_pressure_env env = {pager, look, spare, drop, offer, spill};
  uint64_t made;
  pager->maps = 0;
  dmi_epoch_enter();
  dmi_space_each(&pager->process->access.space, add_map, pager);
  dmi_epoch_leave();
  made = dmi_pressure_sweep(pager->pressure, &env, pager->map, pager->maps);
  for (uint64_t i = 0; i < pager->maps; i++)
    dmi_mapping_unref(&pager->process->access.core, pager->map[i].map);
  return made;
}
