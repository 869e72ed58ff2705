/*
 * group.h - scattered accesses: many ranges of global memory as one call.
 *
 * A group is made once and used often: its items are sorted by page then, so that a call makes at
 * most one request a page.  Reads are GETs, writes are PUTs; what can be read or written here makes
 * no message.
 */
#ifndef DMI_ACCESS_GROUP_H
#define DMI_ACCESS_GROUP_H

#include "access/access.h"

/* The items in one page. */
struct dmi_group_page {
  struct dmi_mapping *mapping; /* one reference */
  struct dmi_page *page;       /* its record */
  const struct dmi_part *part; /* in the order of the items; not this page's to free */
  uint64_t parts;              /* at least 1 */
  uint64_t off, span;          /* bytes: of the first, and from it to behind the last */
  uint64_t len;                /* bytes of all ranges: items that meet or overlap are one */
  uint64_t ranges;             /* of `list`; 0: but one range */
  struct dmi_frame *list;      /* as kind LIST has it */
};

struct dmi_group {
  struct dmi_access *access;
  _Atomic uint32_t refs; /* the user's, and one per asynchronous call in flight */
  uint64_t pages;
  struct dmi_group_page *page;
  struct dmi_part *part; /* of all pages */
};

/* An item: [addr, addr + size) and the caller's buffer from `to` on. */
struct dmi_group_item {
  int64_t addr, size, to;
};

/* Makes a group.  Items of size 0 are left out.  Returns DMI_OK or an error. */
int32_t dmi_group_new(struct dmi_access *access, const struct dmi_group_item *item, uint64_t num,
                      struct dmi_group **group);

/* The last reference frees it; NULL is allowed. */
void dmi_group_unref(struct dmi_group *group);

/* As DMI_group_read and DMI_group_write. */
int32_t dmi_group_read(struct dmi_group *group, void *buf, DMI_local_status_t *status);
int32_t dmi_group_write(struct dmi_group *group, const void *buf, DMI_local_status_t *status);

#endif
