/*
 * scattered.c - entry points: groups and read-write-sets (chapter 4).
 *
 * Thin: each checks what can be seen here and calls lib/service.
 */
#include "base/error.h"
#include "service/rwset.h"
#include "service/runtime.h"

#define GROUP_MAGIC INT64_C(0x70756f7267494d44) /* "DMIgroup" */

/* What a DMI_local_group_t has, NULL: it is none. */
static struct dmi_group *group_of(const DMI_local_group_t *group) {
  if (!group || group->dmi_private[0] != GROUP_MAGIC) return NULL;
  return (struct dmi_group *)(uintptr_t)group->dmi_private[1];
}

/* Do sizes and offsets have each other's place?  Items that lie side by side in the buffer have
 * offsets that the sizes before them add up to; no program has sizes that the offsets add up to,
 * and, as these are larger than the steps between them, items over each other. */
static bool swapped(const int64_t *sizes, const int64_t *ptr_offsets, int32_t num) {
  int64_t sum = 0;
  bool over = false;
  for (int32_t i = 0; i < num; i++) {
    if (sizes[i] != sum || ptr_offsets[i] <= 0) return false;
    if (i && ptr_offsets[i] < ptr_offsets[i - 1] + sizes[i - 1]) over = true;
    if (__builtin_add_overflow(sum, ptr_offsets[i], &sum)) return false;
  }
  return num >= 3 && over;
}

int32_t DMI_group_init(DMI_local_group_t *group, const int64_t *addrs, const int64_t *sizes,
                       const int64_t *ptr_offsets, int32_t group_num) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_group_item *item;
  struct dmi_group *made = NULL;
  int32_t error = DMI_OK;
  if (!process) return DMI_FALSE;
  if (!group || group_num < 0 || (group_num && (!addrs || !sizes || !ptr_offsets)))
    return dmi_fail(DMI_EINVAL);
  item = malloc(((size_t)group_num + 1) * sizeof(*item));
  if (!item) return dmi_fail(DMI_ENOMEM);
  for (int32_t i = 0; i < group_num; i++) {
    item[i] = (struct dmi_group_item){addrs[i], sizes[i], ptr_offsets[i]};
    if (sizes[i] < 0) error = DMI_EINVAL;
  }
  if (error == DMI_OK && group_num && swapped(sizes, ptr_offsets, group_num)) error = DMI_EINVAL;
  if (error == DMI_OK) error = dmi_group_new(process, item, (uint64_t)group_num, &made);
  free(item);
  if (error != DMI_OK) return dmi_fail(error);
  group->dmi_private[0] = GROUP_MAGIC;
  group->dmi_private[1] = (int64_t)(uintptr_t)made;
  return DMI_TRUE;
}

int32_t DMI_group_destroy(DMI_local_group_t *group) {
  struct dmi_group *have = group_of(group);
  if (dmi_in_function) return dmi_fail(DMI_EINFUNC); /* the program may be over */
  if (!have) return dmi_fail(DMI_EINVAL);
  group->dmi_private[0] = group->dmi_private[1] = 0;
  dmi_group_unref(have);
  return DMI_TRUE;
}

int32_t DMI_group_read(DMI_local_group_t *group, void *in_ptr, DMI_local_status_t *status) {
  struct dmi_group *have = group_of(group);
  if (!have || (!in_ptr && have->pages)) return dmi_status_refuse(status, DMI_EINVAL);
  return dmi_group_read(have, in_ptr, status);
}

int32_t DMI_group_write(DMI_local_group_t *group, const void *out_ptr, DMI_local_status_t *status) {
  struct dmi_group *have = group_of(group);
  if (!have || (!out_ptr && have->pages)) return dmi_status_refuse(status, DMI_EINVAL);
  return dmi_group_write(have, out_ptr, status);
}

/* ---- Read-write-sets ------------------------------------------------------------------------- */

#define RWSET_MAGIC INT64_C(0x6c74657377724d44) /* "DMrwsetl" */

static bool no_list(const int64_t *elements, int32_t num) {
  return num < 0 || (num && !elements);
}

int32_t DMI_rwset_init(int64_t rwset_addr, int64_t element_num, int64_t element_size,
                       int32_t rwset_num) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  return dmi_result(dmi_rwset_init(process, rwset_addr, element_num, element_size, rwset_num));
}

int32_t DMI_rwset_destroy(int64_t rwset_addr) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  return dmi_result(dmi_rwset_destroy(process, rwset_addr));
}

int32_t DMI_rwset_decompose(int64_t rwset_addr, int32_t my_id, const int64_t *write_elements,
                            int32_t write_element_num) {
  struct dmi_process *process = dmi_runtime_usable();
  if (!process) return DMI_FALSE;
  if (no_list(write_elements, write_element_num)) return dmi_fail(DMI_EINVAL);
  return dmi_result(
      dmi_rwset_decompose(process, rwset_addr, my_id, write_elements, write_element_num));
}

static struct dmi_rwset *rwset_of(const DMI_local_rwset_t *local) {
  if (!local || local->dmi_private[0] != RWSET_MAGIC) return NULL;
  return (struct dmi_rwset *)(uintptr_t)local->dmi_private[1];
}

int32_t DMI_local_rwset_init(DMI_local_rwset_t *local_rwset, int64_t rwset_addr, int32_t my_id,
                             const int64_t *read_elements, int32_t read_element_num) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_rwset *made = NULL;
  int32_t error;
  if (!process) return DMI_FALSE;
  if (!local_rwset || no_list(read_elements, read_element_num)) return dmi_fail(DMI_EINVAL);
  error = dmi_rwset_open(process, rwset_addr, my_id, read_elements, read_element_num, &made);
  if (error != DMI_OK) return dmi_fail(error);
  local_rwset->dmi_private[0] = RWSET_MAGIC;
  local_rwset->dmi_private[1] = (int64_t)(uintptr_t)made;
  return DMI_TRUE;
}

int32_t DMI_local_rwset_destroy(DMI_local_rwset_t *local_rwset) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  if (dmi_in_function) return dmi_fail(DMI_EINFUNC); /* the program may be over */
  if (!have) return dmi_fail(DMI_EINVAL);
  local_rwset->dmi_private[0] = local_rwset->dmi_private[1] = 0;
  dmi_rwset_close(have);
  return DMI_TRUE;
}

int32_t DMI_local_rwset_write(DMI_local_rwset_t *local_rwset, const void *buf,
                              DMI_local_status_t *status) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  if (!have || (!buf && have->bytes)) return dmi_status_refuse(status, DMI_EINVAL);
  /* A domain that writes nothing has no page. */
  return dmi_access_write(have->process, have->addr, have->bytes, buf,
                          have->bytes ? DMI_EXCLUSIVE_WRITE : DMI_PUT_WRITE, status);
}

int32_t DMI_local_rwset_read(DMI_local_rwset_t *local_rwset, void *buf,
                             DMI_local_status_t *status) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  if (!have || (!buf && have->group->pages)) return dmi_status_refuse(status, DMI_EINVAL);
  return dmi_group_read(have->group, buf, status);
}
