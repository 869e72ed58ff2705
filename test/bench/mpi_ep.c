/*
 * mpi_ep.c - what examples/ep_dmi.c computes, written for MPI, with the same kernel.
 *
 *   mpirun -np N ./mpi_ep CLASS
 *
 * Prints what ep_dmi prints, and seconds.  Tasks are dealt out in turn.  Rank 0 gathers the results
 * and adds them in the order of the tasks, so that the sums are those of ep_dmi to the last bit.
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <mpi.h>

#include "../../examples/ep.h"

int main(int argc, char **argv) {
  int rank, size, verified = 1;
  ep_result_t *all = NULL, total = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int class = npb_class(argc > 1 ? argv[1] : "S", ep_class_names);
  const int64_t tasks = (int64_t)1 << (ep_classes[class].pairs_log - EP_TASK_LOG);
  const int64_t most = (tasks + size - 1) / size; /* of one process */
  const int doubles = (int)(most * (int64_t)(sizeof(ep_result_t) / sizeof(double)));
  ep_result_t *mine = npb_zeros(most, sizeof(*mine));
  if (rank == 0) all = npb_room(most * size, sizeof(*all));

  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int64_t task = rank; task < tasks; task += size)
    ep_task(task, &mine[task / size]);
  MPI_Gather(mine, doubles, MPI_DOUBLE, all, doubles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  seconds += MPI_Wtime();

  if (rank == 0) {
    for (int64_t task = 0; task < tasks; task++)
      ep_add(&total, &all[task % size * most + task / size]);
    verified = ep_report(class, &total, seconds);
    printf("seconds %.6f\n", seconds);
  }
  free(all);
  free(mine);
  MPI_Finalize();
  return verified ? 0 : EXIT_FAILURE;
}
