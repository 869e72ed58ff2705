/*
 * environment.c - what dmirun puts into the environment of the processes that it starts.
 */
#include "environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool farm_launched(void) {
  return getenv("DMI_PARENT_PID") || getenv("DMI_LISTEN_PORT");
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
