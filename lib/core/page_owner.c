/*
 * page_owner.c - the owner's side: the queue (R3), writes (R4), moving ownership (R5).
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/rmw.h"
#include "core/syncop.h"

/* ---- Operations of others ------------------------------------------------------------------- */

struct dmi_req *dmi_req_of_message(struct dmi_msg *msg) {
  struct dmi_req *req = dmi_xalloc(1, sizeof(*req));
  switch (msg->type) {
    case DMI_MSG_GET:
    case DMI_MSG_PUT:
      req->type = msg->type == DMI_MSG_GET ? DMI_REQ_GET : DMI_REQ_PUT;
      req->op = msg->access.op;
      req->off = msg->access.off;
      req->len = msg->access.len;
      req->ranges = msg->access.ranges;
      break;
    case DMI_MSG_READ:
      req->type = DMI_REQ_READ;
      req->fetch = msg->read.fetch;
      req->kind = (uint8_t)msg->read.kind;
      req->flags = msg->flags & DMI_F_DIRECT;
      break;
    case DMI_MSG_ATOMIC:
      req->type = DMI_REQ_ATOMIC;
      req->op = msg->atomic.op;
      req->off = msg->atomic.off;
      req->len = msg->atomic.len;
      req->kind = (uint8_t)msg->atomic.rmw;
      req->tag = (int8_t)msg->atomic.tag;
      memcpy(&req->sizes, msg->list.ptr, sizeof(req->sizes));
      break;
    default:
      req->type = DMI_REQ_OWN;
      req->flags = msg->flags & (DMI_F_HAVE | DMI_F_NODATA);
      req->have = msg->own.version;
  }
  req->foreign = true;
  req->origin = msg->origin;
  req->src = msg->body;
  dmi_slice_drop(&msg->list);
  return req;
}

void dmi_queue_message(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                       struct dmi_out *out) {
  dmi_req_push(&dmi_page_busy(page)->queue, dmi_req_of_message(msg));
  dmi_queue_run(core, page, out);
}

void dmi_req_free(struct dmi_req *req) {
  dmi_slice_drop(&req->src);
  free(req);
}

void dmi_req_fail(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req, int error,
                  struct dmi_out *out) {
  struct dmi_msg msg;
  if (!req->foreign) {
    dmi_out_complete(out, req, error);
    return;
  }
  if (req->type != DMI_REQ_OWN) {
    msg = dmi_msg_about(core, page, DMI_MSG_FAIL);
    msg.origin = req->origin;
    msg.fail = (struct dmi_msg_fail){.op = req->op, .error = (uint64_t)error};
    if (req->type == DMI_REQ_READ) msg.fail.fetch = req->fetch;
    dmi_out_send(out, req->origin, &msg);
  }
  dmi_req_free(req);
}

void dmi_msg_carries(struct dmi_msg *msg, const struct dmi_req *req) {
  switch (msg->type) {
    case DMI_MSG_READ:
      msg->read = (struct dmi_msg_read){.fetch = req->fetch, .kind = req->kind};
      break;
    case DMI_MSG_OWN:
      msg->own.version = req->have;
      break;
    case DMI_MSG_ATOMIC:
      msg->atomic = (struct dmi_msg_atomic){
          .op = req->op, .off = req->off, .len = req->len, .rmw = req->kind, .tag = req->tag};
      msg->list = dmi_slice_xcopy(&req->sizes, sizeof(req->sizes));
      break;
    default: /* GET, PUT */
      msg->access = (struct dmi_msg_access){
          .op = req->op, .off = req->off, .len = req->len, .ranges = req->ranges};
  }
}

