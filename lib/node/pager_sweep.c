/*
 * pager_sweep.c - pages leave: what the policy (core/replace.h) is shown of them, and what it
 * decides carried out as steps of the protocol (R12).
 *
 * The pager thread's.  Takes a page's lock, then the pager's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "mem/spill.h"
#include "node/pager_int.h"

/* Bytes of offers without an answer: enough to keep the network busy, but an eighth of the pool at
 * most, and one page at least. */
#define ON_THE_WAY (UINT64_C(16) << 20)

/* A refusal costs its caller a message and an answer: in that time so many records are looked at.
 */
#define LOOKS_A_REFUSAL 256

/* ---- What the policy sees ------------------------------------------------------------------- */

/* With the page locked. */
static void look_at(struct dmi_page *page, struct dmi_look *look, bool *busy_now) {
  const struct dmi_page_busy *busy = page->busy;
  uint16_t flags = page->flags;
  *look = (struct dmi_look){.index = page->index, .used = (flags & DMI_PAGE_USED) != 0};
  if (!page->frame || (flags & (DMI_PAGE_DEAD | DMI_PAGE_OFFERED | DMI_PAGE_STALLED))) return;
  look->shared = busy && busy->holders;
  if (page->role == DMI_ROLE_NONE) {
    look->droppable =
        page->copy && !(flags & DMI_PAGE_HELD) && !(busy && (busy->fetch || busy->waiters.first));
  } else if (page->role == DMI_ROLE_OWNER) {
    if (busy && busy->parked.first) return; /* waited for: for as long as that may last */
    look->offerable = !(flags & DMI_PAGE_NODATA) && !(busy && (busy->current || busy->queue.first));
  }
  *busy_now = !look->droppable && !look->offerable;
}

static bool look(void *arg, void *map, uint64_t from, struct dmi_look *look) {
  struct dmi_mapping *mapping = map;
  struct dmi_page *page = dmi_mapping_next(mapping, from);
  struct dmi_pager *pager = arg;
  bool busy_now = false, copy;
  if (!page) return false;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  look_at(page, look, &busy_now);
  copy = page->role == DMI_ROLE_NONE;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (look->droppable || look->offerable || busy_now)
    look->saved = dmi_mapping_saved(mapping, look->index);
  if (busy_now) pager->busy_seen = true;
  if (busy_now && copy && !look->saved) pager->copy_seen = true;
  return true;
}

static void spare(void *arg, void *map, uint64_t index) {
  struct dmi_page *page = dmi_mapping_find(map, index);
  (void)arg;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  page->flags &= (uint16_t)~DMI_PAGE_USED;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

/* ---- What leaves ---------------------------------------------------------------------------- */

/* With the page locked: who may have a copy of it. */
static uint64_t holders_of(const struct dmi_page *page, uint32_t **uid) {
  uint64_t num = page->busy ? page->busy->holders : 0;
  *uid = num ? malloc(num * sizeof(**uid)) : NULL;
  if (!*uid) return 0;
  for (uint64_t i = 0; i < num; i++)
    (*uid)[i] = page->busy->holder[i].uid;
  return num;
}

/* Offers it to who is known to have room; the caller has a reference to its mapping.  False: nobody
 * is, or the page must stay for now. */
static bool offer(struct dmi_pager *pager, struct dmi_page *page, bool *nowhere) {
  struct dmi_process *process = pager->process;
  uint64_t bytes = page->map->page_size;
  struct dmi_out out;
  uint32_t to, *holder;
  uint64_t holders;
  bool good;
  dmi_access_step_begin(page, &out);
  holders = holders_of(page, &holder);
  dmi_mutex_lock(&pager->lock);
  to = dmi_room_pick(pager->rooms, holder, holders, bytes, pager->kind);
  dmi_mutex_unlock(&pager->lock);
  free(holder);
  *nowhere = to == 0;
  good = to && dmi_page_offer(&process->access.core, page, to, &out);
  if (good) {
    (void)dmi_mapping_ref((struct dmi_mapping *)page->map); /* the caller has one */
    dmi_held_add(&pager->offered, page, to);
    pager->offered_bytes += bytes;
  }
  dmi_access_step_end(&process->access, page, &out);
  return good;
}

bool dmi_pager_offer_stalled(struct dmi_pager *pager, struct dmi_page *page) {
  bool nowhere;
  pager->kind = DMI_ROOM_URGENT;
  return offer(pager, page, &nowhere);
}

static uint64_t give(struct dmi_pager *pager, struct dmi_page *page) {
  uint64_t bytes = page->map->page_size, most = dmi_pool_limit(pager->pool) / 8;
  bool nowhere;
  if (most > ON_THE_WAY) most = ON_THE_WAY;
  if (pager->offered_bytes && pager->offered_bytes + bytes > most) return DMI_REPLACE_NOWHERE;
  if (offer(pager, page, &nowhere)) return bytes;
  if (!nowhere) return 0;
  if (!pager->nowhere || bytes < pager->nowhere) pager->nowhere = bytes;
  return DMI_REPLACE_NOWHERE;
}

static uint64_t spill(struct dmi_pager *pager, struct dmi_page *page) {
  uint64_t bytes = page->map->page_size;
  struct dmi_frame *frame;
  bool spilled;
  if (pager->spill_full) return DMI_REPLACE_NOWHERE;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  frame = dmi_page_spill(&pager->process->access.core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!frame) return 0;
  if (!dmi_spill_put(pager->file, page, frame->bytes, bytes)) {
    if (!pager->spill_said)
      dmi_say(DMI_LOG_ERROR, "memory",
              "cannot write to the file for spilled pages (dmirun --spill %s): %s",
              pager->process->config.spill_dir, strerror(errno));
    pager->spill_said = pager->spill_full = true;
    dmi_pool_reserve(pager->pool, bytes, true);
    dmi_pager_put_back(pager, page, frame);
    return DMI_REPLACE_NOWHERE;
  }
  dmi_frame_unref(frame);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  spilled = (page->flags & DMI_PAGE_SPILLED) != 0;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!spilled) dmi_spill_drop(pager->file, page); /* overwritten before it was in the file */
  return bytes;
}

