/*
 * rescale.c - entry points of DMI_rescale.
 */
#include "elastic/scale.h"

#include "api/reported.h"
#include "base/error.h"
#include "node/runtime.h"

/* What DMI_scaleunit returns is no failure of the call. */
int32_t DMI_rescale(int64_t scaleunit_addr, int32_t init_node_num, int32_t thread_num) {
  struct dmi_process *process = dmi_runtime_usable();
  int32_t value = DMI_FALSE, error;
  if (!process) return DMI_REPORTED(DMI_FALSE, DMI_NOTHING);
  DMI_CALLS();
  error = dmi_scale_run(process, scaleunit_addr, init_node_num, thread_num, &value);
  return error == DMI_OK ? value : DMI_REPORTED(dmi_fail(error), DMI_NOTHING);
}

int32_t DMI_check_rescale(int32_t *judge_ptr) {
  return DMI_REPORTED(dmi_runtime_usable() && dmi_result(dmi_scale_check(judge_ptr)), DMI_NOTHING);
}

int32_t DMI_scale_lost(int32_t *num_ptr) {
  return DMI_REPORTED(dmi_runtime_usable() && dmi_result(dmi_scale_lost(num_ptr)), DMI_NOTHING);
}
