/*
 * runner_start.c - starts the runner, from the worker, and ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "runner.h"

extern char **environ;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
  (void)status, (void)type, (void)ftw;
  (void)remove(path);
  return 0;
}

/* A directory that its owner may not look into, or change. */
static int open_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
  (void)ftw;
  if (type == FTW_DNR || (type == FTW_D && (status->st_mode & S_IRWXU) != S_IRWXU))
    (void)chmod(path, S_IRWXU);
  return 0;
}

void farm_remove(const char *path) {
  if (remove(path) == 0 || errno == ENOENT) return;
  if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 && access(path, F_OK) != 0) return;
  (void)nftw(path, open_one, 16, FTW_PHYS);
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char *make_dir(void) {
  const char *base = getenv("TMPDIR");
  char *dir = farm_format("%s/dmifarm-XXXXXX", base && *base ? base : "/tmp");
  if (mkdtemp(dir)) return dir;
  free(dir);
  return NULL;
}

static int spawn(struct farm_runner *runner, const char *program, int theirs) {
  char descriptor[16];
  char *argv[] = {(char *)program, (char *)FARM_RUNNER_ARG, descriptor, runner->dir, NULL};
  posix_spawnattr_t attr;
  sigset_t none;
  int error;
  snprintf(descriptor, sizeof(descriptor), "%d", theirs);
  sigemptyset(&none);
  posix_spawnattr_init(&attr);
  /* A group of its own: Ctrl+C in a terminal is for the worker, which leaves in order. */
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attr, 0);
  posix_spawnattr_setsigmask(&attr, &none);
  error = posix_spawn(&runner->pid, program, NULL, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  return error;
}

bool farm_runner_start(struct farm_runner *runner, const char *program) {
  int pair[2], error;
  *runner = (struct farm_runner){.socket = -1};
  if (!(runner->dir = make_dir())) return false;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    error = errno;
  } else {
    (void)fcntl(pair[1], F_SETFD, 0);
    error = spawn(runner, program, pair[1]);
    close(pair[1]);
    runner->socket = pair[0];
    if (!error) return true;
    close(pair[0]);
  }
  farm_remove(runner->dir);
  free(runner->dir);
  errno = error;
  return false;
}

void farm_runner_end(struct farm_runner *runner) {
  close(runner->socket);
  while (waitpid(runner->pid, NULL, 0) < 0 && errno == EINTR)
    continue;
  free(runner->dir);
}