struct dmi_msg dmi_msg_of_req(const struct dmi_core *core, const struct dmi_page *page,
                              const struct dmi_req *req) {
  static const uint8_t types[] = {[DMI_REQ_GET] = DMI_MSG_GET,
                                  [DMI_REQ_READ] = DMI_MSG_READ,
                                  [DMI_REQ_PUT] = DMI_MSG_PUT,
                                  [DMI_REQ_ATOMIC] = DMI_MSG_ATOMIC,
                                  [DMI_REQ_OWN] = DMI_MSG_OWN};
  struct dmi_msg msg = dmi_msg_about(core, page, types[req->type]);
  msg.origin = req->origin;
  msg.flags = req->flags;
  msg.body = req->src;
  dmi_msg_carries(&msg, req);
  return msg;
}

/* Passes a queued request of another process on as R1 says for a process without a role, so to the
 * home.  Not to the new owner: it may have an OWN in its queue already, and so may the next one,
 * and the request would run after the ownership for ever.  What the home sends to the tail is there
 * before any OWN. */
static void pass_on(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                    struct dmi_out *out) {
  uint32_t home = atomic_load(&page->map->home);
  struct dmi_msg msg = dmi_msg_of_req(core, page, req);
  if (req->type == DMI_REQ_OWN) { /* a second one comes from a faulty home only */
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

/* Puts [off, off + len) of the page, or the flag that it is zero, into a message. */
static void attach_bytes(struct dmi_page *page, uint64_t off, uint64_t len, struct dmi_msg *msg) {
  if (page->frame && len) {
    msg->body = dmi_slice_of(page->frame, off, len);
  } else {
    msg->flags |= DMI_F_ZERO;
  }
}

/* ---- Writes, R4 ----------------------------------------------------------------------------- */

/* Whose copy is brought up to date by the answer, so that nobody tells it; 0: nobody's. */
static uint32_t writer_of(const struct dmi_core *core, const struct dmi_req *req) {
  bool told = req->type == DMI_REQ_ATOMIC && dmi_syncop_may_wait(req->kind) &&
              !DMI_BROKEN(core, DMI_BREAK_TOLD);
  return told ? 0 : req->origin;
}

void dmi_atomic_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                       dmi_version_t version, struct dmi_frame *answer, const unsigned char *apply,
                       struct dmi_out *out) {
  struct dmi_msg msg;
  if (!req->foreign) {
    memcpy(req->dst, answer->bytes, req->sizes.in);
    dmi_frame_unref(answer);
    dmi_out_complete(out, req, DMI_OK);
    return;
  }
  msg = dmi_msg_about(core, page, DMI_MSG_DONE);
  msg.origin = req->origin;
  msg.done = (struct dmi_msg_done){.op = req->op, .version = version, .answer = req->sizes.in};
  if (apply) { /* behind the answer, since the writer has a copy to change */
    struct dmi_frame *both = dmi_frame_new(req->sizes.in + req->len);
    if (!both) dmi_xalloc_fail(req->sizes.in + req->len);
    memcpy(both->bytes, answer->bytes, req->sizes.in);
    memcpy(both->bytes + req->sizes.in, apply, req->len);
    dmi_frame_unref(answer);
    answer = both;
    msg.flags |= DMI_F_APPLY;
  }
  msg.body = (struct dmi_slice){answer, answer->bytes, answer->size};
  dmi_out_send(out, req->origin, &msg);
  dmi_req_free(req);
}

/* A write is answered, or an operation that has done its write begins to wait. */
static void write_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         const struct dmi_slice *bytes, struct dmi_frame *answer, bool wrote,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  bool told = writer_of(core, req) == 0;
  bool apply = wrote && !told && dmi_copyset_find(busy, req->origin) != NULL;
  dmi_version_t version = wrote && !told ? page->version : (dmi_version_t){0};
  struct dmi_msg msg;
  if (req->type == DMI_REQ_ATOMIC && dmi_syncop_is_wait(req->kind)) {
    dmi_req_push(&busy->waiting_ops, req);
  } else if (answer) {
    dmi_atomic_answer(core, page, req, version, answer, apply ? bytes->ptr : NULL, out);
  } else if (!req->foreign) {
    dmi_out_complete(out, req, DMI_OK);
  } else {
    msg = dmi_msg_about(core, page, DMI_MSG_DONE);
    msg.origin = req->origin;
    msg.done = (struct dmi_msg_done){.op = req->op, .version = version};
    if (apply) msg.flags |= DMI_F_APPLY;
    dmi_out_send(out, req->origin, &msg);
    dmi_req_free(req);
  }
}

