/*
 * sync.h - mutexes, spin locks and conditions in global memory, and watching it (core/syncop.h says
 * what they are there).
 *
 * All return DMI_TRUE or DMI_FALSE, DMI_errno() set, and wait in the calling thread.
 */
#ifndef DMI_SYNC_SYNC_H
#define DMI_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/msg.h"
#include "dmi_api.h"

struct dmi_access;
struct dmi_sync;

/* What this process knows of the locks that its threads hold.  NULL: no memory. */
struct dmi_sync *dmi_sync_new(struct dmi_access *access);
void dmi_sync_free(struct dmi_sync *sync);

/* `size` zero bytes, in one page: a new object of any kind. */
int32_t dmi_sync_init(struct dmi_sync *sync, int64_t addr, int64_t size);

/* A mutex or a condition: fails while somebody holds it or waits. */
int32_t dmi_sync_destroy(struct dmi_sync *sync, int64_t addr);

int32_t dmi_sync_lock(struct dmi_sync *sync, int64_t addr, bool spin);
int32_t dmi_sync_trylock(struct dmi_sync *sync, int64_t addr, int32_t *flag);
int32_t dmi_sync_unlock(struct dmi_sync *sync, int64_t addr);

int32_t dmi_sync_cond_wait(struct dmi_sync *sync, int64_t cond, int64_t mutex);
/* Lets at most so many waiters go. */
int32_t dmi_sync_signal(struct dmi_sync *sync, int64_t cond, uint64_t most);

int32_t dmi_sync_watch(struct dmi_sync *sync, int64_t addr, int64_t size, const void *in, void *out,
                       DMI_local_status_t *status);

#endif
