/*
 * launch.c - dmifarm starts itself with dmirun.
 */
#include "launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "environment.h"
#include "job.h"

static char *this_program(void) {
  char *path = farm_alloc(4096);
  if (readlink("/proc/self/exe", path, 4095) > 0) return path;
  free(path);
  return farm_strdup("dmifarm");
}

char *farm_beside(const char *name) {
  char *path = this_program(), *slash = strrchr(path, '/'), *beside;
  if (slash) *slash = '\0';
  beside = farm_format("%s/%s", slash ? path : ".", name);
  free(path);
  if (access(beside, X_OK) == 0) return beside;
  free(beside);
  return farm_strdup(name); /* in PATH, then */
}

char *farm_contact(const struct farm_options *options) {
  char *job = realpath(options->job, NULL);
  char *path = farm_format("%s/.dmifarm/contact", job ? job : options->job);
  free(job);
  return path;
}

/* So that there is a place for the contact file. */
static char *make_state(const struct farm_options *options) {
  char *tasks = farm_format("%s/tasks", options->job);
  char *state = farm_format("%s/.dmifarm", options->job), *why = NULL;
  if (access(tasks, F_OK) != 0) {
    why = farm_format("%s: %s", options->job,
                      access(options->job, F_OK) == 0 ? "not a job: it has no directory `tasks`"
                                                      : strerror(errno));
  } else if (mkdir(state, 0777) != 0 && errno != EEXIST) {
    why = farm_format("%s: %s", state, strerror(errno));
  }
  free(tasks);
  free(state);
  return why;
}

char *farm_launch(const struct farm_options *options, int argc, char **argv) {
  char *why = make_state(options), *dmirun = farm_beside("dmirun");
  if (!why) why = farm_job_busy(options->job); /* dmirun would replace its contact file */
  int num = 0;
  char **args;
  if (why) {
    free(dmirun);
    return why;
  }
  for (char **at = options->dmirun; *at; at++)
    num++;
  args = farm_alloc((size_t)(num + argc + 8) * sizeof(*args));
  num = 0;
  args[num++] = dmirun;
  args[num++] = farm_strdup("--survive");
  args[num++] = farm_strdup("--contact");
  args[num++] = farm_contact(options);
  for (char **at = options->dmirun; *at; at++)
    args[num++] = *at;
  args[num++] = this_program();
  for (int i = 1; i < argc; i++)
    args[num++] = argv[i];
  if (farm_set_master()) execvp(dmirun, args);
  return farm_format("%s: %s", dmirun, strerror(errno));
}
