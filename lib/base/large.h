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

/* `bytes` bytes will soon be wanted, in blocks of `size`: touches a piece of memory for them that
 * was never touched, so that the kernel provides it now.  One thread at a time may do this, while
 * others get and free memory.  False: there is nothing to touch, or the kernel cannot do it.  Not
 * for blocks of more than 15 MiB, of which a few would exceed what may be mapped and empty. */
bool dmi_large_ahead(size_t size, size_t bytes);

/* Bytes mapped now, used or not; for tests. */
size_t dmi_large_mapped(void);

#endif
