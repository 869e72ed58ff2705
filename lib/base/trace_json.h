/*
 * trace_json.h - items of a trace as lines of Chrome's trace format (docs/trace.md): JSON, one
 * object an event.  Pure.
 */
#ifndef DMI_BASE_TRACE_JSON_H
#define DMI_BASE_TRACE_JSON_H

#include "base/json.h"
#include "base/trace_piece.h"

#define DMI_TRACE_LINE 8192 /* bytes that are enough for an item */

/* What an item says, with its numbers replaced by what they mean. */
struct dmi_trace_line {
  const struct dmi_trace_item *item;
  uint32_t member;         /* whose it is: the `pid` of the trace */
  const char *name, *text; /* of the item; NULL: none */
  const char *place, *waits;
  bool ends;          /* CALL, OPEN: only the end of a wait that was written as begun */
  int64_t begin, end; /* ns since the trace began, by the clock of the one that writes it */
  int64_t error;      /* of that, at most */
};

/* Writes the events of an item, each with ",\n" before it. */
void dmi_trace_json(struct dmi_json *to, const struct dmi_trace_line *line);

#endif
