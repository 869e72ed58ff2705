/*
 * nodes.c - workers on the hosts of a node file, started by dmimw.
 *
 * dmimw's processes join through the job's contact file, and end with the program; then dmimw ends.
 */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "launch.h"

extern char **environ;

static char *start_dmimw(const struct farm_options *options) {
  char *dmimw = farm_beside("dmimw"), *dmifarm = farm_beside("dmifarm");
  char *contact = farm_contact(options), *join = farm_format("@%s", contact);
  char *argv[] = {dmimw,        (char *)"-f", (char *)options->nodefile,
                  (char *)"-i", join,         (char *)"--survive",
                  dmifarm,      NULL};
  posix_spawn_file_actions_t files;
  char *why = NULL;
  pid_t pid;
  int error;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  error = posix_spawnp(&pid, dmimw, &files, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  if (error) why = farm_format("%s: %s", dmimw, strerror(error));
  free(dmimw);
  free(dmifarm);
  free(contact);
  free(join);
  return why;
}

char *farm_nodes_start(const struct farm_options *options) {
  /* dmimw would say so, too, but nobody would come, and the job would wait. */
  if (access(options->nodefile, R_OK) != 0)
    return farm_format("-f %s: %s", options->nodefile, strerror(errno));
  return start_dmimw(options);
}
