/*
 * page_begin.c - own operations begin: served at once, queued here, or sent to the owner (R1, R2).
 */
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/syncop.h"

bool dmi_is_read(const struct dmi_req *req) {
  return req->type == DMI_REQ_GET || req->type == DMI_REQ_READ;
}

bool dmi_counts_in_puts(const struct dmi_req *req) {
  if (req->type != DMI_REQ_ATOMIC) return req->type == DMI_REQ_PUT;
  /* nobody has a copy of what REVIVE changes */
  return !dmi_syncop_may_wait(req->kind) && req->kind != DMI_RMW_REVIVE;
}

void dmi_own_serve(struct dmi_req *req, struct dmi_frame *frame, struct dmi_out *out) {
  if (req->parts) {
    dmi_parts_read(req->part, req->parts, frame ? frame->bytes : NULL, req->dst);
  } else if (frame) {
    memcpy(req->dst, frame->bytes + req->off, req->len);
  } else {
    memset(req->dst, 0, req->len);
  }
  dmi_out_complete(out, req, DMI_OK);
}

/* R1: an own request goes to the hint, or to the home if the hint cannot be used. */
static uint32_t request_to(struct dmi_core *core, const struct dmi_page *page) {
  if (page->hint && page->hint != core->self && core->is_member(core->arg, page->hint))
    return page->hint;
  return atomic_load(&page->map->home);
}

/* Another one goes to the home. */
void dmi_request_send(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                      struct dmi_out *out) {
  bool mine = msg->origin == core->self;
  uint32_t to = mine ? request_to(core, page) : atomic_load(&page->map->home);
  if (to == core->self) {
    dmi_home_route(core, page, core->self, msg, out);
  } else {
    dmi_out_send(out, to, msg);
  }
}

void dmi_own_ask(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out) {
  dmi_set_role(core, page, DMI_ROLE_PENDING);
  dmi_own_send(core, page, nodata, out);
}

void dmi_own_send(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out) {
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_OWN);
  uint32_t home = atomic_load(&page->map->home);
  if (nodata) msg.flags |= DMI_F_NODATA;
  if (page->copy) {
    msg.flags |= DMI_F_HAVE;
    msg.own.version = page->version;
  }
  if (home == core->self) {
    dmi_home_route(core, page, core->self, &msg, out);
  } else {
    dmi_out_send(out, home, &msg);
  }
}

/* Sends the message for this own operation, whose answer is expected then. */
static void send_own(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     enum dmi_msg_type type, struct dmi_out *out) {
  const uint32_t to = request_to(core, page);
  struct dmi_msg routed, *msg;
  atomic_store_explicit(&req->sent, true, memory_order_relaxed);
  if (dmi_counts_in_puts(req)) dmi_page_busy(page)->puts++;
  if (to != core->self) {
    msg = dmi_out_about(out, to, core, page, type);
  } else {
    routed = dmi_msg_about(core, page, type);
    msg = &routed;
  }
  dmi_msg_carries(msg, req);
  if (type != DMI_MSG_GET || req->ranges) {
    msg->body = req->src;
    if (msg->body.frame) dmi_frame_ref(msg->body.frame);
  }
  if (to == core->self) dmi_home_route(core, page, core->self, msg, out);
}

/* Sends READ, unless there is no memory for its answer (R12). */
static bool fetch_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_READ);
  if (!DMI_BROKEN(core, DMI_BREAK_RESERVE) && !dmi_reserve_get(core, page, false)) return false;
  busy->fetch = (dmi_fetch_t){atomic_fetch_add(&core->fetches, 1) + 1};
  busy->poisoned = false;
  req->fetch = busy->fetch;
  dmi_req_push(&busy->waiters, req);
  msg.read = (struct dmi_msg_read){.fetch = busy->fetch, .kind = req->kind};
  dmi_request_send(core, page, &msg, out);
  return true;
}

