/*
 * master.h - the master of dmifarm: the process that was started by `dmifarm run`.
 */
#ifndef FARM_MASTER_H
#define FARM_MASTER_H

#include "options.h"

/* Called by DMI_main: runs the job.  Returns the exit status of the program. */
int farm_master(const struct farm_options *options);

#endif
