/*
 * raw_echo.c - round trip of 64 bytes between two processes over a TCP connection, in
 * microseconds.
 */
#include "raw_tcp.h"

#define MESSAGE 64
#define ROUND_TRIPS 4000 /* per batch */

int main(void) {
  char message[MESSAGE] = {0};
  pid_t child;
  const int fd = raw_pair(&child);
  if (child == 0) {
    while (raw_read(fd, message, MESSAGE)) raw_write(fd, message, MESSAGE);
    return EXIT_SUCCESS;
  }

  figure_t figure = {.name = "raw_echo", .unit = "us"};
  for (int batch = -1; batch < BATCHES; batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < ROUND_TRIPS; i++) {
      raw_write(fd, message, MESSAGE);
      if (!raw_read(fd, message, MESSAGE)) raw_fail("the other process has closed");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure.values[batch] = (double)ns / 1000.0 / ROUND_TRIPS;
  }
  figure_print(&figure);
  raw_end(fd, child);
  return EXIT_SUCCESS;
}
