/*
 * xalloc.h - memory for bookkeeping: small pieces without which a process cannot go on. So these
 * functions end the process with a message instead of failing. Pages, payloads and memory for the
 * user are allocated elsewhere, and may fail.
 */
#ifndef DMI_BASE_XALLOC_H
#define DMI_BASE_XALLOC_H

#include <stddef.h>

/* Writes that there is no memory for `size` bytes of bookkeeping, and aborts. */
_Noreturn void dmi_xalloc_fail(size_t size);

/* Like calloc, and may fail.  In glibc before 2.41 calloc does not use what the thread has freed
 * last, as malloc does, and takes 300 instructions where malloc takes 30; this does, if it is small.
 */
void *dmi_zalloc(size_t num, size_t size);

/* `num` elements of `size` bytes, all zero, for free(). */
void *dmi_xalloc(size_t num, size_t size);

/* A copy of a string, for free(). */
char *dmi_xalloc_text(const char *text);

/* As realloc. */
void *dmi_xalloc_again(void *old, size_t num, size_t size);

/* Makes sure that the array `at`, with space for `capacity` elements, `num` of them used, can
 * hold another one. New elements are undefined. */
#define DMI_XALLOC_GROW(at, num, capacity)                      \
  do {                                                          \
    if ((num) == (capacity)) {                                  \
      (capacity) = (capacity) ? 2 * (capacity) : 8;             \
      (at) = dmi_xalloc_again((at), (capacity), sizeof(*(at))); \
    }                                                           \
  } while (0)

#endif
