/*
 * sim_handover.c - the real handover (lib/core/handover.h) in a virtual process: gives it mappings
 * and records, carries out its actions, and checks a process that it calls drained.
 */
#include <stdlib.h>

#include "msg/wire.h"
#include "simulator.h"

static uint32_t number_of(const struct dmi_map *map) {
  return (uint32_t)(map->base >> 20) - 1;
}

static struct sim_pmap *of(struct sim_proc *proc, const struct dmi_map *map) {
  return &proc->pmap[number_of(map)];
}

/* ---- Mappings and records ------------------------------------------------------------------- */

static struct dmi_map *env_find(void *arg, uint64_t base) {
  struct sim_proc *proc = arg;
  struct sim_pmap *pmap = &proc->pmap[(base >> 20) - 1];
  return pmap->known == SIM_KNOWN ? &pmap->map : NULL;
}

/* An address is never used twice, so a forgotten mapping must not come back (R10). */
static void env_enter(void *arg, const struct dmi_map *what) {
  struct sim_proc *proc = arg;
  struct sim_pmap *pmap = of(proc, what);
  if (pmap->known != SIM_UNKNOWN) {
    sim_bad(proc->sim, "p%u enters mapping %u, which it %s", proc->core.self, number_of(what) + 1,
            pmap->known == SIM_KNOWN ? "knows" : "has forgotten");
  }
  pmap->known = SIM_KNOWN;
  pmap->map.base = what->base;
  /* If the rule LOOKUP is broken, the sizes are not known. */
  const struct sim_map *map = &proc->sim->map[number_of(what)];
  pmap->map.page_size = what->page_size ? what->page_size : map->page_size;
  pmap->map.page_num = what->page_num ? what->page_num : map->page_num;
  atomic_store(&pmap->map.arriving, atomic_load(&what->arriving));
  atomic_store(&pmap->map.home, atomic_load(&what->home));
}

static void env_forget(void *arg, struct dmi_map *map) {
  of(arg, map)->known = SIM_FORGOTTEN;
  of(arg, map)->refs++;
}

static struct dmi_map *env_next_map(void *arg, uint64_t base) {
  struct sim_proc *proc = arg;
  for (uint32_t m = (uint32_t)(base >> 20); m < proc->sim->maps; m++) {
    if (proc->pmap[m].known == SIM_KNOWN) return &proc->pmap[m].map;
  }
  return NULL;
}

static bool env_ref(void *arg, struct dmi_map *map) {
  of(arg, map)->refs++;
  return true;
}

static void env_unref(void *arg, struct dmi_map *map) {
  of(arg, map)->refs--;
}

static void env_hold(void *arg, struct dmi_map *map) {
  (void)arg;
  (void)map;
}

static void env_arrived(void *arg, struct dmi_map *map) {
  (void)arg;
  atomic_store(&map->arriving, 0);
}

static struct dmi_page *locked(struct sim_proc *proc, struct dmi_page *page) {
  if (!page) return NULL;
  sim_touch(proc->sim, number_of(page->map), (uint32_t)page->index);
  proc->pool.excused = proc->must;
  return page;
}

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  if (!make) return locked(arg, of(arg, map)->page[index]);
  return locked(arg, sim_page_get(arg, number_of(map), (uint32_t)index));
}

static struct dmi_page *env_next_record(void *arg, struct dmi_map *map, uint64_t from) {
  while (from < SIM_PAGES && !of(arg, map)->page[from])
    from++;
  return from < SIM_PAGES ? locked(arg, of(arg, map)->page[from]) : NULL;
}

static void env_unlock(void *arg, struct dmi_page *page) {
  struct sim_proc *proc = arg;
  (void)page;
  proc->pool.excused = false;
}

static void env_step_end(void *arg, struct dmi_page *page, struct dmi_out *out) {
  env_unlock(arg, page);
  sim_act(arg, number_of(page->map), (uint32_t)page->index, out);
}

/* Without pagers: anybody. */
static uint32_t receiver(void *arg, uint64_t bytes) {
  (void)bytes;
  return sim_capacity_heir(arg);
}

