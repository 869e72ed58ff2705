/*
 * nodes.h - the processes that are there, and how many threads each is to run: for those that
 * handle notices (farm_run.c, scale.c).
 */
#ifndef DMI_ELASTIC_NODES_H
#define DMI_ELASTIC_NODES_H

#include "dmi_api.h"

struct dmi_process;

/* All members, as DMI_nodes tells them; *num of them, for free().  NULL: DMI_errno() says why. */
DMI_node_t *dmi_nodes_all(struct dmi_process *process, int32_t *num);

/* Threads on a process of so many cores (0: not known); `wanted`: 0, or what the program says. */
int32_t dmi_nodes_threads(int32_t wanted, int32_t core);

#endif
