/*
 * runner.c - the runner: starts tasks, follows them, and ends what is left of them.
 *
 * One thread, one loop over: the socket to the worker, SIGCHLD, and the outputs of tasks.
 *
 *                START            its process has ended
 *     FREE ---------------> RUNS ----------------------> ENDS ----> FREE, the worker is told
 *                            |                            ^    all of its group has ended
 *              STOP, timeout |                            |
 *                            +---------> ASKED -----------+
 *                                (SIGTERM; SIGKILL after the grace)
 *
 * A task is a process group.  What leaves the group (setsid) is known by a variable in its
 * environment; when its parent has ended it becomes a child of the runner, and if its task has
 * ended then it is killed.
 */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "clock.h"
#include "environment.h"
#include "file.h"
#include "version.h"

#define TAG "DMIFARM_RUN"
#define READS 16 /* of an output at a time: the others want to be read, too */

/* By the runner: its end is that of the worker. */
static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};

/* stdout or stderr of a task: read from a pipe, and written to a file if it is long. */
struct output {
  const char *name; /* of the file */
  int pipe;         /* -1: closed */
  int file;         /* -1: none yet */
  uint64_t size;
  int error; /* errno of a write that failed */
  char bytes[FARM_INLINE];
};

struct place {
  enum { FREE, RUNS, ASKED, ENDS } state;
  enum farm_how how;
  int32_t status;
  pid_t group;
  uint64_t tag;  /* no other run has it */
  int64_t begin; /* ms */
  int64_t due;   /* ms: the next signal; 0: none */
  struct output output[2];
};

struct runner {
  int socket, signals;
  const char *dir;
  struct place *places;
  uint32_t place_num, place_capacity;
  uint64_t tags;
  bool over; /* the worker has ended */
};

static char *path_of(const struct runner *runner, uint32_t place, const char *name) {
  return farm_format("%s/%" PRIu32 "/%s", runner->dir, place, name);
}

/* ---- The process of a task ------------------------------------------------------------------- */

static void give_up(const char *what) {
  dprintf(STDERR_FILENO, "dmifarm: %s: %s\n", what, strerror(errno));
  _exit(127);
}

static void set_environment(const struct runner *runner, const struct farm_ask *ask,
                            const struct place *place) {
  const char *path = getenv("PATH");
  char *letters = farm_version_text(ask->version);
  farm_clean_environment();
  setenv("PATH", farm_format("%s/bin:%s", runner->dir, path ? path : "/usr/bin:/bin"), 1);
  setenv("DMIFARM_TASK", ask->name, 1);
  setenv("DMIFARM_VERSION", letters, 1);
  setenv(TAG, farm_format("%ld-%" PRIu64, (long)getppid(), place->tag), 1);
}

/* In the new process. */
static void run_task(const struct runner *runner, const struct farm_ask *ask,
                     const struct place *place, const int *pipes) {
  char *program = path_of(runner, ask->place, "program"), *cwd = path_of(runner, ask->place, "cwd");
  char *shell[] = {(char *)"sh", program, NULL},
       *alone[] = {ask->name[0] ? (char *)ask->name : program, NULL};
  sigset_t none;
  int in;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
    signal(ignored[i], SIG_DFL);
  dup2(pipes[0], STDOUT_FILENO);
  dup2(pipes[1], STDERR_FILENO);
  if (chdir(cwd) != 0) give_up(cwd);
  in = open(ask->has_data ? "data" : "/dev/null", O_RDONLY);
  if (in < 0) give_up("data");
  dup2(in, STDIN_FILENO);
  if (in != STDIN_FILENO) close(in);
  set_environment(runner, ask, place);
  if (access(program, X_OK) == 0) {
    execv(program, alone);
    if (errno != ENOEXEC) give_up(ask->name);
  }
  execv("/bin/sh", shell);
  give_up("/bin/sh");
}

static bool open_outputs(struct place *place, int *theirs) {
  static const char *const names[] = {"out", "err"};
  theirs[0] = theirs[1] = -1;
  for (int i = 0; i < 2; i++)
    place->output[i] = (struct output){.name = names[i], .pipe = -1, .file = -1};
  for (int i = 0; i < 2; i++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    place->output[i].pipe = ends[0];
    theirs[i] = ends[1];
  }
  return true;
}

static void close_output(struct output *output) {
  if (output->pipe >= 0) close(output->pipe);
  if (output->file >= 0) close(output->file);
  output->pipe = output->file = -1;
}

/* ---- What tasks print ------------------------------------------------------------------------ */

static void keep(struct runner *runner, uint32_t number, struct output *output, const char *bytes,
                 size_t size) {
  if (output->error) return;
  if (output->file < 0 && output->size + size <= FARM_INLINE) {
    memcpy(output->bytes + output->size, bytes, size);
  } else {
    if (output->file < 0) {
      char *path = path_of(runner, number, output->name);
      output->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      if (output->file < 0 || !farm_write(output->file, output->bytes, (int64_t)output->size))
        output->error = errno;
      free(path);
    }
    if (!output->error && !farm_write(output->file, bytes, (int64_t)size)) output->error = errno;
  }
  output->size += size;
}

