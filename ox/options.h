/*
 * options.h - the options of ox_dmi.
 */
#ifndef OX_OPTIONS_H
#define OX_OPTIONS_H

#include <stdbool.h>

#include "dmi_ox.h"

/* Adds what the user asks for; ends the process with a line when that is wrong.  False: no port is
 * given.  The password is to be freed. */
bool ox_options_read(DMI_ox_options_t *options, int argc, char **argv);
/* Ends the process with a line: there has to be a port. */
void ox_options_none(void);

#endif
