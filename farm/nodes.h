/*
 * nodes.h - workers on the hosts of a node file, started by dmimw.
 */
#ifndef FARM_NODES_H
#define FARM_NODES_H

#include "options.h"

/* Starts dmimw for options->nodefile; it ends with the program.  NULL, or a message in new memory.
 */
char *farm_nodes_start(const struct farm_options *options);

#endif
