/*
 * functions.c - see functions.h.  Both stop when their client does not want the result any more.
 */
#include "functions.h"

#include <stdbool.h>
#include <stdlib.h>

#include "dmi_ox.h"

#define MOST 32                       /* queens: columns are bits */
#define MOST_ITEMS (INT64_C(1) << 22) /* of a product: each is a value of its own */

/* Solutions with the queens of the first rows as given, for the `rows` that are left. */
static int64_t count(uint32_t all, uint32_t columns, uint32_t left, uint32_t right, int rows) {
  int64_t sum = 0;
  if (columns == all) return 1;
  if (rows >= 10 && DMI_ox_interrupted()) return 0; /* seldom beside what follows */
  for (uint32_t open = all & ~(columns | left | right); open != 0; open &= open - 1) {
    uint32_t queen = open & -open;
    sum += count(all, columns | queen, (left | queen) << 1, (right | queen) >> 1, rows - 1);
  }
  return sum;
}

static DMI_ox_value_t *nqueens(DMI_ox_value_t *const *args, int64_t num) {
  int64_t n;
  if (num != 1 || !DMI_ox_to_int64(args[0], &n) || n < 1 || n > MOST)
    return DMI_ox_error("nqueens(n): n is 1 to 32");
  return DMI_ox_from_int64(count((uint32_t)((UINT64_C(1) << n) - 1), 0, 0, 0, (int)n));
}

/* The numbers of a list of rows; NULL when it is no matrix. */
static double *read_matrix(const DMI_ox_value_t *value, int64_t *rows, int64_t *columns) {
  *rows = DMI_ox_length(value);
  *columns = *rows > 0 ? DMI_ox_length(DMI_ox_item(value, 0)) : -1;
  if (*columns < 1) return NULL;
  double *numbers = calloc((size_t)(*rows * *columns), sizeof numbers[0]);
  for (int64_t i = 0; numbers != NULL && i < *rows; i++) {
    const DMI_ox_value_t *row = DMI_ox_item(value, i);
    bool good = DMI_ox_length(row) == *columns;
    for (int64_t j = 0; good && j < *columns; j++)
      good = DMI_ox_to_double(DMI_ox_item(row, j), &numbers[i * *columns + j]);
    if (good) continue;
    free(numbers);
    return NULL;
  }
  return numbers;
}

/* A row of the product; both end early, with less, when nobody wants it any more. */
static DMI_ox_value_t *multiply_row(const double *a, const double *b, int64_t k, int64_t n) {
  DMI_ox_value_t **row = calloc((size_t)n, sizeof row[0]);
  int64_t j = 0;
  if (row == NULL) abort();
  for (; j < n && !DMI_ox_interrupted(); j++) {
    double sum = 0;
    for (int64_t l = 0; l < k; l++)
      sum += a[l] * b[l * n + j];
    row[j] = DMI_ox_from_double(sum);
  }
  DMI_ox_value_t *value = DMI_ox_list(row, j);
  free(row);
  return value;
}

static DMI_ox_value_t *multiply(const double *a, const double *b, int64_t m, int64_t k, int64_t n) {
  DMI_ox_value_t **rows = calloc((size_t)m, sizeof rows[0]);
  int64_t i = 0;
  if (rows == NULL) abort();
  for (; i < m && !DMI_ox_interrupted(); i++)
    rows[i] = multiply_row(a + i * k, b, k, n);
  DMI_ox_value_t *value = DMI_ox_list(rows, i);
  free(rows);
  return value;
}

static DMI_ox_value_t *matmul(DMI_ox_value_t *const *args, int64_t num) {
  int64_t m, k, k2, n;
  double *a = num == 2 ? read_matrix(args[0], &m, &k) : NULL;
  double *b = a != NULL ? read_matrix(args[1], &k2, &n) : NULL;
  DMI_ox_value_t *value;
  if (b == NULL || k != k2)
    value = DMI_ox_error("matmul(a, b): two matrices that fit are needed");
  else if (m * n > MOST_ITEMS)
    value = DMI_ox_error("matmul(a, b): the product is too large");
  else
    value = multiply(a, b, m, k, n);
  free(a);
  free(b);
  return value;
}

void ox_functions_register(void) {
  (void)DMI_ox_function("nqueens", nqueens);
  (void)DMI_ox_function("matmul", matmul);
}
