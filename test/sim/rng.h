/*
 * rng.h - the simulator's own random numbers (splitmix64), so that a seed gives the same run
 * everywhere.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
  uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng) {
  uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* A stream of its own for each seed.  The states after draws are a step apart: if seeds were
 * multiples of that step, they would be places in one stream, and several runs would draw the same
 * numbers. */
static inline void rng_seed(struct rng *rng, uint64_t seed) {
  rng->state = seed ^ UINT64_C(0x5851f42d4c957f2d);
  rng->state = rng_next(rng);
}

/* 0 .. n-1; n > 0.  The tiny bias of the multiplication does not matter here. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n) {
  return (uint32_t)(((rng_next(rng) >> 32) * n) >> 32);
}

static inline uint32_t rng_range(struct rng *rng, uint32_t low, uint32_t high) {
  return low + rng_below(rng, high - low + 1);
}

/* True once in n. */
static inline bool rng_once_in(struct rng *rng, uint32_t n) {
  return rng_below(rng, n) == 0;
}

#endif
