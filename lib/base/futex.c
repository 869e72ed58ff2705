/*
 * futex.c - see futex.h.
 */
#include "base/futex.h"

__thread uint64_t dmi_wakes;
