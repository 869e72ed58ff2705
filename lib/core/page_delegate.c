/*
 * page_delegate.c - delegated reads: a process that has a copy, or is receiving one, sends the page
 * to a reader (R13).
 *
 * The owner chooses a delegate (dmi_delegate_decide). The delegate sends its copy, lets the READ
 * wait for its own fetch, or sends it back to the owner with DIRECT.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

/* A delegated read that waits here for this process's fetch. */
struct dmi_delegated_read {
  struct dmi_delegated_read *next;
  uint32_t origin;       /* uid */
  uint8_t kind;          /* DMI_KIND_* */
  dmi_fetch_t fetch;     /* number of the origin's fetch */
  dmi_version_t version; /* the page's version when the owner decided */
  uint64_t sent;         /* bytes of the page that were sent as BLOCKs */
};

/* ---- At the owner --------------------------------------------------------------------------- */

bool dmi_delegate_decide(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  struct dmi_sharer *sharer = NULL;
  struct dmi_msg msg;
  bool direct = (req->flags & DMI_F_DIRECT) && !DMI_BROKEN(core, DMI_BREAK_DIRECT);
  uint32_t depth = 1;
  bool near;
  /* we are the owner, so it is not needed, and nobody waits */
  if (req->origin == core->self) return false;
  near = dmi_is_near(core, req->origin);
  if (!direct && !near && page->frame) sharer = dmi_copyset_choose(core, page, req->origin);
  if (sharer) {
    msg = dmi_msg_about(core, page, DMI_MSG_DELEGATE);
    msg.origin = req->origin;
    msg.delegate = (struct dmi_msg_delegate){
        .fetch = req->fetch, .kind = req->kind, .version = page->version, .after = sharer->fetch};
    dmi_out_send(out, sharer->uid, &msg);
    sharer->children++;
    depth = sharer->depth + 1;
  }
  if (!sharer || !DMI_BROKEN(core, DMI_BREAK_DECIDE)) {
    struct dmi_sharer *reader = dmi_copyset_add(busy, req->origin, req->kind);
    reader->depth = depth;
    reader->fetch = req->fetch;
  }
  if (!sharer) {
    if (!near) busy->children++;
    return false;
  }
  dmi_req_free(req);
  return true;
}

/* ---- At the one chosen ---------------------------------------------------------------------- */

static struct dmi_msg answer(const struct dmi_core *core, const struct dmi_page *page,
                             const struct dmi_delegated_read *read, enum dmi_msg_type type) {
  struct dmi_msg msg = dmi_msg_about(core, page, type);
  msg.origin = read->origin;
  msg.flags = DMI_F_DELEGATED;
  return msg;
}

/* Sends the whole page; NULL: zeros. */
static void send_data(struct dmi_core *core, struct dmi_page *page,
                      const struct dmi_delegated_read *read, struct dmi_frame *frame,
                      struct dmi_out *out) {
  struct dmi_msg msg = answer(core, page, read, DMI_MSG_DATA);
  msg.data =
      (struct dmi_msg_data){.fetch = read->fetch, .kind = read->kind, .version = read->version};
  if (frame) {
    msg.body = dmi_slice_of(frame, 0, page->map->page_size);
  } else {
    msg.flags |= DMI_F_ZERO;
  }
  dmi_out_send(out, read->origin, &msg);
}

/* Sends on what has arrived, if `got` bytes of the page are here: whole blocks, and at the end
 * the rest. */
static void send_blocks(struct dmi_core *core, struct dmi_page *page,
                        struct dmi_delegated_read *read, struct dmi_frame *frame, uint64_t got,
                        struct dmi_out *out) {
  uint64_t block = core->block ? core->block : DMI_BLOCK;
  while (read->sent < got) {
    struct dmi_msg msg = answer(core, page, read, DMI_MSG_BLOCK);
    uint64_t len = got - read->sent;
    if (len > block) len = block;
    if (len < block && got < page->map->page_size) break;
    msg.block = (struct dmi_msg_block){
        .fetch = read->fetch, .kind = read->kind, .version = read->version, .off = read->sent};
    msg.body = dmi_slice_of(frame, read->sent, len);
    dmi_out_send(out, read->origin, &msg);
    read->sent += len;
  }
}

/* Sends the READ back to the owner, whichever process that is now. */
static void send_back(struct dmi_core *core, struct dmi_page *page,
                      const struct dmi_delegated_read *read, struct dmi_out *out) {
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_READ);
  msg.origin = read->origin;
  msg.read = (struct dmi_msg_read){.fetch = read->fetch, .kind = read->kind};
  msg.flags = DMI_F_DIRECT;
  dmi_request_arrives(core, page, core->self, &msg, out);
}

void dmi_delegate_arrives(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                          struct dmi_out *out) {
  struct dmi_delegated_read read = {.origin = msg->origin,
                                    .kind = (uint8_t)msg->delegate.kind,
                                    .fetch = msg->delegate.fetch,
                                    .version = msg->delegate.version};
  struct dmi_page_busy *busy = page->busy;
  bool has = page->copy && ((!(page->flags & DMI_PAGE_UNRELEASED) &&
                             dmi_version_is(page->version, msg->delegate.version)) ||
                            DMI_BROKEN(core, DMI_BREAK_DELEGATE));
  if (has) {
    send_data(core, page, &read, page->frame, out);
  } else if (busy && dmi_fetch_any(busy->fetch) &&
             (dmi_fetch_is(busy->fetch, msg->delegate.after) ||
              DMI_BROKEN(core, DMI_BREAK_AFTER))) {
    struct dmi_delegated_read *waits = dmi_xalloc(1, sizeof(*waits));
    struct dmi_delegated_read **end = &busy->delegated;
    *waits = read;
    while (*end)
      end = &(*end)->next;
    *end = waits;
  } else {
    send_back(core, page, &read, out);
  }
}

