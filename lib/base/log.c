/*
 * log.c - see log.h. Needs no lock: a line is made on the stack and written by one system call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"off", "error", "warn", "info", "debug"};

bool dmi_log_parse(const char *name, enum dmi_log_level *level) {
  for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) == 0) {
      *level = (enum dmi_log_level)i;
      return true;
    }
  }
  return false;
}

const char *dmi_log_level_name(enum dmi_log_level level) {
  return names[level];
}

/* Writes time, process, level and subsystem. Returns the length. */
static size_t head(char line[DMI_LOG_LINE], const struct dmi_log *log,
                   const struct dmi_stream *stream, const struct dmi_event *event) {
  struct timespec now;
  struct tm utc;
  char id[24] = "-", when[32] = "";
  int64_t number = atomic_load_explicit(&stream->id, memory_order_relaxed);
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
  if (number >= 0) snprintf(id, sizeof id, "%lld", (long long)number);
  int length =
      snprintf(line, DMI_LOG_LINE, "%s.%03dZ %s/%s %s %s: ", when, (int)(now.tv_nsec / 1000000), id,
               log->host, names[dmi_event_rows[event->type].level], dmi_event_subsystem(event));
  return length < 0 ? 0 : (size_t)length;
}

/* Writes the line, whose text begins at `at`, after replacing characters that would break it
 * into two. */
static void write_line(int fd, char line[DMI_LOG_LINE], size_t at) {
  size_t length = strlen(line);
  for (size_t i = at; i < length; i++) {
    if ((unsigned char)line[i] < ' ') line[i] = ' ';
  }
  line[length++] = '\n';
  /* stderr is not buffered, so this line stays in order with others written to it */
  if (write(fd, line, length) < 0) return;
}

void dmi_log_printable(char *text) {
  for (char *c = text; *c; c++) {
    if (*c < ' ' || *c > '~') *c = '?';
  }
}

void dmi_log_plain(const char *text) {
  char line[DMI_LOG_LINE];
  snprintf(line, sizeof line - 1, "dmi: %s", text);
  write_line(STDERR_FILENO, line, strlen("dmi: "));
}

static void take(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
                 const struct dmi_event *event) {
  const struct dmi_log *log = (const struct dmi_log *)(const void *)subscriber;
  const struct dmi_event_row *row = &dmi_event_rows[event->type];
  bool logged = log->level >= row->level;
  char line[DMI_LOG_LINE] = "dmi: ";
  if (*row->text && (logged || row->shown == DMI_SHOWN_SAY)) {
    size_t at = logged ? head(line, log, stream, event) : strlen(line);
    dmi_event_text(event, line + at, sizeof line - 1 - at);
    write_line(log->fd, line, at);
  }
  if (row->shown == DMI_SHOWN_LINE) {
    snprintf(line, sizeof line, "=== %s ===", row->name);
    write_line(log->fd, line, 0);
  }
}

/* The events that are logged at this level. */
static uint64_t wanted(enum dmi_log_level level) {
  uint64_t wants = 0;
  for (uint32_t i = 0; i < DMI_EVENT_NUM; i++) {
    const struct dmi_event_row *row = &dmi_event_rows[i];
    if (row->shown == DMI_SHOWN_SAY || row->shown == DMI_SHOWN_LINE ||
        (row->shown == DMI_SHOWN_LOG && level >= row->level)) {
      wants |= DMI_EVENT_BIT(i);
    }
  }
  return wants;
}

void dmi_log_open(struct dmi_log *log, struct dmi_stream *stream, int fd) {
  log->fd = fd;
  log->subscriber.take = take;
  dmi_log_begin(log, stream, DMI_LOG_OFF, "-");
  dmi_stream_subscribe(stream, &log->subscriber);
}

void dmi_log_begin(struct dmi_log *log, struct dmi_stream *stream, enum dmi_log_level level,
                   const char *host) {
  log->level = level;
  snprintf(log->host, sizeof log->host, "%s", host);
  log->subscriber.wants = wanted(level);
  dmi_stream_wants_changed(stream);
}
