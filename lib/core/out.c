/*
 * out.c - lists of actions, and of operations.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

void dmi_out_init(struct dmi_out *out) {
  out->num = out->first = 0;
  out->capacity = sizeof(out->inside) / sizeof(out->inside[0]);
  out->act = out->inside;
  out->space = NULL;
}

void dmi_out_free(struct dmi_out *out) {
  if (out->act != out->inside) free(out->act);
  dmi_out_init(out);
}

static void grow(struct dmi_out *out) {
  struct dmi_act *more = dmi_xalloc(2 * out->capacity, sizeof(*more));
  memcpy(more, out->act, out->num * sizeof(*more));
  if (out->act != out->inside) free(out->act);
  out->act = more;
  out->capacity *= 2;
}

bool dmi_out_take(struct dmi_out *out, struct dmi_act *act) {
  if (out->first == out->num) return false;
  *act = out->act[out->first++];
  if (out->first == out->num) out->first = out->num = 0;
  return true;
}

/* The next one, of which nothing is set. */
static inline struct dmi_act *next(struct dmi_out *out) {
  if (out->num == out->capacity) grow(out);
  return &out->act[out->num++];
}

/* One with a message, for the caller to fill in. */
static inline struct dmi_act *next_message(struct dmi_out *out, enum dmi_act_type type,
                                           uint32_t uid) {
  struct dmi_act *act = next(out);
  act->type = (uint8_t)type;
  act->to = uid;
  act->req = NULL;
  return act;
}

struct dmi_act *dmi_out_add(struct dmi_out *out, enum dmi_act_type type) {
  struct dmi_act *act = next(out);
  memset(act, 0, sizeof(*act));
  act->type = (uint8_t)type;
  return act;
}

void dmi_out_send(struct dmi_out *out, uint32_t to, const struct dmi_msg *msg) {
  next_message(out, DMI_ACT_SEND, to)->msg = *msg;
}

void dmi_out_complete(struct dmi_out *out, struct dmi_req *req, int error) {
  struct dmi_act *act = next(out);
  req->error = error;
  act->type = DMI_ACT_COMPLETE;
  act->to = 0;
  act->req = req;
}

void dmi_out_defer(struct dmi_out *out, uint32_t from, const struct dmi_msg *msg) {
  next_message(out, DMI_ACT_DEFER, from)->msg = *msg;
}

void dmi_out_hold(struct dmi_out *out, uint32_t from, struct dmi_msg *msg) {
  next_message(out, DMI_ACT_HOLD, from)->msg = *msg;
  *msg = (struct dmi_msg){0};
}

void dmi_out_stalled(struct dmi_out *out, const struct dmi_page *page) {
  struct dmi_act *act = dmi_out_add(out, DMI_ACT_STALLED);
  act->msg.map = page->map->base;
  act->msg.page = page->index;
}

static inline void begin(struct dmi_msg *msg, const struct dmi_core *core,
                         const struct dmi_page *page, enum dmi_msg_type type) {
  memset(msg, 0, offsetof(struct dmi_msg, list)); /* in parts, which needs no call */
  msg->list = msg->body = (struct dmi_slice){NULL, NULL, 0};
  msg->borrowed = false;
  msg->type = (uint8_t)type;
  msg->origin = core->self;
  msg->map = page->map->base;
  msg->page = page->index;
}

struct dmi_msg dmi_msg_about(const struct dmi_core *core, const struct dmi_page *page,
                             enum dmi_msg_type type) {
  struct dmi_msg msg;
  begin(&msg, core, page, type);
  return msg;
}

/* A copy of what was just stored in smaller parts has to wait for them, so that a message of a
 * short operation costs more to copy than to make. */
struct dmi_msg *dmi_out_about(struct dmi_out *out, uint32_t to, const struct dmi_core *core,
                              const struct dmi_page *page, enum dmi_msg_type type) {
  struct dmi_act *act = next_message(out, DMI_ACT_SEND, to);
  begin(&act->msg, core, page, type);
  return &act->msg;
}

void dmi_req_push(struct dmi_req_list *list, struct dmi_req *req) {
  req->next = NULL;
  if (list->last) {
    list->last->next = req;
  } else {
    list->first = req;
  }
  list->last = req;
}

struct dmi_req *dmi_req_pop(struct dmi_req_list *list) {
  struct dmi_req *req = list->first;
  if (!req) return NULL;
  list->first = req->next;
  if (!list->first) list->last = NULL;
  req->next = NULL;
  return req;
}
