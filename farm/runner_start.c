/*
 * runner_start.c - starts the runner, from the worker, and ends it.
 */
#include <errno.h>
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
#include "runner_int.h"

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
  const int here = FTW_PHYS | FTW_MOUNT;
  if (remove(path) == 0 || errno == ENOENT) return;
  if (nftw(path, remove_one, 16, FTW_DEPTH | here) == 0 && access(path, F_OK) != 0) return;
  (void)nftw(path, open_one, 16, here);
  (void)nftw(path, remove_one, 16, FTW_DEPTH | here);
}

/* Everything else is closed there: nobody but this runner has its socket. */
static int spawn(struct farm_runner *runner, char **argv, int socket) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attr;
  sigset_t none;
  int error;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, socket, FARM_RUNNER_SOCKET);
  posix_spawnattr_init(&attr);
  /* A group of its own: Ctrl+C in a terminal is for the worker, which leaves in order. */
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attr, 0);
  posix_spawnattr_setsigmask(&attr, &none);
  error = posix_spawn(&runner->pid, argv[0], &files, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

bool farm_runner_start(struct farm_runner *runner, const char *program, const char *base,
                       int32_t place) {
  char number[16];
  char *argv[] = {(char *)program, (char *)FARM_RUNNER_ARG, (char *)(base ? base : ""), number,
                  NULL};
  int pair[2], error;
  *runner = (struct farm_runner){.socket = -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  snprintf(number, sizeof(number), "%d", place);
  error = spawn(runner, argv, pair[1]);
  close(pair[1]);
  if (error) {
    close(pair[0]);
  } else {
    runner->socket = pair[0];
  }
  errno = error;
  return error == 0;
}

char *farm_runner_ready(const struct farm_runner *runner) {
  struct farm_hello hello;
  ssize_t size;
  do {
    size = recv(runner->socket, &hello, sizeof(hello), 0);
  } while (size < 0 && errno == EINTR);
  if (size == (ssize_t)sizeof(hello) && !hello.error) return farm_strdup(hello.base);
  errno = size == (ssize_t)sizeof(hello) ? hello.error : ECHILD;
  return NULL;
}

void farm_runner_end(struct farm_runner *runner) {
  if (runner->socket < 0) return;
  close(runner->socket);
  runner->socket = -1;
  while (waitpid(runner->pid, NULL, 0) < 0 && errno == EINTR)
    continue;
}
