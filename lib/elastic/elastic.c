/*
 * elastic.c - what a program can use of this folder.
 */
#include "elastic/elastic.h"

#include "base/error.h"
#include "elastic/farm_int.h"
#include "elastic/scale.h"

void dmi_elastic_use(struct dmi_program *program) {
  if (program->farm_task) {
    program->inner[DMI_BODY_FARM] = dmi_farm_thread;
    program->step = dmi_farm_table_rmw;
  }
  if (program->scaleunit) program->inner[DMI_BODY_SCALE] = dmi_scale_thread;
}

int32_t dmi_elastic_begin(struct dmi_process *process, const char *who) {
  const char *_Atomic *has = &process->elastic;
  const char *none = NULL;
  if (dmi_farm_in_task()) return dmi_because(DMI_EBUSY, "DMI_farm_task has called it");
  if (dmi_scale_in_unit()) return dmi_because(DMI_EBUSY, "DMI_scaleunit has called it");
  if (atomic_compare_exchange_strong(has, &none, who)) return DMI_OK;
  return dmi_because_so(DMI_EBUSY, "%s handles all notices in this process already", none);
}

void dmi_elastic_end(struct dmi_process *process) {
  atomic_store(&process->elastic, NULL);
  if (process->remote) process->program.remote->polls(process->remote);
}
