/*
 * access_carry.c - steps of a page: begins an operation, and carries out the actions that a step
 * decided.
 *
 * The happy path: messages are queued while the page is locked, so that they are in the order of
 * the steps.  After it is unlocked they are written to the sockets, and threads of complete
 * operations are woken.
 */
#include <stdlib.h>

#include "access/access_int.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "msg/wire.h"

_Static_assert(DMI_OUT_SPACE <= DMI_NET_COPY, "what lies there is copied when it is sent");
_Static_assert(sizeof(struct dmi_rmw_sizes) <= DMI_NET_COPY, "an operation may end before");

/* Defers a request for a home that is arriving.  If the home has arrived since the step, gives the
 * request to the core again. */
__attribute__((noinline)) static void defer(struct dmi_access *access, struct dmi_page *page,
                                            uint32_t from, struct dmi_msg *msg,
                                            struct dmi_out *out) {
  struct dmi_mapping *mapping = (struct dmi_mapping *)page->map;
  struct dmi_deferred_request *item = NULL;
  dmi_mutex_lock(&access->deferred_lock);
  if (atomic_load(&mapping->map.arriving)) {
    item = dmi_xalloc(1, sizeof(*item));
    item->from = from;
    item->msg = *msg;
    if (msg->list.len && !msg->list.frame) { /* borrowed from the connection that received it */
      item->msg.list = dmi_slice_xcopy(msg->list.ptr, msg->list.len);
    }
    item->next = NULL;
    *mapping->deferred_end = item;
    mapping->deferred_end = &item->next;
  }
  dmi_mutex_unlock(&access->deferred_lock);
  if (!item) dmi_page_message(&access->core, page, from, msg, NULL, out);
}

void dmi_access_hold(struct dmi_access *access, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_deferred_request *item = dmi_xalloc(1, sizeof(*item));
  item->from = from;
  item->msg = *msg;
  if (msg->list.len && !msg->list.frame) /* borrowed from the connection that received it */
    item->msg.list = dmi_slice_xcopy(msg->list.ptr, msg->list.len);
  dmi_mutex_lock(&access->deferred_lock);
  *access->held_end = item;
  access->held_end = &item->next;
  dmi_mutex_unlock(&access->deferred_lock);
}

/* A GRANT is sent: the page may be one that is stalled here, or was offered. */
static void grants(struct dmi_access *access) {
  if (atomic_load(&access->pager_expects) && atomic_exchange(&access->pager_expects, 0))
    access->above->wake_pager(access->above_arg);
}

/* Counts a queued message that brings a page's bytes; emits the event of a GRANT. */
__attribute__((noinline)) static void brings(struct dmi_access *access, const struct dmi_page *page,
                                             uint32_t to, uint8_t type, uint64_t bytes) {
  if (bytes && dmi_wire_type(type)->brings_page) {
    atomic_fetch_add_explicit(&access->pages[type].num, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&access->pages[type].bytes, bytes, memory_order_relaxed);
  }
  if (type == DMI_MSG_GRANT) {
    dmi_emit(access->stream, page_given, .mapping = page->map->base, .page = page->index,
             .bytes = page->map->page_size, .to = to);
  }
}

/* Counts what was asked for since the last time. */
static void count_asked(struct dmi_access *access, struct dmi_flush *flush) {
  if (!flush->asked) return;
  atomic_fetch_add_explicit(&access->sent[flush->type], flush->asked, memory_order_relaxed);
  dmi_faults_note(&access->faults, flush->page, flush->touched, flush->asked);
  flush->asked = 0;
}

/* The bytes for which this process sends a message about the page, which is locked; all of the page
 * if it is not known which.  READ and OWN do not say it: the operation that needs them waits here.
 */
static struct dmi_faults_bytes touched(const struct dmi_page *page, const struct dmi_msg *msg) {
  struct dmi_faults_bytes bytes = {0, page->map->page_size, msg->type != DMI_MSG_GET};
  const struct dmi_req *req = NULL;
  if (msg->type == DMI_MSG_ATOMIC) {
    bytes.from = msg->atomic.off;
    bytes.to = msg->atomic.off + msg->atomic.len;
  } else if (msg->type == DMI_MSG_GET || msg->type == DMI_MSG_PUT) {
    if (msg->access.ranges) return bytes;
    bytes.from = msg->access.off;
    bytes.to = msg->access.off + msg->access.len;
  } else if (msg->type == DMI_MSG_READ) {
    bytes.write = false;
    req = page->busy ? page->busy->waiters.last : NULL;
  } else {
    req = page->busy ? page->busy->queue.first : NULL;
  }
  if (req && !req->foreign && !req->ranges) {
    bytes.from = req->off;
    bytes.to = req->off + req->len;
  }
  return bytes;
}

