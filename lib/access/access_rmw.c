/*
 * access_rmw.c - read-modify-writes of this process's threads.  Each is an operation at the owner
 * of the page; with EXCLUSIVE this process becomes the owner first.
 */
#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "base/epoch.h"
#include "base/error.h"
#include "core/rmw.h"

/* Puts the inputs side by side.  If there is only one and the caller waits, it is not copied. */
static bool rmw_inputs(struct dmi_op *op, const struct dmi_rmw_call *rmw, bool sync) {
  uint64_t len = rmw->sizes.out1 + rmw->sizes.out2;
  struct dmi_frame *frame;
  unsigned char *to = op->small;
  if (sync && !rmw->sizes.out2) {
    op->req.src = (struct dmi_slice){NULL, rmw->out1 ? rmw->out1 : op->small, len};
    return true;
  }
  op->req.src = (struct dmi_slice){NULL, op->small, len};
  if (len > sizeof(op->small) / 3 * 2) {
    frame = dmi_frame_new(len);
    if (!frame) return false;
    op->req.src = (struct dmi_slice){frame, frame->bytes, len};
    to = frame->bytes;
  }
  if (rmw->sizes.out1) memcpy(to, rmw->out1, rmw->sizes.out1);
  if (rmw->sizes.out2) memcpy(to + rmw->sizes.out1, rmw->out2, rmw->sizes.out2);
  return true;
}

/* A read-modify-write of the API while it runs. */
struct caller {
  struct dmi_access *access;
  struct dmi_mapping *mapping;
  DMI_local_status_t *status; /* NULL: the caller waits; only then are all fields below used */
  struct dmi_status own;
  struct dmi_call call;
  struct dmi_op op;
};

static int32_t rmw_begin(struct caller *caller, const struct dmi_rmw_call *rmw,
                         struct dmi_page *page, uint64_t off) {
  struct dmi_op *op = &caller->op;
  struct dmi_call *call = &caller->call;
  bool sync = caller->status == NULL;
  if (sync) {
    dmi_status_begin(&caller->own);
    dmi_access_call_begin(call, &caller->own, false);
  } else {
    op = malloc(sizeof(*op));
    call = malloc(sizeof(*call));
    if (!op || !call) {
      free(op);
      free(call);
      return DMI_ENOMEM;
    }
    dmi_access_call_begin(call, dmi_status_of(caller->status), true);
    if (!rmw->begun) dmi_status_begin(call->status);
  }
  memset(&op->req, 0, sizeof(op->req));
  op->heap = !sync;
  op->req.type = rmw->mode == DMI_PUT_ATOMIC ? DMI_REQ_ATOMIC : DMI_REQ_ATOMIC_EXCL;
  op->req.kind = (uint8_t)rmw->rmw;
  op->req.tag = rmw->tag;
  op->req.off = off;
  op->req.len = (uint64_t)rmw->size;
  op->req.sizes = rmw->sizes;
  /* If the caller does not want FAD's old value, it goes to the last 8 bytes of `small`. */
  op->req.dst = rmw->in ? rmw->in : op->small + sizeof(op->small) - 8;
  op->claimed = op->of_group = false;
  op->mapping = caller->mapping;
  op->page = page;
  op->call = call;
  if (!rmw_inputs(op, rmw, sync)) {
    if (!sync) {
      free(op);
      free(call);
    }
    return DMI_ENOMEM;
  }
  /* The operation takes over the caller's reference to the mapping. */
  dmi_access_op_begin(caller->access, op, NULL);
  return DMI_OK;
}

/* The call fails before it has begun. */
static int32_t rmw_refuse(const struct dmi_rmw_call *rmw, DMI_local_status_t *status,
                          int32_t error) {
  if (!rmw->begun) return dmi_status_refuse(status, error);
  dmi_status_done(dmi_status_of(status), error);
  return dmi_fail(error);
}

