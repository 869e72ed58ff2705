/*
 * mutation.h - deliberate faults: each switches off one rule of the protocol, so that tests can
 * show that they would notice.
 *
 * The switches exist only in the copy of the core that is linked to the simulators
 * (test/sim/local.mk defines DMI_MUTATIONS). The library has no code for them: every rule holds
 * there.
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
