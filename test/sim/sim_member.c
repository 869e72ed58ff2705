/*
 * sim_member.c - joins, leaves (R8) and mappings that come and go (R10), as the runtime would do
 * them.
 *
 * A leave is cut into as many small steps as the product may cut it into, so that messages get
 * between.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint32_t sim_living(const struct sim *sim) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++)
    num += sim->proc[i] != NULL;
  return num;
}

/* Is somebody on its way out? */
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

static void parked_again(struct sim_proc *proc, uint32_t map) {
  struct sim_pmap *pmap = &proc->pmap[map];
  struct dmi_msg *msg = pmap->parked;
  uint32_t *from = pmap->parked_from, num = pmap->parked_num;
  pmap->parked = NULL;
  pmap->parked_from = NULL;
  pmap->parked_num = pmap->parked_room = 0;
  for (uint32_t i = 0; i < num; i++)
    sim_page_message(proc, from[i], &msg[i]);
  free(msg);
  free(from);
}

/* This process forgets the mapping. */
static void forget(struct sim_proc *proc, uint32_t map) {
  struct sim *sim = proc->sim;
  struct sim_pmap *pmap = &proc->pmap[map];
  bool all = true;
  pmap->known = SIM_FORGOTTEN;
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    struct dmi_out out;
    if (!pmap->page[p]) continue;
    sim_touch(sim, map, p);
    dmi_out_init(&out);
    dmi_page_kill(&proc->core, pmap->page[p], &out);
    sim_act(proc, map, p, &out);
  }
  atomic_store(&pmap->map.arriving, 0);
  parked_again(proc, map);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i] && sim->proc[i]->pmap[map].known != SIM_FORGOTTEN) all = false;
  }
  sim->map[map].gone = all;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static struct dmi_msg about(const struct sim_proc *proc, uint32_t map, enum dmi_msg_type type) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = proc->core.self;
  msg.map = proc->sim->map[map].base;
  return msg;
}

/* R8.1.  The list is taken at HOME_BEGIN: records made after it know nothing of tails. */
static void hand_begin(struct sim_proc *proc, uint32_t map) {
  struct sim_pmap *pmap = &proc->pmap[map];
  struct dmi_msg msg = about(proc, map, DMI_MSG_HOME_BEGIN);
  uint32_t heir = atomic_load(&proc->core.heir);
  msg.off = pmap->map.page_size;
  msg.version = pmap->map.page_num;
  sim_send(proc, heir, &msg);
  atomic_store(&pmap->map.home, heir);
  proc->tails_num = proc->tails_sent = 0;
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    if (!pmap->page[p]) continue;
    proc->tails[proc->tails_num].page = p;
    proc->tails[proc->tails_num++].tail = dmi_page_tail(&proc->core, pmap->page[p]);
  }
  proc->hand_begun = true;
}

static void hand_tails(struct sim_proc *proc, uint32_t map) {
  struct dmi_msg msg = about(proc, map, DMI_MSG_HOME_TAILS);
  uint32_t left = proc->tails_num - proc->tails_sent;
  uint32_t num = rng_range(&proc->sim->rng, 1, left);
  msg.list = dmi_slice_copy(&proc->tails[proc->tails_sent], num * sizeof(proc->tails[0]));
  proc->tails_sent += num;
  sim_send(proc, atomic_load(&proc->core.heir), &msg);
}

static void offer_all(struct sim_proc *proc) {
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      struct dmi_out out;
      if (proc->pmap[m].known != SIM_KNOWN || !proc->pmap[m].page[p]) continue;
      dmi_out_init(&out);
      dmi_page_give(&proc->core, sim_page_get(proc, m, p), sim_room_heir(proc), &out);
      sim_act(proc, m, p, &out);
    }
  }
}

/* One small step of handing over. */
static void hand_over(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  uint32_t map = proc->hand_map;
  if (map == SIM_MAPS || map >= sim->maps) {
    offer_all(proc);
    proc->stage = SIM_DRAINING;
    return;
  }
  if (!proc->hand_begun) {
    struct sim_pmap *pmap = &proc->pmap[map];
    if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == proc->core.self) {
      hand_begin(proc, map);
    } else {
      proc->hand_map++;
    }
  } else if (proc->tails_sent < proc->tails_num) {
    hand_tails(proc, map);
  } else {
    struct dmi_msg msg = about(proc, map, DMI_MSG_HOME_END);
    sim_send(proc, atomic_load(&proc->core.heir), &msg);
    proc->hand_begun = false;
    proc->hand_map++;
    proc->homes_given++;
  }
}

/* R8.2, at the heir; HOME_DONE at the leaver. */
void sim_home_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct sim *sim = proc->sim;
  uint32_t map = (uint32_t)(msg->map >> 20) - 1;
  struct sim_pmap *pmap = sim_pmap_get(proc, map);
  struct dmi_out out;
  if (msg->type == DMI_MSG_HOME_DONE) {
    proc->homes_done++;
    return;
  }
  if (msg->type == DMI_MSG_HOME_BEGIN && pmap) {
    atomic_store(&pmap->map.home, proc->core.self);
    atomic_store(&pmap->map.arriving, 1);
  }
  for (uint64_t i = 0; pmap && i < msg->list.len / sizeof(struct dmi_tail); i++) {
    struct dmi_tail entry;
    memcpy(&entry, msg->list.ptr + i * sizeof(entry), sizeof(entry));
    dmi_out_init(&out);
    (void)dmi_page_home_arrived(&proc->core, sim_page_get(proc, map, (uint32_t)entry.page), true,
                                entry.tail, &out);
    sim_act(proc, map, (uint32_t)entry.page, &out);
  }
  dmi_slice_drop(&msg->list);
  if (msg->type != DMI_MSG_HOME_END) return;
  for (uint32_t p = 0; pmap && p < SIM_PAGES; p++) {
    if (!pmap->page[p]) continue;
    sim_touch(sim, map, p);
    dmi_out_init(&out);
    if (!dmi_page_home_arrived(&proc->core, pmap->page[p], false, 0, &out))
      sim_bad(sim, "p%u refuses a home that a correct process hands over", proc->core.self);
    sim_act(proc, map, p, &out);
  }
  if (pmap) {
    atomic_store(&pmap->map.arriving, 0);
    parked_again(proc, map);
  }
  struct dmi_msg done = about(proc, map, DMI_MSG_HOME_DONE);
  sim_send(proc, from, &done);
}

