/*
 * sync.h - mutexes, spin locks and conditions in global memory, and watching it (core/syncop.h says
 * how they are stored there).
 *
 * All calls return DMI_TRUE, or DMI_FALSE with DMI_errno() set, and wait in the calling thread.
 */
#ifndef DMI_SYNC_SYNC_H
#define DMI_SYNC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/doing.h"
#include "msg/msg.h"
#include "dmi_api.h"

struct dmi_access;
struct dmi_sync;

/* The list of the locks that threads of this process hold.  NULL: no memory. */
struct dmi_sync *dmi_sync_new(struct dmi_access *access);
void dmi_sync_free(struct dmi_sync *sync);

/* A lock that a thread of this process holds. */
struct dmi_sync_held {
  uint64_t serial; /* from 1, in the order in which they were taken */
  int64_t addr;
  uint64_t doer;                /* dmi_doing_number of the thread */
  uint64_t op;                  /* the operation that took it */
  struct dmi_doing_called call; /* that took it */
};
/* The last of them with a serial below this one, at most `most`, downwards.  Returns how many.  Any
 * thread. */
uint32_t dmi_sync_look(struct dmi_sync *sync, uint64_t below, struct dmi_sync_held *held,
                       uint32_t most);

/* Makes a new object of any kind: writes `size` zero bytes, which must lie in one page. */
int32_t dmi_sync_init(struct dmi_sync *sync, int64_t addr, int64_t size);

/* End a lock, or a condition.  DMI_EBUSY while a thread holds it or waits for it. */
int32_t dmi_sync_destroy_lock(struct dmi_sync *sync, int64_t addr);
int32_t dmi_sync_destroy_cond(struct dmi_sync *sync, int64_t addr);

/* DMI_EOWNERDEAD: the calling thread holds the lock (with dmi_sync_trylock: if *flag says so), and
 * a process was lost that held it. */
int32_t dmi_sync_lock(struct dmi_sync *sync, int64_t addr, bool spin);
int32_t dmi_sync_trylock(struct dmi_sync *sync, int64_t addr, int32_t *flag);
int32_t dmi_sync_unlock(struct dmi_sync *sync, int64_t addr);
/* After DMI_EOWNERDEAD: what the lock guards is consistent again. */
int32_t dmi_sync_consistent(struct dmi_sync *sync, int64_t addr);

int32_t dmi_sync_cond_wait(struct dmi_sync *sync, int64_t cond, int64_t mutex);
/* Wakes at most so many waiting threads. */
int32_t dmi_sync_signal(struct dmi_sync *sync, int64_t cond, uint64_t most);

int32_t dmi_sync_watch(struct dmi_sync *sync, int64_t addr, int64_t size, const void *in, void *out,
                       DMI_local_status_t *status);

#endif
