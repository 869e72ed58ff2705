/*
 * node_pager.c - the pager of a virtual node: carries out what core/pressure.h decides, with a
 * small pool and a small file.
 *
 * Each action of the product's pager thread is a step of its own; anything else may happen between
 * two of them.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"
#include "pager_judge.h"

/* ---- The account ---------------------------------------------------------------------------- */

static struct dmi_pool *pool_of(void *arg) {
  return ((struct node *)arg)->pool;
}

static bool reserve(void *arg, uint64_t bytes, bool force) {
  bool good = dmi_pool_reserve(pool_of(arg), bytes, force);
  if (!good) ((struct node *)arg)->sim->totals->no_capacity++;
  return good;
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
  return &node->pmap[sim_map_num(node->sim, page->map->base)].disk[page->index];
}

static void disk_drop(struct node *node, const struct dmi_page *page) {
  struct dmi_frame **disk = disk_of(node, page);
  if (!*disk) sim_bad(node->sim, "p%u frees what it had not spilled", node->uid);
  node->disk_used -= *disk ? (*disk)->size : 0;
  dmi_frame_unref(*disk);
  *disk = NULL;
}

static void unspilled(void *arg, struct dmi_page *page) {
  disk_drop(arg, page);
}

static const struct dmi_account capacity = {reserve, release, attach, detach, copies, unspilled};

static void wake(void *arg) {
  ((struct node *)arg)->events++;
}

void node_pager_init(struct node *node) {
  struct sim *sim = node->sim;
  struct rng *rng = &sim->rng;
  uint64_t limit = 0;
  if (sim->pools && !rng_once_in(rng, 8))
    limit = rng_once_in(rng, 6) ? rng_range(rng, 1, 63) : rng_range(rng, 64, 400);
  if (sim->pools && rng_once_in(rng, 3))
    node->disk_limit = rng_once_in(rng, 3) ? UINT64_MAX : rng_range(rng, 0, 200);
  node->spills = node->disk_limit != 0;
  node->core.account = &capacity;
  node->pool = dmi_pool_new(limit, wake, node);
  if (!node->pool) abort();
  node->pressure = dmi_pressure_new(&node->core, node->pool, node->spills);
  node->action.type = DMI_PRESSURE_REST;
  node_room_init(node);
}

static void let_go(void *arg, struct dmi_page *page) {
  struct node *node = arg;
  node->pmap[sim_map_num(node->sim, page->map->base)].refs--;
}

/* At the end of the process. */
void node_pager_end(struct node *node) {
  pager_judge_free(node->judge);
  node->judge = NULL;
  dmi_pressure_free(node->pressure, let_go, node);
  node->pressure = NULL;
}

/* When no message has a frame of it any more. */
void node_pager_fini(struct node *node) {
  dmi_pool_free(node->pool);
}

/* ---- Events --------------------------------------------------------------------------------- */

void node_pager_stalled(struct node *node, struct dmi_page *page) {
  node->pmap[sim_map_num(node->sim, page->map->base)].refs++;
  pager_judge_stalled(node->judge, page);
  (void)dmi_pressure_stalled(node->pressure, page);
  node->events++;
}

void node_pager_granted(struct node *node) {
  if (!node->expects) return;
  node->expects = false;
  node->events++;
}

void node_pager_stepped(struct node *node) {
  if (!node->watches_steps) return;
  node->watches_steps = false;
  node->events++;
}

/* ---- Pages that leave, and come back -------------------------------------------------------- */

static struct sim_pmap *of(void *map) {
  return (struct sim_pmap *)((char *)map - offsetof(struct sim_pmap, map));
}

static void act(struct node *node, const struct dmi_page *page, struct dmi_out *out) {
  node->by_thread = true;
  node_act(node, sim_map_num(node->sim, page->map->base), (uint32_t)page->index, out);
  node->by_thread = false;
}

static void touch(struct node *node, const struct dmi_page *page) {
  sim_touch(node->sim, sim_map_num(node->sim, page->map->base), (uint32_t)page->index);
}

static bool look(void *arg, void *map, uint64_t from, struct dmi_look *look,
                 enum dmi_pressure_busy *busy) {
  const struct sim_pmap *pmap = of(map);
  (void)arg;
  for (uint64_t p = from; p < SIM_PAGES; p++) {
    if (!pmap->page[p]) continue;
    *busy = dmi_pressure_look_at(pmap->page[p], look);
    return true;
  }
  return false;
}

