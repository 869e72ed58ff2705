/*
 * function.h - the functions that the program has registered, by name.
 */
#ifndef DMI_OX_FUNCTION_H
#define DMI_OX_FUNCTION_H

#include <stdbool.h>

#include "dmi_ox.h"

/* NULL: there is none.  Also "+", "-", "*", "/", which clients cannot call. */
DMI_ox_function_t dmi_ox_function_find(const char *name);
bool dmi_ox_function_known(const char *name);

#endif
