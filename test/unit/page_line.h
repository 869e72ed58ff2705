/*
 * page_line.h - the messages under way between processes' cores that a unit test has side by side:
 * one line, oldest first, since one channel for all is one allowed order.
 *
 * Included by the tests of the page protocol, after cmocka.h; LINE, how many there can be at a
 * time, may be defined before.
 */
#ifndef DMI_TEST_PAGE_LINE_H
#define DMI_TEST_PAGE_LINE_H

#include "core/page.h"

#ifndef LINE
#define LINE 64
#endif

struct line {
  struct dmi_msg msg[LINE];
  uint32_t from[LINE], to[LINE], first, last; /* [first, last) are under way */
  uint32_t sent[32];                          /* by type */
};

/* What a step of `from` sends.  Any other action is one that the test did not expect. */
static inline void line_put(struct line *line, uint32_t from, const struct dmi_act *act) {
  assert_int_equal(act->type, DMI_ACT_SEND);
  assert_true(line->last < LINE);
  line->msg[line->last] = act->msg;
  line->from[line->last] = from;
  line->to[line->last++] = act->to;
  line->sent[act->msg.type]++;
}

static inline bool line_any(const struct line *line) {
  return line->first < line->last;
}

/* All have been delivered: the next one is the first again. */
static inline void line_end(struct line *line) {
  assert_false(line_any(line));
  line->first = line->last = 0;
}

/* Those that are left are not delivered. */
static inline void line_drop(struct line *line) {
  for (; line_any(line); line->first++) {
    dmi_slice_drop(&line->msg[line->first].list);
    dmi_slice_drop(&line->msg[line->first].body);
  }
  line_end(line);
}

#endif