/* Does it own nothing, and do its threads want nothing any more? */
static bool is_drained(const struct sim_proc *proc) {
  if (atomic_load(&proc->core.owned) || proc->homes_given != proc->homes_done) return false;
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (proc->thread[t].out) return false;
  }
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    const struct sim_pmap *pmap = &proc->pmap[m];
    if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == proc->core.self) return false;
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
  struct dmi_msg bye = {.type = SIM_BYE};
  if (view->uid == proc->core.self) return;
  /* The coordinator's FORGET travels before its VIEW.  Otherwise a home could meet a tail that was
   * free to leave because it had forgotten the mapping. */
  for (uint32_t m = 0; m < sim->maps; m++) {
    if ((view->unmapping >> m & 1) && proc->pmap[m].known != SIM_FORGOTTEN) forget(proc, m);
  }
  sim_log(sim, "p%u takes the view without p%u", proc->core.self, view->uid);
  if (!leaver) {
    sim_bad(sim, "p%u left before p%u took the view", view->uid, proc->core.self);
    return;
  }
  sim_send(proc, view->uid, &bye);
  proc->left[view->uid / 8] = (uint8_t)(proc->left[view->uid / 8] | 1u << (view->uid % 8));
  for (uint32_t m = 0; m < sim->maps; m++) {
    struct sim_pmap *pmap = &proc->pmap[m];
    if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == view->uid) {
      atomic_store(&pmap->map.home, view->heir);
    }
  }
}

void sim_member_view_now(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  if (proc->views == sim->views) return;
  const struct sim_view *view = &sim->view[proc->views];
  for (uint32_t m = 0; m < sim->maps; m++) {
    if ((view->unmapping >> m & 1) && proc->pmap[m].known != SIM_FORGOTTEN) return;
  }
  take_view(proc);
}

static bool may_go(const struct sim_proc *proc) {
  return proc->stage == SIM_DRAINED && proc->byes == proc->byes_wanted &&
         proc->views == proc->sim->views && sim_net_idle(proc->sim, proc->slot);
}

/* ---- What happens next ---------------------------------------------------------------------- */

static bool leave_goes_on(struct sim_proc *proc) {
  if (proc->stage == SIM_HANDS_OVER) {
    hand_over(proc);
  } else if (proc->stage == SIM_DRAINING && !proc->mute) {
    proc->mute = true;
  } else if (proc->stage == SIM_DRAINING && rng_once_in(&proc->sim->rng, 4) &&
             sim_ops_abandon(proc)) {
    return true;
  } else if (proc->stage == SIM_DRAINING && is_drained(proc)) {
    make_view(proc);
  } else if (may_go(proc)) {
    sim_log(proc->sim, "p%u goes", proc->core.self);
    proc->sim->totals->leaves++;
    sim_proc_free(proc);
  } else {
    return false;
  }
  return true;
}

bool sim_member_go_on(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc) continue;
    uint32_t first = rng_below(&sim->rng, 2);
    for (uint32_t k = 0; k < 2; k++) {
      if ((first + k) % 2 == 0) {
        if (proc->views < sim->views) {
          take_view(proc);
          return true;
        }
      } else if (leave_goes_on(proc)) {
        return true;
      }
    }
    for (uint32_t m = 0; m < sim->maps; m++) {
      if (sim->map[m].unmapping && proc->pmap[m].known != SIM_FORGOTTEN) {
        sim_log(sim, "p%u forgets mapping %u", proc->core.self, m + 1);
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
    /* Pages that are touched for the first time while their home leaves: R8.2, R9. */
    sim_map_new(sim, proc);
    sim->hot_map = sim->maps - 1;
    sim->hot_page = SIM_PAGES;
    sim->hot = 80;
    sim->weight[DMI_REQ_EXCL] += 10;
    if (rng_once_in(&sim->rng, 2)) {
      sim->net.strategy = SIM_LAG;
      sim->net.chan[heir->slot][proc->slot].slow = true;
    }
  }
  sim_log(sim, "p%u begins to leave, heir p%u", proc->core.self, heir->core.self);
  sim->stir++;
  proc->stage = SIM_HANDS_OVER;
  proc->heir_slot = heir->slot;
  atomic_store(&proc->core.heir, heir->core.self);
}

static void begin_unmap(struct sim *sim) {
  uint32_t map = rng_below(&sim->rng, sim->maps);
  if (sim->map[map].unmapping || maps_alive(sim) < 2 || sim->maps == SIM_MAPS) return;
  sim->map[map].unmapping = true;
  sim->totals->unmaps++;
}

bool sim_member_step(struct sim *sim) {
  struct sim_proc *proc;
  uint32_t living = sim_living(sim);
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
      if (living >= 3) begin_leave(sim);
      return true;
    case 6:
      proc = any_staying(sim, NULL, true);
      if (proc && maps_alive(sim) < 4) sim_map_new(sim, proc);
      return true;
    default:
      begin_unmap(sim);
      return true;
  }
}
