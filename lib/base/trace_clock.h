/*
 * trace_clock.h - what the clock of another process says when ours says something (docs/trace.md).
 *
 * Rounds of questions are measured as NTP does: of each round the answer with the shortest way
 * counts.  In between, the difference of the clocks is a line without steps.  Pure.
 */
#ifndef DMI_BASE_TRACE_CLOCK_H
#define DMI_BASE_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing is known.  Times are in ns; "theirs" of their clock, "ours" of ours; a
 * difference is theirs - ours. */
struct dmi_trace_clock {
  bool is_known;
  /* the last two rounds */
  int64_t at, before; /* theirs, in the middle of the best answer */
  int64_t offset, offset_before;
  int64_t error; /* of `offset`, at most */
  /* the line: `from` at `start`, `back` before it, then `slope`, from `end` on `drift` */
  int64_t start, end;
  double from, back, slope, drift;
  int64_t last; /* theirs: the latest that was converted */
  /* the present round */
  uint32_t num;
  int64_t best, best_offset, best_at;
};

/* An answer: asked and heard by our clock, got and sent by theirs. */
struct dmi_trace_answer {
  int64_t asked, got, sent, heard;
};

void dmi_trace_clock_answer(struct dmi_trace_clock *clock, const struct dmi_trace_answer *answer);
/* The round is over: its best answer counts. */
void dmi_trace_clock_round(struct dmi_trace_clock *clock);

/* What our clock said when theirs said that.  Later times give later times. */
int64_t dmi_trace_clock_ours(struct dmi_trace_clock *clock, int64_t theirs);

#endif
