/*
 * lease.h - pauses all pages of this process while it has no lease (docs/crashes.md, "Leases").
 */
#ifndef DMI_NODE_LEASE_H
#define DMI_NODE_LEASE_H

#include <stdbool.h>

struct dmi_lease;
struct dmi_process;

/* Begins the thread.  NULL: the system allows no more. */
struct dmi_lease *dmi_lease_new(struct dmi_process *process);
/* The lease has run out (`paused`), or is in force again.  Any thread, with any locks held. */
void dmi_lease_set(struct dmi_lease *lease, bool paused);
/* Ends the thread and frees it; NULL: does nothing. */
void dmi_lease_free(struct dmi_lease *lease);

#endif
