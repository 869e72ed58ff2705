/*
 * crash_exit.h - DMI_exit in member_sim: who has called it, and who knows.
 */
#ifndef CRASH_EXIT_H
#define CRASH_EXIT_H

#include "crash_sim.h"
#include "core/coord_int.h"

struct sim_exit {
  uint64_t op;        /* the call that is out; 0: none */
  bool called, first; /* it was called here; and has succeeded */
  dmi_uid_t caller;   /* whose call this process knows of; 0: it knows of none */
};

/* The user of `m` calls it.  False: not now. */
bool sim_exit_user(struct sim *sim, struct sim_exit *own, struct dmi_member *m, uint64_t op,
                   struct dmi_mout *out);
/* Any action of that member. */
void sim_exit_act(struct sim *sim, struct sim_exit *own, const struct dmi_mact *act);
/* In the end.  `all`: of each process, NULL: it never began. */
void sim_exit_check(struct sim *sim, const struct sim_exit *const *all);

#endif
