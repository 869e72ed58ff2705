/*
 * store.h - the thread that brings results to the disk, as many at once as there are (job.h).
 */
#ifndef FARM_STORE_H
#define FARM_STORE_H

#include <stdbool.h>

#include "job.h"

struct farm_store;

/* `stored` is called in the thread, when something was stored.  NULL: `errno`. */
struct farm_store *farm_store_new(struct farm_job *job, void (*stored)(void));
/* Takes over what `end` owns. */
void farm_store_add(struct farm_store *store, const struct farm_job_end *end);
/* No more will be added, or little: from now on all is stored at once. */
void farm_store_hurry(struct farm_store *store);
/* True: all that was added is on the disk, or *why says what has failed (then nothing is stored any
 * more); it stays the store's. */
bool farm_store_idle(struct farm_store *store, const char **why);
/* Waits until all is stored, or has failed, and ends the thread. */
void farm_store_stop(struct farm_store *store);
/* Once it was stopped. */
void farm_store_free(struct farm_store *store);

#endif
