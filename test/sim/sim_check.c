/*
 * sim_check.c - when the rules for pages, pools and leaves are checked.
 */
#include "simulator.h"

void sim_check_touched(struct sim *sim) {
  sim_pages_touched(sim);
  struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
  if (proc && sim->pools) sim_capacity_check(proc, false);
}

static void check_leaves(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[i];
    if (proc && proc->stage != SIM_STAYS) {
      sim_bad(sim, "p%u cannot leave: stage %d, owns %llu", proc->core.self, proc->stage,
              (unsigned long long)atomic_load(&proc->core.owned));
    }
  }
}

void sim_check_quiet(struct sim *sim) {
  sim->totals->quiets++;
  if (sim->refusals && sim->opt.page_break == DMI_BREAK_NOTHING) {
    sim_bad(sim, "%llu operations were refused and do not know it",
            (unsigned long long)sim->refusals);
  }
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i]) sim_capacity_check(sim->proc[i], true);
  }
  check_leaves(sim);
  sim_pages_quiet(sim);
}
