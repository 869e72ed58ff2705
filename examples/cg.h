/*
 * cg.h - what cg_dmi.c computes, without any communication: the matrix of the benchmark CG and the
 * parts of the method.  The counterpart for MPI of `make bench` is made of it, too.
 */
#ifndef EXAMPLES_CG_H
#define EXAMPLES_CG_H

#include "npb.h"

#define CG_SEED ((uint64_t)314159265)
#define CG_RCOND 0.1 /* how badly conditioned the matrix is */
#define CG_STEPS 25  /* of one solution */
#define CG_EPSILON 1e-10

static const char cg_class_names[] = "SWA";
static const struct {
  int32_t n;      /* rows */
  int32_t nonzer; /* elements of each random vector that A is made of */
  int32_t steps;  /* of the inverse iteration */
  double shift, zeta;
} cg_classes[] = {{1400, 7, 15, 10, 8.5971775078648},
                  {7000, 8, 15, 12, 10.362595087124},
                  {14000, 11, 15, 20, 17.130235054029}};

/* Rows [begin, end) of A, which has n of them, compressed. */
typedef struct {
  int64_t n, begin, end;
  int64_t *row_begins; /* end - begin + 1 indices of values and columns */
  int32_t *columns;
  double *values;
} matrix_t;

/* ---- The matrix -----------------------------------------------------------------------------
 * The sum of size^i v_i v_i' over all rows i, and CG_RCOND - shift on the diagonal.  The vectors
 * v_i are sparse and random; element i of v_i is 0.5. */

typedef struct {
  int32_t num;
  int32_t *indices;
  double *values;
} sparse_t;

/* Fills v with `nonzer` random elements below n, in the order in which they are drawn. */
static inline void draw_vector(uint64_t *state, int32_t n, int32_t nonzer, sparse_t *v) {
  int32_t power = 1;
  while (power < n)
    power *= 2;
  v->num = 0;
  while (v->num < nonzer) {
    const double value = npb_random(state);
    const int32_t index = (int32_t)(npb_random(state) * power);
    int32_t seen = index >= n;
    for (int32_t i = 0; i < v->num && !seen; i++)
      seen = v->indices[i] == index;
    if (seen) continue;
    v->indices[v->num] = index;
    v->values[v->num++] = value;
  }
}

static inline void set_element(sparse_t *v, int32_t index, double value) {
  int32_t i = 0;
  while (i < v->num && v->indices[i] != index)
    i++;
  if (i == v->num) v->num++;
  v->indices[i] = index;
  v->values[i] = value;
}

/* All n vectors, one after the other in two arrays: those of vectors[0]. */
static inline sparse_t *draw_vectors(int32_t n, int32_t nonzer) {
  uint64_t state = npb_skip(CG_SEED, 1);
  sparse_t *vectors = npb_room(n, sizeof(*vectors));
  int32_t *indices = npb_room((int64_t)n * (nonzer + 1), sizeof(*indices));
  double *values = npb_room((int64_t)n * (nonzer + 1), sizeof(*values));
  for (int32_t i = 0; i < n; i++) {
    vectors[i].indices = indices + (int64_t)i * (nonzer + 1);
    vectors[i].values = values + (int64_t)i * (nonzer + 1);
    draw_vector(&state, n, nonzer, &vectors[i]);
    set_element(&vectors[i], i, 0.5);
  }
  return vectors;
}

