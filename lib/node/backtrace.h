/*
 * backtrace.h - says from where the calling thread came.
 */
#ifndef DMI_NODE_BACKTRACE_H
#define DMI_NODE_BACKTRACE_H

#include "base/safe.h"

/* Adds which thread calls: "thread 1"; "thread 1 of pid 4711", for other processes; "thread 1 of
 * process 2".  Also in a handler of a signal. */
void dmi_backtrace_thread(struct dmi_safe *line);
void dmi_backtrace_pid(struct dmi_safe *line);
void dmi_backtrace_who(struct dmi_safe *line);

/* Writes a line to stderr with `why`, the host, the process and the thread, and below it a line for
 * each function that has not returned; those of the runtime of C++ that throw an exception, of
 * dmi.hpp, and of DMI below DMI_main, DMI_thread and the like are left out.  Any thread, but not in
 * a handler of a signal; slow. */
void dmi_backtrace_say(const char *why);

#endif
