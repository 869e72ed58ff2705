/*
 * cg_dmi.c - NAS Parallel Benchmark CG: the smallest eigenvalue of a large sparse matrix.
 *
 *   dmicc -O2 cg_dmi.c -o cg_dmi -lm
 *   dmirun ./cg_dmi A                      class S, W or A; one process, a thread per core
 *   dmirun ./cg_dmi A 2                    waits for a second process,
 *   dmirun -i HOST ./cg_dmi                this one; more may join at any time
 *   Ctrl+C                                 leaves, at any time
 *
 * Arguments: class [processes [threads per process]].  Inverse iteration; each step solves A z = x
 * with 25 steps of the conjugate gradient method, without preconditioning.  Each thread has a
 * block of rows of A, in local memory, and the same block of all vectors.
 *
 * A product with A needs a whole vector, so the threads share one through global memory: each
 * writes its block, in a page of its own, with DMI_EXCLUSIVE_WRITE (it stays the owner), and reads
 * all blocks with DMI_UPDATE_READ: every process keeps a copy, which a write brings up to date in
 * all processes at once, so that the reads are local.  The shared vector is not p but the residual
 * r: every thread computes p = r + beta p for itself, and the sum that gives beta is the barrier
 * between writing r and reading it.  An iteration has two synchronisations, both of them sums that
 * the method needs anyway.
 *
 * Processes join and leave between two steps of the inverse iteration (DMI_rescale): all that such
 * a step needs of the one before is x, which is saved then.  The rows of A are made anew.
 */
#include "check.h"
#include "npb.h"
#include <stddef.h>

#define SEED ((uint64_t)314159265)
#define RCOND 0.1   /* how badly conditioned the matrix is */
#define CG_STEPS 25 /* of one solution */
#define EPSILON 1e-10

static const char class_names[] = "SWA";
static const struct {
  int32_t n;      /* rows */
  int32_t nonzer; /* elements of each random vector that A is made of */
  int32_t steps;  /* of the inverse iteration */
  double shift, zeta;
} classes[] = {{1400, 7, 15, 10, 8.5971775078648},
               {7000, 8, 15, 12, 10.362595087124},
               {14000, 11, 15, 20, 17.130235054029}};

/* The work, in global memory. */
typedef struct {
  int32_t class;
  int64_t barrier_addr; /* of the threads */
  int64_t x_addr;       /* x, as it is saved */
  /* ---- written by rank 0 ---- */
  int64_t vector_addr;            /* the shared vector: a page per rank; made for each team */
  int32_t step;                   /* steps that are done */
  int32_t pnum;                   /* threads */
  double zeta, residual, seconds; /* the result */
} job_t;

/* Rows [begin, end) of A, compressed. */
typedef struct {
  int64_t *row_begins; /* end - begin + 1 indices of values and columns */
  int32_t *columns;
  double *values;
} matrix_t;

/* A thread and its part of everything. */
typedef struct {
  int32_t rank, pnum;
  int64_t job_addr;
  job_t job;
  DMI_local_barrier_t barrier;
  int64_t n, begin, end; /* all rows; mine */
  matrix_t a;
  double *shared;        /* n elements: the shared vector, as last read */
  double *p;             /* n elements */
  double *q, *r, *x, *z; /* my rows */
} solver_t;

/* ---- The matrix -----------------------------------------------------------------------------
 * The sum of size^i v_i v_i' over all rows i, and RCOND - shift on the diagonal.  The vectors v_i
 * are sparse and random; element i of v_i is 0.5. */

typedef struct {
  int32_t num;
  int32_t *indices;
  double *values;
} sparse_t;

