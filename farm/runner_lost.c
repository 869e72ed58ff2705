/*
 * runner_lost.c - ends what a runner has left that was killed.
 *
 * The processes of its task have its number in their environment (runner_int.h).  One that has
 * cleared its environment is not found; the first process of a task ends with its runner anyway.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "alloc.h"
#include "runner_int.h"

static bool has_tag(long pid, const char *tag) {
  char *path = farm_format("/proc/%ld/environ", pid), *line = NULL;
  size_t room = 0;
  bool found = false;
  FILE *file = fopen(path, "re");
  while (file && !found && getdelim(&line, &room, '\0', file) > 0)
    found = strcmp(line, tag) == 0;
  free(path);
  free(line);
  if (file) fclose(file);
  return found;
}

/* Ends a process, and waits for that; the descriptor means this one, whoever gets its number. */
static bool end_process(long pid, const char *tag) {
  struct pollfd end = {.fd = pidfd_open((pid_t)pid, 0), .events = POLLIN};
  const bool ends =
      end.fd >= 0 && has_tag(pid, tag) && pidfd_send_signal(end.fd, SIGKILL, NULL, 0) == 0;
  while (ends && poll(&end, 1, -1) < 0 && errno == EINTR)
    continue;
  if (end.fd >= 0) close(end.fd);
  return ends;
}

void farm_runner_lost(const struct farm_runner *runner) {
  char *tag = farm_format("%s=%ld", FARM_RUN_TAG, (long)runner->pid);
  bool any = true;
  while (any) { /* meanwhile they may start others */
    DIR *all = opendir("/proc");
    any = false;
    for (struct dirent *entry; all && (entry = readdir(all));) {
      const long pid = strtol(entry->d_name, NULL, 10);
      if (pid > 0 && pid != (long)runner->pid && end_process(pid, tag)) any = true;
    }
    if (all) closedir(all);
  }
  free(tag);
}
