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

void farm_clock_condition(pthread_cond_t *condition) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attr);
  pthread_condattr_destroy(&attr);
}

void farm_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, farm_ms_t due) {
  const struct timespec at = {.tv_sec = due / 1000, .tv_nsec = due % 1000 * 1000000};
  pthread_cond_timedwait(condition, lock, &at);
}

farm_ms_t farm_uptime(void) {
  return read_clock(CLOCK_BOOTTIME);
}

farm_ms_t farm_date(void) {
  return read_clock(CLOCK_REALTIME);
}
