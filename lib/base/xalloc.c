/*
 * xalloc.c - memory for bookkeeping, or the end of the process.
 */
#include "base/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void dmi_xalloc_fail(size_t size) {
  fprintf(stderr,
          "dmi: no memory left for %zu bytes of bookkeeping (a smaller dmirun -s leaves more); "
          "ending\n",
          size);
  abort();
}

#define SMALL 1024 /* bytes */

/* Not inline, where the compiler would make one calloc of this and memset. */
static __attribute__((noinline)) void *new_small(size_t size) {
  return malloc(size);
}

void *dmi_zalloc(size_t num, size_t size) {
  if (num > SMALL || size > SMALL || num * size > SMALL) return calloc(num, size);
  void *ptr = new_small(num * size);
  return ptr == NULL ? NULL : memset(ptr, 0, num * size);
}

void *dmi_xalloc(size_t num, size_t size) {
  void *ptr = dmi_zalloc(num ? num : 1, size);
  if (!ptr) dmi_xalloc_fail(num * size);
  return ptr;
}

char *dmi_xalloc_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) dmi_xalloc_fail(strlen(text) + 1);
  return copy;
}

void *dmi_xalloc_again(void *old, size_t num, size_t size) {
  void *ptr = num <= SIZE_MAX / size ? realloc(old, num * size) : NULL;
  if (!ptr) dmi_xalloc_fail(num * size);
  return ptr;
}
