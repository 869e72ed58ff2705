/*
 * page_owner.c - at the owner: the queue of a page (R3), answering reads, and moving the ownership
 * (R5). Writes are in page_write.c.
 */
#include <stdlib.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/syncop.h"

/* Forwards a queued request of another process as R1 says for a process without a role: to the
 * home. It is not sent to the new owner: that one, and the next owners, may have an OWN in the
 * queue already, and the request could follow the ownership for ever. A request that the home
 * sends to the tail arrives before any later OWN. */
static void pass_on(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                    struct dmi_out *out) {
  uint32_t home = atomic_load(&page->map->home);
  struct dmi_msg msg = dmi_msg_of_req(core, page, req);
  if (req->type == DMI_REQ_OWN) { /* only a faulty home sends a second one */
    msg.flags |= DMI_F_TAIL;
    home = page->hint;
  }
  free(req);
  if (home == core->self) {
    dmi_home_route(core, page, core->self, &msg, out);
  } else {
    dmi_out_send(out, home, &msg);
  }
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* Puts bytes [off, off + len) of the page into a message, or the flag that they are zero. */
static void attach_bytes(struct dmi_page *page, uint64_t off, uint64_t len, struct dmi_msg *msg) {
  if (page->frame && len) {
    msg->body = dmi_slice_of(page->frame, off, len);
  } else {
    msg->flags |= DMI_F_ZERO;
  }
}

/* ---- Moving ownership, R5 ------------------------------------------------------------------- */

/* Forwards requests that waited behind the OWN; own operations begin again. */
static void empty_queue(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_req_list own = {NULL, NULL};
  struct dmi_req *req;
  while ((req = dmi_req_pop(&page->busy->queue))) {
    if (!req->foreign) {
      dmi_req_push(&own, req);
    } else if (DMI_BROKEN(core, DMI_BREAK_FORWARD)) {
      dmi_req_free(req);
    } else {
      pass_on(core, page, req, out);
    }
  }
  while ((req = dmi_req_pop(&own)))
    dmi_own_begin(core, page, req, out);
}

static void grant(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                  struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_GRANT);
  struct dmi_sharer *holder;
  uint32_t to = req->origin;
  msg.origin = to;
  msg.grant.version = page->version;
  if ((holder = dmi_copyset_find(busy, to))) dmi_copyset_remove(busy, holder);
  if (busy->holders && !DMI_BROKEN(core, DMI_BREAK_COPYSET)) {
    msg.list = dmi_copyset_pack(busy);
  }
  if ((req->flags & DMI_F_HAVE) && dmi_version_is(req->have, page->version)) {
    msg.flags |= DMI_F_HAVE;
  } else if ((req->flags & DMI_F_NODATA) && !(page->flags & DMI_PAGE_LOST)) {
    msg.flags |= DMI_F_NODATA;
  } else if (!page->frame) {
    msg.flags |= DMI_F_ZERO;
  } else {
    msg.body = dmi_slice_of(page->frame, 0, page->map->page_size);
  }
  if (page->flags & DMI_PAGE_LOST) msg.flags |= DMI_F_LOST;
  dmi_page_wait_move(core, page, to, out);
  dmi_out_send(out, to, &msg);
  busy->holders = 0;
  dmi_page_bytes(core, page, NULL);
  page->floor = page->version;
  page->hint = to;
  page->flags &= (uint16_t) ~(DMI_PAGE_OFFERED | DMI_PAGE_LOST);
  dmi_set_role(core, page, DMI_ROLE_NONE);
  dmi_req_free(req);
  empty_queue(core, page, out);
}

static bool grant_valid(const struct dmi_page *page, const struct dmi_msg *msg) {
  uint16_t how = msg->flags & (DMI_F_HAVE | DMI_F_NODATA | DMI_F_ZERO);
  const struct dmi_req *first = page->busy ? page->busy->queue.first : NULL;
  if (page->role != DMI_ROLE_PENDING || !dmi_copyset_valid(&msg->list)) return false;
  if (how && msg->body.len) return false;
  switch (how) {
    case 0:
      return msg->body.frame && msg->body.ptr == msg->body.frame->bytes &&
             msg->body.len == page->map->page_size;
    case DMI_F_HAVE:
      return page->copy && dmi_version_is(page->version, msg->grant.version);
    case DMI_F_NODATA:
      return first && !first->foreign && first->type == DMI_REQ_EXCL && first->off == 0 &&
             first->len == page->map->page_size;
    case DMI_F_ZERO:
      return true;
    default:
      return false;
  }
}

