/*
 * functions.c - see functions.h.
 */
#include "functions.h"

#include <stdlib.h>

#include "dmi_ox.h"
#include "parts.h"

bool ox_runs_alone(void) {
  return getenv("DMI_LAUNCHED") == NULL;
}

static DMI_ox_value_t *processes(DMI_ox_value_t *const *args, int64_t num) {
  (void)args;
  if (num != 0) return DMI_ox_error("processes(): it has no arguments");
  return ox_parts_processes();
}

void ox_functions_register(void) {
  (void)DMI_ox_function("nqueens", ox_nqueens);
  (void)DMI_ox_function("matmul", ox_matmul);
  (void)DMI_ox_function("processes", processes);
}