static uint64_t go(void *arg, void *map, uint64_t index, enum dmi_class class) {
  struct dmi_pager *pager = arg;
  struct dmi_page *page = dmi_mapping_find(map, index);
  bool dropped;
  if (class != DMI_CLASS_COPY) return pager->spill ? spill(pager, page) : give(pager, page);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  dropped = dmi_page_drop(&pager->process->access.core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!dropped) return 0;
  atomic_fetch_add_explicit(&pager->dropped, 1, memory_order_relaxed);
  return page->map->page_size;
}

/* ---- A sweep -------------------------------------------------------------------------------- */

static void add_map(struct dmi_mapping *mapping, void *arg) {
  struct dmi_pager *pager = arg;
  if (!dmi_mapping_ref(mapping)) return;
  DMI_XALLOC_GROW(pager->map, pager->maps, pager->maps_room);
  pager->map[pager->maps++] =
      (struct dmi_replace_map){mapping, mapping->map.page_size, &mapping->hand};
}

uint64_t dmi_pager_sweep(struct dmi_pager *pager, uint64_t need, enum dmi_class last,
                         enum dmi_room_kind kind, bool to_file) {
  struct dmi_replace_env env = {pager, look, spare, go};
  uint64_t made;
  pager->kind = kind;
  pager->spill = to_file;
  pager->spill_full = false;
  pager->busy_seen = false;
  pager->nowhere = 0;
  pager->maps = 0;
  dmi_epoch_enter();
  dmi_space_each(&pager->process->access.space, add_map, pager);
  dmi_epoch_leave();
  made = dmi_replace_sweep(&pager->work, &env, pager->map, pager->maps, need, last);
  for (uint64_t i = 0; i < pager->maps; i++)
    dmi_mapping_unref(&pager->process->access.core, pager->map[i].map);
  dmi_pool_patience(pager->pool, made ? 1 : 1 + pager->work.looks / LOOKS_A_REFUSAL);
  return made;
}

void dmi_pager_settle(struct dmi_pager *pager) {
  struct dmi_held_pages *offered = &pager->offered;
  uint64_t kept = 0;
  for (uint64_t i = 0; i < offered->num; i++) {
    struct dmi_page *page = offered->at[i].page;
    bool out, gone;
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    out = (page->flags & DMI_PAGE_OFFERED) != 0;
    gone = page->role == DMI_ROLE_NONE && !(page->flags & DMI_PAGE_DEAD);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    if (out) {
      offered->at[kept++] = offered->at[i];
      continue;
    }
    if (gone) atomic_fetch_add_explicit(&pager->sent, 1, memory_order_relaxed);
    pager->offered_bytes -= page->map->page_size;
    dmi_mapping_unref(&pager->process->access.core, (struct dmi_mapping *)page->map);
  }
  offered->num = kept;
}
