/*
 * sim_pager.h - the real pager of a virtual process, with what the judge knows about it.
 */
#ifndef SIM_SIM_PAGER_H
#define SIM_SIM_PAGER_H

#include "base/pool.h"
#include "core/pressure_int.h"
#include "pager_judge.h"
#include "simulator.h"

struct sim_pager {
  struct dmi_pool *pool;
  struct dmi_pressure *core;
  struct dmi_pressure_action action; /* its next action */
  uint32_t events, seen;
  bool expects, armed; /* as the flags of the product */
  bool open;
  uint32_t held;                 /* references to pages */
  uint64_t disk_used, disk_most; /* bytes */
  uint64_t hand[SIM_MAPS];
  uint8_t saved[SIM_MAPS]; /* bits: pages */
  struct pager_judge *judge;
  char doubt[64]; /* why the write that will fail should not */
};

static inline uint32_t sim_map_of(const struct dmi_page *page) {
  return (uint32_t)(page->map->base >> 20) - 1;
}

bool sim_pager_sleeps(const struct sim_proc *proc);

/* ---- sim_pager_events.c ---- */
/* Sends what came of an action. */
void sim_pager_say(struct sim_proc *proc, struct dmi_capacity_out *out);

/* ---- sim_pager_check.c ---- */
/* Makes its judge. */
void sim_pager_judge(struct sim_proc *proc);
/* To be called when it has decided that no process has memory for this page. */
void sim_pager_gives_up(struct sim_proc *proc, const struct dmi_page *page);
/* To be called before the page's first operation fails.  True: it must not fail, since the
 * simulator needs it. */
bool sim_pager_fails(struct sim_proc *proc, struct dmi_page *page);

#endif
