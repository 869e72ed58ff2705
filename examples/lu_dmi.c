/*
 * lu_dmi.c - solves A x = b by blocked LU factors with partial pivoting, as LINPACK does: a
 * sequential program that calls remote functions.
 *
 *   dmicc -O3 lu_dmi.c -o lu_dmi -lm
 *   dmirun ./lu_dmi 2048 128               starts the program: 2048 equations, blocks of 128
 * columns dmirun -i HOST ./lu_dmi                joins it, at any time, from anywhere Ctrl+C leaves
 * it, at any time
 *
 * Arguments: equations, columns of a block, processes with which it begins (1), seed, 1 if inputs
 * are to be sent only when a core is free for the call that needs them (0).
 *
 * DMI_main only says what is to be done: it makes no element and sees none.  Which call waits for
 * which, where it runs, what is sent when and what meanwhile is computed follows from the data.  In
 * particular nobody has programmed a "look-ahead": the next panel is factored as soon as its own
 * columns are up to date, while others still update theirs.
 *
 * The matrix is cut into block columns.  For each one from the left: `factor` makes its part of L
 * (the panel) and of U, `update` brings all columns on the right up to date.  What a column goes
 * through is the same whoever does it, so the result is the same to the last bit with any number of
 * processes; the checksum tells.
 */
#include "blocks.h"
#include "remote.h"

/* A panel: which rows were swapped, and block column k of L from its diagonal on. */
static int64_t panel_rows(const shape_t *s, int64_t k) {
  return s->n - k * s->nb;
}

static int64_t panel_size(const shape_t *s, int64_t k) {
  const int64_t width = block_width(s, k);
  return width * (int64_t)sizeof(int64_t) + panel_rows(s, k) * width * (int64_t)sizeof(double);
}

static double element(const shape_t *s, int64_t i, int64_t j) {
  return random_element((uint64_t)s->seed, (uint64_t)i, (uint64_t)j);
}

/* The right side is column n. */
static void make_right_side(const shape_t *s, double *b) {
  for (int64_t i = 0; i < s->n; i++)
    b[i] = element(s, i, s->n);
}

/* ---- Remote functions ------------------------------------------------------------------------ */

/* Block column j of A.  (OUT column, shape, j) */
DMI_REMOTE(make_column) {
  double *column = DMI_remote_out(call, 0, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 1, shape_t);
  const int64_t j = DMI_REMOTE_VALUE(call, 2, int64_t);
  for (int64_t c = 0; c < block_width(&s, j); c++)
    for (int64_t i = 0; i < s.n; i++)
      column[i + c * s.n] = element(&s, i, j * s.nb + c);
}

/* (OUT b, shape) */
DMI_REMOTE(make_vector) {
  double *b = DMI_remote_out(call, 0, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 1, shape_t);
  make_right_side(&s, b);
}

/* Factors block column k from its diagonal on.  (INOUT column, OUT panel, shape, k) */
DMI_REMOTE(factor) {
  double *column = DMI_remote_inout(call, 0, NULL);
  int64_t *pivot = DMI_remote_out(call, 1, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 2, shape_t);
  const int64_t k = DMI_REMOTE_VALUE(call, 3, int64_t);
  const int64_t width = block_width(&s, k), rows = panel_rows(&s, k);
  double *l = (double *)(pivot + width), *from = column + k * s.nb;
  const int64_t zero = factor_lu(rows, width, from, s.n, pivot);
  if (zero >= 0) {
    DMI_remote_fail(call, "the matrix is singular");
    return;
  }
  for (int64_t c = 0; c < width; c++)
    memcpy(l + c * rows, from + c * s.n, (size_t)rows * sizeof(double));
}

/* Brings block column j up to date with panel k.  (IN panel, INOUT column, shape, k, j) */
DMI_REMOTE(update) {
  const int64_t *pivot = DMI_remote_in(call, 0, NULL);
  double *column = DMI_remote_inout(call, 1, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 2, shape_t);
  const int64_t k = DMI_REMOTE_VALUE(call, 3, int64_t), j = DMI_REMOTE_VALUE(call, 4, int64_t);
  const int64_t width = block_width(&s, k), rows = panel_rows(&s, k), cols = block_width(&s, j);
  const double *l = (const double *)(pivot + width);
  double *top = column + k * s.nb;
  for (int64_t i = 0; i < width; i++)
    swap_rows(top, s.n, cols, i, pivot[i]);
  solve_lower(width, cols, l, rows, top, s.n, 1);
  subtract_product(rows - width, cols, width, top + width, s.n, l + width, rows, top, 1, s.n);
}

