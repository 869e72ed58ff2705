/*
 * access_revive.c - DMI_revive: pages whose bytes were lost with a process become usable again.
 *
 * Each page is an operation REVIVE at its owner, which alone knows whether it is LOST; so nothing
 * that was written since is touched.  At most DMI_PAGES_AT_ONCE are in flight.
 */
#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "base/error.h"

/* True if the bytes are here: then the page is not LOST. */
static bool is_here(struct dmi_access *access, struct dmi_page *page) {
  bool here;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  here = dmi_access_readable(&access->core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return here;
}

/* Begins the operation on one page; *answer gets 1 if the page was LOST. */
static int32_t revive_begin(struct dmi_access *access, struct dmi_call *call,
                            struct dmi_mapping *mapping, uint64_t index, uint64_t *answer) {
  struct dmi_op *op;
  int32_t error;
  struct dmi_page *page = dmi_mapping_get(&access->core, mapping, index, &error);
  if (!page) return error;
  if (is_here(access, page)) return DMI_OK;
  op = calloc(1, sizeof(*op));
  if (!op) return DMI_ENOMEM;
  if (!dmi_mapping_ref(mapping)) {
    free(op);
    return DMI_EADDR;
  }
  op->req.type = DMI_REQ_ATOMIC;
  op->req.kind = DMI_RMW_REVIVE;
  op->req.sizes.in = sizeof(*answer);
  op->req.src.ptr = op->small;
  op->req.dst = answer;
  op->heap = true;
  op->mapping = mapping;
  op->page = page;
  op->call = call;
  atomic_fetch_add(&call->left, 1);
  dmi_access_op_begin(access, op, NULL);
  return DMI_OK;
}

/* Pages [first, end), at most DMI_PAGES_AT_ONCE; adds to *pages how many were LOST. */
static int32_t revive_some(struct dmi_access *access, struct dmi_mapping *mapping, uint64_t first,
                           uint64_t end, int64_t *pages) {
  uint64_t *answer = calloc(end - first, sizeof(*answer));
  struct dmi_status status;
  struct dmi_call call;
  int32_t error;
  if (!answer) return DMI_ENOMEM;
  dmi_status_begin(&status);
  dmi_access_call_begin(&call, &status, false);
  for (uint64_t i = first; i < end; i++) {
    error = revive_begin(access, &call, mapping, i, &answer[i - first]);
    if (error != DMI_OK) dmi_access_call_fail(&call, error);
  }
  dmi_access_call_finish(&call);
  error = dmi_access_wait_for(access, &status, &(struct dmi_access_for){.what = DMI_DOING_PAGE});
  for (uint64_t i = first; i < end; i++)
    *pages += (int64_t)answer[i - first];
  free(answer);
  return error;
}

/* The mapping, with a reference. */
static struct dmi_mapping *find(struct dmi_access *access, int64_t addr, int64_t size, bool system,
                                int32_t *error) {
  bool held;
  struct dmi_mapping *mapping = dmi_access_find(access, addr, size, system, &held, error);
  if (!mapping) return NULL;
  if (!held && !dmi_mapping_ref(mapping)) {
    mapping = NULL;
    *error = DMI_EADDR;
  }
  dmi_epoch_leave();
  return mapping;
}

int32_t dmi_access_revive(struct dmi_access *access, int64_t addr, int64_t size, bool system,
                          int64_t *pages_ptr) {
  struct dmi_mapping *mapping;
  int32_t error = DMI_OK;
  uint64_t at, end, off;
  int64_t pages = 0;
  if (size < 0) return dmi_fail(dmi_because_of(DMI_EINVAL, "the size is negative", size));
  mapping = find(access, addr, size, system, &error);
  if (!mapping) return dmi_fail(error);
  at = dmi_mapping_index(mapping, (uint64_t)addr, &off);
  end = size ? dmi_mapping_index(mapping, (uint64_t)addr + (uint64_t)size - 1, &off) + 1 : at;
  while (at < end && error == DMI_OK) {
    uint64_t next = end - at < DMI_PAGES_AT_ONCE ? end : at + DMI_PAGES_AT_ONCE;
    error = revive_some(access, mapping, at, next, &pages);
    at = next;
  }
  dmi_mapping_unref(&access->core, mapping);
  if (pages_ptr) *pages_ptr = pages;
  return dmi_result(error);
}
