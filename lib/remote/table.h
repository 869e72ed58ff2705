/*
 * table.h - a hash table by names {client, number}: open addressing, so that a look is one or two
 * cache lines.  Pure; its owner has a lock.
 */
#ifndef DMI_REMOTE_TABLE_H
#define DMI_REMOTE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "remote/types.h"

/* The name of a client as a number. */
static inline uint64_t dmi_remote_packed(dmi_remote_client_t client) {
  return (uint64_t)client.process << 32 | client.n;
}

struct dmi_remote_slot {
  uint64_t client, number;
  void *at; /* NULL: free */
};

/* All zero: empty. */
struct dmi_remote_table {
  struct dmi_remote_slot *slots;
  size_t num, size; /* slots used; of all, a power of two */
};

/* NULL: it is not there. */
void *dmi_remote_table_find(const struct dmi_remote_table *table, dmi_remote_client_t client,
                            uint64_t number);
/* The name must not be there. */
void dmi_remote_table_put(struct dmi_remote_table *table, dmi_remote_client_t client,
                          uint64_t number, void *at);
/* The name must be there. */
void dmi_remote_table_remove(struct dmi_remote_table *table, dmi_remote_client_t client,
                             uint64_t number);
void dmi_remote_table_free(struct dmi_remote_table *table);

#endif
