/*
 * crash_check.c - what must hold of processes that agree: one history; none goes on without a
 * lease; none is removed without a reason; in the end those that are left agree.
 */
#include <string.h>

#include "crash_sim.h"

#define BLAMELESS (4 * DEAD_AFTER * MS) /* for so long nothing was wrong with it */

static bool is_in(const struct sim_view *view, dmi_uid_t uid) {
  for (uint32_t i = 0; i < view->view.num; i++) {
    if (view->member[i].uid == uid) return true;
  }
  return false;
}

/* Those that the first of these views removes. */
static void check_removed(struct sim *sim, struct sim_proc *proc,
                          const struct dmi_crash_chain *chain) {
  const struct dmi_crash_view *view = &chain->at[chain->num - 1];
  const struct dmi_crash_view *before = chain->num > 1 ? view - 1 : NULL;
  for (uint32_t i = 0; before && i < before->num; i++) {
    const struct sim_proc *lost = &sim->proc[sim_index_of(sim, before->members[i].uid)];
    if (dmi_crash_member(view, lost->uid)) continue;
    sim->totals->removed++;
    if (lost->alive && lost->trouble + BLAMELESS < sim->now && lost->stopped <= sim->now)
      sim_bad(sim, "p%u removes p%u, which did nothing wrong", proc->uid, lost->uid);
  }
}

/* A crash view is taken, or a view has been taken by all: it is history. */
void sim_check_view(struct sim *sim, struct sim_proc *proc, bool complete) {
  struct dmi_crash_chain *chain = &proc->pulse->chain;
  uint64_t number = proc->view.view.number;
  for (uint32_t i = 0; i < chain->num; i++) {
    const struct dmi_crash_view *view = &chain->at[i];
    if (view->number >= VIEWS || view->number > number) break;
    if (sim->made[view->number] && sim->made[view->number] != view->made)
      sim_bad(sim, "two histories: view %u, of p%u", (unsigned)view->number, proc->uid);
    if (view->number != number || sim->made[number]) continue;
    sim->made[number] = view->made;
    sim->firm[number] = proc->view;
    if (complete) continue;
    sim->totals->crashes++;
    check_removed(sim, proc, chain);
  }
}

/* Finds a process that may go on although it has been removed. */
void sim_check_leases(struct sim *sim) {
  for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
    const struct sim_proc *proc = &sim->proc[uid];
    if (!sim_proc_runs(sim, proc) || !proc->started || dmi_pulse_frozen(proc->pulse)) continue;
    if (!dmi_pulse_lease(proc->pulse, sim_proc_now(sim, proc))) continue;
    for (uint64_t n = proc->view.view.number + 1; n < VIEWS && sim->made[n]; n++) {
      if (is_in(&sim->firm[n], proc->uid)) continue;
      sim_bad(sim, "p%u has a lease of %u ms, and view %u is decided without it", uid,
              (unsigned)dmi_pulse_lease(proc->pulse, sim_proc_now(sim, proc)), (unsigned)n);
    }
  }
}

/* Where each end is seen and nobody is cut off, no voter has a reason to. */
void sim_check_gives_up(struct sim *sim, const struct sim_proc *proc, const char *text) {
  const struct dmi_pulse_member *self = dmi_crash_member(dmi_pulse_top(proc->pulse), proc->uid);
  bool back = strstr(text, "taken back") != NULL;
  sim->totals->ended++;
  sim->totals->given_up += back;
  if (sim->gentle && !back && self && self->voter && !self->witness)
    sim_bad(sim, "p%u ends without a reason: %s", proc->uid, text);
}

static void check_one(struct sim *sim, const struct sim_proc *proc, const struct sim_proc *first) {
  if (proc->view.view.number != first->view.view.number ||
      dmi_pulse_top(proc->pulse)->made != dmi_pulse_top(first->pulse)->made)
    sim_bad(sim, "p%u and p%u have different views", proc->uid, first->uid);
  if (dmi_pulse_frozen(proc->pulse)) sim_bad(sim, "p%u stays frozen", proc->uid);
  if (proc->pulse->chain.num != 1)
    sim_bad(sim, "p%u does not know that all have taken its view", proc->uid);
}

/* Long after everything was well again. */
void sim_check_end(struct sim *sim) {
  const struct sim_proc *first = NULL;
  uint32_t num = 0;
  for (dmi_uid_t uid = 1; uid < PROCS && !sim->bad; uid++) {
    const struct sim_proc *proc = &sim->proc[uid];
    if (!proc->alive || !proc->started) {
      if (proc->alive) sim_bad(sim, "p%u joins for ever", uid);
      continue;
    }
    if (!first) first = proc;
    if (!is_in(&first->view, proc->uid))
      sim_bad(sim, "p%u lives, and p%u has removed it", proc->uid, first->uid);
    check_one(sim, proc, first);
    num++;
  }
  sim->totals->survivors += num;
  sim->totals->extinct += num == 0;
  if (!first) return;
  if (first->view.view.num != num) sim_bad(sim, "there are members that do not live");
  /* nothing but one death, of few: nobody else may end */
  if (!sim->mode && !sim->gentle && num == 0)
    sim_bad(sim, "the program has ended without a reason");
}
