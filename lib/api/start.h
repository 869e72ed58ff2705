/*
 * start.h - what the start object, compiled into every program, calls in the library.
 */
#ifndef DMI_API_START_H
#define DMI_API_START_H

#include "dmi_api.h"
#include "dmi_ext.h"
#include "dmi_farm.h"
#include "dmi_ox.h"
#include "node/program.h"

/* Runs the program to its end; returns the exit status of the process.  Called once, by main(). */
__attribute__((visibility("default"))) int dmi_start(int argc, char **argv,
                                                     const struct dmi_program *program);

#endif
