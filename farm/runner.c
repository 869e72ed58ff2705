/*
 * runner.c - the runner: starts the tasks of a place, one after the other, follows them, and ends
 * what is left of them.
 *
 * One thread, one loop over: the socket to the worker, SIGCHLD, and the outputs of the task.
 *
 *                START            its process has ended
 *     FREE ---------------> RUNS ----------------------> ENDS ----> FREE, the worker is told
 *                            |                            ^    the runner has no child any more
 *              STOP, timeout |                            |
 *                            +---------> ASKED -----------+
 *                                (SIGTERM; SIGKILL after the grace)
 *
 * A task is a process group.  What leaves the group, or is left behind in any other way, becomes a
 * child of the runner, which is a subreaper; so when the runner has no child any more, the task and
 * all that it has started have ended.
 */
#include "runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "clock.h"
#include "environment.h"
#include "runner_int.h"

struct runner {
  int socket, signals;
  char *base;
  int base_lock;       /* a shared lock: this runner is not the last one; -1: none */
  char *dir, *program; /* BASE/N, BASE/N/program */
  enum { FREE, RUNS, ASKED, ENDS } state;
  enum farm_how how;
  int32_t status;
  pid_t group;
  int64_t begin; /* ms */
  int64_t due;   /* ms: the next signal; 0: none */
  struct farm_output output[2];
  bool over; /* the worker has ended */
};

/* ---- A task begins --------------------------------------------------------------------------- */

static void fill_told(const struct runner *runner, struct farm_told *told) {
  const struct farm_output *output = runner->output;
  *told = (struct farm_told){.how = runner->how,
                             .status = runner->status,
                             .ms = (uint64_t)(farm_uptime() - runner->begin),
                             .out_size = output[0].size,
                             .err_size = output[1].size};
  memcpy(told->out, output[0].bytes, FARM_INLINE);
  memcpy(told->err, output[1].bytes, FARM_INLINE);
  for (int i = 0; i < 2; i++) {
    if (!output[i].error) continue;
    *(i ? &told->err_size : &told->out_size) = 0; /* it is not whole */
    told->how = FARM_NOT_STORED;
    told->status = output[i].error;
  }
}

/* The directory of the task is as it was: the next one gets it. */
static bool is_clean(void) {
  struct stat status;
  bool clean =
      lstat("cwd", &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 07777) == 0700;
  DIR *list = clean ? opendir("cwd") : NULL;
  for (struct dirent *entry; list && clean && (entry = readdir(list));)
    clean = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
  if (list) closedir(list);
  return list && clean;
}

/* The task has ended, and all that it started: the worker is told. */
static void free_place(struct runner *runner) {
  struct farm_told told;
  for (int i = 0; i < 2; i++) {
    farm_output_drain(&runner->output[i]);
    farm_output_close(&runner->output[i]);
  }
  fill_told(runner, &told);
  if (!is_clean()) farm_remove("cwd");
  runner->state = FREE;
  while (!runner->over && send(runner->socket, &told, sizeof(told), MSG_NOSIGNAL) < 0)
    if (errno != EINTR) runner->over = true;
}

static void start(struct runner *runner, const struct farm_ask *ask) {
  static const char *const names[] = {"out", "err"};
  int theirs[2], error = 0;
  runner->state = RUNS;
  runner->begin = farm_uptime();
  runner->due = ask->timeout_ms ? runner->begin + (int64_t)ask->timeout_ms : 0;
  for (int i = 0; i < 2; i++)
    if ((theirs[i] = farm_output_open(&runner->output[i], names[i])) < 0) error = errno;
  if (!error && (runner->group = farm_task_start(ask, runner->program, theirs)) < 0) error = errno;
  for (int i = 0; i < 2; i++)
    if (theirs[i] >= 0) close(theirs[i]);
  if (!error) return;
  runner->how = FARM_NOT_RUN;
  runner->status = error;
  free_place(runner);
}

/* Asks the task to end, because of `how`. */
static void ask_to_end(struct runner *runner, enum farm_how how) {
  if (runner->state != RUNS) return;
  runner->state = ASKED;
  runner->how = how;
  runner->status = 0;
  runner->due = farm_uptime() + FARM_GRACE_MS;
  kill(-runner->group, SIGTERM);
  kill(-runner->group, SIGCONT);
}

/* ---- It ends --------------------------------------------------------------------------------- */

/* Their own children become the runner's then, whose end is heard, too. */
static void kill_children(void) {
  char name[64];
  long pid;
  FILE *file;
  snprintf(name, sizeof(name), "/proc/self/task/%ld/children", (long)getpid());
  if (!(file = fopen(name, "re"))) return;
  while (fscanf(file, "%ld", &pid) == 1)
    kill((pid_t)pid, SIGKILL);
  fclose(file);
}

/* Its process has ended, and was not waited for yet: so nobody else has its number. */
static void note_end(struct runner *runner, const siginfo_t *info) {
  if (runner->state == RUNS) {
    runner->how = info->si_code == CLD_EXITED ? FARM_EXITED : FARM_SIGNALLED;
    runner->status = info->si_status;
  }
  runner->state = ENDS;
  runner->due = 0;
  kill(-runner->group, SIGKILL);
}

/* True: the runner has no child any more. */
static bool reap_all(struct runner *runner) {
  for (;;) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return true;
    if (info.si_pid == 0) return false;
    if ((runner->state == RUNS || runner->state == ASKED) && info.si_pid == runner->group)
      note_end(runner, &info);
    (void)waitpid(info.si_pid, NULL, 0);
  }
}

