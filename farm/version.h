/*
 * version.h - the letters of a version: a, b ... z, aa, ab ...
 */
#ifndef FARM_VERSION_H
#define FARM_VERSION_H

#include <stdbool.h>
#include <stdint.h>

/* New memory. */
char *farm_version_text(uint32_t version);
/* Splits a directory's name at its last dot: TASK.VERSION.  `task_size` are the bytes of TASK.
 * False: it is not such a name. */
bool farm_version_split(const char *name, uint32_t *task_size, uint32_t *version);

#endif
