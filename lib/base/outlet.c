/*
 * outlet.c - see outlet.h.
 *
 * Failure modes: the reader is slow (events are counted instead of written), or has closed (the
 * outlet closes itself and wants no more events). A file cannot be written: the same, and a line.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define TEXTS_MOST 3 /* most texts of an event, so that all fit */

#define NO_TEXT(...)
#define A_TEXT(...) +1
#define FEW_TEXTS(name_, level_, shown_, subsystem_, text_, meaning_, fields_) \
  _Static_assert(0 fields_ <= TEXTS_MOST, "the line of " #name_ " always fits");
DMI_EVENT_TABLE(FEW_TEXTS, NO_TEXT, NO_TEXT, NO_TEXT, A_TEXT)
#define LINE_MOST (TEXTS_MOST * DMI_JSON_TEXT + DMI_EVENT_FIELDS * 64 + 256)
_Static_assert(LINE_MOST + 256 <= DMI_OUTLET_LINE, "room for \"lost\" before it");

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_field(struct dmi_json *to, const struct dmi_field *field,
                      const union dmi_value *value) {
  dmi_json_put(to, ",\"%s\":", field->name);
  if (field->type == DMI_FIELD_TEXT) {
    dmi_json_text(to, value->text);
  } else if (field->type == DMI_FIELD_ADDRESS) {
    /* a string, because many readers keep only 53 bits of a number */
    dmi_json_put(to, "\"0x%" PRIx64 "\"", value->number);
  } else {
    dmi_json_put(to, "%" PRIu64, value->number);
  }
}

size_t dmi_outlet_encode(char line[DMI_OUTLET_LINE], const struct dmi_stream *stream,
                         const struct dmi_event *event) {
  const struct dmi_event_row *row = &dmi_event_rows[event->type];
  int64_t id = atomic_load_explicit(&stream->id, memory_order_relaxed);
  struct dmi_json to = {line, 0, LINE_MOST};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  dmi_json_put(&to, "{\"time\":%lld.%06ld,\"pid\":%ld,\"event\":\"%s\"", (long long)now.tv_sec,
               now.tv_nsec / 1000, (long)getpid(), row->name);
  if (id >= 0) dmi_json_put(&to, ",\"process\":%lld", (long long)id);
  for (uint32_t i = 0; i < row->fields; i++)
    put_field(&to, &row->field[i], &event->value[i]);
  dmi_json_put(&to, "}\n");
  return to.at;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void close_fd(struct dmi_outlet *outlet) {
  if (outlet->fd >= 0 && close(outlet->fd) != 0 && !outlet->error) outlet->error = errno;
  outlet->fd = -1;
  outlet->at = outlet->length = 0;
}

/* Writes the line, or the rest of it. False: the pipe is full. */
static bool flush(struct dmi_outlet *outlet) {
  while (outlet->fd >= 0 && outlet->at < outlet->length) {
    ssize_t count = write(outlet->fd, outlet->line + outlet->at, outlet->length - outlet->at);
    if (count >= 0) {
      outlet->at += (size_t)count;
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      outlet->error = errno;
      close_fd(outlet);
    }
  }
  return true;
}

/* Writes the event (NULL: none), and before it the number of lost ones. False: there was no
 * space, and nothing was written. */
static bool write_event(struct dmi_outlet *outlet, const struct dmi_stream *stream,
                        const struct dmi_event *event) {
  const struct dmi_event lost = {.type = DMI_EVENT_lost, .lost = {.count = outlet->lost}};
  if (!flush(outlet)) return false;
  outlet->at = outlet->length = 0;
  if (outlet->lost) outlet->length = dmi_outlet_encode(outlet->line, stream, &lost);
  if (event) outlet->length += dmi_outlet_encode(outlet->line + outlet->length, stream, event);
  if (flush(outlet) || outlet->at > 0) {
    outlet->lost = 0;
    return true;
  }
  outlet->length = 0;
  return false;
}

/* Without the lock: what is said is an event, too. */
static void say(const struct dmi_outlet *outlet, int error) {
  if (!error || !outlet->path) return;
  dmi_say(outlet->stream, DMI_LOG_WARN, "events",
          "cannot write %s: %s; what happens from now on is not in it (--events)", outlet->path,
          dmi_file_why(error));
}

static void take(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
                 const struct dmi_event *event) {
  struct dmi_outlet *outlet = (struct dmi_outlet *)(void *)subscriber;
  int error;
  dmi_mutex_lock(&outlet->lock);
  dmi_file_begin();
  if (outlet->fd >= 0 && !write_event(outlet, stream, event)) outlet->lost++;
  dmi_file_end();
  error = outlet->error;
  outlet->error = 0;
  dmi_mutex_unlock(&outlet->lock);
  say(outlet, error);
}

bool dmi_outlet_open(struct dmi_outlet *outlet, struct dmi_stream *stream, int fd,
                     enum dmi_log_level level, const char *path) {
  int flags = fcntl(fd, F_GETFL);
  outlet->fd = -1;
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    return false;
  }
  outlet->fd = fd;
  outlet->stream = stream;
  outlet->path = path;
  outlet->error = 0;
  outlet->lost = 0;
  outlet->at = outlet->length = 0;
  dmi_mutex_init(&outlet->lock, DMI_RANK_EVENT);
  outlet->subscriber.take = take;
  outlet->subscriber.wants = 0;
  for (uint32_t i = 0; i < DMI_EVENT_NUM; i++) {
    if (level >= dmi_event_rows[i].level) outlet->subscriber.wants |= DMI_EVENT_BIT(i);
  }
  dmi_stream_subscribe(stream, &outlet->subscriber);
  return true;
}

void dmi_outlet_close(struct dmi_outlet *outlet, struct dmi_stream *stream) {
  dmi_file_begin();
  (void)write_event(outlet, stream, NULL);
  dmi_stream_unsubscribe(stream, &outlet->subscriber);
  close_fd(outlet);
  dmi_file_end();
  dmi_mutex_destroy(&outlet->lock);
  say(outlet, outlet->error);
}
