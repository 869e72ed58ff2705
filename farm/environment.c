/*
 * environment.c - what dmirun and dmifarm put into the environment of the processes that they
 * start.
 */
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MASTER "DMI_FARM_MASTER" /* the pid of the process that is to be the master */

bool farm_set_master(void) {
  char pid[24];
  snprintf(pid, sizeof(pid), "%ld", (long)getpid());
  return setenv(MASTER, pid, 1) == 0;
}

bool farm_is_master(void) {
  const char *pid = getenv(MASTER);
  return pid && strtol(pid, NULL, 10) == (long)getpid();
}

bool farm_launched(void) {
  return getenv("DMI_LAUNCHED");
}

void farm_clean_environment(void) {
  for (char **at = environ; *at;) {
    char *name = strndup(*at, strcspn(*at, "="));
    if (name && strncmp(name, "DMI_", 4) == 0 && unsetenv(name) == 0) {
      at = environ;
    } else {
      at++;
    }
    free(name);
  }
}
