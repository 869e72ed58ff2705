/* version.c - which libdmi this is. */
#include "base/version.h"

#include "dmi_api.h"

const char *dmi_version(void) {
  return DMI_VERSION;
}
