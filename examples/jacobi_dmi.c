/*
 * jacobi_dmi.c - Jacobi's method on a cube of points, with a stencil of 27 points.
 *
 *   dmicc -O2 jacobi_dmi.c -o jacobi_dmi -lm
 *   dmirun ./jacobi_dmi 64 100             64^3 points, 100 iterations; a thread per core
 *   dmirun ./jacobi_dmi 64 100 2           waits for a second process,
 *   dmirun -i HOST ./jacobi_dmi            this one; more may join at any time
 *   Ctrl+C                                 leaves, at any time
 *   dmirun --survive ./jacobi_dmi 64 100 2 1 10
 *                                          the second process may be killed
 *
 * Arguments: n iterations [processes [threads per process [every]]].  In each iteration every point
 * becomes a weighted mean of itself and its 26 neighbours; points outside the cube keep what they
 * are. The cube is cut into slabs of whole planes, one per thread, which stay in local memory. What
 * neighbours need of a slab, its first and its last plane, goes through global memory: each plane
 * has a page of its own.  The thread that computed it writes it with DMI_EXCLUSIVE_WRITE: it stays
 * the owner and nothing is sent.  The neighbour reads it with DMI_GET_READ: one request, one
 * answer, and no copy that a later write would have to invalidate.
 *
 * There are two sets of such pages, used in turn, so that one barrier per iteration is enough; it
 * is the sum of the changes, which is printed.  The reads are asynchronous: while they run, a
 * thread computes the planes that do not need them.
 *
 * Processes join and leave: DMI_rescale has the threads save all planes, and begins anew with what
 * they have saved.  Most of it stays where it is, as the pages belong to the threads that wrote
 * them.  With `every` they are saved after so many iterations each time, in pages that DMI_main's
 * process owns and keeps: DMI_PUT_WRITE writes there.  Two sets are used in turn, and the number of
 * the newest complete one is written when all threads have written it; so there is always a whole
 * set, whoever is lost.  When a process is lost the threads that are left begin anew with it;
 * without `every`, with the first iteration.
 *
 * DMI_main then computes everything again alone and prints `correct` if no bit differs, else
 * `wrong`; and a checksum of all points.
 */
#include <math.h>
#include <time.h>

#include "check.h"
#include "hash.h"
#include "jacobi.h"

/* The work, in global memory. */
typedef struct {
  int32_t n; /* planes, rows of a plane, points of a row */
  int32_t iterations;
  int32_t every; /* iterations between two that are saved; 0: only when somebody joins or leaves */
  int64_t barrier_addr; /* of the threads */
  int64_t borders_addr; /* two sets of all planes, see border_addr */
  int64_t saved_addr;   /* likewise, see saved_addr */
  /* ---- written by rank 0, when a set is complete ---- */
  int64_t sets;   /* how often one was saved: the newest is this number modulo 2 */
  int32_t saved;  /* iterations that it has behind it; 0: there is none */
  int32_t pnum;   /* threads */
  double change;  /* of the last iteration */
  double seconds; /* time of all iterations */
} job_t;

/* ---- The threads ---------------------------------------------------------------------------- */

