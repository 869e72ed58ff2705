/*
 * page_wait.c - operations that wait at the owner until the bytes meet their condition (R11).
 *
 * They are in a list of the page, in the order in which they arrived, and cost nothing until a
 * write touches their range. core/syncop.c has their conditions.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"
#include "core/syncop.h"
#include "dmi_api.h"

/* Answers the operation, whose bytes are these now. */
static void finish(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                   const unsigned char *bytes, struct dmi_out *out) {
  struct dmi_frame *answer = dmi_frame_new(req->sizes.in);
  int error = answer ? dmi_syncop_answer(req, bytes, answer->bytes) : DMI_ENOMEM;
  if (error == DMI_OK) {
    dmi_atomic_answer(core, page, req, (dmi_version_t){0}, answer, NULL, out);
  } else {
    dmi_frame_unref(answer);
    dmi_req_fail(core, page, req, error, out);
  }
}

/* Is it not to wait any more?  A lock comes free: who holds it goes on until it ends. */
static bool is_over(const struct dmi_core *core, const struct dmi_req *req) {
  return atomic_load(&core->stopping) && dmi_syncop_is_wait(req->kind);
}

void dmi_page_wait_push(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out) {
  if (is_over(core, req)) {
    dmi_req_fail(core, page, req, DMI_EEND, out);
  } else {
    dmi_req_push(&dmi_page_busy(page)->waiting_ops, req);
  }
}

void dmi_page_wait_stop(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_req_list all;
  struct dmi_req *req;
  if (!page->busy || !page->busy->waiting_ops.first || (page->flags & DMI_PAGE_FROZEN)) return;
  all = page->busy->waiting_ops;
  page->busy->waiting_ops = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all)))
    dmi_page_wait_push(core, page, req, out);
  dmi_page_rest(core, page);
}

void dmi_page_wait_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out) {
  struct dmi_frame *zeros = page->frame ? NULL : dmi_frame_new_zero(req->len);
  const unsigned char *bytes = page->frame ? page->frame->bytes + req->off : NULL;
  if (zeros) bytes = zeros->bytes;
  if (!bytes) {
    dmi_req_fail(core, page, req, DMI_ENOMEM, out);
  } else if (!dmi_syncop_met(req, bytes)) {
    dmi_page_wait_push(core, page, req, out);
  } else {
    finish(core, page, req, bytes, out);
  }
  dmi_frame_unref(zeros);
}

static bool touches(const struct dmi_req *req, uint64_t off, uint64_t len) {
  return req->off < off + len && off < req->off + req->len;
}

void dmi_page_wait_look(struct dmi_core *core, struct dmi_page *page, uint64_t off, uint64_t len,
                        struct dmi_out *out) {
  struct dmi_req_list all;
  struct dmi_req *req;
  if (!page->busy || !page->busy->waiting_ops.first || DMI_BROKEN(core, DMI_BREAK_LOOK)) return;
  all = page->busy->waiting_ops;
  page->busy->waiting_ops = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    const unsigned char *bytes = page->frame->bytes + req->off;
    if (!dmi_syncop_lives(core, req->origin)) { /* nobody waits for it any more */
      dmi_req_free(req);
    } else if (!touches(req, off, len) || !dmi_syncop_met(req, bytes)) {
      dmi_req_push(&page->busy->waiting_ops, req);
    } else {
      finish(core, page, req, bytes, out);
    }
  }
}

void dmi_page_wait_move(struct dmi_core *core, struct dmi_page *page, uint32_t to,
                        struct dmi_out *out) {
  struct dmi_req *req;
  while ((req = dmi_req_pop(&page->busy->waiting_ops))) {
    struct dmi_msg msg;
    if (DMI_BROKEN(core, DMI_BREAK_MOVE)) {
      if (req->foreign) dmi_req_free(req);
      continue;
    }
    msg = dmi_msg_of_req(core, page, req);
    msg.flags |= DMI_F_WAITING;
    if (req->foreign) {
      free(req);
    } else { /* from now on it expects an answer */
      atomic_store_explicit(&req->sent, true, memory_order_relaxed);
      if (msg.body.frame) dmi_frame_ref(msg.body.frame);
    }
    dmi_out_send(out, to, &msg);
  }
}

void dmi_page_wait_arrives(struct dmi_page *page, struct dmi_msg *msg) {
  dmi_req_push(&dmi_page_busy(page)->waiting_ops, dmi_req_of_message(msg));
}
