/*
 * page_reserve.c - reservations of memory for the bytes of a page, and how a page leaves when there
 * is none (R12).
 *
 * Only dmi_page_bytes sets and removes a page's bytes, so that the account (struct dmi_account) is
 * right. Which pages leave, and where to, is decided elsewhere: docs/replacement.md.
 */
#include <string.h>

#include "core/page_int.h"
#include "core/promise.h"
#include "core/syncop.h"

/* ---- The account ---------------------------------------------------------------------------- */

void dmi_reserve_copies(struct dmi_core *core, struct dmi_page *page) {
  bool is = page->frame && page->role == DMI_ROLE_NONE;
  bool was = (page->flags & DMI_PAGE_COPY) != 0;
  int64_t size = (int64_t)page->map->page_size;
  if (is == was) return;
  page->flags ^= DMI_PAGE_COPY;
  if (core->account) core->account->copies(core->arg, is ? size : -size);
}

bool dmi_reserve_get(struct dmi_core *core, struct dmi_page *page, bool force) {
  if (page->frame || (page->flags & DMI_PAGE_RESERVED)) return true;
  if (core->account && !core->account->reserve(core->arg, page->map->page_size, force))
    return false;
  page->flags |= DMI_PAGE_RESERVED;
  return true;
}

static void give_back(struct dmi_core *core, struct dmi_page *page) {
  if (!(page->flags & DMI_PAGE_RESERVED)) return;
  page->flags &= (uint16_t)~DMI_PAGE_RESERVED;
  if (core->account) core->account->release(core->arg, page->map->page_size);
}

void dmi_reserve_settle(struct dmi_core *core, struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  if (!(page->flags & DMI_PAGE_RESERVED) || page->role == DMI_ROLE_PENDING) return;
  if (DMI_BROKEN(core, DMI_BREAK_RETURN)) return;
  if (busy && (dmi_fetch_any(busy->fetch) || busy->current)) return;
  give_back(core, page);
}

void dmi_page_bytes(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame) {
  struct dmi_frame *old = page->frame;
  page->frame = NULL;
  dmi_reserve_copies(core, page);
  if (old) {
    /* The bytes of GRANT were going to replace these: they need a reservation now. */
    if (!frame && page->role == DMI_ROLE_PENDING) (void)dmi_reserve_get(core, page, true);
    if (core->account) core->account->detach(core->arg, old);
    dmi_frame_unref(old);
  }
  page->frame = frame;
  if (frame) {
    bool reserved = (page->flags & DMI_PAGE_RESERVED) != 0;
    page->flags &= (uint16_t)~DMI_PAGE_RESERVED;
    if (core->account) core->account->attach(core->arg, frame, reserved);
  }
  dmi_reserve_copies(core, page);
}

bool dmi_page_own_frame(struct dmi_core *core, struct dmi_page *page, bool whole, bool force) {
  uint64_t size = page->map->page_size;
  struct dmi_frame *fresh;
  if (page->frame && dmi_frame_is_private(page->frame)) return true;
  if (!dmi_reserve_get(core, page, force)) return false;
  fresh = page->frame || whole ? dmi_frame_new(size) : dmi_frame_new_zero(size);
  if (!fresh) return false;
  if (page->frame && !whole) memcpy(fresh->bytes, page->frame->bytes, size);
  dmi_page_bytes(core, page, fresh);
  return true;
}

void dmi_reserve_end(struct dmi_core *core, struct dmi_page *page) {
  dmi_page_bytes(core, page, NULL);
  if (page->flags & DMI_PAGE_SPILLED) dmi_reserve_overwritten(core, page);
  page->flags &= (uint16_t) ~(DMI_PAGE_OFFERED | DMI_PAGE_STALLED);
  give_back(core, page);
}

void dmi_reserve_overwritten(struct dmi_core *core, struct dmi_page *page) {
  page->flags &= (uint16_t)~DMI_PAGE_SPILLED;
  if (core->account) core->account->unspilled(core->arg, page);
}

/* ---- Stalling ------------------------------------------------------------------------------- */

static bool is_whole_write(const struct dmi_page *page, const struct dmi_req *req) {
  return (req->type == DMI_REQ_PUT || req->type == DMI_REQ_EXCL) && !req->ranges && req->off == 0 &&
         req->len == page->map->page_size;
}

