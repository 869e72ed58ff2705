/*
 * sim_member.c - joins, leaves, and making and freeing of mappings, as the coordinator allows them.
 */
#include "simulator.h"

uint32_t sim_living(const struct sim *sim) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++)
    num += sim->proc[i] != NULL;
  return num;
}

/* True if a process is leaving. */
bool sim_leaving(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i] && sim->proc[i]->stage != SIM_STAYS) return true;
  }
  return false;
}

static bool is_heir(const struct sim *sim, uint32_t slot) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i] && sim->proc[i]->stage != SIM_STAYS && sim->proc[i]->heir_slot == slot) {
      return true;
    }
  }
  return false;
}

/* A random process that stays, other than `not`; NULL: none. */
static struct sim_proc *any_staying(struct sim *sim, const struct sim_proc * not, bool heirs) {
  struct sim_proc *found[SIM_PROCS];
  uint32_t num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[i];
    if (!proc || proc == not || proc->stage != SIM_STAYS) continue;
    if (proc->pager && !sim_pager_is_open(proc)) continue;
    if (!heirs && is_heir(sim, i)) continue;
    found[num++] = proc;
  }
  return num ? found[rng_below(&sim->rng, num)] : NULL;
}

/* ---- Mappings ------------------------------------------------------------------------------- */

void sim_map_new(struct sim *sim, struct sim_proc *proc) {
  if (sim->maps == SIM_MAPS) return;
  struct sim_map *map = &sim->map[sim->maps];
  map->made = true;
  map->creator = proc->core.self;
  map->base = (uint64_t)(sim->maps + 1) << 20;
  map->page_size = 8u << rng_below(&sim->rng, 4);
  map->sync = map->page_size >= 16 && rng_once_in(&sim->rng, 2);
  map->page_num = rng_range(&sim->rng, 2, SIM_PAGES);
  for (uint32_t i = 0; i < SIM_PAGES; i++)
    hist_init(&map->hist[i], (uint32_t)map->page_size);
  sim->maps++;
  sim->totals->maps++;
  (void)sim_pmap_get(proc, sim->maps - 1);
}

static uint32_t maps_alive(const struct sim *sim) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < sim->maps; i++)
    num += !sim->map[i].unmapping;
  return num;
}

/* This process forgets the mapping. */
static void forget(struct sim_proc *proc, uint32_t map) {
  struct sim *sim = proc->sim;
  bool all = true;
  sim_log(sim, "p%u forgets mapping %u", proc->core.self, map);
  sim_handover_forget(proc, map);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i] && sim->proc[i]->pmap[map].known != SIM_FORGOTTEN) all = false;
  }
  sim->map[map].unmapped = all;
}

/* The home of a mapping according to the directory. */
static struct sim_proc *home_of(const struct sim *sim, uint32_t map) {
  uint32_t home = sim->map[map].creator;
  for (uint32_t i = 0; i < sim->views; i++) {
    if (sim->view[i].uid == home) home = sim->view[i].heir;
  }
  return sim_by_uid(sim, home);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static bool threads_done(const struct sim_proc *proc) {
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (proc->thread[t].out) return false;
  }
  return proc->mute;
}

/* The coordinator makes the view without `proc`. */
static void make_view(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  struct sim_view *view = &sim->view[sim->views++];
  view->uid = proc->core.self;
  view->heir = atomic_load(&proc->core.heir);
  for (uint32_t m = 0; m < sim->maps; m++)
    view->unmapping |= (uint32_t)sim->map[m].unmapping << m;
  proc->byes_wanted = sim_living(sim) - 1;
  proc->stage = SIM_DRAINED;
  sim_log(sim, "view without p%u, heir p%u", view->uid, view->heir);
}

/* A process takes the next view. */
static void take_view(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  const struct sim_view *view = &sim->view[proc->views++];
  struct sim_proc *leaver = sim_by_uid(sim, view->uid);
  struct dmi_msg last_request = {.type = SIM_LAST_REQUEST};
  if (view->uid == proc->core.self) return;
  /* FORGET arrives before VIEW.  Otherwise a home could meet a tail that had forgotten the mapping
   * and left. */
  for (uint32_t m = 0; m < sim->maps; m++) {
    if ((view->unmapping >> m & 1) && proc->pmap[m].known != SIM_FORGOTTEN) forget(proc, m);
  }
  sim_log(sim, "p%u takes the view without p%u", proc->core.self, view->uid);
  if (!leaver) {
    sim_bad(sim, "p%u left before p%u took the view", view->uid, proc->core.self);
    return;
  }
  sim_send(proc, view->uid, &last_request);
  proc->left[view->uid / 8] = (uint8_t)(proc->left[view->uid / 8] | 1u << (view->uid % 8));
  dmi_handover_removed(proc->handover, view->uid, view->heir);
  if (proc->pager) sim_pager_view(proc);
}

