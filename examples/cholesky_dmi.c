/*
 * cholesky_dmi.c - solves A x = b, where A is symmetric and positive definite, by a blocked
 * Cholesky factor: a sequential program that calls remote functions.
 *
 *   dmicc -O3 cholesky_dmi.c -o cholesky_dmi -lm
 *   dmirun ./cholesky_dmi 2048 128         starts the program: 2048 equations, blocks of 128 x 128
 *   dmirun -i HOST ./cholesky_dmi          joins it, at any time, from anywhere
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: equations, rows of a block, processes with which it begins (1), seed.
 *
 * The lower half of A is cut into square blocks.  The four loops of `factor_all` are the
 * textbook's; each call waits for the blocks that it names and for nothing else, so blocks of
 * several steps are worked on at the same time.  (lu_dmi.c tells more.)
 */
#include "blocks.h"
#include "remote.h"

static double element(const shape_t *s, int64_t i, int64_t j) {
  const uint64_t low = (uint64_t)(i < j ? i : j), high = (uint64_t)(i < j ? j : i);
  return random_element((uint64_t)s->seed, low, high) + (i == j ? (double)s->n : 0);
}

/* The right side. */
static double right_element(const shape_t *s, int64_t i) {
  return random_element((uint64_t)s->seed, (uint64_t)i, (uint64_t)s->n);
}

/* Where a block is, and of which matrix: the value that all functions are given. */
typedef struct {
  shape_t s;
  int64_t i, j;
} place_t;

static int64_t rows_of(const place_t *at) {
  return block_width(&at->s, at->i);
}

static int64_t cols_of(const place_t *at) {
  return block_width(&at->s, at->j);
}

/* ---- Remote functions ------------------------------------------------------------------------ */

/* Block (i, j) of A.  (OUT block, place) */
DMI_REMOTE(make_block) {
  double *block = DMI_remote_out(call, 0, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 1, place_t);
  for (int64_t c = 0; c < cols_of(&at); c++)
    for (int64_t r = 0; r < rows_of(&at); r++)
      block[r + c * rows_of(&at)] = element(&at.s, at.i * at.s.nb + r, at.j * at.s.nb + c);
}

/* (OUT b, place) */
DMI_REMOTE(make_vector) {
  double *b = DMI_remote_out(call, 0, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 1, place_t);
  for (int64_t i = 0; i < at.s.n; i++)
    b[i] = right_element(&at.s, i);
}

/* (INOUT diagonal block, place) */
DMI_REMOTE(factor) {
  double *block = DMI_remote_inout(call, 0, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 1, place_t);
  if (factor_cholesky(rows_of(&at), block, rows_of(&at)) >= 0)
    DMI_remote_fail(call, "the matrix is not positive definite");
}

/* Block (i, j) of the factor.  (IN block (j, j), INOUT block (i, j), place) */
DMI_REMOTE(divide) {
  const double *diagonal = DMI_remote_in(call, 0, NULL);
  double *block = DMI_remote_inout(call, 1, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 2, place_t);
  solve_right(rows_of(&at), cols_of(&at), diagonal, cols_of(&at), block, rows_of(&at));
}

/* Block (i, j) -= block (i, k) times block (j, k) transposed.  (IN (i, k), IN (j, k), INOUT (i, j),
 * place, k) */
DMI_REMOTE(update) {
  const double *left = DMI_remote_in(call, 0, NULL), *right = DMI_remote_in(call, 1, NULL);
  double *block = DMI_remote_inout(call, 2, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 3, place_t);
  const int64_t k = DMI_REMOTE_VALUE(call, 4, int64_t);
  subtract_product(rows_of(&at), cols_of(&at), block_width(&at.s, k), block, rows_of(&at), left,
                   rows_of(&at), right, cols_of(&at), 1);
}

/* The step of L y = b with block (i, j).  (IN block, INOUT b, place) */
DMI_REMOTE(forward) {
  const double *block = DMI_remote_in(call, 0, NULL);
  double *b = DMI_remote_inout(call, 1, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 2, place_t);
  double *mine = b + at.i * at.s.nb, *other = b + at.j * at.s.nb;
  if (at.i == at.j) {
    solve_lower(rows_of(&at), 1, block, rows_of(&at), mine, at.s.n, 0);
  } else {
    subtract_product(rows_of(&at), 1, cols_of(&at), mine, at.s.n, block, rows_of(&at), other, 1,
                     at.s.n);
  }
}

