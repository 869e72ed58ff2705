/*
 * stall.h - says for whom this process waits, when that one's daemon does not answer.
 */
#ifndef DMI_NODE_STALL_H
#define DMI_NODE_STALL_H

#include "node/process.h"

/* ---- The daemon's ---- */

/* Begins to look, if an operation has asked for it (dmi_access.stalling) or the membership core
 * waits for somebody. */
void dmi_stall_begin(struct dmi_process *process);
void dmi_stall_end(struct dmi_process *process); /* frees it */

#endif
