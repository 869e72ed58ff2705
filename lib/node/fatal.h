/*
 * fatal.h - a signal that ends this OS process (SIGSEGV, SIGABRT, ...): before it does, lines say
 * which thread it was, in which call of DMI, why, and from where.
 */
#ifndef DMI_NODE_FATAL_H
#define DMI_NODE_FATAL_H

/* From now on they are said.  A signal that the program, or a sanitizer, handles is left to that
 * one.  Signals belong to the OS process: to be called for a normal program only. */
void dmi_fatal_begin(void);

/* Ends this OS process by abort(), as a call of the API has failed: the lines give `why` as the
 * reason, and begin with the place that has called (a return address). */
_Noreturn void dmi_fatal_abort(const char *why, const void *caller);

/* A stack for handlers of signals, of the calling thread, whose own may be what is used up; the
 * thread frees it at its end.  NULL: it needs none, or has one. */
void *dmi_fatal_stack(void);
void dmi_fatal_stack_free(void *stack);

#endif
