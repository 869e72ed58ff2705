/*
 * exits.h - ends of threads and processes that a program makes by itself while it runs:
 * pthread_exit where a thread must return, exit(), quick_exit().
 */
#ifndef DMI_NODE_EXITS_H
#define DMI_NODE_EXITS_H

#include "node/process.h"

/* Of functions that have a handler for pthread_exit (pthread_cleanup_push): the C library comes
 * back to them by a jump that the address sanitizer does not see, so what it knows of the stack is
 * wrong there. */
#define DMI_EXITS_JUMP __attribute__((no_sanitize_address))

/* The calling thread ends, by pthread_exit or pthread_cancel, within a function of the program that
 * has to return, `what`: the process cannot go on without that thread.  Says so, to the other
 * members too, and ends the OS process. */
_Noreturn void dmi_exits_thread(struct dmi_process *process, const char *what);

/* The calling thread is about to run DMI_function.  Should it end there, and no handler of DMI's
 * see it, as in a thread that the program has made by itself, that is found when its keys are
 * destroyed. */
void dmi_exits_in_function(struct dmi_process *process);

/* From now on, until dmi_exits_end, exit() and quick_exit() of this OS process are told.  Once. */
void dmi_exits_begin(void);
void dmi_exits_end(void);

#endif
