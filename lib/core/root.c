/*
 * root.c - see root.h.  There are few roots, so tables are searched from the begin.
 */
#include "core/root.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define PACKED 12u /* bytes of a root, without its name */

void dmi_root_free(struct dmi_roots *roots) {
  for (uint32_t i = 0; i < roots->num; i++)
    free(roots->at[i].name);
  free(roots->at);
  memset(roots, 0, sizeof(*roots));
}

static struct dmi_root *find(const struct dmi_roots *roots, const void *name, size_t len) {
  for (uint32_t i = 0; i < roots->num; i++) {
    struct dmi_root *root = &roots->at[i];
    if (root->len == len && memcmp(root->name, name, len) == 0) return root;
  }
  return NULL;
}

uint64_t dmi_root_get(const struct dmi_roots *roots, const void *name, size_t len) {
  const struct dmi_root *root = find(roots, name, len);
  return root ? root->addr : 0;
}

void dmi_root_add(struct dmi_roots *changes, const void *name, size_t len, uint64_t addr) {
  struct dmi_root *root;
  DMI_XALLOC_GROW(changes->at, changes->num, changes->capacity);
  root = &changes->at[changes->num++];
  root->name = dmi_xalloc(len + 1, 1);
  memcpy(root->name, name, len);
  root->len = (uint32_t)len;
  root->addr = addr;
  changes->bytes += PACKED + len;
}

void dmi_root_set(struct dmi_roots *roots, const void *name, size_t len, uint64_t addr) {
  struct dmi_root *root = find(roots, name, len);
  if (root && addr) {
    root->addr = addr;
  } else if (addr) {
    dmi_root_add(roots, name, len, addr);
  } else if (root) {
    roots->bytes -= PACKED + len;
    free(root->name);
    *root = roots->at[--roots->num];
  }
}

void dmi_root_change(struct dmi_roots *roots, const struct dmi_roots *changes) {
  for (uint32_t i = 0; i < changes->num; i++) {
    const struct dmi_root *root = &changes->at[i];
    dmi_root_set(roots, root->name, root->len, root->addr);
  }
}

void dmi_root_pack(struct dmi_pack *pack, const struct dmi_roots *roots) {
  dmi_pack_u32(pack, roots->num);
  for (uint32_t i = 0; i < roots->num; i++) {
    dmi_pack_u64(pack, roots->at[i].addr);
    dmi_pack_bytes(pack, roots->at[i].name, roots->at[i].len);
  }
}

void dmi_root_unpack(struct dmi_unpack *unpack, struct dmi_roots *roots) {
  uint32_t num = dmi_unpack_count(unpack, PACKED);
  for (uint32_t i = 0; i < num && !unpack->bad; i++) {
    uint64_t addr = dmi_unpack_u64(unpack);
    size_t len;
    const uint8_t *name = dmi_unpack_bytes(unpack, &len);
    if (len > DMI_ROOT_NAME_MAX) unpack->bad = true;
    if (!unpack->bad) dmi_root_add(roots, name, len, addr);
  }
}
