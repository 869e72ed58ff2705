/*
 * bench.h - for the measuring programs: time, and batches of measurements reduced to a median.
 *
 * Each figure is printed as one line, `name value unit min max`: the median, smallest and largest
 * of BATCHES batches.  One more batch comes first and is thrown away: it warms up caches, buffers
 * and the processor's clock.  With BENCH_BATCHES=1 in the environment it is one batch: to see that
 * a program runs (test/multi/bench.t).
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 9 /* at most */

/* One figure.  No pointers: it can be passed through global memory. */
typedef struct {
  char name[32];
  char unit[8];
  double values[BATCHES];
} figure_t;

static inline int batches(void) {
  const char *text = getenv("BENCH_BATCHES");
  const int num = text ? atoi(text) : 0;
  return num > 0 && num < BATCHES ? num : BATCHES;
}

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int compare_doubles(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static inline figure_t figure_sorted(const figure_t *figure) {
  figure_t sorted = *figure;
  qsort(sorted.values, (size_t)batches(), sizeof(double), compare_doubles);
  return sorted;
}

static inline double figure_median(const figure_t *figure) {
  return figure_sorted(figure).values[batches() / 2];
}

static inline void figure_print(const figure_t *figure) {
  const figure_t sorted = figure_sorted(figure);
  const int num = batches();
  printf("%s %.4g %s %.4g %.4g\n", sorted.name, sorted.values[num / 2], sorted.unit,
         sorted.values[0], sorted.values[num - 1]);
  fflush(stdout);
}

/* Megabytes (10^6) per second. */
static inline double rate_mb(int64_t bytes, int64_t ns) {
  return (double)bytes * 1000.0 / (double)ns;
}

#endif
