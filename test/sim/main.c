/*
 * main.c - the simulator of pages, for hunt.c: what it counts besides operations.
 */
#include "simulator.h"

#define N(field) (unsigned long long)t->field

static void print(const struct sim_totals *t) {
  printf(
      "\njoins %llu, leaves %llu, mappings %llu, unmapped %llu, owner moves %llu, "
      "copies dropped %llu, quiet points %llu\n",
      N(joins), N(leaves), N(maps), N(unmaps), N(moves), N(drops), N(quiets));
  hunt_print_work(t);
  printf("; %llu waits given up", N(abandoned));
  if (t->crashes) hunt_print_losses(t);
  if (t->capacity_messages) {
    printf(
        "\nreal pagers: %llu messages about memory, %llu operations failed for lack of it, "
        "%llu leaves refused, %llu pages too many for the file",
        N(capacity_messages), N(failed_for_capacity), N(leaves_refused), N(full));
  }
}

const struct hunt_simulator hunt_simulator = {.name = "sim", .run = sim_run, .print = print};
