/*
 * blocks.h - plain C kernels on blocks of a matrix, for lu_dmi.c and cholesky_dmi.c.
 *
 * Blocks are stored by columns; `ld` is how far a column is from the next one.  Each kernel does
 * its sums in an order that depends on the sizes only, so that results are the same to the last bit
 * wherever it runs.  (Compiled for a processor with its own options, such as -march=native, they
 * may differ between machines.)  A program with a BLAS would call dgemm, dtrsm and dpotrf here.
 */
#ifndef EXAMPLES_BLOCKS_H
#define EXAMPLES_BLOCKS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hash.h"

/* A matrix of n x n elements, in blocks of nb; the last ones may be smaller. */
typedef struct {
  int64_t n, nb, seed;
} shape_t;

static inline int64_t blocks_num(const shape_t *s) {
  return (s->n + s->nb - 1) / s->nb;
}

/* Rows or columns of block `k`. */
static inline int64_t block_width(const shape_t *s, int64_t k) {
  return s->n - k * s->nb < s->nb ? s->n - k * s->nb : s->nb;
}

/* ---- Elements ------------------------------------------------------------------------------- */

/* A number in [-0.5, 0.5) for each place (i, j) of each matrix: so any part of it can be made
 * anywhere. */
static inline double random_element(uint64_t seed, uint64_t i, uint64_t j) {
  uint64_t x = (seed << 56) ^ (i << 28) ^ j;
  for (int round = 0; round < 2; round++) { /* the finalizer of SplitMix64 */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
  }
  return (double)(x >> 11) * 0x1p-53 - 0.5;
}

/* ---- Products ------------------------------------------------------------------------------- */

#define PRODUCT_ROWS 512 /* of `a` and `c` that are worked on together: they stay in the cache */

/* c (rows x cols) -= a (rows x inner) b, where element (l, j) of b is b[l * b_row + j * b_col]. */
static inline void subtract_product(int64_t rows, int64_t cols, int64_t inner, double *c,
                                    int64_t ldc, const double *a, int64_t lda, const double *b,
                                    int64_t b_row, int64_t b_col) {
  for (int64_t first = 0; first < rows; first += PRODUCT_ROWS) {
    const int64_t num = rows - first < PRODUCT_ROWS ? rows - first : PRODUCT_ROWS;
    for (int64_t j = 0; j < cols; j++) {
      double *restrict to = c + first + j * ldc;
      const double *x = b + j * b_col;
      int64_t l = 0;
      for (; l + 4 <= inner; l += 4) {
        const double *restrict p = a + first + l * lda;
        const double x0 = x[l * b_row], x1 = x[(l + 1) * b_row], x2 = x[(l + 2) * b_row],
                     x3 = x[(l + 3) * b_row];
        for (int64_t i = 0; i < num; i++)
          to[i] -= p[i] * x0 + p[i + lda] * x1 + p[i + 2 * lda] * x2 + p[i + 3 * lda] * x3;
      }
      for (; l < inner; l++) {
        const double *restrict p = a + first + l * lda;
        const double x0 = x[l * b_row];
        for (int64_t i = 0; i < num; i++)
          to[i] -= p[i] * x0;
      }
    }
  }
}

/* ---- Triangles ------------------------------------------------------------------------------ */

/* b (n x cols) := inverse of l times b; l is lower triangular, with ones on the diagonal if `unit`.
 */
static inline void solve_lower(int64_t n, int64_t cols, const double *l, int64_t ldl, double *b,
                               int64_t ldb, int unit) {
  for (int64_t j = 0; j < cols; j++) {
    double *x = b + j * ldb;
    for (int64_t k = 0; k < n; k++) {
      if (!unit) x[k] /= l[k + k * ldl];
      for (int64_t i = k + 1; i < n; i++)
        x[i] -= l[i + k * ldl] * x[k];
    }
  }
}

/* x (n) := inverse of u times x; u is upper triangular. */
static inline void solve_upper(int64_t n, const double *u, int64_t ldu, double *x) {
  for (int64_t k = n - 1; k >= 0; k--) {
    x[k] /= u[k + k * ldu];
    for (int64_t i = 0; i < k; i++)
      x[i] -= u[i + k * ldu] * x[k];
  }
}

/* x (n) := inverse of the transposed l times x; l is lower triangular. */
static inline void solve_lower_transposed(int64_t n, const double *l, int64_t ldl, double *x) {
  for (int64_t k = n - 1; k >= 0; k--) {
    for (int64_t i = k + 1; i < n; i++)
      x[k] -= l[i + k * ldl] * x[i];
    x[k] /= l[k + k * ldl];
  }
}

