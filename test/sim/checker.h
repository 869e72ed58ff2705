/*
 * checker.h - checks whether a total order of a page's operations explains every answer.
 *
 * The order must keep real time: an operation that returned before another was called comes first
 * (linearizability).  Pages begin as zeros.
 */
#ifndef SIM_CHECKER_H
#define SIM_CHECKER_H

#include "history.h"

enum check_result {
  CHECK_OK,
  CHECK_NO_ORDER, /* no order explains it */
  CHECK_GAVE_UP   /* the search took too long; counts as a failure */
};

struct check_stats {
  uint64_t ops;   /* checked */
  uint64_t tries; /* how often an operation was tried at a place of an order */
};

/* `stats` may be NULL. */
enum check_result check_page(const struct hist *hist, struct check_stats *stats);

/* The same; if there is an order, `page` (may be NULL) gets the bytes that it leads to. */
enum check_result check_order(const struct hist *hist, struct check_stats *stats,
                              unsigned char *page);

/* Makes `shrunk` a smallest part of `hist` that has no order either.  Only operations are left out
 * whose absence cannot make a good history bad, so the part is really wrong. */
void check_shrink(const struct hist *hist, struct hist *shrunk);

#endif