/* Fills v with `nonzer` random elements below n, in the order in which they are drawn. */
static void draw_vector(uint64_t *state, int32_t n, int32_t nonzer, sparse_t *v) {
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

static void set_element(sparse_t *v, int32_t index, double value) {
  int32_t i = 0;
  while (i < v->num && v->indices[i] != index)
    i++;
  if (i == v->num) v->num++;
  v->indices[i] = index;
  v->values[i] = value;
}

/* All n vectors, one after the other in two arrays: those of vectors[0]. */
static sparse_t *draw_vectors(int32_t n, int32_t nonzer) {
  uint64_t state = npb_skip(SEED, 1);
  sparse_t *vectors = my_malloc((size_t)n * sizeof(*vectors));
  int32_t *indices = my_malloc((size_t)n * (size_t)(nonzer + 1) * sizeof(*indices));
  double *values = my_malloc((size_t)n * (size_t)(nonzer + 1) * sizeof(*values));
  for (int32_t i = 0; i < n; i++) {
    vectors[i].indices = indices + (int64_t)i * (nonzer + 1);
    vectors[i].values = values + (int64_t)i * (nonzer + 1);
    draw_vector(&state, n, nonzer, &vectors[i]);
    set_element(&vectors[i], i, 0.5);
  }
  return vectors;
}

static int compare_columns(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Finds for each of my rows the vectors that have an element there: users[starts[row] ..]. */
static int32_t *find_users(const solver_t *s, const sparse_t *vectors, int64_t *starts) {
  const int64_t rows = s->end - s->begin;
  memset(starts, 0, (size_t)(rows + 2) * sizeof(*starts));
  /* First starts[row + 2] counts the users of `row`, then the sums make it the begin of `row + 1`,
   * and in the end starts[row + 1] is that begin. */
  for (int64_t i = 0; i < s->n; i++) {
    for (int32_t k = 0; k < vectors[i].num; k++) {
      const int64_t row = vectors[i].indices[k] - s->begin;
      if (row >= 0 && row < rows) starts[row + 2]++;
    }
  }
  for (int64_t row = 0; row < rows; row++)
    starts[row + 2] += starts[row + 1];
  int32_t *users = my_malloc((size_t)(starts[rows + 1] + 1) * sizeof(*users));
  for (int64_t i = 0; i < s->n; i++) {
    for (int32_t k = 0; k < vectors[i].num; k++) {
      const int64_t row = vectors[i].indices[k] - s->begin;
      if (row >= 0 && row < rows) users[starts[row + 1]++] = (int32_t)i;
    }
  }
  return users;
}

/* Adds row `row` of scale v v' to the dense `sums`; columns that are new there go to `columns`.
 * Returns how many columns there are then. */
static int64_t add_row(const sparse_t *v, int32_t row, double scale, double *sums, char *used,
                       int32_t *columns, int64_t num) {
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

/* Every thread makes all vectors, which is cheap, and keeps the elements of its rows. */
static void make_matrix(solver_t *s) {
  const int32_t nonzer = classes[s->job.class].nonzer;
  const double ratio = pow(RCOND, 1.0 / (double)s->n);
  const int64_t rows = s->end - s->begin;
  sparse_t *vectors = draw_vectors((int32_t)s->n, nonzer);
  int64_t *starts = my_malloc((size_t)(rows + 2) * sizeof(*starts));
  int32_t *users = find_users(s, vectors, starts);
  const int64_t room = starts[rows] * (nonzer + 1) + 1;
  double *sums = calloc((size_t)s->n, sizeof(*sums));
  char *used = calloc((size_t)s->n, 1);
  if (sums == NULL || used == NULL) abort();

  s->a.row_begins = my_malloc((size_t)(rows + 1) * sizeof(*s->a.row_begins));
  s->a.columns = my_malloc((size_t)room * sizeof(*s->a.columns));
  s->a.values = my_malloc((size_t)room * sizeof(*s->a.values));
  s->a.row_begins[0] = 0;
  for (int64_t row = 0; row < rows; row++) {
    int32_t *columns = s->a.columns + s->a.row_begins[row];
    const int32_t global_row = (int32_t)(row + s->begin);
    int64_t num = 0;
    for (int64_t k = starts[row]; k < starts[row + 1]; k++) {
      const double scale = pow(ratio, users[k]);
      num = add_row(&vectors[users[k]], global_row, scale, sums, used, columns, num);
    }
    sums[global_row] += RCOND - classes[s->job.class].shift;
    qsort(columns, (size_t)num, sizeof(*columns), compare_columns);
    for (int64_t k = 0; k < num; k++) {
      s->a.values[s->a.row_begins[row] + k] = sums[columns[k]];
      sums[columns[k]] = 0;
      used[columns[k]] = 0;
    }
    s->a.row_begins[row + 1] = s->a.row_begins[row] + num;
  }
  free(used);
  free(sums);
  my_free(users);
  my_free(starts);
  my_free(vectors[0].values);
  my_free(vectors[0].indices);
  my_free(vectors);
}

/* ---- The method ----------------------------------------------------------------------------- */

static double sum_over_all(solver_t *s, double part) {
  double sum;
  CHECK(DMI_local_barrier_allreduce(&s->barrier, part, &sum, s->pnum));
  return sum;
}

static double dot(const double *a, const double *b, int64_t num) {
  double sum = 0;
  for (int64_t i = 0; i < num; i++)
    sum += a[i] * b[i];
  return sum;
}

/* result = (my rows of A) v */
static void multiply(const solver_t *s, const double *v, double *result) {
  const matrix_t *a = &s->a;
  for (int64_t row = 0; row < s->end - s->begin; row++) {
    double sum = 0;
    for (int64_t k = a->row_begins[row]; k < a->row_begins[row + 1]; k++)
      sum += a->values[k] * v[a->columns[k]];
    result[row] = sum;
  }
}

/* Writes my part of the shared vector.  All threads must have read the old one: this is so if there
 * was a sum_over_all since. */
static void publish(solver_t *s, const double *part) {
  const int64_t size = (int64_t)sizeof(double);
  CHECK(DMI_write(s->job.vector_addr + s->begin * size, (s->end - s->begin) * size, part,
                  DMI_EXCLUSIVE_WRITE, NULL));
}

/* Reads the whole shared vector.  All threads must have written their parts: this is so if there
 * was a sum_over_all since. */
static void fetch(solver_t *s) {
  CHECK(DMI_read(s->job.vector_addr, s->n * (int64_t)sizeof(double), s->shared, DMI_UPDATE_READ,
                 NULL));
}

/* Solves A z = x; returns the norm of x - A z. */
static double solve(solver_t *s) {
  const int64_t rows = s->end - s->begin;
  const size_t bytes = (size_t)rows * sizeof(double);
  memset(s->z, 0, bytes);
  memcpy(s->r, s->x, bytes);
  publish(s, s->r);
  double rho = sum_over_all(s, dot(s->r, s->r, rows));
  fetch(s);
  memcpy(s->p, s->shared, (size_t)s->n * sizeof(double));
  for (int step = 0; step < CG_STEPS; step++) {
    multiply(s, s->p, s->q);
    const double alpha = rho / sum_over_all(s, dot(s->p + s->begin, s->q, rows));
    for (int64_t i = 0; i < rows; i++) {
      s->z[i] += alpha * s->p[s->begin + i];
      s->r[i] -= alpha * s->q[i];
    }
    publish(s, s->r);
    const double old_rho = rho;
    rho = sum_over_all(s, dot(s->r, s->r, rows));
    const double beta = rho / old_rho;
    fetch(s);
    for (int64_t i = 0; i < s->n; i++)
      s->p[i] = s->shared[i] + beta * s->p[i];
  }
  sum_over_all(s, 0); /* all threads have read r */
  publish(s, s->z);
  sum_over_all(s, 0);
  fetch(s);
  multiply(s, s->shared, s->q);
  double squares = 0;
  for (int64_t i = 0; i < rows; i++)
    squares += (s->x[i] - s->q[i]) * (s->x[i] - s->q[i]);
  return sqrt(sum_over_all(s, squares));
}

/* One step of the inverse iteration; returns the present estimate of the eigenvalue. */
static double step(solver_t *s, double *residual) {
  const int64_t rows = s->end - s->begin;
  *residual = solve(s);
  const double xz = sum_over_all(s, dot(s->x, s->z, rows));
  const double norm = 1 / sqrt(sum_over_all(s, dot(s->z, s->z, rows)));
  for (int64_t i = 0; i < rows; i++)
    s->x[i] = norm * s->z[i];
  return classes[s->job.class].shift + 1 / xz;
}

static void set_ones(double *x, int64_t num) {
  for (int64_t i = 0; i < num; i++)
    x[i] = 1;
}

/* ---- The threads ---------------------------------------------------------------------------- */

static double *new_vector(int64_t num) {
  return my_malloc((size_t)(num > 0 ? num : 1) * sizeof(double));
}

/* Rank 0 makes a shared vector with a page for each thread; then all know the job. */
static void make_vector(solver_t *s, int64_t block) {
  CHECK(DMI_read(s->job_addr, sizeof(s->job), &s->job, DMI_GET_READ, NULL));
  sum_over_all(s, 0);
  if (s->rank == 0) {
    if (s->job.vector_addr != 0) CHECK(DMI_munmap(s->job.vector_addr, NULL));
    CHECK(DMI_mmap(&s->job.vector_addr, block * (int64_t)sizeof(double), s->pnum, NULL));
    s->job.pnum = s->pnum;
    CHECK(DMI_write(s->job_addr, sizeof(s->job), &s->job, DMI_PUT_WRITE, NULL));
    printf("%d threads begin after step %d\n", s->pnum, s->job.step);
    fflush(stdout);
  }
  sum_over_all(s, 0);
  CHECK(DMI_read(s->job_addr, sizeof(s->job), &s->job, DMI_GET_READ, NULL));
}

static void solver_open(solver_t *s, int my_rank, int pnum, int64_t job_addr) {
  *s = (solver_t){.rank = my_rank, .pnum = pnum, .job_addr = job_addr};
  CHECK(DMI_read(job_addr, sizeof(s->job), &s->job, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&s->barrier, s->job.barrier_addr));
  s->n = classes[s->job.class].n;
  const int64_t block = (s->n + pnum - 1) / pnum;
  make_vector(s, block);
  s->begin = block * my_rank < s->n ? block * my_rank : s->n;
  s->end = s->begin + block < s->n ? s->begin + block : s->n;
  s->shared = new_vector(s->n);
  s->p = new_vector(s->n);
  s->q = new_vector(s->end - s->begin);
  s->r = new_vector(s->end - s->begin);
  s->x = new_vector(s->end - s->begin);
  s->z = new_vector(s->end - s->begin);
  make_matrix(s);
}

static void solver_close(solver_t *s) {
  my_free(s->a.values);
  my_free(s->a.columns);
  my_free(s->a.row_begins);
  my_free(s->z);
  my_free(s->x);
  my_free(s->r);
  my_free(s->q);
  my_free(s->p);
  my_free(s->shared);
  CHECK(DMI_local_barrier_destroy(&s->barrier));
}

/* Where my part of the saved x begins. */
static int64_t x_addr(const solver_t *s) {
  return s->job.x_addr + s->begin * (int64_t)sizeof(double);
}

/* Before the next step: is x to be saved, for other threads?  Then it is, and the job with it. */
static int change(solver_t *s, double begin) {
  int32_t judge;
  CHECK(DMI_check_rescale(&judge));
  if (judge)
    CHECK(DMI_write(x_addr(s), (s->end - s->begin) * (int64_t)sizeof(double), s->x, DMI_PUT_WRITE,
                    NULL));
  if (s->rank == 0 && (judge || s->job.step == classes[s->job.class].steps)) {
    s->job.seconds += npb_clock() - begin;
    CHECK(DMI_write(s->job_addr, sizeof(s->job), &s->job, DMI_PUT_WRITE, NULL));
  }
  return judge;
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  solver_t s;
  int changes = 0;
  solver_open(&s, my_rank, pnum, scaleunit_addr);
  if (s.job.step == 0) {
    /* One step before the clock starts, as the specification says: after that all memory is in
     * place. */
    set_ones(s.x, s.end - s.begin);
    step(&s, &s.job.residual);
    set_ones(s.x, s.end - s.begin);
  } else {
    CHECK(
        DMI_read(x_addr(&s), (s.end - s.begin) * (int64_t)sizeof(double), s.x, DMI_GET_READ, NULL));
  }
  sum_over_all(&s, 0);
  const double begin = npb_clock();
  while (s.job.step < classes[s.job.class].steps && !changes) {
    s.job.zeta = step(&s, &s.job.residual);
    s.job.step++;
    if (my_rank == 0) {
      printf("%2d %.3e %.13f\n", s.job.step, s.job.residual, s.job.zeta);
      fflush(stdout);
    }
    changes = change(&s, begin);
  }
  const int done = s.job.step == classes[s.job.class].steps;
  solver_close(&s);
  return done ? DMI_TRUE : DMI_AGAIN;
}

/* ---- The first process ---------------------------------------------------------------------- */

/* Operations as the suite counts them. */
static double count_operations(int class) {
  const double nonzeros = classes[class].nonzer * (classes[class].nonzer + 1.0);
  return 2.0 * classes[class].steps * classes[class].n *
         (3 + nonzeros + CG_STEPS * (5 + nonzeros) + 3);
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s class [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.class = npb_class(argv[1], class_names)};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  const int32_t n = classes[job.class].n;
  int64_t job_addr;

  CHECK(DMI_mmap(&job.x_addr, n * (int64_t)sizeof(double), 1, NULL));
  CHECK(DMI_mmap(&job.barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_barrier_init(job.barrier_addr));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_rescale(job_addr, process_num, thread_num));
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));

  const int verified = npb_close(job.zeta, classes[job.class].zeta, EPSILON);
  printf("threads %d, zeta %.13f\n", job.pnum, job.zeta);
  npb_report("CG", class_names[job.class], n, job.seconds, count_operations(job.class), verified);
  if (!verified) exit(EXIT_FAILURE);
}