/* Step 2: the write takes effect.  `bytes` are the new ones. */
static void write_effect(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_slice *bytes, struct dmi_frame *answer, bool wrote,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  if (wrote) {
    bool whole = req->off == 0 && req->len == page->map->page_size; /* a list never is */
    if (whole && bytes->frame && bytes->frame->size == req->len) {
      dmi_page_bytes(core, page, dmi_frame_ref(bytes->frame));
    } else {
      if (!dmi_page_own_frame(core, page, whole, true)) dmi_xalloc_fail(page->map->page_size);
      dmi_ranges_write(bytes->ptr, req->ranges, req->off, req->len, page->frame->bytes);
    }
    page->version = dmi_version_next(page->version);
    page->flags &= (uint16_t)~DMI_PAGE_NODATA;
    if (page->flags & DMI_PAGE_SPILLED) dmi_reserve_overwritten(core, page);
    for (uint32_t i = 0; i < busy->holders; i++) {
      struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_RELEASE);
      if (busy->holder[i].uid == writer_of(core, req) || busy->holder[i].kind != DMI_KIND_UPDATE) {
        continue;
      }
      msg.copy.version = page->version;
      dmi_out_send(out, busy->holder[i].uid, &msg);
    }
    /* Before the writer: who was waiting has been so for longer. */
    dmi_page_wait_look(core, page, req->ranges ? 0 : req->off,
                       req->ranges ? page->map->page_size : req->len, out);
  }
  write_answer(core, page, req, bytes, answer, wrote, out);
  dmi_slice_drop(bytes);
}

/* Step 1: tells the copies.  Returns how many acknowledgements are to come. */
static uint32_t tell_copies(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                            struct dmi_slice *bytes, struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  uint32_t acks = 0;
  for (uint32_t i = busy->holders; i-- > 0;) {
    struct dmi_sharer *holder = &busy->holder[i];
    uint32_t uid = holder->uid;
    struct dmi_msg msg;
    if (!core->is_member(core->arg, uid)) {
      dmi_copyset_remove(busy, holder);
      continue;
    }
    if (uid == writer_of(core, req)) continue;
    if (holder->kind == DMI_KIND_INVALIDATE) {
      dmi_copyset_remove(busy, holder);
      if (DMI_BROKEN(core, DMI_BREAK_INVALIDATE)) continue;
      msg = dmi_msg_about(core, page, DMI_MSG_INVALIDATE);
      msg.copy.version = dmi_version_next(page->version);
    } else {
      msg = dmi_msg_about(core, page, DMI_MSG_UPDATE);
      msg.update = (struct dmi_msg_update){.version = dmi_version_next(page->version),
                                           .off = req->off,
                                           .len = req->len,
                                           .ranges = req->ranges};
      msg.body =
          dmi_slice_of(bytes->frame, (uint64_t)(bytes->ptr - bytes->frame->bytes), bytes->len);
    }
    dmi_out_send(out, uid, &msg);
    acks++;
  }
  return acks;
}