/* Takes what there is to read, but not for ever. */
static void drain(struct runner *runner, uint32_t number, struct output *output) {
  char bytes[64 << 10];
  ssize_t size = 1;
  for (int i = 0; i < READS && output->pipe >= 0 && size > 0; i++) {
    size = read(output->pipe, bytes, sizeof(bytes));
    if (size > 0) keep(runner, number, output, bytes, (size_t)size);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
      close(output->pipe);
      output->pipe = -1;
    }
  }
}

/* ---- Places ---------------------------------------------------------------------------------- */

static struct place *place_at(struct runner *runner, uint32_t number) {
  while (runner->place_num <= number) {
    runner->places = farm_grow(runner->places, runner->place_num, &runner->place_capacity,
                               sizeof(*runner->places));
    runner->places[runner->place_num++] = (struct place){.state = FREE};
  }
  return &runner->places[number];
}

static void fill_told(struct farm_told *told, const struct place *place, uint32_t number) {
  *told = (struct farm_told){.place = number,
                             .how = place->how,
                             .status = place->status,
                             .ms = (uint64_t)(farm_uptime() - place->begin),
                             .out_size = place->output[0].size,
                             .err_size = place->output[1].size};
  memcpy(told->out, place->output[0].bytes, FARM_INLINE);
  memcpy(told->err, place->output[1].bytes, FARM_INLINE);
  for (int i = 0; i < 2; i++) {
    if (!place->output[i].error) continue;
    *(i ? &told->err_size : &told->out_size) = 0; /* it is not whole */
    told->how = FARM_NOT_STORED;
    told->status = place->output[i].error;
  }
}

/* The whole group has ended: the worker is told. */
static void free_place(struct runner *runner, uint32_t number) {
  struct place *place = &runner->places[number];
  struct farm_told told;
  char *path;
  for (int i = 0; i < 2; i++)
    drain(runner, number, &place->output[i]);
  fill_told(&told, place, number);
  for (int i = 0; i < 2; i++)
    close_output(&place->output[i]);
  path = path_of(runner, number, "cwd");
  farm_remove(path);
  free(path);
  place->state = FREE;
  while (!runner->over && send(runner->socket, &told, sizeof(told), MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) runner->over = true;
  }
}

static void start(struct runner *runner, const struct farm_ask *ask) {
  struct place *place = place_at(runner, ask->place);
  int theirs[2];
  *place = (struct place){.state = RUNS, .tag = ++runner->tags, .begin = farm_uptime()};
  if (ask->timeout_ms) place->due = place->begin + (int64_t)ask->timeout_ms;
  place->group = open_outputs(place, theirs) ? fork() : -1;
  if (place->group == 0) run_task(runner, ask, place, theirs);
  if (place->group < 0) {
    place->how = FARM_NOT_RUN;
    place->status = errno;
  } else {
    setpgid(place->group, place->group);
  }
  for (int i = 0; i < 2; i++)
    if (theirs[i] >= 0) close(theirs[i]);
  if (place->group < 0) free_place(runner, ask->place);
}

