/*
 * access_carry.c - carrying out what a step of a page decided.
 *
 * The happy path: messages are queued while the page is locked, so that their order is that of
 * the steps; after it is unlocked they are written to the sockets, and operations that are complete
 * wake their threads.
 */
#include <stdlib.h>

#include "access/access_int.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "msg/wire.h"

/* A request for the home, which is arriving: deferred until then. If the home has arrived between
 * the step and here, the request goes through the core again. */
static void defer(struct dmi_access *access, struct dmi_page *page, uint32_t from,
                  struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_mapping *mapping = (struct dmi_mapping *)page->map;
  struct dmi_deferred_request *item = NULL;
  dmi_mutex_lock(&access->deferred_lock);
  if (atomic_load(&mapping->map.arriving)) {
    item = dmi_xalloc(1, sizeof(*item));
    item->from = from;
    item->msg = *msg;
    if (msg->list.len && !msg->list.frame) { /* borrowed from the connection that brought it */
      item->msg.list = dmi_slice_xcopy(msg->list.ptr, msg->list.len);
    }
    item->next = NULL;
    *mapping->deferred_end = item;
    mapping->deferred_end = &item->next;
  }
  dmi_mutex_unlock(&access->deferred_lock);
  if (!item) dmi_page_message(&access->core, page, from, msg, NULL, out);
}

/* Queues it for another process.  False: that one is gone. */
static bool send_locked(struct dmi_access *access, struct dmi_page *page, uint32_t to,
                        struct dmi_msg *msg, struct dmi_out *out) {
  uint8_t type = msg->type;
  uint64_t bytes = msg->body.len;
  bool own = msg->origin == access->core.self;
  if (!dmi_net_send(access->net, to, msg)) {
    dmi_page_bounced(&access->core, page, to, msg, out);
    return false;
  }
  if (own) atomic_fetch_add_explicit(&access->sent[type], 1, memory_order_relaxed);
  if (!bytes || !dmi_wire_type(type)->brings_page) return true;
  atomic_fetch_add_explicit(&access->pages[type].num, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&access->pages[type].bytes, bytes, memory_order_relaxed);
  return true;
}

/* A page goes to its next owner: it may be one that stalls here, or was offered. */
static void grant_locked(struct dmi_access *access, struct dmi_page *page, uint32_t to,
                         struct dmi_msg *msg, struct dmi_out *out) {
  if (atomic_load(&access->pager_expects) && atomic_exchange(&access->pager_expects, 0))
    access->above->wake_pager(access->above_arg);
  if (send_locked(access, page, to, msg, out)) {
    dmi_emit(access->stream, page_given, .mapping = page->map->base, .page = page->index,
             .bytes = page->map->page_size, .to = to);
  }
}

/* A write waits for room. */
static void stalled(struct dmi_access *access, struct dmi_page *page) {
  dmi_emit(access->stream, memory_short, .mapping = page->map->base, .page = page->index,
           .bytes = page->map->page_size);
  access->above->stalled(access->above_arg, page);
}

/* A step of some page is over: pages that could not leave before may now. */
static void stepped(struct dmi_access *access) {
  if (__builtin_expect(atomic_load_explicit(&access->pager_watches_steps, memory_order_relaxed),
                       0)) {
    atomic_store(&access->pager_watches_steps, 0);
    access->above->wake_pager(access->above_arg);
  }
}

void dmi_access_carry_locked(struct dmi_access *access, struct dmi_page *page,
                             struct dmi_out *out) {
  /* The list may grow, and move, meanwhile. */
  for (uint32_t i = 0; i < out->num; i++) {
    uint32_t to = out->act[i].to;
    struct dmi_msg msg = out->act[i].msg;
    if (out->act[i].type == DMI_ACT_COMPLETE) {
      dmi_ops_remove(access->ops, (struct dmi_op *)out->act[i].req);
    } else if (out->act[i].type == DMI_ACT_DEFER) {
      defer(access, page, to, &msg, out);
    } else if (out->act[i].type == DMI_ACT_STALLED) {
      stalled(access, page);
    } else if (out->act[i].type != DMI_ACT_SEND) {
      continue;
    } else if (to == access->core.self) {
      dmi_access_post_self(access, &msg);
    } else if (msg.type == DMI_MSG_GRANT) {
      grant_locked(access, page, to, &msg, out);
    } else {
      (void)send_locked(access, page, to, &msg, out);
    }
  }
}

void dmi_access_flush(struct dmi_access *access, struct dmi_flush *flush) {
  for (uint32_t i = 0; i < flush->num; i++)
    dmi_net_flush(access->net, flush->uid[i]);
  flush->num = 0;
}

/* Sends what is queued for `uid` now or, with `later`, together with the rest. */
static void flush_to(struct dmi_access *access, uint32_t uid, struct dmi_flush *later) {
  if (!later) {
    dmi_net_flush(access->net, uid);
    return;
  }
  for (uint32_t i = 0; i < later->num; i++) {
    if (later->uid[i] == uid) return;
  }
  if (later->num == DMI_FLUSH_MAX) dmi_access_flush(access, later);
  later->uid[later->num++] = uid;
}

void dmi_access_carry_out(struct dmi_access *access, struct dmi_out *out, struct dmi_flush *later) {
  uint32_t flushed = 0;
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *act = &out->act[i];
    if (act->type != DMI_ACT_SEND || act->to == access->core.self || act->to == flushed) continue;
    flushed = act->to;
    flush_to(access, flushed, later);
  }
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->act[i].type == DMI_ACT_COMPLETE)
      dmi_access_op_complete(access, (struct dmi_op *)out->act[i].req);
  }
  dmi_out_free(out);
  stepped(access);
  if (atomic_load_explicit(&access->drain, memory_order_relaxed)) dmi_net_post(access->net);
}

void dmi_access_step_begin(struct dmi_page *page, struct dmi_out *out) {
  dmi_out_init(out);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
}

void dmi_access_step_end(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out) {
  dmi_access_check_step(access, page);
  dmi_access_carry_locked(access, page, out);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_access_carry_out(access, out, NULL);
}
