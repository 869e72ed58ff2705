/*
 * early.c - see early.h.
 *
 * The happy path: pieces of a DATA for the page, or of its BLOCKs, are copied as they arrive.  At
 * the step of the last message all bytes of the read have been copied, and the core completes it
 * without copying.  A piece is copied with the page locked, and only while the read still waits. So
 * nothing is written to the buffer of a read that was completed in another way (by a GRANT, or
 * another DATA).  If it is completed in another way, or the daemon has received some of the pieces,
 * all bytes are copied again.
 */
#include "access/early.h"

#include <string.h>

#include "base/lock.h"

struct early {
  struct dmi_op *op; /* the read that this thread waits for; NULL: none */
  /* The DATA, or BLOCKs, that are arriving: */
  dmi_fetch_t fetch;
  dmi_version_t version;
  uint64_t next; /* bytes of the page, from its beginning, that have been handled */
  bool filled;   /* the operation was marked as filled for this step */
};

static __thread struct early early;

void dmi_early_begin(struct dmi_op *op) {
  early = (struct early){.op = op};
}

void dmi_early_end(void) {
  early.op = NULL;
}

static bool is_ours(const struct dmi_msg *msg) {
  return early.op && (msg->type == DMI_MSG_DATA || msg->type == DMI_MSG_BLOCK) &&
         msg->map == early.op->page->map->base && msg->page == early.op->page->index;
}

/* The fetch of a DATA or BLOCK. */
static dmi_fetch_t fetch_of(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_BLOCK ? msg->block.fetch : msg->data.fetch;
}

static dmi_version_t version_of(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_BLOCK ? msg->block.version : msg->data.version;
}

/* True if the message belongs to the fetch and version that is arriving. */
static bool goes_on(const struct dmi_msg *msg) {
  return dmi_fetch_is(early.fetch, fetch_of(msg)) && dmi_version_is(early.version, version_of(msg));
}

/* The offset in the page at which its body begins. */
static uint64_t begins(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_BLOCK ? msg->block.off : 0;
}

void dmi_early_arrived(struct dmi_ops *ops, const struct dmi_msg *msg, const unsigned char *body,
                       uint64_t off, uint64_t len) {
  const struct dmi_req *req;
  struct dmi_page *page;
  uint64_t from, to, at;
  if (!is_ours(msg)) return;
  at = begins(msg) + off;
  if (at == 0) {
    early.fetch = fetch_of(msg);
    early.version = version_of(msg);
    early.next = 0;
  }
  if (!goes_on(msg) || early.next != at) return;
  req = &early.op->req;
  page = early.op->page;
  from = at > req->off ? at : req->off;
  to = at + len < req->off + req->len ? at + len : req->off + req->len;
  if (from >= to) {
    early.next += len;
    return;
  }
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  if (dmi_ops_waits(ops, early.op)) {
    memcpy((unsigned char *)req->dst + (from - req->off), body + (from - begins(msg)), to - from);
    early.next += len;
  }
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
}

void dmi_early_step(struct dmi_ops *ops, const struct dmi_page *page, const struct dmi_msg *msg) {
  bool all;
  if (!is_ours(msg) || early.op->page != page) return;
  all = early.next == page->map->page_size && begins(msg) + msg->body.len == early.next;
  early.filled = all && goes_on(msg) && dmi_ops_waits(ops, early.op);
  if (early.filled) early.op->req.filled = true;
  if (all) early.next = 0;
}

void dmi_early_stepped(void) {
  if (early.filled) early.op->req.filled = early.filled = false;
}
