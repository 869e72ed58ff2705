/*
 * page.c - the page protocol: records, own operations (R1, R2), dispatch of messages, R10.
 *
 * The owner's side is page_owner.c, the copy's page_copy.c, the home's and leaving page_home.c.
 * No sockets, threads, clocks or locks here: see page.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/rmw.h"
#include "core/syncop.h"

/* ---- Records -------------------------------------------------------------------------------- */

void dmi_page_init(struct dmi_core *core, struct dmi_map *map, struct dmi_page *page,
                   uint64_t index) {
  memset(page, 0, sizeof(*page));
  page->map = map;
  page->index = index;
  if (atomic_load(&map->home) == core->self && !atomic_load(&map->arriving)) {
    dmi_set_role(core, page, DMI_ROLE_OWNER);
  }
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
    if (page->busy->current) { /* it waited for a process that was lost */
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
    if (!(page->flags & (DMI_PAGE_NODATA | DMI_PAGE_SPILLED))) return true;
    return (page->flags & DMI_PAGE_SPILLED) && DMI_BROKEN(core, DMI_BREAK_SPILL);
  }
  if (!page->copy || (page->flags & DMI_PAGE_UNRELEASED)) return false;
  return !page->busy || !page->busy->puts || DMI_BROKEN(core, DMI_BREAK_PUTS);
}

bool dmi_page_writable(const struct dmi_core *core, const struct dmi_page *page) {
  (void)core;
  const struct dmi_page_busy *busy = page->busy;
  if (page->role != DMI_ROLE_OWNER) return false;
  if (page->flags & (DMI_PAGE_NODATA | DMI_PAGE_SPILLED)) return false;
  return !busy ||
         (!busy->current && !busy->queue.first && !busy->holders && !busy->waiting_ops.first);
}

/* The bytes, ready for a write without an operation. False: no capacity, or no memory. */
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

/* ---- Own operations ------------------------------------------------------------------------- */

bool dmi_is_read(const struct dmi_req *req) {
  return req->type == DMI_REQ_GET || req->type == DMI_REQ_READ;
}

bool dmi_counts_in_puts(const struct dmi_req *req) {
  return req->type == DMI_REQ_PUT ||
         (req->type == DMI_REQ_ATOMIC && !dmi_syncop_may_wait(req->kind));
}

void dmi_own_serve(struct dmi_req *req, struct dmi_frame *frame, struct dmi_out *out) {
  if (req->parts) {
    dmi_parts_read(req->part, req->parts, frame ? frame->bytes : NULL, req->dst);
  } else if (frame && !req->filled) {
    memcpy(req->dst, frame->bytes + req->off, req->len);
  } else if (!frame) {
    memset(req->dst, 0, req->len);
  }
  dmi_out_complete(out, req, DMI_OK);
}

/* R1: where a request goes first; the home when the hint cannot be used. */
void dmi_request_send(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                      struct dmi_out *out) {
  uint32_t home = atomic_load(&page->map->home);
  uint32_t to = home;
  bool mine = msg->origin == core->self;
  if (mine && page->hint && page->hint != core->self && core->is_member(core->arg, page->hint)) {
    to = page->hint;
  }
  if (to == core->self) {
    dmi_home_route(core, page, core->self, msg, out);
  } else {
    dmi_out_send(out, to, msg);
  }
}

void dmi_own_ask(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out) {
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_OWN);
  uint32_t home = atomic_load(&page->map->home);
  dmi_set_role(core, page, DMI_ROLE_PENDING);
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

/* Sends the message that carries this own operation, which has no answer yet. */
static void send_own(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     enum dmi_msg_type type, struct dmi_out *out) {
  struct dmi_msg msg = dmi_msg_about(core, page, type);
  atomic_store_explicit(&req->sent, true, memory_order_relaxed);
  if (dmi_counts_in_puts(req)) dmi_page_busy(page)->puts++;
  dmi_msg_carries(&msg, req);
  if (type != DMI_MSG_GET || req->ranges) {
    msg.body = req->src;
    if (msg.body.frame) dmi_frame_ref(msg.body.frame);
  }
  dmi_request_send(core, page, &msg, out);
}

/* Sends READ, unless there is no memory for what it would bring (R12). */
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
  if (dmi_page_readable(core, page)) {
    dmi_own_serve(req, page->frame, out);
    return;
  }
  busy = dmi_page_busy(page);
  if (page->role != DMI_ROLE_NONE && !page->copy) {
    dmi_req_push(&busy->queue, req);
    dmi_queue_run(core, page, out);
  } else if (page->copy && (page->role != DMI_ROLE_NONE || !busy->puts)) {
    dmi_req_push(&busy->waiters, req); /* held, or GRANT will end the wait */
  } else if (req->type == DMI_REQ_READ && !busy->puts && dmi_fetch_any(busy->fetch) &&
             (!busy->poisoned || DMI_BROKEN(core, DMI_BREAK_POISON))) {
    req->fetch = busy->fetch;
    dmi_req_push(&busy->waiters, req);
  } else if (req->type != DMI_REQ_READ || busy->puts || dmi_fetch_any(busy->fetch) ||
             !fetch_begin(core, page, req, out)) {
    send_own(core, page, req, DMI_MSG_GET, out);
  }
}

