/*
 * node_check.c - when the rules for pages and pools are checked.
 */
#include "simulator.h"

void sim_check_quiet(struct sim *sim) {
  sim->totals->quiets++;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i]) sim_judge_pool(sim->proc[i]);
  }
  sim_pages_quiet(sim);
}
