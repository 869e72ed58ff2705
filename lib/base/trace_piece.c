/*
 * trace_piece.c - see trace_piece.h.
 */
#include "base/trace_piece.h"

#include <string.h>

_Static_assert(sizeof(struct dmi_trace_item) == 80, "without padding: it travels as it is");

bool dmi_trace_item_get(const void *piece, size_t length, size_t *at, struct dmi_trace_item *item,
                        const char **text) {
  const char *from = (const char *)piece + *at;
  const size_t left = length - *at;
  if (left < sizeof(*item)) return false;
  memcpy(item, from, sizeof(*item));
  if (!item->kind || item->kind >= DMI_TRACE_ITEM_KINDS || item->text > DMI_TRACE_TEXT)
    return false;
  if (!dmi_trace_time_good(item->begin) || !dmi_trace_time_good(item->end)) return false;
  if (left < dmi_trace_item_size(item->text)) return false;
  *text = from + sizeof(*item);
  *at += dmi_trace_item_size(item->text);
  return true;
}

bool dmi_trace_item_put(void *piece, size_t most, size_t *length, const struct dmi_trace_item *item,
                        const char *text) {
  const size_t size = dmi_trace_item_size(item->text);
  char *to = (char *)piece + *length;
  if (most - *length < size) return false;
  memset(to + size - 8, 0, 8);
  memcpy(to, item, sizeof(*item));
  if (item->text) memcpy(to + sizeof(*item), text, item->text);
  *length += size;
  return true;
}

void dmi_trace_lost_put(void *piece, size_t most, size_t *length, _Atomic uint64_t *lost) {
  const uint64_t num = atomic_exchange(lost, 0);
  const struct dmi_trace_item item = {.kind = DMI_TRACE_LOST, .size = num, .begin = dmi_clock_ns()};
  if (num && !dmi_trace_item_put(piece, most, length, &item, NULL)) atomic_fetch_add(lost, num);
}

bool dmi_trace_piece_good(const void *piece, size_t length) {
  struct dmi_trace_item item;
  const char *text;
  size_t at = 0;
  while (dmi_trace_item_get(piece, length, &at, &item, &text)) {
  }
  return at == length;
}
