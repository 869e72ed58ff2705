/*
 * records.h - mappings and page records for the handover, and two of its actions.
 */
#ifndef DMI_NODE_RECORDS_H
#define DMI_NODE_RECORDS_H

#include "core/handover.h"
#include "node/process.h"

/* All but `receiver`. */
void dmi_records_env(struct dmi_process *process, struct dmi_handover_env *env);

/* DMI_ACT_REPLAY: what was kept until HOME_END goes through the core again. */
void dmi_records_replay(struct dmi_process *process, struct dmi_map *map);
/* DMI_ACT_FREED. */
void dmi_records_freed(struct dmi_process *process, struct dmi_map *map);

#endif
