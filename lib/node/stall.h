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
void dmi_stall_end(struct dmi_process *process); /* frees it */

#endif
