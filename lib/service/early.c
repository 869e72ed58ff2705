/*
 * early.c - see early.h.
 *
 * The happy path: pieces of a DATA for the page are copied as they come; at the message's step all
 * bytes of the read have been copied, and the core completes it without copying.  A piece is copied
 * with the page locked and only while the read still waits.  So nothing is written to the buffer of
 * a read that was completed in another way (a GRANT, another DATA), and what completes it in
 * another way, or after the daemon has received some of the pieces, copies all bytes anew.
 */
#include "service/early.h"

#include <string.h>

#include "base/lock.h"

struct early {
  struct dmi_op *op; /* waited for; NULL: none */
  uint64_t copied;   /* bytes of the operation, of the message that is arriving */
  bool filled;       /* set in the operation for this step */
};

static __thread struct early early;

void dmi_early_begin(struct dmi_op *op) {
  early = (struct early){.op = op};
}

void dmi_early_end(void) {
  early.op = NULL;
}

static bool is_ours(const struct dmi_msg *msg) {
  return early.op && msg->type == DMI_MSG_DATA && msg->map == early.op->page->map->base &&
         msg->page == early.op->page->index;
}

void dmi_early_arrived(struct dmi_ops *ops, const struct dmi_msg *msg, const unsigned char *body,
                       uint64_t off, uint64_t len) {
  const struct dmi_req *req;
  struct dmi_page *page;
  uint64_t from, to;
  if (!is_ours(msg)) return;
  req = &early.op->req;
  page = early.op->page;
  if (off == 0) early.copied = 0;
  from = off > req->off ? off : req->off;
  to = off + len < req->off + req->len ? off + len : req->off + req->len;
  if (from >= to) return;
  dmi_lock(&page->lock);
  if (dmi_ops_waits(ops, early.op)) {
    memcpy((unsigned char *)req->dst + (from - req->off), body + from, to - from);
    early.copied += to - from;
  }
  dmi_unlock(&page->lock);
}

void dmi_early_step(struct dmi_ops *ops, const struct dmi_page *page, const struct dmi_msg *msg) {
  if (!is_ours(msg) || early.op->page != page) return;
  early.filled = early.copied == early.op->req.len && dmi_ops_waits(ops, early.op);
  if (early.filled) early.op->req.filled = true;
  early.copied = 0;
}

void dmi_early_stepped(void) {
  if (early.filled) early.op->req.filled = early.filled = false;
}
