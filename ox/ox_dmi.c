/*
 * ox_dmi.c - the ready server for OpenXM clients, with functions to try it with.
 *
 *   ox_dmi --control PORT            a server by itself: this process does all
 *   dmirun ox_dmi --control PORT     the first process of a DMI program
 *   dmirun --ox PORT ox_dmi          the same, with the server of the library
 *   dmirun -i HOST ox_dmi            one more process, which computes
 */
#include <api/start.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "functions.h"
#include "options.h"
#include "pool.h"

static DMI_ox_server_t *server;

static void on_signal(int number) {
  (void)number;
  DMI_ox_stop(server);
}

static void say(const char *control, const char *data, void *arg) {
  (void)arg;
  printf("ox_dmi: listening: control %s data %s\n", control, data);
  fflush(stdout);
}

static int serve_alone(int argc, char **argv) {
  DMI_ox_options_t options = {.listens = say};
  char why[400];
  sigset_t set;
  if (!ox_options_read(&options, argc, argv)) ox_options_none();
  /* Signals are for this thread, which only waits. */
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  bool good = DMI_ox_start(&server, &options, why, sizeof why);
  free((char *)options.password);
  if (!good) {
    fprintf(stderr, "ox_dmi: %s\n", why);
    return 1;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  DMI_ox_wait(server);
  /* A second signal, while calls still run, is not for a server that has ended. */
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  DMI_ox_free(server);
  return 0;
}

int main(int argc, char **argv) {
  const struct dmi_program_ox ox = {DMI_ox_start, DMI_ox_stop, DMI_ox_wait, DMI_ox_free};
  const struct dmi_program program = {.main = ox_pool, .ox = &ox, .mark = DMI_PROGRAM_MARK};
  ox_functions_register();
  return ox_runs_alone() ? serve_alone(argc, argv) : dmi_start(argc, argv, &program);
}
