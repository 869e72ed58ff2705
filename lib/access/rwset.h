/*
 * rwset.h - read-write-sets: each domain writes values of its own and reads some of its
 * neighbours'.
 *
 * Uses only reads, writes and read-modify-writes of global memory; it has no messages of its own.
 */
#ifndef DMI_ACCESS_RWSET_H
#define DMI_ACCESS_RWSET_H

#include "access/group.h"

/* What DMI_local_rwset_init makes. */
struct dmi_rwset {
  struct dmi_access *access;
  int64_t addr, bytes;     /* the domain's values in global memory */
  struct dmi_group *group; /* its read set */
};

/* As the DMI_ functions with the same names, but they return DMI_OK or an error. */
int32_t dmi_rwset_init(struct dmi_access *access, int64_t addr, int64_t element_num,
                       int64_t element_size, int32_t rwset_num);
int32_t dmi_rwset_destroy(struct dmi_access *access, int64_t addr);
int32_t dmi_rwset_decompose(struct dmi_access *access, int64_t addr, int32_t my_id,
                            const int64_t *element, int32_t num);
int32_t dmi_rwset_open(struct dmi_access *access, int64_t addr, int32_t my_id,
                       const int64_t *element, int32_t num, struct dmi_rwset **rwset);
void dmi_rwset_close(struct dmi_rwset *rwset);

#endif
