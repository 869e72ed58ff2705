/*
 * place.h - where a call is to run: by the time that moving its inputs there takes, and by what the
 * servers have to do already; and which calls are worth stealing (docs/remote.md, "Placing").
 *
 * Pure, without state.
 */
#ifndef DMI_REMOTE_PLACE_H
#define DMI_REMOTE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A server that may get the call. */
struct dmi_remote_candidate {
  uint64_t there; /* bytes of the call's inputs that need not be moved there */
  uint64_t made;  /* bytes of inputs that it goes on with, and that are or will be made there */
  uint64_t load;  /* ns: what the calls take that it has and that are not done */
  uint64_t rate;  /* bytes that reach it in a microsecond; at least 1 */
  uint32_t cores; /* at least 1 */
  uint64_t limit; /* bytes of inputs and outputs that it can hold for one call; 0: any */
  uint64_t last;  /* when it got a call last: any number that grows */
};

struct dmi_remote_demand {
  uint64_t inputs; /* bytes */
  uint64_t memory; /* bytes of inputs and outputs, for the limit */
  uint64_t took;   /* ns: what such a call takes; at least 1 */
};

#define DMI_REMOTE_NOWHERE SIZE_MAX

/* What it costs to run the call there: the time until a core is free and the inputs are there, in
 * 1/1024 of the time that the call takes. */
uint64_t dmi_remote_place_cost(const struct dmi_remote_candidate *at,
                               const struct dmi_remote_demand *demand);

/* The index of the cheapest candidate, where a load that is a little above the least one (by one
 * such call if that is 8 or more, by a 32nd if it is 32 or more) counts as that, and bytes that are
 * moved in less than a quarter of the time of the call as none; of equal ones that where more of
 * the bytes are made, then that which got no call for longest, then the first.  DMI_REMOTE_NOWHERE:
 * none can hold the call. */
size_t dmi_remote_place_choose(const struct dmi_remote_candidate *at, size_t num,
                               const struct dmi_remote_demand *demand);

/* True if a server with this load and so many cores has a core without a call. */
bool dmi_remote_place_dry(uint64_t load, uint32_t cores);

/* How many calls a dry server should get from one that has `ready` calls which it cannot run yet:
 * half of them, at least 1 if there is any. */
uint32_t dmi_remote_place_share(uint32_t ready);

/* True if a dry server should get a ready call that has to wait `wait` ns for a core where it is:
 * moving so many bytes, at `rate` bytes in a microsecond, takes no longer. */
bool dmi_remote_place_worth(uint64_t bytes, uint64_t rate, uint64_t wait);

#endif