void dmi_own_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                   struct dmi_out *out) {
  bool whole;
  if (dmi_is_read(req)) {
    begin_read(core, page, req, out);
    return;
  }
  if (page->role != DMI_ROLE_NONE) {
    dmi_req_push(&dmi_page_busy(page)->queue, req);
    dmi_queue_run(core, page, out);
    return;
  }
  /* A leaver, or a process without memory for the bytes, does not ask for ownership (R8, R12). */
  if ((req->type == DMI_REQ_EXCL || req->type == DMI_REQ_ATOMIC_EXCL) &&
      (atomic_load(&core->heir) || !dmi_reserve_get(core, page, false))) {
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
      /* The old bytes will not come with the ownership: the new ones must be here before it does.
       */
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
  if (atomic_load(&core->heir)) {
    if (req->type == DMI_REQ_READ) req->type = DMI_REQ_GET;
    if (req->type == DMI_REQ_EXCL) req->type = DMI_REQ_PUT;
    if (req->type == DMI_REQ_ATOMIC_EXCL) req->type = DMI_REQ_ATOMIC;
  }
  dmi_own_begin(core, page, req, out);
  dmi_page_rest(core, page);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static bool in_page(const struct dmi_page *page, uint64_t off, uint64_t len) {
  uint64_t size = page->map->page_size;
  return off <= size && len <= size - off;
}

/* One range or, with `ranges`, a list of so many, and `bytes` bytes that belong in the page. */
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
          (page->role == DMI_ROLE_PENDING && dmi_syncop_is_wait((uint8_t)atomic->rmw)));
}

bool dmi_is_kind(uint64_t kind) {
  return kind == DMI_KIND_INVALIDATE || kind == DMI_KIND_UPDATE;
}

/* True if its origin is not in the view. Then no process waits for the answer; and a process that
 * was never a member must not become an owner, or get into a copyset. */
static bool origin_left(const struct dmi_core *core, const struct dmi_msg *msg) {
  if (msg->origin == core->self || core->is_member(core->arg, msg->origin)) return false;
  /* One that has left goes on asking while its DMI_main runs. */
  return !core->is_there || !core->is_there(core->arg, msg->origin);
}

/* True if a correct peer could have sent this. */
static bool request_valid(const struct dmi_page *page, const struct dmi_msg *msg) {
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
    dmi_page_wait_arrives(page, msg);
  } else if (own ? (msg->flags & DMI_F_TAIL) != 0 : page->role != DMI_ROLE_NONE) {
    dmi_queue_message(core, page, msg, out);
  } else if (home) {
    dmi_home_route(core, page, from, msg, out);
  } else {
    dmi_out_send(out, atomic_load(&page->map->home), msg);
  }
}

/* A message about a mapping that is unmapped here (R10). */
static void dead_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_msg reply;
  uint32_t to;
  if (own) {
    (void)dmi_answer_message(core, page, from, msg, own, out);
    return;
  }
  to = dmi_page_unknown(from, msg, &reply);
  if (!to) return;
  if (reply.type != DMI_MSG_FAIL) reply.origin = core->self;
  dmi_out_send(out, to, &reply);
}

bool dmi_page_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  bool good = true;
  if (page->flags & DMI_PAGE_DEAD) {
    dead_message(core, page, from, msg, own, out);
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
    return true;
  }
  switch (msg->type) {
    case DMI_MSG_GET:
    case DMI_MSG_READ:
    case DMI_MSG_PUT:
    case DMI_MSG_ATOMIC:
    case DMI_MSG_OWN:
      if (!request_valid(page, msg)) return false;
      if (origin_left(core, msg)) break;
      dmi_request_arrives(core, page, from, msg, out);
      *msg = (struct dmi_msg){0}; /* its slices went on */
      break;
    case DMI_MSG_GOT:
    case DMI_MSG_DONE:
    case DMI_MSG_FAIL:
      good = dmi_answer_message(core, page, from, msg, own, out);
      break;
    case DMI_MSG_DATA:
      good = dmi_data_arrives(core, page, from, msg, out);
      break;
    case DMI_MSG_DELEGATE:
      if (!dmi_is_kind(msg->pass.kind) || msg->origin == core->self ||
          !dmi_fetch_any(msg->pass.fetch))
        return false;
      if (!origin_left(core, msg)) dmi_delegate_arrives(core, page, msg, out);
      break;
    case DMI_MSG_BLOCK:
      good = dmi_block_arrives(core, page, from, msg, out);
      break;
    case DMI_MSG_GRANT:
      good = dmi_owner_grant_arrives(core, page, from, msg, out);
      break;
    case DMI_MSG_INVALIDATED:
    case DMI_MSG_UPDATED:
      dmi_owner_ack(core, page, from, msg, out);
      break;
    case DMI_MSG_UPDATE:
      if (!update_valid(page, msg)) return false;
      dmi_copy_message(core, page, from, msg, out);
      break;
    case DMI_MSG_INVALIDATE:
    case DMI_MSG_RELEASE:
      dmi_copy_message(core, page, from, msg, out);
      break;
    default:
      return false;
  }
  if (!good) return false;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  dmi_page_rest(core, page);
  return true;
}

/* ---- Freed mappings, R10 -------------------------------------------------------------------- */

void dmi_page_kill(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_req *req;
  page->flags |= DMI_PAGE_DEAD;
  page->flags &= (uint16_t)~DMI_PAGE_NODATA;
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
      fail.fetch = msg->pass.fetch;
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
