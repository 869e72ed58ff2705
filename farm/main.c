/*
 * main.c - dmifarm: any programs as tasks, on machines that come and go (docs/farm.md).
 *
 *   dmifarm run JOB           starts itself again with dmirun, as the first process of the program
 *   dmirun -i HOST dmifarm    a worker
 *   dmifarm make JOB          writes tasks
 *   dmifarm --runner          the process beside a worker (runner.h)
 */
#include <api/start.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "environment.h"
#include "launch.h"
#include "make.h"
#include "master.h"
#include "options.h"
#include "runner.h"
#include "worker.h"

static const char usage[] =
    "usage: dmifarm run JOB [options] [-- dmirun options]\n"
    "       dmifarm make JOB --split COMMAND N TASKS\n"
    "       dmirun -i HOST dmifarm          (a worker, on any machine, at any time)\n"
    "Runs the programs in JOB/tasks, each once, on all machines that join; what they print is in\n"
    "JOB/NAME.a/result afterwards.  Run it again to go on with a job that was stopped.\n"
    "  -n PLACES       so many tasks at a time in this process (default: one for each core; 0: "
    "none)\n"
    "  -f FILE         start workers on the hosts of this node file, by dmimw\n"
    "  --retries N     try a task that fails so many more times, elsewhere if possible (default "
    "2)\n"
    "  --timeout SECS  stop a task that runs for longer: it has failed\n"
    "  --copies N      at the end, run a task that takes long at up to so many places at a time\n"
    "                  (default 2; 1: never; 0: at all places that have nothing else to do)\n"
    "  -h              print this\n"
    "  -v              print the version\n"
    "Ctrl+C stops the job; at a worker it takes that one out.  man dmifarm tells more.\n";

static int fail(char *why) {
  fprintf(stderr, "dmifarm: %s\n", why);
  free(why);
  return 2;
}

/* ---- The program ----------------------------------------------------------------------------- */

static void run_master(int argc, char **argv) {
  struct farm_options options;
  char *why = farm_options_read(&options, argc, argv);
  (void)DMI_exit(why ? fail(why) : farm_master(&options));
}

static int64_t run_worker(int64_t addr) {
  farm_worker(addr);
  return 0;
}

/* The first process is lost, and the job's directory is there. */
static int32_t end_without_master(int argc, char **argv, int32_t lost_id) {
  (void)argc;
  (void)argv;
  (void)lost_id;
  fputs(
      "dmifarm: the process that ran `dmifarm run` is lost: the workers end; `dmifarm run JOB`, "
      "started again, goes on with what is not done\n",
      stderr);
  return DMI_FALSE;
}

static int start_program(int argc, char **argv) {
  const struct dmi_program program = {.main = run_master,
                                      .thread = run_worker,
                                      .recover = end_without_master,
                                      .mark = DMI_PROGRAM_MARK};
  return dmi_start(argc, argv, &program);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_command(int argc, char **argv) {
  struct farm_options options;
  char *why = farm_options_read(&options, argc, argv);
  if (!why && options.help) {
    fputs(usage, stdout);
    return EXIT_SUCCESS;
  }
  if (!why) why = farm_launch(&options, argc, argv); /* returns only if it fails */
  return fail(why);
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (strcmp(command, FARM_RUNNER_ARG) == 0) return farm_runner_main(argc, argv);
  if (strcmp(command, "make") == 0) return farm_make(argc - 1, argv + 1);
  if (strcmp(command, "-v") == 0 || strcmp(command, "--version") == 0) {
    printf("dmifarm (DMI) %s\n", DMI_VERSION);
    return EXIT_SUCCESS;
  }
  if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0) {
    fputs(usage, stdout);
    return EXIT_SUCCESS;
  }
  if (strcmp(command, "run") == 0)
    return farm_is_master() ? start_program(argc, argv) : run_command(argc, argv);
  if (farm_launched()) return start_program(argc, argv);
  if (*command) fprintf(stderr, "dmifarm: %s: unknown command\n", command);
  fputs(usage, stderr);
  return 2;
}
