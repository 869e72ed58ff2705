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
 * A product with A needs a whole vector, so the threads are ranks of a team (dmi_team.h) that send
 * each other their blocks.  What goes round is not p but the residual r: every thread computes
 * p = r + beta p for itself, and the sum that gives beta is made while the blocks are on their way.
 * The receives are begun first, so blocks come to where they belong, whoever takes them in.
 *
 * Processes join and leave between two steps of the inverse iteration (DMI_rescale): all that such
 * a step needs of the one before is x, which is saved then.  The rows of A are made anew.
 */
#include "cg.h"
#include "check.h"
#include "dmi_team.h"

/* The work, in global memory. */
typedef struct {
  int32_t class;
  int64_t barrier_addr; /* of the threads, before they are a team */
  int64_t team_addr;    /* DMI_team_t */
  int64_t x_addr;       /* x, as it is saved */
  /* ---- written by rank 0 ---- */
  int32_t step;                   /* steps that are done */
  int32_t pnum;                   /* threads */
  double zeta, residual, seconds; /* the result */
} job_t;

/* A thread and its part of everything. */
typedef struct {
  int32_t rank, pnum;
  int64_t job_addr;
  job_t job;
  DMI_local_team_t team;
  int64_t block;                        /* rows of a thread; the last ones may have fewer */
  DMI_local_status_t *sends, *receives; /* a status for each rank */
  matrix_t a;                           /* my rows */
  double *shared;                       /* n elements: the vector that went round last */
  double *p;                            /* n elements */
  double *q, *r, *x, *z;                /* my rows */
} solver_t;

/* ---- The method ----------------------------------------------------------------------------- */

static double sum_over_all(solver_t *s, double part) {
  double sum;
  CHECK(DMI_team_allreduce(&s->team, &part, &sum, 1, DMI_TYPE_DOUBLE, DMI_OP_SUM));
  return sum;
}

/* Where the rows of a rank begin; those of the next one begin where they end. */
static int64_t begin_of(const solver_t *s, int64_t rank) {
  return s->block * rank < s->a.n ? s->block * rank : s->a.n;
}

/* Gathers the whole vector, of which all have sent their parts, in `shared`, and adds up `sum` of
 * all meanwhile. */
static double gather_and_sum(solver_t *s, const double *part, double sum) {
  const int64_t size = (int64_t)sizeof(double);
  for (int32_t i = 1; i < s->pnum; i++) {
    const int32_t from = (s->rank + s->pnum - i) % s->pnum;
    const int64_t begin = begin_of(s, from);
    CHECK(DMI_team_recv(&s->team, from, s->shared + begin, (begin_of(s, from + 1) - begin) * size,
                        NULL, &s->receives[i]));
  }
  for (int32_t i = 1; i < s->pnum; i++)
    CHECK(DMI_team_send(&s->team, (s->rank + i) % s->pnum, part, (s->a.end - s->a.begin) * size,
                        &s->sends[i]));
  memcpy(s->shared + s->a.begin, part, (size_t)((s->a.end - s->a.begin) * size));
  sum = sum_over_all(s, sum);
  for (int32_t i = 1; i < s->pnum; i++) {
    check_wait(&s->receives[i]);
    check_wait(&s->sends[i]);
  }
  return sum;
}

/* Solves A z = x; returns the norm of x - A z. */
static double solve(solver_t *s) {
  const int64_t rows = s->a.end - s->a.begin;
  const size_t bytes = (size_t)rows * sizeof(double);
  memset(s->z, 0, bytes);
  memcpy(s->r, s->x, bytes);
  double rho = gather_and_sum(s, s->r, dot(s->r, s->r, rows));
  memcpy(s->p, s->shared, (size_t)s->a.n * sizeof(double));
  for (int step = 0; step < CG_STEPS; step++) {
    multiply(&s->a, s->p, s->q);
    const double alpha = rho / sum_over_all(s, dot(s->p + s->a.begin, s->q, rows));
    for (int64_t i = 0; i < rows; i++) {
      s->z[i] += alpha * s->p[s->a.begin + i];
      s->r[i] -= alpha * s->q[i];
    }
    const double old_rho = rho;
    rho = gather_and_sum(s, s->r, dot(s->r, s->r, rows));
    const double beta = rho / old_rho;
    for (int64_t i = 0; i < s->a.n; i++)
      s->p[i] = s->shared[i] + beta * s->p[i];
  }
  gather_and_sum(s, s->z, 0);
  multiply(&s->a, s->shared, s->q);
  double squares = 0;
  for (int64_t i = 0; i < rows; i++)
    squares += (s->x[i] - s->q[i]) * (s->x[i] - s->q[i]);
  return sqrt(sum_over_all(s, squares));
}

/* One step of the inverse iteration; returns the present estimate of the eigenvalue. */
static double step(solver_t *s, double *residual) {
  const int64_t rows = s->a.end - s->a.begin;
  *residual = solve(s);
  const double xz = sum_over_all(s, dot(s->x, s->z, rows));
  const double norm = 1 / sqrt(sum_over_all(s, dot(s->z, s->z, rows)));
  for (int64_t i = 0; i < rows; i++)
    s->x[i] = norm * s->z[i];
  return cg_classes[s->job.class].shift + 1 / xz;
}

