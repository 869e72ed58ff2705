/*
 * checker.c - searches for an order (the algorithm of Wing and Gong, with Lowe's table of visited
 * states).
 *
 * Operations are placed one after another.  The next may be any that was called before the first
 * return of those not placed yet.  Two things keep this fast: an operation that only reads is
 * placed as soon as its answer fits (that cannot be wrong, since it changes nothing for the
 * others), and a set of placed operations with the same page bytes is visited only once.
 *
 * What never returned may have taken effect or not, and a loss leaves many of these, of which few
 * have.  So orders are searched in rounds: those in which none of them has without a sign of it,
 * those with one at most, with two, with four, and so on.
 */
#include "checker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 0x80000000u /* in search.order and candidate: taken not to have taken effect */
#define TRIES_MAX 3000000u  /* per page; a good history needs about one per operation */

/* A choice in the search. */
struct frame {
  uint32_t placed;           /* operations placed before it */
  uint32_t first, num, next; /* its candidates, in search.candidate */
  uint64_t set;              /* hash of what was placed */
};

struct search {
  const struct hist *hist;
  uint32_t *prev, *next; /* list of events: 2i call, 2i+1 return of i; 2n head, 2n+1 tail */
  uint32_t *order;       /* placed operations */
  uint32_t placed;
  uint32_t open; /* operations with a return that are not placed */
  struct frame *frame;
  unsigned char *state; /* page bytes at each frame */
  uint32_t depth;
  uint32_t *candidate;
  uint32_t candidates, candidates_capacity;
  uint64_t *seen; /* hash table of visited states; 0: free */
  uint32_t seen_num, seen_capacity;
  uint64_t set;
  uint64_t tries;
  uint32_t guesses, guesses_max; /* placed operations that took effect by a guess; in this round */
  bool stopped;                  /* by that limit, so there may be an order */
  unsigned char page[HIST_PAGE_MAX];
};

static void *must(void *ptr) {
  if (!ptr) abort();
  return ptr;
}

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static bool is_return(const struct search *s, uint32_t event) {
  return event < 2 * s->hist->num && (event & 1);
}

static void unlink_event(struct search *s, uint32_t event) {
  s->next[s->prev[event]] = s->next[event];
  s->prev[s->next[event]] = s->prev[event];
}

static void relink_event(struct search *s, uint32_t event) {
  s->next[s->prev[event]] = event;
  s->prev[s->next[event]] = event;
}

/* Must it take effect? */
static bool returns(const struct hist_op *op) {
  return op->back != HIST_OPEN;
}

/* The time by which it has, if it has; HIST_OPEN: there is none. */
static uint64_t deadline(const struct hist_op *op) {
  return op->back == HIST_OPEN && op->until ? op->until : op->back;
}

/* It never returned, and there is no sign that it took effect. */
static bool is_guess(const struct search *s, uint32_t choice) {
  const struct hist_op *op = &s->hist->op[choice & ~SKIPPED];
  return !(choice & SKIPPED) && !returns(op) && !op->hint && !hist_is_pure(s->hist, op);
}

static void place(struct search *s, uint32_t choice) {
  uint32_t i = choice & ~SKIPPED;
  s->guesses += is_guess(s, choice);
  unlink_event(s, 2 * i);
  if (deadline(&s->hist->op[i]) != HIST_OPEN) unlink_event(s, 2 * i + 1);
  if (returns(&s->hist->op[i])) s->open--;
  s->set ^= mix(i + 1);
  s->order[s->placed++] = choice;
}

static void unplace(struct search *s) {
  uint32_t i = s->order[--s->placed] & ~SKIPPED;
  s->guesses -= is_guess(s, s->order[s->placed]);
  if (deadline(&s->hist->op[i]) != HIST_OPEN) relink_event(s, 2 * i + 1);
  if (returns(&s->hist->op[i])) s->open++;
  relink_event(s, 2 * i);
  s->set ^= mix(i + 1);
}

struct ret {
  uint64_t time;
  uint32_t op;
};

static int by_time(const void *a, const void *b) {
  const struct ret *x = a, *y = b;
  return x->time < y->time ? -1 : x->time > y->time;
}

