/*
 * sim_run.c - one run, in which a seed decides every step.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

#define QUIET_STEPS_MAX 300000u /* after so many messages nothing may be in flight */

static bool deliver_one(struct sim *sim) {
  uint32_t from, to;
  struct dmi_msg msg;
  struct dmi_msg *first;
  uint64_t off, got;
  if (rng_once_in(&sim->rng, 3) && sim_net_part(sim, &from, &to, &first, &off, &got)) {
    sim->now++;
    sim_part(sim, from, to, first, off, got);
    return true;
  }
  if (!sim_net_take(sim, &from, &to, &msg)) return false;
  sim->now++;
  sim_deliver(sim, from, to, &msg);
  return true;
}

static void step(struct sim *sim) {
  uint32_t dice = rng_below(&sim->rng, 1000);
  sim->steps++;
  sim->now++;
  if (sim->opt.pagers && rng_once_in(&sim->rng, 3)) {
    sim_pager_step(sim);
  } else if (rng_below(&sim->rng, 10000) < sim->mix.churn) {
    (void)sim_member_step(sim);
  } else if (rng_below(&sim->rng, 10000) < 2 * sim->mix.churn + 100) {
    (void)sim_member_go_on(sim);
  } else if (sim->mix.drop && rng_below(&sim->rng, 10000) < sim->mix.drop) {
    sim_capacity_drop(sim);
  } else if (sim->pools && !sim->opt.pagers && rng_below(&sim->rng, 10000) < sim->mix.paging) {
    sim_capacity_step(sim);
  } else if (dice < sim->mix.issue) {
    if (!sim_ops_begin(sim)) (void)deliver_one(sim);
  } else if (sim->mix.kick && rng_below(&sim->rng, 10000) < sim->mix.kick) {
    (void)sim_ops_kick(sim);
  } else if (!deliver_one(sim)) {
    /* Leaves go first, since they may delay operations that have memory reserved; then look for
     * memory. */
    if (!sim_ops_begin(sim) && !sim_member_go_on(sim) && !sim_capacity_go_on(sim))
      (void)sim_ops_kick(sim);
  }
  sim_check_touched(sim);
}

/* Runs until nothing is in flight and no process has anything to do. */
static void come_to_rest(struct sim *sim) {
  uint64_t steps = 0;
  bool more = true;
  while (more && !sim->bad) {
    sim->now++;
    bool members = rng_once_in(&sim->rng, 10);
    if (sim->opt.pagers && rng_once_in(&sim->rng, 3)) (void)sim_pager_go_on(sim);
    more = members ? sim_member_go_on(sim) || deliver_one(sim)
                   : deliver_one(sim) || sim_member_go_on(sim);
    if (!more) more = sim_capacity_go_on(sim);
    if (!more) {
      sim_check_waits(sim);
      more = !sim->bad && sim_ops_kick(sim);
    }
    sim_check_touched(sim);
    if (++steps > QUIET_STEPS_MAX) {
      sim_bad(sim, "does not come to rest: messages go round for ever");
    }
  }
  if (!sim->bad) sim_check_quiet(sim);
}

static void init(struct sim *sim, uint64_t seed, const struct sim_options *options,
                 struct sim_totals *totals) {
  memset(sim, 0, sizeof(*sim));
  sim->seed = seed;
  rng_seed(&sim->rng, seed);
  sim->opt = *options;
  sim->totals = totals;
  sim->hash = 0xcbf29ce484222325u;
  memset(sim->slot_of, -1, sizeof(sim->slot_of));
  sim_net_init(sim);
  sim->pools = (rng_once_in(&sim->rng, 2) || options->pagers) && !options->crashes;
  /* Usually chains; sometimes the owner sends to most. */
  sim->hop = rng_once_in(&sim->rng, 4) ? 100 : 1;
  sim->block = rng_range(&sim->rng, 1, 16);
  uint32_t procs = rng_range(&sim->rng, 3, 5), maps = rng_range(&sim->rng, 1, 3);
  for (uint32_t i = 0; i < procs; i++)
    (void)sim_proc_new(sim);
  for (uint32_t i = 0; i < maps; i++)
    sim_map_new(sim, sim->proc[rng_below(&sim->rng, procs)]);
  sim_ops_retune(sim);
}

static void fini(struct sim *sim) {
  free(sim->open.at);
  sim_net_fini(sim); /* messages in flight after a broken rule count in their senders' accounts */
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i]) sim_proc_free(sim->proc[i]);
  }
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++)
      hist_fini(&sim->map[m].hist[p]);
  }
}

bool sim_run(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
             uint64_t *hash) {
  struct sim *sim = malloc(sizeof(*sim));
  uint64_t until = 0;
  if (!sim) abort();
  init(sim, seed, options, totals);
  while (sim->begun < options->ops && !sim->bad) {
    step(sim);
    if (sim->steps < until) continue;
    until = sim->steps + rng_range(&sim->rng, 50, 1500);
    sim_ops_retune(sim);
    sim_net_retune(sim);
    if (rng_once_in(&sim->rng, 8)) come_to_rest(sim);
  }
  if (!sim->bad) come_to_rest(sim);
  if (!sim->bad) sim_check_last(sim);
  /* Also after a broken rule: the hash covers what happened until then. */
  sim_check_histories(sim);
  bool good = !sim->bad;
  fini(sim);
  if (good && dmi_frame_total() != 0) {
    good = false;
    sim_bad(sim, "leak: %llu bytes of frames", (unsigned long long)dmi_frame_total());
  }
  if (!good) fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, sim->why);
  totals->seeds++;
  if (hash) *hash = sim->hash;
  free(sim);
  return good;
}
