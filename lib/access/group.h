/*
 * group.h - scattered accesses: many ranges of global memory as one call.
 *
 * A group is made once and used often.  Its items are sorted by page when it is made, so that a
 * call sends at most one request for each page.  Reads are GETs, writes are PUTs; hits send no
 * message.
 */
#ifndef DMI_ACCESS_GROUP_H
#define DMI_ACCESS_GROUP_H

#include "access/access.h"

/* The items in one page. */
struct dmi_group_page {
  struct dmi_mapping *mapping; /* one reference */
  struct dmi_page *page;       /* its record */
  const struct dmi_part *part; /* in the order of the items; part of the group's array */
  uint64_t parts;              /* at least 1 */
  /* bytes: offset of the first, and length from there to the end of the last */
  uint64_t off, span;
  uint64_t len;           /* bytes of all ranges; items that touch or overlap form one range */
  uint64_t ranges;        /* number in `list`; 0: there is only one range */
  struct dmi_frame *list; /* the list as messages of kind LIST have it */
};

struct dmi_group {
  struct dmi_access *access;
  _Atomic uint32_t refs; /* one of the user, and one for each asynchronous call in flight */
  uint64_t pages;
  struct dmi_group_page *page;
  struct dmi_part *part; /* of all pages */
};

/* An item: [addr, addr + size) of global memory, and offset `to` in the caller's buffer. */
struct dmi_group_item {
  int64_t addr, size, to;
};

/* Makes a group.  Items of size 0 are left out.  Returns DMI_OK or an error. */
int32_t dmi_group_new(struct dmi_access *access, const struct dmi_group_item *item, uint64_t num,
                      struct dmi_group **group);

/* Gives back a reference; the last one frees the group.  NULL is allowed. */
void dmi_group_unref(struct dmi_group *group);

/* As DMI_group_read and DMI_group_write. */
int32_t dmi_group_read(struct dmi_group *group, void *buf, DMI_local_status_t *status);
int32_t dmi_group_write(struct dmi_group *group, const void *buf, DMI_local_status_t *status);

#endif
