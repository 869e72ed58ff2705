/*
 * large.h - memory for large frames.
 *
 * Touching memory for the first time costs several times as much as copying into it.  So memory
 * that was given back is used again without asking the kernel, and new memory consists of huge
 * pages where they help.  Any thread.
 */
#ifndef DMI_BASE_LARGE_H
#define DMI_BASE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#define DMI_LARGE_MIN ((size_t)128 << 10) /* bytes from which this is worth while */
#define DMI_LARGE_HEAD 64                 /* bytes in front of the memory */
#define DMI_LARGE_OWN 24                  /* the last of them: the caller's */

/* `size` bytes, aligned to 64; zeros if asked for.  The DMI_LARGE_OWN bytes in front are the
 * caller's too, and undefined.  NULL: no memory. */
void *dmi_large_new(size_t size, bool zero);

/* Takes what dmi_large_new returned. */
void dmi_large_free(void *ptr);

/* Bytes mapped now, in use or not: for tests. */
size_t dmi_large_mapped(void);

#endif