bool dmi_owner_grant_arrives(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                             struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_page_busy *busy;
  struct dmi_delegated_read *delegated;
  struct dmi_req *req;
  (void)from, (void)own;
  if (!grant_valid(page, msg)) return false;
  busy = dmi_page_busy(page);
  if (!(msg->flags & DMI_F_HAVE)) {
    dmi_page_bytes(core, page, msg->body.frame);
    msg->body.frame = NULL;
  }
  if (msg->flags & DMI_F_NODATA) page->flags |= DMI_PAGE_NODATA;
  if (msg->flags & DMI_F_LOST) page->flags |= DMI_PAGE_LOST;
  page->version = msg->grant.version;
  page->copy = 0;
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  dmi_set_role(core, page, DMI_ROLE_OWNER);
  delegated = dmi_fetch_end(busy);
  dmi_copyset_unpack(core, busy, &msg->list);
  while ((req = dmi_req_pop(&busy->waiters))) {
    if (dmi_is_read(req) && dmi_page_readable(core, page)) {
      dmi_own_serve(req, page->frame, out);
    } else {
      dmi_req_push(&busy->queue, req);
    }
  }
  dmi_queue_run(core, page, out);
  dmi_delegated_end(core, page, delegated, out);
  dmi_page_hand_over(core, page, out);
  return true;
}

/* ---- The queue, R3 -------------------------------------------------------------------------- */

/* Answers a GET of `origin`; `list`: its ranges.  False: no memory. */
static bool answer_get(const struct dmi_core *core, struct dmi_page *page, dmi_uid_t origin,
                       const struct dmi_msg_access *get, const unsigned char *list,
                       struct dmi_out *out) {
  struct dmi_msg *msg = dmi_out_about(out, origin, core, page, DMI_MSG_GOT);
  msg->got = (struct dmi_msg_got){.op = get->op, .len = get->len};
  msg->origin = origin;
  if (!get->ranges || !page->frame) {
    attach_bytes(page, get->off, get->len, msg);
  } else if (out->space && get->len <= DMI_OUT_SPACE) {
    dmi_ranges_copy(list, get->ranges, page->frame->bytes, out->space);
    msg->body = (struct dmi_slice){NULL, out->space, get->len};
    out->space = NULL;
  } else if (!dmi_ranges_gather(list, get->ranges, get->len, page->frame->bytes, &msg->body)) {
    out->num--; /* it is not sent */
    return false;
  }
  return true;
}

static void answer_read(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out) {
  struct dmi_msg *msg;
  if (!req->foreign) {
    dmi_own_serve(req, page->frame, out);
    return;
  }
  if (req->type == DMI_REQ_GET) {
    const struct dmi_msg_access get = {
        .op = req->op, .off = req->off, .len = req->len, .ranges = req->ranges};
    if (answer_get(core, page, req->origin, &get, req->src.ptr, out)) {
      dmi_req_free(req);
    } else {
      dmi_req_fail(core, page, req, DMI_ENOMEM, out);
    }
    return;
  }
  if (dmi_delegate_decide(core, page, req, out)) return;
  msg = dmi_out_about(out, req->origin, core, page, DMI_MSG_DATA);
  msg->data =
      (struct dmi_msg_data){.fetch = req->fetch, .kind = req->kind, .version = page->version};
  attach_bytes(page, 0, page->map->page_size, msg);
  msg->origin = req->origin;
  dmi_req_free(req);
}

/* Takes the operation that runs next out of the queue. NULL: none, or the operation at the head
 * is stalled (R12) and none may overtake it. */