struct dmi_delegated_read *dmi_fetch_end(struct dmi_page_busy *busy) {
  struct dmi_delegated_read *delegated = busy->delegated;
  dmi_assembly_free(busy->blocks);
  busy->blocks = NULL;
  busy->delegated = NULL;
  busy->fetch = (dmi_fetch_t){0};
  return delegated;
}

static bool fits(const struct dmi_core *core, const struct dmi_delegated_read *read,
                 dmi_version_t version) {
  return dmi_version_is(read->version, version) || DMI_BROKEN(core, DMI_BREAK_DATA);
}

/* Ends the wait of one delegated read. */

static void answer_one(struct dmi_core *core, struct dmi_page *page,
                       struct dmi_delegated_read *read, const struct dmi_msg *data,
                       struct dmi_out *out) {
  if (!fits(core, read, data->data.version)) {
    send_back(core, page, read, out);
  } else if (read->sent && data->body.frame) {
    send_blocks(core, page, read, data->body.frame, page->map->page_size, out);
  } else {
    send_data(core, page, read, data->body.frame, out);
  }
}

static void end_one(struct dmi_core *core, struct dmi_page *page, struct dmi_delegated_read *read,
                    const struct dmi_msg *data, struct dmi_out *out) {
  (void)data;
  if (!DMI_BROKEN(core, DMI_BREAK_DELEGATED)) send_back(core, page, read, out);
}

static void fail_one(struct dmi_core *core, struct dmi_page *page, struct dmi_delegated_read *read,
                     const struct dmi_msg *data, struct dmi_out *out) {
  struct dmi_msg msg;
  (void)data;
  if (!out) return;
  msg = dmi_msg_about(core, page, DMI_MSG_FAIL);
  msg.origin = read->origin;
  msg.fail = (struct dmi_msg_fail){.fetch = read->fetch, .error = DMI_EADDR};
  dmi_out_send(out, read->origin, &msg);
}

static void end_all(struct dmi_core *core, struct dmi_page *page,
                    struct dmi_delegated_read *delegated, const struct dmi_msg *data,
                    struct dmi_out *out,
                    void (*end)(struct dmi_core *, struct dmi_page *, struct dmi_delegated_read *,
                                const struct dmi_msg *, struct dmi_out *)) {
  while (delegated) {
    struct dmi_delegated_read *next = delegated->next;
    end(core, page, delegated, data, out);
    free(delegated);
    delegated = next;
  }
}

void dmi_delegated_answer(struct dmi_core *core, struct dmi_page *page,
                          struct dmi_delegated_read *delegated, const struct dmi_msg *data,
                          struct dmi_out *out) {
  end_all(core, page, delegated, data, out, answer_one);
}

void dmi_delegated_end(struct dmi_core *core, struct dmi_page *page,
                       struct dmi_delegated_read *delegated, struct dmi_out *out) {
  end_all(core, page, delegated, NULL, out, end_one);
}

void dmi_delegated_fail(struct dmi_core *core, struct dmi_page *page,
                        struct dmi_delegated_read *delegated, struct dmi_out *out) {
  end_all(core, page, delegated, NULL, out, fail_one);
}

void dmi_delegated_forget(struct dmi_page_busy *busy) {
  while (busy->delegated) {
    struct dmi_delegated_read *next = busy->delegated->next;
    free(busy->delegated);
    busy->delegated = next;
  }
}

/* ---- While it arrives ----------------------------------------------------------------------- */

void dmi_delegated_part(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                        dmi_version_t version, uint64_t got, struct dmi_out *out) {
  for (struct dmi_delegated_read *read = page->busy->delegated; read; read = read->next) {
    if (fits(core, read, version)) send_blocks(core, page, read, frame, got, out);
  }
}

/* The frame of a DATA that is arriving. NULL: it is invalid, which is refused when it is complete.
 */
static struct dmi_frame *data_frame(const struct dmi_page *page, const struct dmi_msg *msg) {
  struct dmi_frame *frame = msg->body.frame;
  if (!frame || frame->size != page->map->page_size || msg->body.ptr != frame->bytes) return NULL;
  return msg->body.len == frame->size ? frame : NULL;
}

void dmi_page_part(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                   uint64_t off, uint64_t got, struct dmi_out *out) {
  const bool block = msg->type == DMI_MSG_BLOCK;
  const dmi_fetch_t fetch = block ? msg->block.fetch : msg->data.fetch;
  const uint64_t begins = block ? msg->block.off : 0;
  struct dmi_page_busy *busy = page->busy;
  struct dmi_frame *frame;
  if (!busy || !dmi_fetch_is(busy->fetch, fetch) || (page->flags & DMI_PAGE_DEAD)) return;
  frame = block ? dmi_assembly_frame(page, msg) : data_frame(page, msg);
  if (!frame || got > msg->body.len) return;
  dmi_early_part(page, frame, begins + off, begins + got);
  if (!block && busy->delegated && got < frame->size)
    dmi_delegated_part(core, page, frame, msg->data.version, got, out);
}