typedef struct {
  int32_t rank, pnum;
  int64_t job_addr;
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

/* The address of a plane that is the border of a slab after so many iterations. */
static int64_t border_addr(const worker_t *w, int32_t iteration, int64_t z) {
  return w->job.borders_addr + ((iteration & 1) * (int64_t)w->job.n + z) * plane_bytes(w);
}

/* The address of a plane in the newest set. */
static int64_t saved_addr(const job_t *job, int64_t z) {
  const int64_t bytes = plane_points(job->n) * (int64_t)sizeof(double);
  return job->saved_addr + (job->sets % 2 * job->n + z) * bytes;
}

/* False: a process was lost. */
static int start_reads(worker_t *w, int32_t iteration) {
  slab_t *slab = &w->slab;
  int ok = 1;
  if (w->has_below) {
    ok = CHECK_LOST(DMI_read(border_addr(w, iteration, slab->begin - 1), plane_bytes(w),
                             plane_of(slab, slab->points, slab->begin - 1), DMI_GET_READ,
                             &w->below));
  }
  if (w->has_above) {
    ok &= CHECK_LOST(DMI_read(border_addr(w, iteration, slab->end), plane_bytes(w),
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
    ok = CHECK_LOST(ret);
  }
  if (w->has_above) {
    DMI_wait(&w->above, &ret);
    ok &= CHECK_LOST(ret);
  }
  return ok;
}

static int write_border(worker_t *w, int32_t iteration, int64_t z) {
  return CHECK_LOST(DMI_write(border_addr(w, iteration, z), plane_bytes(w),
                              plane_of(&w->slab, w->slab.points, z), DMI_EXCLUSIVE_WRITE, NULL));
}

/* All threads save their parts of a set, and then rank 0 writes that it is complete. */
static int save(worker_t *w, int32_t iterations) {
  const slab_t *slab = &w->slab;
  w->job.sets++;
  w->job.saved = iterations;
  w->job.pnum = w->pnum;
  if (slab->begin < slab->end &&
      !CHECK_LOST(DMI_write(saved_addr(&w->job, slab->begin),
                            (slab->end - slab->begin) * plane_bytes(w),
                            plane_of(slab, slab->points, slab->begin),
                            w->job.every > 0 ? DMI_PUT_WRITE : DMI_EXCLUSIVE_WRITE, NULL)))
    return 0;
  if (!CHECK_LOST(DMI_local_barrier_sync(&w->barrier, w->pnum))) return 0;
  if (w->rank != 0) return 1;
  if (!CHECK_LOST(DMI_write(w->job_addr, sizeof(w->job), &w->job, DMI_PUT_WRITE, NULL))) return 0;
  printf("saved after %d iterations\n", iterations);
  fflush(stdout);
  return 1;
}

/* The slab and the planes beside it, as they were saved. */
static int load(worker_t *w) {
  slab_t *slab = &w->slab;
  const int64_t begin = slab->begin > 0 ? slab->begin - 1 : 0;
  const int64_t end = slab->end < w->job.n ? slab->end + 1 : w->job.n;
  int32_t lost;
  CHECK(DMI_scale_lost(&lost));
  w->first = lost == 0 || w->job.every > 0 ? w->job.saved : 0;
  if (w->rank == 0) {
    printf("%d threads begin after iteration %d%s\n", w->pnum, w->first,
           lost > 0 ? ", as a process was lost" : "");
    fflush(stdout);
  }
  if (w->first == 0 || slab->begin == slab->end) return 1;
  return CHECK_LOST(DMI_read(saved_addr(&w->job, begin), (end - begin) * plane_bytes(w),
                             plane_of(slab, slab->points, begin), DMI_GET_READ, NULL));
}

/* One iteration.  In the first one the neighbours' planes are there already: every slab begins with
 * them. */
static int iterate(worker_t *w, int32_t iteration) {
  slab_t *slab = &w->slab;
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
    if (ok && w->has_below) ok = write_border(w, iteration + 1, slab->begin);
    if (ok && w->has_above) ok = write_border(w, iteration + 1, slab->end - 1);
  }
  if (!ok || !CHECK_LOST(DMI_local_barrier_allreduce(&w->barrier, part, &sum, w->pnum))) return 0;
  w->job.change = sqrt(sum);
  return 1;
}

static double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All iterations that are left, unless the threads are to begin anew.  What is returned after a
 * loss does not count. */
static int32_t work(worker_t *w) {
  const double begin = clock_now(), before = w->job.seconds;
  int32_t change = 0;
  for (int32_t i = w->first;; i++) {
    const int last = i == w->job.iterations;
    w->job.seconds = before + clock_now() - begin;
    if (i % 4 == 0 && !CHECK_LOST(DMI_check_rescale(&change))) return DMI_FALSE;
    if (last || change || (w->job.every > 0 && i > w->first && i % w->job.every == 0)) {
      if (!save(w, i)) return DMI_FALSE;
      if (last || change) return last ? DMI_TRUE : DMI_AGAIN;
    }
    if (!iterate(w, i)) return DMI_FALSE;
  }
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  worker_t w = {.rank = my_rank, .pnum = pnum, .job_addr = scaleunit_addr};
  int32_t result = DMI_FALSE;
  if (!CHECK_LOST(DMI_read(w.job_addr, sizeof(w.job), &w.job, DMI_GET_READ, NULL))) return result;
  /* No thread has more planes than needed; with more threads than planes the last have none. */
  const int32_t n = w.job.n;
  int64_t begin, end;
  CHECK(DMI_block(n, my_rank, pnum, &begin, &end));
  slab_open(&w.slab, n, begin, end);
  w.has_below = begin > 0 && begin < end;
  w.has_above = end < n && begin < end;
  CHECK(DMI_local_barrier_init(&w.barrier, w.job.barrier_addr));
  if (load(&w) && CHECK_LOST(DMI_local_barrier_sync(&w.barrier, pnum))) result = work(&w);
  CHECK(DMI_local_barrier_destroy(&w.barrier));
  slab_close(&w.slab);
  return result;
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
  uint64_t hash = 0;
  for (int64_t z = 0; z < job->n; z++) {
    CHECK(DMI_read(saved_addr(job, z), bytes, plane, DMI_GET_READ, NULL));
    right &= memcmp(plane, plane_of(&all, all.points, z), (size_t)bytes) == 0;
    hash = hash_doubles(hash, plane, plane_points(job->n));
  }
  printf("checksum %016llx\n", (unsigned long long)hash);
  slab_close(&all);
  my_free(plane);
  return right;
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

  job.every = argc > 5 ? check_number("every", argv[5], 0) : 0;
  CHECK(DMI_mmap(&job.borders_addr, page, 2 * (int64_t)job.n, NULL));
  CHECK(DMI_mmap(&job.saved_addr, page, 2 * (int64_t)job.n, NULL));
  CHECK(DMI_mmap(&job.barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  /* These stay in this process, also when its memory is short. */
  CHECK(DMI_save(job.saved_addr, page * 2 * job.n));
  CHECK(DMI_save(job_addr, sizeof(job)));
  CHECK(DMI_barrier_init(job.barrier_addr));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_rescale(job_addr, process_num, thread_num));
  CHECK(DMI_read(job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  const double updates = (double)job.n * job.n * job.n * job.iterations;
  printf("threads %d: %.3f s, %.1f million points per second, last change %.6e\n", job.pnum,
         job.seconds, updates / job.seconds / 1e6, job.change);
  const int right = result_is_right(&job);
  printf("%s\n", right ? "correct" : "wrong");
  if (!right) exit(EXIT_FAILURE);
}
