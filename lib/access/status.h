/*
 * status.h - what is inside a DMI_local_status_t: completion of a call, and waiting for it.
 *
 * The last access to a status by the library is the store that says "done" (a wake-up by address
 * may follow), so its program may forget it from then on.
 */
#ifndef DMI_ACCESS_STATUS_H
#define DMI_ACCESS_STATUS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dmi_api.h"

/* The state: 0 before the first call, else OUT or DONE; while OUT, WAITED when threads sleep on it,
 * and from bit DMI_STATUS_NUDGE on the number of dmi_net_nudge + 1 for the one that receives. */
#define DMI_STATUS_IN_FLIGHT 1u
#define DMI_STATUS_DONE 2u
#define DMI_STATUS_WAITED 4u
#define DMI_STATUS_NUDGE 3

struct dmi_net;

struct dmi_status {
  _Atomic uint32_t state;
  int32_t error;  /* DMI_E*, valid once DONE */
  uint32_t asked; /* uid of a member whose answer is waited for, 0: none known.  Written before the
                     call returns, by its thread */
  uint32_t begun; /* with DMI_ON_ERROR: the call that it was given to (report.c), 0: that has said
                     itself that it failed; and its arguments */
  int64_t addr, size;
};

_Static_assert(sizeof(struct dmi_status) <= sizeof(DMI_local_status_t), "status fits");

static inline struct dmi_status *dmi_status_of(DMI_local_status_t *status) {
  return (struct dmi_status *)(void *)status;
}

void dmi_status_begin(struct dmi_status *status);
void dmi_status_done(struct dmi_status *status, int32_t error);
/* A call fails before it began: the status, if there is one, says so too, so that waiting for it
 * ends. Returns DMI_FALSE, and DMI_errno() is set. */
int32_t dmi_status_refuse(DMI_local_status_t *status, int32_t error);
bool dmi_status_is_done(struct dmi_status *status);
/* All zero bytes: no call was given it yet. */
bool dmi_status_is_new(struct dmi_status *status);
/* Looks for a while whether it is done, and gives others the processor in between; then gives up.
 */
void dmi_status_spin(struct dmi_status *status);
/* Waits for at most so many nanoseconds (below a second); returns whether it is done.  Several
 * threads may wait for one status. */
bool dmi_status_wait_for(struct dmi_status *status, int64_t ns);
/* Returns the error. */
int32_t dmi_status_wait(struct dmi_status *status);
/* The same, receiving from the member that was asked, if that is possible. */
int32_t dmi_status_receive(struct dmi_status *status, struct dmi_net *net);

#endif