static void spare(void *arg, void *map, uint64_t index) {
  (void)arg;
  of(map)->page[index]->flags &= (uint16_t)~DMI_PAGE_USED;
}

static bool drop(void *arg, void *map, uint64_t index) {
  struct node *node = arg;
  touch(node, of(map)->page[index]);
  if (!dmi_page_drop(&node->core, of(map)->page[index])) return false;
  node->sim->totals->drops++;
  return true;
}

static enum dmi_pressure_offer offer_page(struct node *node, struct dmi_page *page) {
  enum dmi_pressure_offer offer;
  struct dmi_out out;
  touch(node, page);
  node->behind = (page->flags & DMI_PAGE_OFFERED) != 0;
  dmi_out_init(&out);
  offer = dmi_pressure_offer(node->pressure, page, &out);
  if (offer == DMI_PRESSURE_OFFERED) {
    node->pmap[sim_map_num(node->sim, page->map->base)].refs++;
    node->sim->totals->offers++;
    pager_judge_offers(node->judge, sim_uid(node->sim, out.act[0].to), page->map->page_size);
  }
  act(node, page, &out);
  return offer;
}

static enum dmi_pressure_offer offer(void *arg, void *map, uint64_t index) {
  return offer_page(arg, of(map)->page[index]);
}

static bool read_back(struct node *node, struct dmi_page *page, struct dmi_frame *frame) {
  struct dmi_out out;
  bool back;
  dmi_out_init(&out);
  back = dmi_pressure_read_back(node->pressure, page, frame, &out);
  act(node, page, &out);
  return back;
}

static enum dmi_pressure_spill spill(void *arg, void *map, uint64_t index) {
  struct node *node = arg;
  struct dmi_page *page = of(map)->page[index];
  uint64_t size = page->map->page_size;
  struct dmi_frame *frame, **disk = disk_of(node, page);
  touch(node, page);
  frame = dmi_page_spill(&node->core, page);
  if (!frame) return DMI_PRESSURE_NOT_IDLE;
  node->sim->totals->spills++;
  if (node->disk_limit - node->disk_used < size) {
    dmi_pool_reserve(node->pool, size, true);
    node->sim->totals->full++;
    /* The protocol frees what was spilled; for a moment it counts as written. */
    (void)read_back(node, page, frame);
    return DMI_PRESSURE_FULL;
  }
  *disk = dmi_frame_new(size);
  if (!*disk) abort();
  memcpy((*disk)->bytes, frame->bytes, size);
  node->disk_used += size;
  dmi_frame_unref(frame);
  return DMI_PRESSURE_WRITTEN;
}

static void unspill(struct node *node, struct dmi_page *page) {
  struct dmi_frame *frame = dmi_frame_new(page->map->page_size), **disk = disk_of(node, page);
  if (!frame) abort();
  if (!*disk) sim_bad(node->sim, "p%u has not spilled what it reads back", node->uid);
  if (*disk) memcpy(frame->bytes, (*disk)->bytes, frame->size);
  node->sim->totals->unspills++;
  if (read_back(node, page, frame)) disk_drop(node, page);
}

static void admit(struct node *node, struct dmi_page *page, int error) {
  struct dmi_out out;
  bool spilled;
  touch(node, page);
  pager_judge_admits(node->judge);
  if (error) node_room_fails(node, page);
  dmi_out_init(&out);
  spilled = dmi_pressure_admit(node->pressure, page, error, &out);
  act(node, page, &out);
  if (spilled) unspill(node, page);
}

static uint64_t sweep(struct node *node) {
  const struct dmi_pressure_env env = {node, look, spare, drop, offer, spill};
  struct dmi_replace_map map[SIM_MAPS];
  uint64_t num = 0;
  for (uint32_t m = 0; m < node->maps; m++) {
    struct sim_pmap *pmap = &node->pmap[m];
    if (pmap->known == SIM_KNOWN)
      map[num++] = (struct dmi_replace_map){&pmap->map, pmap->map.page_size, &pmap->hand};
  }
  return dmi_pressure_sweep(node->pressure, &env, map, num);
}

/* ---- The pager ------------------------------------------------------------------------------ */

