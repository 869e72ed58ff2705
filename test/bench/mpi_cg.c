/*
 * mpi_cg.c - what examples/cg_dmi.c computes, written for MPI, with the same kernels.
 *
 *   mpirun -np N ./mpi_cg CLASS
 *
 * Prints seconds and the eigenvalue.  Each process has a block of rows.  As in cg_dmi.c the vector
 * that goes round is the residual, and everybody computes p from it: so the sum that gives beta
 * and the gathering of the vector do not wait for each other (MPI_Iallreduce).
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <mpi.h>

#include "../../examples/cg.h"

typedef struct {
  int rank, size, class;
  matrix_t a;
  int *counts, *begins;  /* rows of each process */
  double *shared;        /* all elements of the vector that was gathered last */
  double *p;             /* all elements */
  double *q, *r, *x, *z; /* my rows */
} solver_t;

static double sum_over_all(double part) {
  double sum;
  MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

/* Gathers the whole vector, and adds up `part` of all meanwhile. */
static double gather_and_sum(solver_t *s, const double *vector, double part) {
  MPI_Request request;
  double sum;
  MPI_Iallreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Allgatherv(vector, s->counts[s->rank], MPI_DOUBLE, s->shared, s->counts, s->begins,
                 MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return sum;
}

/* Solves A z = x; returns the norm of x - A z. */
static double solve(solver_t *s) {
  const int64_t n = s->a.n, begin = s->a.begin, rows = s->a.end - begin;
  double squares = 0;
  memset(s->z, 0, (size_t)rows * sizeof(double));
  memcpy(s->r, s->x, (size_t)rows * sizeof(double));
  double rho = gather_and_sum(s, s->r, dot(s->r, s->r, rows));
  memcpy(s->p, s->shared, (size_t)n * sizeof(double));
  for (int step = 0; step < CG_STEPS; step++) {
    multiply(&s->a, s->p, s->q);
    const double alpha = rho / sum_over_all(dot(s->p + begin, s->q, rows));
    for (int64_t i = 0; i < rows; i++) {
      s->z[i] += alpha * s->p[begin + i];
      s->r[i] -= alpha * s->q[i];
    }
    const double old_rho = rho;
    rho = gather_and_sum(s, s->r, dot(s->r, s->r, rows));
    const double beta = rho / old_rho;
    for (int64_t i = 0; i < n; i++)
      s->p[i] = s->shared[i] + beta * s->p[i];
  }
  gather_and_sum(s, s->z, 0);
  multiply(&s->a, s->shared, s->q);
  for (int64_t i = 0; i < rows; i++)
    squares += (s->x[i] - s->q[i]) * (s->x[i] - s->q[i]);
  return sqrt(sum_over_all(squares));
}

/* One step of the inverse iteration; returns the present estimate of the eigenvalue. */
static double step(solver_t *s, double *residual) {
  const int64_t rows = s->a.end - s->a.begin;
  *residual = solve(s);
  const double xz = sum_over_all(dot(s->x, s->z, rows));
  const double norm = 1 / sqrt(sum_over_all(dot(s->z, s->z, rows)));
  for (int64_t i = 0; i < rows; i++)
    s->x[i] = norm * s->z[i];
  return cg_classes[s->class].shift + 1 / xz;
}

static void solver_open(solver_t *s, int class) {
  *s = (solver_t){.class = class, .a = {.n = cg_classes[class].n}};
  MPI_Comm_rank(MPI_COMM_WORLD, &s->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s->size);
  const int64_t n = s->a.n, block = (n + s->size - 1) / s->size;
  s->counts = npb_zeros(s->size, sizeof(*s->counts));
  s->begins = npb_zeros(s->size, sizeof(*s->begins));
  for (int i = 0; i < s->size; i++) {
    s->begins[i] = (int)(block * i < n ? block * i : n);
    s->counts[i] = (int)(s->begins[i] + block < n ? block : n - s->begins[i]);
  }
  s->a.begin = s->begins[s->rank];
  s->a.end = s->a.begin + s->counts[s->rank];
  s->shared = npb_room(n, sizeof(double));
  s->p = npb_room(n, sizeof(double));
  s->q = npb_room(s->counts[s->rank], sizeof(double));
  s->r = npb_room(s->counts[s->rank], sizeof(double));
  s->x = npb_room(s->counts[s->rank], sizeof(double));
  s->z = npb_room(s->counts[s->rank], sizeof(double));
  matrix_make(&s->a, class);
}

static void solver_close(solver_t *s) {
  matrix_close(&s->a);
  free(s->z);
  free(s->x);
  free(s->r);
  free(s->q);
  free(s->p);
  free(s->shared);
  free(s->begins);
  free(s->counts);
}

int main(int argc, char **argv) {
  solver_t s;
  double residual, zeta = 0;
  MPI_Init(&argc, &argv);
  solver_open(&s, npb_class(argc > 1 ? argv[1] : "S", cg_class_names));
  set_ones(s.x, s.counts[s.rank]);
  step(&s, &residual); /* one step before the clock starts, as in cg_dmi.c */
  set_ones(s.x, s.counts[s.rank]);
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int i = 0; i < cg_classes[s.class].steps; i++)
    zeta = step(&s, &residual);
  seconds += MPI_Wtime();
  const int verified = npb_close(zeta, cg_classes[s.class].zeta, CG_EPSILON);
  if (s.rank == 0)
    printf("seconds %.6f\nzeta %.13f\nresidual %.3e\n%s\n", seconds, zeta, residual,
           verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  solver_close(&s);
  MPI_Finalize();
  return verified ? 0 : EXIT_FAILURE;
}
