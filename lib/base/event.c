/*
 * event.c - see event.h.
 */
#include "base/event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* ---- The rows -------------------------------------------------------------------------------- */

#define FIELD(name_, unit_, type_) {#name_, unit_, DMI_FIELD_##type_},
#define NUMBER(name_, unit_, ...) FIELD(name_, unit_, NUMBER)
#define ADDRESS(name_, unit_, ...) FIELD(name_, unit_, ADDRESS)
#define TIME(name_, unit_, ...) FIELD(name_, unit_, TIME)
#define TEXT(name_, unit_, ...) FIELD(name_, unit_, TEXT)

#define FIELDS_OF(name_, level_, shown_, subsystem_, text_, meaning_, fields_)               \
  static const struct dmi_field name_##_fields[] = {fields_{NULL, NULL, DMI_FIELD_NUMBER}};  \
  _Static_assert(                                                                            \
      sizeof(((struct dmi_event *)0)->name_) ==                                              \
          sizeof(union dmi_value) * (sizeof(name_##_fields) / sizeof(struct dmi_field) - 1), \
      "each field takes eight bytes");                                                       \
  _Static_assert(sizeof(name_##_fields) / sizeof(struct dmi_field) - 1 <= DMI_EVENT_FIELDS,  \
                 "not too many");
DMI_EVENT_TABLE(FIELDS_OF, NUMBER, ADDRESS, TIME, TEXT)

#define ROW(name_, level_, shown_, subsystem_, text_, ...) \
  {#name_,                                                 \
   DMI_LOG_##level_,                                       \
   DMI_SHOWN_##shown_,                                     \
   subsystem_,                                             \
   text_,                                                  \
   name_##_fields,                                         \
   (uint32_t)(sizeof(name_##_fields) / sizeof(struct dmi_field) - 1)},
const struct dmi_event_row dmi_event_rows[DMI_EVENT_NUM] = {DMI_EVENT_TABLE(ROW, , , , )};

const char *dmi_event_subsystem(const struct dmi_event *event) {
  if (event->type == DMI_EVENT_error) return event->error.subsystem;
  if (event->type == DMI_EVENT_warning) return event->warning.subsystem;
  return dmi_event_rows[event->type].subsystem;
}

/* ---- Text for people ------------------------------------------------------------------------- */

/* The field with this name; NULL: there is none. */
static const union dmi_value *find(const struct dmi_event *event, const char *name, size_t length,
                                   enum dmi_field_type *type) {
  const struct dmi_event_row *row = &dmi_event_rows[event->type];
  for (uint32_t i = 0; i < row->fields; i++) {
    if (strncmp(row->field[i].name, name, length) == 0 && row->field[i].name[length] == '\0') {
      *type = row->field[i].type;
      return &event->value[i];
    }
  }
  return NULL;
}

static size_t put(char *text, size_t capacity, enum dmi_field_type type,
                  const union dmi_value *value) {
  time_t when = (time_t)value->number;
  struct tm utc;
  int length = 0;
  switch (type) {
    case DMI_FIELD_NUMBER:
      length = snprintf(text, capacity, "%" PRIu64, value->number);
      break;
    case DMI_FIELD_ADDRESS:
      length = snprintf(text, capacity, "%#" PRIx64, value->number);
      break;
    case DMI_FIELD_TIME:
      gmtime_r(&when, &utc);
      return strftime(text, capacity, "%H:%M:%S UTC", &utc);
    case DMI_FIELD_TEXT:
      length = snprintf(text, capacity, "%s", value->text ? value->text : "");
      break;
  }
  if (length < 0) return 0;
  return (size_t)length < capacity ? (size_t)length : capacity - 1;
}

void dmi_event_text(const struct dmi_event *event, char *text, size_t capacity) {
  const char *from = dmi_event_rows[event->type].text;
  size_t at = 0;
  while (*from && at + 1 < capacity) {
    const char *end = *from == '{' ? strchr(from, '}') : NULL;
    enum dmi_field_type type;
    const union dmi_value *value =
        end ? find(event, from + 1, (size_t)(end - from - 1), &type) : NULL;
    if (value) {
      at += put(text + at, capacity - at, type, value);
      from = end + 1;
    } else {
      text[at++] = *from++;
    }
  }
  text[at] = '\0';
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct dmi_stream dmi_stream_none;

void dmi_stream_init(struct dmi_stream *stream) {
  atomic_init(&stream->wants, 0);
  atomic_init(&stream->id, -1);
  stream->first = NULL;
}

void dmi_stream_wants_changed(struct dmi_stream *stream) {
  uint64_t wants = 0;
  for (const struct dmi_subscriber *one = stream->first; one; one = one->next)
    wants |= one->wants;
  atomic_store(&stream->wants, wants);
}

void dmi_stream_subscribe(struct dmi_stream *stream, struct dmi_subscriber *subscriber) {
  subscriber->next = stream->first;
  stream->first = subscriber;
  dmi_stream_wants_changed(stream);
}

void dmi_stream_unsubscribe(struct dmi_stream *stream, struct dmi_subscriber *subscriber) {
  struct dmi_subscriber **at = &stream->first;
  while (*at && *at != subscriber)
    at = &(*at)->next;
  if (*at) *at = subscriber->next;
  dmi_stream_wants_changed(stream);
}

void dmi_stream_is(struct dmi_stream *stream, dmi_id_t dmi_id) {
  atomic_store(&stream->id, dmi_id.n);
}

uint64_t dmi_stream_clock(const struct dmi_stream *stream, enum dmi_event_type type) {
  return dmi_stream_wants(stream, type) ? (uint64_t)dmi_clock_ns() : 0;
}

void dmi_stream_emit(struct dmi_stream *stream, const struct dmi_event *event) {
  for (struct dmi_subscriber *one = stream->first; one; one = one->next) {
    if (one->wants & DMI_EVENT_BIT(event->type)) one->take(one, stream, event);
  }
}

void dmi_say(struct dmi_stream *stream, enum dmi_log_level level, const char *subsystem,
             const char *format, ...) {
  char text[DMI_LOG_LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (!stream) {
    dmi_log_plain(text);
  } else if (level == DMI_LOG_ERROR) {
    dmi_emit(stream, error, .subsystem = subsystem, .text = text);
  } else {
    dmi_emit(stream, warning, .subsystem = subsystem, .text = text);
  }
}
