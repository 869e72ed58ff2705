/*
 * jacobi_dmi.c - Jacobi's method on a cube of points, with a stencil of 27 points.
 *
 *   dmicc -O2 jacobi_dmi.c -o jacobi_dmi -lm
 *   dmirun ./jacobi_dmi 64 100             64^3 points, 100 iterations; a thread per core
 *   dmirun ./jacobi_dmi 64 100 2           waits for a second process,
 *   dmirun -i HOST ./jacobi_dmi            this one
 *   dmirun --survive ./jacobi_dmi 64 100 2 1 10
 *                                          the second process may be killed
 *
 * Arguments: n iterations [processes [threads per process [every]]].  In each iteration every point
 * becomes a weighted mean of itself and its 26 neighbours; points outside the cube keep what they
 * are. The cube is cut into slabs of whole planes, one per thread, which stay in local memory. What
 * neighbours need of a slab, its first and its last plane, goes through global memory: each of them
 * has a page of its own.  The thread that computed it writes it with DMI_EXCLUSIVE_WRITE: it stays
 * the owner and nothing is sent.  The neighbour reads it with DMI_GET_READ: one request, one
 * answer, and no copy that a later write would have to invalidate.
 *
 * There are two sets of such pages, used in turn, so that one barrier per iteration is enough; it
 * is the sum of the changes, which is printed.  The reads are asynchronous: while they run, a
 * thread computes the planes that do not need them.
 *
 * With `every` all planes are saved after so many iterations each time, in pages that DMI_main's
 * process owns and keeps: DMI_PUT_WRITE writes there.  Two sets are used in turn, and the number of
 * the newest complete one is written when all threads have written it; so there is always a whole
 * set, whoever is lost.  When a process is lost the phase begins anew with it, on the threads that
 * are left; without `every`, with the first iteration.
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
  int64_t saved_addr;   /* two sets of all points, a page per plane, see saved_addr */
  int32_t every;        /* iterations between two that are saved; 0: none is */
  int32_t saved; /* iterations that the newest complete set has behind it; 0: there is none */
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
  int32_t first;                   /* iterations that were done before */
} worker_t;

static int64_t plane_bytes(const worker_t *w) {
  return plane_points(w->job.n) * (int64_t)sizeof(double);
}

/* The address of a border plane of a slab after so many iterations. */
static int64_t border_addr(const worker_t *w, int32_t rank, int32_t iteration, int which) {
  const int64_t set = (int64_t)(iteration & 1) * w->arg.pnum;
  return w->job.borders_addr + ((set + rank) * 2 + which) * plane_bytes(w);
}

/* The address of a plane in the set that is saved after so many iterations. */
static int64_t saved_addr(const worker_t *w, int32_t iterations, int64_t z) {
  const int64_t set = iterations / w->job.every % 2;
  return w->job.saved_addr + (set * w->job.n + z) * plane_bytes(w);
}

static int start_reads(worker_t *w, int32_t iteration) {
  slab_t *slab = &w->slab;
  int ok = 1;
  if (w->has_below) {
    ok = SPMD_OK(DMI_read(border_addr(w, w->arg.rank - 1, iteration, LAST), plane_bytes(w),
                          plane_of(slab, slab->points, slab->begin - 1), DMI_GET_READ, &w->below));
  }
  if (w->has_above) {
    ok &= SPMD_OK(DMI_read(border_addr(w, w->arg.rank + 1, iteration, FIRST), plane_bytes(w),
                           plane_of(slab, slab->points, slab->end), DMI_GET_READ, &w->above));
  }
  return ok;
}

/* Waits for both in any case: the bytes may still come. */
static int finish_reads(worker_t *w) {
  int32_t ret;
  int ok = 1;
  if (w->has_below) {
    DMI_wait(&w->below, &ret);
    ok = SPMD_OK(ret);
  }
  if (w->has_above) {
    DMI_wait(&w->above, &ret);
    ok &= SPMD_OK(ret);
  }
  return ok;
}

