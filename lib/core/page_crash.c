/*
 * page_crash.c - one page while the members recover from a loss: it freezes, absorbs the messages
 * in flight, reports what is here, and resumes as was decided (docs/crashes-pages.md).
 *
 * Between freeze and resume it sends nothing.
 */
#include "core/page_crash.h"

#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"
#include "core/promise.h"
#include "core/syncop.h"

/* ---- Without a lease ------------------------------------------------------------------------ */

void dmi_page_pause(struct dmi_page *page) {
  page->flags |= DMI_PAGE_PAUSED;
}

void dmi_page_unpause(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  if (!(page->flags & DMI_PAGE_PAUSED)) return;
  page->flags &= (uint16_t)~DMI_PAGE_PAUSED;
  if (!(page->flags & DMI_PAGE_FROZEN)) dmi_waiters_look(core, page, out);
  dmi_page_rest(core, page);
}

/* ---- Freeze --------------------------------------------------------------------------------- */

/* True if its origin must be told what became of it; others begin anew by themselves. */
static bool is_counted(const struct dmi_req *req) {
  return req->type == DMI_REQ_PUT || req->type == DMI_REQ_ATOMIC;
}

static void drop_requests(struct dmi_core *core, struct dmi_req_list *queue) {
  struct dmi_req_list all = *queue;
  struct dmi_req *req;
  *queue = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    if (!req->foreign) {
      dmi_req_push(queue, req);
      continue;
    }
    if (is_counted(req)) core->dropped(core->recover, req->origin, req->op);
    dmi_req_free(req);
  }
}

void dmi_page_freeze(struct dmi_core *core, struct dmi_page *page) {
  /* TAKE comes to nothing at those that are frozen, so the promise is there once more. */
  if (dmi_page_is_promised(page) && core->promises)
    dmi_promises_untaken(core->promises, page->hint, page->map->page_size);
  page->flags |= DMI_PAGE_FROZEN;
  page->flags &= (uint16_t) ~(DMI_PAGE_OFFERED | DMI_PAGE_STALLED);
  if (!page->busy) return;
  page->busy->away = 0;
  drop_requests(core, &page->busy->queue);
  dmi_delegated_forget(page->busy);
}

/* ---- Absorb --------------------------------------------------------------------------------- */

/* A request that its sender sent before its CUT. */
static bool absorb_request(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg) {
  if (!dmi_request_valid(page, msg)) return false;
  if (msg->type == DMI_MSG_ATOMIC && (msg->flags & DMI_F_WAITING)) {
    dmi_page_wait_arrives(page, msg);
    *msg = (struct dmi_msg){0}; /* its slices went on */
  } else if (msg->type == DMI_MSG_ATOMIC) {
    core->dropped(core->recover, msg->origin, msg->atomic.op);
  } else if (msg->type == DMI_MSG_PUT) {
    core->dropped(core->recover, msg->origin, msg->access.op);
  }
  return true;
}

/* DATA and BLOCK, which all other messages of their sender may overtake, also its CUT: they are of
 * a fetch that began before this process froze.  So they do not wait.  Else a BLOCK could be behind
 * one that waits when the next loss has made all channels uncut again. */
static bool is_bulk(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_DATA || msg->type == DMI_MSG_BLOCK;
}

bool dmi_page_absorb(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                     struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  bool good = true;
  if (core->is_cut(core->recover, from) && !is_bulk(msg)) {
    dmi_out_hold(out, from, msg);
    return true;
  }
  switch (msg->type) {
    case DMI_MSG_GOT:
    case DMI_MSG_DONE:
    case DMI_MSG_FAIL:
      good = dmi_answer_message(core, page, from, msg, own, out);
      break;
    case DMI_MSG_DATA: /* not kept */
      good = dmi_data_arrives(core, page, from, msg, own, out);
      break;
    case DMI_MSG_BLOCK:
      good = dmi_block_arrives(core, page, from, msg, own, out);
      break;
    case DMI_MSG_GRANT:
      if (DMI_BROKEN(core, DMI_BREAK_GRANT)) break;
      good = dmi_owner_grant_arrives(core, page, from, msg, own, out);
      break;
    case DMI_MSG_GET:
    case DMI_MSG_READ:
    case DMI_MSG_PUT:
    case DMI_MSG_ATOMIC:
    case DMI_MSG_OWN:
      good = absorb_request(core, page, msg);
      break;
    default: /* about copies, which are all dropped at RESUME */
      break;
  }
  if (!good) return false;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  dmi_page_rest(core, page);
  return true;
}