/* A message for an own operation was sent.  With `later` it is counted with others of that call,
 * whose pages stay as long. */
static void asked_for(struct dmi_access *access, struct dmi_page *page, const struct dmi_msg *msg,
                      struct dmi_flush *later) {
  const uint8_t type = msg->type;
  struct dmi_faults_bytes bytes;
  const bool fault = dmi_faults_are((enum dmi_msg_type)type);
  if (fault && access->profile) dmi_profile_fault(access->profile, page);
  if (!fault || !later) {
    atomic_fetch_add_explicit(&access->sent[type], 1, memory_order_relaxed);
    if (!fault) return;
    bytes = touched(page, msg);
    dmi_faults_note(&access->faults, &page, &bytes, 1);
    return;
  }
  if (later->asked == DMI_FLUSH_PAGES || later->type != type) count_asked(access, later);
  later->type = type;
  later->touched[later->asked] = touched(page, msg);
  later->page[later->asked++] = page;
}

/* True for a request whose answer a thread may receive itself. */
static bool asks(uint8_t type) {
  return type == DMI_MSG_GET || type == DMI_MSG_READ || type == DMI_MSG_PUT ||
         type == DMI_MSG_ATOMIC;
}

/* A write waits for memory. */
__attribute__((noinline)) static void stalled(struct dmi_access *access, struct dmi_page *page) {
  dmi_emit(access->stream, memory_short, .mapping = page->map->base, .page = page->index,
           .bytes = page->map->page_size);
  access->above->stalled(access->above_arg, page);
}

/* The same as dmi_net_send, and a slice of the trace. */
__attribute__((noinline)) static bool send_traced(struct dmi_access *access,
                                                  const struct dmi_page *page, uint32_t to,
                                                  struct dmi_msg *msg) {
  struct dmi_trace_record record;
  dmi_access_trace_message(&record, access->core.self, to, msg);
  record.kind = DMI_TRACE_SEND;
  record.member = to;
  if (msg->origin == access->core.self && (asks(msg->type) || msg->type == DMI_MSG_OWN))
    dmi_trace_asks(to, page->map->base + page->index * page->map->page_size, page->map->page_size);
  if (!dmi_net_send(access->net, to, msg)) return false;
  record.end = dmi_clock_ns();
  dmi_trace_put(&access->trace, &record);
  return true;
}

static inline bool send(struct dmi_access *access, const struct dmi_page *page, uint32_t to,
                        struct dmi_msg *msg) {
  return dmi_trace_on(&access->trace) ? send_traced(access, page, to, msg)
                                      : dmi_net_send(access->net, to, msg);
}

/* Sends a message of a step.  Returns the member that was asked for an answer, or 0. */
static uint32_t send_message(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out,
                             uint32_t at, struct dmi_flush *later) {
  struct dmi_msg *msg = &out->act[at].msg;
  const uint32_t to = out->act[at].to;
  const uint64_t bytes = msg->body.len;
  const uint8_t type = msg->type;
  if (to == access->core.self) {
    if ((type == DMI_MSG_GOT || type == DMI_MSG_DONE) && !msg->body.frame && bytes) {
      /* it is in struct dmi_out.space */
      msg->body = dmi_slice_xcopy(msg->body.ptr, bytes);
    }
    dmi_access_post_self(access, msg);
    return 0;
  }
  if (type == DMI_MSG_GRANT) grants(access);
  if (!send(access, page, to, msg)) { /* the receiver has left */
    struct dmi_msg back = *msg; /* the list may move in memory */
    dmi_page_bounced(&access->core, page, to, &back, out);
    return 0;
  }
  if (bytes || type == DMI_MSG_GRANT) brings(access, page, to, type, bytes);
  if (msg->origin != access->core.self) return 0;
  asked_for(access, page, msg, later);
  return asks(type) ? to : 0;
}

