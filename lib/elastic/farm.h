/*
 * farm.h - farms of tasks (include/dmi_farm.h; docs/elastic.md, "A farm of tasks").
 */
#ifndef DMI_ELASTIC_FARM_H
#define DMI_ELASTIC_FARM_H

#include "dmi_farm.h"
#include "node/process.h"

/* All return DMI_TRUE or DMI_FALSE. */
int32_t dmi_farm_run(struct dmi_process *process, DMI_farm_t *farm);
int32_t dmi_farm_result(struct dmi_process *process, const DMI_farm_t *farm, int64_t task,
                        void *out, int32_t *status);
int32_t dmi_farm_failed(struct dmi_process *process, const DMI_farm_t *farm, int64_t from,
                        int64_t *task, int32_t *status);
int32_t dmi_farm_free(struct dmi_process *process, DMI_farm_t *farm);

#endif