/* The new bytes of a write that is about to begin.  Returns DMI_OK, or why it cannot. */
static int new_bytes(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     struct dmi_slice *bytes, struct dmi_frame **answer, bool *wrote) {
  struct dmi_frame *scratch;
  int error = DMI_OK;
  *answer = NULL;
  *wrote = true;
  if (req->type == DMI_REQ_PUT || req->type == DMI_REQ_EXCL) {
    bool shared = page->busy && page->busy->holders;
    if (req->src.frame) {
      *bytes = req->src;
      dmi_frame_ref(bytes->frame);
    } else if (shared) {
      *bytes = dmi_slice_copy(req->src.ptr, req->src.len);
    } else {
      *bytes = req->src; /* borrowed, and used before this step ends */
    }
    return bytes->len && !bytes->ptr ? DMI_ENOMEM : DMI_OK;
  }
  scratch = dmi_frame_new_zero(req->len);
  *answer = dmi_frame_new_zero(req->sizes.in);
  if (!scratch || !*answer) {
    dmi_frame_unref(scratch);
    dmi_frame_unref(*answer);
    return DMI_ENOMEM;
  }
  if (page->frame) memcpy(scratch->bytes, page->frame->bytes + req->off, req->len);
  *bytes = (struct dmi_slice){scratch, scratch->bytes, req->len};
  switch (dmi_rmw_run(core, req, scratch->bytes, (*answer)->bytes)) {
    case DMI_RMW_DONE:
      break;
    case DMI_RMW_WAITS:
      if (!dmi_syncop_wait(req, (*answer)->bytes)) error = DMI_ENOMEM;
      dmi_frame_unref(*answer);
      *answer = NULL;
      break;
    case DMI_RMW_NO_FUNCTION:
      error = DMI_ENOFUNC;
      break;
    default:
      error = DMI_EINVAL;
  }
  if (error != DMI_OK) {
    dmi_slice_drop(bytes);
    dmi_frame_unref(*answer);
    return error;
  }
  if (page->frame) {
    *wrote = memcmp(scratch->bytes, page->frame->bytes + req->off, req->len) != 0;
  } else {
    *wrote = false;
    for (uint64_t i = 0; i < req->len && !*wrote; i++)
      *wrote = scratch->bytes[i] != 0;
  }
  return DMI_OK;
}

static void write_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  struct dmi_slice bytes;
  struct dmi_frame *answer;
  bool wrote;
  bool whole = req->off == 0 && req->len == page->map->page_size;
  int error = new_bytes(core, page, req, &bytes, &answer, &wrote);
  /* A whole page in a frame takes the place of the old bytes.  Otherwise: with copies about, those
   * are still read here until the write takes effect. */
  bool replaces = whole && error == DMI_OK && bytes.frame && bytes.frame->size == req->len;
  if (error == DMI_OK && wrote && !replaces &&
      !dmi_page_own_frame(core, page, whole && !busy->holders, false)) {
    dmi_slice_drop(&bytes);
    dmi_frame_unref(answer);
    error = DMI_ENOMEM;
  }
  if (error != DMI_OK) {
    dmi_req_fail(core, page, req, error, out);
    return;
  }
  busy->acks = wrote ? tell_copies(core, page, req, &bytes, out) : 0;
  if (busy->acks && !DMI_BROKEN(core, DMI_BREAK_ACK_WAIT)) {
    busy->current = req;
    busy->bytes = bytes;
    busy->answer = answer;
  } else {
    write_effect(core, page, req, &bytes, answer, wrote, out);
  }
}

void dmi_owner_ack(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                   const struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_req *req;
  if (!busy || !busy->current ||
      !dmi_version_is(msg->copy.version, dmi_version_next(page->version)))
    return;
  if (msg->type == DMI_MSG_UPDATED && (msg->flags & DMI_F_DROPPED)) {
    struct dmi_sharer *holder = dmi_copyset_find(busy, from);
    if (holder) dmi_copyset_remove(busy, holder);
  }
  if (--busy->acks) return;
  req = busy->current;
  busy->current = NULL;
  write_effect(core, page, req, &busy->bytes, busy->answer, true, out);
  busy->answer = NULL;
  dmi_queue_run(core, page, out);
}

/* ---- Moving ownership, R5 ------------------------------------------------------------------- */

