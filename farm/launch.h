/*
 * launch.h - dmifarm starts itself with dmirun.
 */
#ifndef FARM_LAUNCH_H
#define FARM_LAUNCH_H

#include "options.h"

/* Becomes dmirun, which runs this command again.  Returns only if that fails: a message in new
 * memory. */
char *farm_launch(const struct farm_options *options, int argc, char **argv);
/* The path of another program of DMI, which is beside this one; new memory. */
char *farm_beside(const char *name);
/* Where the job's contact file is: how workers of a node file find the program.  New memory. */
char *farm_contact(const struct farm_options *options);

#endif
