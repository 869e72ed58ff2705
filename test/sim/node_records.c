/*
 * node_records.c - gives core/node.h access to the mappings and page records of a virtual node.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

static struct sim_pmap *of(struct node *node, const struct dmi_map *map) {
  return &node->pmap[sim_map_num(node->sim, map->base)];
}

/* ---- What it walks over --------------------------------------------------------------------- */

static struct dmi_map *env_find(void *arg, uint64_t base) {
  struct sim_pmap *pmap = node_pmap(arg, base);
  return pmap ? &pmap->map : NULL;
}

static void env_enter(void *arg, const struct dmi_map *what) {
  const struct dmi_entry entry = {what->base, what->page_size, what->page_num,
                                  atomic_load(&what->home), what->tag};
  struct node *node = arg;
  if (of(node, what)->known == SIM_KNOWN)
    sim_bad(node->sim, "p%u enters mapping %u, which it knows", node->uid,
            sim_map_num(node->sim, what->base));
  node_enter(node, &entry, atomic_load(&what->arriving));
}

static void env_forget(void *arg, struct dmi_map *map) {
  of(arg, map)->known = SIM_FORGOTTEN;
  of(arg, map)->refs++;
}

static struct dmi_map *env_next_map(void *arg, uint64_t base) {
  struct node *node = arg;
  struct dmi_map *next = NULL; /* numbers need not be in the order of addresses */
  for (uint32_t m = 0; m < node->maps; m++) {
    struct dmi_map *map = &node->pmap[m].map;
    if (node->pmap[m].known == SIM_KNOWN && map->base > base && (!next || map->base < next->base))
      next = map;
  }
  return next;
}

static bool env_ref(void *arg, struct dmi_map *map) {
  of(arg, map)->refs++;
  return true;
}

static void env_unref(void *arg, struct dmi_map *map) {
  of(arg, map)->refs--;
}

/* Lets threads run while the daemon walks over pages without a lock. */
static void others_run(struct node *node, uint32_t once_in) {
  if (node->holds || node->sim->resting || !node->alive) return;
  if (rng_once_in(&node->sim->rng, once_in)) (void)node_ops_begin(node);
}

static void env_hold(void *arg, struct dmi_map *map) {
  ((struct node *)arg)->holds = true;
  (void)map;
}

static void env_release(void *arg, struct dmi_map *map) {
  ((struct node *)arg)->holds = false;
  others_run(arg, 3);
  (void)map;
}

static void env_arrived(void *arg, struct dmi_map *map) {
  (void)arg;
  atomic_store(&map->arriving, 0);
}

static struct dmi_page *locked(struct node *node, struct dmi_page *page) {
  if (page) sim_touch(node->sim, sim_map_num(node->sim, page->map->base), (uint32_t)page->index);
  return page;
}

static struct dmi_page *env_record(void *arg, struct dmi_map *map, uint64_t index, bool make) {
  if (!make) return locked(arg, of(arg, map)->page[index]);
  return locked(arg,
                node_page(arg, sim_map_num(((struct node *)arg)->sim, map->base), (uint32_t)index));
}

static struct dmi_page *env_next_record(void *arg, struct dmi_map *map, uint64_t from) {
  while (from < SIM_PAGES && !of(arg, map)->page[from])
    from++;
  return from < SIM_PAGES ? locked(arg, of(arg, map)->page[from]) : NULL;
}

static void env_unlock(void *arg, struct dmi_page *page) {
  others_run(arg, 10);
  (void)page;
}

static void env_step_end(void *arg, struct dmi_page *page, struct dmi_out *out) {
  node_act(arg, sim_map_num(((struct node *)arg)->sim, page->map->base), (uint32_t)page->index,
           out);
  others_run(arg, 10);
}

void node_records_init(struct node *node) {
  node->env.arg = node;
  node->env.records = (struct dmi_handover_env){.arg = node,
                                                .find = env_find,
                                                .enter = env_enter,
                                                .forget = env_forget,
                                                .next_map = env_next_map,
                                                .ref = env_ref,
                                                .unref = env_unref,
                                                .hold = env_hold,
                                                .release = env_release,
                                                .arrived = env_arrived,
                                                .record = env_record,
                                                .next_record = env_next_record,
                                                .unlock = env_unlock,
                                                .step_end = env_step_end};
}

/* To be called when the handover and the pager have ended. */
void node_records_check(const struct node *node) {
  for (uint32_t m = 0; m < node->maps; m++) {
    if (node->pmap[m].refs)
      sim_bad(node->sim, "p%u keeps %d references to mapping %u", node->uid, node->pmap[m].refs, m);
  }
}

uint32_t node_leave_heir(const struct node *node) {
  return atomic_load(&node->core.heir);
}

/* ---- Actions -------------------------------------------------------------------------------- */

/* What was kept until HOME_END goes through the core again. */
void node_replay(struct node *node, const struct dmi_map *map) {
  struct dmi_deferred_list deferred = of(node, map)->deferred;
  memset(&of(node, map)->deferred, 0, sizeof(deferred));
  for (uint32_t i = 0; i < deferred.num; i++)
    node_page_message(node, deferred.at[i].from, &deferred.at[i].msg);
  free(deferred.at);
}

void node_freed(struct node *node, const struct dmi_map *map) {
  sim_log(node->sim, "p%u forgets mapping %u", node->uid, sim_map_num(node->sim, map->base));
  of(node, map)->refs--;
}
