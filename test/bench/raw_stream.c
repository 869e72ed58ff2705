/*
 * raw_stream.c - blocks of 1 MiB in one direction over a TCP connection, in megabytes per second.
 *
 * raw_stream: both sides use the same block again and again, so that this is what the sockets can
 * do, without the cost of memory that has never been touched.  raw_stream_fresh: each block is
 * received into such memory, as a page is that this process has never held.
 *
 * raw_stream_kept, raw_stream_fresh_kept: what a first read of a page has to do at least.  Each of
 * 16 blocks is asked for, sent from where it lies at its owner, received where it is kept, and
 * copied from there to the caller's buffer.
 */
#include "raw_tcp.h"

#include <string.h>
#include <sys/mman.h>

#define BLOCK (1024 * 1024)
#define BLOCKS 512 /* per batch of one block again and again */
#define SOME 16    /* per batch of others */

/* Receives `blocks` of them, each `step` bytes behind the one before. */
static double receive(int fd, char *at, int blocks, size_t step) {
  const int64_t start = now_ns();
  for (int i = 0; i < blocks; i++, at += step) {
    if (!raw_read(fd, at, BLOCK)) raw_fail("the other process has closed");
  }
  return rate_mb((int64_t)blocks * BLOCK, now_ns() - start);
}

/* Asks for SOME of them, and copies each to `buf`. */
static double receive_kept(int fd, char *at, char *buf) {
  const int64_t start = now_ns();
  for (int i = 0; i < SOME; i++, at += BLOCK) {
    raw_write(fd, "?", 1);
    if (!raw_read(fd, at, BLOCK)) raw_fail("the other process has closed");
    memcpy(buf, at, BLOCK);
    __asm__ volatile("" : : "r"(buf) : "memory"); /* the copy is wanted */
  }
  return rate_mb((int64_t)SOME * BLOCK, now_ns() - start);
}

static char *some_blocks(void) {
  char *memory =
      mmap(NULL, SOME * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) raw_fail("mmap");
  return memory;
}

static void send_all(int fd, const char *block) {
  char *kept = some_blocks();
  char ask;
  memset(kept, 1, SOME * BLOCK);
  for (int i = 0; i < (batches() + 1) * (BLOCKS + SOME); i++)
    raw_write(fd, block, BLOCK);
  for (int i = 0; i < (batches() + 1) * 2 * SOME; i++) {
    if (!raw_read(fd, &ask, 1)) raw_fail("the other process has closed");
    raw_write(fd, kept + i % SOME * BLOCK, BLOCK);
  }
}

int main(void) {
  figure_t figure = {.name = "raw_stream", .unit = "MB/s"};
  figure_t fresh = {.name = "raw_stream_fresh", .unit = "MB/s"};
  figure_t kept = {.name = "raw_stream_kept", .unit = "MB/s"};
  figure_t fresh_kept = {.name = "raw_stream_fresh_kept", .unit = "MB/s"};
  char *block = calloc(1, BLOCK);
  if (block == NULL) raw_fail("calloc");
  pid_t child;
  const int fd = raw_pair(&child, APART);
  if (child == 0) {
    send_all(fd, block);
    return EXIT_SUCCESS;
  }

  for (int batch = -1; batch < batches(); batch++) {
    const double rate = receive(fd, block, BLOCKS, 0);
    if (batch >= 0) figure.values[batch] = rate;
  }
  for (int batch = -1; batch < batches(); batch++) {
    char *memory = some_blocks();
    const double rate = receive(fd, memory, SOME, BLOCK);
    if (batch >= 0) fresh.values[batch] = rate;
    munmap(memory, SOME * BLOCK);
  }
  for (int batch = -1; batch < batches(); batch++) {
    char *memory = some_blocks();
    const double rate = receive_kept(fd, memory, block);
    if (batch >= 0) fresh_kept.values[batch] = rate;
    munmap(memory, SOME * BLOCK);
  }
  char *memory = some_blocks();
  for (int batch = -1; batch < batches(); batch++) {
    const double rate = receive_kept(fd, memory, block);
    if (batch >= 0) kept.values[batch] = rate;
  }
  figure_print(&figure);
  figure_print(&fresh);
  figure_print(&kept);
  figure_print(&fresh_kept);
  raw_end(fd, child);
  munmap(memory, SOME * BLOCK);
  free(block);
  return EXIT_SUCCESS;
}
