/*
 * stall.h - says which process does not answer while this one waits for it.
 */
#ifndef DMI_NODE_STALL_H
#define DMI_NODE_STALL_H

#include "node/process.h"

/* ---- For the daemon thread ---- */

/* Starts to look once a second, if an operation has asked for it (dmi_access.stalling) or the
 * membership core waits for a process. */
void dmi_stall_begin(struct dmi_process *process);
/* For half of dead_after nothing has come of this member, not even pulses (core/pulse.h): it is
 * named as those that are waited for; false: something has come. */
void dmi_stall_silent(struct dmi_process *process, dmi_uid_t uid, bool silent);
void dmi_stall_lost(struct dmi_process *process, dmi_uid_t uid); /* it is waited for no more */
void dmi_stall_end(struct dmi_process *process);                 /* frees it */

#endif