/* The step of L^T x = y with block (i, j).  (IN block, INOUT x, place) */
DMI_REMOTE(backward) {
  const double *block = DMI_remote_in(call, 0, NULL);
  double *x = DMI_remote_inout(call, 1, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 2, place_t);
  double *other = x + at.i * at.s.nb, *mine = x + at.j * at.s.nb;
  if (at.i == at.j) {
    solve_lower_transposed(rows_of(&at), block, rows_of(&at), mine);
  } else {
    for (int64_t c = 0; c < cols_of(&at); c++)
      for (int64_t r = 0; r < rows_of(&at); r++)
        mine[c] -= block[r + c * rows_of(&at)] * other[r];
  }
}

/* Rows of block i of b - A x, with A made anew.  (IN x, INOUT sums, place) */
DMI_REMOTE(residual) {
  const double *x = DMI_remote_in(call, 0, NULL);
  row_sum_t *sums = DMI_remote_inout(call, 1, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 2, place_t);
  for (int64_t i = at.i * at.s.nb; i < at.i * at.s.nb + rows_of(&at); i++) {
    sums[i].r = right_element(&at.s, i);
    for (int64_t j = 0; j < at.s.n; j++) {
      const double a = element(&at.s, i, j);
      sums[i].r -= a * x[j];
      sums[i].norm += fabs(a);
    }
  }
}

/* (OUT sums) */
DMI_REMOTE(no_sums) {
  (void)DMI_remote_out(call, 0, NULL); /* all zero */
}

/* (IN x, IN sums, OUT the scaled residual, place) */
DMI_REMOTE(judge) {
  const double *x = DMI_remote_in(call, 0, NULL);
  const row_sum_t *sums = DMI_remote_in(call, 1, NULL);
  double *result = DMI_remote_out(call, 2, NULL);
  const place_t at = DMI_REMOTE_VALUE(call, 3, place_t);
  double *b = my_malloc((size_t)at.s.n * sizeof(double));
  for (int64_t i = 0; i < at.s.n; i++)
    b[i] = right_element(&at.s, i);
  *result = scaled_residual(&at.s, sums, x, b);
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
  int64_t num;        /* blocks in a row */
  DMI_data_t *blocks; /* num x num, of which the lower half is used */
  DMI_data_t b;       /* the right side, then x */
} cholesky_t;

static place_t place_of(const cholesky_t *c, int64_t i, int64_t j) {
  return (place_t){.s = c->s, .i = i, .j = j};
}

static DMI_data_t *block(const cholesky_t *c, int64_t i, int64_t j) {
  return &c->blocks[i * c->num + j];
}

static void make_matrix(cholesky_t *c) {
  const int64_t row = (int64_t)sizeof(double);
  for (int64_t i = 0; i < c->num; i++) {
    for (int64_t j = 0; j <= i; j++) {
      const place_t at = place_of(c, i, j);
      CHECK(DMI_call(c->client, make_block,
                     DMI_OUT(block(c, i, j), rows_of(&at) * cols_of(&at) * row), DMI_VALUE(at)));
    }
  }
  CHECK(
      DMI_call(c->client, make_vector, DMI_OUT(&c->b, c->s.n * row), DMI_VALUE(place_of(c, 0, 0))));
}

static void factor_all(cholesky_t *c) {
  for (int64_t k = 0; k < c->num; k++) {
    CHECK(DMI_call(c->client, factor, DMI_INOUT(block(c, k, k)), DMI_VALUE(place_of(c, k, k))));
    for (int64_t i = k + 1; i < c->num; i++)
      CHECK(DMI_call(c->client, divide, DMI_IN(*block(c, k, k)), DMI_INOUT(block(c, i, k)),
                     DMI_VALUE(place_of(c, i, k))));
    for (int64_t j = k + 1; j < c->num; j++)
      for (int64_t i = j; i < c->num; i++)
        CHECK(DMI_call(c->client, update, DMI_IN(*block(c, i, k)), DMI_IN(*block(c, j, k)),
                       DMI_INOUT(block(c, i, j)), DMI_VALUE(place_of(c, i, j)), DMI_VALUE(k)));
  }
}

