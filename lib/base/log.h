/*
 * log.h - the subscriber for people: lines on stderr about what happens.
 *
 *   2026-11-21T09:30:12.123Z 2/node7 info net: connected with member 1 at 10.0.0.1 port 7880
 *
 * Time (UTC), dmi_id ("-": none yet) and host, level, subsystem, text; one line each, written at
 * once, so that those of several threads and processes do not mix.  DMI_LOG sets the level; without
 * it there are only the events that the user must see, as "dmi: text", and the steps of the
 * process's life, as "=== joined ===".
 */
#ifndef DMI_BASE_LOG_H
#define DMI_BASE_LOG_H

#include "base/event.h"

#define DMI_LOG_LINE                                                           \
  2048 /* bytes; longer ones are cut; what Linux writes to a pipe in one piece \
          is 4096 */

struct dmi_log {
  struct dmi_subscriber subscriber;
  enum dmi_log_level level;
  int fd; /* where to */
  char host[256];
};

/* "info" and so on; false: no level has this name. */
bool dmi_log_parse(const char *name, enum dmi_log_level *level);
const char *dmi_log_level_name(enum dmi_log_level level);

/* Subscribes, with level OFF and no host; lines go to `fd`.  While there is one thread only. */
void dmi_log_open(struct dmi_log *log, struct dmi_stream *stream, int fd);
/* The level and the name of the machine are known.  Likewise. */
void dmi_log_begin(struct dmi_log *log, struct dmi_stream *stream, enum dmi_log_level level,
                   const char *host);

/* "dmi: text", where there is no instance. */
void dmi_log_plain(const char *text);

#endif
