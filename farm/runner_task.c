/*
 * runner_task.c - starts the process of a task.
 *
 * By vfork, which copies no page table: until it becomes the task's program, the new process does
 * nothing but system calls, with what was prepared before, in the memory of the runner.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "runner_int.h"
#include "version.h"

const int farm_ignored_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
const int farm_ignored_num = sizeof(farm_ignored_signals) / sizeof(*farm_ignored_signals);

struct task {
  pid_t runner;
  const int *outputs;
  const char *data;
  char **alone, **shell; /* arguments, as a program and for sh */
  volatile int error;    /* of the new process: it is no task */
};

static void set_environment(const struct farm_ask *ask) {
  char *letters = farm_version_text(ask->version);
  setenv("DMIFARM_TASK", ask->name, 1);
  setenv("DMIFARM_VERSION", letters, 1);
  free(letters);
}

/* The new process ends with the runner, begins a group, and takes all signals. */
static void set_signals(void) {
  sigset_t none;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < farm_ignored_num; i++)
    signal(farm_ignored_signals[i], SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool set_files(const struct task *task) {
  int in;
  if (dup2(task->outputs[0], STDOUT_FILENO) < 0 || dup2(task->outputs[1], STDERR_FILENO) < 0 ||
      chdir("cwd") != 0)
    return false;
  if ((in = open(task->data, O_RDONLY)) < 0 || dup2(in, STDIN_FILENO) < 0) return false;
  if (in != STDIN_FILENO) close(in);
  return true;
}

static void become(struct task *task) {
  set_signals();
  if (getppid() == task->runner && set_files(task)) {
    const bool runs = access(task->shell[1], X_OK) == 0;
    if (runs) execv(task->shell[1], task->alone);
    if (!runs || errno == ENOEXEC) execv("/bin/sh", task->shell);
  }
  task->error = errno;
  _exit(127);
}

static __attribute__((noinline)) pid_t split(struct task *task) {
  const pid_t pid = vfork();
  if (pid == 0) become(task);
  return pid;
}

pid_t farm_task_start(const struct farm_ask *ask, const char *program, const int *outputs) {
  char *shell[] = {(char *)"sh", (char *)program, NULL},
       *alone[] = {(char *)(ask->name[0] ? ask->name : program), NULL};
  struct task task = {.runner = getpid(),
                      .outputs = outputs,
                      .data = ask->has_data ? "data" : "/dev/null",
                      .alone = alone,
                      .shell = shell};
  pid_t pid;
  set_environment(ask);
  pid = split(&task);
  if (pid > 0 && task.error) { /* it has ended, or is about to */
    (void)waitpid(pid, NULL, 0);
    errno = task.error;
    pid = -1;
  }
  return pid;
}
