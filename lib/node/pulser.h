/*
 * pulser.h - the pulse thread: carries the messages of core/pulse.h over the second network of the
 * process, and tells the daemon what they mean.
 */
#ifndef DMI_NODE_PULSER_H
#define DMI_NODE_PULSER_H

#include "core/member.h"
#include "node/process.h"

/* ---- The daemon's ---- */

/* A view was published.  With the first one the thread begins: also with dead_after 0, as others
 * may miss this process.  False: the system does not allow it; a line has said so, and this process
 * ends, as it cannot take part. */
bool dmi_pulser_view(struct dmi_process *process, const struct dmi_mact *view);

/* What membership asks of it, if the program survives losses; its argument is the process. */
extern const struct dmi_member_survive dmi_pulser_survive;

/* A connection of the daemon's with this member ended unexpectedly.  Does nothing unless the
 * program survives losses. */
void dmi_pulser_broken(struct dmi_process *process, dmi_uid_t uid);

/* dmi_pulse_stood_still, of now. */
bool dmi_pulser_stood_still(struct dmi_process *process, char text[DMI_PULSE_STOOD]);

/* The program ends for this process: from now on nobody is missed. */
void dmi_pulser_ending(struct dmi_process *process);

/* Ends the thread and frees everything; the daemon's loop is over.  If the process ends in order,
 * so do its connections. */
void dmi_pulser_end(struct dmi_process *process);

#endif