static void list_events(struct search *s) {
  const struct hist *h = s->hist;
  uint32_t n = h->num, num = 0, c = 0, r = 0, last = 2 * n;
  struct ret *ret = must(malloc((n + 1) * sizeof(*ret)));
  for (uint32_t i = 0; i < n; i++) {
    if (deadline(&h->op[i]) != HIST_OPEN) ret[num++] = (struct ret){deadline(&h->op[i]), i};
    if (returns(&h->op[i])) s->open++;
  }
  qsort(ret, num, sizeof(*ret), by_time);
  while (c < n || r < num) {
    bool call = r == num || (c < n && h->op[c].call < ret[r].time);
    uint32_t event = call ? 2 * c++ : 2 * ret[r++].op + 1;
    s->next[last] = event;
    s->prev[event] = last;
    last = event;
  }
  s->next[last] = 2 * n + 1;
  s->prev[2 * n + 1] = last;
  free(ret);
}

static void search_init(struct search *s, const struct hist *hist) {
  size_t n = hist->num;
  memset(s, 0, sizeof(*s));
  s->hist = hist;
  s->prev = must(malloc((2 * n + 2) * sizeof(*s->prev)));
  s->next = must(malloc((2 * n + 2) * sizeof(*s->next)));
  s->order = must(malloc((n + 1) * sizeof(*s->order)));
  s->frame = must(malloc((n + 1) * sizeof(*s->frame)));
  s->state = must(malloc((n + 1) * hist->page_size));
  s->candidates_capacity = (uint32_t)(4 * n + 64);
  s->candidate = must(malloc(s->candidates_capacity * sizeof(*s->candidate)));
  s->seen_capacity = 64;
  while (s->seen_capacity < 4 * n)
    s->seen_capacity *= 2;
  s->seen = must(calloc(s->seen_capacity, sizeof(*s->seen)));
  list_events(s);
}

static void search_fini(struct search *s) {
  free(s->prev);
  free(s->next);
  free(s->order);
  free(s->frame);
  free(s->state);
  free(s->candidate);
  free(s->seen);
}

static bool seen_put(uint64_t *table, uint32_t capacity, uint64_t key) {
  uint32_t at = (uint32_t)key & (capacity - 1);
  while (table[at]) {
    if (table[at] == key) return false;
    at = (at + 1) & (capacity - 1);
  }
  table[at] = key;
  return true;
}

/* True if this state was not visited before. */
static bool first_visit(struct search *s) {
  uint64_t key = s->set + s->guesses, word;
  for (uint32_t at = 0; at < s->hist->page_size; at += 8) {
    uint32_t len = s->hist->page_size - at < 8 ? s->hist->page_size - at : 8;
    word = 0;
    memcpy(&word, s->page + at, len);
    key = mix(key + 0x9e3779b97f4a7c15u + word);
  }
  if (!key) key = 1;
  if (2 * s->seen_num >= s->seen_capacity) {
    uint64_t *more = must(calloc(2 * (size_t)s->seen_capacity, sizeof(*more)));
    for (uint32_t i = 0; i < s->seen_capacity; i++) {
      if (s->seen[i]) seen_put(more, 2 * s->seen_capacity, s->seen[i]);
    }
    free(s->seen);
    s->seen = more;
    s->seen_capacity *= 2;
  }
  if (!seen_put(s->seen, s->seen_capacity, key)) return false;
  s->seen_num++;
  return true;
}

/* Places all operations that only read and whose answers fit. */
static void place_pure(struct search *s) {
  uint32_t event = s->next[2 * s->hist->num];
  while (event < 2 * s->hist->num && !is_return(s, event)) {
    const struct hist_op *op = &s->hist->op[event / 2];
    if (hist_is_pure(s->hist, op)) {
      s->tries++;
      if (hist_apply(s->hist, op, s->page)) place(s, event / 2);
    }
    event = s->next[event]; /* also of a placed one: still its successor, or its return */
    while (event < 2 * s->hist->num && is_return(s, event) && s->next[s->prev[event]] != event) {
      event = s->next[event];
    }
  }
}

/* True if `a` should be tried before `b`: it has the earlier hint, or returned first. */
static bool earlier(const struct hist_op *a, const struct hist_op *b) {
  if (a->hint != b->hint) return a->hint && (!b->hint || a->hint < b->hint);
  return a->back < b->back;
}

/* One more candidate of the frame that is being made, in place `at` of its list. */
static void insert(struct search *s, struct frame *f, uint32_t at, uint32_t choice) {
  uint32_t *list;
  if (s->candidates == s->candidates_capacity) {
    s->candidates_capacity *= 2;
    s->candidate = must(realloc(s->candidate, s->candidates_capacity * sizeof(*s->candidate)));
  }
  list = s->candidate + f->first;
  memmove(list + at + 1, list + at, (f->num - at) * sizeof(*list));
  list[at] = choice;
  f->num++;
  s->candidates++;
}

