/*
 * access_bytes.c - reads and writes of this process's threads.
 *
 * What is no hit (access_hit.c) is a miss: an operation of the protocol, whose messages are queued
 * before the page is unlocked; the thread sleeps until it is complete.  Ranges of several pages,
 * and calls that do not wait, are in access_parts.c.
 */
#include "access/access_int.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/lock.h"

/* ---- Misses --------------------------------------------------------------------------------- */

void dmi_access_request(const struct transfer *transfer, struct dmi_req *req, uint64_t off,
                        uint64_t size, unsigned char *buf) {
  req->type = transfer->type;
  req->kind = transfer->kind;
  req->off = off;
  req->len = size;
  if (transfer->write) {
    req->src = (struct dmi_slice){NULL, buf, size};
  } else {
    req->dst = buf;
  }
}

/* Carries out a transfer in one page that is no hit, as one operation.  Takes over a reference to
 * the mapping.  The page is locked; NULL: it had no record. */
static int32_t miss(const struct transfer *transfer, struct dmi_mapping *mapping, uint64_t index,
                    struct dmi_page *page, uint64_t off) {
  struct dmi_access *access = transfer->access;
  struct dmi_status status;
  struct dmi_call call;
  struct dmi_op op = {.mapping = mapping, .call = &call};
  int32_t error;
  if (!page) {
    page = dmi_mapping_get(&access->core, mapping, index, &error);
    if (!page || dmi_access_hit(transfer, page, off, transfer->size, transfer->buf)) {
      dmi_mapping_unref(&access->core, mapping);
      return page ? DMI_OK : error;
    }
  }
  op.page = page;
  dmi_access_request(transfer, &op.req, off, transfer->size, transfer->buf);
  dmi_status_begin(&status);
  dmi_access_call_begin(&call, &status, false);
  dmi_access_op_locked(access, &op, NULL);
  error = dmi_access_wait_for(
      access, &status,
      &(struct dmi_access_for){DMI_DOING_PAGE, transfer->addr, transfer->size, op.req.op.n});
  return error;
}

static int32_t run(const struct transfer *transfer) {
  struct dmi_access *access = transfer->access;
  bool held, one, referenced;
  int32_t error = DMI_OK;
  struct dmi_page *page;
  uint64_t off, index;
  struct dmi_mapping *mapping = dmi_access_find(access, (int64_t)transfer->addr,
                                                (int64_t)transfer->size, false, &held, &error);
  if (!mapping) return dmi_status_refuse(transfer->status, error);
  index = dmi_mapping_index(mapping, transfer->addr, &off);
  one = transfer->size <= mapping->map.page_size - off;
  page = one ? dmi_mapping_find(mapping, index) : NULL;
  if (page && dmi_access_hit(transfer, page, off, transfer->size, transfer->buf)) {
    dmi_epoch_leave();
    dmi_access_release(access, mapping, held);
    return transfer->status ? dmi_status_succeed(transfer->status) : DMI_TRUE;
  }
  referenced = dmi_mapping_ref(mapping);
  if (page && (transfer->status || !referenced)) dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_epoch_leave(); /* the rest may wait */
  if (!referenced) {
    error = DMI_EADDR;
  } else if (one && !transfer->status) {
    error = miss(transfer, mapping, index, page, off);
  } else {
    error = dmi_access_parts(transfer, mapping);
  }
  dmi_access_release(access, mapping, held);
  return error == DMI_OK ? DMI_TRUE : dmi_status_refuse(transfer->status, error);
}

/* ---- Reads and writes ----------------------------------------------------------------------- */

/* Size 0 succeeds at any address. */
static int32_t nothing(DMI_local_status_t *status) {
  if (dmi_in_function) return dmi_status_refuse(status, DMI_EINFUNC);
  return status ? dmi_status_succeed(status) : DMI_TRUE;
}

static int32_t bad_buffer(DMI_local_status_t *status, int64_t size) {
  return dmi_status_refuse(status, size < 0
                                       ? dmi_because_of(DMI_EINVAL, "the size is negative", size)
                                       : dmi_because(DMI_EINVAL, "the buffer is NULL"));
}

static int32_t bad_mode(DMI_local_status_t *status, const char *reason) {
  return dmi_status_refuse(status, dmi_because(DMI_EINVAL, reason));
}

/* What a mode for reading asks for.  False: it is none. */
static bool read_mode(struct transfer *transfer, int8_t mode) {
  switch (mode) {
    case DMI_INVALIDATE_READ:
      transfer->type = DMI_REQ_READ;
      transfer->kind = DMI_KIND_INVALIDATE;
      return true;
    case DMI_UPDATE_READ:
      transfer->type = DMI_REQ_READ;
      transfer->kind = DMI_KIND_UPDATE;
      return true;
    case DMI_GET_READ:
      transfer->type = DMI_REQ_GET;
      transfer->kind = 0;
      return true;
    default:
      return false;
  }
}

static int32_t read_with(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                         int8_t mode, DMI_local_status_t *status, struct dmi_access_end *end) {
  struct transfer transfer;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  if (!read_mode(&transfer, mode)) {
    return bad_mode(status,
                    "the mode is not one of DMI_INVALIDATE_READ, DMI_UPDATE_READ, DMI_GET_READ");
  }
  if (!size) return nothing(status);
  transfer.access = access;
  transfer.addr = (uint64_t)addr;
  transfer.size = (uint64_t)size;
  transfer.buf = buf;
  transfer.write = false;
  transfer.status = status;
  transfer.end = end;
  return run(&transfer);
}

int32_t dmi_access_read(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status) {
  return read_with(access, addr, size, buf, mode, status, NULL);
}

/* The status is done only if the call is over without `end`. */
bool dmi_access_fetch(struct dmi_access *access, int64_t addr, int64_t size, void *buf, int8_t mode,
                      struct dmi_access_end *end, int32_t *error) {
  DMI_local_status_t status;
  if (!read_with(access, addr, size, buf, mode, &status, end)) {
    *error = dmi_error_last();
    return true;
  }
  *error = DMI_OK;
  return dmi_status_is_done(dmi_status_of(&status));
}

/* True if the address is in no mapping, and just behind the last byte of one. */
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

/* An EXCLUSIVE write of 0 bytes moves the page here, like a compare-and-swap that changes nothing.
 * At the end of a mapping there is no page to move. */
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
  struct transfer transfer;
  if (size < 0 || (size && !buf)) return bad_buffer(status, size);
  if (mode != DMI_EXCLUSIVE_WRITE && mode != DMI_PUT_WRITE)
    return bad_mode(status, "the mode is not one of DMI_EXCLUSIVE_WRITE, DMI_PUT_WRITE");
  if (!size) {
    return mode == DMI_PUT_WRITE ? nothing(status) : fetch_page(access, addr, status);
  }
  transfer.access = access;
  transfer.addr = (uint64_t)addr;
  transfer.size = (uint64_t)size;
  /* The cast is safe: a write only reads the buffer. */
  transfer.buf = (unsigned char *)(uintptr_t)buf;
  transfer.type = mode == DMI_PUT_WRITE ? DMI_REQ_PUT : DMI_REQ_EXCL;
  transfer.kind = 0;
  transfer.write = true;
  transfer.status = status;
  transfer.end = NULL;
  return run(&transfer);
}
