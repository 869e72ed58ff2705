/*
 * save.h - DMI_save and DMI_unsave: pages that are to stay in this process's pool.
 */
#ifndef DMI_ACCESS_SAVE_H
#define DMI_ACCESS_SAVE_H

#include "access/access.h"

/* Saves the pages touched by [addr, addr + size), or ends that.  DMI_TRUE or DMI_FALSE. */
int32_t dmi_save(struct dmi_access *access, int64_t addr, int64_t size, bool saved);

#endif
