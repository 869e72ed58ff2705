/*
 * node_handover.c - the real handover (core/handover.h) in a virtual node: what it walks over, and
 * its actions carried out, as the product's shell does it.
 */
#include <stdlib.h>
#include <string.h>

#include "node_sim.h"

static struct sim_pmap *of(struct node *node, const struct dmi_map *map) {
  return &node->pmap[sim_map_num(map->base)];
}

/* ---- What it walks over -------------------------------------------------------------------------
 */

static struct dmi_map *env_find(void *arg, uint64_t base) {
  struct sim_pmap *pmap = node_pmap(arg, base);
  return pmap ? &pmap->map : NULL;
}

static void env_enter(void *arg, const struct dmi_map *what) {
  const struct dmi_entry entry = {what->base, what->page_size, what->page_num,
                                  atomic_load(&what->home), what->word};
  struct node *node = arg;
  if (of(node, what)->known == SIM_KNOWN)
    sim_bad(node->sim, "p%u enters mapping %u, which it knows", node->uid, sim_map_num(what->base));
  node_enter(node, &entry, atomic_load(&what->arriving));
}

static void env_forget(void *arg, struct dmi_map *map) {
  of(arg, map)->known = SIM_FORGOTTEN;
  of(arg, map)->refs++;
}

static void env_each_map(void *arg, void (*visit)(struct dmi_map *map, void *with), void *with) {
  struct node *node = arg;
  for (uint32_t m = 0; m < node->maps; m++) {
    if (node->pmap[m].known == SIM_KNOWN) visit(&node->pmap[m].map, with);
  }
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

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  if (!make) return of(arg, map)->page[index];
  return node_page(arg, sim_map_num(map->base), (uint32_t)index);
}

static void env_each_record(void *arg, struct dmi_map *map,
                            void (*visit)(struct dmi_page *page, void *with), void *with) {
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    if (of(arg, map)->page[p]) visit(of(arg, map)->page[p], with);
  }
}

static void env_lock(void *arg, struct dmi_page *page) {
  struct node *node = arg;
  sim_touch(node->sim, sim_map_num(page->map->base), (uint32_t)page->index);
}

static void env_unlock(void *arg, struct dmi_page *page) {
  (void)arg;
  (void)page;
}

static void env_unlock_step(void *arg, struct dmi_page *page, struct dmi_out *out) {
  node_act(arg, sim_map_num(page->map->base), (uint32_t)page->index, out);
}

static uint32_t env_receiver(void *arg, uint64_t bytes) {
  return dmi_pressure_give(((struct node *)arg)->pressure, bytes);
}

void node_handover_init(struct node *node) {
  struct rng *rng = &node->sim->rng;
  node->env = (struct dmi_handover_env){.arg = node,
                                        .find = env_find,
                                        .enter = env_enter,
                                        .forget = env_forget,
                                        .each_map = env_each_map,
                                        .ref = env_ref,
                                        .unref = env_unref,
                                        .hold = env_hold,
                                        .release = env_hold,
                                        .arrived = env_arrived,
                                        .record = env_record,
                                        .each_record = env_each_record,
                                        .lock = env_lock,
                                        .unlock = env_unlock,
                                        .unlock_step = env_unlock_step,
                                        .receiver = env_receiver,
                                        .receiver_arg = node};
  node->handover = dmi_handover_new(&node->core, &node->env);
  dmi_handover_set_break(node->handover, node->sim->opt.handover_break);
  dmi_handover_set_sizes(node->handover, rng_range(rng, 1, SIM_PAGES),
                         rng_once_in(rng, 2) ? UINT64_MAX : rng_below(rng, 256));
}

void node_handover_fini(struct node *node) {
  dmi_handover_free(node->handover);
  node->handover = NULL;
  for (uint32_t m = 0; m < node->maps; m++) {
    if (node->pmap[m].refs)
      sim_bad(node->sim, "p%u keeps %d references to mapping %u", node->uid, node->pmap[m].refs, m);
  }
}

uint32_t node_leave_heir(const struct node *node) {
  return atomic_load(&node->core.heir);
}

/* ---- Actions
 * -------------------------------------------------------------------------------------- */

static void carry(struct node *node, struct dmi_out *out);

