/*
 * node_pager.c - the room that virtual nodes lend (R12), and what their pagers do.
 */
#include <stdlib.h>

#include "node_sim.h"

/* ---- The account
 * ---------------------------------------------------------------------------------- */

static struct dmi_pool *pool_of(void *arg) {
  return ((struct node *)arg)->pool;
}

static bool reserve(void *arg, uint64_t bytes, bool force) {
  return dmi_pool_reserve(pool_of(arg), bytes, force);
}

static void release(void *arg, uint64_t bytes) {
  dmi_pool_release(pool_of(arg), bytes);
}

static void attach(void *arg, struct dmi_frame *frame, bool reserved) {
  dmi_pool_attach(pool_of(arg), frame, reserved);
}

static void detach(void *arg, struct dmi_frame *frame) {
  dmi_pool_detach(pool_of(arg), frame);
}

static void copies(void *arg, int64_t more) {
  dmi_pool_copies(pool_of(arg), more);
}

static struct dmi_frame **disk_of(struct node *node, const struct dmi_page *page) {
  return &node->pmap[sim_map_num(page->map->base)].disk[page->index];
}

static void unspilled(void *arg, struct dmi_page *page) {
  struct dmi_frame **disk = disk_of(arg, page);
  struct node *node = arg;
  if (!*disk) sim_bad(node->sim, "p%u frees what it had not spilled", node->uid);
  dmi_frame_unref(*disk);
  *disk = NULL;
}

static const struct dmi_room room = {reserve, release, attach, detach, copies, unspilled};

void node_pager_init(struct node *node) {
  node->core.room = &room;
  node->pool = dmi_pool_new(0, NULL, NULL);
  node->rooms = dmi_rooms_new();
  if (!node->pool) abort();
  dmi_rooms_set_break(node->rooms, node->sim->opt.room_break);
}

void node_pager_fini(struct node *node) {
  dmi_rooms_free(node->rooms);
  dmi_pool_free(node->pool);
}

/* ---- What a pager may do
 * ---------------------------------------------------------------------------- */

struct place {
  struct node *node;
  struct dmi_page *page;
  uint32_t map, num;
};

/* A record of any process; page NULL: that one has none. */
static struct place any_page(struct sim *sim) {
  struct node *node = sim->live[rng_below(&sim->rng, SIM_LIVING)];
  struct place at = {node, NULL, 0, rng_below(&sim->rng, SIM_PAGES)};
  if (!node || !sim->maps || node_frozen(node)) return at;
  at.map = rng_once_in(&sim->rng, 2) ? sim->mix.hot_map : rng_below(&sim->rng, sim->maps);
  at.page = node->pmap[at.map].page[at.num];
  if (at.page) sim_touch(sim, at.map, at.num);
  return at;
}

static void act(const struct place *at, struct dmi_out *out) {
  at->node->by_thread = true;
  node_act(at->node, at->map, at->num, out);
  at->node->by_thread = false;
}

static bool drop_copy(const struct place *at) {
  if (!dmi_page_drop(&at->node->core, at->page)) return false;
  at->node->sim->totals->drops++;
  sim_log(at->node->sim, "p%u drops its copy: map %u page %u", at->node->uid, at->map, at->num);
  return true;
}

void node_pager_drop(struct sim *sim) {
  for (uint32_t tries = 0; tries < 4 * SIM_LIVING; tries++) { /* most have no copy to drop */
    struct place at = any_page(sim);
    if (at.page && drop_copy(&at)) return;
  }
}

/* Any process that it takes for a member, and that may own pages. 0: none. */
static uint32_t any_member(const struct node *node) {
  struct sim *sim = node->sim;
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *other = sim->live[(start + i) % SIM_LIVING];
    if (other && other != node && other->uid && node->view[other->uid] == 1 &&
        (other->opened || other->m->first))
      return other->uid;
  }
  return 0;
}

static void offer(const struct place *at, uint32_t to) {
  struct dmi_out out;
  if (!to || atomic_load(&at->node->core.heir)) return;
  dmi_out_init(&out);
  if (!dmi_page_offer(&at->node->core, at->page, to, &out)) return;
  at->node->sim->totals->offers++;
  act(at, &out);
}

static void spill(const struct place *at) {
  struct dmi_frame **disk = &at->node->pmap[at->map].disk[at->num];
  if (*disk) return;
  *disk = dmi_page_spill(&at->node->core, at->page);
  if (!*disk) return;
  at->node->sim->totals->spills++;
  sim_log(at->node->sim, "p%u spills map %u page %u", at->node->uid, at->map, at->num);
}

static void unspill(const struct place *at) {
  struct dmi_frame **disk = &at->node->pmap[at->map].disk[at->num], *frame;
  struct dmi_out out;
  uint64_t size = at->page->map->page_size;
  if (!*disk) return;
  frame = dmi_frame_new(size);
  if (!frame) abort();
  for (uint64_t i = 0; i < size; i++)
    frame->bytes[i] = (*disk)->bytes[i];
  dmi_pool_reserve(at->node->pool, size, true);
  dmi_out_init(&out);
  if (dmi_page_room(&at->node->core, at->page, DMI_OK, &out)) { /* to be overwritten as a whole */
    dmi_frame_unref(frame);
    act(at, &out);
    return;
  }
  if (!dmi_page_unspill(&at->node->core, at->page, frame, &out))
    sim_bad(at->node->sim, "p%u cannot read back", at->node->uid);
  dmi_frame_unref(*disk);
  *disk = NULL;
  at->node->sim->totals->unspills++;
  act(at, &out);
}

void node_pager_step(struct sim *sim) {
  struct place at = any_page(sim);
  if (!at.page) return;
  switch (rng_below(&sim->rng, 5)) {
    case 0:
      (void)drop_copy(&at);
      break;
    case 1:
      if (sim->pools) spill(&at);
      break;
    case 2:
      unspill(&at);
      break;
    default:
      offer(&at, any_member(at.node));
  }
}

void node_pager_stalled(struct node *node, struct dmi_page *page) {
  (void)node;
  (void)page;
}

bool node_pager_go_on(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    for (uint32_t m = 0; sim->live[i] && m < sim->maps; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++) {
        struct place at = {sim->live[i], sim->live[i]->pmap[m].page[p], m, p};
        if (!at.page || !(at.page->flags & DMI_PAGE_STALLED)) continue;
        sim_touch(sim, m, p);
        unspill(&at);
        return true;
      }
    }
  }
  return false;
}

void node_pager_check(struct node *node, bool quiet) {
  for (uint32_t m = 0; m < node->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = node->pmap[m].page[p];
      if (!page) continue;
      if (quiet && (page->flags & (DMI_PAGE_OFFERED | DMI_PAGE_STALLED | DMI_PAGE_ROOM)))
        sim_bad(node->sim, "p%u: flags %x stay, map %u page %u", node->uid, page->flags, m, p);
    }
  }
}
