/*
 * save.c - DMI_save and DMI_unsave.
 *
 * They note the wish and move nothing: the notes are the mapping's (dmi_mapping_saved says what
 * they are), and go with it.
 */
#include "service/save.h"

#include "base/epoch.h"
#include "base/error.h"

/* The mapping of an address, with a reference.  NULL: *error. */
static struct dmi_mapping *mapping_of(struct dmi_process *process, uint64_t addr, int32_t *error) {
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(addr);
  if (mapping && !dmi_mapping_ref(mapping)) mapping = NULL;
  dmi_epoch_leave();
  return mapping ? mapping : dmi_lookup(process, addr, error);
}

int32_t dmi_save(struct dmi_process *process, int64_t addr, int64_t size, bool saved) {
  struct dmi_mapping *mapping;
  int32_t error = DMI_OK;
  uint64_t first, last, off;
  if (dmi_in_function) return dmi_fail(DMI_EINFUNC);
  if (!process || !atomic_load(&process->active)) return dmi_fail(DMI_EINACTIVE);
  if (size < 0) return dmi_fail(DMI_EINVAL);
  if (!size) return DMI_TRUE;
  mapping = mapping_of(process, (uint64_t)addr, &error);
  if (!mapping) return dmi_fail(error);
  if ((uint64_t)size > mapping->end - (uint64_t)addr) {
    error = DMI_ERANGE;
  } else {
    first = dmi_mapping_index(mapping, (uint64_t)addr, &off);
    last = dmi_mapping_index(mapping, (uint64_t)addr + (uint64_t)size - 1, &off);
    if (!dmi_mapping_save(mapping, first, last + 1, saved)) error = DMI_ENOMEM;
  }
  dmi_mapping_unref(&process->core, mapping);
  return error == DMI_OK ? DMI_TRUE : dmi_fail(error);
}