/* ---- What is here --------------------------------------------------------------------------- */

void dmi_page_held(struct dmi_core *core, struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  if (!busy) return;
  if (busy->current && busy->current->foreign)
    core->held(core->recover, busy->current->origin, busy->current->op);
  for (const struct dmi_req *req = busy->waiting_ops.first; req; req = req->next) {
    if (req->foreign) core->held(core->recover, req->origin, req->op);
  }
}

void dmi_page_op_away(struct dmi_page *page, const struct dmi_req *req) {
  if (dmi_counts_in_puts(req)) dmi_page_busy(page)->away++;
}

bool dmi_page_report(const struct dmi_core *core, const struct dmi_page *page,
                     struct dmi_page_report *report) {
  bool exact = !page->busy || !page->busy->away || DMI_BROKEN(core, DMI_BREAK_EXACT);
  *report = (struct dmi_page_report){
      .role = page->role, .eligible = page->copy && exact, .version = page->version};
  return page->role != DMI_ROLE_NONE || report->eligible;
}

/* ---- Resume: operations --------------------------------------------------------------------- */

/* True if it may be begun anew, whether it was done or not. */
static bool repeats(const struct dmi_req *req) {
  if (dmi_is_read(req) || dmi_is_revive(req)) return true;
  return req->type == DMI_REQ_ATOMIC && dmi_syncop_repeats(req->kind);
}

void dmi_page_op_resume(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        enum dmi_op_place place, struct dmi_out *out) {
  if (place == DMI_OP_HELD) return;
  if (dmi_counts_in_puts(req) && page->busy && page->busy->puts) page->busy->puts--;
  if (page->flags & DMI_PAGE_DEAD) { /* unmapped meanwhile: nobody would begin it anew */
    dmi_out_complete(out, req, DMI_EADDR);
  } else if (req->type == DMI_REQ_ATOMIC && req->kind == DMI_RMW_ROUND) {
    dmi_out_complete(out, req, DMI_EBROKEN);
  } else if (place == DMI_OP_DROPPED || repeats(req) || DMI_BROKEN(core, DMI_BREAK_BACK)) {
    atomic_store_explicit(&req->sent, false, memory_order_relaxed);
    req->fetch = (dmi_fetch_t){0};
    dmi_req_push(&dmi_page_busy(page)->waiters, req); /* until the page resumes */
  } else {
    dmi_out_complete(out, req, DMI_ELOST);
  }
}

/* ---- Resume: the page ----------------------------------------------------------------------- */

/* Operations of living processes that wait here: they stay, or fail, or, if the GRANT behind them
 * was lost, are sent to the owner by way of the home.  A LOCK runs again, before what is in the
 * queue, as its holder may be lost. */
