/*
 * is.h - what is_dmi.c computes, without any communication: the keys of the benchmark IS, their
 * counts and ranks.  The counterpart for MPI of `make bench` is made of it, too.
 */
#ifndef EXAMPLES_IS_H
#define EXAMPLES_IS_H

#include "npb.h"

#define IS_SEED ((uint64_t)314159265)
#define IS_ITERATIONS 10
#define IS_TESTS 5 /* keys whose ranks are checked in every iteration */

static const char is_class_names[] = "SWA";
static const struct {
  int keys_log, values_log;
  int32_t index[IS_TESTS]; /* numbers of the keys */
  int32_t rank[IS_TESTS];  /* their ranks, */
  int32_t from[IS_TESTS];  /* plus this, */
  int32_t slope[IS_TESTS]; /* plus i times this, in iteration i */
} is_classes[] = {
    {16,
     11,
     {48427, 17148, 23627, 62548, 4431},
     {0, 18, 346, 64917, 65463},
     {0, 0, 0, 0, 0},
     {1, 1, 1, -1, -1}},
    {20,
     16,
     {357773, 934767, 875723, 898999, 404505},
     {1249, 11698, 1039987, 1043896, 1048018},
     {-2, -2, 0, 0, 0},
     {1, 1, -1, -1, -1}},
    {23,
     19,
     {2112377, 662041, 5336171, 3642833, 4250760},
     {104, 17523, 123928, 8288932, 8388264},
     {-1, -1, -1, 1, 1},
     {1, 1, 1, -1, -1}},
};

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The random numbers from key `begin` on. */
static inline uint64_t is_state(int64_t begin) {
  return npb_skip(IS_SEED, 4 * (uint64_t)begin);
}

/* The next `num` keys, which are below `values`. */
static inline void is_draw(uint64_t *state, int32_t values, int32_t *keys, int64_t num) {
  for (int64_t i = 0; i < num; i++) {
    double sum = npb_random(state);
    sum += npb_random(state);
    sum += npb_random(state);
    sum += npb_random(state);
    keys[i] = (int32_t)(sum * (values / 4));
  }
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* Adds to `plain` how often each value is there. */
static inline void is_count(const int32_t *keys, int64_t num, int32_t *plain) {
  for (int64_t i = 0; i < num; i++)
    plain[keys[i]]++;
}

/* Cuts plain counts into `num` ranges of values: before the counts of each stands how many keys are
 * below it. */
static inline void is_cut(const int32_t *plain, int64_t range, int64_t num, int32_t *counts) {
  int32_t below = 0;
  for (int64_t r = 0; r < num; r++) {
    int32_t *to = counts + r * (1 + range);
    to[0] = below;
    memcpy(to + 1, plain + r * range, (size_t)range * sizeof(*to));
    for (int64_t i = 1; i <= range; i++)
      below += to[i];
  }
}

/* Counts of a range become numbers of keys up to each value: sums[1] that up to its first one. */
static inline void is_sum(int32_t *sums, int64_t range) {
  for (int64_t i = 1; i <= range; i++)
    sums[i] += sums[i - 1];
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The rank that the key of a test must have in an iteration. */
static inline int32_t is_expected(int class, int test, int iteration) {
  return is_classes[class].rank[test] + is_classes[class].from[test] +
         iteration * is_classes[class].slope[test];
}

/* Puts every key at the place of its rank; true if all are there then, and sorted.  `ranks`: for
 * each value how many keys there are up to it; changed. */
static inline int is_sorts(const int32_t *keys, int64_t num, int32_t *ranks) {
  int32_t *sorted = npb_room(num, sizeof(*sorted));
  int right = 1;
  memset(sorted, 0xff, (size_t)num * sizeof(*sorted)); /* no key is -1 */
  for (int64_t i = 0; i < num && right; i++) {
    const int32_t place = --ranks[keys[i]];
    right = place >= 0 && place < num && sorted[place] == -1;
    if (right) sorted[place] = keys[i];
  }
  for (int64_t i = 1; i < num && right; i++)
    right = sorted[i - 1] <= sorted[i];
  free(sorted);
  return right;
}

#endif
