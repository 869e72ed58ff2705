/*
 * alloc.h - DMI_malloc, DMI_realloc, DMI_free (docs/allocator.md).
 */
#ifndef DMI_SYNC_ALLOC_H
#define DMI_SYNC_ALLOC_H

#include "node/process.h"

/* All return DMI_TRUE or DMI_FALSE. */
int32_t dmi_alloc_malloc(struct dmi_process *process, int64_t *addr, int64_t size,
                         int64_t page_size);
int32_t dmi_alloc_realloc(struct dmi_process *process, int64_t old_addr, int64_t *addr,
                          int64_t size, int64_t page_size);
int32_t dmi_alloc_free(struct dmi_process *process, int64_t addr);

#endif
