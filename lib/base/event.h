/*
 * event.h - the event stream of one process: passes events to their subscribers.
 *
 *   dmi_emit(&process->stream, joined, .member = uid, .id = dmi_id);
 *
 * The events are the rows of event_table.h. Subscribers are the log (base/log.h), a launcher
 * (base/outlet.h), and files that say where the process listens. An event that no subscriber wants
 * costs one load and one branch; its fields are not computed. Any thread may emit an event, also
 * with locks held, so a subscriber must not wait.
 */
#ifndef DMI_BASE_EVENT_H
#define DMI_BASE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event_table.h"
#include "base/id.h"

enum dmi_log_level {
  DMI_LOG_OFF,
  DMI_LOG_ERROR, /* this process cannot go on */
  DMI_LOG_WARN,  /* the user should look at it */
  DMI_LOG_INFO,  /* members, connections: a few lines for each join and leave */
  DMI_LOG_DEBUG  /* threads, mappings, attempts */
};

/* How the user sees an event. */
enum dmi_shown {
  DMI_SHOWN_NOT,
  DMI_SHOWN_LOG, /* as a line of the log */
  DMI_SHOWN_SAY, /* the same, or "dmi: text" if the log does not have its level */
  DMI_SHOWN_LINE /* "=== name ===", after the line of the log */
};

enum dmi_field_type { DMI_FIELD_NUMBER, DMI_FIELD_ADDRESS, DMI_FIELD_TIME, DMI_FIELD_TEXT };

struct dmi_field {
  const char *name, *unit;
  enum dmi_field_type type;
};

/* Each field takes eight bytes, so that its place follows from the table. */
union dmi_value {
  uint64_t number;
  const char *text; /* valid while the event is emitted */
};

#define DMI_EVENT_FIELDS 6 /* most fields of an event */

/* ---- What the table makes ---- */

#define DMI_EVENT_ENUM(name_, ...) DMI_EVENT_##name_,
enum dmi_event_type {
  DMI_EVENT_TABLE(DMI_EVENT_ENUM, , , , ) DMI_EVENT_NUM /* number of events */
};
#undef DMI_EVENT_ENUM

#define DMI_EVENT_NUMBER(name_, ...) uint64_t name_;
#define DMI_EVENT_TEXT(name_, ...) _Alignas(union dmi_value) const char *name_;
#define DMI_EVENT_STRUCT(name_, level_, shown_, subsystem_, text_, meaning_, fields_) \
  struct {                                                                            \
    fields_                                                                           \
  } name_;
struct dmi_event {
  enum dmi_event_type type;
  union {
    DMI_EVENT_TABLE(DMI_EVENT_STRUCT, DMI_EVENT_NUMBER, DMI_EVENT_NUMBER, DMI_EVENT_NUMBER,
                    DMI_EVENT_TEXT)
    union dmi_value value[DMI_EVENT_FIELDS]; /* the first ones are those of the event's row */
  };
};
#undef DMI_EVENT_NUMBER
#undef DMI_EVENT_TEXT
#undef DMI_EVENT_STRUCT

/* What all events of one type have in common. */
struct dmi_event_row {
  const char *name;
  enum dmi_log_level level;
  enum dmi_shown shown;
  const char *subsystem;
  const char *text; /* "": no text */
  const struct dmi_field *field;
  uint32_t fields;
};

extern const struct dmi_event_row dmi_event_rows[DMI_EVENT_NUM];

_Static_assert(DMI_EVENT_NUM <= 64, "an event is a bit of a word");
#define DMI_EVENT_BIT(type_) (UINT64_C(1) << (type_))

/* Writes the text of the row with the fields filled in; cut off at `capacity` bytes, always with
 * a final 0. */
void dmi_event_text(const struct dmi_event *event, char *text, size_t capacity);
/* The subsystem of the row; for "error" and "warning" the one in their field. */
const char *dmi_event_subsystem(const struct dmi_event *event);

/* ---- Streams ---- */

struct dmi_stream;

struct dmi_subscriber {
  struct dmi_subscriber *next;
  uint64_t wants; /* DMI_EVENT_BIT of each event */
  void (*take)(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
               const struct dmi_event *event);
};

struct dmi_stream {
  _Atomic uint64_t wants; /* union of all subscribers' `wants` */
  _Atomic int64_t id;     /* dmi_id of the process; -1: it has none yet */
  struct dmi_subscriber *first;
};

/* A stream without subscribers, for code that has no process. */
extern struct dmi_stream dmi_stream_none;

void dmi_stream_init(struct dmi_stream *stream);

/* To be called while there is only one thread. The last subscriber is called first. */
void dmi_stream_subscribe(struct dmi_stream *stream, struct dmi_subscriber *subscriber);
void dmi_stream_unsubscribe(struct dmi_stream *stream, struct dmi_subscriber *subscriber);
/* To be called after subscriber->wants was changed. */
void dmi_stream_wants_changed(struct dmi_stream *stream);
/* Sets the dmi_id of the process. */
void dmi_stream_is(struct dmi_stream *stream, dmi_id_t dmi_id);

static inline bool dmi_stream_wants(const struct dmi_stream *stream, enum dmi_event_type type) {
  return __builtin_expect(
      (atomic_load_explicit(&stream->wants, memory_order_relaxed) & DMI_EVENT_BIT(type)) != 0, 0);
}

/* Nanoseconds of a monotonic clock, for events that tell a duration; 0: no subscriber wants this
 * event. */
uint64_t dmi_stream_clock(const struct dmi_stream *stream, enum dmi_event_type type);

/* For dmi_emit only. */
void dmi_stream_emit(struct dmi_stream *stream, const struct dmi_event *event);

/* Emits event `name_`, with its fields as .field = value. */
#define dmi_emit(stream_, name_, ...)                                                             \
  do {                                                                                            \
    if (dmi_stream_wants(stream_, DMI_EVENT_##name_)) {                                           \
      dmi_stream_emit(                                                                            \
          stream_, &(const struct dmi_event){.type = DMI_EVENT_##name_, .name_ = {__VA_ARGS__}}); \
    }                                                                                             \
  } while (0)

/* Emits event "error" (DMI_LOG_ERROR) or "warning" (DMI_LOG_WARN). If the stream is NULL, writes
 * "dmi: text". */
void dmi_say(struct dmi_stream *stream, enum dmi_log_level level, const char *subsystem,
             const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
