/*
 * place.c - see place.h.
 *
 * Bytes and calls are compared as times.  The unit is the mean time of a call: so for short calls
 * moving data is dear, and they follow the data until the queue there is long; for long ones it is
 * cheap, and they go to whoever has the least to do.
 */
#include "remote/place.h"

#define ONE 1024u /* of cost: the mean time of a call */

static uint64_t load_of(const struct dmi_remote_candidate *at) {
  return at->load * ONE / at->cores;
}

uint64_t dmi_remote_place_cost(const struct dmi_remote_candidate *at,
                               const struct dmi_remote_demand *demand) {
  uint64_t away = demand->inputs > at->there ? demand->inputs - at->there : 0;
  uint64_t unit = demand->unit ? demand->unit : 1;
  /* In two parts, so that no number of bytes overflows. */
  uint64_t moved = away / unit < UINT32_MAX ? away / unit * ONE + away % unit * ONE / unit
                                            : (uint64_t)UINT32_MAX * ONE;
  if (unit > UINT64_MAX / ONE) moved = 0;
  return load_of(at) + moved;
}

static bool fits(const struct dmi_remote_candidate *at, const struct dmi_remote_demand *demand) {
  return !at->limit || demand->memory <= at->limit;
}

static uint64_t least_load(const struct dmi_remote_candidate *at, size_t num,
                           const struct dmi_remote_demand *demand) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < num; i++) {
    if (fits(&at[i], demand) && load_of(&at[i]) < least) least = load_of(&at[i]);
  }
  return least;
}

/* Of long queues it is chance which one is shorter by a call: whoever has told of its last calls
 * just now.  Calls that are issued one after the other would go to that one, though they may be
 * those that could run at the same time. */
static uint64_t cost_beside(const struct dmi_remote_candidate *at,
                            const struct dmi_remote_demand *demand, uint64_t least) {
  const uint64_t more = load_of(at) - least;
  const uint64_t chance = least < 8 * ONE ? 0 : least < 32 * ONE ? ONE : least / 32;
  const uint64_t moved = dmi_remote_place_cost(at, demand) - load_of(at);
  return (more <= chance ? least : load_of(at)) + (moved < ONE / 4 ? 0 : moved);
}

static bool is_better(const struct dmi_remote_candidate *a, uint64_t cost,
                      const struct dmi_remote_candidate *than, uint64_t least) {
  if (cost != least) return cost < least;
  return a->made != than->made ? a->made > than->made : a->last < than->last;
}

size_t dmi_remote_place_choose(const struct dmi_remote_candidate *at, size_t num,
                               const struct dmi_remote_demand *demand) {
  size_t best = DMI_REMOTE_NOWHERE;
  const uint64_t load = least_load(at, num, demand);
  uint64_t least = 0;
  for (size_t i = 0; i < num; i++) {
    uint64_t cost;
    if (!fits(&at[i], demand)) continue;
    cost = cost_beside(&at[i], demand, load);
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
