/*
 * node_run.c - one run: a program from its first process to its end; a seed decides every step.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

#define QUIET_STEPS_MAX 400000u /* after so many messages nothing may be in flight */
#define KICKS_REFUSED_MAX 50u   /* in a row */

bool sim_leave_look(struct node *node) {
  const struct dmi_input in = {.type = DMI_IN_STEPPED};
  if (!node->drain || !node->stepped) return false;
  node->stepped = false;
  (void)node_input(node, &in);
  return true;
}

/* Does the work of a daemon that was woken: handles user code that has ended, continues leaves. */
static bool tend(struct sim *sim) {
  bool moved = false;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    if (!node || node_frozen(node)) continue;
    if (node->idle_owed && !sim_ops_num(node)) {
      node_idle_look(node);
      moved = true;
    }
    if (sim->proc[i] == node && sim_leave_look(node)) moved = true;
  }
  return moved;
}

static bool answer_one(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[(start + i) % SIM_LIVING];
    if (node && node_answer(node)) return true;
  }
  return false;
}

static bool once_of(struct sim *sim, uint32_t rate) {
  return rate && rng_below(&sim->rng, 10000) < rate;
}

/* Everything in flight moves on; a stopped process continues when nothing else can. */
static bool go_on(struct sim *sim) {
  if (sim->opt.crashes && rng_once_in(&sim->rng, 4) && sim_losses_go_on(sim, false)) return true;
  if (rng_once_in(&sim->rng, 8) && answer_one(sim)) return true;
  if (rng_once_in(&sim->rng, 4) && sim_pager_step(sim)) return true;
  if (sim_net_step(sim) || answer_one(sim) || tend(sim) || sim_pager_step(sim)) return true;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (!sim->proc[i] || !node_frozen(sim->proc[i])) continue;
    if (sim->opt.agree && !rng_once_in(&sim->rng, 200) && sim_clock_jump(sim)) return true;
    sim->proc[i]->frozen = 0;
    return true;
  }
  return sim->opt.crashes && sim_losses_go_on(sim, true);
}

static void step(struct sim *sim) {
  const struct sim_mix *mix = &sim->mix;
  sim->steps++;
  sim->now++;
  if (sim->opt.agree) sim_clock_step(sim);
  if (rng_once_in(&sim->rng, 4)) (void)tend(sim);
  if (once_of(sim, mix->churn)) {
    sim_user_step(sim);
  } else if (once_of(sim, mix->freeze)) {
    sim_user_freeze(sim);
  } else if (once_of(sim, mix->drop)) {
    sim_pager_drop(sim);
  } else if (once_of(sim, mix->paging)) {
    sim_pager_offer(sim);
  } else if (rng_below(&sim->rng, 1000) < mix->issue) {
    if (!sim_ops_begin(sim)) (void)go_on(sim);
  } else if (once_of(sim, mix->kick)) {
    (void)sim_ops_kick(sim);
  } else if (!go_on(sim)) {
    if (!sim_ops_begin(sim) && !sim_ops_kick(sim)) sim_user_step(sim);
  }
  if (!sim->finished) sim_pages_touched(sim);
}

/* Ends waits; if no process has memory for the write that would end them, they are given up. */
static bool kick(struct sim *sim) {
  if (sim->kicks_refused < KICKS_REFUSED_MAX) return sim_ops_kick(sim);
  sim->kicks_refused = 0;
  sim_ops_give_up(sim);
  return false;
}

/* Runs until nothing is in flight and no process has anything to do. */
static void come_to_rest(struct sim *sim) {
  uint64_t steps = 0;
  bool more = true;
  sim->resting = true;
  while (more && !sim->bad && !sim->finished) {
    sim->now++;
    sim->steps++;
    if (sim->opt.agree) sim_clock_step(sim);
    more = go_on(sim);
    if (!more) {
      sim_check_waits(sim);
      more = !sim->bad && kick(sim);
    }
    if (!sim->finished) sim_pages_touched(sim);
    if (++steps > QUIET_STEPS_MAX)
      sim_bad(sim, "does not come to rest: messages go round for ever");
  }
  sim->resting = false;
  if (sim->finished) return;
  if (!sim->bad) sim_check_quiet(sim);
  if (!sim->bad) sim_judge_quiet(sim);
}

static void init(struct sim *sim, uint64_t seed, const struct sim_options *options,
                 struct sim_totals *totals) {
  memset(sim, 0, sizeof(*sim));
  sim->seed = seed;
  rng_seed(&sim->rng, seed);
  sim->opt = *options;
  sim->totals = totals;
  sim->hash = 0xcbf29ce484222325u;
  sim_net_init(sim);
  sim->pools = rng_once_in(&sim->rng, 2);
  sim->random_ids = rng_once_in(&sim->rng, 3);
  if (options->crashes) sim->recovers = rng_once_in(&sim->rng, 2);
  sim->agreement = options->agree ? &sim_agreement_real : &sim_agreement_oracle;
  if (options->agree) sim->pace = 20u << rng_below(&sim->rng, 8);
  /* Usually chains; sometimes the owner sends to most. */
  sim->hop = rng_once_in(&sim->rng, 4) ? 100 : 1;
  sim->block = rng_range(&sim->rng, 1, 16);
  sim->uid_numbers = sim_numbers_new();
  sim->map_numbers = sim_numbers_new();
  node_new(sim, NULL);
  sim_ops_retune(sim);
}

static void fini(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i]) node_end(sim->proc[i]);
  }
  for (uint32_t i = 0; i < sim->doomed.num; i++) {
    if (sim->doomed.at[i]->alive) node_end(sim->doomed.at[i]);
  }
  free(sim->doomed.at);
  sim_net_fini(sim);
  for (uint32_t i = 0; i < sim->nodes; i++)
    node_free(sim->all[i]);
  for (uint32_t m = 0; m < SIM_MAPS; m++) {
    for (uint32_t p = 0; sim->map[m].made && p < SIM_PAGES; p++)
      hist_fini(&sim->map[m].hist[p]);
  }
  free(sim->departed.at);
  free(sim->open.at);
  sim_agree_fini(sim);
  sim_letters_free(sim);
  free(sim->uid_numbers);
  free(sim->map_numbers);
}

bool sim_run(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
             uint64_t *hash) {
  struct sim *sim = malloc(sizeof(*sim));
  uint64_t until = 0;
  bool good;
  if (!sim) abort();
  init(sim, seed, options, totals);
  while (sim->begun < options->ops && !sim->bad && !sim->finished && !sim_is_unmapped(sim)) {
    step(sim);
    if (sim->steps < until) continue;
    until = sim->steps + rng_range(&sim->rng, 50, 1500);
    sim_ops_retune(sim);
    sim_net_retune(sim);
    if (rng_once_in(&sim->rng, 8)) come_to_rest(sim);
  }
  if (!sim->bad && !sim->finished) come_to_rest(sim);
  if (!sim->bad && !sim->finished) sim_check_last(sim);
  if (!sim->bad && !sim->finished) sim_user_end_all(sim);
  if (!sim->bad) sim_judge_notices(sim);
  /* Also after a broken rule: the hash covers what happened until then. */
  sim_check_histories(sim);
  good = !sim->bad;
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
