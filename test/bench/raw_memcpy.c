/*
 * raw_memcpy.c - copying 4 KiB that are in the cache, and 1 MiB, from one buffer to another.
 */
#include <string.h>

#include "bench.h"

/* Copies per batch times `size` stay at 1 GiB and 2 GiB: tens of milliseconds. */
static void measure(figure_t *figure, char *to, char *from, size_t size, int64_t copies) {
  for (int batch = -1; batch < BATCHES; batch++) {
    const int64_t start = now_ns();
    for (int64_t i = 0; i < copies; i++) {
      memcpy(to, from, size);
      /* The compiler must neither merge nor drop copies of bytes that nobody looks at. */
      __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / (double)copies;
  }
}

int main(void) {
  enum { SMALL = 4096, LARGE = 1024 * 1024 };
  char *from = malloc(LARGE), *to = malloc(LARGE);
  if (from == NULL || to == NULL) {
    perror("malloc");
    return EXIT_FAILURE;
  }
  memset(from, 1, LARGE);
  memset(to, 2, LARGE);

  figure_t small = {.name = "memcpy_4k", .unit = "ns"};
  measure(&small, to, from, SMALL, 500000);
  figure_print(&small);

  figure_t large = {.name = "memcpy_1m", .unit = "MB/s"};
  measure(&large, to, from, LARGE, 1000);
  for (int i = 0; i < BATCHES; i++)
    large.values[i] = LARGE * 1000.0 / large.values[i];
  figure_print(&large);
  free(to);
  free(from);
  return EXIT_SUCCESS;
}