/* Makes the list of operations that may come next, the most likely one first. */
static void push_frame(struct search *s) {
  struct frame *f = &s->frame[s->depth];
  f->placed = s->placed;
  f->set = s->set;
  f->first = s->candidates;
  f->next = f->num = 0;
  memcpy(s->state + (size_t)s->depth * s->hist->page_size, s->page, s->hist->page_size);
  uint32_t event = s->next[2 * s->hist->num];
  for (; event < 2 * s->hist->num && !is_return(s, event); event = s->next[event]) {
    uint32_t i = event / 2, at;
    const uint32_t *list = s->candidate + f->first;
    if (hist_is_pure(s->hist, &s->hist->op[i])) continue;
    for (at = f->num; at > 0 && earlier(&s->hist->op[i], &s->hist->op[list[at - 1]]);)
      at--;
    insert(s, f, at, i);
  }
  if (is_return(s, event) && !returns(&s->hist->op[event / 2]))
    insert(s, f, s->hist->op[event / 2].hint ? f->num : 0, (event / 2) | SKIPPED);
  s->depth++;
}

/* Goes back to the last choice, and takes its next candidate.  False: there is no choice left. */
static bool next_choice(struct search *s) {
  while (s->depth > 0) {
    struct frame *f = &s->frame[s->depth - 1];
    while (s->placed > f->placed)
      unplace(s);
    while (f->next < f->num) {
      uint32_t i = s->candidate[f->first + f->next++];
      memcpy(s->page, s->state + (size_t)(s->depth - 1) * s->hist->page_size, s->hist->page_size);
      if (s->guesses == s->guesses_max && is_guess(s, i)) {
        s->stopped = true;
        continue;
      }
      s->tries++;
      if ((i & SKIPPED) || hist_apply(s->hist, &s->hist->op[i], s->page)) {
        place(s, i);
        return true;
      }
    }
    s->candidates = f->first;
    s->depth--;
  }
  return false;
}

/* Runs the order that was found once more, without the shortcuts of the search, and gives each
 * operation a point in time between its call and its return.  The points of all pages together are
 * one order of everything that every thread agrees with: that is why checking page by page is
 * enough. */
static void certify(const struct search *s) {
  unsigned char page[HIST_PAGE_MAX] = {0};
  uint64_t point = 0;
  for (uint32_t i = 0; i < s->placed; i++) {
    const struct hist_op *op = &s->hist->op[s->order[i] & ~SKIPPED];
    if (s->order[i] & SKIPPED) continue;
    if (op->call > point) point = op->call;
    if (point >= deadline(op) || !hist_apply(s->hist, op, page)) {
      fprintf(stderr, "checker: found an order that is none\n");
      abort();
    }
  }
}

enum check_result check_page(const struct hist *hist, struct check_stats *stats) {
  return check_order(hist, stats, NULL);
}

static enum check_result search(struct search *s) {
  for (;;) {
    place_pure(s);
    if (!s->open) return CHECK_OK;
    if (first_visit(s)) push_frame(s);
    if (s->tries > TRIES_MAX) return CHECK_GAVE_UP;
    if (!next_choice(s)) return CHECK_NO_ORDER;
  }
}

/* After a round that found no order: from the beginning, with more guesses. */
static void begin_again(struct search *s) {
  while (s->placed)
    unplace(s);
  memset(s->page, 0, sizeof(s->page));
  memset(s->seen, 0, s->seen_capacity * sizeof(*s->seen));
  s->seen_num = s->candidates = 0;
  s->stopped = false;
  s->guesses_max = s->guesses_max ? 2 * s->guesses_max : 1;
}

enum check_result check_order(const struct hist *hist, struct check_stats *stats,
                              unsigned char *page) {
  struct search s;
  enum check_result result;
  assert(hist->page_size <= HIST_PAGE_MAX);
  search_init(&s, hist);
  while ((result = search(&s)) == CHECK_NO_ORDER && s.stopped)
    begin_again(&s);
  if (result == CHECK_OK) certify(&s);
  if (page) memcpy(page, s.page, hist->page_size);
  if (stats) {
    stats->ops += hist->num;
    stats->tries += s.tries;
  }
  search_fini(&s);
  return result;
}
