/*
 * access_receive.c - page messages that arrive: where their bodies go, and their steps.
 *
 * Runs in any thread that receives: the daemon, or one that waits and has borrowed the connection.
 */
#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/recover.h"
#include "core/rmw.h"
#include "core/syncop.h"

struct dmi_self_msg {
  struct dmi_self_msg *next;
  struct dmi_msg msg;
};

/* Finds the page of the own operation that this message answers, and its mapping, with a reference;
 * it may have been unmapped.  NULL: there is no such operation. */
static struct dmi_page *answered_page(struct dmi_access *access, const struct dmi_msg *msg,
                                      struct dmi_mapping **mapping) {
  struct dmi_page *page;
  dmi_op_t op;
  if (!dmi_msg_answers(msg, &op)) return NULL;
  page = dmi_ops_page(access->ops, op, mapping);
  if (!page || ((*mapping)->map.base == msg->map && page->index == msg->page)) return page;
  dmi_mapping_unref(&access->core, *mapping);
  return NULL;
}

/* The own operation that this message answers; NULL: none.  The page is locked. */
static struct dmi_op *answered(struct dmi_access *access, const struct dmi_page *page,
                               const struct dmi_msg *msg) {
  struct dmi_op *op;
  dmi_op_t number;
  if (!dmi_msg_answers(msg, &number)) return NULL;
  op = dmi_ops_find(access->ops, number, page);
  /* Another answer to it is just being received; this one does not count. */
  if (op && op->claimed && msg->body.ptr != op->req.dst) return NULL;
  return op;
}

/* The longest body that a message about a page of this size can have. */
static uint64_t body_limit(const struct dmi_msg *msg, uint64_t page_size) {
  uint64_t ranges = 0;
  if (msg->type == DMI_MSG_ATOMIC) { /* two inputs of its length, unless it runs DMI_function */
    if (msg->atomic.rmw == DMI_RMW_ARRIVE) return DMI_SYNC_ARRIVE_MOST;
    return msg->atomic.rmw == DMI_RMW_USER ? DMI_RMW_MOST : 2 * page_size;
  }
  if (msg->type == DMI_MSG_GET || msg->type == DMI_MSG_PUT) ranges = msg->access.ranges;
  if (msg->type == DMI_MSG_UPDATE) ranges = msg->update.ranges;
  /* Ranges are not empty, and there are bytes between them. */
  if (ranges > page_size / 2 + 1) return 0;
  return page_size + ranges * sizeof(struct dmi_range);
}

/* Where to receive the body of an answer: the caller's buffer, or, if NULL, new memory of at most
 * *limit bytes. */
static void *answer_body(struct dmi_access *access, const struct dmi_msg *msg, uint64_t *limit) {
  struct dmi_mapping *mapping;
  struct dmi_page *page = answered_page(access, msg, &mapping);
  struct dmi_op *op;
  void *dst = NULL;
  if (!page) return NULL;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  op = answered(access, page, msg);
  if (op && msg->type == DMI_MSG_GOT && op->req.len == msg->body.len && !op->req.parts &&
      (op->req.type == DMI_REQ_GET || op->req.type == DMI_REQ_READ)) {
    dst = op->req.dst;
    op->claimed = true;
  } else if (op && msg->type == DMI_MSG_DONE) {
    *limit = op->req.sizes.in + op->req.len;
  }
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_mapping_unref(&access->core, mapping);
  return dst;
}

/* The record of the page that a message is about, if there is one here.  Inside an epoch. */
static struct dmi_page *known_page(struct dmi_access *access, const struct dmi_msg *msg,
                                   struct dmi_mapping **mapping) {
  *mapping = dmi_space_find(&access->space, msg->map);
  if (!*mapping || (*mapping)->map.base != msg->map) return NULL;
  return msg->page < (*mapping)->map.page_num ? dmi_mapping_find(*mapping, msg->page) : NULL;
}

/* A BLOCK is received at its place in the frame that its fetch assembles. */
static void *block_body(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
  void *place = NULL;
  dmi_epoch_enter();
  page = known_page(access, msg, &mapping);
  if (page) {
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    place = dmi_page_block_body(&access->core, page, from, msg);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
  }
  dmi_epoch_leave();
  return place;
}

