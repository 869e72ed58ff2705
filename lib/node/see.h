/*
 * see.h - answers those who look at the running program (docs/seeing.md): dmirun --status and the
 * like.  They have proved that they know the key, and can change nothing.
 */
#ifndef DMI_NODE_SEE_H
#define DMI_NODE_SEE_H

#include "node/process.h"

struct dmi_see *dmi_see_new(struct dmi_process *process); /* NULL: no memory */
/* When the daemon has ended, and before anything that can be seen is freed. */
void dmi_see_end(struct dmi_process *process);

/* ---- For the daemon ---- */

/* Handles a message of class SEE.  False: a correct peer does not send it. */
bool dmi_see_message(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg);
/* This member does not answer: a line says which thread waits for it, at which page.  Later. */
void dmi_see_stalled(struct dmi_process *process, dmi_uid_t uid, const char *name);
/* What the threads here are doing goes to a file, and a line says to which.  Later. */
void dmi_see_dump(struct dmi_process *process);
/* This process ends in order: those who look are told.  `all`: so does the program, with `status`.
 */
void dmi_see_farewell(struct dmi_process *process, bool all, int status);
/* This temporary connection was lost. */
void dmi_see_lost(struct dmi_process *process, uint32_t temp);

#endif
