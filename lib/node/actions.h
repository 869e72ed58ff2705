/*
 * actions.h - carries out what the membership core decides.
 */
#ifndef DMI_NODE_ACTIONS_H
#define DMI_NODE_ACTIONS_H

#include <stdbool.h>

struct dmi_mact;
struct dmi_process;

/* Action VIEW: publishes who is a member now.  Mappings whose home left have a new home already.
 * From now on no thread sends anything but answers to processes that left. */
void dmi_actions_view(struct dmi_process *process, const struct dmi_mact *act);
/* This process is the coordinator, or another one is (again): tells of it, if it is new. */
void dmi_actions_coordinator(struct dmi_process *process);

/* What struct dmi_program_remote says about stopping: all calls that ran here have ended, or (not
 * `stopped`) this process must not leave. */
void dmi_actions_stopped(struct dmi_process *process, bool stopped);
/* The action STOP_THREADS: dmi_openxm_leave has it done again when its server has ended. */
void dmi_actions_stop_threads(struct dmi_process *process);

/* Frees the list of actions; calls that still wait fail with DMI_EINACTIVE. */
void dmi_actions_end(struct dmi_process *process);

#endif