static struct dmi_req *next(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  const struct dmi_req *first = page->busy->queue.first;
  struct dmi_req *overtakes;
  if (!first) return NULL;
  if (!(page->flags & DMI_PAGE_STALLED)) {
    if (!dmi_reserve_stalls(core, page, first)) return dmi_req_pop(&page->busy->queue);
    page->flags |= DMI_PAGE_STALLED;
    dmi_out_stalled(out, page);
  }
  overtakes = dmi_reserve_overtake(core, page);
  if (overtakes && overtakes->type == DMI_REQ_OWN) page->flags &= (uint16_t)~DMI_PAGE_STALLED;
  return overtakes;
}

/* On a LOST page only operations may run that need none of its bytes, or write all of them. */
static bool may_run_lost(const struct dmi_page *page, const struct dmi_req *req) {
  bool write = req->type == DMI_REQ_PUT || req->type == DMI_REQ_EXCL;
  if (req->type == DMI_REQ_OWN || dmi_is_revive(req)) return true;
  return write && !req->ranges && req->off == 0 && req->len == page->map->page_size;
}

void dmi_queue_run(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_req *req;
  while (page->role == DMI_ROLE_OWNER && page->busy && !page->busy->current &&
         !(page->flags & DMI_PAGE_FROZEN) && (req = next(core, page, out))) {
    if ((page->flags & DMI_PAGE_LOST) && !may_run_lost(page, req)) {
      dmi_req_fail(core, page, req, DMI_ELOST, out);
      continue;
    }
    switch (req->type) {
      case DMI_REQ_GET:
      case DMI_REQ_READ:
        answer_read(core, page, req, out);
        break;
      case DMI_REQ_OWN:
        if (req->origin == core->self) {
          dmi_req_free(req); /* this process is the owner already */
        } else {
          grant(core, page, req, out);
        }
        break;
      default:
        if (req->type == DMI_REQ_ATOMIC && dmi_syncop_is_wait(req->kind)) {
          dmi_page_wait_begin(core, page, req, out);
        } else if (dmi_is_revive(req)) {
          dmi_write_revive(core, page, req, out);
        } else {
          dmi_write_begin(core, page, req, out);
        }
    }
  }
}

/* True for a GET, PUT or ATOMIC that would be the only one in the queue, and most likely run to its
 * end at once: it needs no place there. */
static bool is_alone(const struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_page_busy *busy = page->busy;
  if (page->role != DMI_ROLE_OWNER) return false;
  if (page->flags & (DMI_PAGE_DEAD | DMI_PAGE_FROZEN | DMI_PAGE_LOST | DMI_PAGE_NODATA |
                     DMI_PAGE_SPILLED | DMI_PAGE_STALLED))
    return false;
  if (msg->type == DMI_MSG_GET) return !busy || (!busy->queue.first && !busy->current);
  return !busy && dmi_write_is_short(page, msg);
}

bool dmi_page_at_once(const struct dmi_page *page, const struct dmi_msg *msg) {
  if (msg->type == DMI_MSG_GOT || msg->type == DMI_MSG_DONE)
    return !(page->flags & (DMI_PAGE_DEAD | DMI_PAGE_FROZEN));
  return is_alone(page, msg);
}

/* Answers one that is alone.  False: it is a LOCK, and has to wait. */
static bool at_once(const struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                    struct dmi_out *out) {
  struct dmi_msg fails;
  int error = DMI_OK;
  if (msg->type != DMI_MSG_GET) {
    if (!dmi_write_at_once(core, page, msg, &error, out)) return false;
  } else if (!answer_get(core, page, msg->origin, &msg->access, msg->body.ptr, out)) {
    error = DMI_ENOMEM;
  }
  if (error != DMI_OK) {
    (void)dmi_page_unknown(msg->origin, msg, &fails);
    fails.fail.error = error;
    dmi_out_send(out, msg->origin, &fails);
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return true;
}

void dmi_queue_message(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                       struct dmi_out *out) {
  if (is_alone(page, msg) && at_once(core, page, msg, out)) return;
  dmi_req_push(&dmi_page_busy(page)->queue, dmi_req_of_message(msg));
  dmi_queue_run(core, page, out);
}
