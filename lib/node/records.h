/*
 * records.h - gives the handover access to mappings and page records, and carries out two of its
 * actions.
 */
#ifndef DMI_NODE_RECORDS_H
#define DMI_NODE_RECORDS_H

#include "core/handover.h"
#include "node/process.h"

/* Sets all functions but `receiver`. */
void dmi_records_env(struct dmi_process *process, struct dmi_handover_env *env);

/* Action DMI_ACT_REPLAY: messages that were deferred until HOME_END go to the core now. */
void dmi_records_replay(struct dmi_process *process, struct dmi_map *map);
/* Action DMI_ACT_FREED. */
void dmi_records_freed(struct dmi_process *process, struct dmi_map *map);

#endif
