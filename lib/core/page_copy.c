/*
 * page_copy.c - at a process that does not own the page: its copy, and the answers to its requests
 * (R6).
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"
#include "core/ranges.h"

/* Raises the floor: older bytes in flight must not become a copy. */
static void raise_floor(struct dmi_page *page, dmi_version_t version) {
  if (!dmi_version_older(page->floor, version)) return;
  page->floor = version;
  if (page->busy && dmi_fetch_any(page->busy->fetch)) page->busy->poisoned = true;
}

static void drop_copy(struct dmi_core *core, struct dmi_page *page) {
  page->copy = 0;
  page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
  dmi_page_bytes(core, page, NULL);
}

void dmi_waiters_look(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out) {
  struct dmi_req_list all;
  struct dmi_req *req;
  if (!page->busy || !page->busy->waiters.first) return;
  all = page->busy->waiters;
  page->busy->waiters = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    if (dmi_fetch_is(req->fetch, page->busy->fetch)) {
      dmi_req_push(&page->busy->waiters, req);
    } else {
      dmi_own_begin(core, page, req, out);
    }
  }
}

/* Writes the bytes of a write into the copy: one range, or a list of `ranges`. */
static void take_bytes(const struct dmi_core *core, struct dmi_page *page,
                       const unsigned char *bytes, uint64_t ranges, uint64_t off, uint64_t len) {
  unsigned char *to = page->frame->bytes;
  if (ranges && DMI_BROKEN(core, DMI_BREAK_LIST)) {
    struct dmi_range first;
    memcpy(&first, bytes, sizeof(first));
    memcpy(to + first.off, bytes + ranges * sizeof(first), first.len);
  } else {
    dmi_ranges_write(bytes, ranges, off, len, to);
  }
}

/* True if this write is the next one after the bytes here. */
static bool is_next(const struct dmi_core *core, const struct dmi_page *page,
                    dmi_version_t version) {
  return dmi_version_is(dmi_version_next(page->version), version) ||
         (DMI_BROKEN(core, DMI_BREAK_GAP) && dmi_version_older(page->version, version));
}

/* R6 UPDATE.  False: there is no copy (any more). */
static bool update_copy(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_msg_update *update = &msg->update;
  bool fits = is_next(core, page, update->version);
  if (!page->copy || !fits ||
      !dmi_page_own_frame(core, page, update->len == page->map->page_size, false)) {
    drop_copy(core, page);
    raise_floor(page, update->version);
    return false;
  }
  take_bytes(core, page, msg->body.ptr, update->ranges, update->off, update->len);
  page->version = update->version;
  if (!DMI_BROKEN(core, DMI_BREAK_RELEASE)) page->flags |= DMI_PAGE_UNRELEASED;
  return true;
}

/* INVALIDATE, UPDATE, RELEASE */
bool dmi_copy_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_msg reply;
  bool owner = page->role == DMI_ROLE_OWNER;
  (void)own;
  switch (msg->type) {
    case DMI_MSG_INVALIDATE:
      reply = dmi_msg_about(core, page, DMI_MSG_INVALIDATED);
      reply.copy.version = msg->copy.version;
      if (!owner) {
        drop_copy(core, page);
        raise_floor(page, msg->copy.version);
      }
      break;
    case DMI_MSG_UPDATE:
      reply = dmi_msg_about(core, page, DMI_MSG_UPDATED);
      reply.copy.version = msg->update.version;
      if (owner || !update_copy(core, page, msg)) reply.flags |= DMI_F_DROPPED;
      break;
    default: /* RELEASE */
      if (!dmi_version_older(msg->copy.version, page->version))
        page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
      dmi_waiters_look(core, page, out);
      return true;
  }
  dmi_out_send(out, from, &reply);
  dmi_waiters_look(core, page, out);
  return true;
}

bool dmi_data_arrives(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                      struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_delegated_read *delegated;
  struct dmi_req_list all;
  struct dmi_req *req;
  bool zero = (msg->flags & DMI_F_ZERO) != 0;
  (void)own;
  if (!busy || !dmi_fetch_is(busy->fetch, msg->data.fetch)) return true;
  if (!dmi_is_kind(msg->data.kind)) return false;
  if (zero ? msg->body.len != 0
           : !msg->body.frame || msg->body.ptr != msg->body.frame->bytes ||
                 msg->body.len != page->map->page_size) {
    return false;
  }
  delegated = dmi_fetch_end(busy);
  if (from != core->self && !(msg->flags & DMI_F_DELEGATED)) page->hint = from;
  dmi_delegated_answer(core, page, delegated, msg, out);
  all = busy->waiters;
  busy->waiters = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    if (dmi_fetch_is(req->fetch, msg->data.fetch)) {
      dmi_early_serve(core, req, msg->body.frame, out);
    } else {
      dmi_req_push(&busy->waiters, req);
    }
  }
  if (page->role != DMI_ROLE_OWNER && !page->copy && !(page->flags & DMI_PAGE_FROZEN) &&
      (!dmi_version_older(msg->data.version, page->floor) || DMI_BROKEN(core, DMI_BREAK_FLOOR))) {
    page->copy = (uint8_t)msg->data.kind;
    page->version = msg->data.version;
    dmi_page_bytes(core, page, msg->body.frame);
    msg->body.frame = NULL;
  }
  return true;
}

