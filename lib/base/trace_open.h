/*
 * trace_open.h - waits of a process that have not ended yet, as the one that writes its trace knows
 * them (docs/trace.md): a long wait is written when it is heard of, and ended later.  Pure.
 */
#ifndef DMI_BASE_TRACE_OPEN_H
#define DMI_BASE_TRACE_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/trace_piece.h"

#define DMI_TRACE_OPEN_MOST                                            \
  4096 /* waits of a process that are kept; of others nothing is known \
        */

/* A wait that was written as begun. */
struct dmi_trace_open {
  uint32_t tid;
  uint32_t name; /* number of a NAME */
  int64_t begin; /* ns, of its process's clock */
  int64_t end;   /* likewise: then it still went on */
};

/* Those of one process.  All zero: none. */
struct dmi_trace_opens {
  struct dmi_trace_open_wait *waits;
};

/* How an item is written. */
enum dmi_trace_open_way {
  DMI_TRACE_WHOLE,   /* as it is */
  DMI_TRACE_BEGINS,  /* a wait that has begun, and goes on */
  DMI_TRACE_GOES_ON, /* nothing new of it: not at all */
  DMI_TRACE_ENDS     /* the end of a wait that was written as begun */
};

/* Of each item, in the order in which they come.  True: a wait that was written as begun must be
 * ended before, in *lost: its end was left out. */
bool dmi_trace_open_look(struct dmi_trace_opens *opens, const struct dmi_trace_item *item,
                         enum dmi_trace_open_way *way, struct dmi_trace_open *lost);
/* Nothing more comes: takes out one that has no end.  False: there is none. */
bool dmi_trace_open_rest(struct dmi_trace_opens *opens, struct dmi_trace_open *open);

#endif