static void reap(struct runner *runner) {
  struct signalfd_siginfo signals[16];
  bool none;
  while (read(runner->signals, signals, sizeof(signals)) > 0)
    continue;
  none = reap_all(runner);
  if (runner->state != ENDS) return;
  if (none) {
    free_place(runner);
  } else {
    kill_children();
  }
}

static void hear(struct runner *runner) {
  struct farm_ask ask;
  ssize_t size = recv(runner->socket, &ask, sizeof(ask), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size != (ssize_t)sizeof(ask)) {
    runner->over = true;
  } else if (ask.type == FARM_ASK_START) {
    start(runner, &ask);
  } else {
    ask_to_end(runner, FARM_STOPPED);
  }
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* What is due; returns how long nothing will be, in ms; -1: nothing is. */
static int look_at_time(struct runner *runner) {
  const bool full = runner->output[0].error || runner->output[1].error;
  int64_t left;
  if (runner->state != RUNS && runner->state != ASKED) return -1;
  if (full) ask_to_end(runner, FARM_NOT_STORED);
  if (!runner->due) return -1;
  left = runner->due - farm_uptime();
  if (left <= 0 && runner->state == ASKED) {
    kill(-runner->group, SIGKILL);
    runner->due = 0;
    return -1;
  }
  if (left <= 0) {
    ask_to_end(runner, FARM_TIMED_OUT);
    left = FARM_GRACE_MS;
  }
  return left > INT_MAX ? INT_MAX : (int)left;
}

static void wait_and_work(struct runner *runner) {
  struct pollfd polls[] = {{.fd = runner->socket, .events = POLLIN},
                           {.fd = runner->signals, .events = POLLIN},
                           {.fd = runner->output[0].pipe, .events = POLLIN},
                           {.fd = runner->output[1].pipe, .events = POLLIN}};
  if (poll(polls, sizeof(polls) / sizeof(*polls), look_at_time(runner)) < 0) {
    if (errno != EINTR) runner->over = true;
    return;
  }
  for (int i = 0; i < 2; i++)
    if (polls[2 + i].revents) farm_output_drain(&runner->output[i]);
  if (polls[1].revents) reap(runner);
  if (polls[0].revents) hear(runner);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* The worker has ended, or wants this to. */
static void end_all(struct runner *runner) {
  bool any = true;
  if (runner->state != FREE) kill(-runner->group, SIGKILL);
  while (any) {
    kill_children();
    any = waitpid(-1, NULL, 0) > 0;
  }
  if (runner->dir) farm_remove(runner->dir);
  /* No other runner has the lock: this is the last one.  When several try at once one of them gets
   * it, as each has given up its shared lock when it tries. */
  if (runner->base_lock >= 0 && flock(runner->base_lock, LOCK_EX | LOCK_NB) == 0)
    farm_remove(runner->base);
}

/* The directory of the worker.  The first runner makes it, so that there is somebody who removes
 * it, whenever the worker ends. */
static char *make_base(const char *known) {
  const char *tmp = getenv("TMPDIR");
  char *dir, *base = NULL;
  if (*known) return farm_strdup(known);
  dir = farm_format("%s/dmifarm-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (mkdtemp(dir)) base = realpath(dir, NULL);
  free(dir);
  return base;
}

static bool make_dirs(struct runner *runner, const char *base, const char *place) {
  if (!(runner->base = make_base(base))) return false;
  runner->dir = farm_format("%s/%s", runner->base, place);
  runner->program = farm_format("%s/program", runner->dir);
  runner->base_lock = open(runner->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return runner->base_lock >= 0 && flock(runner->base_lock, LOCK_SH) == 0 &&
         (mkdir(runner->dir, 0700) == 0 || errno == EEXIST) && chdir(runner->dir) == 0;
}

static bool set_signals(struct runner *runner) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  for (int i = 0; i < farm_ignored_num; i++)
    signal(farm_ignored_signals[i], SIG_IGN);
  runner->signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  return runner->signals >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* For all tasks. */
static void set_environment(const struct runner *runner) {
  const char *known = getenv("PATH");
  char *path = farm_format("%s/bin:%s", runner->base, known ? known : "/usr/bin:/bin");
  char *pid = farm_format("%ld", (long)getpid());
  farm_clean_environment();
  setenv("PATH", path, 1);
  setenv(FARM_RUN_TAG, pid, 1);
  free(path);
  free(pid);
}

static bool say_hello(const struct runner *runner, int error) {
  struct farm_hello hello = {.error = error};
  if (runner->base) snprintf(hello.base, sizeof(hello.base), "%s", runner->base);
  return send(runner->socket, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello);
}

int farm_runner_main(int argc, char **argv) {
  struct runner runner = {.socket = FARM_RUNNER_SOCKET, .base_lock = -1};
  if (argc != 4) return 2;
  for (int i = 0; i < 2; i++)
    runner.output[i].pipe = runner.output[i].file = -1;
  (void)fcntl(runner.socket, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_NAME, "dmifarm-runner");
  runner.over = !set_signals(&runner) || !make_dirs(&runner, argv[2], argv[3]);
  if (!say_hello(&runner, runner.over ? errno : 0)) runner.over = true;
  if (!runner.over) set_environment(&runner);
  while (!runner.over)
    wait_and_work(&runner);
  end_all(&runner);
  free(runner.base);
  free(runner.dir);
  free(runner.program);
  return 0;
}
