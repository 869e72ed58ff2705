/*
 * save.c - DMI_save and DMI_unsave.
 *
 * They move no pages: they only change the mapping's set of saved pages (dmi_mapping_saved).
 */
#include "access/save.h"

#include "base/error.h"

int32_t dmi_save(struct dmi_access *access, int64_t addr, int64_t size, bool saved) {
  struct dmi_mapping *mapping;
  int32_t error = DMI_OK;
  uint64_t first, last, off;
  if (size < 0) return dmi_fail(dmi_because_of(DMI_EINVAL, "the size is negative", size));
  if (!size && !dmi_in_function) return DMI_TRUE;
  mapping = dmi_access_mapping(access, addr, size, &error);
  if (!mapping) return dmi_fail(error);
  first = dmi_mapping_index(mapping, (uint64_t)addr, &off);
  last = dmi_mapping_index(mapping, (uint64_t)addr + (uint64_t)size - 1, &off);
  if (!dmi_mapping_save(mapping, first, last + 1, saved)) error = DMI_ENOMEM;
  if (!saved) access->above->wake_pager(access->above_arg);
  dmi_mapping_unref(&access->core, mapping);
  return dmi_result(error);
}
