/*
 * farm.c - entry points of dmi_farm.h.
 */
#include <stdio.h>

#include "api/reported.h"
#include "base/error.h"
#include "elastic/farm.h"
#include "node/runtime.h"

int32_t DMI_farm_run(DMI_farm_t *farm_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_farm_run(process, farm_ptr) : DMI_FALSE, DMI_NOTHING);
}

int32_t DMI_farm_result(const DMI_farm_t *farm_ptr, int64_t task, void *out, int32_t *status_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_farm_result(process, farm_ptr, task, out, status_ptr) : DMI_FALSE, DMI_NOTHING);
}

int32_t DMI_farm_failed(const DMI_farm_t *farm_ptr, int64_t from, int64_t *task_ptr,
                        int32_t *status_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(
      process ? dmi_farm_failed(process, farm_ptr, from, task_ptr, status_ptr) : DMI_FALSE,
      DMI_NOTHING);
}

int32_t DMI_farm_free(DMI_farm_t *farm_ptr) {
  struct dmi_process *process = dmi_runtime_usable();
  return DMI_REPORTED(process ? dmi_farm_free(process, farm_ptr) : DMI_FALSE, DMI_NOTHING);
}

static void print_leave(FILE *file, const DMI_farm_event_t *event) {
  if (event->value) {
    fprintf(file, "no tasks in %d any more (it stays until the end)\n", event->dmi_id);
  } else {
    fprintf(file, "goodbye %d!\n", event->dmi_id);
  }
}

void DMI_farm_print(const DMI_farm_event_t *event, void *arg) {
  FILE *file = arg ? arg : stdout;
  switch (event->kind) {
    case DMI_FARM_JOIN:
      fprintf(file, "welcome %d!\n", event->dmi_id);
      break;
    case DMI_FARM_LEAVE:
      print_leave(file, event);
      break;
    case DMI_FARM_LOSS:
      fprintf(file, "lost %d!\n", event->dmi_id);
      break;
    case DMI_FARM_IDLE:
      fprintf(file, "waiting for a process to join\n");
      break;
    case DMI_FARM_FEW:
      fprintf(file, "waiting to begin: %d of %d processes are there\n", event->processes,
              event->processes + (int32_t)event->value);
      break;
    default:
      return;
  }
  fflush(file);
}
