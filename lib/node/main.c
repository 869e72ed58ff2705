/*
 * main.c - the OS process of a normal program, which has one DMI process: environment, signals, the
 * launcher, exit status.
 */
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/machine.h"
#include "node/check.h"
#include "node/fatal.h"
#include "node/parent.h"
#include "node/runtime.h"
#include "node/viewer.h"

static const char *from_environment(void *arg, const char *name) {
  (void)arg;
  return getenv(name);
}

/* Frees the process, which has not run. */
static int give_up(struct dmi_process *process, int status) {
  dmi_runtime_free(process);
  return status;
}

/* Arguments are for DMI_main, and for DMI_init. Where neither gets them they are not ignored
 * silently: usually they were meant for dmirun. */
static bool drops_arguments(const struct dmi_program *program, const struct dmi_config *config,
                            int argc) {
  return argc > 1 && (config->join_host || config->join_file) && !program->init;
}

static int run(const struct dmi_program *program, int argc, char **argv) {
  const struct dmi_host host = {.signals = true, .only = true, .err = STDERR_FILENO, .end = _exit};
  struct dmi_process *process = dmi_runtime_new(program, &host);
  struct dmi_config config = {0};
  char wrong[DMI_CONFIG_WRONG];
  bool good = dmi_config_read(&config, from_environment, NULL, wrong);
  int status;
  signal(SIGPIPE, SIG_IGN);
  dmi_runtime_configure(process, &config);
  unsetenv("DMI_EVENT_FD"); /* for this process, not for those that it starts */
  unsetenv("DMI_CONTROL_FD");
  unsetenv("DMI_TAG");
  if (!good) dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", wrong);
  if (!good || sodium_init() < 0) return give_up(process, 1);
  dmi_on_error = config.on_error;
  if (config.check) {
    return give_up(process,
                   dmi_check(&config, argv[0], program->identity, &process->stream) ? 0 : 1);
  }
  if (config.see) return give_up(process, dmi_viewer(&config, argv[0], &process->stream) ? 0 : 1);
  if (drops_arguments(program, &config, argc)) {
    dmi_say(
        &process->stream, DMI_LOG_ERROR, "start",
        "%s: a process that joins (dmirun -i) has no arguments, as DMI_main does not run in it and "
        "this program has no DMI_init; options of dmirun go before %s",
        argv[1], argv[0]);
    return give_up(process, 2);
  }
  dmi_machine_raise_files();
  process->parent = dmi_parent_new(config.parent, config.grace, &process->stream, &good);
  if (!good || !dmi_runtime_open(process, argv[0])) return give_up(process, 1);
  status = dmi_runtime_run(process, argc, argv);
  dmi_runtime_free(process);
  return status;
}

int dmi_runtime_main(const struct dmi_program *program, int argc, char **argv) {
  void *stack;
  int status;
  dmi_fatal_begin();
  stack = dmi_fatal_stack();
  status = run(program, argc, argv);
  dmi_fatal_stack_free(stack);
  return status;
}
