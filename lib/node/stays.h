/*
 * stays.h - says once why a process is still there, when it was asked to leave some time ago.
 */
#ifndef DMI_NODE_STAYS_H
#define DMI_NODE_STAYS_H

#include "node/process.h"

/* ---- For the daemon thread ---- */

/* The first request to leave has come. */
void dmi_stays_begin(struct dmi_process *process);
/* What the end of this process, at once, would end; static. */
const char *dmi_stays_ends(const struct dmi_process *process);
void dmi_stays_end(struct dmi_process *process); /* frees it */

#endif
