/*
 * daemon.h - the functions that the network, the page core and the membership core call in a
 * process.
 */
#ifndef DMI_NODE_DAEMON_H
#define DMI_NODE_DAEMON_H

#include "core/member.h"
#include "node/process.h"

/* Fills in the functions that the page core calls. */
void dmi_daemon_core(struct dmi_process *process);
/* The functions that the network calls. */
struct dmi_net_handler dmi_daemon_handler(struct dmi_process *process);
/* A new number for a list of members (struct dmi_process.uids). */
uint64_t dmi_daemon_uids_number(void);
/* The functions that the membership core calls. */
struct dmi_member_env dmi_daemon_member_env(struct dmi_process *process);

#endif
