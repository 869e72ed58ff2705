/*
 * mpi_lu.c - what examples/lu_dmi.c computes, written for MPI by hand, with the same kernels.
 *
 *   mpirun -np N ./mpi_lu EQUATIONS COLUMNS
 *
 * Prints seconds, checksum (that of lu_dmi: both have computed the same to the last bit) and scaled
 * residual.  Block column j belongs to process j % N.  The owner of the next panel brings that one
 * up to date first, factors it, and broadcasts it (MPI_Ibcast) while all update the rest: a
 * look-ahead of one panel.  Between two updates MPI_Test gives MPI the time to move bytes.
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <mpi.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../examples/blocks.h"

typedef struct {
  shape_t s;
  int64_t num;      /* block columns */
  int rank, size;   /* of the processes */
  double **columns; /* those of others are NULL */
  double *b;        /* at the process of column `num`; later wherever x is */
  void *panels[2];  /* as in lu_dmi.c; the one in use, and the next */
} lu_t;

static void *allocate(int64_t size) {
  void *memory = calloc(1, (size_t)size);
  if (!memory) abort();
  return memory;
}

static int owner_of(const lu_t *lu, int64_t j) {
  return (int)(j % lu->size);
}

static int64_t panel_size(const lu_t *lu, int64_t k) {
  const int64_t width = block_width(&lu->s, k), rows = lu->s.n - k * lu->s.nb;
  return width * (int64_t)sizeof(int64_t) + rows * width * (int64_t)sizeof(double);
}

static double element(const lu_t *lu, int64_t i, int64_t j) {
  return random_element((uint64_t)lu->s.seed, (uint64_t)i, (uint64_t)j);
}

static void make_matrix(lu_t *lu) {
  const int64_t n = lu->s.n;
  lu->columns = allocate(lu->num * (int64_t)sizeof(double *));
  for (int64_t j = lu->rank; j < lu->num; j += lu->size) {
    double *column = allocate(n * block_width(&lu->s, j) * (int64_t)sizeof(double));
    for (int64_t c = 0; c < block_width(&lu->s, j); c++)
      for (int64_t i = 0; i < n; i++)
        column[i + c * n] = element(lu, i, j * lu->s.nb + c);
    lu->columns[j] = column;
  }
  lu->b = allocate(n * (int64_t)sizeof(double));
  for (int64_t i = 0; i < n; i++)
    lu->b[i] = element(lu, i, n);
  for (int i = 0; i < 2; i++)
    lu->panels[i] = allocate(panel_size(lu, 0));
}

static void factor(lu_t *lu, int64_t k) {
  int64_t *pivot = lu->panels[k % 2];
  const int64_t n = lu->s.n, width = block_width(&lu->s, k), rows = n - k * lu->s.nb;
  double *l = (double *)(pivot + width), *from = lu->columns[k] + k * lu->s.nb;
  if (factor_lu(rows, width, from, n, pivot) >= 0) abort();
  for (int64_t c = 0; c < width; c++)
    memcpy(l + c * rows, from + c * n, (size_t)rows * sizeof(double));
}

/* Brings `cols` columns up to date with panel k. */
static void update(lu_t *lu, int64_t k, double *column, int64_t cols) {
  const int64_t *pivot = lu->panels[k % 2];
  const int64_t n = lu->s.n, width = block_width(&lu->s, k), rows = n - k * lu->s.nb;
  const double *l = (const double *)(pivot + width);
  double *top = column + k * lu->s.nb;
  for (int64_t i = 0; i < width; i++)
    swap_rows(top, n, cols, i, pivot[i]);
  solve_lower(width, cols, l, rows, top, n, 1);
  subtract_product(rows - width, cols, width, top + width, n, l + width, rows, top, 1, n);
}

static void broadcast(lu_t *lu, int64_t k, MPI_Request *request) {
  MPI_Ibcast(lu->panels[k % 2], (int)panel_size(lu, k), MPI_BYTE, owner_of(lu, k), MPI_COMM_WORLD,
             request);
}

