/*
 * raw_stream.c - blocks of 1 MiB in one direction over a TCP connection, in megabytes per second.
 *
 * Both sides use the same block again and again, so that this is what the sockets can do, without
 * the cost of memory that has never been touched.
 */
#include "raw_tcp.h"

#define BLOCK (1024 * 1024)
#define BLOCKS 512 /* per batch */

int main(void) {
  char *block = calloc(1, BLOCK);
  if (block == NULL) raw_fail("calloc");
  pid_t child;
  const int fd = raw_pair(&child, APART);
  if (child == 0) {
    for (int i = 0; i < (BATCHES + 1) * BLOCKS; i++)
      raw_write(fd, block, BLOCK);
    return EXIT_SUCCESS;
  }

  figure_t figure = {.name = "raw_stream", .unit = "MB/s"};
  for (int batch = -1; batch < BATCHES; batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < BLOCKS; i++) {
      if (!raw_read(fd, block, BLOCK)) raw_fail("the other process has closed");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure.values[batch] = rate_mb((int64_t)BLOCKS * BLOCK, ns);
  }
  figure_print(&figure);
  raw_end(fd, child);
  free(block);
  return EXIT_SUCCESS;
}
