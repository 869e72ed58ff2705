/*
 * node_ops.c - page operations of the threads of virtual nodes: on which page, when, and what their
 * end means.
 */
#include <stddef.h>

#include "dmi_api.h"
#include "simulator.h"

void sim_ops_retune(struct sim *sim) {
  struct rng *rng = &sim->rng;
  sim_draw_mix(sim);
  sim->mix.once = sim->opt.crashes;
  sim->mix.churn = rng_once_in(rng, 3) ? rng_range(rng, 500, 2500) : rng_range(rng, 0, 300);
  sim->mix.freeze = rng_once_in(rng, 4) ? rng_range(rng, 1, 30) : 0;
  sim_draw_readers(sim);
}

/* Chooses a mapping that this process knows, preferably the hot one, which its threads look up if
 * it is not known; sometimes one that it has forgotten, of which page 0 is left.  False: there is
 * none. */
static bool pick_map(struct node *node, uint32_t *map, uint32_t *page) {
  struct sim *sim = node->sim;
  uint32_t start = rng_below(&sim->rng, sim->maps);
  *page = rng_below(&sim->rng, SIM_PAGES);
  if (rng_below(&sim->rng, 100) < sim->mix.hot) {
    start = sim->mix.hot_map % sim->maps;
    if (sim->mix.hot_page < SIM_PAGES) *page = sim->mix.hot_page;
  }
  for (uint32_t i = 0; i < sim->maps; i++) {
    struct sim_pmap *pmap = &node->pmap[ *map = (start + i) % sim->maps];
    if (pmap->known == SIM_KNOWN && sim->map[*map].made) {
      if (*page >= sim->map[*map].page_num) *page = 0;
      return true;
    }
    if (pmap->known == SIM_UNKNOWN && !pmap->asked && sim->map[*map].made &&
        !sim->map[*map].unmapped && !sim->map[*map].gone && rng_once_in(&sim->rng, 2)) {
      pmap->asked = true;
      node_call(node, DMI_CTL_LOOKUP, sim->map[*map].base + rng_below(&sim->rng, 8), 0);
      return false;
    }
    if (pmap->known == SIM_FORGOTTEN && pmap->page[0] && rng_once_in(&sim->rng, 200)) {
      *page = 0;
      return true;
    }
  }
  return false;
}

/* True while homes or views change. */
bool sim_leaving(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i] && sim->proc[i]->m->phase != DMI_PHASE_JOINED) return true;
  }
  return false;
}

/* Begins the operation that was chosen for `thread`. */
static void launch(struct node *node, struct sim_thread *thread, const struct sim_drawn *drawn) {
  struct dmi_page *page = node_page(node, thread->map, thread->page);
  uint32_t num = (uint32_t)(thread - node->thread);
  struct dmi_out out;
  if (sim_ops_call(node->sim, &node->core, thread, num, page, drawn)) return;
  dmi_out_init(&out);
  node->by_thread = true;
  dmi_page_begin(&node->core, page, &thread->req, &out);
  node_act(node, thread->map, thread->page, &out);
  node->by_thread = false;
}

static void begin(struct node *node, struct sim_thread *thread) {
  struct sim *sim = node->sim;
  struct sim_drawn drawn;
  uint32_t map, page;
  if (!sim->maps || !pick_map(node, &map, &page)) return;
  sim_draw_op(sim, thread, map, page, (dmi_op_t){++node->ops}, &drawn);
  launch(node, thread, &drawn);
}

/* Has the owner of the page heard of DMI_exit?  Perhaps before the process that waits. */
static bool any_stops(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->nodes; i++) {
    if (atomic_load(&sim->all[i]->core.stopping)) return true;
  }
  return false;
}

