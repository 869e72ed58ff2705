/*
 * bench_rescale_dmi.c - what it costs when the team of DMI_rescale changes, and what it costs to
 * ask.
 *
 *   dmirun ./bench_rescale_dmi N CHANGES          first process: DMI_main, and rank 0
 *   dmirun -i HOST ./bench_rescale_dmi            the others; one thread in each
 *
 * The threads do nothing but ask (DMI_check_rescale), and have no state.  Whenever the team has
 * changed the first process prints how long no thread could work, as `rescale MS ms`: from the
 * moment when rank 0 learned that it is to begin anew, until all have begun anew.  It ends after so
 * many changes, and prints what asking costs when nothing happens.
 */
#include "../../examples/check.h"
#include "bench.h"

static int64_t told_ns;          /* when rank 0 was told; 0: it is the first team */
static int64_t asking_ns, asked; /* how long rank 0 has asked, and how often */
static int32_t changes;

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  int32_t change, most;
  (void)pnum;
  CHECK(DMI_read(scaleunit_addr, sizeof(most), &most, DMI_GET_READ, NULL));
  CHECK(DMI_check_rescale(&change)); /* all have begun */
  if (my_rank == 0 && told_ns != 0) {
    printf("rescale %.3f ms\n", (double)(now_ns() - told_ns) / 1e6);
    fflush(stdout);
    changes++;
  }
  const int64_t begin = now_ns();
  while (!change) {
    if (my_rank == 0 && changes == most) return DMI_TRUE; /* the others are asked to return, too */
    CHECK(DMI_check_rescale(&change));
    if (my_rank == 0) asked++;
  }
  if (my_rank == 0) {
    told_ns = now_ns();
    asking_ns += told_ns - begin;
  }
  return DMI_AGAIN;
}

void DMI_main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s processes changes\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t most = check_number("changes", argv[2], 1);
  int64_t addr;
  CHECK(DMI_mmap(&addr, sizeof(most), 1, NULL));
  CHECK(DMI_write(addr, sizeof(most), &most, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_rescale(addr, check_number("processes", argv[1], 1), 1));
  printf("check_rescale_8 %.3f us\n", (double)asking_ns / 1e3 / (double)asked);
}
