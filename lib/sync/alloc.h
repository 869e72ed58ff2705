/*
 * alloc.h - DMI_malloc, DMI_realloc, DMI_free (docs/allocator.md).
 */
#ifndef DMI_SYNC_ALLOC_H
#define DMI_SYNC_ALLOC_H

#include "access/access.h"

struct dmi_alloc;

struct dmi_alloc *dmi_alloc_new(struct dmi_access *access); /* NULL: no memory */
void dmi_alloc_free(struct dmi_alloc *alloc);

/* DMI_malloc, DMI_realloc and DMI_free.  All return DMI_TRUE or DMI_FALSE.  `alloc` is NULL when
 * the program does not run. */
int32_t dmi_alloc_malloc(struct dmi_alloc *alloc, int64_t *addr, int64_t size, int64_t page_size);
int32_t dmi_alloc_realloc(struct dmi_alloc *alloc, int64_t old_addr, int64_t *addr, int64_t size,
                          int64_t page_size);
int32_t dmi_alloc_release(struct dmi_alloc *alloc, int64_t addr);

#endif
