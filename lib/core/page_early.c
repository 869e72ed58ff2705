/*
 * page_early.c - own reads get the bytes of a DATA or BLOCKs while they are arriving, so that each
 * byte is copied when it is in the cache (docs/protocol.md R13, "Read while arriving").
 *
 * What a read has is a range of one frame. It counts only if the fetch ends with that frame;
 * otherwise the read gets all bytes then.
 */
#include <string.h>

#include "core/page_int.h"

/* Copies what the read wants of bytes [from, to) of the page. */
static void copy(struct dmi_req *req, const struct dmi_frame *frame, uint64_t from, uint64_t to) {
  if (from < req->off) from = req->off;
  if (to > req->off + req->len) to = req->off + req->len;
  if (from < to)
    memcpy((unsigned char *)req->dst + (from - req->off), frame->bytes + from, to - from);
}

void dmi_early_part(struct dmi_page *page, const struct dmi_frame *frame, uint64_t from,
                    uint64_t to) {
  for (struct dmi_req *req = page->busy->waiters.first; req; req = req->next) {
    struct dmi_early *early = &req->early;
    if (!dmi_fetch_is(req->fetch, page->busy->fetch) || req->parts) continue;
    if (early->frame != frame || early->to != from)
      *early = (struct dmi_early){.frame = frame, .from = from};
    copy(req, frame, from, to);
    early->to = to;
  }
}

void dmi_early_forget(struct dmi_page *page) {
  for (struct dmi_req *req = page->busy->waiters.first; req; req = req->next)
    req->early.frame = NULL;
}

void dmi_early_serve(struct dmi_core *core, struct dmi_req *req, struct dmi_frame *frame,
                     struct dmi_out *out) {
  const struct dmi_early *early = &req->early;
  if (frame && (early->frame == frame || (early->frame && DMI_BROKEN(core, DMI_BREAK_EARLY)))) {
    copy(req, frame, 0, early->from);
    copy(req, frame, early->to, frame->size);
    dmi_out_complete(out, req, DMI_OK);
  } else {
    dmi_own_serve(req, frame, out);
  }
}
