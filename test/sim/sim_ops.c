/*
 * sim_ops.c - operations of the threads of virtual processes: on which page, when, and what their
 * end means.
 */
#include <stddef.h>

#include "dmi_api.h"
#include "simulator.h"

void sim_ops_retune(struct sim *sim) {
  struct rng *rng = &sim->rng;
  sim_draw_mix(sim);
  sim->mix.once = sim->opt.crashes;
  sim->mix.churn = rng_once_in(rng, 3) ? rng_range(rng, 50, 300) : rng_range(rng, 0, 30);
  sim_draw_readers(sim);
}

/* Chooses a page.  False: this process has no mapping. */
static bool pick_page(struct sim_proc *proc, uint32_t *map, uint32_t *page) {
  struct sim *sim = proc->sim;
  *map = rng_below(&sim->rng, sim->maps);
  *page = rng_below(&sim->rng, SIM_PAGES);
  if (rng_below(&sim->rng, 100) < sim->mix.hot) {
    *map = sim->mix.hot_map;
    if (sim->mix.hot_page < SIM_PAGES) *page = sim->mix.hot_page;
  }
  for (uint32_t i = 0; i < SIM_MAPS && !sim_pmap_get(proc, *map); i++) {
    if (rng_once_in(&sim->rng, 20) && proc->pmap[*map].page[0]) {
      *page = 0; /* sometimes, one that this process has forgotten */
      break;
    }
    *map = rng_below(&sim->rng, sim->maps);
  }
  bool known = sim_pmap_get(proc, *map) != NULL;
  if (!known || *page >= sim->map[*map].page_num) *page = 0;
  return known || proc->pmap[*map].page[0];
}

/* Begins the operation that was chosen for `thread`. */
static void launch(struct sim_proc *proc, struct sim_thread *thread,
                   const struct sim_drawn *drawn) {
  struct dmi_page *page = sim_page_get(proc, thread->map, thread->page);
  uint32_t num = (uint32_t)(thread - proc->thread);
  struct dmi_out out;
  if (sim_ops_call(proc->sim, &proc->core, thread, num, page, drawn)) return;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, page, &thread->req, &out);
  sim_act(proc, thread->map, thread->page, &out);
}

static void begin(struct sim_proc *proc, struct sim_thread *thread) {
  struct sim_drawn drawn;
  uint32_t map, page;
  if (!pick_page(proc, &map, &page)) return;
  sim_draw_op(proc->sim, thread, map, page, (dmi_op_t){++proc->ops}, &drawn);
  launch(proc, thread, &drawn);
}

void sim_ops_complete(struct sim_proc *proc, struct dmi_req *req) {
  struct sim *sim = proc->sim;
  struct sim_thread *thread = NULL;
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (&proc->thread[t].req == req) thread = &proc->thread[t];
  }
  if (!thread || !thread->out) {
    sim_bad(sim, "p%u completes an operation twice", proc->core.self);
    return;
  }
  thread->out = false;
  sim->out--;
  sim_log(sim, "p%u.%u completes op %llu, error %d", proc->core.self,
          (unsigned)(thread - proc->thread), (unsigned long long)req->op.n, req->error);
  const struct sim_map *map = &sim->map[thread->map];
  if (req->error == DMI_ELOST && sim->opt.crashes) {
    sim_op_lost(proc, thread);
  } else if (req->error && sim_ops_refused(sim, thread)) {
    sim_log(sim, "there was no object");
  } else if (req->error) {
    sim->totals->failed_ops++;
    bool read = req->type == DMI_REQ_READ && dmi_fetch_any(req->fetch) && sim->fetch_refused;
    if (req->error == DMI_ENOMEM && (read || sim->refusals)) {
      if (!read) sim->refusals--;
      sim->totals->refused++;
      sim_ops_failed(sim, thread);
    } else if (!map->unmapping) {
      sim_bad(sim, "p%u: an operation on a living mapping fails with %d", proc->core.self,
              req->error);
    }
  } else {
    sim_ops_hint(sim, thread);
    sim_ops_back(sim, thread);
  }
  sim_ops_end(thread);
}

bool sim_ops_begin(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS), which = rng_below(&sim->rng, SIM_THREADS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc || proc->mute) continue;
    for (uint32_t t = 0; t < proc->threads; t++) {
      struct sim_thread *thread = &proc->thread[(which + t) % proc->threads];
      if (thread->out) continue;
      begin(proc, thread);
      return true;
    }
  }
  return false;
}

void sim_ops_fini(struct sim_thread *thread) {
  dmi_slice_drop(&thread->req.src);
  thread->frame = false;
}

bool sim_ops_kick(struct sim *sim) {
  uint32_t map = 0, page = 0, start = rng_below(&sim->rng, SIM_PROCS);
  const struct dmi_req *req = sim_ops_waiting(sim, &map, &page);
  struct sim_drawn drawn;
  for (uint32_t i = 0; req && i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc || proc->mute || !sim_pmap_get(proc, map)) continue;
    struct sim_thread *thread = &proc->thread[SIM_THREADS];
    if (thread->out) continue;
    sim_draw_kick(sim, thread, map, page, (dmi_op_t){++proc->ops}, req, &drawn);
    sim->totals->kicks++;
    launch(proc, thread, &drawn);
    return true;
  }
  return false;
}

bool sim_ops_abandon(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  bool some = false;
  if (!proc->mute || atomic_load(&proc->core.owned)) return false;
  for (uint32_t t = 0; t < proc->threads; t++) {
    struct sim_thread *thread = &proc->thread[t];
    if (!thread->out || thread->req.kind != DMI_RMW_WATCH || thread->req.type != DMI_REQ_ATOMIC) {
      continue;
    }
    thread->out = false;
    sim->out--;
    sim->totals->abandoned++;
    proc->abandons = some = true;
    dmi_slice_drop(&thread->req.src);
  }
  return some;
}
