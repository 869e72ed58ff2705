/*
 * options.h - what the command line of dmifarm says.
 */
#ifndef FARM_OPTIONS_H
#define FARM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct farm_options {
  bool help; /* is asked for; nothing else matters */
  const char *job;
  const char *nodefile; /* NULL: none */
  int32_t local;        /* places of the first process; -1: one for each core */
  uint32_t copies, retries;
  uint64_t timeout_ms; /* of a task; 0: none */
  char **dmirun;       /* options for it, ended by NULL; into argv */
};

/* What follows `dmifarm run`.  NULL, or a message in new memory. */
char *farm_options_read(struct farm_options *options, int argc, char **argv);

#endif