static void resume_waits(struct dmi_core *core, struct dmi_page *page, bool promoted,
                         struct dmi_out *out) {
  struct dmi_req_list all = page->busy->waiting_ops, queue = page->busy->queue;
  struct dmi_req *req;
  page->busy->waiting_ops = page->busy->queue = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    struct dmi_msg msg;
    if (!dmi_syncop_lives(core, req->origin)) {
      dmi_req_free(req);
    } else if (page->flags & DMI_PAGE_LOST) {
      dmi_req_fail(core, page, req, DMI_ELOST, out);
    } else if (req->kind == DMI_RMW_ROUND && !DMI_BROKEN(core, DMI_BREAK_ROUND)) {
      dmi_req_fail(core, page, req, DMI_EBROKEN, out);
    } else if (page->role == DMI_ROLE_OWNER && req->kind == DMI_RMW_LOCK &&
               !DMI_BROKEN(core, DMI_BREAK_HOLDER)) {
      dmi_req_push(&page->busy->queue, req);
    } else if (page->role == DMI_ROLE_OWNER || !req->foreign || DMI_BROKEN(core, DMI_BREAK_WAITS)) {
      dmi_page_wait_push(core, page, req, out);
    } else {
      msg = dmi_msg_of_req(core, page, req);
      free(req);
      dmi_request_send(core, page, &msg, out);
    }
  }
  while ((req = dmi_req_pop(&queue)))
    dmi_req_push(&page->busy->queue, req);
  if (promoted && page->frame) dmi_page_wait_look(core, page, 0, page->map->page_size, out);
}

void dmi_page_forget_copy(struct dmi_core *core, struct dmi_page *page) {
  if (page->role == DMI_ROLE_OWNER) return;
  page->copy = 0;
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  page->version = (dmi_version_t){0};
  dmi_page_bytes(core, page, NULL);
}

static void resume_role(struct dmi_core *core, struct dmi_page *page,
                        const struct dmi_page_mark *mark) {
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  if (page->role == DMI_ROLE_OWNER) return;
  if (mark->promoted) {
    page->copy = 0;
    dmi_set_role(core, page, DMI_ROLE_OWNER);
    return;
  }
  dmi_page_forget_copy(core, page);
  if (!mark->lost) return;
  dmi_set_role(core, page, DMI_ROLE_OWNER);
  page->flags |= DMI_PAGE_LOST;
}

/* Forgets what was known about other processes. */
static void resume_fields(struct dmi_core *core, struct dmi_page *page,
                          const struct dmi_page_mark *mark) {
  page->flags &= (uint16_t) ~(DMI_PAGE_FROZEN | DMI_PAGE_LISTED);
  if (!DMI_BROKEN(core, DMI_BREAK_STALE_KEPT)) dmi_set_stale(core, page, false);
  page->hint = 0;
  if (!DMI_BROKEN(core, DMI_BREAK_FLOOR_KEPT)) page->floor = (dmi_version_t){0};
  if (mark->home) page->tail = mark->tail;
}

static void resume_busy(struct dmi_core *core, struct dmi_page *page, bool promoted,
                        struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_req_list all = busy->waiters;
  struct dmi_req *req;
  busy->waiters = (struct dmi_req_list){NULL, NULL};
  busy->away = 0;
  busy->holders = 0;
  (void)dmi_fetch_end(busy); /* nothing is delegated: a frozen process takes no DELEGATE */
  dmi_write_resume(core, page, out);
  resume_waits(core, page, promoted, out);
  if (page->role == DMI_ROLE_PENDING) dmi_own_send(core, page, false, out);
  while ((req = dmi_req_pop(&all)))
    dmi_own_begin(core, page, req, out);
  dmi_queue_run(core, page, out);
}

void dmi_page_resume(struct dmi_core *core, struct dmi_page *page, const struct dmi_page_mark *mark,
                     struct dmi_out *out) {
  bool promoted = page->role != DMI_ROLE_OWNER && mark->promoted;
  if (!(page->flags & DMI_PAGE_FROZEN)) return;
  if (page->flags & DMI_PAGE_DEAD) {
    page->flags &= (uint16_t)~DMI_PAGE_FROZEN;
    return;
  }
  resume_role(core, page, mark);
  resume_fields(core, page, mark);
  if (page->busy) {
    resume_busy(core, page, promoted, out);
  } else if (page->role == DMI_ROLE_PENDING) { /* it was offered, and nobody waits for it */
    dmi_own_send(core, page, false, out);
  }
  dmi_page_rest(core, page);
}
