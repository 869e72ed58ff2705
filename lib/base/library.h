/*
 * library.h - functions of a shared library that is used where it is installed.
 */
#ifndef DMI_BASE_LIBRARY_H
#define DMI_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct dmi_symbol {
  const char *name;
  size_t at; /* offset of the pointer to it */
};

/* Loads the library and sets these pointers in the struct `into`.  False: it is not installed, or
 * lacks one of them; then the struct is not to be used. */
bool dmi_library_load(const char *library, void *into, const struct dmi_symbol *symbols,
                      size_t num);

#endif
