/*
 * rescale_none_dmi.c - calls DMI_rescale, but defines no DMI_scaleunit.
 */
#include "dmi_ext.h"

void DMI_main(int argc, char **argv) {
  (void)argc, (void)argv;
  if (!DMI_rescale(0, 1, 1)) printf("%s\n", DMI_strerrorname(DMI_errno()));
}
