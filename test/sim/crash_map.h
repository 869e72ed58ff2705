/*
 * crash_map.h - the mappings of member_sim; see crash_map.c.
 */
#ifndef SIM_CRASH_MAP_H
#define SIM_CRASH_MAP_H

#include "core/coord_int.h"
#include "crash_sim.h"

#define SIM_MAPS 64u
#define SIM_GIVEN 64u

/* All ranges that were ever given, in one run. */
struct sim_given {
  struct dmi_entry given[SIM_GIVEN];
  uint32_t num;
};

/* What one process knows, and its call. */
struct sim_maps {
  struct dmi_entry known[SIM_MAPS];
  uint32_t num;
  uint64_t op; /* of the call without an answer; 0: none */
  bool maps;   /* it is DMI_mmap */
  dmi_uid_t self;
  struct sim_given *all;
};

void sim_maps_env(struct sim_maps *maps, struct dmi_member_env *env);
void sim_maps_act(struct sim_maps *maps, const struct dmi_mact *act);
bool sim_maps_result(struct sim *sim, struct sim_maps *maps, const struct dmi_mact *act);
void sim_maps_drain(struct sim_maps *maps, dmi_uid_t self, struct sim_maps *heir, dmi_uid_t uid);
void sim_maps_user(struct sim *sim, struct sim_maps *maps, struct dmi_member *m, uint64_t op,
                   struct dmi_mout *out);
void sim_maps_check(struct sim *sim, const struct dmi_coord *c, struct sim_maps *const *all,
                    uint32_t num);

#endif
