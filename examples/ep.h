/*
 * ep.h - what ep_dmi.c computes, without any communication: the tasks of the benchmark EP, and the
 * check of their sums.  The counterpart for MPI of `make bench` is made of it, too.
 */
#ifndef EXAMPLES_EP_H
#define EXAMPLES_EP_H

#include "npb.h"

#define EP_SEED ((uint64_t)271828183)
#define EP_TASK_LOG 16 /* a task is 2^16 pairs */
#define EP_RINGS 10
#define EP_EPSILON 1e-8

typedef struct {
  double sx, sy;           /* sums of the deviates */
  double counts[EP_RINGS]; /* pairs with floor(max(|X|, |Y|)) == ring; whole numbers below 2^53 */
} ep_result_t;

static const char ep_class_names[] = "SWAB";
static const struct {
  int pairs_log;
  double sx, sy;
  double counts[EP_RINGS];
} ep_classes[] = {
    {24,
     -3.247834652034740e+3,
     -6.958407078382297e+3,
     {6140517, 5865300, 1100361, 68546, 1648, 17}},
    {25,
     -2.863319731645753e+3,
     -6.320053679109499e+3,
     {12281576, 11729692, 2202726, 137368, 3371, 36}},
    {28,
     -4.295875165629892e+3,
     -1.580732573678431e+4,
     {98257395, 93827014, 17611549, 1110028, 26536, 245}},
    {30,
     4.033815542441498e+4,
     -2.660669192809235e+4,
     {393058470, 375280898, 70460742, 4438852, 105691, 948, 5}},
};

/* Adds what a task finds. */
static inline void ep_task(int64_t task, ep_result_t *result) {
  uint64_t state = npb_skip(EP_SEED, (uint64_t)task << (EP_TASK_LOG + 1));
  for (int i = 0; i < 1 << EP_TASK_LOG; i++) {
    const double x = 2 * npb_random(&state) - 1;
    const double y = 2 * npb_random(&state) - 1;
    const double square = x * x + y * y;
    if (square > 1) continue;
    const double factor = sqrt(-2 * log(square) / square);
    const double gx = x * factor, gy = y * factor;
    result->counts[(int)fmax(fabs(gx), fabs(gy))]++;
    result->sx += gx;
    result->sy += gy;
  }
}

static inline void ep_add(ep_result_t *total, const ep_result_t *part) {
  total->sx += part->sx;
  total->sy += part->sy;
  for (int ring = 0; ring < EP_RINGS; ring++)
    total->counts[ring] += part->counts[ring];
}

/* Prints the result of a class; returns whether it is right. */
static inline int ep_report(int class, const ep_result_t *total, double seconds) {
  const int64_t pairs = (int64_t)1 << ep_classes[class].pairs_log;
  for (int ring = 0; ring < EP_RINGS; ring++)
    printf("ring %d: %.0f\n", ring, total->counts[ring]);
  printf("sums %.15e %.15e\n", total->sx, total->sy);
  const int verified =
      memcmp(total->counts, ep_classes[class].counts, sizeof(total->counts)) == 0 &&
      npb_close(total->sx, ep_classes[class].sx, EP_EPSILON) &&
      npb_close(total->sy, ep_classes[class].sy, EP_EPSILON);
  npb_report("EP", ep_class_names[class], 2 * pairs, seconds, 2.0 * (double)pairs, verified);
  return verified;
}

#endif