static void eliminate(lu_t *lu) {
  MPI_Request request;
  if (owner_of(lu, 0) == lu->rank) factor(lu, 0);
  broadcast(lu, 0, &request);
  for (int64_t k = 0; k < lu->num; k++) {
    const int64_t next = k + 1;
    int done;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (next < lu->num) {
      if (owner_of(lu, next) == lu->rank) {
        update(lu, k, lu->columns[next], block_width(&lu->s, next));
        factor(lu, next);
      }
      broadcast(lu, next, &request);
    }
    for (int64_t j = next + 1; j < lu->num; j++) {
      if (owner_of(lu, j) != lu->rank) continue;
      update(lu, k, lu->columns[j], block_width(&lu->s, j));
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (owner_of(lu, lu->num) == lu->rank) update(lu, k, lu->b, 1);
  }
}

/* The vector goes from the process that has it to another one. */
static void move(lu_t *lu, void *vector, int64_t size, int from, int to) {
  if (from == to) return;
  if (lu->rank == from) MPI_Send(vector, (int)size, MPI_BYTE, to, 0, MPI_COMM_WORLD);
  if (lu->rank == to)
    MPI_Recv(vector, (int)size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Returns where x is. */
static int substitute(lu_t *lu) {
  const int64_t n = lu->s.n;
  int at = owner_of(lu, lu->num);
  for (int64_t k = lu->num - 1; k >= 0; k--) {
    const int64_t width = block_width(&lu->s, k);
    double *part = lu->b + k * lu->s.nb;
    move(lu, lu->b, n * (int64_t)sizeof(double), at, owner_of(lu, k));
    at = owner_of(lu, k);
    if (lu->rank != at) continue;
    solve_upper(width, lu->columns[k] + k * lu->s.nb, n, part);
    subtract_product(k * lu->s.nb, 1, width, lu->b, n, lu->columns[k], n, part, 1, n);
  }
  return at;
}

/* Of the factors and the solution, as lu_dmi.c makes it. */
static uint64_t checksum(lu_t *lu, int at) {
  uint64_t hash = 0;
  int has = 0;
  for (int64_t j = 0; j < lu->num; j++) {
    move(lu, &hash, sizeof(hash), has, owner_of(lu, j));
    has = owner_of(lu, j);
    if (lu->rank == has)
      hash = hash_doubles(hash, lu->columns[j], lu->s.n * block_width(&lu->s, j));
  }
  move(lu, &hash, sizeof(hash), has, at);
  if (lu->rank == at) hash = hash_doubles(hash, lu->b, lu->s.n);
  move(lu, &hash, sizeof(hash), at, 0);
  return hash;
}

/* By one process, which has x. */
static double residual(const lu_t *lu) {
  const int64_t n = lu->s.n;
  row_sum_t *sums = allocate(n * (int64_t)sizeof(row_sum_t));
  double *b = allocate(n * (int64_t)sizeof(double)), result;
  for (int64_t i = 0; i < n; i++)
    sums[i].r = b[i] = element(lu, i, n);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      const double a = element(lu, i, j);
      sums[i].r -= a * lu->b[j];
      sums[i].norm += fabs(a);
    }
  }
  result = scaled_residual(&lu->s, sums, lu->b, b);
  free(b);
  free(sums);
  return result;
}

int main(int argc, char **argv) {
  lu_t lu = {.s = {.n = argc > 1 ? atoll(argv[1]) : 1024,
                   .nb = argc > 2 ? atoll(argv[2]) : 64,
                   .seed = 1}};
  double seconds;
  uint64_t hash;
  int at;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &lu.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &lu.size);
  lu.num = blocks_num(&lu.s);
  make_matrix(&lu);
  MPI_Barrier(MPI_COMM_WORLD);
  seconds = -MPI_Wtime();
  eliminate(&lu);
  at = substitute(&lu);
  MPI_Barrier(MPI_COMM_WORLD);
  seconds += MPI_Wtime();
  hash = checksum(&lu, at);
  move(&lu, lu.b, lu.s.n * (int64_t)sizeof(double), at, 0);
  if (lu.rank == 0)
    printf("seconds %.6f\nchecksum %016" PRIx64 "\nresidual %.4f\n", seconds, hash, residual(&lu));
  MPI_Finalize();
  return 0;
}