static int write_border(worker_t *w, int32_t iteration, int which, int64_t z) {
  return SPMD_OK(DMI_write(border_addr(w, w->arg.rank, iteration, which), plane_bytes(w),
                           plane_of(&w->slab, w->slab.points, z), DMI_EXCLUSIVE_WRITE, NULL));
}

/* The part of this thread in a set. */
static int save_slab(worker_t *w, int32_t iterations) {
  const slab_t *slab = &w->slab;
  return SPMD_OK(DMI_write(saved_addr(w, iterations, slab->begin),
                           (slab->end - slab->begin) * plane_bytes(w),
                           plane_of(slab, slab->points, slab->begin), DMI_PUT_WRITE, NULL));
}

/* All have written theirs. */
static int note_saved(worker_t *w, int32_t iterations) {
  const int64_t addr = w->arg.job_addr + (int64_t)offsetof(job_t, saved);
  w->job.saved = iterations;
  if (w->arg.rank != 0) return 1;
  if (!SPMD_OK(DMI_write(addr, sizeof(w->job.saved), &w->job.saved, DMI_PUT_WRITE, NULL))) return 0;
  printf("saved after %d iterations\n", iterations);
  fflush(stdout);
  return 1;
}

/* The slab and the planes beside it, as they were saved. */
static int load_slab(worker_t *w) {
  slab_t *slab = &w->slab;
  const int64_t begin = slab->begin > 0 ? slab->begin - 1 : 0;
  const int64_t end = slab->end < w->job.n ? slab->end + 1 : w->job.n;
  w->first = w->job.saved;
  if (w->first == 0 || slab->begin == slab->end) return 1;
  return SPMD_OK(DMI_read(saved_addr(w, w->first, begin), (end - begin) * plane_bytes(w),
                          plane_of(slab, slab->points, begin), DMI_GET_READ, NULL));
}

/* One iteration; *change gets the change.  In the first one the neighbours' planes are there
 * already: every slab begins with them.  False: a process was lost. */
static int iterate(worker_t *w, int32_t iteration, double *change) {
  slab_t *slab = &w->slab;
  const int saves = w->job.every > 0 && (iteration + 1) % w->job.every == 0;
  const int reads = iteration > w->first;
  double part = 0, sum;
  int ok = 1;
  if (slab->begin < slab->end) {
    if (reads) ok = start_reads(w, iteration);
    part = compute_planes(slab, slab->begin + 1, slab->end - 1);
    if (reads) ok &= finish_reads(w);
    part += compute_planes(slab, slab->begin, slab->begin + 1);
    if (slab->end - 1 > slab->begin) part += compute_planes(slab, slab->end - 1, slab->end);
    slab_advance(slab);
    if (ok && w->has_below) ok = write_border(w, iteration + 1, FIRST, slab->begin);
    if (ok && w->has_above) ok = write_border(w, iteration + 1, LAST, slab->end - 1);
    if (ok && saves) ok = save_slab(w, iteration + 1);
  }
  if (!ok || !SPMD_OK(DMI_local_barrier_allreduce(&w->barrier, part, &sum, w->arg.pnum))) return 0;
  *change = sqrt(sum);
  return saves ? note_saved(w, iteration + 1) : 1;
}

static double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All iterations that are left, and the result, which goes to DMI_main's process. */
static int work(worker_t *w) {
  double begin;
  if (!load_slab(w) || !SPMD_OK(DMI_local_barrier_sync(&w->barrier, w->arg.pnum))) return 0;
  begin = clock_now();
  for (int32_t i = w->first; i < w->job.iterations; i++) {
    if (!iterate(w, i, &w->job.change)) return 0;
  }
  w->job.seconds = clock_now() - begin;
  return SPMD_OK(DMI_write(w->job.result_addr + w->slab.begin * plane_bytes(w),
                           (w->slab.end - w->slab.begin) * plane_bytes(w),
                           plane_of(&w->slab, w->slab.points, w->slab.begin), DMI_PUT_WRITE,
                           NULL)) &&
         (w->arg.rank != 0 ||
          SPMD_OK(DMI_write(w->arg.job_addr, sizeof(w->job), &w->job, DMI_PUT_WRITE, NULL)));
}

