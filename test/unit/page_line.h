/*
 * page_line.h - the cores of several processes in a unit test, with one page each, and the messages
 * in flight between them, in one queue: this is one of the orders that are allowed.
 *
 * Included by the tests of the page protocol, after cmocka.h, with PROCS, the number of processes,
 * and PAGE, the page's size, defined; LINE, how many messages there can be at a time, may be.
 * A process's uid is its index + 1; process 1 is the home.
 */
#ifndef DMI_TEST_PAGE_LINE_H
#define DMI_TEST_PAGE_LINE_H

#include "core/page.h"

#ifndef LINE
#define LINE 64
#endif

#define LINE_MAP (1 << 20) /* the mapping's first address */

static inline bool line_is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= PROCS;
}

/* Starts a process of the test; the core's other fields are set before. */
static inline void line_open(struct dmi_core *core, struct dmi_map *map, struct dmi_page *page,
                             uint32_t index) {
  core->self = index + 1;
  core->is_member = line_is_member;
  map->base = LINE_MAP;
  map->page_size = PAGE;
  map->page_num = 1;
  atomic_init(&map->home, 1);
  dmi_page_init(core, map, page, 0);
}

struct line {
  struct dmi_msg msg[LINE];
  uint32_t from[LINE], to[LINE], first, last; /* [first, last) are in flight */
  uint32_t sent[32];                          /* by type */
};

/* Queues what a step of `from` sends.  Other actions are errors. */
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

/* Takes the oldest message out; returns the sender's uid, and the receiver's in `to`. */
static inline uint32_t line_take(struct line *line, struct dmi_msg *msg, uint32_t *to) {
  assert_true(line_any(line));
  *msg = line->msg[line->first];
  *to = line->to[line->first];
  return line->from[line->first++];
}

/* All messages were delivered: starts again at the beginning of the queue. */
static inline void line_end(struct line *line) {
  assert_false(line_any(line));
  line->first = line->last = 0;
}

/* Drops all messages that are left. */
static inline void line_drop(struct line *line) {
  for (; line_any(line); line->first++) {
    dmi_slice_drop(&line->msg[line->first].list);
    dmi_slice_drop(&line->msg[line->first].body);
  }
  line_end(line);
}

#endif
