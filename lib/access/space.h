/*
 * space.h - the mappings that a process knows, by address.
 *
 * Any thread may look up mappings, without a lock; it must be inside an epoch (base/epoch.h).
 * Mappings are added and removed by the daemon thread only.
 */
#ifndef DMI_ACCESS_SPACE_H
#define DMI_ACCESS_SPACE_H

#include "access/mapping.h"

struct dmi_space_table;

/* A mapping that is not there any more. */
struct dmi_unmapped {
  uint64_t base, page_size, page_num;
  struct dmi_unmapper by;
};

#define DMI_UNMAPPED_KEPT 32 /* the last ones */

struct dmi_space {
  struct dmi_space_table *_Atomic table;
  _Atomic uint64_t generation;    /* changes when a mapping is removed; differs between spaces */
  _Atomic uint32_t unmapped_lock; /* guards the rest */
  uint32_t unmapped_num;          /* all so far; the last one is in place num - 1, modulo */
  struct dmi_unmapped unmapped[DMI_UNMAPPED_KEPT];
};

void dmi_space_init(struct dmi_space *space);
/* Frees the table, at the end of the process. */
void dmi_space_end(struct dmi_space *space, struct dmi_core *core);

/* Adds a mapping; takes over the reference. */
void dmi_space_add(struct dmi_space *space, struct dmi_core *core, struct dmi_mapping *mapping);
/* Takes out a mapping; the caller gets the table's reference.  NULL: none has this base. */
struct dmi_mapping *dmi_space_remove(struct dmi_space *space, uint64_t base);
/* The mapping that contains this address; NULL: none is known here. */
struct dmi_mapping *dmi_space_find(struct dmi_space *space, uint64_t addr);
/* The mapping that begins at or before this address, and the next one; NULL: none is known. */
void dmi_space_near(const struct dmi_space *space, uint64_t addr, const struct dmi_mapping **below,
                    const struct dmi_mapping **above);
/* Of the last mappings that were removed the newest one with this address.  False: none had it. Any
 * thread. */
bool dmi_space_unmapped(struct dmi_space *space, uint64_t addr, struct dmi_unmapped *unmapped);
/* The first mapping that begins behind this address, NULL: none known here. */
struct dmi_mapping *dmi_space_next(const struct dmi_space *space, uint64_t base);
/* Calls `visit` for every mapping.  In the daemon thread, or inside an epoch. */
void dmi_space_each(const struct dmi_space *space,
                    void (*visit)(struct dmi_mapping *mapping, void *arg), void *arg);
/* Bytes of the page tables and records of all mappings.  Any thread, inside an epoch. */
uint64_t dmi_space_bytes(const struct dmi_space *space);

#endif