void sim_ops_complete(struct node *node, struct dmi_req *req) {
  struct sim *sim = node->sim;
  struct sim_thread *thread = NULL;
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (&node->thread[t].req == req) thread = &node->thread[t];
  }
  if (!thread || !thread->out) {
    sim_bad(sim, "p%u completes an operation twice", node->uid);
    return;
  }
  thread->out = thread->given_up = false;
  if (node->noted) { /* its call stays open */
    sim_ops_end(thread);
    return;
  }
  sim->out--;
  sim_log(sim, "p%u.%u completes op %llu, error %d", node->uid, (unsigned)(thread - node->thread),
          (unsigned long long)req->op.n, req->error);
  const struct sim_map *map = &sim->map[thread->map];
  if (req->error == DMI_ELOST && sim->opt.crashes) {
    sim_op_lost(node, thread);
  } else if (req->error && sim_ops_refused(sim, thread)) {
    sim_log(sim, "there was no object");
  } else if (req->error) {
    sim->totals->failed_ops++;
    if (req->error == DMI_ENOMEM && sim->pools && req->type > DMI_REQ_READ) {
      sim->totals->refused++;
      sim->kicks_refused += thread == &node->thread[SIM_THREADS];
      sim_ops_failed(sim, thread);
    } else if (req->error == DMI_EEND && any_stops(sim)) {
      sim_open_call(sim, thread, node->uid); /* its first half may have taken effect */
    } else if (!map->unmapping) {
      sim_bad(sim, "p%u: an operation on a living mapping fails with %d", node->uid, req->error);
    }
  } else {
    sim_ops_hint(sim, thread);
    sim_ops_back(sim, thread);
    if (thread == &node->thread[SIM_THREADS]) sim->kicks_refused = 0;
  }
  sim_ops_end(thread);
}

bool node_ops_begin(struct node *node) {
  uint32_t users = !node->over && !node_frozen(node) ? node_users(node) : 0, which;
  if (users > SIM_THREADS) users = SIM_THREADS;
  if (!users || node->noted) return false;
  which = rng_below(&node->sim->rng, users);
  for (uint32_t t = 0; t < users; t++) {
    struct sim_thread *thread = &node->thread[(which + t) % users];
    if (thread->out) continue;
    begin(node, thread);
    return true;
  }
  return false;
}

bool sim_ops_begin(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[(start + i) % SIM_LIVING];
    if (node && node_ops_begin(node)) return true;
  }
  return false;
}

void sim_ops_fini(struct node *node) {
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    struct sim_thread *thread = &node->thread[t];
    dmi_slice_drop(&thread->req.src);
    if (!node->noted) node->sim->out -= thread->out;
    thread->ghost = thread->out; /* it may still take effect */
    thread->out = thread->frame = false;
  }
}

bool sim_is_lost(const struct sim *sim, uint32_t uid) {
  const struct node *node = sim_by_uid(sim, uid);
  return node && node->killed;
}

struct sim_thread *sim_thread_of(const struct sim *sim, uint32_t uid, dmi_op_t op) {
  struct node *node = sim_by_uid(sim, uid);
  for (uint32_t t = 0; node && t <= SIM_THREADS; t++) {
    if ((node->thread[t].out || node->thread[t].ghost) && dmi_op_is(node->thread[t].req.op, op))
      return &node->thread[t];
  }
  return NULL;
}

bool sim_ops_kick(struct sim *sim) {
  uint32_t map = 0, page = 0, start = rng_below(&sim->rng, SIM_LIVING);
  const struct dmi_req *req = sim_ops_waiting(sim, &map, &page);
  struct sim_drawn drawn;
  for (uint32_t i = 0; req && i < SIM_LIVING; i++) {
    struct node *node = sim->proc[(start + i) % SIM_LIVING];
    if (!node || node->over || (!node_has_user(node) && !node->idle_owed) ||
        node->pmap[map].known != SIM_KNOWN)
      continue;
    struct sim_thread *thread = &node->thread[SIM_THREADS];
    if (thread->out) continue;
    sim_draw_kick(sim, thread, map, page, (dmi_op_t){++node->ops}, req, &drawn);
    sim->totals->kicks++;
    launch(node, thread, &drawn);
    return true;
  }
  return false;
}

uint32_t sim_ops_num(const struct node *node) {
  uint32_t num = 0;
  for (uint32_t t = 0; t <= SIM_THREADS; t++)
    num += node->thread[t].out && !node->thread[t].given_up;
  return num;
}

void sim_ops_give_up(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    for (uint32_t t = 0; sim->proc[i] && t <= SIM_THREADS; t++) {
      struct sim_thread *thread = &sim->proc[i]->thread[t];
      if (!thread->out || !thread->waits || thread->given_up) continue;
      thread->given_up = true;
      sim->totals->given_up++;
    }
  }
}