/* What few steps do. */
__attribute__((noinline)) static void carry_rare(struct dmi_access *access, struct dmi_page *page,
                                                 struct dmi_out *out, uint32_t at) {
  const uint32_t to = out->act[at].to;
  struct dmi_msg msg; /* the list may move in memory */
  switch (out->act[at].type) {
    case DMI_ACT_DEFER:
      msg = out->act[at].msg;
      defer(access, page, to, &msg, out);
      break;
    case DMI_ACT_HOLD:
      dmi_access_hold(access, to, &out->act[at].msg);
      break;
    case DMI_ACT_STALLED:
      stalled(access, page);
      break;
    default:
      break;
  }
}

uint32_t dmi_access_carry_locked(struct dmi_access *access, struct dmi_page *page,
                                 struct dmi_out *out, struct dmi_flush *later) {
  uint32_t asked = 0;
  /* The list may grow, and move in memory, during the loop. */
  for (uint32_t i = 0; i < out->num; i++) {
    const uint8_t type = out->act[i].type;
    if (type == DMI_ACT_SEND) {
      const uint32_t to = send_message(access, page, out, i, later);
      if (to) asked = to;
    } else if (type == DMI_ACT_COMPLETE) {
      dmi_ops_remove(access->ops, (struct dmi_op *)out->act[i].req);
    } else {
      carry_rare(access, page, out, i);
    }
  }
  return asked;
}

void dmi_access_flush(struct dmi_access *access, struct dmi_flush *flush) {
  for (uint32_t i = 0; i < flush->num; i++)
    dmi_net_flush(access->net, flush->uid[i]);
  count_asked(access, flush);
  dmi_access_flush_init(flush);
}

void dmi_access_flush_later(struct dmi_access *access, dmi_uid_t uid, struct dmi_flush *later) {
  for (uint32_t i = 0; i < later->num; i++) {
    if (later->uid[i] == uid) return;
  }
  if (later->num == DMI_FLUSH_MAX) dmi_access_flush(access, later);
  later->uid[later->num++] = uid;
}

void dmi_access_carry_out(struct dmi_access *access, struct dmi_out *out, struct dmi_flush *later) {
  const uint32_t self = access->core.self;
  uint32_t flushed = 0, completes = 0;
  for (uint32_t i = 0; i < out->num; i++) {
    const struct dmi_act *act = &out->act[i];
    if (act->type == DMI_ACT_COMPLETE) {
      completes++;
    } else if (act->type == DMI_ACT_SEND && act->to != self && act->to != flushed) {
      flushed = act->to;
      if (later) {
        dmi_access_flush_later(access, flushed, later);
      } else {
        dmi_net_flush(access->net, flushed);
      }
    }
  }
  /* A thread of this process that is woken may take the processor before the daemon writes. */
  if (completes && flushed) dmi_net_flush_gathered(access->net);
  for (uint32_t i = 0; completes; i++) {
    if (out->act[i].type != DMI_ACT_COMPLETE) continue;
    completes--;
    dmi_access_op_complete(access, (struct dmi_op *)out->act[i].req);
  }
  out->num = 0;
  if (out->act != out->inside) dmi_out_free(out);
  dmi_access_stepped(access);
}

void dmi_access_step_begin(struct dmi_page *page, struct dmi_out *out) {
  dmi_out_init(out);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
}

void dmi_access_step_end(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out) {
  dmi_access_check_step(access, page);
  (void)dmi_access_carry_locked(access, page, out, NULL);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_access_carry_out(access, out, NULL);
}

void dmi_access_op_begin(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later) {
  dmi_lock(&op->page->lock, DMI_RANK_PAGE);
  dmi_access_op_locked(access, op, later);
}

void dmi_access_op_locked(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later) {
  struct dmi_page *page = op->page;
  const uint64_t bytes = op->req.len;
  struct dmi_out out;
  uint32_t asked;
  if (dmi_trace_on(&access->trace) && !op->call->heap) dmi_trace_begins(op->call->status);
  dmi_ops_add(access->ops, op);
  dmi_out_init(&out);
  dmi_page_begin(&access->core, page, &op->req, &out);
  dmi_access_check_step(access, page);
  asked = dmi_access_carry_locked(access, page, &out, later);
  if (asked) op->call->status->asked = asked;
  /* from here on other threads may complete the operation */
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_access_carry_out(access, &out, later);
  if (later && (later->bytes += bytes + DMI_WIRE_HEADER) >= DMI_FLUSH_BYTES)
    dmi_access_flush(access, later);
  dmi_access_watch_stall(access);
}
