/*
 * log.c - see log.h.  No lock: a line is put together on the stack and written by one system call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 2048 /* longer ones are cut; what Linux writes to a pipe in one piece is 4096 */

_Atomic uint32_t dmi_log_level;

static const char *const names[] = {"off", "error", "warn", "info", "debug"};
static char our_host[256] = "-";
static _Atomic int64_t our_id = -1;

bool dmi_log_parse(const char *name, enum dmi_log_level *level) {
  for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) == 0) {
      *level = (enum dmi_log_level)i;
      return true;
    }
  }
  return false;
}

void dmi_log_begin(enum dmi_log_level level, const char *host) {
  snprintf(our_host, sizeof our_host, "%s", host);
  atomic_store(&our_id, -1);
  atomic_store(&dmi_log_level, (uint32_t)level);
}

void dmi_log_is(uint32_t dmi_id) {
  atomic_store(&our_id, (int64_t)dmi_id);
}

/* Time, who, level, subsystem.  Returns the length. */
static size_t head(char line[LINE], enum dmi_log_level level, const char *subsystem) {
  struct timespec now;
  struct tm utc;
  char id[24] = "-", when[32] = "";
  int64_t number = atomic_load_explicit(&our_id, memory_order_relaxed);
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
  if (number >= 0) snprintf(id, sizeof id, "%lld", (long long)number);
  int length = snprintf(line, LINE, "%s.%03dZ %s/%s %s %s: ", when, (int)(now.tv_nsec / 1000000),
                        id, our_host, names[level], subsystem);
  return length < 0 ? 0 : (size_t)length;
}

/* Fills up the line, with what would break it into two made harmless, and writes it. */
static void tail(char line[LINE], size_t at, const char *format, va_list args) {
  vsnprintf(line + at, LINE - 1 - at, format, args);
  size_t length = strlen(line);
  for (size_t i = at; i < length; i++) {
    if ((unsigned char)line[i] < ' ') line[i] = ' ';

  }
  line[length++] = '\n';
  /* stderr is not buffered, so this keeps its place among what is written there otherwise. */
  if (write(STDERR_FILENO, line, length) < 0) return;
}

void dmi_log_write(enum dmi_log_level level, const char *subsystem, const char *format, ...) {
  char line[LINE];
  va_list args;
  va_start(args, format);
  tail(line, head(line, level, subsystem), format, args);
  va_end(args);
}

void dmi_say(enum dmi_log_level level, const char *subsystem, const char *format, ...) {
  char line[LINE] = "dmi: ";
  bool logged = atomic_load_explicit(&dmi_log_level, memory_order_relaxed) >= level;
  va_list args;
  va_start(args, format);
  tail(line, logged ? head(line, level, subsystem) : strlen(line), format, args);
  va_end(args);
}
