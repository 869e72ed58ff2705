/*
 * scattered.c - entry points: groups and read-write-sets (chapter 4).
 *
 * Each checks its arguments as far as it can here, and calls the layers below.
 */
#include "api/local.h"

#include <inttypes.h>

#include "api/reported.h"
#include "base/error.h"
#include "access/rwset.h"
#include "node/runtime.h"

/* The group behind the handle; NULL: no_group tells why. */
static struct dmi_group *group_of(const DMI_local_group_t *group) {
  return dmi_local_get(group ? group->dmi_private : NULL, DMI_LOCAL_GROUP);
}

/* True if sizes and offsets seem to be exchanged.  When items lie side by side in the buffer, each
 * offset is the sum of the sizes before it.  If instead each size is the sum of the offsets before
 * it, and items overlap, then this is no layout that a program would want. */
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

/* What is wrong with the arguments, without looking at mappings; DMI_OK: nothing. */
static int32_t bad_items(const int64_t *addrs, const int64_t *sizes, const int64_t *ptr_offsets,
                         int32_t num) {
  if (num < 0) return dmi_because_of(DMI_EINVAL, "the number of items is negative", num);
  if (num && (!addrs || !sizes || !ptr_offsets)) return dmi_because(DMI_EINVAL, "an array is NULL");
  for (int32_t i = 0; i < num; i++) {
    if (sizes[i] < 0)
      return dmi_because_so(DMI_EINVAL, "the size of item %d is negative: %" PRId64, i, sizes[i]);
  }
  if (!num || !swapped(sizes, ptr_offsets, num)) return DMI_OK;
  return dmi_because(DMI_EINVAL,
                     "sizes and ptr_offsets are exchanged: the order is addrs, sizes, "
                     "ptr_offsets");
}

/* For a report: the index of the first item that cannot be used; `num` if all can. */
static int32_t first_bad(struct dmi_process *process, const int64_t *addrs, const int64_t *sizes,
                         int32_t num) {
  int32_t at = 0, error = DMI_OK;
  for (; at < num; at++) {
    struct dmi_mapping *mapping;
    if (!sizes[at]) continue;
    mapping =
        sizes[at] < 0 ? NULL : dmi_access_mapping(&process->access, addrs[at], sizes[at], &error);
    if (!mapping) break;
    dmi_mapping_unref(&process->access.core, mapping);
  }
  return at;
}

static int32_t group_init(struct dmi_process *process, DMI_local_group_t *group,
                          const int64_t *addrs, const int64_t *sizes, const int64_t *ptr_offsets,
                          int32_t group_num) {
  struct dmi_group_item *item;
  struct dmi_group *made = NULL;
  int32_t error;
  if (!group) return dmi_because(DMI_EINVAL, "the pointer to the group is NULL");
  error = bad_items(addrs, sizes, ptr_offsets, group_num);
  if (error != DMI_OK) return error;
  item = malloc(((size_t)group_num + 1) * sizeof(*item));
  if (!item) return DMI_ENOMEM;
  for (int32_t i = 0; i < group_num; i++)
    item[i] = (struct dmi_group_item){addrs[i], sizes[i], ptr_offsets[i]};
  error = dmi_group_new(&process->access, item, (uint64_t)group_num, &made);
  free(item);
  if (error != DMI_OK) return error;
  dmi_local_make(group->dmi_private, DMI_LOCAL_GROUP, made);
  return DMI_OK;
}

/* True if these can be sizes.  Offsets usually begin with 0. */
static bool all_positive(const int64_t *number, int32_t num) {
  for (int32_t i = 0; i < num; i++) {
    if (number[i] <= 0) return false;
  }
  return true;
}

int32_t DMI_group_init(DMI_local_group_t *group, const int64_t *addrs, const int64_t *sizes,
                       const int64_t *ptr_offsets, int32_t group_num) {
  struct dmi_process *process = dmi_runtime_usable();
  int32_t error, bad;
  if (!process) return DMI_REPORTED(DMI_FALSE, DMI_NOTHING);
  error = group_init(process, group, addrs, sizes, ptr_offsets, group_num);
  if (error != DMI_EADDR && error != DMI_ERANGE)
    return DMI_REPORTED(dmi_result(error), DMI_NOTHING);
  bad = first_bad(process, addrs, sizes, group_num);
  if (bad == group_num) return DMI_REPORTED(dmi_fail(error), DMI_NOTHING);
  if (all_positive(ptr_offsets, group_num) &&
      first_bad(process, addrs, ptr_offsets, group_num) == group_num) {
    (void)dmi_because(error,
                      "with sizes and ptr_offsets exchanged all items would be right: "
                      "the order is addrs, sizes, ptr_offsets");
  }
  return DMI_REPORTED(dmi_fail(error), DMI_RANGE(addrs[bad], sizes[bad]));
}

static int32_t no_group(const DMI_local_group_t *group, DMI_local_status_t *status) {
  return dmi_status_refuse(status,
                           dmi_local_why(group ? group->dmi_private : NULL, DMI_LOCAL_GROUP));
}

static int32_t no_buffer(DMI_local_status_t *status) {
  return dmi_status_refuse(status, dmi_because(DMI_EINVAL, "the buffer is NULL"));
}

int32_t DMI_group_destroy(DMI_local_group_t *group) {
  struct dmi_group *have = group_of(group);
  /* This must work after the end of the program, too. */
  if (dmi_in_function) return DMI_REPORTED(dmi_fail(DMI_EINFUNC), DMI_NOTHING);
  if (!have) return DMI_REPORTED(no_group(group, NULL), DMI_NOTHING);
  dmi_local_end(group->dmi_private);
  dmi_group_unref(have);
  return DMI_TRUE;
}