/* What was kept until HOME_END goes through the core again. */
static void replay(struct node *node, struct sim_pmap *pmap) {
  struct dmi_keep parked = pmap->parked;
  memset(&pmap->parked, 0, sizeof(pmap->parked));
  for (uint32_t i = 0; i < parked.num; i++)
    node_page_message(node, parked.at[i].from, &parked.at[i].msg);
  free(parked.at);
}

static void look_up(struct node *node, uint64_t base, uint64_t number) {
  struct sim_call *call = DMI_LIST_ADD(&node->calls);
  call->op = ++node->sim->next_op;
  call->type = DMI_CTL_LOOKUP;
  call->arg = base;
  call->number = number;
  dmi_member_lookup(node->m, call->op, base, &node->out);
  node_carry(node);
}

void node_leave_looked_up(struct node *node, const struct sim_call *call,
                          const struct dmi_mact *result) {
  struct dmi_out out;
  dmi_out_init(&out);
  if (!result->error) node_enter(node, &result->mapping, 0);
  dmi_handover_found(node->handover, call->number,
                     result->error ? NULL : &node_pmap(node, result->mapping.base)->map, &out);
  carry(node, &out);
}

static void drained(struct node *node) {
  sim_log(node->sim, "p%u is drained", node->uid);
  if (dmi_handover_state(node->handover) == DMI_HANDOVER_DRAINED) {
    sim_judge_drained(node);
    node_pager_leave_end(node);
  }
  dmi_member_drained(node->m, node->ended.at, node->ended.num, &node->out);
  node_carry(node);
}

static void carry(struct node *node, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *act = &out->act[i];
    switch (act->type) {
      case DMI_ACT_SEND:
        node_send(node, act->to, &act->msg);
        break;
      case DMI_ACT_REPLAY:
        replay(node, of(node, act->map));
        break;
      case DMI_ACT_FREED:
        node->events++; /* some of its pages may have stalled */
        of(node, act->map)->refs--;
        break;
      case DMI_ACT_LOOKUP:
        look_up(node, act->value, act->number);
        break;
      case DMI_ACT_PROMISED:
        node_pager_taken(node, act->to, act->value);
        break;
      case DMI_ACT_KEPT:
        node_pager_kept(node, act->to);
        break;
      case DMI_ACT_DRAINED:
        drained(node);
        break;
      default: /* of pages only */
        break;
    }
  }
  dmi_out_free(out);
}

/* ---- Events
 * ----------------------------------------------------------------------------------------- */

void node_leave_start(struct node *node, uint32_t heir) {
  if (heir) {
    node_pager_leave(node, heir);
  } else {
    node_pager_keep(node);
    node_leave_promised(node, 0);
  }
}

void node_leave_promised(struct node *node, uint32_t heir) {
  struct dmi_out out;
  sim_log(node->sim, "p%u hands over to p%u", node->uid, heir);
  if (heir && rng_once_in(&node->sim->rng, 3)) sim_net_slow(node, heir);
  dmi_out_init(&out);
  dmi_handover_begin(node->handover, heir, &out);
  carry(node, &out);
}

void node_leave_refused(struct node *node) {
  sim_judge_refused(node);
  if (dmi_handover_state(node->handover) == DMI_HANDOVER_STAYS) node->creates = node->opened;
  dmi_member_no_room(node->m, &node->out);
  node_carry(node);
}

bool node_leave_look(struct node *node) {
  struct dmi_out out;
  dmi_out_init(&out);
  if (!dmi_handover_go_on(node->handover, &out)) return false;
  carry(node, &out);
  return true;
}

bool node_leave_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  bool good;
  dmi_out_init(&out);
  good = dmi_handover_message(node->handover, from, msg, &out);
  carry(node, &out);
  return good;
}

void node_leave_removed(struct node *node, uint32_t uid, uint32_t heir) {
  dmi_handover_removed(node->handover, uid, heir);
}

void node_forget(struct node *node, uint64_t base) {
  struct dmi_out out;
  sim_log(node->sim, "p%u forgets mapping %u", node->uid, sim_map_num(base));
  dmi_out_init(&out);
  dmi_handover_forget(node->handover, base, &out);
  node->pmap[sim_map_num(base)].known = SIM_FORGOTTEN; /* also if it was not known */
  carry(node, &out);
}
