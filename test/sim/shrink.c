/*
 * shrink.c - finds the smallest part of a bad history that is bad for the same reason.
 *
 * Leaves out only operations whose absence cannot make a good history bad: those called after the
 * first moment at which the history is wrong, those that only read, and writes whose bytes were
 * never read.
 */
#include <stdlib.h>
#include <string.h>

#include "checker.h"

static bool is_bad(const struct hist *hist) {
  return check_page(hist, NULL) == CHECK_NO_ORDER;
}

/* Copies the operations that were called, and the answers that came, up to `time`. */
static void cut_at(const struct hist *from, uint64_t time, struct hist *to) {
  uint32_t num = 0;
  hist_copy(to, from);
  for (uint32_t i = 0; i < to->num; i++) {
    struct hist_op op = to->op[i];
    if (op.call > time) continue;
    if (op.back > time) op.back = HIST_OPEN;
    if (op.back == HIST_OPEN && op.kind == HIST_READ) continue;
    to->op[num++] = op;
  }
  to->num = num;
}

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* If a history has an order, each of its beginnings has one, too.  So the first bad beginning can
 * be found by bisection. */
static void cut_end(struct hist *hist) {
  uint32_t num = 0, low = 0;
  uint64_t *times = malloc((hist->num + 1) * sizeof(*times));
  if (!times) abort();
  for (uint32_t i = 0; i < hist->num; i++) {
    if (hist->op[i].back != HIST_OPEN) times[num++] = hist->op[i].back;
  }
  qsort(times, num, sizeof(*times), by_time);
  uint32_t high = num ? num - 1 : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    struct hist part;
    cut_at(hist, times[middle], &part);
    if (is_bad(&part)) {
      high = middle;
    } else {
      low = middle + 1;
    }
    hist_fini(&part);
  }
  if (num) {
    struct hist part;
    cut_at(hist, times[high], &part);
    hist_fini(hist);
    *hist = part;
  }
  free(times);
}

/* The bytes that the operation left in its range; false: not known. */
static bool left_bytes(const struct hist *hist, const struct hist_op *op, unsigned char *bytes) {
  const unsigned char *in = hist->bytes + op->in;
  uint64_t old, add;
  switch ((enum hist_kind)op->kind) {
    case HIST_WRITE:
    case HIST_FAS:
      memcpy(bytes, in, op->len);
      return true;
    case HIST_CAS:
      memcpy(bytes, in + op->len, op->len);
      return true;
    case HIST_FAD:
      if (op->back == HIST_OPEN) return false;
      memcpy(&old, hist->bytes + op->out, 8);
      memcpy(&add, in, 8);
      old += add;
      memcpy(bytes, &old, 8);
      return true;
    default:
      return false;
  }
}

/* The bytes that the operation found, NULL: not known. */
static const unsigned char *found_bytes(const struct hist *hist, const struct hist_op *op) {
  if (op->back == HIST_OPEN) return NULL;
  switch ((enum hist_kind)op->kind) {
    case HIST_READ:
    case HIST_FAS:
    case HIST_FAD:
    case HIST_WATCH:
    case HIST_DIFFERS:
      return hist->bytes + op->out;
    case HIST_CAS:
      return hist->bytes[op->out] ? hist->bytes + op->in : NULL;
    default:
      return NULL;
  }
}

/* True if another operation may have seen the bytes that `op` left. */
static bool is_seen(const struct hist *hist, uint32_t num) {
  const struct hist_op *op = &hist->op[num];
  unsigned char left[HIST_PAGE_MAX];
  /* 0: the write that cut_start made */
  if (op->uid == 0 || !left_bytes(hist, op, left)) return true;
  for (uint32_t i = 0; i < hist->num; i++) {
    const struct hist_op *by = &hist->op[i];
    int by_end = by->off + by->len, end = op->off + op->len;
    int from = by->off > op->off ? by->off : op->off, to = by_end < end ? by_end : end;
    if (i == num || from >= to || by->kind == HIST_WRITE) continue;
    const unsigned char *found = found_bytes(hist, by);
    if (!found) return true;
    for (int at = from; at < to; at++) {
      if (!hist_counts(by, at - by->off) || !hist_counts(op, at - op->off)) continue;
      if (found[at - by->off] == left[at - op->off]) return true;
    }
  }
  return false;
}

/* Tries to leave out `count` operations, beginning at `at`, as far as that is allowed. */
static bool leave_out(struct hist *hist, uint32_t at, uint32_t count) {
  struct hist less;
  uint32_t num = 0;
  hist_copy(&less, hist);
  for (uint32_t i = 0; i < hist->num; i++) {
    bool try_it = i >= at && i < at + count;
    if (try_it && (hist_is_pure(hist, &hist->op[i]) || !is_seen(hist, i))) continue;
    less.op[num++] = hist->op[i];
  }
  less.num = num;
  if (num < hist->num && is_bad(&less)) {
    hist_fini(hist);
    *hist = less;
    return true;
  }
  hist_fini(&less);
  return false;
}

/* True if the operations before `time` can lead to other bytes than these. */
static bool may_differ(struct hist *hist, uint64_t time, const unsigned char *page) {
  hist_add(hist, time, time + 1, 0, HIST_DIFFERS, 0, (uint8_t)hist->page_size, NULL, 0, page,
           (uint16_t)hist->page_size);
  return check_page(hist, NULL) != CHECK_NO_ORDER;
}

/* Replaces all operations that had returned at `time` by one write of the page that they led to.
 * Only if nothing was in flight then, and no order leads to other bytes. */
static bool cut_start_at(struct hist *hist, uint64_t time) {
  struct hist before, less;
  unsigned char page[HIST_PAGE_MAX];
  uint32_t num = 0;
  bool cut = false;
  for (uint32_t i = 0; i < hist->num && hist->op[i].call < time; i++) {
    if (hist->op[i].back > time) return false;
    num++;
  }
  hist_copy(&before, hist);
  before.num = num;
  if (num && check_order(&before, NULL, page) == CHECK_OK && !may_differ(&before, time, page)) {
    hist_init(&less, hist->page_size);
    hist_add(&less, 1, 2, 0, HIST_WRITE, 0, (uint8_t)hist->page_size, page,
             (uint16_t)hist->page_size, NULL, 0);
    for (uint32_t i = num; i < hist->num; i++) {
      const struct hist_op *op = &hist->op[i];
      uint32_t at = hist_call(&less, op, hist->bytes + op->in);
      if (op->back != HIST_OPEN) hist_back(&less, at, op->back, hist->bytes + op->out);
    }
    cut = is_bad(&less);
    if (cut) {
      hist_fini(hist);
      *hist = less;
    } else {
      hist_fini(&less);
    }
  }
  hist_fini(&before);
  return cut;
}

static void cut_start(struct hist *hist) {
  for (uint32_t i = hist->num; i-- > 1;) {
    if (cut_start_at(hist, hist->op[i].call)) return;
  }
}

void check_shrink(const struct hist *hist, struct hist *shrunk) {
  hist_copy(shrunk, hist);
  cut_end(shrunk);
  cut_start(shrunk);
  bool again = true;
  while (again) {
    again = false;
    for (uint32_t count = shrunk->num / 2; count > 0; count /= 2) {
      for (uint32_t at = 0; at < shrunk->num;) {
        if (leave_out(shrunk, at, count)) {
          again = true;
        } else {
          at += count;
        }
      }
    }
  }
}
