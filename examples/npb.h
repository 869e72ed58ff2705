/*
 * npb.h - what the programs of the NAS Parallel Benchmarks share: the random numbers that their
 * specification prescribes, memory, classes, the clock, and the report.  It does not need DMI: the
 * counterparts for MPI of `make bench` are made of the same parts.
 *
 * The specification is public (D. Bailey et al., The NAS Parallel Benchmarks, report RNR-94-007,
 * and its successors); the values that verify a result are the suite's.
 */
#ifndef EXAMPLES_NPB_H
#define EXAMPLES_NPB_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Random numbers ------------------------------------------------------------------------- */

/* x' = a x mod 2^46; the number is x' / 2^46, in (0, 1).  2^46 divides 2^64, so an overflow of the
 * product does no harm and integers give exactly what the specification asks for. */
#define NPB_MASK (((uint64_t)1 << 46) - 1)
#define NPB_MULTIPLIER ((uint64_t)1220703125) /* 5^13 */

static inline double npb_random(uint64_t *state) {
  *state = (NPB_MULTIPLIER * *state) & NPB_MASK;
  return (double)*state * 0x1p-46;
}

/* The state `steps` numbers after `state`. */
static inline uint64_t npb_skip(uint64_t state, uint64_t steps) {
  for (uint64_t power = NPB_MULTIPLIER; steps != 0; steps >>= 1) {
    if (steps & 1) state = (state * power) & NPB_MASK;
    power = (power * power) & NPB_MASK;
  }
  return state;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* `num` elements of `size` bytes, all zero; freed with free(). */
static inline void *npb_zeros(int64_t num, size_t size) {
  void *memory = calloc(num > 0 ? (size_t)num : 1, size);
  if (memory == NULL) abort();
  return memory;
}

/* The same, with any contents. */
static inline void *npb_room(int64_t num, size_t size) {
  void *memory = malloc((num > 0 ? (size_t)num : 1) * size);
  if (memory == NULL) abort();
  return memory;
}

/* ---- Classes and the report ----------------------------------------------------------------- */

/* Number of the class that `text` names, in the order of `names`; else a clear line and the end. */
static inline int npb_class(const char *text, const char *names) {
  const char *found = text[0] != '\0' && text[1] == '\0' ? strchr(names, text[0]) : NULL;
  if (found == NULL) {
    fprintf(stderr, "class must be one letter of %s, not '%s'\n", names, text);
    exit(EXIT_FAILURE);
  }
  return (int)(found - names);
}

static inline double npb_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* False also when a result is not a number. */
static inline int npb_close(double value, double expected, double epsilon) {
  return fabs((value - expected) / expected) <= epsilon;
}

/* The last lines of every benchmark.  `operations` as the suite counts them. */
static inline void npb_report(const char *name, char class_name, int64_t size, double seconds,
                              double operations, int verified) {
  printf("%s Benchmark Completed.\n", name);
  printf("Class           = %c\n", class_name);
  printf("Size            = %lld\n", (long long)size);
  printf("Time in seconds = %.3f\n", seconds);
  printf("Mop/s total     = %.2f\n", seconds > 0 ? operations / seconds / 1e6 : 0);
  printf("Verification    = %s\n", verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  fflush(stdout);
}

#endif
