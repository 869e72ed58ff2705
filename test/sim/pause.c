/*
 * pause.c - processes without a lease: for a while their copies are not readable, and they ask
 * nobody (core/page_crash.h, pause).
 *
 * It may come at any time, also while pages are recovered, and costs nothing but time.
 */
#include "simulator.h"

void sim_pause_one(sim_process_t *proc) {
  sim_log(proc->sim, "p%u has no lease", proc->core.self);
  proc->sim->totals->pauses++;
  atomic_store(&proc->core.paused, true);
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (proc->pmap[m].page[p]) dmi_page_pause(proc->pmap[m].page[p]);
    }
  }
}

void sim_unpause_one(sim_process_t *proc) {
  sim_log(proc->sim, "p%u has a lease again", proc->core.self);
  atomic_store(&proc->core.paused, false);
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      struct dmi_out out;
      if (!proc->pmap[m].page[p]) continue;
      dmi_out_init(&out);
      dmi_page_unpause(&proc->core, proc->pmap[m].page[p], &out);
      sim_act(proc, m, p, &out);
    }
  }
}

bool sim_pause(struct sim *sim) {
  sim_process_t *proc = sim_at(sim, rng_below(&sim->rng, SIM_PLACES));
  if (!proc || atomic_load(&proc->core.paused)) return false;
  sim_pause_one(proc);
  return true;
}

bool sim_unpause(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    if (!sim_at(sim, i) || !atomic_load(&sim_at(sim, i)->core.paused) || sim_at(sim, i)->no_lease)
      continue;
    sim_unpause_one(sim_at(sim, i));
    return true;
  }
  return false;
}
