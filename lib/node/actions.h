/*
 * actions.h - carrying out what the membership core decides.
 */
#ifndef DMI_NODE_ACTIONS_H
#define DMI_NODE_ACTIONS_H

struct dmi_process;

/* Frees the list of actions, and completes calls that still wait with DMI_EINACTIVE. */
void dmi_actions_end(struct dmi_process *process);

#endif
