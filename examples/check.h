/*
 * check.h - for examples and benchmarks: stop with a clear line when a DMI call fails.
 *
 * A real program may know what to do about DMI_FALSE; these only know that nothing they could
 * print afterwards would be right.
 */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <errno.h>
#include <limits.h>

#include "dmi_api.h"

#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)

static inline void check_call(int32_t ok, const char *call, const char *file, int line) {
  if (ok == DMI_TRUE) return;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, DMI_strerror(DMI_errno()));
  exit(EXIT_FAILURE);
}

/* Dismisses a process that has asked to leave.  False: not now, since no other process has room for
 * its pages.  Then it stays as it was, and its DMI_CLOSE comes again when there may be memory. */
static inline int32_t check_goodbye(int32_t dmi_id) {
  if (DMI_goodbye(dmi_id) == DMI_TRUE) return 1;
  if (DMI_errno() != DMI_ENOMEM) check_call(DMI_FALSE, "DMI_goodbye", __FILE__, __LINE__);
  return 0;
}

/* The number in `text`, which must be a whole one from `min` to INT32_MAX; else a line that names
 * the argument, and the end. */
static inline int32_t check_number(const char *name, const char *text, int32_t min) {
  char *end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < min || value > INT32_MAX) {
    fprintf(stderr, "%s must be a whole number from %d to %d, not '%s'\n", name, min, INT32_MAX,
            text);
    exit(EXIT_FAILURE);
  }
  return (int32_t)value;
}

#endif
