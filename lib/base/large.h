/*
 * large.h - memory for large frames.
 *
 * Touching memory for the first time costs several times as much as copying into it. So freed
 * memory is reused without a system call, and new memory consists of huge pages where they help.
 * Any thread may call these functions.
 */
#ifndef DMI_BASE_LARGE_H
#define DMI_BASE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#define DMI_LARGE_MIN ((size_t)128 << 10) /* bytes; smaller frames use malloc */
#define DMI_LARGE_HEAD 64                 /* bytes before the memory */
#define DMI_LARGE_OWN 24                  /* the last of these bytes are the caller's */

/* `size` bytes, aligned to 64; all zero if `zero`. The DMI_LARGE_OWN bytes before them are the
 * caller's too, and undefined. NULL: no memory. */
void *dmi_large_new(size_t size, bool zero);

/* Frees what dmi_large_new returned. */
void dmi_large_free(void *ptr);

/* Bytes mapped now, used or not; for tests. */
size_t dmi_large_mapped(void);

#endif