/* An ATOMIC may turn out to change nothing, but it runs once, so its memory is reserved before. */
static bool may_write(const struct dmi_req *req) {
  if (req->type == DMI_REQ_OWN || dmi_is_read(req) || dmi_is_revive(req)) return false;
  return req->type != DMI_REQ_ATOMIC || !dmi_syncop_is_wait(req->kind);
}

bool dmi_reserve_stalls(struct dmi_core *core, struct dmi_page *page, const struct dmi_req *req) {
  /* If the first write of an owner without bytes failed, the page would be lost. */
  bool force = atomic_load(&core->heir) || (page->flags & DMI_PAGE_NODATA);
  if (dmi_is_revive(req)) return false; /* a page that is revived has no bytes */
  if ((page->flags & DMI_PAGE_SPILLED) && !is_whole_write(page, req)) return true;
  return may_write(req) && !dmi_reserve_get(core, page, force);
}

struct dmi_req *dmi_reserve_overtake(const struct dmi_core *core, struct dmi_page *page) {
  struct dmi_req_list *queue = &page->busy->queue, rest = {NULL, NULL};
  struct dmi_req *req, *overtakes = NULL;
  bool own_only = DMI_BROKEN(core, DMI_BREAK_BEHIND);
  if (page->flags & DMI_PAGE_SPILLED) return NULL;
  while ((req = dmi_req_pop(queue))) {
    if (!overtakes && !may_write(req) && (!own_only || req->type == DMI_REQ_OWN)) {
      overtakes = req;
    } else {
      dmi_req_push(&rest, req);
    }
  }
  *queue = rest;
  return overtakes;
}

bool dmi_page_unstall(struct dmi_core *core, struct dmi_page *page, int error,
                      struct dmi_out *out) {
  struct dmi_req *first = page->busy ? page->busy->queue.first : NULL;
  bool spilled = (page->flags & DMI_PAGE_SPILLED) != 0;
  if (!(page->flags & DMI_PAGE_STALLED)) return false;
  if (error == DMI_OK) {
    if (spilled && !is_whole_write(page, first)) return false;
    page->flags |= DMI_PAGE_RESERVED; /* the caller's reservation passes to the page */
    if (DMI_BROKEN(core, DMI_BREAK_STALL)) (void)dmi_req_pop(&page->busy->queue);
  } else {
    if (first->type == DMI_REQ_OWN) return false;
    if (DMI_BROKEN(core, DMI_BREAK_REFUSE) && is_whole_write(page, first) &&
        dmi_page_own_frame(core, page, true, true)) {
      memcpy(page->frame->bytes, first->src.ptr, first->len);
    }
    dmi_req_fail(core, page, dmi_req_pop(&page->busy->queue), error, out);
  }
  page->flags &= (uint16_t)~DMI_PAGE_STALLED;
  dmi_queue_run(core, page, out);
  dmi_page_rest(core, page);
  return true;
}

/* ---- What leaves ---------------------------------------------------------------------------- */

bool dmi_page_drop(struct dmi_core *core, struct dmi_page *page) {
  if (!page->copy || (page->flags & DMI_PAGE_UNRELEASED)) return false;
  if (page->flags & DMI_PAGE_FROZEN) return false; /* these may be the only bytes left */
  if (page->role != DMI_ROLE_NONE && !DMI_BROKEN(core, DMI_BREAK_DROP)) return false;
  if (page->busy && (dmi_fetch_any(page->busy->fetch) || page->busy->waiters.first)) return false;
  page->copy = 0;
  dmi_page_bytes(core, page, NULL);
  return true;
}

bool dmi_page_depart(struct dmi_core *core, struct dmi_page *page) {
  (void)dmi_page_drop(core, page);
  return !page->copy && (!page->busy || !dmi_fetch_any(page->busy->fetch));
}

/* Sends TAKE for this page. */
static void send_take(struct dmi_core *core, struct dmi_page *page, uint32_t to, bool must,
                      struct dmi_out *out) {
  struct dmi_tail entry = {page->index, 0, must && !dmi_page_has_bytes(page)};
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_TAKE);
  if (must) msg.flags |= DMI_F_MUST;
  msg.page = 0;
  msg.list = dmi_slice_xcopy(&entry, sizeof(entry));
  dmi_out_send(out, to, &msg);
}

