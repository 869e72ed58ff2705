/*
 * jacobi_dmi.c - Jacobi's method on a cube of points, with a stencil of 27 points.
 *
 *   dmicc -O2 jacobi_dmi.c -o jacobi_dmi -lm
 *   dmirun ./jacobi_dmi 64 100             64^3 points, 100 iterations; a thread per core
 *   dmirun ./jacobi_dmi 64 100 2           waits for a second process,
 *   dmirun -i HOST ./jacobi_dmi            this one
 *
 * Arguments: n iterations [processes [threads per process]].  In each iteration every point becomes
 * a weighted mean of itself and its 26 neighbours; points outside the cube keep what they are.
 * The cube is cut into slabs of whole planes, one per thread, which stay in local memory.  What
 * neighbours need of a slab, its first and its last plane, goes through global memory: each of them
 * has a page of its own.  The thread that computed it writes it with DMI_EXCLUSIVE_WRITE: it stays
 * the owner and nothing is sent.  The neighbour reads it with DMI_GET_READ: one request, one
 * answer, and no copy that a later write would have to invalidate.
 *
 * There are two sets of such pages, used in turn, so that one barrier per iteration is enough; it
 * is the sum of the changes, which is printed.  The reads are asynchronous: while they run, a
 * thread computes the planes that do not need them.
 *
 * DMI_main then computes everything again alone and prints `correct` if no bit differs, else
 * `wrong`.
 */
#include <math.h>
#include <stddef.h>
#include <time.h>

#include "spmd.h"

/* The work, in global memory. */
typedef struct {
  int32_t n; /* planes, rows of a plane, points of a row */
  int32_t iterations;
  int64_t borders_addr; /* a page per plane, see border_addr */
  int64_t result_addr;  /* all points in the end, a page per plane */
  double change;        /* of the last iteration */
  double seconds;       /* time of all iterations; rank 0 writes both */
} job_t;

/* Planes [begin, end) of the cube.  In local memory a plane has a rim of one point and a slab one
 * plane more at either side, so that all points have 26 neighbours. */
typedef struct {
  int64_t n, begin, end;
  double *points; /* this iteration's */
  double *next;   /* the next one's */
  double *sums;   /* of compute_row */
} slab_t;

/* ---- The method ----------------------------------------------------------------------------- */

static int64_t plane_points(int64_t n) {
  return (n + 2) * (n + 2);
}

static double *plane_of(const slab_t *slab, double *points, int64_t z) {
  return points + (z - slab->begin + 1) * plane_points(slab->n);
}

/* The first value of a point: looks random, and is the same in every process. */
static double first_value(int64_t z, int64_t y, int64_t x) {
  uint32_t h = (uint32_t)z * 2654435761u ^ (uint32_t)y * 2246822519u ^ (uint32_t)x * 3266489917u;
  h = (h ^ (h >> 15)) * 2654435769u;
  return (double)(h ^ (h >> 13)) * 0x1p-32;
}

static void slab_open(slab_t *slab, int64_t n, int64_t begin, int64_t end) {
  const int64_t num = (end - begin + 2) * plane_points(n);
  *slab = (slab_t){.n = n, .begin = begin, .end = end};
  slab->points = my_malloc((size_t)num * sizeof(double));
  slab->next = my_malloc((size_t)num * sizeof(double));
  slab->sums = my_malloc((size_t)(n + 2) * sizeof(double));
  double *point = slab->points;
  for (int64_t z = begin - 1; z <= end; z++) {
    for (int64_t y = -1; y <= n; y++) {
      for (int64_t x = -1; x <= n; x++)
        *point++ = first_value(z, y, x);
    }
  }
  /* the rims, which do not change */
  memcpy(slab->next, slab->points, (size_t)num * sizeof(double));
}

static void slab_close(slab_t *slab) {
  my_free(slab->sums);
  my_free(slab->next);
  my_free(slab->points);
}

/* Weights: 8 the point itself, 4 neighbours across a face, 2 an edge, 1 a corner; 64 in all.  They
 * are products of 1 2 1 in each direction, so the nine rows are added up first, into `sums`. */
