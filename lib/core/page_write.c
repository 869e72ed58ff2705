/*
 * page_write.c - at the owner: a write is sent to the copies, takes effect, and is answered (R4).
 */
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"
#include "core/rmw.h"
#include "core/syncop.h"

/* The process whose copy the answer updates, so it gets no UPDATE; 0: none. */
static uint32_t writer_of(const struct dmi_core *core, const struct dmi_req *req) {
  bool told = req->type == DMI_REQ_ATOMIC && dmi_syncop_may_wait(req->kind) &&
              !DMI_BROKEN(core, DMI_BREAK_TOLD);
  return told ? 0 : req->origin;
}

void dmi_atomic_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                       dmi_version_t version, struct dmi_frame *answer, const unsigned char *apply,
                       struct dmi_out *out) {
  struct dmi_msg *msg;
  if (!req->foreign) {
    memcpy(req->dst, answer->bytes, req->sizes.in);
    dmi_frame_unref(answer);
    dmi_out_complete(out, req, DMI_OK);
    return;
  }
  msg = dmi_out_about(out, req->origin, core, page, DMI_MSG_DONE);
  msg->origin = req->origin;
  msg->done = (struct dmi_msg_done){.op = req->op, .version = version, .answer = req->sizes.in};
  if (apply) { /* after the answer, because the writer has a copy to change */
    struct dmi_frame *both = dmi_frame_new(req->sizes.in + req->len);
    if (!both) dmi_xalloc_fail(req->sizes.in + req->len);
    memcpy(both->bytes, answer->bytes, req->sizes.in);
    memcpy(both->bytes + req->sizes.in, apply, req->len);
    dmi_frame_unref(answer);
    answer = both;
    msg->flags |= DMI_F_APPLY;
  }
  msg->body = (struct dmi_slice){answer, answer->bytes, answer->size};
  dmi_req_free(req);
}

/* Answers a write; an ATOMIC without an answer begins to wait instead. */
static void write_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         const struct dmi_slice *bytes, struct dmi_frame *answer, bool wrote,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  bool told = writer_of(core, req) == 0;
  bool apply = wrote && !told && dmi_copyset_find(busy, req->origin) != NULL;
  dmi_version_t version = wrote && !told ? page->version : (dmi_version_t){0};
  struct dmi_msg *msg;
  if (req->type == DMI_REQ_ATOMIC && !answer) {
    dmi_page_wait_push(core, page, req, out);
  } else if (answer) {
    dmi_atomic_answer(core, page, req, version, answer, apply ? bytes->ptr : NULL, out);
  } else if (!req->foreign) {
    dmi_out_complete(out, req, DMI_OK);
  } else {
    msg = dmi_out_about(out, req->origin, core, page, DMI_MSG_DONE);
    msg->origin = req->origin;
    msg->done = (struct dmi_msg_done){.op = req->op, .version = version};
    if (apply) msg->flags |= DMI_F_APPLY;
    dmi_req_free(req);
  }
}

/* Step 2: the write takes effect.  `bytes` are the new ones. */
static void write_effect(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_slice *bytes, struct dmi_frame *answer, bool wrote,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  if (wrote) {
    bool whole = req->off == 0 && req->len == page->map->page_size; /* with a list, never */
    if (whole && bytes->frame && bytes->frame->size == req->len) {
      dmi_page_bytes(core, page, dmi_frame_ref(bytes->frame));
    } else {
      if (!dmi_page_own_frame(core, page, whole, true)) dmi_xalloc_fail(page->map->page_size);
      dmi_ranges_write(bytes->ptr, req->ranges, req->off, req->len, page->frame->bytes);
    }
    page->version = dmi_version_next(page->version);
    page->flags &= (uint16_t) ~(DMI_PAGE_NODATA | DMI_PAGE_LOST);
    if (page->flags & DMI_PAGE_SPILLED) dmi_reserve_overwritten(core, page);
    for (uint32_t i = 0; i < busy->holders; i++) {
      if (busy->holder[i].uid == writer_of(core, req) || busy->holder[i].kind != DMI_KIND_UPDATE) {
        continue;
      }
      dmi_out_about(out, busy->holder[i].uid, core, page, DMI_MSG_RELEASE)->copy.version =
          page->version;
    }
    /* Before the writer's own wait begins: the others have waited for longer. */
    dmi_page_wait_look(core, page, req->ranges ? 0 : req->off,
                       req->ranges ? page->map->page_size : req->len, out);
  }
  write_answer(core, page, req, bytes, answer, wrote, out);
  dmi_slice_drop(bytes);
}

