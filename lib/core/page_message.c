/*
 * page_message.c - messages about a page: checks whether a correct peer could have sent them, and
 * dispatches them; forwards requests (R1); answers for a mapping that is not known here (R10).
 */
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/rmw.h"
#include "core/syncop.h"

static bool in_page(const struct dmi_page *page, uint64_t off, uint64_t len) {
  uint64_t size = page->map->page_size;
  return off <= size && len <= size - off;
}

/* True if the message has one valid range or, with `ranges`, a valid list of so many, and
 * `bytes` bytes for the page. */
static bool ranges_valid(const struct dmi_page *page, uint64_t off, uint64_t len, uint64_t ranges,
                         const struct dmi_slice *body, uint64_t bytes) {
  if (!ranges) return in_page(page, off, len) && body->len == bytes && (body->ptr || !bytes);
  return off == 0 && dmi_ranges_valid(body, ranges, len, bytes, page->map->page_size);
}

/* The same of a GET or PUT. */
static bool access_valid(const struct dmi_page *page, const struct dmi_msg *msg, uint64_t bytes) {
  const struct dmi_msg_access *access = &msg->access;
  return ranges_valid(page, access->off, access->len, access->ranges, &msg->body, bytes);
}

static bool update_valid(const struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_msg_update *update = &msg->update;
  return msg->body.ptr &&
         ranges_valid(page, update->off, update->len, update->ranges, &msg->body, update->len);
}

static bool atomic_valid(const struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_msg_atomic *atomic = &msg->atomic;
  struct dmi_rmw_sizes sizes;
  if (!in_page(page, atomic->off, atomic->len) || msg->list.len != sizeof(sizes)) return false;
  if (atomic->tag != (int8_t)atomic->tag) return false;
  memcpy(&sizes, msg->list.ptr, sizeof(sizes));
  return (msg->body.ptr || msg->body.len == 0) &&
         dmi_rmw_valid((enum dmi_rmw)atomic->rmw, atomic->len, &sizes, msg->body.len) &&
         (!(msg->flags & DMI_F_WAITING) ||
          (page->role == DMI_ROLE_PENDING && dmi_syncop_may_move((uint8_t)atomic->rmw)));
}

bool dmi_is_kind(uint64_t kind) {
  return kind == DMI_KIND_INVALIDATE || kind == DMI_KIND_UPDATE;
}

/* True if its origin is not in the view. Then no process waits for the answer; and a process
 * that was never a member must not become an owner or get into a copyset. */
static bool origin_left(const struct dmi_core *core, const struct dmi_msg *msg) {
  if (msg->origin == core->self || core->is_member(core->arg, msg->origin)) return false;
  /* a process that has left still sends requests while its DMI_main runs */
  return !core->is_there || !core->is_there(core->arg, msg->origin);
}

bool dmi_request_valid(const struct dmi_page *page, const struct dmi_msg *msg) {
  switch (msg->type) {
    case DMI_MSG_GET:
      return access_valid(page, msg, 0);
    case DMI_MSG_READ:
      return dmi_fetch_any(msg->read.fetch) && dmi_is_kind(msg->read.kind);
    case DMI_MSG_PUT:
      return msg->body.ptr && access_valid(page, msg, msg->access.len);
    case DMI_MSG_OWN: /* the tail has a role until it has granted the page to the next process */
      return !(msg->flags & DMI_F_TAIL) || page->role != DMI_ROLE_NONE;
    case DMI_MSG_ATOMIC:
      return atomic_valid(page, msg);
    default:
      return false;
  }
}

