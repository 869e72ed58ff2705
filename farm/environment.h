/*
 * environment.h - what dmirun puts into the environment of the processes that it starts.
 */
#ifndef FARM_ENVIRONMENT_H
#define FARM_ENVIRONMENT_H

#include <stdbool.h>

/* True: dmirun has started this process. */
bool farm_launched(void);
/* Takes it out, for programs that this process runs. */
void farm_clean_environment(void);

#endif
