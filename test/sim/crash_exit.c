/*
 * crash_exit.c - DMI_exit in crash_sim: users call it, perhaps several at a time; in the end all
 * that live know of the same call, and no other one has returned as the first.
 */
#include "crash_exit.h"
#include "dmi_api.h"

bool sim_exit_user(struct sim *sim, struct sim_exit *own, struct dmi_member *m, uint64_t op,
                   struct dmi_mout *out) {
  if (own->op || own->called || sim->resting || rng_below(&sim->rng, 150)) return false;
  own->op = op;
  own->called = true;
  sim_log(sim, "p%u calls DMI_exit", dmi_member_uid(m));
  dmi_member_exit(m, op, dmi_member_uid(m) % 256, out);
  return true;
}

void sim_exit_act(struct sim *sim, struct sim_exit *own, const struct dmi_mact *act) {
  if (act->type == DMI_MACT_STOPPING) {
    if (own->caller) sim_bad(sim, "a process is told of DMI_exit twice");
    if (act->value != act->uid % 256) sim_bad(sim, "the status of DMI_exit is another one");
    own->caller = act->uid;
  } else if (act->type == DMI_MACT_RESULT && act->op == own->op) {
    own->op = 0;
    own->first = act->error == DMI_OK;
    if (act->error != DMI_OK && act->error != DMI_EEND) sim_bad(sim, "DMI_exit fails");
    if (own->first) sim->totals->exits++;
  }
}

void sim_exit_check(struct sim *sim, const struct sim_exit *const *all) {
  uint32_t caller = 0, first = 0;
  for (uint32_t i = 1; i < PROCS; i++) {
    if (all[i] && sim->proc[i].alive) caller = all[i]->caller;
  }
  for (uint32_t i = 1; i < PROCS; i++) {
    if (!all[i]) continue;
    if (sim->proc[i].alive && all[i]->caller != caller)
      sim_bad(sim, "p%u knows of the DMI_exit of p%u, another one of that of p%u", sim->proc[i].uid,
              all[i]->caller, caller);
    if (sim->proc[i].alive && caller == sim->proc[i].uid && !all[i]->op && !all[i]->first)
      sim_bad(sim, "the DMI_exit that all know of has failed");
    if (all[i]->first && first) sim_bad(sim, "DMI_exit succeeds twice");
    if (all[i]->first) first = sim->proc[i].uid;
  }
  if (first && first != caller)
    sim_bad(sim, "DMI_exit of p%u has succeeded, and all know of that of p%u", first, caller);
}