/* R2.1 - R2.5 */
static void begin_read(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                       struct dmi_out *out) {
  struct dmi_page_busy *busy;
  req->fetch = (dmi_fetch_t){0};
  req->early.frame = NULL;
  if (dmi_page_readable(core, page)) {
    dmi_own_serve(req, page->frame, out);
    return;
  }
  if (req->type == DMI_REQ_GET && !page->busy && page->role == DMI_ROLE_NONE && !page->copy &&
      !(page->flags & (DMI_PAGE_FROZEN | DMI_PAGE_PAUSED))) {
    send_own(core, page, req, DMI_MSG_GET, out); /* as below; most come here, and keep no state */
    return;
  }
  busy = dmi_page_busy(page);
  if (page->role != DMI_ROLE_NONE && !page->copy) {
    dmi_req_push(&busy->queue, req);
    dmi_queue_run(core, page, out);
  } else if (page->flags & (DMI_PAGE_FROZEN | DMI_PAGE_PAUSED)) {
    dmi_req_push(&busy->waiters, req);
  } else if (page->copy && (page->role != DMI_ROLE_NONE || !busy->puts)) {
    dmi_req_push(&busy->waiters, req); /* the copy is unreleased, or GRANT will end the wait */
  } else if (req->type == DMI_REQ_READ && !busy->puts && dmi_fetch_any(busy->fetch) &&
             (!busy->poisoned || DMI_BROKEN(core, DMI_BREAK_POISON))) {
    req->fetch = busy->fetch;
    dmi_req_push(&busy->waiters, req);
  } else if (req->type != DMI_REQ_READ || busy->puts || dmi_fetch_any(busy->fetch) ||
             !fetch_begin(core, page, req, out)) {
    send_own(core, page, req, DMI_MSG_GET, out);
  }
}

/* A leaver asks for no ownership, and for no copies (R8). */
static void as_leaver(const struct dmi_core *core, struct dmi_req *req) {
  if (!atomic_load(&core->heir)) return;
  if (req->type == DMI_REQ_READ) req->type = DMI_REQ_GET;
  if (req->type == DMI_REQ_EXCL) req->type = DMI_REQ_PUT;
  if (req->type == DMI_REQ_ATOMIC_EXCL) req->type = DMI_REQ_ATOMIC;
}

/* True if this process may ask for ownership: it has memory for the bytes, and has not counted what
 * it will hand over (R12). */
static bool may_own(struct dmi_core *core, struct dmi_page *page) {
  return !atomic_load(&core->counted) && dmi_reserve_get(core, page, false);
}

void dmi_own_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                   struct dmi_out *out) {
  bool whole;
  as_leaver(core, req);
  if (req->type == DMI_REQ_GET || req->type == DMI_REQ_READ) {
    begin_read(core, page, req, out);
    return;
  }
  if (page->role != DMI_ROLE_NONE) {
    dmi_req_push(&dmi_page_busy(page)->queue, req);
    dmi_queue_run(core, page, out);
    return;
  }
  if (page->flags & (DMI_PAGE_FROZEN | DMI_PAGE_PAUSED)) {
    dmi_req_push(&dmi_page_busy(page)->waiters, req);
    return;
  }
  if ((req->type == DMI_REQ_EXCL || req->type == DMI_REQ_ATOMIC_EXCL) && !may_own(core, page)) {
    req->type = req->type == DMI_REQ_EXCL ? DMI_REQ_PUT : DMI_REQ_ATOMIC;
  }
  switch (req->type) {
    case DMI_REQ_PUT:
      send_own(core, page, req, DMI_MSG_PUT, out);
      break;
    case DMI_REQ_ATOMIC:
      send_own(core, page, req, DMI_MSG_ATOMIC, out);
      break;
    default:
      whole = req->type == DMI_REQ_EXCL && req->off == 0 && req->len == page->map->page_size;
      /* GRANT will not bring the old bytes, so the new ones must be copied before it arrives. */
      if (whole && !req->src.frame) req->src = dmi_slice_copy(req->src.ptr, req->len);
      if (!req->src.ptr && req->len) {
        dmi_out_complete(out, req, DMI_ENOMEM);
        break;
      }
      dmi_req_push(&dmi_page_busy(page)->queue, req);
      dmi_own_ask(core, page, whole, out);
  }
}

void dmi_page_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                    struct dmi_out *out) {
  req->foreign = false;
  req->origin = core->self;
  req->error = DMI_OK;
  atomic_store_explicit(&req->sent, false, memory_order_relaxed);
  if (page->flags & DMI_PAGE_DEAD) {
    dmi_out_complete(out, req, DMI_EADDR);
    return;
  }
  dmi_own_begin(core, page, req, out);
  dmi_page_rest(core, page);
}