/* b (rows x n) := b times the inverse of the transposed l; l is lower triangular. */
static inline void solve_right(int64_t rows, int64_t n, const double *l, int64_t ldl, double *b,
                               int64_t ldb) {
  for (int64_t k = 0; k < n; k++) {
    double *restrict to = b + k * ldb;
    for (int64_t j = 0; j < k; j++) {
      const double *restrict from = b + j * ldb;
      const double x = l[k + j * ldl];
      for (int64_t i = 0; i < rows; i++)
        to[i] -= from[i] * x;
    }
    for (int64_t i = 0; i < rows; i++)
      to[i] /= l[k + k * ldl];
  }
}

/* ---- Factors -------------------------------------------------------------------------------- */

/* The Cholesky factor of a (n x n), in its lower triangle.  -1: done; else the column at which a is
 * found not to be positive definite. */
static inline int64_t factor_cholesky(int64_t n, double *a, int64_t lda) {
  for (int64_t k = 0; k < n; k++) {
    double *column = a + k * lda;
    for (int64_t j = 0; j < k; j++) {
      const double x = a[k + j * lda];
      for (int64_t i = k; i < n; i++)
        column[i] -= a[i + j * lda] * x;
    }
    if (!(column[k] > 0)) return k;
    column[k] = sqrt(column[k]);
    for (int64_t i = k + 1; i < n; i++)
      column[i] /= column[k];
  }
  return -1;
}

static inline void swap_rows(double *a, int64_t lda, int64_t cols, int64_t i, int64_t j) {
  for (int64_t c = 0; c < cols && i != j; c++) {
    const double x = a[i + c * lda];
    a[i + c * lda] = a[j + c * lda];
    a[j + c * lda] = x;
  }
}

#define STRIP                                                                         \
  16 /* columns of a panel that are factored before the others are brought up to date \
      */

/* The LU factors of a panel (rows x cols, rows >= cols) with partial pivoting: row pivot[k] was
 * swapped with row k.  -1: done; else the column that is zero from the diagonal on. */
static inline int64_t factor_lu(int64_t rows, int64_t cols, double *a, int64_t lda,
                                int64_t *pivot) {
  for (int64_t first = 0; first < cols; first += STRIP) {
    const int64_t end = first + STRIP < cols ? first + STRIP : cols;
    for (int64_t k = first; k < end; k++) {
      double *column = a + k * lda;
      int64_t best = k;
      for (int64_t i = k + 1; i < rows; i++)
        if (fabs(column[i]) > fabs(column[best])) best = i;
      pivot[k] = best;
      if (column[best] == 0) return k;
      swap_rows(a, lda, cols, k, best);
      for (int64_t i = k + 1; i < rows; i++)
        column[i] /= column[k];
      subtract_product(rows - k - 1, end - k - 1, 1, column + lda + k + 1, lda, column + k + 1, lda,
                       column + lda + k, 1, lda);
    }
    double *corner = a + first + first * lda, *right = a + first + end * lda;
    solve_lower(end - first, cols - end, corner, lda, right, lda, 1);
    subtract_product(rows - end, cols - end, end - first, a + end + end * lda, lda,
                     a + end + first * lda, lda, right, 1, lda);
  }
  return -1;
}

/* ---- The residual --------------------------------------------------------------------------- */

/* What is known of A x - b: all but the norms are sums of a row. */
typedef struct {
  double r;    /* b - A x */
  double norm; /* of A: the sum of |elements| */
} row_sum_t;

/* HPL's scaled residual, |b - A x| / (eps (|A| |x| + |b|) n), all of them maximum norms: below 16
 * the solution is good. */
static inline double scaled_residual(const shape_t *s, const row_sum_t *sums, const double *x,
                                     const double *b) {
  double r = 0, norm_a = 0, norm_x = 0, norm_b = 0;
  for (int64_t i = 0; i < s->n; i++) {
    r = fmax(r, fabs(sums[i].r));
    norm_a = fmax(norm_a, sums[i].norm);
    norm_x = fmax(norm_x, fabs(x[i]));
    norm_b = fmax(norm_b, fabs(b[i]));
  }
  return r / (DBL_EPSILON / 2 * (norm_a * norm_x + norm_b) * (double)s->n);
}

#endif