/* The same for the right side.  (IN panel, INOUT b, shape, k) */
DMI_REMOTE(forward) {
  const int64_t *pivot = DMI_remote_in(call, 0, NULL);
  double *b = DMI_remote_inout(call, 1, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 2, shape_t);
  const int64_t k = DMI_REMOTE_VALUE(call, 3, int64_t);
  const int64_t width = block_width(&s, k), rows = panel_rows(&s, k);
  const double *l = (const double *)(pivot + width);
  double *top = b + k * s.nb;
  for (int64_t i = 0; i < width; i++)
    swap_rows(top, s.n, 1, i, pivot[i]);
  solve_lower(width, 1, l, rows, top, s.n, 1);
  subtract_product(rows - width, 1, width, top + width, s.n, l + width, rows, top, 1, s.n);
}

/* Part k of the solution.  (IN column, INOUT x, shape, k) */
DMI_REMOTE(backward) {
  const double *column = DMI_remote_in(call, 0, NULL);
  double *x = DMI_remote_inout(call, 1, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 2, shape_t);
  const int64_t k = DMI_REMOTE_VALUE(call, 3, int64_t), width = block_width(&s, k);
  double *part = x + k * s.nb;
  solve_upper(width, column + k * s.nb, s.n, part);
  subtract_product(k * s.nb, 1, width, x, s.n, column, s.n, part, 1, s.n);
}

/* Takes block column j of A, made anew, times x from the right side.  (IN x, INOUT sums, shape, j)
 */
DMI_REMOTE(residual) {
  const double *x = DMI_remote_in(call, 0, NULL);
  row_sum_t *sums = DMI_remote_inout(call, 1, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 2, shape_t);
  const int64_t j = DMI_REMOTE_VALUE(call, 3, int64_t);
  for (int64_t i = 0; i < s.n; i++) {
    if (j == 0) sums[i].r = element(&s, i, s.n);
    for (int64_t c = j * s.nb; c < j * s.nb + block_width(&s, j); c++) {
      const double a = element(&s, i, c);
      sums[i].r -= a * x[c];
      sums[i].norm += fabs(a);
    }
  }
}

/* (OUT sums, shape) */
DMI_REMOTE(no_sums) {
  (void)DMI_remote_out(call, 0, NULL); /* all zero */
}

/* (IN x, IN sums, OUT the scaled residual, shape) */
DMI_REMOTE(judge) {
  const double *x = DMI_remote_in(call, 0, NULL);
  const row_sum_t *sums = DMI_remote_in(call, 1, NULL);
  double *result = DMI_remote_out(call, 2, NULL);
  const shape_t s = DMI_REMOTE_VALUE(call, 3, shape_t);
  double *b = my_malloc((size_t)s.n * sizeof(double));
  make_right_side(&s, b);
  *result = scaled_residual(&s, sums, x, b);
  my_free(b);
}

/* (IN numbers, INOUT hash) */
DMI_REMOTE(digest) {
  int64_t size;
  const double *numbers = DMI_remote_in(call, 0, &size);
  uint64_t *hash = DMI_remote_inout(call, 1, NULL);
  *hash = hash_doubles(*hash, numbers, size / (int64_t)sizeof(double));
}

/* ---- The program ----------------------------------------------------------------------------- */

typedef struct {
  DMI_client_t *client;
  shape_t s;
  int64_t num;         /* block columns */
  DMI_data_t *columns; /* A, then U and, below it, L with other swaps */
  DMI_data_t b;        /* the right side, then x */
} lu_t;

static void make_matrix(lu_t *lu) {
  const int64_t row = (int64_t)sizeof(double);
  for (int64_t j = 0; j < lu->num; j++)
    CHECK(DMI_call(lu->client, make_column,
                   DMI_OUT(&lu->columns[j], lu->s.n * block_width(&lu->s, j) * row),
                   DMI_VALUE(lu->s), DMI_VALUE(j)));
  CHECK(DMI_call(lu->client, make_vector, DMI_OUT(&lu->b, lu->s.n * row), DMI_VALUE(lu->s)));
}

