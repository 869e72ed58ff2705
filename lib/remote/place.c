/*
 * place.c - see place.h.
 *
 * Bytes and calls are compared as times.  The unit is the time that the call takes which is to be
 * placed: so for a short call moving data is dear, and it follows the data until the queue there is
 * long; for a long one it is cheap, and it goes to whoever has the least to do.
 */
#include "remote/place.h"

#define ONE 1024u /* of cost: the time of the call */

/* a * ONE / b, where that is not too large, without overflow. */
static uint64_t ratio(uint64_t a, uint64_t b) {
  if (!b) b = 1;
  if (b > UINT64_MAX / ONE) return a / (b / ONE);
  return a / b < UINT32_MAX ? a / b * ONE + a % b * ONE / b : (uint64_t)UINT32_MAX * ONE;
}

/* ns */
static uint64_t time_to_move(uint64_t bytes, uint64_t rate) {
  if (!rate) rate = 1;
  return bytes / rate < UINT64_MAX / 2000 ? bytes / rate * 1000 + bytes % rate * 1000 / rate
                                          : UINT64_MAX / 2;
}

static uint64_t load_of(const struct dmi_remote_candidate *at,
                        const struct dmi_remote_demand *demand) {
  return ratio(at->load / at->cores, demand->took);
}

static uint64_t move_of(const struct dmi_remote_candidate *at,
                        const struct dmi_remote_demand *demand) {
  const uint64_t away = demand->inputs > at->there ? demand->inputs - at->there : 0;
  return away ? ratio(time_to_move(away, at->rate), demand->took) : 0;
}

uint64_t dmi_remote_place_cost(const struct dmi_remote_candidate *at,
                               const struct dmi_remote_demand *demand) {
  return load_of(at, demand) + move_of(at, demand);
}

static bool fits(const struct dmi_remote_candidate *at, const struct dmi_remote_demand *demand) {
  return !at->limit || demand->memory <= at->limit;
}

static uint64_t least_load(const struct dmi_remote_candidate *at, size_t num,
                           const struct dmi_remote_demand *demand) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < num; i++) {
    if (fits(&at[i], demand) && load_of(&at[i], demand) < least) least = load_of(&at[i], demand);
  }
  return least;
}

/* Of long queues it is chance which one is shorter by a call: whoever has told of its last calls
 * just now.  Calls that are issued one after the other would go to that one, though they may be
 * those that could run at the same time. */
static uint64_t cost_beside(const struct dmi_remote_candidate *at,
                            const struct dmi_remote_demand *demand, uint64_t least) {
  const uint64_t load = load_of(at, demand), more = load - least;
  const uint64_t chance = least < 8 * ONE ? 0 : least < 32 * ONE ? ONE : least / 32;
  const uint64_t moved = move_of(at, demand);
  return (more <= chance ? least : load) + (moved < ONE / 4 ? 0 : moved);
}

static bool is_better(const struct dmi_remote_candidate *a, uint64_t cost,
                      const struct dmi_remote_candidate *than, uint64_t least) {
  if (cost != least) return cost < least;
  return a->made != than->made ? a->made > than->made : a->last < than->last;
}

size_t dmi_remote_place_choose(const struct dmi_remote_candidate *at, size_t num,
                               const struct dmi_remote_demand *demand) {
  size_t best = DMI_REMOTE_NOWHERE;
  uint64_t load, least = 0;
  if (num == 1) return fits(at, demand) ? 0 : best; /* as for calls without inputs */
  load = least_load(at, num, demand);
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

bool dmi_remote_place_worth(uint64_t bytes, uint64_t rate, uint64_t wait) {
  return time_to_move(bytes, rate) <= wait;
}
