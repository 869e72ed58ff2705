/*
 * mpi_team.c - the counterpart of bench_team_dmi.c: the same loops (ranks.h) with MPI.
 *
 *   mpirun -np N ./mpi_team ranks
 *
 * Uses no part of DMI, and is compiled with mpicc by `make bench` only.  test/bench/Mpi.pm has the
 * options with which it is run.  Errors of MPI end the program, which is MPI's default, so results
 * are not looked at.
 */
#include <mpi.h>

#include "ranks.h"

static void mpi_send(void *arg, int32_t to, const void *buf, int64_t size) {
  (void)arg;
  MPI_Send(buf, (int)size, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

static void mpi_recv(void *arg, int32_t from, void *buf, int64_t size) {
  (void)arg;
  MPI_Recv(buf, (int)size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void mpi_bcast(void *arg, int32_t root, void *buf, int64_t size) {
  (void)arg;
  MPI_Bcast(buf, (int)size, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void mpi_reduce(void *arg, int32_t root, const double *in, double *out, int64_t num) {
  (void)arg;
  MPI_Reduce(in, out, (int)num, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
}

static void mpi_allreduce(void *arg, const double *in, double *out, int64_t num) {
  (void)arg;
  MPI_Allreduce(in, out, (int)num, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_barrier(void *arg) {
  (void)arg;
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Bytes that this process has taken in by read and readv; those of shared memory are not seen. */
static int64_t bytes_read(void) {
  long long bytes = -1;
  FILE *file = fopen("/proc/self/io", "r");
  if (file == NULL || fscanf(file, "rchar: %lld", &bytes) != 1) bytes = -1;
  if (file != NULL) fclose(file);
  return bytes;
}

/* Checks that what is measured is what the name says. */
static void check_transport(int rank) {
  const int64_t before = bytes_read();
  char *block = calloc(1, MIB);
  if (block == NULL) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  MPI_Bcast(block, MIB, MPI_BYTE, 0, MPI_COMM_WORLD);
  free(block);
  if (rank == 0 || bytes_read() - before >= MIB) return;
  fprintf(stderr, "mpi_team: 1 MiB has not come through a socket: is this TCP?\n");
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

int main(int argc, char **argv) {
  ranks_t ranks = {.prefix = "mpi_",
                   .send = mpi_send,
                   .recv = mpi_recv,
                   .bcast = mpi_bcast,
                   .reduce = mpi_reduce,
                   .allreduce = mpi_allreduce,
                   .barrier = mpi_barrier};
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ranks.rank = rank;
  ranks.size = size;
  check_transport(rank);
  ranks_run(&ranks);
  MPI_Finalize();
  return EXIT_SUCCESS;
}