int32_t DMI_group_read(DMI_local_group_t *group, void *in_ptr, DMI_local_status_t *status) {
  struct dmi_group *have = group_of(group);
  return DMI_REPORTED_ASYNC(!have                    ? no_group(group, status)
                            : !in_ptr && have->pages ? no_buffer(status)
                                                     : dmi_group_read(have, in_ptr, status),
                            status, DMI_NOTHING);
}

int32_t DMI_group_write(DMI_local_group_t *group, const void *out_ptr, DMI_local_status_t *status) {
  struct dmi_group *have = group_of(group);
  return DMI_REPORTED_ASYNC(!have                     ? no_group(group, status)
                            : !out_ptr && have->pages ? no_buffer(status)
                                                      : dmi_group_write(have, out_ptr, status),
                            status, DMI_NOTHING);
}

/* ---- Read-write-sets ------------------------------------------------------------------------- */

/* What is wrong with a list of elements; DMI_OK: nothing. */
static int32_t bad_list(const int64_t *elements, int32_t num) {
  if (num < 0) return dmi_because_of(DMI_EINVAL, "the number of elements is negative", num);
  return num && !elements ? dmi_because(DMI_EINVAL, "the list of elements is NULL") : DMI_OK;
}

int32_t DMI_rwset_init(int64_t rwset_addr, int64_t element_num, int64_t element_size,
                       int32_t rwset_num) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_result(dmi_rwset_init(&process->access, rwset_addr, element_num,
                                                          element_size, rwset_num))
                              : DMI_FALSE,
                      DMI_RANGE(rwset_addr, sizeof(DMI_rwset_t)));
}

int32_t DMI_rwset_destroy(int64_t rwset_addr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_result(dmi_rwset_destroy(&process->access, rwset_addr)) : DMI_FALSE,
      DMI_RANGE(rwset_addr, sizeof(DMI_rwset_t)));
}

int32_t DMI_rwset_decompose(int64_t rwset_addr, int32_t my_id, const int64_t *write_elements,
                            int32_t write_element_num) {
  struct dmi_process *process = dmi_runtime_usable();
  int32_t error = process ? bad_list(write_elements, write_element_num) : dmi_error_last();
  if (error == DMI_OK) {
    error =
        dmi_rwset_decompose(&process->access, rwset_addr, my_id, write_elements, write_element_num);
  }
  return DMI_REPORTED(dmi_result(error), DMI_RANGE(rwset_addr, sizeof(DMI_rwset_t)));
}

static struct dmi_rwset *rwset_of(const DMI_local_rwset_t *local) {
  return dmi_local_get(local ? local->dmi_private : NULL, DMI_LOCAL_RWSET);
}

int32_t DMI_local_rwset_init(DMI_local_rwset_t *local_rwset, int64_t rwset_addr, int32_t my_id,
                             const int64_t *read_elements, int32_t read_element_num) {
  struct dmi_process *process = dmi_runtime_usable();
  struct dmi_rwset *made = NULL;
  int32_t error = process ? bad_list(read_elements, read_element_num) : dmi_error_last();
  if (error == DMI_OK && !local_rwset) error = dmi_because(DMI_EINVAL, "the pointer is NULL");
  if (error == DMI_OK) {
    error =
        dmi_rwset_open(&process->access, rwset_addr, my_id, read_elements, read_element_num, &made);
  }
  if (error == DMI_OK) dmi_local_make(local_rwset->dmi_private, DMI_LOCAL_RWSET, made);
  return DMI_REPORTED(dmi_result(error), DMI_RANGE(rwset_addr, sizeof(DMI_rwset_t)));
}

static int32_t no_rwset(const DMI_local_rwset_t *local, DMI_local_status_t *status) {
  return dmi_status_refuse(status,
                           dmi_local_why(local ? local->dmi_private : NULL, DMI_LOCAL_RWSET));
}

int32_t DMI_local_rwset_destroy(DMI_local_rwset_t *local_rwset) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  /* This must work after the end of the program, too. */
  if (dmi_in_function) return DMI_REPORTED(dmi_fail(DMI_EINFUNC), DMI_NOTHING);
  if (!have) return DMI_REPORTED(no_rwset(local_rwset, NULL), DMI_NOTHING);
  dmi_local_end(local_rwset->dmi_private);
  dmi_rwset_close(have);
  return DMI_TRUE;
}

int32_t DMI_local_rwset_write(DMI_local_rwset_t *local_rwset, const void *buf,
                              DMI_local_status_t *status) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  /* A domain that writes nothing has no page. */
  return DMI_REPORTED_ASYNC(
      !have ? no_rwset(local_rwset, status)
      : !buf && have->bytes
          ? no_buffer(status)
          : dmi_access_write(have->access, have->addr, have->bytes, buf,
                             have->bytes ? DMI_EXCLUSIVE_WRITE : DMI_PUT_WRITE, status),
      status, DMI_NOTHING);
}

int32_t DMI_local_rwset_read(DMI_local_rwset_t *local_rwset, void *buf,
                             DMI_local_status_t *status) {
  struct dmi_rwset *have = rwset_of(local_rwset);
  return DMI_REPORTED_ASYNC(!have                        ? no_rwset(local_rwset, status)
                            : !buf && have->group->pages ? no_buffer(status)
                                                         : dmi_group_read(have->group, buf, status),
                            status, DMI_NOTHING);
}
