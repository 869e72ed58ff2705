/*
 * dmi.hpp - DMI for C++17: typed global pointers, arrays, locks, futures, farms and remote
 * functions.
 *
 * A program includes this one header, and is compiled with dmicxx.  All calls of C may be used
 * beside it (dmi_api.h and dmi_ext.h are included): it is nothing but these calls, inline.
 *
 *   dmi/error.hpp    errors: exceptions, or codes with DMI_NO_EXCEPTIONS
 *   dmi/memory.hpp   ptr, array, view, local copies, future
 *   dmi/sync.hpp     mutex, condition_variable, barrier
 *   dmi/process.hpp  processes and threads
 *   dmi/farm.hpp     parallel_for
 *   dmi/remote.hpp   remote functions and their data
 *   dmi/guard.hpp    what becomes of an exception that nobody catches
 */
#ifndef DMI_HPP
#define DMI_HPP

#include "dmi/error.hpp"
#include "dmi/farm.hpp"
#include "dmi/guard.hpp"
#include "dmi/memory.hpp"
#include "dmi/process.hpp"
#include "dmi/remote.hpp"
#include "dmi/sync.hpp"

#endif
