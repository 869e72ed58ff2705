/*
 * clock.c - times in milliseconds.
 */
#include "clock.h"

#include <time.h>

static farm_ms_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (farm_ms_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

farm_ms_t farm_now(void) {
  return read_clock(CLOCK_MONOTONIC);
}

farm_ms_t farm_uptime(void) {
  return read_clock(CLOCK_BOOTTIME);
}

farm_ms_t farm_date(void) {
  return read_clock(CLOCK_REALTIME);
}
