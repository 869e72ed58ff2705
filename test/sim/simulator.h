/*
 * simulator.h - the header of the simulator that a file of both (both.h) is compiled for; and what
 * those files offer that have to know its processes.
 */
#ifndef SIM_SIMULATOR_H
#define SIM_SIMULATOR_H

#ifdef SIM_WHOLE_NODES
#include "node_sim.h"
#else
#include "sim.h"
#endif

static inline sim_process_t *sim_at(const struct sim *sim, uint32_t place) {
  return sim->proc[place]; /* NULL: free */
}

/* NULL: there is no record of the page. */
static inline struct dmi_page *sim_record_at(const struct sim *sim, uint32_t place, uint32_t map,
                                             uint32_t page) {
  return sim->proc[place] ? sim->proc[place]->pmap[map].page[page] : NULL;
}

/* ---- Of each simulator ---- */
/* The operation of a thread of this process; NULL: it is complete. */
struct sim_thread *sim_thread_of(const struct sim *sim, uint32_t uid, dmi_op_t op);
/* Was this process lost? */
bool sim_is_lost(const struct sim *sim, uint32_t uid);
/* Carries out what a step of this page has decided. */
void sim_act(sim_process_t *proc, uint32_t map, uint32_t page, struct dmi_out *out);

/* ---- pause.c: processes without a lease; only with --crashes ---- */
void sim_pause_one(sim_process_t *proc);
void sim_unpause_one(sim_process_t *proc);
/* Some process has none from now on.  False: not now. */
bool sim_pause(struct sim *sim);
/* One that has none gets one again.  False: all have. */
bool sim_unpause(struct sim *sim);

/* ---- part.c ---- */
/* The first bytes of a DATA or BLOCK arrive: moves its body to memory of the receiver, whose page
 * this is (NULL: it has no record). */
void sim_part_begins(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                     struct dmi_msg *msg);

/* ---- losses.c ---- */
/* dmi_recover_env.next_op; an operation that ends before the next call was away. */
struct dmi_req *sim_next_op(void *proc, uint64_t *at, struct dmi_page **page);
/* Keeps a message until RESUME. */
void sim_hold(sim_process_t *proc, uint32_t from, struct dmi_msg *msg);
/* Those of a process that is lost are lost, too. */
void sim_drop_held(sim_process_t *proc);
/* A message, or only its GRANT, will not arrive. */
void sim_lose_message(struct sim *sim, struct dmi_msg *msg);
void sim_lose_grant(struct sim *sim, const struct dmi_msg *msg);
/* This process is lost: notes which pages have no owner now. */
void sim_lose_pages(sim_process_t *proc);
/* All processes are frozen: checks what this one has decided as a home. */
void sim_check_ready(sim_process_t *proc, struct dmi_recover *recover);
/* The call stays open: if it takes effect, then before all have recovered. */
void sim_open_call(struct sim *sim, const struct sim_thread *thread, uint32_t uid);
/* Notes that an operation seems to take effect now, if its call stays open. */
void sim_open_hint(struct sim *sim, uint32_t uid, dmi_op_t op);
/* All have recovered: what has had no effect by now will have none. */
void sim_close_calls(struct sim *sim);
/* Its operation has ended with DMI_ELOST. */
void sim_op_lost(sim_process_t *proc, const struct sim_thread *thread);
/* Before RESUME: of which pages it has the write that was at work at a lost owner; and behind it, a
 * hint for the search for an order: such a copy has become the page. */
bool sim_copies_at_work(const sim_process_t *proc, bool had[SIM_MAPS * SIM_PAGES]);
void sim_hint_promoted(sim_process_t *proc, const bool had[SIM_MAPS * SIM_PAGES], uint64_t hint);

#endif
