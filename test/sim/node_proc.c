/*
 * node_proc.c - a virtual process: its beginning, its end, its mappings and page records.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

bool node_frozen(const struct node *node) {
  return node->alive &&
         node->frozen > node->sim->steps; /* a process that has ended is not waited for */
}

/* ---- Start and end -------------------------------------------------------------------------- */

static bool is_member(void *arg, uint32_t uid) {
  const struct node *node = arg;
  return node->view[sim_uid(node->sim, uid)] == 1;
}

static bool is_there(void *arg, uint32_t uid) {
  const struct node *node = arg;
  return node->view[sim_uid(node->sim, uid)] != 0;
}

static bool env_connected(void *arg, uint32_t uid) {
  const struct sim_end *end = sim_net_end(arg, uid);
  return end && !end->closed;
}

static void env_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs) {
  struct node *node = arg;
  const struct sim_end *end = sim_net_end(node, id);
  if (!end) {
    sim_bad(node->sim, "p%u asks for the addresses of no connection", node->uid);
    memset(ours, 0, sizeof(*ours));
    memset(theirs, 0, sizeof(*theirs));
    return;
  }
  *ours = sim_addr_of(node, sim_net_other(end)->node);
  *theirs = sim_addr_of(sim_net_other(end)->node, node);
}

static void core_init(struct node *node) {
  const struct sim *sim = node->sim;
  node->core.broken = sim->opt.page_break;
  node->core.is_member = is_member;
  node->core.is_there = is_there;
  node->core.function = hist_user_function;
  node->core.arg = node;
  node->core.hop = sim->hop;
  node->core.block = sim->block;
}

static void set_breaks(struct node *node) {
  struct dmi_handover *handover = dmi_node_handover(node->whole);
  const struct sim_options *opt = &node->sim->opt;
  struct rng *rng = &node->sim->rng;
  dmi_member_set_break(node->m, opt->member_break);
  dmi_handover_set_break(handover, opt->handover_break, opt->capacity_break);
  dmi_pressure_set_break(node->pressure, opt->pressure_break, opt->capacity_break);
  dmi_handover_set_sizes(handover, rng_range(rng, 1, SIM_PAGES),
                         rng_once_in(rng, 2) ? UINT64_MAX : rng_below(rng, 256));
}

struct node *node_new(struct sim *sim, struct node *seed) {
  static const uint8_t program_id[16] = {1, 2, 3};
  struct node *node = calloc(1, sizeof(*node));
  struct dmi_node_info info;
  struct dmi_addr own = {.port = (uint16_t)(1000 + sim->nodes)};
  struct dmi_input in = {.program_id = program_id};
  if (!node) abort();
  memset(&info, 0, sizeof(info));
  node->sim = sim;
  node->num = sim->nodes++;
  sim->all[node->num] = node;
  while (sim->proc[node->slot])
    node->slot++;
  sim->proc[node->slot] = node;
  node->host = rng_below(&sim->rng, SIM_HOSTS);
  node->seed = seed;
  node->alive = true;
  snprintf(info.host, sizeof(info.host), "h%u", node->num);
  info.cores = node->num;
  core_init(node);
  node_pager_init(node);
  node_records_init(node);
  node->env.net =
      (struct dmi_member_env){.arg = node, .connected = env_connected, .addrs = env_addrs};
  if (sim->opt.crashes) node_loss_init(node);
  node->whole = dmi_node_new(&node->core, node->pressure, &node->env, &info, &own);
  node->m = dmi_node_member(node->whole);
  set_breaks(node);
  dmi_out_init(&node->out);
  node->main_runs = node->real_main = !seed;
  if (seed) sim_log(sim, "process %u joins by %u", node->num, seed->num);
  in.type = seed ? DMI_IN_JOIN : DMI_IN_FIRST;
  (void)node_input(node, &in);
  return node;
}

/* Frees the pages of a process that has ended. */
static void free_pages(struct node *node) {
  for (uint32_t m = 0; m < node->maps; m++) {
    struct sim_pmap *pmap = &node->pmap[m];
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (!pmap->page[p]) continue;
      sim_touch(node->sim, m, p);
      dmi_page_fini(&node->core, pmap->page[p]);
      free(pmap->page[p]);
      pmap->page[p] = NULL;
    }
    for (uint32_t i = 0; i < pmap->deferred.num; i++)
      dmi_slice_drop(&pmap->deferred.at[i].msg.list);
    dmi_deferred_free(&pmap->deferred);
  }
}

