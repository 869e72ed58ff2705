/*
 * sim_pager.c - virtual processes whose pagers are the real ones (core/pressure.h), each over a
 * small pool and a small file: carries out what they decide, one action at a time.
 *
 * Between two actions of a pager anything else may happen: messages arrive, other pagers go on.
 * What must hold is in sim_pager_check.c.
 */
#include <stdlib.h>
#include <string.h>

#include "dmi_api.h"
#include "sim_pager.h"

/* ---- The account ---------------------------------------------------------------------------- */

static struct dmi_pool *pool_of(void *arg) {
  return ((struct sim_proc *)arg)->pager->pool;
}

static bool reserve(void *arg, uint64_t bytes, bool force) {
  struct sim_proc *proc = arg;
  bool good = dmi_pool_reserve(pool_of(arg), bytes, force);
  proc->sim->totals->no_capacity += !good;
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

static void unspilled(void *arg, struct dmi_page *page) {
  struct sim_proc *proc = arg;
  struct dmi_frame **disk = &proc->pmap[sim_map_of(page)].disk[page->index];
  if (!*disk) {
    sim_bad(proc->sim, "p%u frees what it had not spilled", proc->core.self);
    return;
  }
  proc->pager->disk_used -= page->map->page_size;
  dmi_frame_unref(*disk);
  *disk = NULL;
}

static const struct dmi_account capacity = {reserve, release, attach, detach, copies, unspilled};

/* ---- Start and end -------------------------------------------------------------------------- */

static void event(void *arg) {
  ((struct sim_pager *)arg)->events++;
}

void sim_pager_init(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  struct rng *rng = &sim->rng;
  struct sim_pager *pager = calloc(1, sizeof(*pager));
  uint64_t limit = rng_once_in(rng, 8)   ? 0
                   : rng_once_in(rng, 6) ? rng_range(rng, 1, 64)
                                         : rng_range(rng, 64, 256);
  bool spills = rng_once_in(rng, 4);
  if (!pager) abort();
  proc->pager = pager;
  proc->core.account = &capacity;
  pager->disk_most = rng_once_in(rng, 2) ? rng_below(rng, 128) : 4096;
  pager->pool = dmi_pool_new(limit, event, pager);
  if (!pager->pool) abort();
  pager->core = dmi_pressure_new(&proc->core, pager->pool, spills);
  dmi_pressure_set_break(pager->core, sim->opt.pressure_break, sim->opt.capacity_break);
  pager->action.type = DMI_PRESSURE_REST;
  sim_pager_judge(proc);
  if (sim->begun) {
    proc->mute = true; /* until it is welcomed */
  } else {
    pager->open = true;
    dmi_pressure_open(pager->core);
  }
}

static void let_go(void *arg, struct dmi_page *page) {
  struct sim_proc *proc = arg;
  (void)page;
  if (proc->pager->held-- == 0)
    sim_bad(proc->sim, "p%u lets go of more than it holds", proc->core.self);
}

void sim_pager_fini(struct sim_proc *proc) {
  struct sim_pager *pager = proc->pager;
  if (!pager) return;
  dmi_pressure_free(pager->core, let_go, proc);
  if (pager->held)
    sim_bad(proc->sim, "p%u has forgotten %u pages that it holds", proc->core.self, pager->held);
  if (dmi_pool_used(pager->pool) || dmi_pool_copy_bytes(pager->pool)) {
    sim_bad(proc->sim, "p%u ends with %llu bytes in its account, %llu of copies", proc->core.self,
            (unsigned long long)dmi_pool_used(pager->pool),
            (unsigned long long)dmi_pool_copy_bytes(pager->pool));
  }
  pager_judge_free(pager->judge);
  dmi_pool_free(pager->pool);
  free(pager);
  proc->pager = NULL;
}

/* ---- A sweep -------------------------------------------------------------------------------- */

static struct dmi_page *page_of(struct sim_proc *proc, void *map, uint64_t index) {
  uint32_t num = (uint32_t)(((struct dmi_map *)map)->base >> 20) - 1;
  return sim_page_get(proc, num, (uint32_t)index);
}

static void act(struct sim_proc *proc, const struct dmi_page *page, struct dmi_out *out) {
  sim_act(proc, sim_map_of(page), (uint32_t)page->index, out);
}

static bool look(void *arg, void *map, uint64_t from, struct dmi_look *look,
                 enum dmi_pressure_busy *busy) {
  struct sim_proc *proc = arg;
  const struct sim_pmap *pmap = &proc->pmap[(((struct dmi_map *)map)->base >> 20) - 1];
  while (from < SIM_PAGES && !pmap->page[from])
    from++;
  if (from >= SIM_PAGES) return false;
  *busy = dmi_pressure_look_at(pmap->page[from], look);
  look->saved = proc->pager->saved[sim_map_of(pmap->page[from])] >> from & 1;
  return true;
}

static void spare(void *arg, void *map, uint64_t index) {
  struct dmi_page *page = page_of(arg, map, index);
  page->flags &= (uint16_t)~DMI_PAGE_USED;
}

static bool drop(void *arg, void *map, uint64_t index) {
  struct sim_proc *proc = arg;
  if (!dmi_page_drop(&proc->core, page_of(proc, map, index))) return false;
  proc->sim->totals->drops++;
  return true;
}

static enum dmi_pressure_offer offer_page(struct sim_proc *proc, struct dmi_page *page) {
  enum dmi_pressure_offer offer;
  struct dmi_out out;
  dmi_out_init(&out);
  offer = dmi_pressure_offer(proc->pager->core, page, &out);
  if (offer == DMI_PRESSURE_OFFERED) {
    proc->sim->totals->offers++;
    proc->pager->held++;
    pager_judge_offers(proc->pager->judge, out.act[0].to, page->map->page_size);
  }
  act(proc, page, &out);
  return offer;
}

static enum dmi_pressure_offer offer(void *arg, void *map, uint64_t index) {
  return offer_page(arg, page_of(arg, map, index));
}

static enum dmi_pressure_spill spill(void *arg, void *map, uint64_t index) {
  struct sim_proc *proc = arg;
  struct sim_pager *pager = proc->pager;
  struct dmi_page *page = page_of(proc, map, index);
  struct dmi_frame **disk = &proc->pmap[sim_map_of(page)].disk[index];
  uint64_t size = page->map->page_size;
  struct dmi_frame *frame = dmi_page_spill(&proc->core, page);
  struct dmi_out out;
  if (!frame) return DMI_PRESSURE_NOT_IDLE;
  *disk = dmi_slice_copy(frame->bytes, size).frame;
  pager->disk_used += size;
  if (pager->disk_used <= pager->disk_most) {
    proc->sim->totals->spills++;
    dmi_frame_unref(frame);
    return DMI_PRESSURE_WRITTEN;
  }
  proc->sim->totals->full++;
  dmi_pool_reserve(pager->pool, size, true);
  dmi_out_init(&out);
  if (!dmi_pressure_read_back(pager->core, page, frame, &out))
    sim_bad(proc->sim, "p%u cannot put back what the file did not take", proc->core.self);
  act(proc, page, &out);
  unspilled(proc, page);
  return DMI_PRESSURE_FULL;
}

static uint64_t sweep(struct sim_proc *proc) {
  const struct dmi_pressure_env env = {proc, look, spare, drop, offer, spill};
  struct dmi_replace_map map[SIM_MAPS];
  uint64_t num = 0;
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    struct sim_pmap *pmap = &proc->pmap[m];
    if (pmap->known != SIM_KNOWN) continue;
    map[num++] = (struct dmi_replace_map){&pmap->map, pmap->map.page_size, &proc->pager->hand[m]};
  }
  return dmi_pressure_sweep(proc->pager->core, &env, map, num);
}

