/*
 * xalloc.h - memory for bookkeeping: a few dozen bytes at a time, without which a process can do
 * nothing sensible any more.  So these end the process with a message instead of failing.  Pages,
 * payloads and what a user asks for come from elsewhere, and may fail.
 */
#ifndef DMI_BASE_XALLOC_H
#define DMI_BASE_XALLOC_H

#include <stddef.h>

/* Says that there is no memory for so many bytes of bookkeeping, and aborts. */
_Noreturn void dmi_xalloc_fail(size_t size);

/* `num` elements of `size` bytes, all zero, for free(). */
void *dmi_xalloc(size_t num, size_t size);

/* A copy of a string, for free(). */
char *dmi_xalloc_text(const char *text);

/* As realloc. */
void *dmi_xalloc_again(void *old, size_t num, size_t size);

/* Makes sure that the array `at`, with capacity for `capacity` elements and `num` of them used, can
 * hold one more.  What is new in it is undefined. */
#define DMI_XALLOC_GROW(at, num, capacity)                      \
  do {                                                          \
    if ((num) == (capacity)) {                                  \
      (capacity) = (capacity) ? 2 * (capacity) : 8;             \
      (at) = dmi_xalloc_again((at), (capacity), sizeof(*(at))); \
    }                                                           \
  } while (0)

#endif
