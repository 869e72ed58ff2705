/*
 * bench_remote_dmi.c - what calls of remote functions cost that do nothing.
 *
 *   dmirun ./bench_remote_dmi N          the client, and first of N servers
 *   dmirun -i HOST ./bench_remote_dmi    the others
 *
 * A batch is CALLS calls of a client of its own.  Prints how long DMI_call takes, as `remote_issue
 * ... us`, and how many calls are done in a second, as `remote_calls ... /s`: from the first call
 * until DMI_client_close has returned, which waits for the last one.
 */
#include "../../examples/check.h"
#include "bench.h"
#include "dmi_remote.h"

#define CALLS 50000

DMI_REMOTE(nothing) {
  (void)call;
}

static void measure(const DMI_client_options_t *options, double *issue_us, double *per_second) {
  DMI_client_t *client;
  CHECK(DMI_client_open(&client, options));
  const int64_t begin = now_ns();
  for (int i = 0; i < CALLS; i++)
    CHECK(DMI_call(client, nothing));
  const int64_t issued = now_ns();
  CHECK(DMI_client_close(client));
  *issue_us = (double)(issued - begin) / 1e3 / CALLS;
  *per_second = CALLS / ((double)(now_ns() - begin) / 1e9);
}

void DMI_main(int argc, char **argv) {
  figure_t issue = {.name = "remote_issue", .unit = "us"},
           calls = {.name = "remote_calls", .unit = "/s"};
  double us, per_second;
  if (argc != 2) {
    fprintf(stderr, "usage: %s processes\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const DMI_client_options_t options = {.processes = check_number("processes", argv[1], 1)};
  for (int batch = -1; batch < batches(); batch++) {
    measure(&options, &us, &per_second);
    if (batch < 0) continue;
    issue.values[batch] = us;
    calls.values[batch] = per_second;
  }
  figure_print(&issue);
  figure_print(&calls);
}
