/*
 * root.h - named roots: global addresses that any process finds by a name (DMI_root_set).
 *
 * Each member has the whole table, so nobody's loss loses a name.  A change travels in a view:
 * docs/membership.md, "Roots".
 */
#ifndef DMI_CORE_ROOT_H
#define DMI_CORE_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/pack.h"

#define DMI_ROOT_NAME_MAX 65535u                /* bytes of a name */
#define DMI_ROOT_BYTES_MAX ((uint64_t)16 << 20) /* of a table, packed: it must fit into ACCEPT */

struct dmi_root {
  uint8_t *name; /* for free() */
  uint32_t len;  /* its bytes */
  uint64_t addr; /* 0: the name is removed */
};

struct dmi_roots {
  struct dmi_root *at;
  uint32_t num, capacity;
  uint64_t bytes; /* packed */
};

void dmi_root_free(struct dmi_roots *roots);
/* 0: the name is not in the table. */
uint64_t dmi_root_get(const struct dmi_roots *roots, const void *name, size_t len);
/* Names it, or renames, or removes the name (0).  Copies the name. */
void dmi_root_set(struct dmi_roots *roots, const void *name, size_t len, uint64_t addr);
/* Adds a change to a list of changes, behind those that are there. */
void dmi_root_add(struct dmi_roots *changes, const void *name, size_t len, uint64_t addr);
/* Makes the changes. */
void dmi_root_change(struct dmi_roots *roots, const struct dmi_roots *changes);

void dmi_root_pack(struct dmi_pack *pack, const struct dmi_roots *roots);
/* What dmi_root_pack wrote, into an empty list. */
void dmi_root_unpack(struct dmi_unpack *unpack, struct dmi_roots *roots);

#endif