static inline int compare_columns(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Finds for each of my rows the vectors that have an element there: users[starts[row] ..]. */
static inline int32_t *find_users(const matrix_t *a, const sparse_t *vectors, int64_t *starts) {
  const int64_t rows = a->end - a->begin;
  memset(starts, 0, (size_t)(rows + 2) * sizeof(*starts));
  /* First starts[row + 2] counts the users of `row`, then the sums make it the begin of `row + 1`,
   * and in the end starts[row + 1] is that begin. */
  for (int64_t i = 0; i < a->n; i++) {
    for (int32_t k = 0; k < vectors[i].num; k++) {
      const int64_t row = vectors[i].indices[k] - a->begin;
      if (row >= 0 && row < rows) starts[row + 2]++;
    }
  }
  for (int64_t row = 0; row < rows; row++)
    starts[row + 2] += starts[row + 1];
  int32_t *users = npb_room(starts[rows + 1] + 1, sizeof(*users));
  for (int64_t i = 0; i < a->n; i++) {
    for (int32_t k = 0; k < vectors[i].num; k++) {
      const int64_t row = vectors[i].indices[k] - a->begin;
      if (row >= 0 && row < rows) users[starts[row + 1]++] = (int32_t)i;
    }
  }
  return users;
}

/* Adds row `row` of scale v v' to the dense `sums`; columns that are new there go to `columns`.
 * Returns how many columns there are then. */
static inline int64_t add_row(const sparse_t *v, int32_t row, double scale, double *sums,
                              char *used, int32_t *columns, int64_t num) {
  int32_t mine = 0;
  while (v->indices[mine] != row)
    mine++;
  for (int32_t k = 0; k < v->num; k++) {
    const int32_t column = v->indices[k];
    if (!used[column]) {
      used[column] = 1;
      columns[num++] = column;
    }
    sums[column] += scale * v->values[mine] * v->values[k];
  }
  return num;
}

/* Whoever has a part of the matrix makes all vectors, which is cheap, and keeps the elements of its
 * rows, [begin, end). */
static inline void matrix_make(matrix_t *a, int class) {
  const int32_t nonzer = cg_classes[class].nonzer;
  const double ratio = pow(CG_RCOND, 1.0 / (double)a->n);
  const int64_t rows = a->end - a->begin;
  sparse_t *vectors = draw_vectors((int32_t)a->n, nonzer);
  int64_t *starts = npb_room(rows + 2, sizeof(*starts));
  int32_t *users = find_users(a, vectors, starts);
  const int64_t room = starts[rows] * (nonzer + 1) + 1;
  double *sums = npb_zeros(a->n, sizeof(*sums));
  char *used = npb_zeros(a->n, 1);

  a->row_begins = npb_room(rows + 1, sizeof(*a->row_begins));
  a->columns = npb_room(room, sizeof(*a->columns));
  a->values = npb_room(room, sizeof(*a->values));
  a->row_begins[0] = 0;
  for (int64_t row = 0; row < rows; row++) {
    int32_t *columns = a->columns + a->row_begins[row];
    const int32_t global_row = (int32_t)(row + a->begin);
    int64_t num = 0;
    for (int64_t k = starts[row]; k < starts[row + 1]; k++) {
      const double scale = pow(ratio, users[k]);
      num = add_row(&vectors[users[k]], global_row, scale, sums, used, columns, num);
    }
    sums[global_row] += CG_RCOND - cg_classes[class].shift;
    qsort(columns, (size_t)num, sizeof(*columns), compare_columns);
    for (int64_t k = 0; k < num; k++) {
      a->values[a->row_begins[row] + k] = sums[columns[k]];
      sums[columns[k]] = 0;
      used[columns[k]] = 0;
    }
    a->row_begins[row + 1] = a->row_begins[row] + num;
  }
  free(used);
  free(sums);
  free(users);
  free(starts);
  free(vectors[0].values);
  free(vectors[0].indices);
  free(vectors);
}

static inline void matrix_close(matrix_t *a) {
  free(a->values);
  free(a->columns);
  free(a->row_begins);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

static inline double dot(const double *a, const double *b, int64_t num) {
  double sum = 0;
  for (int64_t i = 0; i < num; i++)
    sum += a[i] * b[i];
  return sum;
}

/* result = (these rows of A) v */
static inline void multiply(const matrix_t *a, const double *v, double *result) {
  for (int64_t row = 0; row < a->end - a->begin; row++) {
    double sum = 0;
    for (int64_t k = a->row_begins[row]; k < a->row_begins[row + 1]; k++)
      sum += a->values[k] * v[a->columns[k]];
    result[row] = sum;
  }
}

static inline void set_ones(double *x, int64_t num) {
  for (int64_t i = 0; i < num; i++)
    x[i] = 1;
}

/* Operations as the suite counts them. */
static inline double count_operations(int class) {
  const double nonzeros = cg_classes[class].nonzer * (cg_classes[class].nonzer + 1.0);
  return 2.0 * cg_classes[class].steps * cg_classes[class].n *
         (3 + nonzeros + CG_STEPS * (5 + nonzeros) + 3);
}

#endif
