/*
 * sim_pager.h - a virtual process's real pager, and what is known of it to judge it.
 */
#ifndef SIM_SIM_PAGER_H
#define SIM_SIM_PAGER_H

#include "base/pool.h"
#include "core/pressure_int.h"
#include "sim.h"

/* What had ended of use in passing at some moment, and what was in use so. */
struct sim_stall {
  uint64_t turned, passing;
};

/* A question of another process, or one of ours. */
struct sim_question {
  uint32_t uid; /* 0: none */
  uint64_t bytes, unit;
  bool now;
  struct sim_stall since; /* when it came */
};

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
  /* the judge's */
  struct sim_stall stall[SIM_MAPS][SIM_PAGES];
  struct sim_question asks[SIM_PROCS][2]; /* by slot: of others; [1]: for a promise */
  uint64_t told[SIM_PROCS];               /* by slot: what it can take, less what it was offered */
  uint32_t asked[SIM_PROCS];              /* by slot: uid that owes an answer for URGENT, AHEAD */
  const struct dmi_page *patient;         /* waits for use in passing only; NULL: none does */
  struct sim_stall patience;              /* since when */
  char doubt[64];                         /* why the write that is to fail should not */
};

static inline uint32_t sim_map_of(const struct dmi_page *page) {
  return (uint32_t)(page->map->base >> 20) - 1;
}

bool sim_pager_sleeps(const struct sim_proc *proc);

/* ---- sim_pager_events.c ---- */
/* Carries out what came of an event, or of an action. */
void sim_pager_carry(struct sim_proc *proc, struct dmi_pressure_out *out);

/* ---- sim_pager_check.c ---- */
void sim_pager_notes_stall(struct sim_proc *proc, const struct dmi_page *page);
/* A message about room is sent, or has come. */
void sim_pager_says(struct sim_proc *proc, const struct dmi_room_send *send);
void sim_pager_hears(struct sim_proc *proc, uint32_t from, const struct dmi_room_msg *msg);
/* It sends TAKE for a page of so many bytes (`out`), or gets it back. */
void sim_pager_offers(struct sim_proc *proc, const struct dmi_out *out, uint64_t bytes);
void sim_pager_refuses(struct sim_proc *proc, uint32_t from);
/* The members have changed. */
void sim_pager_forgets(struct sim_proc *proc);
/* It is about to sleep. */
void sim_pager_rests(struct sim_proc *proc);
/* It has decided that there is no room anywhere for this page. */
void sim_pager_gives_up(struct sim_proc *proc, const struct dmi_page *page);
/* The page's first operation is to fail.  True: it must not, as the simulator needs it. */
bool sim_pager_fails(struct sim_proc *proc, struct dmi_page *page);

#endif