static double compute_row(const double *const *rows, double *sums, double *to, int64_t n) {
  double change = 0;
  for (int64_t x = 0; x < n + 2; x++) {
    sums[x] = rows[0][x] + 2 * rows[1][x] + rows[2][x] +
              2 * (rows[3][x] + 2 * rows[4][x] + rows[5][x]) + rows[6][x] + 2 * rows[7][x] +
              rows[8][x];
  }
  for (int64_t x = 1; x <= n; x++) {
    to[x] = (sums[x - 1] + 2 * sums[x] + sums[x + 1]) / 64;
    change += (to[x] - rows[4][x]) * (to[x] - rows[4][x]);
  }
  return change;
}

/* The planes [from, to) of the next iteration; returns the sum of the squares of all changes. */
static double compute_planes(const slab_t *slab, int64_t from, int64_t to) {
  const int64_t row = slab->n + 2;
  double change = 0;
  for (int64_t z = from; z < to; z++) {
    for (int64_t y = 1; y <= slab->n; y++) {
      const double *rows[9];
      for (int i = 0; i < 9; i++)
        rows[i] = plane_of(slab, slab->points, z + i / 3 - 1) + (y + i % 3 - 1) * row;
      change += compute_row(rows, slab->sums, plane_of(slab, slab->next, z) + y * row, slab->n);
    }
  }
  return change;
}

static void slab_advance(slab_t *slab) {
  double *const old = slab->points;
  slab->points = slab->next;
  slab->next = old;
}

/* ---- The threads ---------------------------------------------------------------------------- */

enum { FIRST, LAST }; /* plane of a slab */

typedef struct {
  spmd_arg_t arg;
  job_t job;
  slab_t slab;
  DMI_local_barrier_t barrier;
  DMI_local_status_t below, above; /* reads of the neighbours' planes */
  int has_below, has_above;        /* whether there are such neighbours */
} worker_t;

static int64_t plane_bytes(const worker_t *w) {
  return plane_points(w->job.n) * (int64_t)sizeof(double);
}

/* The address of a border plane of a slab after so many iterations. */
static int64_t border_addr(const worker_t *w, int32_t rank, int32_t iteration, int which) {
  const int64_t set = (int64_t)(iteration & 1) * w->arg.pnum;
  return w->job.borders_addr + ((set + rank) * 2 + which) * plane_bytes(w);
}

static void start_reads(worker_t *w, int32_t iteration) {
  slab_t *slab = &w->slab;
  if (w->has_below) {
    CHECK(DMI_read(border_addr(w, w->arg.rank - 1, iteration, LAST), plane_bytes(w),
                   plane_of(slab, slab->points, slab->begin - 1), DMI_GET_READ, &w->below));
  }
  if (w->has_above) {
    CHECK(DMI_read(border_addr(w, w->arg.rank + 1, iteration, FIRST), plane_bytes(w),
                   plane_of(slab, slab->points, slab->end), DMI_GET_READ, &w->above));
  }
}

static void finish_reads(worker_t *w) {
  int32_t ok;
  if (w->has_below) {
    DMI_wait(&w->below, &ok);
    CHECK(ok);
  }
  if (w->has_above) {
    DMI_wait(&w->above, &ok);
    CHECK(ok);
  }
}

static void write_border(worker_t *w, int32_t iteration, int which, int64_t z) {
  CHECK(DMI_write(border_addr(w, w->arg.rank, iteration, which), plane_bytes(w),
                  plane_of(&w->slab, w->slab.points, z), DMI_EXCLUSIVE_WRITE, NULL));
}

/* One iteration; returns the change.  In the first one the neighbours' planes are there already:
 * every slab begins with them. */
static double iterate(worker_t *w, int32_t iteration) {
  slab_t *slab = &w->slab;
  double change = 0, sum;
  if (slab->begin < slab->end) {
    if (iteration > 0) start_reads(w, iteration);
    change = compute_planes(slab, slab->begin + 1, slab->end - 1);
    if (iteration > 0) finish_reads(w);
    change += compute_planes(slab, slab->begin, slab->begin + 1);
    if (slab->end - 1 > slab->begin) change += compute_planes(slab, slab->end - 1, slab->end);
    slab_advance(slab);
    if (w->has_below) write_border(w, iteration + 1, FIRST, slab->begin);
    if (w->has_above) write_border(w, iteration + 1, LAST, slab->end - 1);
  }
  CHECK(DMI_local_barrier_allreduce(&w->barrier, change, &sum, w->arg.pnum));
  return sqrt(sum);
}

