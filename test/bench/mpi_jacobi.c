/*
 * mpi_jacobi.c - what examples/jacobi_dmi.c computes, written for MPI, with the same kernels.
 *
 *   mpirun -np N ./mpi_jacobi POINTS ITERATIONS
 *
 * Prints seconds, and the checksum that jacobi_dmi prints: both have computed the same to the last
 * bit.  Each process has a slab of whole planes.  It begins to receive its neighbours' borders and
 * to send its own, computes the planes that do not need them, and then the others.  After each
 * plane MPI_Testall gives MPI the time to move bytes.  The sum of the changes ends an iteration.
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#include "../../examples/hash.h"
#include "../../examples/jacobi.h"

typedef struct {
  int rank, size;
  slab_t slab;
  MPI_Request requests[4]; /* of the borders; MPI_REQUEST_NULL: there is no such neighbour */
} part_t;

static void exchange(part_t *p, int64_t z, int64_t own, int neighbour, MPI_Request *requests) {
  slab_t *slab = &p->slab;
  const int num = (int)plane_points(slab->n);
  requests[0] = requests[1] = MPI_REQUEST_NULL;
  if (z < 0 || z >= slab->n) return;
  MPI_Irecv(plane_of(slab, slab->points, z), num, MPI_DOUBLE, neighbour, 0, MPI_COMM_WORLD,
            &requests[0]);
  MPI_Isend(plane_of(slab, slab->points, own), num, MPI_DOUBLE, neighbour, 0, MPI_COMM_WORLD,
            &requests[1]);
}

/* Returns the change of all points. */
static double iterate(part_t *p, int exchanges) {
  slab_t *slab = &p->slab;
  double part = 0, sum;
  int done = !exchanges;
  if (exchanges) {
    exchange(p, slab->begin - 1, slab->begin, p->rank - 1, p->requests);
    exchange(p, slab->end, slab->end - 1, p->rank + 1, p->requests + 2);
  }
  for (int64_t z = slab->begin + 1; z < slab->end - 1; z++) {
    part += compute_planes(slab, z, z + 1);
    if (!done) MPI_Testall(4, p->requests, &done, MPI_STATUSES_IGNORE);
  }
  if (exchanges) MPI_Waitall(4, p->requests, MPI_STATUSES_IGNORE);
  part += compute_planes(slab, slab->begin, slab->begin + 1);
  if (slab->end - 1 > slab->begin) part += compute_planes(slab, slab->end - 1, slab->end);
  slab_advance(slab);
  MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sqrt(sum);
}

/* Of all planes, in their order; at rank 0. */
static uint64_t checksum(const part_t *p) {
  uint64_t hash = 0;
  const int next = (p->rank + 1) % p->size;
  if (p->rank > 0)
    MPI_Recv(&hash, 1, MPI_UINT64_T, p->rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int64_t z = p->slab.begin; z < p->slab.end; z++)
    hash = hash_doubles(hash, plane_of(&p->slab, p->slab.points, z), plane_points(p->slab.n));
  if (p->size == 1) return hash;
  MPI_Send(&hash, 1, MPI_UINT64_T, next, 0, MPI_COMM_WORLD);
  if (p->rank == 0)
    MPI_Recv(&hash, 1, MPI_UINT64_T, p->size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return hash;
}

int main(int argc, char **argv) {
  const int64_t n = argc > 1 ? atoll(argv[1]) : 64;
  const int iterations = argc > 2 ? atoi(argv[2]) : 100;
  part_t p;
  double change = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &p.size);
  if (n % p.size != 0) {
    fprintf(stderr, "%d processes cannot have equal parts of %lld planes\n", p.size, (long long)n);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  slab_open(&p.slab, n, n / p.size * p.rank, n / p.size * (p.rank + 1));
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int i = 0; i < iterations; i++)
    change = iterate(&p, i > 0);
  seconds += MPI_Wtime();
  const uint64_t hash = checksum(&p);
  if (p.rank == 0)
    printf("seconds %.6f\nlast change %.6e\nchecksum %016llx\n", seconds, change,
           (unsigned long long)hash);
  slab_close(&p.slab);
  MPI_Finalize();
  return 0;
}
