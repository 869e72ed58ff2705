/*
 * witness.c - the program of a witness (dmirun --witness): a process that only votes runs nothing.
 */
#include "api/start.h"

/* A witness joins, so this is never called. */
static void nothing(int argc, char **argv) {
  (void)argc;
  (void)argv;
}

int main(int argc, char **argv) {
  const struct dmi_program program = {.main = nothing, .mark = DMI_PROGRAM_MARK};
  return dmi_start(argc, argv, &program);
}
