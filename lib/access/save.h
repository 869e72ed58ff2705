/*
 * save.h - DMI_save and DMI_unsave: pages that this process should keep in its pool.
 */
#ifndef DMI_ACCESS_SAVE_H
#define DMI_ACCESS_SAVE_H

#include "access/access.h"

/* Marks the pages touched by [addr, addr + size) as saved, or not.  DMI_TRUE or DMI_FALSE. */
int32_t dmi_save(struct dmi_access *access, int64_t addr, int64_t size, bool saved);

#endif
