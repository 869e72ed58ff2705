/*
 * trace_piece.h - what a process says of itself to the one that writes the trace (docs/trace.md): a
 * piece is a row of items as they lie in memory, each followed by its text, if it has one.
 */
#ifndef DMI_BASE_TRACE_PIECE_H
#define DMI_BASE_TRACE_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/trace.h"

#define DMI_TRACE_TEXT 512 /* most bytes of a text */

/* Kinds of items: those of records, and these. */
enum dmi_trace_item_kind {
  DMI_TRACE_PROCESS = DMI_TRACE_KINDS, /* text: host; id: dmi_id, size: pid */
  DMI_TRACE_THREAD,                    /* text: its name */
  DMI_TRACE_NAME,                      /* text: what `name` is from here on */
  DMI_TRACE_PLACE,                     /* text: what `place` is from here on */
  DMI_TRACE_LOST,                      /* size: records that were left out here */
  DMI_TRACE_POOL,                      /* addr: used, page: copies, size: spilled, bytes */
  DMI_TRACE_OPEN,                      /* as CALL: a wait that goes on at `end`; text: thread */
  DMI_TRACE_ITEM_KINDS
};

struct dmi_trace_item {
  uint8_t kind, what; /* as of the record */
  uint16_t text;      /* bytes behind the item; then zeros up to a multiple of 8 */
  uint32_t tid;       /* of the thread, 0: of the process */
  uint32_t name;      /* number of a NAME, from 1 */
  uint32_t place;     /* of a PLACE, from 1; 0: none */
  uint32_t member;    /* SEND, RECEIVE, MARK: the other one; CALL, OPEN: asked for the page, or 0 */
  uint32_t zero;
  int64_t begin, end; /* ns, of that process's clock */
  uint64_t addr, size, id, map, page;
};

/* A time that another process has sent: differences of such ones do not overflow. */
static inline bool dmi_trace_time_good(int64_t time) {
  return time >= 0 && time < INT64_C(1) << 62;
}

/* Bytes of an item with such a text. */
static inline size_t dmi_trace_item_size(uint16_t text) {
  return sizeof(struct dmi_trace_item) + (size_t)(text + 7) / 8 * 8;
}

/* The item at `at` of a piece, in *item, and its text, which ends with no 0; *at goes behind it.
 * False: there is none, or what is there is no item; then *at is not the length. */
bool dmi_trace_item_get(const void *piece, size_t length, size_t *at, struct dmi_trace_item *item,
                        const char **text);
/* Appends it.  False: it does not fit into `most` bytes. */
bool dmi_trace_item_put(void *piece, size_t most, size_t *length, const struct dmi_trace_item *item,
                        const char *text);
/* Appends how many records were left out, if any, and takes these off *lost; they stay there if the
 * item does not fit, for the next piece. */
void dmi_trace_lost_put(void *piece, size_t most, size_t *length, _Atomic uint64_t *lost);
/* True if it consists of items. */
bool dmi_trace_piece_good(const void *piece, size_t length);

#endif