static void carry_out(struct node *node, struct dmi_pressure_result *result) {
  const struct dmi_pressure_action *action = &node->action;
  switch (action->type) {
    case DMI_PRESSURE_REST:
      node->seen = node->events;
      node->expects = true;
      break;
    case DMI_PRESSURE_SETTLE:
      result->fate = dmi_pressure_offered(action->page);
      break;
    case DMI_PRESSURE_CHECK:
      result->fate = dmi_pressure_stalls(action->page);
      break;
    case DMI_PRESSURE_ADMIT:
      admit(node, action->page, action->error);
      break;
    case DMI_PRESSURE_SWEEP:
      result->bytes = sweep(node);
      break;
    case DMI_PRESSURE_OFFER:
      result->offer = offer_page(node, action->page);
      break;
    default: /* ARM */
      result->yes = !node->watches_steps;
      node->watches_steps = true;
  }
}

static void log_action(const struct node *node) {
  static const char *const names[] = {"looks",  "settles", "checks", "admits",
                                      "sweeps", "offers",  "arms"};
  const struct dmi_pressure_action *action = &node->action;
  const struct dmi_page *page = action->page;
  sim_log(node->sim, "p%u: the pager %s: map %u page %u error %d; %llu of %llu bytes in use",
          node->uid, names[action->type], page ? sim_map_num(node->sim, page->map->base) : 0,
          page ? (unsigned)page->index : 0, action->error,
          (unsigned long long)dmi_pool_used(node->pool),
          (unsigned long long)dmi_pool_limit(node->pool));
}

static void say(struct node *node, struct dmi_capacity_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    struct dmi_msg msg = out->send[i].msg;
    msg.origin = node->core.self;
    node_send(node, out->send[i].to, &msg);
  }
  dmi_capacity_out_free(out);
}

bool node_pager_step(struct node *node) {
  struct dmi_pressure_action *action = &node->action;
  struct dmi_pressure_result result = {0};
  struct dmi_capacity_out out;
  if (!node->alive || node_frozen(node)) return false;
  if (action->type == DMI_PRESSURE_REST && action->sleep && node->events == node->seen) {
    if (!action->expects) node->expects = false;
    return false;
  }
  if (node->sim->opt.verbose) log_action(node);
  carry_out(node, &result);
  node->by_thread = true;
  dmi_capacity_out_init(&out);
  dmi_pressure_next(node->pressure, &result, action, &out);
  say(node, &out);
  node->by_thread = false;
  if (action->release) let_go(node, action->release);
  node_room_stepped(node);
  return true;
}

bool sim_pager_step(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  if (sim->pools && sim->proc[start]) node_room_look(sim->proc[start]);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[(start + i) % SIM_LIVING];
    if (node && node_pager_step(node)) return true;
  }
  return false;
}

/* ---- What a pager may do without need ------------------------------------------------------- */

/* Any record of any process; NULL: the chosen process has none. */
static struct dmi_page *any_page(struct sim *sim, struct node **node) {
  uint32_t map, p = rng_below(&sim->rng, SIM_PAGES);
  *node = sim->proc[rng_below(&sim->rng, SIM_LIVING)];
  if (!*node || !sim->maps || node_frozen(*node)) return NULL;
  map = rng_once_in(&sim->rng, 2) ? sim->mix.hot_map % sim->maps : rng_below(&sim->rng, sim->maps);
  return (*node)->pmap[map].page[p];
}

void sim_pager_drop(struct sim *sim) {
  for (uint32_t tries = 0; tries < 4 * SIM_LIVING; tries++) { /* most tries find no copy to drop */
    struct node *node;
    struct dmi_page *page = any_page(sim, &node);
    if (page && drop(node, page->map, page->index)) return;
  }
}

/* Any process that is a member in its view, and may own pages; 0: none. */
static uint32_t any_member(const struct node *node) {
  struct sim *sim = node->sim;
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *other = sim->proc[(start + i) % SIM_LIVING];
    if (other && other != node && other->uid && node->view[sim_uid(sim, other->uid)] == 1 &&
        (other->opened || other->m->first))
      return other->uid;
  }
  return 0;
}

void sim_pager_offer(struct sim *sim) {
  struct node *node;
  struct dmi_page *page = any_page(sim, &node);
  uint32_t to = page ? any_member(node) : 0;
  struct dmi_out out;
  if (!to || atomic_load(&node->core.heir)) return;
  touch(node, page);
  dmi_out_init(&out);
  if (!dmi_page_offer(&node->core, page, to, &out)) return;
  sim->totals->offers++;
  act(node, page, &out);
}
