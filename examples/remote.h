/*
 * remote.h - for examples of remote functions: what they print when a call has failed, and the
 * time.
 */
#ifndef EXAMPLES_REMOTE_H
#define EXAMPLES_REMOTE_H

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "check.h"
#include "dmi_remote.h"

/* Reads a value.  When it could not be made prints which function has failed, where and why, and
 * ends the program. */
static inline void read_value(DMI_client_t *client, DMI_data_t data, void *buf, int64_t size) {
  DMI_failure_t why;
  if (DMI_data_read(client, data, buf, 0, size, NULL)) return;
  if (DMI_errno() != DMI_EREMOTE || !DMI_data_failure(client, data, &why)) CHECK(DMI_FALSE);
  fprintf(stderr, "%s failed on %s: %s\n", why.function, why.hostname, why.sentence);
  exit(EXIT_FAILURE);
}

/* Waits until the value is there. */
static inline void await_value(DMI_client_t *client, DMI_data_t data) {
  read_value(client, data, NULL, 0);
}

static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The argument of this number, if there is one. */
static inline int32_t number_or(int argc, char **argv, int at, const char *name, int32_t otherwise,
                                int32_t min) {
  return argc > at ? check_number(name, argv[at], min) : otherwise;
}

#endif
