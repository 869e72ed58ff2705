/*
 * clock.h - how much time passes: of a clock that nobody sets, and that starts anywhere.
 */
#ifndef DMI_BASE_CLOCK_H
#define DMI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* In nanoseconds.  Inline, as calls are timed with it while somebody follows their events. */
static inline int64_t dmi_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The same clock as of its last tick, some milliseconds ago at most: cheaper. */
static inline int64_t dmi_clock_coarse_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* In seconds. */
static inline double dmi_clock_s(void) {
  return 1e-9 * (double)dmi_clock_ns();
}

#endif
