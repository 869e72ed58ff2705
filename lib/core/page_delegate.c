/*
 * page_delegate.c - a page is sent to a reader by a process that has a copy, or is receiving one
 * (R13).
 *
 * The owner decides (dmi_delegate_decide); the one chosen sends its copy, lets the READ wait for
 * its own fetch, or sends it back to the owner with DIRECT.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

/* A READ of another process that waits here for this process's fetch. */
struct dmi_delegated_read {
  struct dmi_delegated_read *next;
  uint32_t origin;       /* uid */
  uint8_t kind;          /* DMI_KIND_* */
  dmi_fetch_t fetch;     /* the origin's */
  dmi_version_t version; /* at which it was decided */
  uint64_t sent;         /* bytes of the page that have gone as BLOCKs */
};

/* ---- At the owner --------------------------------------------------------------------------- */

bool dmi_delegate_decide(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out) {
  struct dmi_page_busy *busy = dmi_page_busy(page);
  struct dmi_sharer *sharer = NULL;
  struct dmi_msg msg;
  bool direct = (req->flags & DMI_F_DIRECT) && !DMI_BROKEN(core, DMI_BREAK_DIRECT);
  uint32_t depth = 1;
  if (req->origin == core->self) return false; /* needless since we own it; nobody waits */
  if (!direct && page->frame) sharer = dmi_copyset_choose(core, page, req->origin);
  if (sharer) {
    msg = dmi_msg_about(core, page, DMI_MSG_DELEGATE);
    msg.origin = req->origin;
    msg.pass = (struct dmi_msg_pass){
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
    busy->children++;
    return false;
  }
  dmi_req_free(req);
  return true;
}

/* ---- At the one chosen ---------------------------------------------------------------------- */

static struct dmi_msg answer(const struct dmi_core *core, const struct dmi_page *page,
                             const struct dmi_delegated_read *pass, enum dmi_msg_type type) {
  struct dmi_msg msg = dmi_msg_about(core, page, type);
  msg.origin = pass->origin;
  msg.flags = DMI_F_DELEGATED;
  return msg;
}

/* The whole page, NULL: zeros. */
static void send_data(struct dmi_core *core, struct dmi_page *page,
                      const struct dmi_delegated_read *pass, struct dmi_frame *frame,
                      struct dmi_out *out) {
  struct dmi_msg msg = answer(core, page, pass, DMI_MSG_DATA);
  msg.data =
      (struct dmi_msg_data){.fetch = pass->fetch, .kind = pass->kind, .version = pass->version};
  if (frame) {
    msg.body = dmi_slice_of(frame, 0, page->map->page_size);
  } else {
    msg.flags |= DMI_F_ZERO;
  }
  dmi_out_send(out, pass->origin, &msg);
}

/* What has come and has not been sent on, of a page of which `got` bytes are there: whole blocks,
 * and the rest when it is the end. */
static void send_blocks(struct dmi_core *core, struct dmi_page *page,
                        struct dmi_delegated_read *pass, struct dmi_frame *frame, uint64_t got,
                        struct dmi_out *out) {
  uint64_t block = core->block ? core->block : DMI_BLOCK;
  while (pass->sent < got) {
    struct dmi_msg msg = answer(core, page, pass, DMI_MSG_BLOCK);
    uint64_t len = got - pass->sent;
    if (len > block) len = block;
    if (len < block && got < page->map->page_size) break;
    msg.block = (struct dmi_msg_block){
        .fetch = pass->fetch, .kind = pass->kind, .version = pass->version, .off = pass->sent};
    msg.body = dmi_slice_of(frame, pass->sent, len);
    dmi_out_send(out, pass->origin, &msg);
    pass->sent += len;
  }
}

/* Back to the owner, wherever that is. */
static void send_back(struct dmi_core *core, struct dmi_page *page,
                      const struct dmi_delegated_read *pass, struct dmi_out *out) {
  struct dmi_msg msg = dmi_msg_about(core, page, DMI_MSG_READ);
  msg.origin = pass->origin;
  msg.read = (struct dmi_msg_read){.fetch = pass->fetch, .kind = pass->kind};
  msg.flags = DMI_F_DIRECT;
  dmi_request_arrives(core, page, core->self, &msg, out);
}

void dmi_delegate_arrives(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                          struct dmi_out *out) {
  struct dmi_delegated_read pass = {.origin = msg->origin,
                                    .kind = (uint8_t)msg->pass.kind,
                                    .fetch = msg->pass.fetch,
                                    .version = msg->pass.version};
  struct dmi_page_busy *busy = page->busy;
  bool has =
      page->copy &&
      ((!(page->flags & DMI_PAGE_UNRELEASED) && dmi_version_is(page->version, msg->pass.version)) ||
       DMI_BROKEN(core, DMI_BREAK_DELEGATE));
  if (has) {
    send_data(core, page, &pass, page->frame, out);
  } else if (busy && dmi_fetch_any(busy->fetch) &&
             (dmi_fetch_is(busy->fetch, msg->pass.after) || DMI_BROKEN(core, DMI_BREAK_AFTER))) {
    struct dmi_delegated_read *waits = dmi_xalloc(1, sizeof(*waits));
    struct dmi_delegated_read **end = &busy->delegated;
    *waits = pass;
    while (*end)
      end = &(*end)->next;
    *end = waits;
  } else {
    send_back(core, page, &pass, out);
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

static bool fits(const struct dmi_core *core, const struct dmi_delegated_read *pass,
                 dmi_version_t version) {
  return dmi_version_is(pass->version, version) || DMI_BROKEN(core, DMI_BREAK_DATA);
}

/* The ways in which the wait of one ends. */

static void answer_one(struct dmi_core *core, struct dmi_page *page,
                       struct dmi_delegated_read *pass, const struct dmi_msg *data,
                       struct dmi_out *out) {
  if (!fits(core, pass, data->data.version)) {
    send_back(core, page, pass, out);
  } else if (pass->sent && data->body.frame) {
    send_blocks(core, page, pass, data->body.frame, page->map->page_size, out);
  } else {
    send_data(core, page, pass, data->body.frame, out);
  }
}

static void end_one(struct dmi_core *core, struct dmi_page *page, struct dmi_delegated_read *pass,
                    const struct dmi_msg *data, struct dmi_out *out) {
  (void)data;
  if (!DMI_BROKEN(core, DMI_BREAK_DELEGATED)) send_back(core, page, pass, out);
}

static void fail_one(struct dmi_core *core, struct dmi_page *page, struct dmi_delegated_read *pass,
                     const struct dmi_msg *data, struct dmi_out *out) {
  struct dmi_msg msg;
  (void)data;
  if (!out) return;
  msg = dmi_msg_about(core, page, DMI_MSG_FAIL);
  msg.origin = pass->origin;
  msg.fail = (struct dmi_msg_fail){.fetch = pass->fetch, .error = DMI_EADDR};
  dmi_out_send(out, pass->origin, &msg);
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
  for (struct dmi_delegated_read *pass = page->busy->delegated; pass; pass = pass->next) {
    if (fits(core, pass, version)) send_blocks(core, page, pass, frame, got, out);
  }
}

void dmi_page_part(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *data,
                   uint64_t got, struct dmi_out *out) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_frame *frame = data->body.frame;
  if (!busy || !busy->delegated || !dmi_fetch_is(busy->fetch, data->data.fetch) ||
      (page->flags & DMI_PAGE_DEAD))
    return;
  /* What is not as it must be is refused when it is whole. */
  if (!frame || frame->size != page->map->page_size || data->body.ptr != frame->bytes) return;
  if (data->body.len != frame->size || got >= frame->size) return;
  dmi_delegated_part(core, page, frame, data->data.version, got, out);
}