void sim_member_view_now(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  if (proc->views == sim->views || sim->opt.crashes) return;
  const struct sim_view *view = &sim->view[proc->views];
  for (uint32_t m = 0; m < sim->maps; m++) {
    if ((view->unmapping >> m & 1) && proc->pmap[m].known != SIM_FORGOTTEN) return;
  }
  take_view(proc);
}

static bool may_go(const struct sim_proc *proc) {
  return proc->stage == SIM_DRAINED && proc->byes == proc->byes_wanted &&
         (!proc->pager || sim_pager_rests(proc)) && proc->views == proc->sim->views &&
         sim_net_idle(proc->sim, proc->slot);
}

/* ---- What happens next ---------------------------------------------------------------------- */

static bool leave_goes_on(struct sim_proc *proc) {
  struct rng *rng = &proc->sim->rng;
  bool leaves = proc->stage == SIM_LEAVES;
  if ((leaves || proc->stage == SIM_ASKS) && sim_handover_go_on(proc)) return true;
  if (leaves && !proc->mute) {
    proc->mute = rng_once_in(rng, 4);
  } else if (leaves && rng_once_in(rng, 4) && sim_ops_abandon(proc)) {
    return true;
  } else if (leaves && proc->drained && threads_done(proc)) {
    make_view(proc);
  } else if (proc->pager && !sim_pager_is_open(proc)) {
    sim_pager_open(proc);
  } else if (may_go(proc)) {
    sim_log(proc->sim, "p%u goes", proc->core.self);
    sim_handover_gone(proc);
    proc->sim->totals->leaves++;
    sim_proc_free(proc);
  } else {
    return false;
  }
  return true;
}

bool sim_member_go_on(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  if (sim->opt.crashes) return sim_crash_go_on(sim);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc) continue;
    uint32_t first = rng_below(&sim->rng, 2);
    for (uint32_t k = 0; k < 2; k++) {
      if ((first + k) % 2 == 0) {
        if (proc->views < sim->views && !sim->opt.crashes) {
          take_view(proc);
          return true;
        }
      } else if (leave_goes_on(proc)) {
        return true;
      }
    }
    for (uint32_t m = 0; m < sim->maps; m++) {
      if (sim->map[m].unmapping && proc->pmap[m].known != SIM_FORGOTTEN) {
        forget(proc, m);
        return true;
      }
    }
  }
  return false;
}

static void begin_leave(struct sim *sim) {
  struct sim_proc *proc = any_staying(sim, NULL, false);
  struct sim_proc *heir = proc ? any_staying(sim, proc, true) : NULL;
  if (!heir) return;
  if (rng_once_in(&sim->rng, 3) && maps_alive(sim) < 5 && sim->maps < SIM_MAPS) {
    /* So that pages are used for the first time while their home leaves: R8.2, R9. */
    sim_map_new(sim, proc);
    sim->mix.hot_map = sim->maps - 1;
    sim->mix.hot_page = SIM_PAGES;
    sim->mix.hot = 80;
    sim->mix.weight[DMI_REQ_EXCL] += 10;
    if (rng_once_in(&sim->rng, 2)) {
      sim->net.strategy = SIM_LAG;
      sim->net.chan[heir->slot][proc->slot].slow = true;
    }
  }
  sim_log(sim, "p%u begins to leave, heir p%u", proc->core.self, heir->core.self);
  sim->stir++;
  /* FORGET arrives before the message that lets it leave. */
  for (uint32_t m = 0; m < sim->maps; m++) {
    if (sim->map[m].unmapping && proc->pmap[m].known != SIM_FORGOTTEN) forget(proc, m);
  }
  proc->heir_slot = heir->slot;
  sim_handover_begin(proc, heir->core.self);
}

static void begin_unmap(struct sim *sim) {
  uint32_t map = rng_below(&sim->rng, sim->maps);
  const struct sim_proc *home = home_of(sim, map);
  if (sim->map[map].unmapping || maps_alive(sim) < 2 || sim->maps == SIM_MAPS) return;
  if (home && (home->stage == SIM_LEAVES || home->stage == SIM_ASKS))
    return; /* it waits for the leave (docs/membership.md) */
  sim->map[map].unmapping = true;
  sim->totals->unmaps++;
}

bool sim_member_step(struct sim *sim) {
  struct sim_proc *proc;
  uint32_t living = sim_living(sim);
  if (sim->opt.crashes && !sim_crash_calm(sim)) return sim_crash(sim); /* a second one */
  switch (rng_below(&sim->rng, 8)) {
    case 0:
    case 1:
    case 2:
      if (living >= 7) return false;
      proc = sim_proc_new(sim);
      if (proc) sim->totals->joins++;
      return proc != NULL;
    case 3:
    case 4:
    case 5:
      if (sim->opt.crashes) return sim_crash(sim);
      if (living >= 3) begin_leave(sim);
      return true;
    case 6:
      proc = any_staying(sim, NULL, true);
      if (proc && maps_alive(sim) < 4) sim_map_new(sim, proc);
      return true;
    default:
      if (!sim->opt.crashes) begin_unmap(sim);
      return true;
  }
}
