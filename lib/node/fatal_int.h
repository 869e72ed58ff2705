/*
 * fatal_int.h - private to node/fatal*.c: what a fatal signal is about.
 */
#ifndef DMI_NODE_FATAL_INT_H
#define DMI_NODE_FATAL_INT_H

#include <signal.h>
#include <stdint.h>

struct dmi_fatal {
  int number;
  const char *name; /* of the signal */
  const siginfo_t *info;
  uint64_t pc, sp; /* of the thread when it came; 0: not known on this machine */
  /* SIGSEGV: the address was */
  enum { DMI_FATAL_USED, DMI_FATAL_READ, DMI_FATAL_WRITTEN } access;
};

/* Before any signal comes: finds what dmi_fatal_say needs. */
void dmi_fatal_prepare(void);

/* Writes all lines to stderr.  In the handler: nothing here may allocate or lock. */
void dmi_fatal_say(const struct dmi_fatal *fatal);

#endif
