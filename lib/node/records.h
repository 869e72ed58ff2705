/*
 * records.h - gives the handover and the recovery from a loss access to mappings, page records and
 * operations, and carries out some of their actions.
 */
#ifndef DMI_NODE_RECORDS_H
#define DMI_NODE_RECORDS_H

#include "core/handover.h"
#include "node/process.h"

/* Sets all functions but `receiver`. */
void dmi_records_env(struct dmi_process *process, struct dmi_handover_env *env);

void dmi_records_ops(struct dmi_process *process, struct dmi_recover_env *env);

/* Action DMI_ACT_RESUMED: messages that were held go to the pages and the node, in order.  What is
 * held again goes to the end of the same queue. */
void dmi_records_replay_held(struct dmi_process *process);
/* Action DMI_ACT_REPLAY: messages that were deferred until HOME_END go to the core now. */
void dmi_records_replay(struct dmi_process *process, struct dmi_map *map);
/* Action DMI_ACT_FREED. */
void dmi_records_freed(struct dmi_process *process, struct dmi_map *map);

#endif
