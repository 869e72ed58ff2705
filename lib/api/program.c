/* program.c - runs a DMI program from start to end.  So far: DMI_main alone, in one process. */
#include "api/start.h"

int dmi_start(int argc, char **argv, const dmi_program_t *program) {
  program->main(argc, argv);
  return 0;
}
