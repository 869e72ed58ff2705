/*
 * log.h - the subscriber for users: writes events to stderr as lines.
 *
 *   2026-11-21T09:30:12.123Z 2/node7 info net: connected with member 1 at 10.0.0.1 port 7880
 *
 * Time (UTC), dmi_id ("-": none yet) and host, level, subsystem, text. Each line is written by one
 * system call, so lines of several threads and processes do not mix. DMI_LOG sets the level.
 * Without it only those events are shown that the user must see, as "dmi: text", and the steps of
 * the process's life, as "=== joined ===".
 */
#ifndef DMI_BASE_LOG_H
#define DMI_BASE_LOG_H

#include "base/event.h"

/* bytes; longer lines are cut; Linux writes up to 4096 bytes to a pipe in one piece */
#define DMI_LOG_LINE 2048

struct dmi_log {
  struct dmi_subscriber subscriber;
  enum dmi_log_level level;
  int fd; /* where lines are written */
  char host[256];
};

/* Finds the level of this name ("info" and so on). False: there is none. */
bool dmi_log_parse(const char *name, enum dmi_log_level *level);
const char *dmi_log_level_name(enum dmi_log_level level);

/* Subscribes, with level OFF and no host; lines go to `fd`. To be called while there is only one
 * thread. */
void dmi_log_open(struct dmi_log *log, struct dmi_stream *stream, int fd);
/* Sets the level and the name of the machine. To be called while there is only one thread. */
void dmi_log_begin(struct dmi_log *log, struct dmi_stream *stream, enum dmi_log_level level,
                   const char *host);

/* Nothing but printable ASCII goes to a terminal or a log: other bytes become '?'. */
void dmi_log_printable(char *text);

/* Writes "dmi: text", where there is no process. */
void dmi_log_plain(const char *text);

#endif