void dmi_access_arrived(struct dmi_access *access, const struct dmi_msg *msg, uint64_t off,
                        uint64_t got) {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
  struct dmi_out out;
  if (msg->type != DMI_MSG_DATA && msg->type != DMI_MSG_BLOCK) return;
  dmi_epoch_enter();
  page = known_page(access, msg, &mapping);
  if (page && !dmi_mapping_ref(mapping)) page = NULL;
  dmi_epoch_leave();
  if (!page) return;
  dmi_access_step_begin(page, &out);
  dmi_page_part(&access->core, page, msg, off, got, &out);
  dmi_access_step_end(access, page, &out);
  dmi_mapping_unref(&access->core, mapping);
}

void *dmi_access_body(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  uint64_t limit = 0, answer = 0;
  void *dst;
  if (msg->type == DMI_MSG_BLOCK) return block_body(access, from, msg);
  dst = answer_body(access, msg, &answer);
  if (dst) return dst;
  dmi_epoch_enter();
  mapping = dmi_space_find(&access->space, msg->map);
  if (mapping && mapping->map.base == msg->map) limit = mapping->map.page_size;
  dmi_epoch_leave();
  if (msg->type == DMI_MSG_DONE) {
    limit = answer;
  } else if (limit) {
    limit = body_limit(msg, limit);
  }
  if (msg->body.len > limit) return NULL;
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame ? msg->body.frame->bytes : NULL;
}

/* Answers a request that cannot be handled here with `error`. */
static bool refuse(struct dmi_access *access, uint32_t from, struct dmi_msg *msg, int32_t error) {
  struct dmi_msg reply;
  uint32_t to = dmi_page_unknown(from, msg, &reply);
  if (to && reply.type == DMI_MSG_FAIL) reply.fail.error = error;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  if (to == access->core.self) {
    dmi_access_post_self(access, &reply);
  } else if (to && dmi_net_send(access->net, to, &reply)) {
    dmi_net_flush(access->net, to);
  }
  return true;
}

/* True if there was no memory for the bytes of this request. */
static bool bytes_missing(const struct dmi_msg *msg) {
  return (msg->type == DMI_MSG_GET || msg->type == DMI_MSG_PUT || msg->type == DMI_MSG_ATOMIC) &&
         msg->body.len && !msg->body.ptr;
}

/* Checks the invariants of the page after a message of another process.  If one is broken, that
 * message did it: this catches what the checks of messages did not foresee.  GOT is left out, and a
 * request that is alone, as they change nothing that could break (a LOCK may begin to wait). */
static bool page_holds(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                       uint8_t type) {
  const char *what = dmi_page_wrong(&access->core, page);
  if (!what) return true;
  if (from == access->core.self) dmi_page_check(&access->core, page);
  dmi_say(access->stream, DMI_LOG_ERROR, "page",
          "message %u of member %u breaks page %llu of mapping %llx: %s", type, from,
          (unsigned long long)page->index, (unsigned long long)page->map->base, what);
  return false;
}

/* Copies a body that is valid only while it is handled. */
static void own_body(struct dmi_msg *msg) {
  if (!msg->borrowed) return;
  msg->borrowed = false;
  msg->body = dmi_slice_xcopy(msg->body.ptr, msg->body.len);
}

/* An answer that only ends this operation: it needs no list of actions.  The page is locked;
 * unlocks it. */
static bool ends(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                 struct dmi_msg *msg, struct dmi_op *op) {
  const bool good = dmi_page_ended(&access->core, page, from, msg, &op->req);
  const bool holds = msg->type == DMI_MSG_GOT || page_holds(access, page, from, msg->type);
  if (good) dmi_ops_remove(access->ops, op);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_slice_drop(&msg->body);
  if (good) dmi_access_op_complete(access, op);
  dmi_access_stepped(access);
  return good && holds;
}

