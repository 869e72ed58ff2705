/*
 * hunt.h - the command line of both simulators: seeds, the length of a run, and the search for a
 * seed that notices a broken rule (hunt.c has main).
 */
#ifndef SIM_HUNT_H
#define SIM_HUNT_H

#include "core/handover.h"
#include "core/coord_int.h"
#include "core/page.h"
#include "core/pressure.h"
#include "core/pulse.h"
#include "history.h"

/* Rules of envelopes (node_pack.c). */
enum sim_pack_break {
  SIM_PACK_NOTHING,
  SIM_PACK_ORDER,  /* its parts are handled in their order */
  SIM_PACK_LOST,   /* all of them are */
  SIM_PACK_BEFORE, /* each is read behind the one before */
  SIM_PACK_LAST
};

struct sim_options {
  uint64_t ops; /* per seed */
  enum dmi_break page_break;
  enum dmi_member_break member_break;
  enum dmi_capacity_break capacity_break;
  enum dmi_handover_break handover_break;
  enum dmi_pressure_break pressure_break;
  enum dmi_pulse_break pulse_break;
  enum sim_pack_break pack_break; /* whole nodes only */
  bool pagers;                    /* real pagers, in the simulator of pages */
  bool crashes; /* processes are lost; in the simulator of pages none leaves then */
  bool agree;   /* the product's agreement on who goes on, with --crashes: whole nodes only */
  bool verbose; /* print every event */
  bool lax;     /* a stale copy is an error only when it is read */
};

/* Counts of all runs; each simulator prints those that it has. */
struct sim_totals {
  uint64_t seeds, ops, list_ops, failed_ops, fast_ops, messages, joins, leaves, kills, handovers;
  uint64_t views, notices, calls, freezes, unmaps, maps, moves, drops, checked, tries, quiets;
  uint64_t deferred, self_messages, dropped, bounced, packed;
  uint64_t by_type[DMI_MSG_NUMBERS];
  uint64_t by_kind[HIST_KINDS];
  uint64_t crashes, second_crashes, pauses, doubts, orphans, held, elost, away; /* losses */
  uint64_t crash_views, given_up_views, cuts, recovers, removed_alive, gave_up;
  uint64_t waited, kicks, abandoned, given_up; /* waits: ended by sim_ops_kick; given up */
  uint64_t stalls, refused, offers, refused_pages, spills, unspills, full, no_capacity; /* R12 */
  uint64_t capacity_messages, failed_for_capacity, leaves_refused; /* real pagers */
  uint32_t hops_max, hops_calm_max; /* calm: while nobody was leaving */
};

/* The parts of the core whose rules can be switched off. */
enum hunt_side {
  HUNT_PAGE,
  HUNT_CRASH,
  HUNT_HANDOVER,
  HUNT_MEMBER,
  HUNT_CAPACITY,
  HUNT_PRESSURE,
  HUNT_AGREE,
  HUNT_PACK
};

/* One of the two simulators. */
struct hunt_simulator {
  const char *name;
  /* it runs membership, and always real pagers; the other one does so with --pagers */
  bool members;
  /* Does one run.  False: it is bad; the reason and the history were printed. */
  bool (*run)(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
              uint64_t *hash);
  void (*print)(const struct sim_totals *totals); /* prints the counts that only this one has */
};

extern const struct hunt_simulator hunt_simulator;

/* Prints the counts of messages, waits and memory, which both have. */
void hunt_print_work(const struct sim_totals *totals);
/* And of losses. */
void hunt_print_losses(const struct sim_totals *totals);

#endif
