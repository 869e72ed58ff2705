/*
 * log.h - lines about what happens, for people and for programs that read them.
 *
 *   2026-11-21T09:30:12.123Z 2/node7 info net: connected with member 1 at 10.0.0.1 port 7880
 *
 * Time (UTC), dmi_id ("-": none yet) and host, level, subsystem, text; one line each, written at
 * once, so that those of several threads and processes do not mix.  DMI_LOG sets the level; without
 * it nothing is logged, and a call costs one comparison.  Any thread.
 */
#ifndef DMI_BASE_LOG_H
#define DMI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum dmi_log_level {
  DMI_LOG_OFF,
  DMI_LOG_ERROR, /* this process cannot go on */
  DMI_LOG_WARN,  /* somebody should look at it */
  DMI_LOG_INFO,  /* members, connections: a few lines for each join and leave */
  DMI_LOG_DEBUG  /* threads, mappings, attempts */
};

extern _Atomic uint32_t dmi_log_level; /* enum dmi_log_level; set by dmi_log_begin */

/* `subsystem` is one word: net, member, thread, memory, start. */
#define dmi_log(level, ...)                                                  \
  do {                                                                       \
    if (atomic_load_explicit(&dmi_log_level, memory_order_relaxed) >= level) \
      dmi_log_write(level, __VA_ARGS__);                                     \
  } while (0)

/* Use dmi_log. */
void dmi_log_write(enum dmi_log_level level, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the user must see whatever DMI_LOG says: as a line of the log if that has this level, else
 * as "dmi: text" on stderr. */
void dmi_say(enum dmi_log_level level, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "info" and so on; false: no level has this name. */
bool dmi_log_parse(const char *name, enum dmi_log_level *level);

/* Before there are threads.  `host` is copied. */
void dmi_log_begin(enum dmi_log_level level, const char *host);
/* Who this process is from now on. */
void dmi_log_is(uint32_t dmi_id);

#endif