/* ---- One action ----------------------------------------------------------------------------- */

/* Reads the page's bytes back from the file. */
static void unspill(struct sim_proc *proc, struct dmi_page *page) {
  struct dmi_frame *disk = proc->pmap[sim_map_of(page)].disk[page->index], *frame;
  struct dmi_out out;
  if (!disk) {
    sim_bad(proc->sim, "p%u: a spilled page has no bytes", proc->core.self);
    return;
  }
  frame = dmi_slice_copy(disk->bytes, disk->size).frame;
  dmi_out_init(&out);
  if (dmi_pressure_read_back(proc->pager->core, page, frame, &out)) unspilled(proc, page);
  proc->sim->totals->unspills++;
  act(proc, page, &out);
}

static void admit(struct sim_proc *proc, struct dmi_page *page, int error) {
  struct dmi_out out;
  bool spilled;
  pager_judge_admits(proc->pager->judge);
  if (error != DMI_OK && sim_pager_fails(proc, page)) {
    dmi_pool_reserve(proc->pager->pool, page->map->page_size, true);
    error = DMI_OK;
  }
  sim_log(proc->sim, "p%u: map %u page %u goes on, error %d", proc->core.self, sim_map_of(page) + 1,
          (uint32_t)page->index, error);
  sim_touch(proc->sim, sim_map_of(page), (uint32_t)page->index);
  dmi_out_init(&out);
  spilled = dmi_pressure_admit(proc->pager->core, page, error, &out);
  act(proc, page, &out);
  if (spilled) unspill(proc, page);
}

