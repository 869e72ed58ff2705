/*
 * node_main.c - the simulator of whole nodes, for hunt.c: what it counts besides operations.
 */
#include "node_sim.h"

#define N(field) (unsigned long long)t->field

static void print(const struct sim_totals *t) {
  printf(
      "\njoins %llu, leaves %llu, lost %llu, stopped for long %llu, handovers of the role %llu, "
      "views taken %llu, notices %llu, calls %llu\n",
      N(joins), N(leaves), N(kills), N(freezes), N(handovers), N(views), N(notices), N(calls));
  printf("mappings %llu, unmapped %llu, owner moves %llu, copies dropped %llu, quiet points %llu\n",
         N(maps), N(unmaps), N(moves), N(drops), N(quiets));
  printf(
      "messages %llu delivered, %llu to self, %llu parked, %llu dropped, %llu sent back; "
      "hops of one request at most %u (%u while nobody leaves)\n",
      N(messages), N(self_messages), N(deferred), N(dropped), N(bounced), t->hops_max,
      t->hops_calm_max);
  printf("%llu operations waited, %llu waits ended by a kick\n", N(waited), N(kicks));
  printf(
      "little room: %llu times none, %llu stalled, %llu refused, %llu pages offered, %llu kept, "
      "%llu spilled, %llu read back, %llu times the file was full; %llu waits given up",
      N(no_capacity), N(stalls), N(refused), N(offers), N(refused_pages), N(spills), N(unspills),
      N(full), N(given_up));
}

const struct hunt_simulator hunt_simulator = {
    .name = "node_sim", .members = true, .run = sim_run, .print = print};