/* For what such a call waits that is not answered at once. */
static enum dmi_doing_what waits_for(enum dmi_rmw rmw) {
  switch (rmw) {
    case DMI_RMW_LOCK:
      return DMI_DOING_LOCK;
    case DMI_RMW_TURN:
      return DMI_DOING_COND;
    case DMI_RMW_WATCH:
      return DMI_DOING_WATCH;
    default:
      return DMI_DOING_PAGE;
  }
}

/* The caller waits, and has no status. */
static int32_t rmw_wait(struct caller *caller, const struct dmi_rmw_call *rmw) {
  const struct dmi_access_for what = {waits_for(rmw->rmw), (uint64_t)rmw->addr, (uint64_t)rmw->size,
                                      caller->op.req.op.n};
  if (rmw->spin) dmi_status_spin(&caller->own);
  return dmi_access_wait_for(caller->access, &caller->own, &what);
}

int32_t dmi_access_rmw(struct dmi_access *access, const struct dmi_rmw_call *rmw,
                       DMI_local_status_t *status) {
  struct caller caller;
  struct dmi_page *page;
  bool held, referenced;
  int32_t error = DMI_OK;
  uint64_t off, index;
  if (rmw->size <= 0) {
    return rmw_refuse(rmw, status,
                      dmi_because_of(DMI_EINVAL, "the size must be positive", rmw->size));
  }
  if (rmw->mode != DMI_EXCLUSIVE_ATOMIC && rmw->mode != DMI_PUT_ATOMIC) {
    error = dmi_because(DMI_EINVAL, "the mode is not one of DMI_EXCLUSIVE_ATOMIC, DMI_PUT_ATOMIC");
    return rmw_refuse(rmw, status, error);
  }
  caller.access = access;
  caller.status = status;
  caller.mapping =
      dmi_access_find(access, rmw->addr, rmw->size, rmw->rmw == DMI_RMW_HEAP, &held, &error);
  if (!caller.mapping) return rmw_refuse(rmw, status, error);
  index = dmi_mapping_index(caller.mapping, (uint64_t)rmw->addr, &off);
  if ((uint64_t)rmw->size > caller.mapping->map.page_size - off) error = DMI_ERANGE;
  referenced = error == DMI_OK && dmi_mapping_ref(caller.mapping);
  if (error == DMI_OK && !referenced) error = DMI_EADDR;
  dmi_epoch_leave();
  if (error == DMI_OK) {
    page = dmi_mapping_get(&access->core, caller.mapping, index, &error);
    if (page) error = rmw_begin(&caller, rmw, page, off);
    if (error != DMI_OK) dmi_mapping_unref(&access->core, caller.mapping);
  }
  dmi_access_release(access, caller.mapping, held);
  if (error == DMI_OK && !status) error = rmw_wait(&caller, rmw);
  return error == DMI_OK ? DMI_TRUE : rmw_refuse(rmw, status, error);
}

int32_t dmi_access_fad(struct dmi_access *access, int64_t addr, int64_t add, int64_t *old,
                       int8_t mode, DMI_local_status_t *status) {
  const struct dmi_rmw_call call = {.rmw = DMI_RMW_FAD,
                                    .addr = addr,
                                    .size = sizeof(add),
                                    .out1 = &add,
                                    .in = old,
                                    .sizes = {sizeof(add), 0, sizeof(*old)},
                                    .mode = mode};
  return dmi_access_rmw(access, &call, status);
}

uint64_t dmi_access_waiting(struct dmi_access *access, int64_t addr) {
  int32_t error = DMI_OK;
  uint64_t off, num = 0;
  struct dmi_mapping *mapping = dmi_access_mapping(access, addr, 1, &error);
  struct dmi_page *page = NULL;
  if (!mapping) return 0;
  page = dmi_mapping_get(&access->core, mapping, dmi_mapping_index(mapping, (uint64_t)addr, &off),
                         &error);
  if (page) {
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    for (const struct dmi_req *req = page->busy ? page->busy->waiting_ops.first : NULL; req;
         req = req->next)
      num += req->off <= off && off - req->off < req->len;
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
  }
  dmi_mapping_unref(&access->core, mapping);
  return num;
}
