/*
 * trace_json.c - see trace_json.h.
 */
#include "base/trace_json.h"

#include <inttypes.h>
#include <string.h>

/* ,"ts":12.345 in microseconds; `name` with what is around it. */
static void put_time(struct dmi_json *to, const char *name, size_t length, int64_t ns) {
  const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
  const unsigned part = (unsigned)(size % 1000);
  const char digits[4] = {'.', (char)('0' + part / 100), (char)('0' + part / 10 % 10),
                          (char)('0' + part % 10)};
  dmi_json_raw(to, name, length);
  if (ns < 0) DMI_JSON_RAW(to, "-");
  dmi_json_number(to, size / 1000);
  dmi_json_raw(to, digits, sizeof(digits));
}
#define PUT_TIME(to, name, ns) put_time((to), ",\"" name "\":", sizeof(name) + 3, (ns))

/* {"ph":"X","pid":1,"tid":2,"name": */
static void begin(struct dmi_json *to, const struct dmi_trace_line *line, char phase) {
  DMI_JSON_RAW(to, ",\n{\"ph\":\"");
  dmi_json_raw(to, &phase, 1);
  DMI_JSON_RAW(to, "\",\"pid\":");
  dmi_json_number(to, line->member);
  DMI_JSON_RAW(to, ",\"tid\":");
  dmi_json_number(to, line->item->tid);
  DMI_JSON_RAW(to, ",\"name\":");
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static void put_length(struct dmi_json *to, const struct dmi_trace_line *line) {
  PUT_TIME(to, "dur", line->end > line->begin ? line->end - line->begin : 1);
}

/* Its name and kind. */
static void call_name(struct dmi_json *to, const struct dmi_trace_line *line, char phase) {
  begin(to, line, phase);
  dmi_json_text(to, line->name);
  DMI_JSON_RAW(to, ",\"cat\":\"call\"");
}

/* Of a wait that was written as begun; an OPEN: it has no end that is known. */
static void call_end(struct dmi_json *to, const struct dmi_trace_line *line) {
  call_name(to, line, 'E');
  PUT_TIME(to, "ts", line->end > line->begin ? line->end : line->begin + 1);
  DMI_JSON_RAW(to, ",\"args\":{");
  if (line->item->kind == DMI_TRACE_OPEN) DMI_JSON_RAW(to, "\"unfinished\":true");
  DMI_JSON_RAW(to, "}}");
}

/* Its times, and the beginning of its arguments. */
static void times(struct dmi_json *to, const struct dmi_trace_line *line) {
  PUT_TIME(to, "ts", line->begin);
  put_length(to, line);
  DMI_JSON_RAW(to, ",\"args\":{");
}

static void call(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  const bool is_open = item->kind == DMI_TRACE_OPEN;
  call_name(to, line, is_open ? 'B' : 'X');
  PUT_TIME(to, "ts", line->begin);
  if (!is_open) put_length(to, line);
  DMI_JSON_RAW(to, ",\"args\":{\"waits\":");
  dmi_json_text(to, line->waits);
  if (item->addr) {
    DMI_JSON_RAW(to, ",\"addr\":\"0x");
    dmi_json_hex(to, item->addr);
    DMI_JSON_RAW(to, "\",\"size\":");
    dmi_json_number(to, item->size);
  }
  if (item->map) {
    DMI_JSON_RAW(to, ",\"mapping\":\"0x");
    dmi_json_hex(to, item->map);
    DMI_JSON_RAW(to, "\",\"page\":");
    dmi_json_number(to, item->page);
    if (item->member) {
      DMI_JSON_RAW(to, ",\"owner\":");
      dmi_json_number(to, item->member);
    }
  }
  if (item->id) {
    DMI_JSON_RAW(to, ",\"op\":\"");
    dmi_json_number(to, item->id);
    DMI_JSON_RAW(to, "\"");
  }
  if (line->place) {
    DMI_JSON_RAW(to, ",\"place\":");
    dmi_json_text(to, line->place);
  }
  DMI_JSON_RAW(to, "}}");
}

/* "send GET"; the name is what another process says it is. */
static void put_name(struct dmi_json *to, const char *verb, size_t length, const char *name) {
  char text[DMI_TRACE_TEXT + 16];
  const size_t rest = strlen(name), most = sizeof(text) - 1 - length;
  memcpy(text, verb, length);
  memcpy(text + length, name, rest < most ? rest : most);
  text[length + (rest < most ? rest : most)] = '\0';
  dmi_json_text(to, text);
}
#define PUT_NAME(to, verb, name) put_name((to), "" verb, sizeof(verb) - 1, (name))

/* A message, and one end of its arrow, at its beginning. */
static void message(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  const bool sends = item->kind == DMI_TRACE_SEND;
  begin(to, line, 'X');
  if (sends) {
    PUT_NAME(to, "send ", line->name);
  } else {
    PUT_NAME(to, "receive ", line->name);
  }
  DMI_JSON_RAW(to, ",\"cat\":\"message\"");
  times(to, line);
  if (sends) {
    DMI_JSON_RAW(to, "\"to\":");
  } else {
    DMI_JSON_RAW(to, "\"from\":");
  }
  dmi_json_number(to, item->member);
  DMI_JSON_RAW(to, ",\"mapping\":\"0x");
  dmi_json_hex(to, item->map);
  DMI_JSON_RAW(to, "\",\"page\":");
  dmi_json_number(to, item->page);
  DMI_JSON_RAW(to, ",\"bytes\":");
  dmi_json_number(to, item->size);
  DMI_JSON_RAW(to, "}}");
  if (!item->id) return;
  begin(to, line, sends ? 's' : 'f');
  DMI_JSON_RAW(to, "\"message\",\"cat\":\"message\",\"id\":\"0x");
  dmi_json_hex(to, item->id);
  DMI_JSON_RAW(to, "\"");
  if (!sends) DMI_JSON_RAW(to, ",\"bp\":\"e\"");
  PUT_TIME(to, "ts", line->begin);
  DMI_JSON_RAW(to, "}");
}

static void step(struct dmi_json *to, const struct dmi_trace_line *line) {
  begin(to, line, 'X');
  dmi_json_text(to, line->name);
  DMI_JSON_RAW(to, ",\"cat\":\"step\"");
  times(to, line);
  DMI_JSON_RAW(to, "\"number\":");
  dmi_json_number(to, line->item->id);
  DMI_JSON_RAW(to, "}}");
}

/* ---- Others ---------------------------------------------------------------------------------- */

static void mark(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  begin(to, line, 'i');
  dmi_json_text(to, line->name);
  dmi_json_put(to, ",\"cat\":\"event\",\"s\":\"p\"");
  PUT_TIME(to, "ts", line->begin);
  dmi_json_put(to, ",\"args\":{");
  if (item->member) dmi_json_put(to, "\"member\":%" PRIu32, item->member);
  if (item->member && item->id != UINT64_MAX)
    dmi_json_put(to, ",\"process\":%" PRId64, (int64_t)item->id);
  dmi_json_put(to, "}}");
}

static void lost(struct dmi_json *to, const struct dmi_trace_line *line) {
  begin(to, line, 'i');
  dmi_json_put(to, "\"events lost\",\"cat\":\"lost\",\"s\":\"t\"");
  PUT_TIME(to, "ts", line->begin);
  dmi_json_put(to, ",\"args\":{\"count\":%" PRIu64 "}}", line->item->size);
}

static void pool(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  begin(to, line, 'C');
  DMI_JSON_RAW(to, "\"pool\"");
  PUT_TIME(to, "ts", line->begin);
  dmi_json_put(to,
               ",\"args\":{\"own\":%" PRIu64 ",\"copies\":%" PRIu64 ",\"spilled\":%" PRIu64 "}}",
               item->addr > item->page ? item->addr - item->page : 0, item->page, item->size);
}

static void metadata(struct dmi_json *to, const struct dmi_trace_line *line, const char *what) {
  dmi_json_put(
      to, ",\n{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":\"%s\",\"args\":{",
      line->member, line->item->tid, what);
}

static void process(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  char name[DMI_TRACE_TEXT + 64];
  struct dmi_json text = {name, 0, sizeof(name)};
  dmi_json_put(&text, "process %" PRId64 " (%s)", (int64_t)item->id, line->text);
  metadata(to, line, "process_name");
  dmi_json_put(to, "\"name\":");
  dmi_json_text(to, name);
  dmi_json_put(to, "}}");
  metadata(to, line, "process_sort_index");
  dmi_json_put(to, "\"sort_index\":%" PRIu32 "}}", line->member);
  metadata(to, line, "process_labels");
  dmi_json_put(to, "\"labels\":\"pid %" PRIu64 ", clock +-", item->size);
  dmi_json_put(to, "%" PRId64 " us\"}}", (line->error + 999) / 1000);
}

static void thread(struct dmi_json *to, const struct dmi_trace_line *line) {
  metadata(to, line, "thread_name");
  dmi_json_put(to, "\"name\":");
  dmi_json_text(to, line->text);
  dmi_json_put(to, "}}");
}

void dmi_trace_json(struct dmi_json *to, const struct dmi_trace_line *line) {
  switch (line->item->kind) {
    case DMI_TRACE_CALL:
    case DMI_TRACE_OPEN:
      line->ends ? call_end(to, line) : call(to, line);
      break;
    case DMI_TRACE_SEND:
    case DMI_TRACE_RECEIVE:
      message(to, line);
      break;
    case DMI_TRACE_STEP:
      step(to, line);
      break;
    case DMI_TRACE_MARK:
      mark(to, line);
      break;
    case DMI_TRACE_LOST:
      lost(to, line);
      break;
    case DMI_TRACE_POOL:
      pool(to, line);
      break;
    case DMI_TRACE_PROCESS:
      process(to, line);
      break;
    case DMI_TRACE_THREAD:
      thread(to, line);
      break;
    default: /* names are for the items behind them */
      break;
  }
}