static void solve(cholesky_t *c) {
  for (int64_t j = 0; j < c->num; j++)
    for (int64_t i = j; i < c->num; i++)
      CHECK(DMI_call(c->client, forward, DMI_IN(*block(c, i, j)), DMI_INOUT(&c->b),
                     DMI_VALUE(place_of(c, i, j))));
  for (int64_t j = c->num - 1; j >= 0; j--)
    for (int64_t i = c->num - 1; i >= j; i--)
      CHECK(DMI_call(c->client, backward, DMI_IN(*block(c, i, j)), DMI_INOUT(&c->b),
                     DMI_VALUE(place_of(c, i, j))));
}

/* Of the solution; the scaled residual. */
static double check_solution(cholesky_t *c) {
  DMI_data_t sums, result;
  double value;
  CHECK(DMI_call(c->client, no_sums, DMI_OUT(&sums, c->s.n * (int64_t)sizeof(row_sum_t))));
  for (int64_t i = 0; i < c->num; i++)
    CHECK(DMI_call(c->client, residual, DMI_IN(c->b), DMI_INOUT(&sums),
                   DMI_VALUE(place_of(c, i, 0))));
  CHECK(DMI_call(c->client, judge, DMI_IN(c->b), DMI_IN(sums), DMI_OUT(&result, sizeof(double)),
                 DMI_VALUE(place_of(c, 0, 0))));
  read_value(c->client, result, &value, sizeof(value));
  return value;
}

/* Of the factor and the solution. */
static uint64_t checksum(cholesky_t *c) {
  uint64_t hash = 0;
  DMI_data_t all = DMI_data_put(c->client, &hash, sizeof(hash));
  for (int64_t i = 0; i < c->num; i++)
    for (int64_t j = 0; j <= i; j++)
      CHECK(DMI_call(c->client, digest, DMI_IN(*block(c, i, j)), DMI_INOUT(&all)));
  CHECK(DMI_call(c->client, digest, DMI_IN(c->b), DMI_INOUT(&all)));
  read_value(c->client, all, &hash, sizeof(hash));
  return hash;
}

void DMI_main(int argc, char **argv) {
  cholesky_t c = {.s = {.n = number_or(argc, argv, 1, "equations", 1024, 1),
                        .nb = number_or(argc, argv, 2, "rows", 64, 1),
                        .seed = number_or(argc, argv, 4, "seed", 1, 0)}};
  const DMI_client_options_t options = {.processes = number_or(argc, argv, 3, "processes", 1, 1)};
  const double n = (double)c.s.n, operations = n * n * n / 3 + 2 * n * n;
  c.num = blocks_num(&c.s);
  c.blocks = my_malloc((size_t)(c.num * c.num) * sizeof(DMI_data_t));
  CHECK(DMI_client_open(&c.client, &options));
  make_matrix(&c);
  for (int64_t i = 0; i < c.num; i++)
    for (int64_t j = 0; j <= i; j++)
      await_value(c.client, *block(&c, i, j));

  double seconds = -seconds_now();
  factor_all(&c);
  solve(&c);
  printf("all calls are issued after %.3f s\n", seconds + seconds_now());
  fflush(stdout);
  await_value(c.client, c.b);
  seconds += seconds_now();

  const double bad = check_solution(&c);
  printf("%" PRId64 " equations in blocks of %" PRId64 ": %.3f s, %.3f Gflop/s\n", c.s.n, c.s.nb,
         seconds, 1e-9 * operations / seconds);
  printf("checksum %016" PRIx64 "\n", checksum(&c));
  printf("scaled residual %.4f: %s\n", bad, bad < 16 ? "good" : "BAD");
  CHECK(DMI_client_close(c.client));
  my_free(c.blocks);
  if (!(bad < 16)) CHECK(DMI_exit(EXIT_FAILURE));
}