/* Step 1: sends INVALIDATE or UPDATE to the copies. Returns how many acknowledgements are
 * expected. */
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

static int error_of(enum dmi_rmw_end end) {
  if (end == DMI_RMW_NO_FUNCTION) return DMI_ENOFUNC;
  return end == DMI_RMW_NO_OBJECT ? DMI_EINVAL : DMI_OK;
}

/* Computes the new bytes of a write that is about to begin. Returns DMI_OK, or why it cannot. */
static int new_bytes(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     struct dmi_slice *bytes, struct dmi_frame **answer, bool *wrote) {
  struct dmi_frame *scratch;
  enum dmi_rmw_end end;
  int error;
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
  end = dmi_rmw_run(core, page->busy ? page->busy->waiting_ops.first : NULL, req, scratch->bytes,
                    (*answer)->bytes);
  error = error_of(end);
  if (end == DMI_RMW_WAITS) {
    if (!dmi_syncop_wait(req, (*answer)->bytes)) error = DMI_ENOMEM;
    dmi_frame_unref(*answer);
    *answer = NULL;
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

void dmi_write_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  struct dmi_slice bytes;
  struct dmi_frame *answer;
  bool wrote;
  bool whole = req->off == 0 && req->len == page->map->page_size;
  int error = new_bytes(core, page, req, &bytes, &answer, &wrote);
  /* A frame with the whole page replaces the old bytes. Otherwise, if there are copies, reads
   * here get the old bytes until the write takes effect. */
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

/* ---- Without copies, at once ----------------------------------------------------------------- */

bool dmi_write_is_short(const struct dmi_page *page, const struct dmi_msg *msg) {
  struct dmi_rmw_sizes sizes;
  if (!page->frame || !dmi_frame_is_private(page->frame)) return false;
  if (msg->type == DMI_MSG_PUT) /* the frame of a whole page takes the place of the old one */
    return msg->access.ranges || msg->access.len != page->map->page_size;
  if (msg->type != DMI_MSG_ATOMIC || (msg->flags & DMI_F_WAITING)) return false;
  if (msg->list.len != sizeof(sizes) || msg->atomic.len > DMI_OUT_SPACE) return false;
  if (msg->atomic.rmw == DMI_RMW_REVIVE) return false;
  /* What waits is kept with its inputs, of which LOCK alone has none. */
  if (dmi_syncop_may_wait((uint8_t)msg->atomic.rmw) && msg->body.len) return false;
  memcpy(&sizes, msg->list.ptr, sizeof(sizes));
  return sizes.in <= DMI_OUT_SPACE && msg->body.len <= DMI_OUT_SPACE;
}

/* Memory for an answer of so many bytes, which are zero, in the message.  False: there is none. */
static bool take_space(struct dmi_out *out, uint64_t size, struct dmi_slice *answer) {
  if (out->space) {
    *answer = (struct dmi_slice){NULL, out->space, size};
  } else {
    struct dmi_frame *frame = dmi_frame_new(size);
    if (!frame) return false;
    *answer = (struct dmi_slice){frame, frame->bytes, size};
  }
  memset((unsigned char *)(uintptr_t)answer->ptr, 0, size);
  return true;
}

/* Runs an ATOMIC; *wrote: the page has changed.  DMI_function may change its inputs. */
static enum dmi_rmw_end atomic_at_once(const struct dmi_core *core, struct dmi_page *page,
                                       struct dmi_req *req, const struct dmi_slice *answer,
                                       bool *wrote) {
  _Alignas(16) unsigned char bytes[DMI_OUT_SPACE], input[DMI_OUT_SPACE];
  unsigned char *at = page->frame->bytes + req->off;
  enum dmi_rmw_end end;
  if (req->src.len) memcpy(input, req->src.ptr, req->src.len);
  req->src.ptr = input;
  memcpy(bytes, at, req->len);
  end = dmi_rmw_run(core, NULL, req, bytes, (unsigned char *)(uintptr_t)answer->ptr);
  *wrote = end == DMI_RMW_DONE && memcmp(bytes, at, req->len) != 0;
  if (*wrote) memcpy(at, bytes, req->len);
  return end;
}

bool dmi_write_at_once(const struct dmi_core *core, struct dmi_page *page,
                       const struct dmi_msg *msg, int *error, struct dmi_out *out) {
  struct dmi_slice answer = {NULL, NULL, 0};
  struct dmi_req req = {0};
  struct dmi_msg *done;
  bool wrote = true;
  dmi_req_fill(&req, msg);
  if (req.type == DMI_REQ_PUT) {
    dmi_ranges_write(req.src.ptr, req.ranges, req.off, req.len, page->frame->bytes);
  } else if (!take_space(out, req.sizes.in, &answer)) {
    *error = DMI_ENOMEM;
    return true;
  } else {
    enum dmi_rmw_end end = atomic_at_once(core, page, &req, &answer, &wrote);
    *error = error_of(end);
    if (end != DMI_RMW_DONE) {
      dmi_slice_drop(&answer);
      return end != DMI_RMW_WAITS;
    }
    out->space = NULL;
  }
  if (wrote) page->version = dmi_version_next(page->version);
  done = dmi_out_about(out, req.origin, core, page, DMI_MSG_DONE);
  done->origin = req.origin;
  done->done = (struct dmi_msg_done){.op = req.op, .answer = answer.len};
  if (wrote && writer_of(core, &req)) done->done.version = page->version;
  done->body = answer;
  return true;
}

/* A LOST page has no bytes and no copies, so nobody has to be told, and it takes no memory. */
void dmi_write_revive(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                      struct dmi_out *out) {
  bool lost = (page->flags & DMI_PAGE_LOST) != 0;
  struct dmi_frame *answer = dmi_frame_new_zero(req->sizes.in);
  if (!answer) {
    dmi_req_fail(core, page, req, DMI_ENOMEM, out);
    return;
  }
  if (DMI_BROKEN(core, DMI_BREAK_REVIVE) && page->frame) dmi_page_bytes(core, page, NULL);
  if (lost) {
    page->flags &= (uint16_t)~DMI_PAGE_LOST;
    page->version = dmi_version_next(page->version);
    answer->bytes[0] = 1;
  }
  dmi_atomic_answer(core, page, req, (dmi_version_t){0}, answer, NULL, out);
}

/* The write in progress takes effect. */
static void current_effect(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_req *req = busy->current;
  busy->current = NULL;
  write_effect(core, page, req, &busy->bytes, busy->answer, true, out);
  busy->answer = NULL;
}

void dmi_write_resume(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  page->busy->acks = 0;
  if (page->busy->current) current_effect(core, page, out);
}

/* INVALIDATED, UPDATED */
bool dmi_write_ack(struct dmi_core *core, struct dmi_page *page, uint32_t from, struct dmi_msg *msg,
                   struct dmi_req *own, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  (void)own;
  if (!busy || !busy->current ||
      !dmi_version_is(msg->copy.version, dmi_version_next(page->version)))
    return true;
  if (msg->type == DMI_MSG_UPDATED && (msg->flags & DMI_F_DROPPED)) {
    struct dmi_sharer *holder = dmi_copyset_find(busy, from);
    if (holder) dmi_copyset_remove(busy, holder);
  }
  if (--busy->acks) return true;
  current_effect(core, page, out);
  dmi_queue_run(core, page, out);
  return true;
}
