/*
 * page.c - one page's record in this process: how it begins and ends, its role, and whether a
 * thread can read or write at once.
 *
 * The protocol is in other files: own operations begin in page_begin.c, messages arrive in
 * page_message.c, the owner's side is in page_owner.c and page_write.c, a copy's in page_copy.c,
 * and the home's in page_home.c. None of them uses sockets, threads, clocks or locks: see page.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

/* ---- Records -------------------------------------------------------------------------------- */

void dmi_page_init(struct dmi_core *core, struct dmi_map *map, struct dmi_page *page,
                   uint64_t index) {
  memset(page, 0, sizeof(*page));
  page->map = map;
  page->index = index;
  if (atomic_load(&map->home) == core->self && !atomic_load(&map->arriving)) {
    dmi_set_role(core, page, DMI_ROLE_OWNER);
    if (atomic_load(&map->hole)) page->flags |= DMI_PAGE_LOST;
  }
  if (atomic_load(&core->frozen)) page->flags |= DMI_PAGE_FROZEN;
  if (atomic_load(&core->paused)) page->flags |= DMI_PAGE_PAUSED;
}

void dmi_page_fini(struct dmi_core *core, struct dmi_page *page) {
  dmi_set_role(core, page, DMI_ROLE_NONE);
  dmi_set_stale(core, page, false);
  dmi_reserve_end(core, page);
  if (page->busy) {
    struct dmi_req *req;
    while ((req = dmi_req_pop(&page->busy->waiting_ops)) ||
           (req = dmi_req_pop(&page->busy->queue))) {
      if (req->foreign) dmi_req_free(req);
    }
    if (page->busy->current) { /* it waited for a lost process */
      if (page->busy->current->foreign) dmi_req_free(page->busy->current);
      dmi_slice_drop(&page->busy->bytes);
      dmi_frame_unref(page->busy->answer);
    }
    dmi_delegated_fail(core, page, dmi_fetch_end(page->busy), NULL);
    free(page->busy->holder);
    free(page->busy);
    page->busy = NULL;
  }
}

struct dmi_page_busy *dmi_page_busy(struct dmi_page *page) {
  if (!page->busy) page->busy = dmi_xalloc(1, sizeof(*page->busy));
  return page->busy;
}

void dmi_page_rest(struct dmi_core *core, struct dmi_page *page) {
  struct dmi_page_busy *busy = page->busy;
  dmi_reserve_settle(core, page);
  if (!busy || busy->queue.first || busy->waiters.first || busy->current || busy->puts ||
      dmi_fetch_any(busy->fetch) || busy->holders || busy->waiting_ops.first) {
    return;
  }
  free(busy->holder);
  free(busy);
  page->busy = NULL;
}

/* The role of a page: which may follow which (docs/protocol.md, the first diagram).
 *
 *            OWN is sent                GRANT
 *   NONE ----------------> PENDING ---------------> OWNER
 *    ^ |                      |                     ^ |
 *    | +----------------------|---------------------+ |  made, or got back, as the home
 *    +------------------------+-----------------------+  GRANT sent; the mapping is unmapped
 */
#ifdef DMI_DEBUG
static const uint8_t role_next[] = {
    [DMI_ROLE_NONE] = 1u << DMI_ROLE_NONE | 1u << DMI_ROLE_PENDING | 1u << DMI_ROLE_OWNER,
    [DMI_ROLE_PENDING] = 1u << DMI_ROLE_OWNER | 1u << DMI_ROLE_NONE,
    [DMI_ROLE_OWNER] = 1u << DMI_ROLE_NONE,
};
#endif

void dmi_set_role(struct dmi_core *core, struct dmi_page *page, enum dmi_role role) {
#ifdef DMI_DEBUG
  if (!(role_next[page->role] & 1u << role)) {
    fprintf(stderr, "dmi: bug: page %llu goes from role %d to %d\n",
            (unsigned long long)page->index, page->role, (int)role);
    abort();
  }
#endif
  if (role != DMI_ROLE_PENDING) page->flags &= (uint16_t)~DMI_PAGE_ZEROS;
  if (page->role == DMI_ROLE_NONE && role != DMI_ROLE_NONE) atomic_fetch_add(&core->owned, 1);
  if (page->role != DMI_ROLE_NONE && role == DMI_ROLE_NONE) atomic_fetch_sub(&core->owned, 1);
  page->role = (uint8_t)role;
  dmi_reserve_copies(core, page);
}

void dmi_set_stale(struct dmi_core *core, struct dmi_page *page, bool stale) {
  bool counts = !DMI_BROKEN(core, DMI_BREAK_AWAY);
  bool was = (page->flags & DMI_PAGE_STALE) != 0;
  if (stale == was) return;
  page->flags ^= DMI_PAGE_STALE;
  if (counts && stale) atomic_fetch_add(&core->owned, 1);
  if (counts && was) atomic_fetch_sub(&core->owned, 1);
}

