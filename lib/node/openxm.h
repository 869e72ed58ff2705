/*
 * openxm.h - the server for OpenXM clients of a process (dmirun --ox): a server of libdmiox, which
 * the program is linked with, and what the process and it have to know of each other.
 *
 * It listens before the process joins, so that a port in use ends it with a line.  Sessions begin
 * at once, but functions wait until the process is a member.  While a function runs the program
 * does not end; a session that only waits for its client does not count.  It ends when the process
 * is dismissed, DMI_exit was called, or the program ends: sessions are closed, functions are told
 * (DMI_ox_interrupted) and waited for.
 */
#ifndef DMI_NODE_OPENXM_H
#define DMI_NODE_OPENXM_H

#include <stdbool.h>

struct dmi_process;

/* Listens, if that was asked for.  False: it cannot; an event said why.  Before the daemon. */
bool dmi_openxm_begin(struct dmi_process *process);
/* Ends it, and frees it.  Behind the daemon; what it has posted was dropped. */
void dmi_openxm_end(struct dmi_process *process);

/* ---- In the daemon thread ---- */
/* This process is a member. */
void dmi_openxm_joined(struct dmi_process *process);
/* DMI_exit was called. */
void dmi_openxm_stopping(struct dmi_process *process);
/* This process is to leave.  False: the server is still ending, and dmi_actions_stop_threads is
 * called when it has. */
bool dmi_openxm_leave(struct dmi_process *process);
/* A function runs here. */
bool dmi_openxm_runs(const struct dmi_process *process);

#endif
