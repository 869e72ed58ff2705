/*
 * main.c - the simulator of pages, for hunt.c: what it counts besides operations.
 */
#include "sim.h"

static void print(const struct sim_totals *t) {
  printf(
      "\njoins %llu, leaves %llu, mappings %llu, unmapped %llu, owner moves %llu, "
      "copies dropped %llu, quiet points %llu\n",
      (unsigned long long)t->joins, (unsigned long long)t->leaves, (unsigned long long)t->maps,
      (unsigned long long)t->unmaps, (unsigned long long)t->moves, (unsigned long long)t->drops,
      (unsigned long long)t->quiets);
  printf(
      "messages %llu delivered, %llu to self, %llu parked, %llu dropped, %llu sent back; "
      "hops of one request at most %u (%u while nobody leaves)\n ",
      (unsigned long long)t->messages, (unsigned long long)t->self_messages,
      (unsigned long long)t->deferred, (unsigned long long)t->dropped,
      (unsigned long long)t->bounced, t->hops_max, t->hops_calm_max);
  for (uint32_t i = 1; i < DMI_MSG_NUMBERS; i++) {
    if (t->by_type[i]) printf(" %s %llu", sim_msg_name(i), (unsigned long long)t->by_type[i]);
  }
  printf("\n%llu operations waited, %llu waits ended by a kick, %llu given up",
         (unsigned long long)t->waited, (unsigned long long)t->kicks,
         (unsigned long long)t->abandoned);
  printf(
      "\nlittle room: %llu times none, %llu stalled, %llu refused, %llu pages offered, %llu kept, "
      "%llu spilled, "
      "%llu read back",
      (unsigned long long)t->no_capacity, (unsigned long long)t->stalls,
      (unsigned long long)t->refused, (unsigned long long)t->offers,
      (unsigned long long)t->refused_pages, (unsigned long long)t->spills,
      (unsigned long long)t->unspills);
  if (t->crashes) {
    printf(
        "\nlosses: %llu, %llu of them during a recovery; marks in doubt %llu times; %llu pages "
        "without an owner, %llu operations DMI_ELOST (%llu of them away), %llu messages held until "
        "RESUME",
        (unsigned long long)t->crashes, (unsigned long long)t->second_crashes,
        (unsigned long long)t->doubts, (unsigned long long)t->orphans, (unsigned long long)t->elost,
        (unsigned long long)t->away, (unsigned long long)t->held);
  }
  if (t->capacity_messages) {
    printf(
        "\nreal pagers: %llu messages about room, %llu operations failed for lack of it, %llu "
        "leaves "
        "refused, %llu pages too many for the file",
        (unsigned long long)t->capacity_messages, (unsigned long long)t->failed_for_capacity,
        (unsigned long long)t->leaves_refused, (unsigned long long)t->full);
  }
}

const struct hunt_simulator hunt_simulator = {.name = "sim", .run = sim_run, .print = print};
