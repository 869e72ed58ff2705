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
  if (t->crashes) {
    printf(
        "\nlosses: %llu, %llu of them during a recovery; marks in doubt %llu times; %llu pages "
        "without an owner, %llu operations DMI_ELOST (%llu of them away), %llu messages held until "
        "RESUME; without a lease %llu times",
        N(crashes), N(second_crashes), N(doubts), N(orphans), N(elost), N(away), N(held),
        N(pauses));
  }
  if (t->capacity_messages) {
    printf(
        "\nreal pagers: %llu messages about memory, %llu operations failed for lack of it, "
        "%llu leaves refused, %llu pages too many for the file",
        N(capacity_messages), N(failed_for_capacity), N(leaves_refused), N(full));
  }
}

const struct hunt_simulator hunt_simulator = {.name = "sim", .run = sim_run, .print = print};
