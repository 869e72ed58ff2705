/*
 * sim_pager.h - a virtual process's real pager, and what is known of it to judge it.
 */
#ifndef SIM_SIM_PAGER_H
#define SIM_SIM_PAGER_H

#include "base/pool.h"
#include "core/pressure_int.h"
#include "pager_judge.h"
#include "sim.h"

struct sim_pager {
  struct dmi_pool *pool;
  struct dmi_pressure *core;
  struct dmi_pressure_action action; /* to be carried out */
  uint32_t events, seen;
  bool expects, armed; /* as the product's flags */
  bool open;
  uint32_t held;                 /* references to pages */
  uint64_t disk_used, disk_most; /* bytes */
  uint64_t hand[SIM_MAPS];
  uint8_t saved[SIM_MAPS]; /* bits: pages */
  struct pager_judge *judge;
  char doubt[64]; /* why the write that is to fail should not */
};

static inline uint32_t sim_map_of(const struct dmi_page *page) {
  return (uint32_t)(page->map->base >> 20) - 1;
}

bool sim_pager_sleeps(const struct sim_proc *proc);

/* ---- sim_pager_events.c ---- */
/* Carries out what came of an event, or of an action. */
void sim_pager_carry(struct sim_proc *proc, struct dmi_pressure_out *out);

/* ---- sim_pager_check.c ---- */
/* Gives it its judge. */
void sim_pager_judge(struct sim_proc *proc);
/* It has decided that there is no room anywhere for this page. */
void sim_pager_gives_up(struct sim_proc *proc, const struct dmi_page *page);
/* The page's first operation is to fail.  True: it must not, as the simulator needs it. */
bool sim_pager_fails(struct sim_proc *proc, struct dmi_page *page);

#endif