void dmi_request_arrives(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg, struct dmi_out *out) {
  bool home = atomic_load(&page->map->home) == core->self;
  bool own = msg->type == DMI_MSG_OWN;
  if (own && !(msg->flags & DMI_F_TAIL) && (page->flags & DMI_PAGE_STALE) &&
      msg->origin == core->self && (home || !DMI_BROKEN(core, DMI_BREAK_AWAY))) {
    dmi_set_stale(core, page, false);
    if (!DMI_BROKEN(core, DMI_BREAK_STALE)) return;
  }
  if (msg->type == DMI_MSG_ATOMIC && (msg->flags & DMI_F_WAITING)) {
    dmi_page_wait_push(core, page, dmi_req_of_message(msg), out);
  } else if (own ? (msg->flags & DMI_F_TAIL) != 0 : page->role != DMI_ROLE_NONE) {
    dmi_queue_message(core, page, msg, out);
  } else if (home) {
    dmi_home_route(core, page, from, msg, out);
  } else {
    dmi_out_send(out, atomic_load(&page->map->home), msg);
  }
}

/* GET, READ, PUT, ATOMIC, OWN */
bool dmi_page_on_request(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  (void)own;
  if (!dmi_request_valid(page, msg)) return false;
  if (origin_left(core, msg)) return true;
  dmi_request_arrives(core, page, from, msg, out);
  msg->list = msg->body = (struct dmi_slice){NULL, NULL, 0}; /* were passed on */
  return true;
}

bool dmi_page_on_delegate(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                          struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  (void)from, (void)own;
  if (!dmi_is_kind(msg->delegate.kind) || msg->origin == core->self ||
      !dmi_fetch_any(msg->delegate.fetch))
    return false;
  if (!origin_left(core, msg)) dmi_delegate_arrives(core, page, msg, out);
  return true;
}

bool dmi_page_on_update(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                        struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  return update_valid(page, msg) && dmi_copy_message(core, page, from, msg, own, out);
}

/* Handles a message about a mapping that is unmapped here (R10). */
static bool dead_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_msg reply;
  uint32_t to;
  if (own) {
    (void)dmi_answer_message(core, page, from, msg, own, out);
  } else if ((to = dmi_page_unknown(from, msg, &reply))) {
    if (reply.type != DMI_MSG_FAIL) reply.origin = core->self;
    dmi_out_send(out, to, &reply);
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return true;
}

bool dmi_page_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  bool good = true;
  if (page->flags & (DMI_PAGE_DEAD | DMI_PAGE_FROZEN)) {
    bool dead = (page->flags & DMI_PAGE_DEAD) != 0;
    return dead ? dead_message(core, page, from, msg, own, out)
                : dmi_page_absorb(core, page, from, msg, own, out);
  }
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...)   \
  case symbol:                                       \
    good = handler(core, page, from, msg, own, out); \
    break;
    DMI_MSGS_PAGE(HANDLE)
#undef HANDLE
    default:
      return false;
  }
  if (!good) return false;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  dmi_page_rest(core, page);
  return true;
}

/* ---- Unknown mappings, R10 ------------------------------------------------------------------ */

uint32_t dmi_page_unknown(uint32_t from, const struct dmi_msg *msg, struct dmi_msg *reply) {
  struct dmi_msg_fail fail = {.error = DMI_EADDR};
  *reply = (struct dmi_msg){.map = msg->map, .page = msg->page};
  switch (msg->type) {
    case DMI_MSG_INVALIDATE:
      reply->type = DMI_MSG_INVALIDATED;
      reply->copy.version = msg->copy.version;
      return from;
    case DMI_MSG_UPDATE:
      reply->type = DMI_MSG_UPDATED;
      reply->flags = DMI_F_DROPPED;
      reply->copy.version = msg->update.version;
      return from;
    case DMI_MSG_READ:
      fail.fetch = msg->read.fetch;
      break;
    case DMI_MSG_DELEGATE:
      fail.fetch = msg->delegate.fetch;
      break;
    case DMI_MSG_GET:
    case DMI_MSG_PUT:
      fail.op = msg->access.op;
      break;
    case DMI_MSG_ATOMIC:
      fail.op = msg->atomic.op;
      break;
    default:
      return 0;
  }
  reply->type = DMI_MSG_FAIL;
  reply->origin = msg->origin;
  reply->fail = fail;
  return msg->origin;
}

void dmi_request_fails(struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_msg reply;
  uint32_t to = dmi_page_unknown(0, msg, &reply);
  if (to) dmi_out_send(out, to, &reply);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}