/* The caller has a reference to the mapping. */
static bool page_message(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                         struct dmi_msg *msg) {
  struct dmi_out out;
  struct dmi_op *op;
  uint8_t type = msg->type;
  bool good, granted, at_once;
  _Alignas(16) unsigned char space[DMI_OUT_SPACE]; /* sent, which copies it, before this returns */
  struct dmi_trace_record record;
  const bool traced = dmi_trace_on(&access->trace) && from != access->core.self;
  if (traced) dmi_access_trace_message(&record, from, access->core.self, msg);
  if (type == DMI_MSG_ATOMIC && msg->atomic.rmw == DMI_RMW_USER)
    dmi_net_flush_gathered(access->net);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  at_once = dmi_page_at_once(page, msg);
  op = answered(access, page, msg);
  if (at_once && op && !traced && dmi_page_only_ends(page, msg))
    return ends(access, page, from, msg, op);
  dmi_out_init(&out);
  if (!at_once) own_body(msg);
  if (at_once) out.space = space;
  granted = type == DMI_MSG_GRANT && page->role == DMI_ROLE_PENDING;
  good = dmi_page_message(&access->core, page, from, msg, op ? &op->req : NULL, &out);
  if (type == DMI_MSG_DONE || (type != DMI_MSG_GOT && !at_once))
    good = page_holds(access, page, from, type) && good;
  if (granted && good) { /* even if the page has gone to the next owner already */
    dmi_emit(access->stream, page_taken, .mapping = page->map->base, .page = page->index,
             .bytes = page->map->page_size, .from = from);
  }
  (void)dmi_access_carry_locked(access, page, &out, NULL);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_access_carry_out(access, &out, NULL);
  if (!good) {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  if (traced && good) {
    record.kind = DMI_TRACE_RECEIVE;
    record.member = from;
    record.end = dmi_clock_ns();
    dmi_trace_put(&access->trace, &record);
  }
  return good;
}

/* About a mapping that is not known here, while this process recovers from a loss: it may be about
 * to become its home. */
static bool unknown_frozen(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  if (dmi_recover_unknown(access->core.recover, from, msg)) {
    own_body(msg);
    dmi_access_hold(access, from, msg);
  } else {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  return true;
}

bool dmi_access_message(struct dmi_access *access, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping;
  struct dmi_page *page = answered_page(access, msg, &mapping);
  int32_t error;
  bool good = true;
  if (!page) {
    dmi_epoch_enter();
    mapping = dmi_space_find(&access->space, msg->map);
    if (mapping && (mapping->map.base != msg->map || !dmi_mapping_ref(mapping))) mapping = NULL;
    dmi_epoch_leave();
  }
  if (!mapping && atomic_load(&access->core.frozen)) return unknown_frozen(access, from, msg);
  if (!mapping) return refuse(access, from, msg, DMI_EADDR);
  if (msg->page >= mapping->map.page_num) {
    good = false;
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  } else if (bytes_missing(msg)) {
    (void)refuse(access, from, msg, DMI_ENOMEM);
  } else if (page || (page = dmi_mapping_get(&access->core, mapping, msg->page, &error))) {
    good = page_message(access, page, from, msg);
  } else {
    (void)refuse(access, from, msg, error);
  }
  dmi_mapping_unref(&access->core, mapping);
  return good;
}

/* ---- Answers to this process itself --------------------------------------------------------- */

void dmi_access_post_self(struct dmi_access *access, const struct dmi_msg *msg) {
  struct dmi_self_msg *item = dmi_xalloc(1, sizeof(*item));
  item->msg = *msg;
  item->next = NULL;
  dmi_mutex_lock(&access->self_lock);
  *access->selfs_end = item;
  access->selfs_end = &item->next;
  dmi_net_post(access->net);
  dmi_mutex_unlock(&access->self_lock);
}

void dmi_access_self(struct dmi_access *access) {
  for (;;) {
    struct dmi_self_msg *item;
    dmi_mutex_lock(&access->self_lock);
    item = access->selfs;
    if (item && !(access->selfs = item->next)) access->selfs_end = &access->selfs;
    dmi_mutex_unlock(&access->self_lock);
    if (!item) return;
    (void)dmi_access_message(access, access->core.self, &item->msg);
    free(item);
  }
}

/* ---- What was held until all have recovered from a loss ---------------------------------------
 */

struct dmi_deferred_request *dmi_access_take_held(struct dmi_access *access) {
  struct dmi_deferred_request *held;
  dmi_mutex_lock(&access->deferred_lock);
  held = access->held;
  access->held = NULL;
  access->held_end = &access->held;
  dmi_mutex_unlock(&access->deferred_lock);
  return held;
}

void dmi_access_free_held(struct dmi_deferred_request *held) {
  while (held) {
    struct dmi_deferred_request *item = held;
    held = item->next;
    dmi_slice_drop(&item->msg.list);
    dmi_slice_drop(&item->msg.body);
    free(item);
  }
}
