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

/* Of a program in C++ (dmi/guard.hpp): they call the program's functions, and catch exceptions. */
void dmi_cxx_main(int argc, char **argv);
int64_t dmi_cxx_thread(int64_t addr);
void dmi_cxx_init(int argc, char **argv);
int32_t dmi_cxx_recover(int argc, char **argv, int32_t lost_id);
int32_t dmi_cxx_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr);
int32_t dmi_cxx_farm_task(int64_t task, void *out, int64_t size, const void *job);
int32_t dmi_cxx_plain_task(int64_t task, void *out, int64_t size, const void *job);
int dmi_cxx_has_tasks(void); /* does it define DMI_farm_task, or call dmi::parallel_for? */

#endif
