/*
 * start.c - the start object: main() of every DMI program.  dmicc links it with the program.
 *
 * DMI_main is a strong reference, so that a program without it does not link; the others are weak.
 */
#include "api/start.h"

#pragma weak DMI_thread
#pragma weak DMI_function
#pragma weak DMI_recover
#pragma weak DMI_init
#pragma weak DMI_farm_task
#pragma weak DMI_scaleunit
#pragma weak DMI_start_scale
#pragma weak DMI_judge_rescale
/* Of libdmiox, which is there when the program uses it. */
#pragma weak DMI_ox_start
#pragma weak DMI_ox_stop
#pragma weak DMI_ox_wait
#pragma weak DMI_ox_free
/* Of a program with dmi.hpp. */
#pragma weak dmi_cxx_main
#pragma weak dmi_cxx_thread
#pragma weak dmi_cxx_init
#pragma weak dmi_cxx_recover
#pragma weak dmi_cxx_scaleunit
#pragma weak dmi_cxx_farm_task
#pragma weak dmi_cxx_plain_task
#pragma weak dmi_cxx_has_tasks

/* Of a program in C++ the function that calls its own. */
#define GUARDED(own, cxx) ((own) && (cxx) ? (cxx) : (own))

int main(int argc, char **argv) {
  const struct dmi_program_ox ox = {DMI_ox_start, DMI_ox_stop, DMI_ox_wait, DMI_ox_free};
  const struct dmi_program program = {
      .main = dmi_cxx_main ? dmi_cxx_main : DMI_main,
      .thread = GUARDED(DMI_thread, dmi_cxx_thread),
      .function = DMI_function,
      .init = GUARDED(DMI_init, dmi_cxx_init),
      .recover = GUARDED(DMI_recover, dmi_cxx_recover),
      .farm_task = !dmi_cxx_has_tasks || !dmi_cxx_has_tasks() ? DMI_farm_task
                   : dmi_cxx_farm_task                        ? dmi_cxx_farm_task
                                                              : dmi_cxx_plain_task,
      .scaleunit = GUARDED(DMI_scaleunit, dmi_cxx_scaleunit),
      .start_scale = DMI_start_scale,
      .judge_rescale = DMI_judge_rescale,
      .ox = ox.start ? &ox : NULL,
      .mark = DMI_PROGRAM_MARK,
  };
  return dmi_start(argc, argv, &program);
}
