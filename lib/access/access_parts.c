/*
 * access_parts.c - reads and writes of several pages, or whose caller does not wait.
 *
 * Each page that is not a hit becomes an operation, in a block of the call; the call is complete
 * when all of them are.  Their messages are queued and written together.  A caller that waits
 * begins at most DMI_PAGES_AT_ONCE at a time.
 */
#include <stdlib.h>

#include "access/access_int.h"

/* Begins the operation for the part in one page that is not a hit; `most`: so many parts are left.
 */
static int32_t part_begin(const struct transfer *transfer, struct dmi_call *call,
                          struct dmi_mapping *mapping, struct dmi_page *page, uint64_t off,
                          uint64_t size, unsigned char *buf, uint64_t most,
                          struct dmi_flush *flush) {
  struct dmi_op *op = dmi_access_call_op(call, most);
  if (!op) return DMI_ENOMEM;
  dmi_access_request(transfer, &op->req, off, size, buf);
  /* copied, since the caller may change its buffer meanwhile */
  if (transfer->write && transfer->status) {
    op->req.src = dmi_slice_copy(buf, size);
    if (!op->req.src.ptr) return DMI_ENOMEM;
  }
  if (!dmi_mapping_ref(mapping)) {
    dmi_slice_drop(&op->req.src);
    return DMI_EADDR;
  }
  op->mapping = mapping;
  op->page = page;
  op->call = call;
  atomic_fetch_add(&call->left, 1);
  dmi_access_op_begin(transfer->access, op, flush);
  return DMI_OK;
}

/* Does all parts of [addr, addr + left): hits at once, the others as operations of one call that
 * has begun. */
static void begin_all(const struct transfer *transfer, struct dmi_call *call,
                      struct dmi_mapping *mapping, uint64_t addr, uint64_t left) {
  unsigned char *buf = transfer->buf + (addr - transfer->addr);
  struct dmi_flush flush;
  dmi_access_flush_init(&flush);
  while (left) {
    uint64_t off, index = dmi_mapping_index(mapping, addr, &off);
    uint64_t size = mapping->map.page_size - off;
    int32_t error;
    struct dmi_page *page = dmi_mapping_get(&transfer->access->core, mapping, index, &error);
    if (size > left) size = left;
    if (page && !dmi_access_hit(transfer, page, off, size, buf)) {
      dmi_unlock(&page->lock, DMI_RANK_PAGE);
      const uint64_t most = 1 + (left - size + mapping->map.page_size - 1) / mapping->map.page_size;
      error = part_begin(transfer, call, mapping, page, off, size, buf, most, &flush);
    } else if (page) {
      error = DMI_OK;
    }
    if (error != DMI_OK) dmi_access_call_fail(call, error);
    addr += size;
    buf += size;
    left -= size;
  }
  dmi_access_flush(transfer->access, &flush);
  dmi_access_call_finish(call);
}

/* A transfer whose caller waits. */
static int32_t parts_now(const struct transfer *transfer, struct dmi_mapping *mapping) {
  uint64_t page_size = mapping->map.page_size;
  uint64_t most =
      page_size > UINT64_MAX / DMI_PAGES_AT_ONCE ? UINT64_MAX : page_size * DMI_PAGES_AT_ONCE;
  uint64_t done = 0;
  int32_t error = DMI_OK;
  while (done < transfer->size && error == DMI_OK) {
    uint64_t part = transfer->size - done < most ? transfer->size - done : most;
    struct dmi_status status;
    struct dmi_call call;
    dmi_status_begin(&status);
    dmi_access_call_begin(&call, &status, false);
    begin_all(transfer, &call, mapping, transfer->addr + done, part);
    error = dmi_access_wait_for(
        transfer->access, &status,
        &(struct dmi_access_for){DMI_DOING_PAGE, transfer->addr, transfer->size, 0});
    done += part;
  }
  return error;
}

int32_t dmi_access_parts(const struct transfer *transfer, struct dmi_mapping *mapping) {
  struct dmi_call *call;
  int32_t error = DMI_OK;
  if (!transfer->status) {
    error = parts_now(transfer, mapping);
  } else if ((call = malloc(sizeof(*call)))) {
    dmi_status_begin(dmi_status_of(transfer->status));
    dmi_access_call_begin(call, dmi_status_of(transfer->status), true);
    call->end = transfer->end;
    begin_all(transfer, call, mapping, transfer->addr, transfer->size);
  } else {
    error = DMI_ENOMEM;
  }
  dmi_mapping_unref(&transfer->access->core, mapping);
  return error;
}
