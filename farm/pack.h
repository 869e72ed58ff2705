/*
 * pack.h - the programs of a job's bin/ in one piece, as they travel to the workers.
 */
#ifndef FARM_PACK_H
#define FARM_PACK_H

#include <stdint.h>

/* Packs the files of DIR/bin.  *bytes is new memory, NULL if there are none.  NULL, or a message.
 */
char *farm_pack(const char *dir, char **bytes, int64_t *size);
/* Writes them to DIR, which is made.  0, or an errno. */
int farm_unpack(const char *dir, const char *bytes, int64_t size);

#endif
