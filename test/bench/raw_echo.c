/*
 * raw_echo.c - round trip of 64 bytes between two processes over a TCP connection, in
 * microseconds.
 */
#include "raw_tcp.h"

#define MESSAGE 64
#define ROUND_TRIPS 2000 /* per batch */

static void measure(figure_t *figure, place_t place) {
  char message[MESSAGE] = {0};
  const cpu_set_t allowed = raw_allowed();
  pid_t child;
  const int fd = raw_pair(&child, place);
  if (child == 0) {
    while (raw_read(fd, message, MESSAGE))
      raw_write(fd, message, MESSAGE);
    exit(EXIT_SUCCESS);
  }
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < ROUND_TRIPS; i++) {
      raw_write(fd, message, MESSAGE);
      if (!raw_read(fd, message, MESSAGE)) raw_fail("the other process has closed");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / 1000.0 / ROUND_TRIPS;
  }
  raw_end(fd, child);
  /* The child of the next measurement must find all cores again. */
  raw_allow(&allowed);
}

int main(void) {
  figure_t apart = {.name = "raw_echo", .unit = "us"};
  figure_t together = {.name = "raw_echo_together", .unit = "us"};
  measure(&apart, APART);
  measure(&together, TOGETHER);
  figure_print(&apart);
  figure_print(&together);
  return EXIT_SUCCESS;
}
