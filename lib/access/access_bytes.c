/*
 * access_bytes.c - reads and writes of this process's threads.
 *
 * The happy path: the page can be read, or written, here and now: find its record, lock it, copy,
 * unlock; no message, no allocation, nothing shared but the page.  Otherwise each page that cannot
 * is an operation; the thread sleeps until all are complete.
 */
#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "access/early.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/lock.h"

/* ---- Hits ------------------------------------------------------------------------------------ */

static bool read_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                     void *buf) {
  struct dmi_frame *frame;
  if (!dmi_access_lock_readable(&access->core, page)) return false;
  frame = page->frame;
  if (frame && size <= DMI_COPY_LOCKED) {
    memcpy(buf, frame->bytes + off, size);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    return true;
  }
  if (frame) dmi_frame_ref(frame);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (frame) {
    memcpy(buf, frame->bytes + off, size);
    dmi_frame_unref(frame);
  } else {
    memset(buf, 0, size);
  }
  return true;
}

static bool write_hit(struct dmi_access *access, struct dmi_page *page, uint64_t off, uint64_t size,
                      const void *buf) {
  bool done;
  if (!dmi_access_lock_writable(&access->core, page)) return false;
  done = dmi_page_write_now(&access->core, page, off, buf, size);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return done;
}

/* ---- Reads and writes ------------------------------------------------------------------------ */

/* One part, which could not be done at once. */
static int32_t part_begin(struct caller *caller, struct dmi_call *call, struct dmi_op *op,
                          struct dmi_page *page, uint64_t off, uint64_t size, unsigned char *buf) {
  memset(&op->req, 0, sizeof(op->req));
  op->req.type = caller->type;
  op->req.kind = caller->kind;
  op->req.off = off;
  op->req.len = size;
  if (!caller->write) {
    op->req.dst = buf;
  } else if (caller->status) {
    op->req.src = dmi_slice_copy(buf, size);
    if (!op->req.src.ptr) return DMI_ENOMEM;
  } else {
    op->req.src = (struct dmi_slice){NULL, buf, size};
  }
  if (!dmi_mapping_ref(caller->mapping)) {
    dmi_slice_drop(&op->req.src);
    return DMI_EADDR;
  }
  op->claimed = false;
  op->mapping = caller->mapping;
  op->page = page;
  op->call = call;
  atomic_fetch_add(&call->left, 1);
  dmi_access_op_begin(caller->access, op, NULL);
  return DMI_OK;
}

/* All parts from `first` on that are not hits, as operations of one call. */
static int32_t access_parts(struct caller *caller, uint64_t addr, uint64_t left,
                            unsigned char *buf) {
  struct dmi_access *access = caller->access;
  struct dmi_mapping *mapping = caller->mapping;
  struct dmi_call *call = &caller->call;
  bool single, sync = caller->status == NULL;
  if (sync) {
    dmi_access_call_begin(call, &caller->own, false);
  } else {
    call = malloc(sizeof(*call));
    if (!call) return DMI_ENOMEM;
    dmi_access_call_begin(call, dmi_status_of(caller->status), true);
  }
  while (left) {
    uint64_t off, index = dmi_mapping_index(mapping, addr, &off);
    uint64_t size = mapping->map.page_size - off;
    int32_t error = DMI_OK;
    struct dmi_page *page = dmi_mapping_get(&access->core, mapping, index, &error);
    if (size > left) size = left;
    single = sync && size == left && atomic_load(&call->left) == 1;
    if (page && (caller->write ? write_hit(access, page, off, size, buf)
                               : read_hit(access, page, off, size, buf))) {
      error = DMI_OK;
    } else if (page) {
      struct dmi_op *op = single ? &caller->op : malloc(sizeof(*op));
      caller->single = single;
      error = DMI_ENOMEM;
      if (op) {
        op->heap = !single;
        error = part_begin(caller, call, op, page, off, size, buf);
        if (error != DMI_OK && op->heap) free(op);
      }
    }
    if (error != DMI_OK) dmi_access_call_fail(call, error);
    addr += size;
    buf += size;
    left -= size;
  }
  dmi_access_call_finish(call);
  return DMI_OK;
}

/* The general case, with a reference to the mapping. */
static int32_t access_all(struct caller *caller, uint64_t addr, uint64_t size, unsigned char *buf) {
  struct dmi_access *access = caller->access;
  uint64_t page_size = caller->mapping->map.page_size;
  uint64_t most =
      page_size > UINT64_MAX / DMI_PAGES_AT_ONCE ? UINT64_MAX : page_size * DMI_PAGES_AT_ONCE;
  int32_t error = DMI_OK;
  if (caller->status) return access_parts(caller, addr, size, buf);
  while (size && error == DMI_OK) {
    uint64_t part = size < most ? size : most;
    bool early;
    caller->single = false;
    error = access_parts(caller, addr, part, buf);
    early = error == DMI_OK && caller->single && caller->type == DMI_REQ_READ;
    if (early) dmi_early_begin(&caller->op);
    if (error == DMI_OK) error = dmi_access_wait(access, &caller->own);
    if (early) dmi_early_end();
    addr += part;
    buf += part;
    size -= part;
  }
  return error;
}

