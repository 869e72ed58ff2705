/*
 * start.h - what the start object, compiled into every program, hands to the library.
 *
 * The library must not name the program's functions itself: a shared libdmi is linked without them,
 * and all but DMI_main are optional.
 */
#ifndef DMI_API_START_H
#define DMI_API_START_H

#include "dmi_api.h"

/* The functions that a program defines; thread and function are NULL when it does not. */
typedef struct dmi_program {
  void (*main)(int argc, char **argv);
  int64_t (*thread)(int64_t addr);
  void (*function)(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                   int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag);
} dmi_program_t;

/* Runs the program to its end; returns the exit status of the process.  Called once, by main(). */
__attribute__((visibility("default"))) int dmi_start(int argc, char **argv,
                                                     const dmi_program_t *program);

#endif