void node_end(struct node *node) {
  struct sim *sim = node->sim;
  sim_log(sim, "p%u (%u) ends", node->uid, node->num);
  if (atomic_load(&node->core.owned) && !node->over && !sim->ending && !node->noted)
    sim_bad(sim, "p%u ends and owns %llu pages", node->uid,
            (unsigned long long)atomic_load(&node->core.owned));
  if (node->over && !sim->ending && !node->noted) sim->finished = sim->ending = true;
  node->alive = false;
  if (sim->proc[node->slot] == node) sim->proc[node->slot] = NULL;
  sim_net_leave(node, node->killed);
  if (node->pulse) sim_letters_end(node, node->killed);
  if (!node->carrying) node_bury(node);
}

void node_bury(struct node *node) {
  struct dmi_act act;
  while (dmi_out_take(&node->out, &act))
    dmi_act_end(&act);
  dmi_node_free(node->whole);
  node->whole = NULL;
  node->m = NULL;
  node_pager_end(node);
  node_records_check(node);
  sim_drop_held(node);
  sim_ops_fini(node);
  free_pages(node);
}

void node_free(struct node *node) {
  for (uint32_t i = 0; i < node->news.num; i++)
    dmi_slice_drop(&node->news.at[i].body);
  free(node->news.at);
  dmi_pulse_free(node->pulse);
  node_pager_fini(node);
  dmi_out_free(&node->out);
  free(node->ended.at);
  free(node->pend.at);
  free(node->calls.at);
  free(node->creating.at);
  free(node->create_to.at);
  free(node->addrs.at);
  free(node);
}

/* ---- Mappings ------------------------------------------------------------------------------- */

struct sim_pmap *node_pmap(struct node *node, uint64_t base) {
  uint32_t num = sim_map_num(node->sim, base);
  struct sim_pmap *pmap = &node->pmap[num];
  return pmap->known == SIM_KNOWN && pmap->map.base == base ? pmap : NULL;
}

/* Those that no operation here is on. */
static void forget_records(struct node *node, uint32_t map) {
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    struct dmi_page **page = &node->pmap[map].page[p];
    bool used = !*page || (*page)->busy;
    for (uint32_t t = 0; t <= SIM_THREADS; t++)
      used |= node->thread[t].out && node->thread[t].map == map && node->thread[t].page == p;
    if (used) continue;
    dmi_page_fini(&node->core, *page);
    free(*page);
    *page = NULL;
  }
}

void node_enter(struct node *node, const struct dmi_entry *entry, uint32_t arriving) {
  struct sim *sim = node->sim;
  uint32_t num = sim_map_num(node->sim, entry->base);
  struct sim_pmap *pmap = &node->pmap[num];
  if (pmap->known == SIM_KNOWN) return;
  if (pmap->known == SIM_FORGOTTEN && atomic_load(&node->core.frozen)) {
    forget_records(node, num); /* others have not forgotten it yet, and tell the heir */
  } else if ((pmap->known == SIM_FORGOTTEN || sim->map[num].unmapped) && !node_is_removed(node))
    sim_bad(sim, "p%u learns of mapping %u, which was unmapped", node->uid, num);
  sim_log(sim, "p%u: mapping %u has home p%u", node->uid, num, entry->home);
  pmap->known = SIM_KNOWN;
  if (num >= node->maps) node->maps = num + 1;
  pmap->map.base = entry->base;
  pmap->map.page_size = entry->page_size;
  pmap->map.page_num = entry->page_num;
  pmap->map.tag = entry->tag;
  atomic_store(&pmap->map.home, entry->home);
  atomic_store(&pmap->map.arriving, arriving);
  pmap->map.given = 0;
}

struct dmi_page *node_page(struct node *node, uint32_t map, uint32_t page) {
  struct sim_pmap *pmap = &node->pmap[map];
  if (!pmap->page[page]) {
    pmap->page[page] = calloc(1, sizeof(*pmap->page[page]));
    if (!pmap->page[page]) abort();
    dmi_page_init(&node->core, &pmap->map, pmap->page[page], page);
  }
  sim_touch(node->sim, map, page);
  return pmap->page[page];
}
