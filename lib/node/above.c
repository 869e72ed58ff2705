/*
 * above.c - what lib/access asks of this layer (struct dmi_access_above): the directory of
 * mappings, which the daemon thread asks, and the pager.
 */
#include "node/calls.h"
#include "node/pager.h"
#include "node/runtime.h"

static struct dmi_mapping *lookup(void *process, uint64_t addr, int32_t *error) {
  return dmi_call_lookup(process, addr, error);
}

static int32_t map(void *process, uint64_t page_size, uint64_t page_num, uint64_t tag,
                   int64_t *addr) {
  return dmi_call_map(process, page_size, page_num, tag, addr);
}

static int32_t unmap(void *process, uint64_t base, uint64_t tag) {
  return dmi_call_unmap(process, base, tag);
}

static void unmap_later(void *process, uint64_t base, uint64_t tag) {
  dmi_call_unmap_later(process, base, tag);
}

static void stalled(void *process, struct dmi_page *page) {
  dmi_pager_stalled(((struct dmi_process *)process)->pager, page);
}

static void wake_pager(void *process) {
  dmi_pager_wake(((struct dmi_process *)process)->pager);
}

const struct dmi_access_above dmi_runtime_above = {
    .lookup = lookup,
    .map = map,
    .unmap = unmap,
    .unmap_later = unmap_later,
    .stalled = stalled,
    .wake_pager = wake_pager,
};