void sim_handover_init(struct sim_proc *proc) {
  struct rng *rng = &proc->sim->rng;
  proc->env = (struct dmi_handover_env){.arg = proc,
                                        .find = env_find,
                                        .enter = env_enter,
                                        .forget = env_forget,
                                        .next_map = env_next_map,
                                        .ref = env_ref,
                                        .unref = env_unref,
                                        .hold = env_hold,
                                        .release = env_hold,
                                        .arrived = env_arrived,
                                        .record = env_record,
                                        .next_record = env_next_record,
                                        .unlock = env_unlock,
                                        .step_end = env_step_end};
  proc->handover = dmi_handover_new(&proc->core, &proc->env);
  dmi_handover_set_break(proc->handover, proc->sim->opt.handover_break,
                         proc->sim->opt.capacity_break);
  if (!proc->pager) dmi_handover_set_receiver(proc->handover, receiver);
  dmi_handover_set_sizes(proc->handover, rng_range(rng, 1, SIM_PAGES),
                         rng_once_in(rng, 2) ? UINT64_MAX : rng_below(rng, 256));
}

void sim_handover_fini(struct sim_proc *proc) {
  dmi_handover_free(proc->handover);
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    if (proc->pmap[m].refs == 0) continue;
    sim_bad(proc->sim, "p%u keeps %d references to mapping %u", proc->core.self, proc->pmap[m].refs,
            m);
  }
}

/* ---- Actions -------------------------------------------------------------------------------- */

void sim_handover_replay(struct sim_proc *proc, uint32_t map) {
  struct sim_pmap *pmap = &proc->pmap[map];
  struct dmi_msg *msg = pmap->deferred;
  uint32_t *from = pmap->deferred_from, num = pmap->deferred_num;
  pmap->deferred = NULL;
  pmap->deferred_from = NULL;
  pmap->deferred_num = pmap->deferred_capacity = 0;
  for (uint32_t i = 0; i < num; i++)
    sim_page_message(proc, from[i], &msg[i]);
  free(msg);
  free(from);
}

/* The directory's answer may be late, as any message. */
static void look_up(struct sim_proc *proc, const struct dmi_act *act) {
  struct dmi_msg msg = {
      .type = SIM_FOUND, .map = act->value, .word = {act->number}, .flags = proc->must};
  sim_net_put(proc->sim, proc->slot, proc->slot, &msg, NULL);
}

/* Checks R8.4 from outside. */
static void check_drained(struct sim_proc *proc) {
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    const struct sim_pmap *pmap = &proc->pmap[m];
    if (pmap->known != SIM_KNOWN) continue;
    if (atomic_load(&pmap->map.home) == proc->core.self)
      sim_bad(proc->sim, "p%u is drained and home of mapping %u", proc->core.self, m);
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = pmap->page[p];
      if (!page) continue;
      if (page->role != DMI_ROLE_NONE)
        sim_bad(proc->sim, "p%u is drained and owns, or will own, map %u page %u", proc->core.self,
                m, p);
      if (page->copy || (page->busy && dmi_fetch_any(page->busy->fetch)))
        sim_bad(proc->sim, "p%u is drained and has, or will have, a copy of map %u page %u",
                proc->core.self, m, p);
    }
  }
}

static void send(struct sim_proc *proc, struct dmi_act *act) {
  bool capacity = dmi_wire_class(&act->msg) == DMI_CLASS_CAPACITY;
  if (capacity && !proc->pager) { /* the heir, which was asked, promises all: others get it */
    const struct dmi_msg_capacity_ask *ask = &act->msg.capacity_ask;
    struct dmi_msg all = {.type = DMI_SVC_CAPACITY_REPORT, .origin = act->to};
    all.capacity_report = (struct dmi_msg_capacity_report){ask->number, ask->kind, ask->bytes};
    if (act->msg.type == DMI_SVC_CAPACITY_ASK)
      (void)dmi_handover_report(proc->handover, act->to, &all);
    return;
  }
  if (capacity) sim_pager_sends(proc, act->to, &act->msg);
  if (proc->pager && act->msg.type == DMI_MSG_REFUSE_PAGE && env_find(proc, act->msg.map))
    sim_pager_sends_back(proc, act->to, act->msg.flags & DMI_F_MUST);
  sim_send(proc, act->to, &act->msg);
}

