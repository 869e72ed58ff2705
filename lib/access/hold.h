/*
 * hold.h - bytes of a page that stay where they are, unchanged, while they are held.
 */
#ifndef DMI_ACCESS_HOLD_H
#define DMI_ACCESS_HOLD_H

#include "access/access.h"
#include "dmi_ext.h"

/* DMI_hold and DMI_release. */
int32_t dmi_hold_begin(struct dmi_access *access, int64_t addr, int64_t size, const void **ptr_ptr,
                       DMI_local_hold_t *hold);
int32_t dmi_hold_end(DMI_local_hold_t *hold);

#endif