static void carry_out(struct sim_proc *proc, struct dmi_pressure_result *result) {
  struct sim_pager *pager = proc->pager;
  const struct dmi_pressure_action *action = &pager->action;
  switch (action->type) {
    case DMI_PRESSURE_REST:
      pager->seen = pager->events;
      pager->expects = true;
      break;
    case DMI_PRESSURE_SETTLE:
      result->fate = dmi_pressure_offered(action->page);
      break;
    case DMI_PRESSURE_CHECK:
      result->fate = dmi_pressure_stalls(action->page);
      break;
    case DMI_PRESSURE_ADMIT:
      admit(proc, action->page, action->error);
      break;
    case DMI_PRESSURE_SWEEP:
      result->bytes = sweep(proc);
      break;
    case DMI_PRESSURE_OFFER:
      result->offer = offer_page(proc, action->page);
      break;
    default: /* ARM */
      result->yes = !pager->armed;
      pager->armed = true;
  }
}

bool sim_pager_rests(const struct sim_proc *proc) {
  return proc->pager->action.type == DMI_PRESSURE_REST;
}

bool sim_pager_sleeps(const struct sim_proc *proc) {
  const struct sim_pager *pager = proc->pager;
  return pager->action.type == DMI_PRESSURE_REST && pager->action.sleep &&
         pager->events == pager->seen;
}

static const char *const action_names[DMI_PRESSURE_DOS] = {
    "rest", "settle", "check", "admit", "sweep", "offer", "arm",
};

static void step(struct sim_proc *proc) {
  struct sim_pager *pager = proc->pager;
  struct dmi_pressure_result result = {.fate = DMI_PRESSURE_OUT};
  struct dmi_capacity_out out;
  carry_out(proc, &result);
  dmi_capacity_out_init(&out);
  dmi_pressure_next(pager->core, &result, &pager->action, &out);
  sim_log(proc->sim, "p%u's pager: %s%s, %llu bytes used", proc->core.self,
          action_names[pager->action.type], pager->action.sleep ? " asleep" : "",
          (unsigned long long)dmi_pool_used(pager->pool));
  if (pager->core->stage == DMI_STAGE_CHECK_FIRST) sim_pager_gives_up(proc, pager->action.page);
  if (pager->action.release) let_go(proc, pager->action.release);
  sim_pager_say(proc, &out);
  if (pager->action.type == DMI_PRESSURE_REST && pager->action.sleep) {
    pager->expects = pager->action.expects;
    pager_judge_rests(pager->judge, pager->armed);
  }
}

/* Saves pages, or ends that. */
static void save(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  proc->pager->saved[rng_below(&sim->rng, sim->maps)] ^=
      (uint8_t)(1u << rng_below(&sim->rng, SIM_PAGES));
  proc->pager->events++;
}

bool sim_pager_go_on(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc || sim_pager_sleeps(proc)) continue;
    step(proc);
    return true;
  }
  return false;
}

void sim_pager_step(struct sim *sim) {
  struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
  if (proc && rng_once_in(&sim->rng, 400)) save(proc);
  (void)sim_pager_go_on(sim);
}
