/*
 * node_main.c - the simulator of whole nodes, for hunt.c: what it counts besides operations.
 */
#include "simulator.h"

#define N(field) (unsigned long long)t->field

static void print(const struct sim_totals *t) {
  printf(
      "\njoins %llu, leaves %llu, lost %llu, stopped for long %llu, handovers of the role %llu, "
      "views taken %llu, notices %llu, calls %llu\n",
      N(joins), N(leaves), N(kills), N(freezes), N(handovers), N(views), N(notices), N(calls));
  printf(
      "mappings %llu, unmapped %llu, owner moves %llu, copies dropped %llu, quiet points %llu, "
      "messages packed %llu\n",
      N(maps), N(unmaps), N(moves), N(drops), N(quiets), N(packed));
  hunt_print_work(t);
  printf(", %llu times the file was full; %llu waits given up", N(full), N(given_up));
  if (t->crashes) {
    hunt_print_losses(t);
    printf("; cuts %llu, crash views %llu, views given up %llu, DMI_recover %llu", N(cuts),
           N(crash_views), N(given_up_views), N(recovers));
    if (t->removed_alive)
      printf("; removed while they lived %llu, ended by themselves %llu", N(removed_alive),
             N(gave_up));
  }
}

const struct hunt_simulator hunt_simulator = {
    .name = "node_sim", .members = true, .run = sim_run, .print = print};