bool dmi_page_offer(struct dmi_core *core, struct dmi_page *page, uint32_t to,
                    struct dmi_out *out) {
  const struct dmi_page_busy *busy = page->busy;
  uint16_t flags = page->flags;
  if (page->role != DMI_ROLE_OWNER) return false;
  if (flags & (DMI_PAGE_OFFERED | DMI_PAGE_NODATA | DMI_PAGE_FROZEN)) return false;
  if (busy && busy->current) return false;
  if (busy && busy->queue.first && (flags & DMI_PAGE_SPILLED)) return false;
  page->flags |= DMI_PAGE_OFFERED;
  page->hint = 0; /* nobody has promised memory for it */
  send_take(core, page, to, false, out);
  return true;
}

/* True if this process leaves, and (still) owns the page. */
static bool is_to_give(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  if (!atomic_load(&core->heir) || DMI_BROKEN(core, DMI_BREAK_TAKE)) return false;
  if (page->flags & DMI_PAGE_FROZEN) return false; /* it is done at RESUME */
  /* It was stalled before this process began to leave; a leaver takes the memory that it needs. */
  if ((page->flags & DMI_PAGE_STALLED) && !(page->flags & DMI_PAGE_SPILLED)) {
    page->flags &= (uint16_t)~DMI_PAGE_STALLED;
    dmi_queue_run(core, page, out);
    dmi_page_rest(core, page);
  }
  return page->role == DMI_ROLE_OWNER;
}

/* `promised`: who has promised memory for it; 0: nobody. */
static void give(struct dmi_core *core, struct dmi_page *page, uint32_t to, uint32_t promised,
                 struct dmi_out *out) {
  page->flags |= DMI_PAGE_OFFERED;
  page->hint = promised;
  send_take(core, page, to, true, out);
}

void dmi_page_give(struct dmi_core *core, struct dmi_page *page, uint32_t to, struct dmi_out *out) {
  if (is_to_give(core, page, out)) give(core, page, to, 0, out);
}

void dmi_page_hand_over(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  uint32_t promised = 0;
  if (!is_to_give(core, page, out) || dmi_page_is_promised(page)) return;
  if (core->promises && dmi_page_has_bytes(page))
    promised = dmi_promises_give(core->promises, page->map->page_size);
  give(core, page, promised ? promised : atomic_load(&core->heir), promised, out);
}

bool dmi_page_take(struct dmi_core *core, struct dmi_page *page, bool must, bool zero,
                   struct dmi_out *out) {
  if (page->role != DMI_ROLE_NONE) return true;
  if (page->flags & (DMI_PAGE_DEAD | DMI_PAGE_FROZEN)) return true; /* it will be offered again */
  if ((atomic_load(&core->heir) || atomic_load(&core->counted)) &&
      !DMI_BROKEN(core, DMI_BREAK_LEAVER))
    return false;
  if (must && zero) {
    page->flags |= DMI_PAGE_ZEROS;
  } else if (!dmi_reserve_get(core, page, must)) {
    return false;
  }
  dmi_own_ask(core, page, false, out);
  dmi_page_rest(core, page);
  return true;
}

void dmi_page_refused(struct dmi_core *core, struct dmi_page *page, uint32_t from, bool must,
                      struct dmi_out *out) {
  uint32_t heir = atomic_load(&core->heir);
  if (!must && dmi_page_is_promised(page)) return; /* an offer by the pager, before the leave */
  if (page->flags & DMI_PAGE_OFFERED) page->hint = 0;
  page->flags &= (uint16_t)~DMI_PAGE_OFFERED;
  if (must && heir && heir != from && !DMI_BROKEN(core, DMI_BREAK_REOFFER))
    dmi_page_give(core, page, heir, out);
}

/* ---- Spilling ------------------------------------------------------------------------------- */

struct dmi_frame *dmi_page_spill(struct dmi_core *core, struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  struct dmi_frame *frame = page->frame;
  if (page->role != DMI_ROLE_OWNER || !frame || (page->flags & DMI_PAGE_NODATA)) return NULL;
  if (busy && (busy->current || busy->queue.first || busy->holders)) return NULL;
  dmi_frame_ref(frame);
  dmi_page_bytes(core, page, NULL);
  page->flags |= DMI_PAGE_SPILLED;
  return frame;
}

bool dmi_page_unspill(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                      struct dmi_out *out) {
  if (!(page->flags & DMI_PAGE_SPILLED)) return false;
  page->flags &= (uint16_t) ~(DMI_PAGE_SPILLED | DMI_PAGE_STALLED);
  page->flags |= DMI_PAGE_RESERVED; /* the caller's reservation passes to the page */
  dmi_page_bytes(core, page, frame);
  if (page->busy) dmi_queue_run(core, page, out);
  dmi_page_rest(core, page);
  return true;
}