/* What waits behind the OWN is passed on; own operations begin anew. */
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
  } else if (req->flags & DMI_F_NODATA) {
    msg.flags |= DMI_F_NODATA;
  } else if (!page->frame) {
    msg.flags |= DMI_F_ZERO;
  } else {
    msg.body = dmi_slice_of(page->frame, 0, page->map->page_size);
  }
  dmi_page_wait_move(core, page, to, out);
  dmi_out_send(out, to, &msg);
  busy->holders = 0;
  dmi_page_bytes(core, page, NULL);
  page->floor = page->version;
  page->hint = to;
  page->flags &= (uint16_t)~DMI_PAGE_OFFERED;
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
                             struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_page_busy *busy;
  struct dmi_delegated_read *delegated;
  struct dmi_req *req;
  (void)from;
  if (!grant_valid(page, msg)) return false;
  busy = dmi_page_busy(page);
  if (!(msg->flags & DMI_F_HAVE)) {
    dmi_page_bytes(core, page, msg->body.frame);
    msg->body.frame = NULL;
  }
  if (msg->flags & DMI_F_NODATA) page->flags |= DMI_PAGE_NODATA;
  page->version = msg->grant.version;
  page->copy = 0;
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  dmi_set_role(core, page, DMI_ROLE_OWNER);
  delegated = dmi_fetch_end(busy);
  dmi_copyset_unpack(core, busy, &msg->list);
  while ((req = dmi_req_pop(&busy->waiters))) {
    if (dmi_page_readable(core, page)) {
      dmi_own_serve(req, page->frame, out);
    } else {
      dmi_req_push(&busy->queue, req);
    }
  }
  dmi_queue_run(core, page, out);
  dmi_delegated_end(core, page, delegated, out);
  if (page->role == DMI_ROLE_OWNER) dmi_page_give(core, page, atomic_load(&core->heir), out);
  return true;
}

/* ---- The queue, R3 -------------------------------------------------------------------------- */

static void answer_read(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out) {
  struct dmi_msg msg;
  if (!req->foreign) {
    dmi_own_serve(req, page->frame, out);
    return;
  }
  if (req->type == DMI_REQ_GET) {
    msg = dmi_msg_about(core, page, DMI_MSG_GOT);
    msg.got = (struct dmi_msg_got){.op = req->op, .len = req->len};
    if (!req->ranges || !page->frame) {
      attach_bytes(page, req->off, req->len, &msg);
    } else if (!dmi_ranges_gather(req->src.ptr, req->ranges, req->len, page->frame->bytes,
                                  &msg.body)) {
      dmi_req_fail(core, page, req, DMI_ENOMEM, out);
      return;
    }
  } else if (dmi_delegate_decide(core, page, req, out)) {
    return;
  } else {
    msg = dmi_msg_about(core, page, DMI_MSG_DATA);
    msg.data =
        (struct dmi_msg_data){.fetch = req->fetch, .kind = req->kind, .version = page->version};
    attach_bytes(page, 0, page->map->page_size, &msg);
  }
  msg.origin = req->origin;
  dmi_out_send(out, req->origin, &msg);
  dmi_req_free(req);
}

/* The operation that runs now, taken out of the queue.  NULL: none, or its head stalls (R12) and
 * nothing may pass it. */
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

void dmi_queue_run(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_req *req;
  while (page->role == DMI_ROLE_OWNER && page->busy && !page->busy->current &&
         (req = next(core, page, out))) {
    switch (req->type) {
      case DMI_REQ_GET:
      case DMI_REQ_READ:
        answer_read(core, page, req, out);
        break;
      case DMI_REQ_OWN:
        if (req->origin == core->self) {
          dmi_req_free(req); /* we are the owner already */
        } else {
          grant(core, page, req, out);
        }
        break;
      default:
        if (req->type == DMI_REQ_ATOMIC && dmi_syncop_is_wait(req->kind)) {
          dmi_page_wait_begin(core, page, req, out);
        } else {
          write_begin(core, page, req, out);
        }
    }
  }
}
