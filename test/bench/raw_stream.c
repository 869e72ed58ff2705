/*
 * raw_stream.c - blocks of 1 MiB in one direction over a TCP connection, in megabytes per second.
 *
 * raw_stream: both sides use the same block again and again, so that this is what the sockets can
 * do, without the cost of memory that has never been touched.  raw_stream_fresh: each block is
 * received into such memory, as a page is that this process has never held.
 */
#include "raw_tcp.h"

#include <sys/mman.h>

#define BLOCK (1024 * 1024)
#define BLOCKS 512      /* per batch */
#define FRESH_BLOCKS 16 /* per batch */

/* Receives `blocks` of them, each `step` bytes behind the one before. */
static double receive(int fd, char *at, int blocks, size_t step) {
  const int64_t start = now_ns();
  for (int i = 0; i < blocks; i++, at += step) {
    if (!raw_read(fd, at, BLOCK)) raw_fail("the other process has closed");
  }
  return rate_mb((int64_t)blocks * BLOCK, now_ns() - start);
}

int main(void) {
  figure_t figure = {.name = "raw_stream", .unit = "MB/s"};
  figure_t fresh = {.name = "raw_stream_fresh", .unit = "MB/s"};
  char *block = calloc(1, BLOCK);
  if (block == NULL) raw_fail("calloc");
  pid_t child;
  const int fd = raw_pair(&child, APART);
  if (child == 0) {
    for (int i = 0; i < (batches() + 1) * (BLOCKS + FRESH_BLOCKS); i++)
      raw_write(fd, block, BLOCK);
    return EXIT_SUCCESS;
  }

  for (int batch = -1; batch < batches(); batch++) {
    const double rate = receive(fd, block, BLOCKS, 0);
    if (batch >= 0) figure.values[batch] = rate;
  }
  for (int batch = -1; batch < batches(); batch++) {
    const size_t bytes = (size_t)FRESH_BLOCKS * BLOCK;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) raw_fail("mmap");
    const double rate = receive(fd, memory, FRESH_BLOCKS, BLOCK);
    if (batch >= 0) fresh.values[batch] = rate;
    munmap(memory, bytes);
  }
  figure_print(&figure);
  figure_print(&fresh);
  raw_end(fd, child);
  free(block);
  return EXIT_SUCCESS;
}