bool dmi_page_readable(const struct dmi_core *core, const struct dmi_page *page) {
  if (page->role == DMI_ROLE_OWNER) {
    if (!(page->flags & (DMI_PAGE_NODATA | DMI_PAGE_SPILLED | DMI_PAGE_LOST))) return true;
    return (page->flags & DMI_PAGE_SPILLED) && DMI_BROKEN(core, DMI_BREAK_SPILL);
  }
  if (!page->copy || (page->flags & (DMI_PAGE_UNRELEASED | DMI_PAGE_FROZEN | DMI_PAGE_PAUSED))) {
    return page->copy && !(page->flags & DMI_PAGE_UNRELEASED) && DMI_BROKEN(core, DMI_BREAK_FREEZE);
  }
  return !page->busy || !page->busy->puts || DMI_BROKEN(core, DMI_BREAK_PUTS);
}

bool dmi_page_writable(const struct dmi_core *core, const struct dmi_page *page) {
  (void)core;
  const struct dmi_page_busy *busy = page->busy;
  if (page->role != DMI_ROLE_OWNER) return false;
  if (page->flags & (DMI_PAGE_NODATA | DMI_PAGE_SPILLED | DMI_PAGE_LOST)) return false;
  return !busy ||
         (!busy->current && !busy->queue.first && !busy->holders && !busy->waiting_ops.first);
}

/* Makes the bytes ready for a write without an operation. False: no reservation, or no memory. */
static bool own_now(struct dmi_core *core, struct dmi_page *page, bool whole) {
  if (dmi_page_own_frame(core, page, whole, false)) return true;
  dmi_reserve_settle(core, page);
  return false;
}

bool dmi_page_write_now(struct dmi_core *core, struct dmi_page *page, uint64_t off, const void *src,
                        uint64_t len) {
  if (!own_now(core, page, off == 0 && len == page->map->page_size)) return false;
  memcpy(page->frame->bytes + off, src, len);
  page->version = dmi_version_next(page->version);
  return true;
}

bool dmi_page_write_parts_now(struct dmi_core *core, struct dmi_page *page,
                              const struct dmi_part *part, uint64_t parts,
                              const unsigned char *src) {
  if (!own_now(core, page, false)) return false;
  for (uint64_t i = 0; i < parts; i++)
    memcpy(page->frame->bytes + part[i].off, src + part[i].to, part[i].len);
  page->version = dmi_version_next(page->version);
  return true;
}

struct dmi_frame *dmi_page_take_frame(struct dmi_core *core, struct dmi_page *page) {
  struct dmi_frame *frame = page->frame;
  if (!frame || !dmi_frame_is_private(frame)) return NULL;
  dmi_frame_ref(frame);
  dmi_page_bytes(core, page, NULL);
  page->version = dmi_version_next(page->version);
  return frame;
}

bool dmi_page_give_frame(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame) {
  if (frame->size != page->map->page_size) return false;
  if (!dmi_reserve_get(core, page, false)) {
    dmi_reserve_settle(core, page);
    return false;
  }
  dmi_page_bytes(core, page, frame);
  page->version = dmi_version_next(page->version);
  return true;
}

/* ---- Freed mappings, R10 -------------------------------------------------------------------- */

void dmi_page_kill(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_req *req;
  page->flags |= DMI_PAGE_DEAD;
  page->flags &= (uint16_t) ~(DMI_PAGE_NODATA | DMI_PAGE_LOST);
  if (busy) {
    if (busy->current) {
      dmi_req_fail(core, page, busy->current, DMI_EADDR, out);
      busy->current = NULL;
      dmi_slice_drop(&busy->bytes);
      dmi_frame_unref(busy->answer);
      busy->answer = NULL;
    }
    while ((req = dmi_req_pop(&busy->queue)))
      dmi_req_fail(core, page, req, DMI_EADDR, out);
    while ((req = dmi_req_pop(&busy->waiting_ops)))
      dmi_req_fail(core, page, req, DMI_EADDR, out);
    while ((req = dmi_req_pop(&busy->waiters)))
      dmi_out_complete(out, req, DMI_EADDR);
    dmi_delegated_fail(core, page, dmi_fetch_end(busy), out);
    busy->holders = 0;
    busy->puts = 0;
  }
  dmi_set_role(core, page, DMI_ROLE_NONE);
  dmi_set_stale(core, page, false);
  page->copy = 0;
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  dmi_reserve_end(core, page);
  dmi_page_rest(core, page);
}
