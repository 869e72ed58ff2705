/*
 * memory.h - memory that is there, or the process ends: the sizes that others ask for are limited
 * (struct dmi_ox_limits) before any of it is called.  And a growing row of bytes.
 */
#ifndef DMI_OX_MEMORY_H
#define DMI_OX_MEMORY_H

#include <stddef.h>

void *dmi_ox_alloc(size_t size);             /* all bytes are zero */
void *dmi_ox_realloc(void *at, size_t size); /* what is new is not */

/* Makes room for one more item of `size` bytes in a row of `num`. */
void *dmi_ox_grow(void *at, size_t num, size_t *room, size_t size);

/* All zero: empty. */
struct dmi_ox_bytes {
  unsigned char *at;
  size_t len, room;
};

/* Room for `len` more; returns where, and counts them. */
unsigned char *dmi_ox_bytes_add(struct dmi_ox_bytes *bytes, size_t len);
void dmi_ox_bytes_put(struct dmi_ox_bytes *bytes, const void *from, size_t len);
/* Takes away the first ones. */
void dmi_ox_bytes_cut(struct dmi_ox_bytes *bytes, size_t len);
void dmi_ox_bytes_free(struct dmi_ox_bytes *bytes);

#endif