static double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int64_t DMI_thread(int64_t addr) {
  worker_t w;
  CHECK(DMI_read(addr, sizeof(w.arg), &w.arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(w.arg.job_addr, sizeof(w.job), &w.job, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&w.barrier, w.arg.barrier_addr));
  /* No thread has more planes than needed; with more threads than planes the last have none. */
  const int32_t n = w.job.n;
  const int64_t used = w.arg.pnum < n ? w.arg.pnum : n;
  const int64_t rank = w.arg.rank < used ? w.arg.rank : used;
  slab_open(&w.slab, n, n * rank / used, rank < used ? n * (rank + 1) / used : n);
  w.has_below = rank > 0 && rank < used;
  w.has_above = rank + 1 < used;

  CHECK(DMI_local_barrier_sync(&w.barrier, w.arg.pnum));
  const double begin = clock_now();
  for (int32_t i = 0; i < w.job.iterations; i++)
    w.job.change = iterate(&w, i);
  w.job.seconds = clock_now() - begin;

  CHECK(DMI_write(w.job.result_addr + w.slab.begin * plane_bytes(&w),
                  (w.slab.end - w.slab.begin) * plane_bytes(&w),
                  plane_of(&w.slab, w.slab.points, w.slab.begin), DMI_EXCLUSIVE_WRITE, NULL));
  if (w.arg.rank == 0) CHECK(DMI_write(w.arg.job_addr, sizeof(w.job), &w.job, DMI_PUT_WRITE, NULL));
  slab_close(&w.slab);
  CHECK(DMI_local_barrier_destroy(&w.barrier));
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static int result_is_right(const job_t *job) {
  const int64_t bytes = plane_points(job->n) * (int64_t)sizeof(double);
  double *plane = my_malloc((size_t)bytes);
  slab_t all;
  slab_open(&all, job->n, 0, job->n);
  for (int32_t i = 0; i < job->iterations; i++) {
    compute_planes(&all, 0, job->n);
    slab_advance(&all);
  }
  int right = 1;
  for (int64_t z = 0; z < job->n && right; z++) {
    CHECK(DMI_read(job->result_addr + z * bytes, bytes, plane, DMI_GET_READ, NULL));
    right = memcmp(plane, plane_of(&all, all.points, z), (size_t)bytes) == 0;
  }
  slab_close(&all);
  my_free(plane);
  return right;
}

void DMI_main(int argc, char **argv) {
  if (argc < 3 || argc > 5) {
    fprintf(stderr, "usage: %s n iterations [processes [threads]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.n = check_number("n", argv[1], 1),
               .iterations = check_number("iterations", argv[2], 1)};
  const int32_t process_num = argc > 3 ? check_number("processes", argv[3], 1) : 1;
  const int32_t thread_num = argc > 4 ? check_number("threads", argv[4], 1) : 0;
  const int64_t page = plane_points(job.n) * (int64_t)sizeof(double);
  int64_t job_addr;
  spmd_t spmd;

  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_mmap(&job.borders_addr, page, 4 * (int64_t)spmd.pnum, NULL));
  CHECK(DMI_mmap(&job.result_addr, page, job.n, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(&spmd, job_addr);
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  const double updates = (double)job.n * job.n * job.n * job.iterations;
  printf("processes %d, threads %d: %.3f s, %.1f million points per second, last change %.6e\n",
         spmd.num, spmd.pnum, job.seconds, updates / job.seconds / 1e6, job.change);
  const int right = result_is_right(&job);
  printf("%s\n", right ? "correct" : "wrong");
  fflush(stdout);
  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job.result_addr, NULL));
  CHECK(DMI_munmap(job.borders_addr, NULL));
  if (!right) exit(EXIT_FAILURE);
  spmd_end(&spmd);
}
