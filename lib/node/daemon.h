/*
 * daemon.h - what connects a process with its network, its page core and its membership core.
 */
#ifndef DMI_NODE_DAEMON_H
#define DMI_NODE_DAEMON_H

#include "core/member.h"
#include "node/process.h"

/* Fills in what the page core asks of the process. */
void dmi_daemon_core(struct dmi_process *process);
/* What the network calls. */
struct dmi_net_handler dmi_daemon_handler(struct dmi_process *process);
/* What the membership core asks. */
struct dmi_member_env dmi_daemon_member_env(struct dmi_process *process);

#endif
