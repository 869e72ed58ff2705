/*
 * page_request.c - makes operations of other processes' requests, and messages of operations.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

void dmi_req_fill(struct dmi_req *req, const struct dmi_msg *msg) {
  switch (msg->type) {
    case DMI_MSG_GET:
    case DMI_MSG_PUT:
      req->type = msg->type == DMI_MSG_GET ? DMI_REQ_GET : DMI_REQ_PUT;
      req->op = msg->access.op;
      req->off = msg->access.off;
      req->len = msg->access.len;
      req->ranges = msg->access.ranges;
      break;
    case DMI_MSG_READ:
      req->type = DMI_REQ_READ;
      req->fetch = msg->read.fetch;
      req->kind = (uint8_t)msg->read.kind;
      req->flags = msg->flags & DMI_F_DIRECT;
      break;
    case DMI_MSG_ATOMIC:
      req->type = DMI_REQ_ATOMIC;
      req->op = msg->atomic.op;
      req->off = msg->atomic.off;
      req->len = msg->atomic.len;
      req->kind = (uint8_t)msg->atomic.rmw;
      req->tag = (int8_t)msg->atomic.tag;
      memcpy(&req->sizes, msg->list.ptr, sizeof(req->sizes));
      break;
    default:
      req->type = DMI_REQ_OWN;
      req->flags = msg->flags & (DMI_F_HAVE | DMI_F_NODATA);
      req->have = msg->own.version;
  }
  req->foreign = true;
  req->origin = msg->origin;
  req->src = msg->body;
}

struct dmi_req *dmi_req_of_message(struct dmi_msg *msg) {
  struct dmi_req *req = dmi_xalloc(1, sizeof(*req));
  dmi_req_fill(req, msg);
  dmi_slice_drop(&msg->list);
  return req;
}

void dmi_req_free(struct dmi_req *req) {
  dmi_slice_drop(&req->src);
  free(req);
}

void dmi_req_fail(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req, int error,
                  struct dmi_out *out) {
  struct dmi_msg msg;
  if (!req->foreign) {
    dmi_out_complete(out, req, error);
    return;
  }
  if (req->type != DMI_REQ_OWN) {
    msg = dmi_msg_about(core, page, DMI_MSG_FAIL);
    msg.origin = req->origin;
    msg.fail = (struct dmi_msg_fail){.op = req->op, .error = error};
    if (req->type == DMI_REQ_READ) msg.fail.fetch = req->fetch;
    dmi_out_send(out, req->origin, &msg);
  }
  dmi_req_free(req);
}

void dmi_msg_carries(struct dmi_msg *msg, const struct dmi_req *req) {
  switch (msg->type) {
    case DMI_MSG_READ:
      msg->read = (struct dmi_msg_read){.fetch = req->fetch, .kind = req->kind};
      break;
    case DMI_MSG_OWN:
      msg->own.version = req->have;
      break;
    case DMI_MSG_ATOMIC:
      msg->atomic = (struct dmi_msg_atomic){
          .op = req->op, .off = req->off, .len = req->len, .rmw = req->kind, .tag = req->tag};
      msg->list = (struct dmi_slice){NULL, (const unsigned char *)&req->sizes, sizeof(req->sizes)};
      break;
    default: /* GET, PUT */
      msg->access = (struct dmi_msg_access){
          .op = req->op, .off = req->off, .len = req->len, .ranges = req->ranges};
  }
}

struct dmi_msg dmi_msg_of_req(const struct dmi_core *core, const struct dmi_page *page,
                              const struct dmi_req *req) {
  static const uint8_t types[] = {[DMI_REQ_GET] = DMI_MSG_GET,
                                  [DMI_REQ_READ] = DMI_MSG_READ,
                                  [DMI_REQ_PUT] = DMI_MSG_PUT,
                                  [DMI_REQ_ATOMIC] = DMI_MSG_ATOMIC,
                                  [DMI_REQ_OWN] = DMI_MSG_OWN};
  struct dmi_msg msg = dmi_msg_about(core, page, types[req->type]);
  msg.origin = req->origin;
  msg.flags = req->flags;
  msg.body = req->src;
  dmi_msg_carries(&msg, req);
  if (msg.list.len) msg.list = dmi_slice_xcopy(msg.list.ptr, msg.list.len); /* `req` may go first */
  return msg;
}
