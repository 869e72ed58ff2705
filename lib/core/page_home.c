/*
 * page_home.c - the home of a mapping, which orders the moves of ownership (R1); leaving (R8, R9).
 *
 * The caller goes through pages and mappings, and handles the HOME_* and TAKE messages.
 */
#include <string.h>

#include "core/page_int.h"

void dmi_home_route(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                    struct dmi_msg *msg, struct dmi_out *out) {
  uint32_t tail;
  if (atomic_load(&page->map->arriving)) {
    dmi_out_defer(out, from, msg);
    return;
  }
  tail = page->tail ? page->tail : core->self;
  if (msg->type == DMI_MSG_OWN) {
    page->tail = msg->origin;
    msg->flags |= DMI_F_TAIL;
  }
  if (tail == core->self && page->role == DMI_ROLE_NONE) {
    dmi_request_fails(msg, out); /* HOME_TAILS, or a view, was wrong */
  } else if (tail == core->self) {
    dmi_queue_message(core, page, msg, out);
  } else {
    dmi_out_send(out, tail, msg);
  }
}

uint32_t dmi_page_tail(const struct dmi_core *core, const struct dmi_page *page) {
  return page->tail ? page->tail : core->self;
}

bool dmi_page_home_arrived(struct dmi_core *core, struct dmi_page *page, bool listed, uint32_t tail,
                           struct dmi_out *out) {
  if (DMI_BROKEN(core, DMI_BREAK_TAILS)) listed = false;
  if (listed) {
    page->tail = tail;
    page->flags |= DMI_PAGE_LISTED;
    return true;
  }
  if (page->flags & DMI_PAGE_LISTED) {
    page->flags &= (uint16_t)~DMI_PAGE_LISTED;
    return true;
  }
  if (page->role == DMI_ROLE_OWNER) return true; /* the record was made here since, at the home */
  if (page->copy) return false;                  /* its bytes were requested through the home */
  /* No process ever asked the old home for this page, so this process owns it, and it is all
   * zero. */
  if (page->role == DMI_ROLE_PENDING) dmi_set_stale(core, page, true);
  page->tail = core->self;
  dmi_set_role(core, page, DMI_ROLE_OWNER);
  if (atomic_load(&page->map->hole)) page->flags |= DMI_PAGE_LOST;
  if (page->busy) {
    struct dmi_delegated_read *delegated = dmi_fetch_end(page->busy);
    struct dmi_req *req;
    while ((req = dmi_req_pop(&page->busy->waiters)))
      dmi_own_begin(core, page, req, out);
    dmi_queue_run(core, page, out);
    dmi_delegated_end(core, page, delegated, out);
  }
  dmi_page_rest(core, page);
  return true;
}

/* Sends another process's request to the home; but not if that is, or leads to, the process that
 * sent it back: then it would circulate for ever. */
static void send_home(struct dmi_core *core, struct dmi_page *page, uint32_t left,
                      struct dmi_msg *msg, struct dmi_out *out) {
  uint32_t home = atomic_load(&page->map->home);
  bool here = home == core->self && !atomic_load(&page->map->arriving);
  if (home == left || (here && page->tail == left)) {
    dmi_request_fails(msg, out);
  } else if (home == core->self) {
    dmi_home_route(core, page, core->self, msg, out);
  } else {
    dmi_out_send(out, home, msg);
  }
}

void dmi_page_bounced(struct dmi_core *core, struct dmi_page *page, uint32_t to,
                      struct dmi_msg *msg, struct dmi_out *out) {
  struct dmi_msg ack, read;
  if (page->flags & DMI_PAGE_FROZEN) { /* it counts as sent to the lost process */
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
    return;
  }
  switch (msg->type) {
    case DMI_MSG_DELEGATE: /* this process may still be the owner */
      read = dmi_msg_about(core, page, DMI_MSG_READ);
      read.origin = msg->origin;
      read.flags = DMI_F_DIRECT;
      read.read = (struct dmi_msg_read){.fetch = msg->delegate.fetch, .kind = msg->delegate.kind};
      dmi_request_arrives(core, page, core->self, &read, out);
      return;
    case DMI_MSG_GET:
    case DMI_MSG_READ:
    case DMI_MSG_PUT:
    case DMI_MSG_ATOMIC:
    case DMI_MSG_OWN:
      /* it was a waiting operation only at the process that left */
      msg->flags &= (uint16_t)~DMI_F_WAITING;
      send_home(core, page, to, msg, out);
      return;
    case DMI_MSG_INVALIDATE:
    case DMI_MSG_UPDATE:
      ack = dmi_msg_about(core, page, DMI_MSG_UPDATED);
      ack.flags = DMI_F_DROPPED;
      ack.copy.version = msg->type == DMI_MSG_UPDATE ? msg->update.version : msg->copy.version;
      (void)dmi_write_ack(core, page, to, &ack, NULL, out);
      break;
    case DMI_MSG_TAKE:
      dmi_page_refused(core, page, to, msg->flags & DMI_F_MUST, out);
      break;
    default:
      break; /* no thread waits for it any more */
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  dmi_page_rest(core, page);
}
