/*
 * mutation.h - deliberate faults: one rule of the protocol switched off, so that tests can show
 * that they would notice.
 *
 * The switches exist only in the copy of the core that the simulators are linked with
 * (test/sim/local.mk defines DMI_MUTATIONS).  In the library every rule holds, and none of this
 * leaves a trace.
 */
#ifndef DMI_BASE_MUTATION_H
#define DMI_BASE_MUTATION_H

#include <stdbool.h>

/* True if this rule is switched off in `side` (a struct with a field `broken`). */
#ifdef DMI_MUTATIONS
#define DMI_BROKEN(side, rule) ((side)->broken == (rule))
#else
#define DMI_BROKEN(side, rule) ((void)(side), false)
#endif

#endif
