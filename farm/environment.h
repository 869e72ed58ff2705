/*
 * environment.h - what dmirun and dmifarm put into the environment of the processes that they
 * start.
 */
#ifndef FARM_ENVIRONMENT_H
#define FARM_ENVIRONMENT_H

#include <stdbool.h>

/* `dmifarm run` becomes dmirun, which becomes the master: all of them are one process. */
bool farm_set_master(void);
bool farm_is_master(void);
/* True: dmirun has started this process, or one that it descends from. */
bool farm_launched(void);
/* Takes all of it out, for programs that this process runs. */
void farm_clean_environment(void);

#endif