/* ---- The threads ---------------------------------------------------------------------------- */

static double *new_vector(int64_t num) {
  return my_malloc((size_t)(num > 0 ? num : 1) * sizeof(double));
}

/* Rank 0 makes the team as large as it is to be; then all join it, and know the job. */
static void join(solver_t *s) {
  DMI_local_barrier_t barrier;
  CHECK(DMI_read(s->job_addr, sizeof(s->job), &s->job, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&barrier, s->job.barrier_addr));
  CHECK(DMI_local_barrier_sync(&barrier, s->pnum));
  if (s->rank == 0) {
    CHECK(DMI_team_resize(s->job.team_addr, s->pnum)); /* nobody is in it now */
    s->job.pnum = s->pnum;
    CHECK(DMI_write(s->job_addr, sizeof(s->job), &s->job, DMI_PUT_WRITE, NULL));
    printf("%d threads begin after step %d\n", s->pnum, s->job.step);
    fflush(stdout);
  }
  CHECK(DMI_local_barrier_sync(&barrier, s->pnum));
  CHECK(DMI_read(s->job_addr, sizeof(s->job), &s->job, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_destroy(&barrier));
  CHECK(DMI_team_join(&s->team, s->job.team_addr, s->rank));
}

static void solver_open(solver_t *s, int my_rank, int pnum, int64_t job_addr) {
  *s = (solver_t){.rank = my_rank, .pnum = pnum, .job_addr = job_addr};
  join(s);
  s->a.n = cg_classes[s->job.class].n;
  s->block = (s->a.n + pnum - 1) / pnum;
  s->a.begin = begin_of(s, my_rank);
  s->a.end = begin_of(s, my_rank + 1);
  s->sends = my_malloc((size_t)pnum * sizeof(*s->sends));
  s->receives = my_malloc((size_t)pnum * sizeof(*s->receives));
  s->shared = new_vector(s->a.n);
  s->p = new_vector(s->a.n);
  s->q = new_vector(s->a.end - s->a.begin);
  s->r = new_vector(s->a.end - s->a.begin);
  s->x = new_vector(s->a.end - s->a.begin);
  s->z = new_vector(s->a.end - s->a.begin);
  matrix_make(&s->a, s->job.class);
}

static void solver_close(solver_t *s) {
  matrix_close(&s->a);
  my_free(s->z);
  my_free(s->x);
  my_free(s->r);
  my_free(s->q);
  my_free(s->p);
  my_free(s->shared);
  my_free(s->receives);
  my_free(s->sends);
  CHECK(DMI_team_leave(&s->team));
}

/* Where my part of the saved x begins. */
static int64_t x_addr(const solver_t *s) {
  return s->job.x_addr + s->a.begin * (int64_t)sizeof(double);
}

/* Before the next step: is x to be saved, for other threads?  Then it is, and the job with it. */
static int change(solver_t *s, double begin) {
  int32_t judge;
  CHECK(DMI_check_rescale(&judge));
  if (judge)
    CHECK(DMI_write(x_addr(s), (s->a.end - s->a.begin) * (int64_t)sizeof(double), s->x,
                    DMI_PUT_WRITE, NULL));
  if (s->rank == 0 && (judge || s->job.step == cg_classes[s->job.class].steps)) {
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
    set_ones(s.x, s.a.end - s.a.begin);
    step(&s, &s.job.residual);
    set_ones(s.x, s.a.end - s.a.begin);
  } else {
    CHECK(DMI_read(x_addr(&s), (s.a.end - s.a.begin) * (int64_t)sizeof(double), s.x, DMI_GET_READ,
                   NULL));
  }
  sum_over_all(&s, 0);
  const double begin = npb_clock();
  while (s.job.step < cg_classes[s.job.class].steps && !changes) {
    s.job.zeta = step(&s, &s.job.residual);
    s.job.step++;
    if (my_rank == 0) {
      printf("%2d %.3e %.13f\n", s.job.step, s.job.residual, s.job.zeta);
      fflush(stdout);
    }
    changes = change(&s, begin);
  }
  const int done = s.job.step == cg_classes[s.job.class].steps;
  solver_close(&s);
  return done ? DMI_TRUE : DMI_AGAIN;
}

/* ---- The first process ---------------------------------------------------------------------- */

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s class [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.class = npb_class(argv[1], cg_class_names)};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t thread_num = argc > 3 ? check_number("threads", argv[3], 1) : 0;
  const int32_t n = cg_classes[job.class].n;
  int64_t job_addr;

  CHECK(DMI_mmap(&job.x_addr, n * (int64_t)sizeof(double), 1, NULL));
  CHECK(DMI_mmap(&job.barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_barrier_init(job.barrier_addr));
  CHECK(DMI_mmap(&job.team_addr, sizeof(DMI_team_t), 1, NULL));
  CHECK(DMI_team_init(job.team_addr, 1));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_rescale(job_addr, process_num, thread_num));
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));

  const int verified = npb_close(job.zeta, cg_classes[job.class].zeta, CG_EPSILON);
  printf("threads %d, zeta %.13f\n", job.pnum, job.zeta);
  npb_report("CG", cg_class_names[job.class], n, job.seconds, count_operations(job.class),
             verified);
  if (!verified) exit(EXIT_FAILURE);
}
