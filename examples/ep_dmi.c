/*
 * ep_dmi.c - NAS Parallel Benchmark EP ("embarrassingly parallel") on machines that come and go.
 *
 *   dmicc -O2 ep_dmi.c -o ep_dmi -lm
 *   dmirun ./ep_dmi A                      starts the program: class S, W, A or B
 *   dmirun -i HOST ./ep_dmi                joins it, at any time, from anywhere
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: class [processes].  It begins when so many processes (1) have joined.  Pairs of
 * uniform random numbers become pairs of Gaussian deviates (Marsaglia's polar method); their sums,
 * and how many of them fall into each square ring, are the result.  A task is 2^16 pairs; the
 * random numbers of any task can be reached at once.  DMI_main adds the results of the tasks in
 * their order, so that the sums are the same to the last bit whoever has done what.
 */
#include "check.h"
#include "dmi_farm.h"
#include "ep.h"

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job) {
  (void)size, (void)job;
  ep_task(task, out);
  return 0;
}

void DMI_main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s class [processes]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int class = npb_class(argv[1], ep_class_names);
  const int64_t pairs = (int64_t)1 << ep_classes[class].pairs_log;
  DMI_farm_t farm = {.tasks = pairs >> EP_TASK_LOG,
                     .result_size = sizeof(ep_result_t),
                     .processes = argc > 2 ? check_number("processes", argv[2], 1) : 1,
                     .event = DMI_farm_print,
                     .event_arg = stdout};
  CHECK(DMI_farm_run(&farm));
  ep_result_t total = {0}, part;
  for (int64_t task = 0; task < farm.tasks; task++) {
    CHECK(DMI_farm_result(&farm, task, &part, NULL));
    ep_add(&total, &part);
  }
  CHECK(DMI_farm_free(&farm));

  const int verified = ep_report(class, &total, farm.seconds);
  if (!verified) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
}
