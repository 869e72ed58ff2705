/*
 * jacobi.h - what jacobi_dmi.c computes, without any communication: Jacobi's method with a stencil
 * of 27 points, on slabs of a cube.  The counterpart for MPI of `make bench` is made of it, too.
 */
#ifndef EXAMPLES_JACOBI_H
#define EXAMPLES_JACOBI_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Planes [begin, end) of the cube.  In local memory a plane has a rim of one point and a slab one
 * plane more at either side, so that all points have 26 neighbours. */
typedef struct {
  int64_t n, begin, end;
  double *points; /* this iteration's */
  double *next;   /* the next one's */
  double *sums;   /* of compute_row */
} slab_t;

static inline int64_t plane_points(int64_t n) {
  return (n + 2) * (n + 2);
}

static inline double *plane_of(const slab_t *slab, double *points, int64_t z) {
  return points + (z - slab->begin + 1) * plane_points(slab->n);
}

/* The first value of a point: looks random, and is the same in every process. */
static inline double first_value(int64_t z, int64_t y, int64_t x) {
  uint32_t h = (uint32_t)z * 2654435761u ^ (uint32_t)y * 2246822519u ^ (uint32_t)x * 3266489917u;
  h = (h ^ (h >> 15)) * 2654435769u;
  return (double)(h ^ (h >> 13)) * 0x1p-32;
}

static inline double *slab_room(int64_t num) {
  double *room = malloc((size_t)num * sizeof(double));
  if (room == NULL) abort();
  return room;
}

static inline void slab_open(slab_t *slab, int64_t n, int64_t begin, int64_t end) {
  const int64_t num = (end - begin + 2) * plane_points(n);
  *slab = (slab_t){.n = n, .begin = begin, .end = end};
  slab->points = slab_room(num);
  slab->next = slab_room(num);
  slab->sums = slab_room(n + 2);
  double *point = slab->points;
  for (int64_t z = begin - 1; z <= end; z++) {
    for (int64_t y = -1; y <= n; y++) {
      for (int64_t x = -1; x <= n; x++)
        *point++ = first_value(z, y, x);
    }
  }
  /* the rims, which do not change */
  memcpy(slab->next, slab->points, (size_t)num * sizeof(double));
}

static inline void slab_close(slab_t *slab) {
  free(slab->sums);
  free(slab->next);
  free(slab->points);
}

/* Weights: 8 the point itself, 4 neighbours across a face, 2 an edge, 1 a corner; 64 in all.  They
 * are products of 1 2 1 in each direction, so the nine rows are added up first, into `sums`. */
static inline double compute_row(const double *const *rows, double *sums, double *to, int64_t n) {
  double change = 0;
  for (int64_t x = 0; x < n + 2; x++) {
    sums[x] = rows[0][x] + 2 * rows[1][x] + rows[2][x] +
              2 * (rows[3][x] + 2 * rows[4][x] + rows[5][x]) + rows[6][x] + 2 * rows[7][x] +
              rows[8][x];
  }
  for (int64_t x = 1; x <= n; x++) {
    to[x] = (sums[x - 1] + 2 * sums[x] + sums[x + 1]) / 64;
    change += (to[x] - rows[4][x]) * (to[x] - rows[4][x]);
  }
  return change;
}

/* The planes [from, to) of the next iteration; returns the sum of the squares of all changes. */
static inline double compute_planes(const slab_t *slab, int64_t from, int64_t to) {
  const int64_t row = slab->n + 2;
  double change = 0;
  for (int64_t z = from; z < to; z++) {
    for (int64_t y = 1; y <= slab->n; y++) {
      const double *rows[9];
      for (int i = 0; i < 9; i++)
        rows[i] = plane_of(slab, slab->points, z + i / 3 - 1) + (y + i % 3 - 1) * row;
      change += compute_row(rows, slab->sums, plane_of(slab, slab->next, z) + y * row, slab->n);
    }
  }
  return change;
}

static inline void slab_advance(slab_t *slab) {
  double *const old = slab->points;
  slab->points = slab->next;
  slab->next = old;
}

#endif
