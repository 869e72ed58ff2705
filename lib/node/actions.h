/*
 * actions.h - carries out what the membership core decides.
 */
#ifndef DMI_NODE_ACTIONS_H
#define DMI_NODE_ACTIONS_H

struct dmi_process;

/* Frees the list of actions; calls that still wait fail with DMI_EINACTIVE. */
void dmi_actions_end(struct dmi_process *process);

#endif
