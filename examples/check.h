/*
 * check.h - for examples and benchmarks: stop with a clear line when a DMI call fails.
 *
 * A real program may be able to handle DMI_FALSE; these programs stop, since their results would be
 * wrong.
 */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <errno.h>
#include <limits.h>

#include "dmi_ext.h"

#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)

static inline void check_call(int32_t ok, const char *call, const char *file, int line) {
  if (ok == DMI_TRUE) return;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, DMI_strerror(DMI_errno()));
  exit(EXIT_FAILURE);
}

/* The same for calls that may fail because a process was lost (dmirun --survive): false then. */
#define CHECK_LOST(call) check_lost((call), #call, __FILE__, __LINE__)

static inline int check_lost(int32_t ok, const char *call, const char *file, int line) {
  if (ok == DMI_TRUE) return 1;
  if (DMI_errno() != DMI_ELOST && DMI_errno() != DMI_EMEMBER && DMI_errno() != DMI_EBROKEN)
    check_call(ok, call, file, line);
  return 0;
}

/* Waits for an asynchronous call, which must not fail. */
static inline void check_wait(DMI_local_status_t *status) {
  int32_t ok;
  DMI_wait(status, &ok);
  CHECK(ok);
}

/* Dismisses a process that has asked to leave.  False: not now, since no other process has memory
 * for its pages.  Then nothing has changed, and its DMI_CLOSE comes again when there may be memory.
 * Or it was lost meanwhile: then DMI_LOST comes.
 */
static inline int32_t check_goodbye(int32_t dmi_id) {
  if (DMI_goodbye(dmi_id) == DMI_TRUE) return 1;
  if (DMI_errno() != DMI_ENOMEM) (void)check_lost(DMI_FALSE, "DMI_goodbye", __FILE__, __LINE__);
  return 0;
}

/* Returns the number in `text`, which must be a whole number from `min` to INT32_MAX.  If it is
 * not, prints a line that names the argument, and ends. */
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
