/*
 * idpool.h - pools of small numbers in global memory (DMI_idpool_get): a client of locks, reads and
 * writes.
 */
#ifndef DMI_SYNC_IDPOOL_H
#define DMI_SYNC_IDPOOL_H

#include <stdint.h>

struct dmi_access;
struct dmi_alloc;
struct dmi_sync;

/* What a pool needs of its process. */
struct dmi_idpool {
  struct dmi_access *access;
  struct dmi_alloc *alloc;
  struct dmi_sync *sync;
  int64_t addr; /* of the pool */
};

/* All return DMI_TRUE or DMI_FALSE. */
int32_t dmi_idpool_init(const struct dmi_idpool *pool);
int32_t dmi_idpool_destroy(const struct dmi_idpool *pool);
int32_t dmi_idpool_get(const struct dmi_idpool *pool, int32_t *id);
int32_t dmi_idpool_put(const struct dmi_idpool *pool, int32_t id);

#endif
