/*
 * trace_json.c - see trace_json.h.
 */
#include "base/trace_json.h"

#include <inttypes.h>

/* ,"ts":12.345 in microseconds. */
static void put_time(struct dmi_json *to, const char *name, int64_t ns) {
  const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
  dmi_json_put(to, ",\"%s\":%s%" PRIu64 ".%03u", name, ns < 0 ? "-" : "", size / 1000,
               (unsigned)(size % 1000));
}

/* {"ph":"X","pid":1,"tid":2,"name":"..." */
static void begin(struct dmi_json *to, const struct dmi_trace_line *line, const char *phase,
                  const char *name) {
  dmi_json_put(to, ",\n{\"ph\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":", phase,
               line->member, line->item->tid);
  dmi_json_text(to, name);
}

static void put_address(struct dmi_json *to, const char *name, uint64_t addr) {
  dmi_json_put(to, "\"%s\":\"0x%" PRIx64 "\"", name, addr);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static void slice(struct dmi_json *to, const struct dmi_trace_line *line, const char *category,
                  const char *name) {
  begin(to, line, "X", name);
  dmi_json_put(to, ",\"cat\":\"%s\"", category);
  put_time(to, "ts", line->begin);
  put_time(to, "dur", line->end > line->begin ? line->end - line->begin : 1);
  dmi_json_put(to, ",\"args\":{");
}

static void call(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  slice(to, line, "call", line->name);
  dmi_json_put(to, "\"waits\":\"%s\"", line->waits ? line->waits : "");
  if (item->addr) {
    dmi_json_put(to, ",");
    put_address(to, "addr", item->addr);
    dmi_json_put(to, ",\"size\":%" PRIu64, item->size);
  }
  if (item->map) {
    dmi_json_put(to, ",");
    put_address(to, "mapping", item->map);
    dmi_json_put(to, ",\"page\":%" PRIu64 ",\"owner\":%" PRIu32, item->page, item->member);
  }
  if (item->id) dmi_json_put(to, ",\"op\":\"%" PRIu64 "\"", item->id);
  if (line->place) {
    dmi_json_put(to, ",\"place\":");
    dmi_json_text(to, line->place);
  }
  dmi_json_put(to, "}}");
}

/* A message, and one end of its arrow, at its beginning. */
static void message(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  const bool sends = item->kind == DMI_TRACE_SEND;
  char name[64];
  struct dmi_json text = {name, 0, sizeof(name)};
  dmi_json_put(&text, "%s %s", sends ? "send" : "receive", line->name);
  slice(to, line, "message", name);
  dmi_json_put(to, "\"%s\":%" PRIu32 ",", sends ? "to" : "from", item->member);
  put_address(to, "mapping", item->map);
  dmi_json_put(to, ",\"page\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}", item->page, item->size);
  if (!item->id) return;
  begin(to, line, sends ? "s" : "f", "message");
  dmi_json_put(to, ",\"cat\":\"message\",\"id\":\"0x%" PRIx64 "\"", item->id);
  if (!sends) dmi_json_put(to, ",\"bp\":\"e\"");
  put_time(to, "ts", line->begin);
  dmi_json_put(to, "}");
}

static void step(struct dmi_json *to, const struct dmi_trace_line *line) {
  slice(to, line, "step", line->name);
  dmi_json_put(to, "\"number\":%" PRIu64 "}}", line->item->id);
}

/* ---- Others ---------------------------------------------------------------------------------- */

static void mark(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  begin(to, line, "i", line->name);
  dmi_json_put(to, ",\"cat\":\"event\",\"s\":\"p\"");
  put_time(to, "ts", line->begin);
  dmi_json_put(to, ",\"args\":{");
  if (item->member) dmi_json_put(to, "\"member\":%" PRIu32, item->member);
  if (item->member && item->id != UINT64_MAX)
    dmi_json_put(to, ",\"process\":%" PRId64, (int64_t)item->id);
  dmi_json_put(to, "}}");
}

static void lost(struct dmi_json *to, const struct dmi_trace_line *line) {
  begin(to, line, "i", "events lost");
  dmi_json_put(to, ",\"cat\":\"lost\",\"s\":\"t\"");
  put_time(to, "ts", line->begin);
  dmi_json_put(to, ",\"args\":{\"count\":%" PRIu64 "}}", line->item->size);
}

static void pool(struct dmi_json *to, const struct dmi_trace_line *line) {
  const struct dmi_trace_item *item = line->item;
  begin(to, line, "C", "pool");
  put_time(to, "ts", line->begin);
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
      call(to, line);
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
