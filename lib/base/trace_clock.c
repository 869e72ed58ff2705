/*
 * trace_clock.c - see trace_clock.h.
 */
#include "base/trace_clock.h"

#define PERIOD 1000000000 /* ns: so long after a round the line is where that round says */

void dmi_trace_clock_answer(struct dmi_trace_clock *clock, const struct dmi_trace_answer *answer) {
  const int64_t took = (answer->heard - answer->asked) - (answer->sent - answer->got);
  const int64_t way = took > 0 ? took : 0;
  if (clock->num++ && way >= clock->best) return;
  clock->best = way;
  clock->best_offset = (answer->got - answer->asked) / 2 + (answer->sent - answer->heard) / 2;
  clock->best_at = answer->got;
}

/* Where the line is. */
static double line(const struct dmi_trace_clock *clock, int64_t theirs) {
  const double bent = (double)(clock->end - clock->start) * clock->slope;
  if (theirs <= clock->start) return clock->from + (double)(theirs - clock->start) * clock->back;
  if (theirs <= clock->end) return clock->from + (double)(theirs - clock->start) * clock->slope;
  return clock->from + bent + (double)(theirs - clock->end) * clock->drift;
}

/* The line turns there, to be where it should when PERIOD has passed. */
static void turn(struct dmi_trace_clock *clock, int64_t at, double drift) {
  const double now = line(clock, at);
  double then;
  clock->back = at > clock->end ? clock->drift : clock->slope;
  clock->drift = drift;
  clock->start = at;
  clock->end = at + PERIOD;
  clock->from = now;
  then = (double)clock->offset + (double)(clock->end - clock->at) * drift;
  clock->slope = (then - now) / PERIOD;
}

/* How fast the difference grows, by the last two rounds.  What their errors could explain is
 * nothing. */
static double drift(const struct dmi_trace_clock *clock, int64_t error_before) {
  const int64_t grown = clock->offset - clock->offset_before, time = clock->at - clock->before;
  const int64_t error = clock->error + error_before;
  if (time < PERIOD / 2 || (grown <= error && grown >= -error)) return 0;
  return (double)grown / (double)time;
}

void dmi_trace_clock_round(struct dmi_trace_clock *clock) {
  const int64_t error_before = clock->error;
  if (!clock->num) return;
  clock->num = 0;
  clock->before = clock->at;
  clock->offset_before = clock->offset;
  clock->at = clock->best_at;
  clock->error = clock->best / 2 + 1;
  clock->offset = clock->best_offset;
  if (clock->offset <= clock->error && clock->offset >= -clock->error) clock->offset = 0;
  if (!clock->is_known) {
    clock->is_known = true;
    clock->start = clock->end = clock->at;
    clock->from = (double)clock->offset;
    return;
  }
  turn(clock, clock->last > clock->at ? clock->last : clock->at, drift(clock, error_before));
}

int64_t dmi_trace_clock_ours(struct dmi_trace_clock *clock, int64_t theirs) {
  if (theirs > clock->last) clock->last = theirs;
  return theirs - (int64_t)line(clock, theirs);
}
