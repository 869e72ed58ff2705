/*
 * bench_rescale_dmi.c - what it costs when the team of DMI_rescale changes, and what it costs to
 * ask.
 *
 *   dmirun ./bench_rescale_dmi N CHANGES          first process: DMI_main, and rank 0
 *   dmirun -i HOST ./bench_rescale_dmi            the others; one thread in each
 *
 * The threads do nothing but ask (DMI_check_rescale), and have no state.  The first process prints
 * what asking costs, before anything changes: so nobody may come or go before that.  Whenever the
 * team has changed the first process prints how long no thread could work, as `rescale MS ms`: from
 * the moment when rank 0 learned that it is to begin anew, until all have begun anew.  It ends
 * after so many changes.
 */
#include "../../examples/check.h"
#include "bench.h"

#define ASKED 1000 /* times, in each batch */

/* In global memory. */
typedef struct {
  int32_t most, measured; /* changes; not 0: what asking costs is known */
} job_t;

static int64_t told_ns; /* when rank 0 was told; 0: it is the first team */
static int32_t changes;

/* All threads of the first team, the same number of times. */
static void measure_asking(int my_rank) {
  figure_t figure = {.name = "check_rescale_8", .unit = "us"};
  int32_t change;
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t begin = now_ns();
    for (int i = 0; i < ASKED; i++)
      CHECK(DMI_check_rescale(&change) && !change);
    if (batch >= 0) figure.values[batch] = (double)(now_ns() - begin) / 1e3 / ASKED;
  }
  if (my_rank == 0) figure_print(&figure);
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  int32_t change;
  job_t job;
  (void)pnum;
  CHECK(DMI_read(scaleunit_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  CHECK(DMI_check_rescale(&change)); /* all have begun */
  if (my_rank == 0 && told_ns != 0) {
    printf("rescale %.3f ms\n", (double)(now_ns() - told_ns) / 1e6);
    fflush(stdout);
    changes++;
  }
  if (!job.measured) {
    measure_asking(my_rank);
    job.measured = 1;
    if (my_rank == 0) CHECK(DMI_write(scaleunit_addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  }
  while (!change) {
    if (my_rank == 0 && changes == job.most)
      return DMI_TRUE; /* the others are asked to return, too */
    CHECK(DMI_check_rescale(&change));
  }
  if (my_rank == 0) told_ns = now_ns();
  return DMI_AGAIN;
}

void DMI_main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s processes changes\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const job_t job = {.most = check_number("changes", argv[2], 1)};
  int64_t addr;
  CHECK(DMI_mmap(&addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_rescale(addr, check_number("processes", argv[1], 1), 1));
}