static void carry(struct sim_proc *proc, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *act = &out->act[i];
    switch ((enum dmi_act_type)act->type) {
      case DMI_ACT_SEND:
        send(proc, act);
        break;
      case DMI_ACT_REPLAY:
        sim_handover_replay(proc, number_of(act->map));
        break;
      case DMI_ACT_FREED:
        of(proc, act->map)->refs--;
        if (proc->pager) sim_pager_forgot(proc);
        break;
      case DMI_ACT_LOOKUP:
        look_up(proc, act);
        break;
      case DMI_ACT_DRAINED:
        sim_log(proc->sim, "p%u is drained", proc->core.self);
        check_drained(proc);
        proc->drained = true;
        break;
      case DMI_ACT_LEAVES:
        sim_log(proc->sim, "p%u leaves, heir p%u", proc->core.self, atomic_load(&proc->core.heir));
        proc->stage = SIM_LEAVES;
        break;
      case DMI_ACT_STAYS:
        sim_pager_stays(proc);
        proc->stage = SIM_STAYS;
        break;
      case DMI_ACT_PROMISED: /* without pagers nobody promises: receivers are chosen at random */
        if (proc->pager) sim_pager_taken(proc, act->to, act->value);
        break;
      case DMI_ACT_TAKEN:
        if (proc->pager && !sim_pager_is_open(proc))
          sim_bad(proc->sim, "p%u takes a page before it is welcomed", proc->core.self);
        break;
      case DMI_ACT_KEPT:
        if (proc->pager) sim_pager_kept(proc, act->to);
        break;
      default:
        sim_bad(proc->sim, "p%u: the handover has another's action", proc->core.self);
    }
  }
  dmi_out_free(out);
}

/* ---- Events --------------------------------------------------------------------------------- */

void sim_handover_begin(struct sim_proc *proc, uint32_t heir) {
  struct dmi_out out;
  proc->stage = SIM_ASKS;
  if (proc->pager) {
    sim_pager_leave(proc, heir);
  } else {
    dmi_handover_view(proc->handover, &heir, 1);
  }
  dmi_out_init(&out);
  dmi_handover_begin(proc->handover, heir, &out);
  carry(proc, &out);
}

bool sim_handover_go_on(struct sim_proc *proc) {
  struct dmi_out out;
  bool more;
  if (proc->stage == SIM_ASKS && sim_pager_has_promised(proc)) return false;
  dmi_out_init(&out);
  proc->daemon = true;
  more = dmi_handover_go_on(proc->handover, &out);
  proc->daemon = false;
  carry(proc, &out);
  return more;
}

void sim_handover_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  uint8_t type = msg->type;
  dmi_out_init(&out);
  proc->daemon = true;
  proc->must = (msg->flags & DMI_F_MUST) != 0;
  if (!dmi_handover_message(proc->handover, from, msg, &out))
    sim_bad(proc->sim, "p%u refuses %s of p%u", proc->core.self, sim_msg_name(type), from);
  proc->daemon = false;
  carry(proc, &out);
  proc->must = false;
}

void sim_handover_found(struct sim_proc *proc, const struct dmi_msg *msg) {
  struct sim_pmap *pmap = sim_pmap_get(proc, (uint32_t)(msg->map >> 20) - 1);
  struct dmi_out out;
  dmi_out_init(&out);
  proc->daemon = true;
  proc->must = msg->flags;
  dmi_handover_found(proc->handover, msg->word[0], pmap ? &pmap->map : NULL, &out);
  proc->daemon = proc->must = false;
  carry(proc, &out);
}

void sim_handover_forget(struct sim_proc *proc, uint32_t map) {
  struct dmi_out out;
  dmi_out_init(&out);
  proc->daemon = true;
  dmi_handover_forget(proc->handover, proc->sim->map[map].base, &out);
  proc->daemon = false;
  carry(proc, &out);
  proc->pmap[map].known = SIM_FORGOTTEN;
}

void sim_handover_gone(struct sim_proc *proc) {
  check_drained(proc);
}