static int32_t access_run(struct caller *caller, int64_t addr, int64_t size, unsigned char *buf) {
  bool held;
  int32_t error = DMI_OK;
  uint64_t off, index;
  struct dmi_page *page;
  struct dmi_access *access = caller->access;
  caller->mapping = dmi_access_find(access, addr, size, &held, &error);
  if (!caller->mapping) return dmi_status_refuse(caller->status, error);
  index = dmi_mapping_index(caller->mapping, (uint64_t)addr, &off);
  page = dmi_mapping_find(caller->mapping, index);
  if (page && (uint64_t)size <= caller->mapping->map.page_size - off &&
      (caller->write ? write_hit(access, page, off, (uint64_t)size, buf)
                     : read_hit(access, page, off, (uint64_t)size, buf))) {
    dmi_epoch_leave();
    dmi_access_release(access, caller->mapping, held);
    if (caller->status) {
      dmi_status_begin(dmi_status_of(caller->status));
      dmi_status_done(dmi_status_of(caller->status), DMI_OK);
    }
    return DMI_TRUE;
  }
  error = dmi_mapping_ref(caller->mapping) ? DMI_OK : DMI_EADDR;
  dmi_epoch_leave(); /* what follows may wait */
  if (error == DMI_OK) {
    error = access_all(caller, (uint64_t)addr, (uint64_t)size, buf);
    dmi_mapping_unref(&access->core, caller->mapping);
  }
  dmi_access_release(access, caller->mapping, held);
  return error == DMI_OK ? DMI_TRUE : dmi_status_refuse(caller->status, error);
}

/* Size 0 succeeds at any address: nothing is looked up. */
static int32_t nothing(DMI_local_status_t *status) {
  if (dmi_in_function) return dmi_status_refuse(status, DMI_EINFUNC);
  if (status) {
    dmi_status_begin(dmi_status_of(status));
    dmi_status_done(dmi_status_of(status), DMI_OK);
  }
  return DMI_TRUE;
}

static int32_t bad_buffer(DMI_local_status_t *status, int64_t size) {
  return dmi_status_refuse(
      status, dmi_because(DMI_EINVAL, size < 0 ? "the size is negative" : "the buffer is NULL"));
}

static int32_t bad_mode(DMI_local_status_t *status, const char *reason) {
  return dmi_status_refuse(status, dmi_because(DMI_EINVAL, reason));
}

int32_t dmi_access_read(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status) {
  struct caller caller;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  switch (mode) {
    case DMI_INVALIDATE_READ:
      caller.type = DMI_REQ_READ;
      caller.kind = DMI_KIND_INVALIDATE;
      break;
    case DMI_UPDATE_READ:
      caller.type = DMI_REQ_READ;
      caller.kind = DMI_KIND_UPDATE;
      break;
    case DMI_GET_READ:
      caller.type = DMI_REQ_GET;
      caller.kind = 0;
      break;
    default:
      return bad_mode(status,
                      "the mode is not one of DMI_INVALIDATE_READ, DMI_UPDATE_READ, DMI_GET_READ");
  }
  if (!size) return nothing(status);
  caller.access = access;
  caller.write = false;
  caller.status = status;
  return access_run(&caller, addr, size, buf);
}

/* In no mapping itself, and behind the last byte of one? */
static bool is_end(struct dmi_access *access, int64_t addr) {
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(access, addr, 0, &error);
  bool end = false;
  if (!mapping && error == DMI_EADDR && addr > 0) {
    mapping = dmi_access_mapping(access, addr - 1, 0, &error);
    end = mapping != NULL;
  }
  if (mapping) dmi_mapping_unref(&access->core, mapping);
  return end;
}

/* An EXCLUSIVE write of no bytes moves the page here, as a compare-and-swap does that changes
 * nothing.  At the end of a mapping there is no page to move. */
static int32_t fetch_page(struct dmi_access *access, int64_t addr, DMI_local_status_t *status) {
  static const unsigned char zero;
  const struct dmi_rmw_call call = {.rmw = DMI_RMW_CAS,
                                    .addr = addr,
                                    .size = 1,
                                    .out1 = &zero,
                                    .out2 = &zero,
                                    .sizes = {1, 1, 1},
                                    .mode = DMI_EXCLUSIVE_ATOMIC};
  if (is_end(access, addr)) return nothing(status);
  return dmi_access_rmw(access, &call, status);
}

int32_t dmi_access_write(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                         int8_t mode, DMI_local_status_t *status) {
  struct caller caller;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  if (mode != DMI_EXCLUSIVE_WRITE && mode != DMI_PUT_WRITE)
    return bad_mode(status, "the mode is not one of DMI_EXCLUSIVE_WRITE, DMI_PUT_WRITE");
  if (!size) {
    return mode == DMI_PUT_WRITE ? nothing(status) : fetch_page(access, addr, status);
  }
  caller.access = access;
  caller.type = mode == DMI_PUT_WRITE ? DMI_REQ_PUT : DMI_REQ_EXCL;
  caller.kind = 0;
  caller.write = true;
  caller.status = status;
  /* The buffer is only read; one type of pointer serves both directions. */
  return access_run(&caller, addr, size, (unsigned char *)(uintptr_t)buf);
}
