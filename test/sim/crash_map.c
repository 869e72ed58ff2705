/*
 * crash_map.c - the mappings of member_sim: users map, look up and unmap; each process knows some
 * mappings, and a leaver gives its homes to its heir at once.  In the end the directory has what
 * any living process knows, with the same homes; and no address was given twice.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "crash_map.h"

/* ---- What one process knows ------------------------------------------------------------------ */

static struct dmi_entry *find(struct sim_maps *maps, uint64_t base) {
  for (uint32_t i = 0; i < maps->num; i++) {
    if (maps->known[i].base == base) return &maps->known[i];
  }
  return NULL;
}

static void enter(struct sim_maps *maps, const struct dmi_entry *entry, bool corrects) {
  struct dmi_entry *known = find(maps, entry->base);
  if (!known && maps->num < SIM_MAPS) {
    known = &maps->known[maps->num++];
    *known = *entry;
  } else if (known && corrects) {
    known->home = entry->home;
  }
}

static void forget(struct sim_maps *maps, uint64_t base) {
  struct dmi_entry *known = find(maps, base);
  if (known) *known = maps->known[--maps->num];
}

static void move_homes(struct sim_maps *maps, dmi_uid_t from, dmi_uid_t to) {
  for (uint32_t i = 0; i < maps->num; i++) {
    if (maps->known[i].home == from) maps->known[i].home = to;
  }
}

static bool next_mapping(void *arg, uint64_t above, struct dmi_entry *entry, dmi_uid_t *before) {
  const struct sim_maps *maps = arg;
  const struct dmi_entry *next = NULL;
  for (uint32_t i = 0; i < maps->num; i++) {
    const struct dmi_entry *known = &maps->known[i];
    if (known->base > above && (!next || known->base < next->base)) next = known;
  }
  if (!next) return false;
  *entry = *next;
  *before = entry->home; /* pages, and what a recovery decides about them, are not simulated */
  return true;
}

void sim_maps_env(struct sim_maps *maps, struct dmi_member_env *env) {
  env->next_mapping = next_mapping;
  env->mapping_arg = maps;
}

/* ---- What membership asks for ---------------------------------------------------------------- */

/* A range that DMI_mmap has given to some process. */
static void given(struct sim *sim, struct sim_maps *maps, const struct dmi_entry *entry) {
  uint64_t end = entry->base + entry->page_size * entry->page_num;
  for (uint32_t i = 0; i < maps->all->num; i++) {
    const struct dmi_entry *other = &maps->all->given[i];
    if (entry->base >= other->base + other->page_size * other->page_num || other->base >= end)
      continue;
    sim_bad(sim, "the addresses at %llx are given twice", (unsigned long long)entry->base);
  }
  if (maps->all->num < SIM_GIVEN) maps->all->given[maps->all->num++] = *entry;
}

bool sim_maps_result(struct sim *sim, struct sim_maps *maps, const struct dmi_mact *act) {
  if (!maps->op || act->op != maps->op) return false;
  maps->op = 0;
  if (act->error || !act->mapping.base) return true;
  if (maps->maps) given(sim, maps, &act->mapping);
  enter(maps, &act->mapping, false);
  return true;
}

void sim_maps_act(struct sim_maps *maps, const struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_VIEW:
      for (uint32_t i = 0; i < act->removed_num; i++) {
        if (act->removed[i].heir) move_homes(maps, act->removed[i].uid, act->removed[i].heir);
      }
      break;
    case DMI_MACT_ADOPT:
      enter(maps, &act->mapping, false);
      break;
    case DMI_MACT_FORGET:
      forget(maps, act->mapping.base);
      break;
    case DMI_MACT_RECOVER:
      for (uint32_t i = 0; i < act->mapping_num; i++)
        enter(maps, &act->mappings[i], true);
      for (uint32_t i = 0; i < act->removed_num; i++)
        move_homes(maps, act->removed[i].uid, act->removed[i].heir);
      break;
    default:
      break;
  }
}

/* The heir has them at once; others hear of it by the view. */
void sim_maps_drain(struct sim_maps *maps, dmi_uid_t self, struct sim_maps *heir, dmi_uid_t uid) {
  for (uint32_t i = 0; i < maps->num; i++) {
    if (maps->known[i].home != self) continue;
    maps->known[i].home = uid;
    enter(heir, &maps->known[i], true);
  }
}

/* ---- Users ----------------------------------------------------------------------------------- */

/* One call at a time.  Large mappings need a RESERVE now and then. */
void sim_maps_user(struct sim *sim, struct sim_maps *maps, struct dmi_member *m, uint64_t op,
                   struct dmi_mout *out) {
  uint32_t what = rng_below(&sim->rng, 8);
  const struct sim_given *all = maps->all;
  const struct dmi_entry *some = all->num ? &all->given[rng_below(&sim->rng, all->num)] : NULL;
  if (maps->op || what > 2) return;
  maps->op = op;
  maps->maps = what == 0;
  if (what == 0 && all->num < SIM_GIVEN) {
    dmi_member_mmap(m, op, 4096, (uint64_t)1 << rng_below(&sim->rng, 31), out);
  } else if (what == 1 && some) {
    dmi_member_lookup(m, op, some->base, out);
  } else if (what == 2 && some && rng_once_in(&sim->rng, 3)) {
    dmi_member_munmap(m, op, some->base, out);
  } else {
    maps->op = 0;
  }
}

/* ---- In the end ------------------------------------------------------------------------------ */

/* `all`: of all living processes. */
void sim_maps_check(struct sim *sim, const struct dmi_coord *c, struct sim_maps *const *all,
                    uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    if (all[i]->op) sim_bad(sim, "a call about a mapping has no answer");
    for (uint32_t k = 0; k < all[i]->num; k++) {
      const struct dmi_entry *known = &all[i]->known[k];
      const struct dmi_entry *entry = dmi_directory_find(c, known->base);
      if (!entry) {
        sim_bad(sim, "mapping %llx, home %u, is known to p%u, but not to the directory",
                (unsigned long long)known->base, known->home, all[i]->self);
      } else if (entry->home != known->home) {
        sim_bad(sim, "the home of %llx: %u in the directory, %u elsewhere",
                (unsigned long long)known->base, entry->home, known->home);
      }
    }
  }
  for (uint32_t k = 0; k < c->mappings.num; k++) {
    const struct dmi_entry *entry = &c->mappings.at[k];
    for (uint32_t i = 0; i < num; i++) {
      if (all[i]->self == entry->home && !find(all[i], entry->base))
        sim_bad(sim, "the home of a mapping does not know it");
    }
  }
}