int64_t DMI_thread(int64_t addr) {
  worker_t w = {0};
  if (!spmd_begin(addr, &w.arg, &w.barrier)) return SPMD_BROKEN;
  CHECK(DMI_read(w.arg.job_addr, sizeof(w.job), &w.job, DMI_GET_READ, NULL));
  /* No thread has more planes than needed; with more threads than planes the last have none. */
  const int32_t n = w.job.n;
  const int64_t used = w.arg.pnum < n ? w.arg.pnum : n;
  const int64_t rank = w.arg.rank < used ? w.arg.rank : used;
  slab_open(&w.slab, n, n * rank / used, rank < used ? n * (rank + 1) / used : n);
  w.has_below = rank > 0 && rank < used;
  w.has_above = rank + 1 < used;
  const int done = work(&w);
  slab_close(&w.slab);
  CHECK(DMI_local_barrier_destroy(&w.barrier));
  return done ? DMI_NULL : SPMD_BROKEN;
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

/* Until a phase comes to its end.  Each has borders of its own: of those of a lost process nothing
 * is left. */
static void compute(spmd_t *spmd, int64_t job_addr, int64_t page) {
  const int64_t borders_at = job_addr + (int64_t)offsetof(job_t, borders_addr);
  const int64_t saved_at = job_addr + (int64_t)offsetof(job_t, saved);
  int64_t borders_addr;
  int32_t saved, done = 0;
  printf("%d processes begin\n", spmd->num);
  fflush(stdout);
  while (!done) {
    CHECK(DMI_mmap(&borders_addr, page, 4 * (int64_t)spmd->pnum, NULL));
    CHECK(DMI_write(borders_at, sizeof(borders_addr), &borders_addr, DMI_PUT_WRITE, NULL));
    done = spmd_try(spmd, job_addr);
    CHECK(DMI_munmap(borders_addr, NULL));
    if (done) break;
    CHECK(DMI_read(saved_at, sizeof(saved), &saved, DMI_GET_READ, NULL));
    (void)spmd_change(spmd);
    printf("a process was lost: %d go on after iteration %d\n", spmd->num, saved);
    fflush(stdout);
  }
}

void DMI_main(int argc, char **argv) {
  if (argc < 3 || argc > 6) {
    fprintf(stderr, "usage: %s n iterations [processes [threads [every]]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.n = check_number("n", argv[1], 1),
               .iterations = check_number("iterations", argv[2], 1)};
  const int32_t process_num = argc > 3 ? check_number("processes", argv[3], 1) : 1;
  const int32_t thread_num = argc > 4 ? check_number("threads", argv[4], 1) : 0;
  const int64_t page = plane_points(job.n) * (int64_t)sizeof(double);
  int64_t job_addr;
  spmd_t spmd;

  job.every = argc > 5 ? check_number("every", argv[5], 0) : 0;
  spmd_gather(&spmd, process_num, thread_num);
  CHECK(DMI_mmap(&job.result_addr, page, job.n, NULL));
  CHECK(DMI_mmap(&job.saved_addr, page, 2 * (int64_t)job.n, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  /* These stay in this process, also when its memory is short. */
  CHECK(DMI_save(job.result_addr, page * job.n));
  CHECK(DMI_save(job.saved_addr, page * 2 * job.n));
  CHECK(DMI_save(job_addr, sizeof(job)));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  compute(&spmd, job_addr, page);
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  const double updates = (double)job.n * job.n * job.n * job.iterations;
  printf("processes %d, threads %d: %.3f s, %.1f million points per second, last change %.6e\n",
         spmd.num, spmd.pnum, job.seconds, updates / job.seconds / 1e6, job.change);
  const int right = result_is_right(&job);
  printf("%s\n", right ? "correct" : "wrong");
  fflush(stdout);
  CHECK(DMI_munmap(job_addr, NULL));
  CHECK(DMI_munmap(job.saved_addr, NULL));
  CHECK(DMI_munmap(job.result_addr, NULL));
  if (!right) exit(EXIT_FAILURE);
  spmd_end(&spmd);
}
