/*
 * place.c - see place.h.
 *
 * Bytes and calls are compared as times.  The unit is the mean time of a call: so for short calls
 * moving data is dear, and they follow the data until the queue there is long; for long ones it is
 * cheap, and they go to whoever has the least to do.
 */
#include "remote/place.h"

#define ONE 1024u /* of cost: the mean time of a call */

uint64_t dmi_remote_place_cost(const struct dmi_remote_candidate *at,
                               const struct dmi_remote_demand *demand) {
  uint64_t away = demand->inputs > at->there ? demand->inputs - at->there : 0;
  uint64_t unit = demand->unit ? demand->unit : 1;
  /* In two parts, so that no number of bytes overflows. */
  uint64_t moved = away / unit < UINT32_MAX ? away / unit * ONE + away % unit * ONE / unit
                                            : (uint64_t)UINT32_MAX * ONE;
  if (unit > UINT64_MAX / ONE) moved = 0;
  return at->load * ONE / at->cores + moved;
}

static bool is_better(const struct dmi_remote_candidate *a, uint64_t cost,
                      const struct dmi_remote_candidate *than, uint64_t least) {
  return cost != least ? cost < least : a->there > than->there;
}

size_t dmi_remote_place_choose(const struct dmi_remote_candidate *at, size_t num,
                               const struct dmi_remote_demand *demand) {
  size_t best = DMI_REMOTE_NOWHERE;
  uint64_t least = 0;
  for (size_t i = 0; i < num; i++) {
    uint64_t cost;
    if (at[i].limit && demand->memory > at[i].limit) continue;
    cost = dmi_remote_place_cost(&at[i], demand);
    if (best != DMI_REMOTE_NOWHERE && !is_better(&at[i], cost, &at[best], least)) continue;
    best = i;
    least = cost;
  }
  return best;
}

bool dmi_remote_place_dry(uint64_t load, uint32_t cores) {
  return load < cores;
}

uint32_t dmi_remote_place_share(uint32_t ready) {
  return ready / 2 + ready % 2;
}