static void solve(lu_t *lu) {
  for (int64_t k = 0; k < lu->num; k++) {
    DMI_data_t panel;
    CHECK(DMI_call(lu->client, factor, DMI_INOUT(&lu->columns[k]),
                   DMI_OUT(&panel, panel_size(&lu->s, k)), DMI_VALUE(lu->s), DMI_VALUE(k)));
    for (int64_t j = k + 1; j < lu->num; j++)
      CHECK(DMI_call(lu->client, update, DMI_IN(panel), DMI_INOUT(&lu->columns[j]),
                     DMI_VALUE(lu->s), DMI_VALUE(k), DMI_VALUE(j)));
    CHECK(DMI_call(lu->client, forward, DMI_IN(panel), DMI_INOUT(&lu->b), DMI_VALUE(lu->s),
                   DMI_VALUE(k)));
    CHECK(DMI_data_drop(lu->client, panel)); /* it is freed when its last call is done */
  }
  for (int64_t k = lu->num - 1; k >= 0; k--)
    CHECK(DMI_call(lu->client, backward, DMI_IN(lu->columns[k]), DMI_INOUT(&lu->b),
                   DMI_VALUE(lu->s), DMI_VALUE(k)));
}

/* Of the solution; the scaled residual. */
static double check_solution(lu_t *lu) {
  DMI_data_t sums, result;
  double value;
  CHECK(DMI_call(lu->client, no_sums, DMI_OUT(&sums, lu->s.n * (int64_t)sizeof(row_sum_t))));
  for (int64_t j = 0; j < lu->num; j++)
    CHECK(DMI_call(lu->client, residual, DMI_IN(lu->b), DMI_INOUT(&sums), DMI_VALUE(lu->s),
                   DMI_VALUE(j)));
  CHECK(DMI_call(lu->client, judge, DMI_IN(lu->b), DMI_IN(sums), DMI_OUT(&result, sizeof(double)),
                 DMI_VALUE(lu->s)));
  read_value(lu->client, result, &value, sizeof(value));
  return value;
}

/* Of the factors and the solution. */
static uint64_t checksum(lu_t *lu) {
  uint64_t hash = 0;
  DMI_data_t all = DMI_data_put(lu->client, &hash, sizeof(hash));
  for (int64_t j = 0; j < lu->num; j++)
    CHECK(DMI_call(lu->client, digest, DMI_IN(lu->columns[j]), DMI_INOUT(&all)));
  CHECK(DMI_call(lu->client, digest, DMI_IN(lu->b), DMI_INOUT(&all)));
  read_value(lu->client, all, &hash, sizeof(hash));
  return hash;
}

void DMI_main(int argc, char **argv) {
  lu_t lu = {.s = {.n = number_or(argc, argv, 1, "equations", 1024, 1),
                   .nb = number_or(argc, argv, 2, "columns", 64, 1),
                   .seed = number_or(argc, argv, 4, "seed", 1, 0)}};
  const DMI_client_options_t options = {.processes = number_or(argc, argv, 3, "processes", 1, 1),
                                        .late_fetch = number_or(argc, argv, 5, "late", 0, 0)};
  const double n = (double)lu.s.n, operations = 2 * n * n * n / 3 + 3 * n * n / 2;
  lu.num = blocks_num(&lu.s);
  lu.columns = my_malloc((size_t)lu.num * sizeof(DMI_data_t));
  CHECK(DMI_client_open(&lu.client, &options));
  make_matrix(&lu);
  for (int64_t j = 0; j < lu.num; j++)
    await_value(lu.client, lu.columns[j]);

  double seconds = -seconds_now();
  solve(&lu);
  printf("all calls are issued after %.3f s\n", seconds + seconds_now());
  fflush(stdout);
  await_value(lu.client, lu.b);
  seconds += seconds_now();

  const double bad = check_solution(&lu);
  printf("%" PRId64 " equations in blocks of %" PRId64 ": %.3f s, %.3f Gflop/s\n", lu.s.n, lu.s.nb,
         seconds, 1e-9 * operations / seconds);
  printf("checksum %016" PRIx64 "\n", checksum(&lu));
  printf("scaled residual %.4f: %s\n", bad, bad < 16 ? "good" : "BAD");
  CHECK(DMI_client_close(lu.client));
  my_free(lu.columns);
  if (!(bad < 16)) CHECK(DMI_exit(EXIT_FAILURE));
}
