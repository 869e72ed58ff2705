/*
 * main.c - the OS process of a normal program, which has one DMI process: environment, signals, the
 * launcher, exit status.
 */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/safe.h"
#include "node/backtrace.h"
#include "node/check.h"
#include "node/exits.h"
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

/* As it cannot start. */
static int not_started(struct dmi_process *process) {
  return give_up(process, process->exit_code ? process->exit_code : DMI_EXIT_FAILED);
}

/* Arguments are for DMI_main, and for DMI_init. Where neither gets them they are not ignored
 * silently: usually they were meant for dmirun. */
static bool drops_arguments(const struct dmi_program *program, const struct dmi_config *config,
                            int argc) {
  return argc > 1 && dmi_config_joins(config) && !program->init;
}

static pid_t own; /* this process; others, made by fork(), end by SIGXFSZ */

/* SIGXFSZ, which would end the process: a file of this thread is as large as `ulimit -f` allows, so
 * its write fails.  Whoever writes a file of DMI's own says so, with its name. */
static void on_file_limit(int number) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const int error = errno;
  struct dmi_safe line = {.len = 0};
  if (getpid() != own) {
    (void)signal(number, SIG_DFL);
    (void)raise(number);
  } else if (!dmi_file_is_own && !atomic_flag_test_and_set(&said)) {
    dmi_safe_add(&line, "dmi: a write of ");
    dmi_backtrace_who(&line);
    dmi_safe_add(&line, " has failed: its file is as large as ulimit -f allows");
    dmi_safe_write(&line, STDERR_FILENO);
  }
  errno = error;
}

/* A handler, as programs that this one starts would ignore what it ignores.  One of the program's
 * own counts instead. */
static void begin_file_limit(void) {
  struct sigaction action, before;
  own = getpid();
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_file_limit;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
    (void)sigaction(SIGXFSZ, &action, NULL);
}

/* The thread of main() has called pthread_exit in DMI_main, and the program has ended. */
static void over(struct dmi_process *process, int status) {
  dmi_exits_end();
  dmi_runtime_free(process);
  exit(status);
}

static int run(const struct dmi_program *program, int argc, char **argv) {
  const struct dmi_host host = {
      .signals = true, .only = true, .err = STDERR_FILENO, .end = _exit, .over = over};
  struct dmi_process *process = dmi_runtime_new(program, &host);
  struct dmi_config config = {0};
  char wrong[DMI_CONFIG_WRONG];
  bool good = dmi_config_read(&config, from_environment, NULL, wrong), opened;
  int status;
  signal(SIGPIPE, SIG_IGN);
  begin_file_limit();
  opened = dmi_runtime_configure(process, &config);
  unsetenv("DMI_EVENT_FD"); /* for this process, not for those that it starts */
  unsetenv("DMI_CONTROL_FD");
  unsetenv("DMI_TAG");
  if (!good) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", wrong);
    process->exit_code = DMI_EXIT_OPTION;
  }
  if (!good || !opened || sodium_init() < 0) return not_started(process);
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
    return give_up(process, DMI_EXIT_OPTION);
  }
  dmi_machine_raise_files();
  process->parent = dmi_parent_new(config.parent, config.grace, &process->stream, &good);
  if (!good || !dmi_runtime_open(process, argv[0])) return not_started(process);
  dmi_exits_begin();
  status = dmi_runtime_run(process, argc, argv);
  dmi_exits_end();
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
