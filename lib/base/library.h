/*
 * library.h - functions of an optional shared library, loaded at run time.
 */
#ifndef DMI_BASE_LIBRARY_H
#define DMI_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct dmi_symbol {
  const char *name;
  size_t at; /* offset of the function pointer in the struct */
};

/* Loads the library and sets these pointers in the struct `into`. False: it is not installed, or
 * lacks one of the functions; the struct must not be used then. */
bool dmi_library_load(const char *library, void *into, const struct dmi_symbol *symbols,
                      size_t num);

#endif
