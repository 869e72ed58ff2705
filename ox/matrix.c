/*
 * matrix.c - matmul(a, b): the product of two matrices, lists of rows of numbers, as doubles.
 * The job is b, a part some rows of a.
 */
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "parts.h"

#define PART_STEPS (INT64_C(1) << 22) /* multiplications of a part: some milliseconds */

/* Before the numbers of a part. */
struct head {
  int64_t rows, k, n; /* of a; columns of a and rows of b; columns of b */
};

void ox_product_part(const void *job, int64_t job_size, const void *part, int64_t part_size,
                     void *out, int64_t out_size) {
  const struct head *head = part;
  const double *a = (const double *)(head + 1), *b = job;
  double *c = out;
  (void)job_size, (void)part_size, (void)out_size;
  for (int64_t i = 0; i < head->rows; i++)
    for (int64_t l = 0; l < head->k; l++)
      for (int64_t j = 0; j < head->n; j++)
        c[i * head->n + j] += a[i * head->k + l] * b[l * head->n + j];
}

/* The numbers of a list of rows, with their head before them; NULL when it is no matrix. */
static struct head *read_matrix(const DMI_ox_value_t *value) {
  int64_t rows = DMI_ox_length(value);
  int64_t columns = rows > 0 ? DMI_ox_length(DMI_ox_item(value, 0)) : -1;
  if (columns < 1) return NULL;
  for (int64_t i = 1; i < rows; i++) /* before memory is taken for them */
    if (DMI_ox_length(DMI_ox_item(value, i)) != columns) return NULL;
  struct head *head = calloc(1, sizeof *head + (size_t)(rows * columns) * sizeof(double));
  double *numbers = (double *)(head + 1);
  bool good = head != NULL;
  for (int64_t i = 0; good && i < rows; i++)
    for (int64_t j = 0; good && j < columns; j++)
      good =
          DMI_ox_to_double(DMI_ox_item(DMI_ox_item(value, i), j), &numbers[i * columns + j]) != 0;
  if (good) {
    *head = (struct head){.rows = rows, .k = columns};
    return head;
  }
  free(head);
  return NULL;
}

/* The product as far as it has come. */
struct product {
  int64_t n, num;
  int64_t left; /* rows that have not come */
  int64_t rows; /* of a part, but the last */
  DMI_ox_value_t **at;
};

static void take(void *arg, const void *out) {
  struct product *product = arg;
  const double *numbers = out;
  int64_t rows = product->left < product->rows ? product->left : product->rows;
  DMI_ox_value_t **row = calloc((size_t)product->n, sizeof row[0]);
  if (row == NULL) abort();
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < product->n; j++)
      row[j] = DMI_ox_from_double(numbers[i * product->n + j]);
    product->at[product->num++] = DMI_ox_list(row, product->n);
  }
  product->left -= rows;
  free(row);
}

static void add_rows(struct ox_parts *parts, const struct head *a, int64_t n, int64_t rows) {
  const double *numbers = (const double *)(a + 1);
  struct head *part = malloc(sizeof *part + (size_t)(rows * a->k) * sizeof(double));
  bool wanted = part != NULL;
  if (part == NULL) abort();
  for (int64_t i = 0; wanted && i < a->rows; i += rows) {
    int64_t some = a->rows - i < rows ? a->rows - i : rows;
    size_t bytes = (size_t)(some * a->k) * sizeof(double);
    *part = (struct head){some, a->k, n};
    memcpy(part + 1, numbers + i * a->k, bytes);
    wanted = ox_parts_add(parts, part, (int64_t)(sizeof *part + bytes),
                          some * n * (int64_t)sizeof(double));
  }
  free(part);
}

static DMI_ox_value_t *multiply(const struct head *a, const struct head *b) {
  int64_t n = b->k, steps = a->k * n;
  struct product product = {
      .n = n, .left = a->rows, .rows = steps < PART_STEPS ? PART_STEPS / steps : 1};
  DMI_ox_value_t *value = NULL;
  if (product.rows > a->rows) product.rows = a->rows;
  struct ox_parts *parts = ox_parts_begin(OX_PRODUCT, b + 1, b->rows * n * (int64_t)sizeof(double),
                                          take, &product, &value);
  if (parts == NULL) return value;
  product.at = calloc((size_t)a->rows, sizeof product.at[0]);
  if (product.at == NULL) abort();
  add_rows(parts, a, n, product.rows);
  value = ox_parts_end(parts);
  if (value == NULL) {
    value = DMI_ox_list(product.at, product.num); /* fewer, if nobody wants it any more */
  } else {
    while (product.num > 0)
      DMI_ox_drop(product.at[--product.num]);
  }
  free(product.at);
  return value;
}

/* With all its rows it has to fit into a session. */
static bool fits(int64_t rows, int64_t columns) {
  DMI_ox_value_t *one = DMI_ox_from_double(0), *none = DMI_ox_list(NULL, 0);
  double row = (double)columns * (double)(DMI_ox_size(one) + 8) + (double)DMI_ox_size(none) + 8;
  DMI_ox_drop(one);
  DMI_ox_drop(none);
  return (double)rows * row < (double)DMI_ox_room();
}

DMI_ox_value_t *ox_matmul(DMI_ox_value_t *const *args, int64_t num) {
  struct head *a = num == 2 ? read_matrix(args[0]) : NULL;
  struct head *b = a != NULL ? read_matrix(args[1]) : NULL;
  DMI_ox_value_t *value;
  if (b == NULL || a->k != b->rows)
    value = DMI_ox_error("matmul(a, b): two matrices that fit are needed");
  else if (!fits(a->rows, b->k))
    value = DMI_ox_error("matmul(a, b): the product is too large for a session (--max-stack)");
  else
    value = multiply(a, b);
  free(a);
  free(b);
  return value;
}
