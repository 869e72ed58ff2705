/*
 * status.h - the contents of a DMI_local_status_t: completion of a call, and waiting for it.
 *
 * The library's last access to a status is the store that makes it done (a wake-up by address may
 * follow), so the program may free it from then on.
 */
#ifndef DMI_ACCESS_STATUS_H
#define DMI_ACCESS_STATUS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dmi_api.h"
#include "msg/types.h"

/* The state is 0 before the first call, then IN_FLIGHT or DONE.  While IN_FLIGHT: WAITED if threads
 * sleep on it, and from bit DMI_STATUS_NUDGE on, 1 + the number of dmi_net_nudge for the thread
 * that receives. */
#define DMI_STATUS_IN_FLIGHT 1u
#define DMI_STATUS_DONE 2u
#define DMI_STATUS_WAITED 4u
#define DMI_STATUS_NUDGE 3
#define DMI_STATUS_NUDGE_MOST (1u << 24) /* it is a descriptor */

struct dmi_look_past;
struct dmi_look_rule;
struct dmi_net;

struct dmi_status {
  _Atomic uint32_t state;
  int32_t error;   /* DMI_E*, valid once DONE */
  dmi_uid_t asked; /* uid of the member that must answer; 0: not known.  Written by the thread of
                     the call, before it returns */
  uint32_t begun;  /* with DMI_ON_ERROR: number of the call that it was given to (report.c), 0: its
                      failure was reported already; and its arguments */
  int64_t addr, size;
};

_Static_assert(sizeof(struct dmi_status) <= sizeof(DMI_local_status_t), "status fits");

static inline struct dmi_status *dmi_status_of(DMI_local_status_t *status) {
  return (struct dmi_status *)(void *)status;
}

void dmi_status_begin(struct dmi_status *status);
void dmi_status_done(struct dmi_status *status, int32_t error);
/* Completes a call with a status at once.  Returns DMI_TRUE. */
int32_t dmi_status_succeed(DMI_local_status_t *status);
/* A call fails before it began.  Stores the error in the status, too, if there is one, so that
 * waiting for it ends. Returns DMI_FALSE, and DMI_errno() is set. */
int32_t dmi_status_refuse(DMI_local_status_t *status, int32_t error);
bool dmi_status_is_done(struct dmi_status *status);
/* True if it was given to no call yet: zero bytes, or others that no call leaves there.  (Not all
 * bytes that nobody has set can be told from those.) */
bool dmi_status_is_none(struct dmi_status *status);
/* Spins for a while until it is done, yielding the processor in between. */
void dmi_status_spin(struct dmi_status *status);
/* Waits for at most `ns` nanoseconds (below a second); true if it is done.  Several threads may
 * wait for one status. */
bool dmi_status_wait_for(struct dmi_status *status, int64_t ns);
/* Looks for a while before the caller sleeps, if that pays (base/look.h), for what another thread
 * of this process does. */
void dmi_status_look(struct dmi_status *status, struct dmi_look_past *look,
                     const struct dmi_look_rule *rule);
/* Waits until it is done; returns the error. */
int32_t dmi_status_wait(struct dmi_status *status);
/* The same, but if possible receives from the member that was asked.  `look` NULL:
 * sleeps at once. */
int32_t dmi_status_receive(struct dmi_status *status, struct dmi_net *net,
                           struct dmi_look_past *look);

#endif