/* Asks a task to end, because of `how`. */
static void ask_to_end(struct place *place, enum farm_how how) {
  if (place->state != RUNS) return;
  place->state = ASKED;
  place->how = how;
  place->due = farm_uptime() + FARM_GRACE_MS;
  kill(-place->group, SIGTERM);
  kill(-place->group, SIGCONT);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Whether all processes of the group that are the runner's children have ended. */
static bool group_ended(const struct place *place) {
  pid_t pid;
  do {
    pid = waitpid(-place->group, NULL, WNOHANG);
  } while (pid > 0);
  return pid < 0;
}

/* Whether a process belongs to a run that goes on. */
static bool belongs(const struct runner *runner, pid_t pid) {
  char name[64], text[64];
  bool found = false;
  char *line = NULL;
  size_t room = 0;
  FILE *file;
  for (uint32_t i = 0; i < runner->place_num; i++)
    if (runner->places[i].state != FREE && getpgid(pid) == runner->places[i].group) return true;
  snprintf(name, sizeof(name), "/proc/%ld/environ", (long)pid);
  if (!(file = fopen(name, "re"))) return false;
  while (!found && getdelim(&line, &room, '\0', file) > 0) {
    for (uint32_t i = 0; i < runner->place_num; i++) {
      const struct place *place = &runner->places[i];
      if (place->state != RUNS && place->state != ASKED) continue;
      snprintf(text, sizeof(text), TAG "=%ld-%" PRIu64, (long)getpid(), place->tag);
      if (strcmp(line, text) == 0) found = true;
    }
  }
  free(line);
  fclose(file);
  return found;
}

/* Kills children of the runner whose task has ended. */
static void kill_strays(const struct runner *runner) {
  char name[64];
  long pid;
  FILE *file;
  snprintf(name, sizeof(name), "/proc/self/task/%ld/children", (long)getpid());
  if (!(file = fopen(name, "re"))) return;
  while (fscanf(file, "%ld", &pid) == 1)
    if (!belongs(runner, (pid_t)pid)) kill((pid_t)pid, SIGKILL);
  fclose(file);
}

static void note_end(struct place *place, int status) {
  if (place->state == RUNS) {
    place->how = WIFSIGNALED(status) ? FARM_SIGNALLED : FARM_EXITED;
    place->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  place->state = ENDS;
  place->due = 0;
  kill(-place->group, SIGKILL);
}

static void reap(struct runner *runner) {
  siginfo_t info;
  bool strays = false;
  struct signalfd_siginfo signals[16];
  while (read(runner->signals, signals, sizeof(signals)) > 0)
    continue;
  for (;;) {
    bool known = false;
    int status;
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    waitpid(info.si_pid, &status, 0);
    for (uint32_t i = 0; i < runner->place_num && !known; i++) {
      struct place *place = &runner->places[i];
      known = (place->state == RUNS || place->state == ASKED) && place->group == info.si_pid;
      if (known) note_end(place, status);
    }
    strays = true;
  }
  if (strays) kill_strays(runner);
  for (uint32_t i = 0; i < runner->place_num; i++)
    if (runner->places[i].state == ENDS && group_ended(&runner->places[i])) free_place(runner, i);
}

static void hear(struct runner *runner) {
  struct farm_ask ask;
  ssize_t size = recv(runner->socket, &ask, sizeof(ask), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size != (ssize_t)sizeof(ask)) {
    runner->over = true;
  } else if (ask.type == FARM_ASK_START) {
    start(runner, &ask);
  } else if (ask.place < runner->place_num) {
    ask_to_end(&runner->places[ask.place], FARM_STOPPED);
  }
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* What is due; returns how long nothing will be, in ms; -1: nothing is. */
static int look_at_time(struct runner *runner) {
  int64_t now = farm_uptime(), next = -1;
  for (uint32_t i = 0; i < runner->place_num; i++) {
    struct place *place = &runner->places[i];
    bool full = place->output[0].error || place->output[1].error;
    if (place->state == RUNS && full) ask_to_end(place, FARM_NOT_STORED);
    if ((place->state != RUNS && place->state != ASKED) || !place->due) continue;
    if (place->due <= now && place->state == RUNS) {
      ask_to_end(place, FARM_TIMED_OUT);
    } else if (place->due <= now) {
      kill(-place->group, SIGKILL);
      place->due = 0;
      continue;
    }
    if (next < 0 || place->due - now < next) next = place->due - now;
  }
  return next > INT_MAX ? INT_MAX : (int)next;
}

static void wait_and_work(struct runner *runner, struct pollfd *polls) {
  uint32_t num = 2;
  polls[0] = (struct pollfd){.fd = runner->socket, .events = POLLIN};
  polls[1] = (struct pollfd){.fd = runner->signals, .events = POLLIN};
  for (uint32_t i = 0; i < 2 * runner->place_num; i++)
    polls[num++] =
        (struct pollfd){.fd = runner->places[i / 2].output[i % 2].pipe, .events = POLLIN};
  for (uint32_t i = 0; i < runner->place_num; i++)
    if (runner->places[i].state == FREE) polls[2 + 2 * i].fd = polls[3 + 2 * i].fd = -1;
  if (poll(polls, num, look_at_time(runner)) < 0) {
    if (errno != EINTR) runner->over = true;
    return;
  }
  for (uint32_t i = 2; i < num; i++)
    if (polls[i].revents) drain(runner, (i - 2) / 2, &runner->places[(i - 2) / 2].output[i % 2]);
  if (polls[1].revents) reap(runner);
  if (polls[0].revents) hear(runner);
}

/* The worker has ended. */
static void end_all(struct runner *runner) {
  bool any = true;
  for (uint32_t i = 0; i < runner->place_num; i++)
    if (runner->places[i].state != FREE) kill(-runner->places[i].group, SIGKILL);
  runner->place_num = 0;
  while (any) {
    kill_strays(runner);
    any = waitpid(-1, NULL, 0) > 0;
  }
  farm_remove(runner->dir);
}

int farm_runner_main(int argc, char **argv) {
  struct runner runner = {0};
  struct pollfd *polls = NULL;
  uint32_t capacity = 0;
  struct rlimit limit;
  sigset_t mask;
  if (argc != 4) return 2;
  runner.socket = atoi(argv[2]);
  runner.dir = argv[3];
  (void)fcntl(runner.socket, F_SETFD, FD_CLOEXEC);
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* two pipes for each place */
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "dmifarm-runner");
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
    signal(ignored[i], SIG_IGN);
  runner.signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  while (!runner.over) {
    while (capacity < 2 + 2 * (runner.place_num + 1))
      polls = farm_grow(polls, capacity, &capacity, sizeof(*polls));
    wait_and_work(&runner, polls);
  }
  end_all(&runner);
  free(polls);
  free(runner.places);
  return 0;
}