/* R6 DONE, the part about this process's copy. `bytes`: the new ones of the range. */
static void done_copy(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                      const struct dmi_req *own, const unsigned char *bytes) {
  dmi_version_t version = msg->done.version;
  bool fits = is_next(core, page, version);
  if (page->role == DMI_ROLE_OWNER || !version.n) return;
  if (page->copy && dmi_version_older(page->version, version)) {
    if ((msg->flags & DMI_F_APPLY) && fits &&
        dmi_page_own_frame(core, page, own->len == page->map->page_size, false)) {
      take_bytes(core, page, bytes, own->ranges, own->off, own->len);
      page->version = version;
      /* This write is in effect; a RELEASE still in flight is for an older one. */
      page->flags &= (uint16_t)~DMI_PAGE_UNRELEASED;
    } else {
      drop_copy(core, page);
    }
  }
  raise_floor(page, version);
}

static bool done_arrives(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                         struct dmi_req *own) {
  const unsigned char *bytes = own->src.ptr;
  if (own->type != DMI_REQ_PUT && own->type != DMI_REQ_ATOMIC) return false;
  if (own->type == DMI_REQ_ATOMIC) {
    uint64_t want = own->sizes.in + ((msg->flags & DMI_F_APPLY) ? own->len : 0);
    if (msg->done.answer != own->sizes.in || msg->body.len != want || (want && !msg->body.ptr))
      return false;
    if (own->sizes.in) memcpy(own->dst, msg->body.ptr, own->sizes.in);
    bytes = msg->body.ptr + own->sizes.in;
  }
  if (dmi_counts_in_puts(own) && page->busy && page->busy->puts) page->busy->puts--;
  done_copy(core, page, msg, own, bytes);
  dmi_page_rest(core, page);
  return true;
}

void dmi_fetch_fails(struct dmi_core *core, struct dmi_page *page, int error, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  dmi_fetch_t fetch = busy->fetch;
  struct dmi_delegated_read *delegated = dmi_fetch_end(busy);
  struct dmi_req_list all = busy->waiters;
  struct dmi_req *req;
  busy->waiters = (struct dmi_req_list){NULL, NULL};
  while ((req = dmi_req_pop(&all))) {
    if (dmi_fetch_is(req->fetch, fetch)) {
      dmi_out_complete(out, req, error);
    } else {
      dmi_req_push(&busy->waiters, req);
    }
  }
  dmi_delegated_end(core, page, delegated, out);
}

/* Who answers owns the page, or did so just now. */
static void learn_owner(const struct dmi_core *core, struct dmi_page *page, uint32_t from) {
  if (from != core->self && page->role != DMI_ROLE_OWNER) page->hint = from;
}

static bool got_arrives(const struct dmi_msg *msg, struct dmi_req *own) {
  if (!dmi_is_read(own) || msg->got.len != own->len) return false;
  if (!(msg->flags & DMI_F_ZERO) && (msg->body.len != own->len || !msg->body.ptr)) return false;
  if (own->parts) {
    const unsigned char *bytes = msg->flags & DMI_F_ZERO ? NULL : msg->body.ptr;
    dmi_parts_take(own->part, own->parts, own->ranges ? NULL : &own->off, bytes, own->dst);
  } else if (msg->flags & DMI_F_ZERO) {
    memset(own->dst, 0, own->len);
  } else if (msg->body.ptr != own->dst) {
    memcpy(own->dst, msg->body.ptr, own->len);
  }
  return true;
}

bool dmi_page_only_ends(const struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_page_busy *busy = page->busy;
  return msg->type == DMI_MSG_GOT || (msg->type == DMI_MSG_DONE && (!busy || !busy->waiters.first));
}

bool dmi_page_ended(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                    const struct dmi_msg *msg, struct dmi_req *own) {
  bool good;
  learn_owner(core, page, from);
  good = msg->type == DMI_MSG_GOT ? got_arrives(msg, own) : done_arrives(core, page, msg, own);
  if (good) own->error = DMI_OK;
  return good;
}

/* GOT, DONE, FAIL */
bool dmi_answer_message(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                        struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  bool dead = (page->flags & DMI_PAGE_DEAD) != 0;
  if (msg->type == DMI_MSG_FAIL && !msg->fail.error) return false;
  if (msg->type == DMI_MSG_FAIL && dmi_fetch_any(msg->fail.fetch)) {
    if (page->busy && dmi_fetch_is(page->busy->fetch, msg->fail.fetch)) {
      dmi_fetch_fails(core, page, msg->fail.error, out);
    }
    return true;
  }
  if (!own) return true;
  if (msg->type == DMI_MSG_FAIL) {
    if (dmi_counts_in_puts(own) && page->busy && page->busy->puts) page->busy->puts--;
    dmi_out_complete(out, own, msg->fail.error);
    if (!dead) dmi_waiters_look(core, page, out);
    return true;
  }
  if (!dmi_page_ended(core, page, from, msg, own)) return false;
  dmi_out_complete(out, own, DMI_OK);
  if (msg->type == DMI_MSG_DONE) dmi_waiters_look(core, page, out);
  return true;
}
