/*
 * sim_capacity.c - virtual processes that lend little memory (R12), and what their pagers do.
 *
 * The account counts records, as the processes share frames.  Which page leaves, and when, is
 * chosen at random, since the protocol must be safe with any choice.  Only when nothing else can
 * move, the simulator looks for memory until a stalled operation goes on, or fails because there is
 * none.
 */
#include <stdlib.h>
#include <string.h>

#include "dmi_api.h"
#include "simulator.h"

/* ---- The account ---------------------------------------------------------------------------- */

static uint64_t used(const struct sim_pool *pool) {
  return pool->reserved + pool->bytes;
}

static uint64_t over(const struct sim_pool *pool) {
  return used(pool) > pool->limit ? used(pool) - pool->limit : 0;
}

static bool fits(const struct sim_pool *pool, uint64_t bytes) {
  return used(pool) + bytes <= pool->limit;
}

static void more(struct sim_proc *proc) {
  struct sim_pool *pool = &proc->pool;
  bool excused = pool->excused || atomic_load(&proc->core.heir);
  if (excused && over(pool) > pool->over) pool->over = over(pool);
}

static void fewer(struct sim_pool *pool) {
  if (over(pool) < pool->over) pool->over = over(pool);
}

static bool reserve(void *arg, uint64_t bytes, bool force) {
  struct sim_proc *proc = arg;
  if (!force && !fits(&proc->pool, bytes)) {
    proc->sim->totals->no_capacity++;
    return false;
  }
  proc->pool.reserved += bytes;
  more(proc);
  return true;
}

static void release(void *arg, uint64_t bytes) {
  struct sim_proc *proc = arg;
  if (proc->pool.reserved < bytes) {
    sim_bad(proc->sim, "p%u gives back memory that it has not taken", proc->core.self);
    return;
  }
  proc->pool.reserved -= bytes;
  fewer(&proc->pool);
}

static void attach(void *arg, struct dmi_frame *frame, bool reserved) {
  struct sim_proc *proc = arg;
  proc->pool.bytes += frame->size;
  if (reserved) release(arg, frame->size);
  more(proc);
}

static void detach(void *arg, struct dmi_frame *frame) {
  struct sim_proc *proc = arg;
  proc->pool.bytes -= frame->size;
  /* Checked at the end of the step, as the memory of a copy may become a reservation, or be used
   * for other bytes, within the step. */
}

static void copies(void *arg, int64_t bytes) {
  struct sim_proc *proc = arg;
  proc->pool.copies += bytes;
}

static struct dmi_frame **disk_of(struct sim_proc *proc, const struct dmi_page *page) {
  return &proc->pmap[(page->map->base >> 20) - 1].disk[page->index];
}

static void unspilled(void *arg, struct dmi_page *page) {
  struct dmi_frame **disk = disk_of(arg, page);
  if (!*disk) {
    struct sim_proc *proc = arg;
    sim_bad(proc->sim, "p%u frees what it had not spilled", proc->core.self);
  }
  dmi_frame_unref(*disk);
  *disk = NULL;
}

static const struct dmi_account account = {reserve, release, attach, detach, copies, unspilled};

void sim_capacity_init(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  struct rng *rng = &sim->rng;
  proc->core.account = &account;
  proc->pool.limit = UINT64_MAX / 2;
  if (!sim->pools) return;
  proc->spills = rng_once_in(rng, 3);
  if (rng_once_in(rng, 8)) return;
  proc->pool.limit = rng_once_in(rng, 6) ? rng_below(rng, 64) : rng_range(rng, 64, 256);
}

void sim_capacity_check(struct sim_proc *proc, bool quiet) {
  struct sim *sim = proc->sim;
  struct sim_pool *pool = &proc->pool;
  uint64_t reserved = 0, bytes = 0;
  int64_t copied = 0;
  uint16_t flags = 0;
  if (proc->pager) {
    sim_pager_check(proc, quiet);
    return;
  }
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (!page) continue;
      flags |= page->flags;
      if (page->flags & DMI_PAGE_RESERVED) reserved += page->map->page_size;
      if (page->frame) bytes += page->map->page_size;
      if (page->frame && page->role == DMI_ROLE_NONE) copied += (int64_t)page->map->page_size;
      if (!(page->flags & DMI_PAGE_SPILLED) != !proc->pmap[m].disk[p]) {
        sim_bad(sim, "p%u: map %u page %u is spilled and has no bytes, or the other way round",
                proc->core.self, m, p);
      }
    }
  }
  if (reserved != pool->reserved || bytes != pool->bytes || copied != pool->copies) {
    sim_bad(sim,
            "p%u: the account says %llu reserved, %llu of pages, %lld of copies, not %llu, "
            "%llu, %lld",
            proc->core.self, (unsigned long long)pool->reserved, (unsigned long long)pool->bytes,
            (long long)pool->copies, (unsigned long long)reserved, (unsigned long long)bytes,
            (long long)copied);
  }
  fewer(pool);
  if (over(pool) > pool->over) {
    sim_bad(sim, "p%u has %llu bytes, more than the %llu that it lends", proc->core.self,
            (unsigned long long)used(pool), (unsigned long long)pool->limit);
  }
  if (quiet && (reserved || (flags & (DMI_PAGE_OFFERED | DMI_PAGE_STALLED)))) {
    sim_bad(sim, "p%u: %llu bytes stay reserved, flags %x stay", proc->core.self,
            (unsigned long long)reserved, flags);
  }
}

void sim_capacity_fini(struct sim_proc *proc) {
  const struct sim_pool *pool = &proc->pool;
  if (proc->pager) return;
  if (pool->reserved || pool->bytes || pool->copies) {
    sim_bad(proc->sim, "p%u ends with %llu bytes reserved, %llu of pages, %lld of copies",
            proc->core.self, (unsigned long long)pool->reserved, (unsigned long long)pool->bytes,
            (long long)pool->copies);
  }
}

/* ---- What a pager may do -------------------------------------------------------------------- */

struct place {
  struct sim_proc *proc;
  struct dmi_page *page;
  uint32_t map, num;
};

/* Any record of the process; page NULL: the chosen mapping has none. */
static struct place any_page(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  struct place at = {proc, NULL, rng_below(&sim->rng, sim->maps), rng_below(&sim->rng, SIM_PAGES)};
  if (rng_once_in(&sim->rng, 2)) at.map = sim->mix.hot_map;
  at.page = proc->pmap[at.map].page[at.num];
  if (at.page) sim_touch(sim, at.map, at.num);
  return at;
}

static void act(const struct place *at, struct dmi_out *out) {
  sim_act(at->proc, at->map, at->num, out);
}

static bool drop_copy(const struct place *at) {
  if (!dmi_page_drop(&at->proc->core, at->page)) return false;
  at->proc->sim->totals->drops++;
  sim_log(at->proc->sim, "p%u drops its copy: map %u page %u", at->proc->core.self, at->map,
          at->num);
  return true;
}

void sim_capacity_drop(struct sim *sim) {
  if (sim->opt.pagers) return;                               /* only the pagers drop copies */
  for (uint32_t tries = 0; tries < 4 * SIM_PROCS; tries++) { /* most tries find no copy to drop */
    struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
    struct place at;
    if (!proc) continue;
    at = any_page(proc);
    if (at.page && drop_copy(&at)) return;
  }
}

/* Any process that is a member in its view; 0: none. */
static uint32_t any_member(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *other = sim->proc[(start + i) % SIM_PROCS];
    if (other && other != proc && !sim_has_left(proc, other->core.self)) return other->core.self;
  }
  return 0;
}

uint32_t sim_capacity_heir(struct sim_proc *proc) {
  uint32_t any = rng_once_in(&proc->sim->rng, 2) ? any_member(proc) : 0;
  return any ? any : atomic_load(&proc->core.heir);
}

static bool offer(const struct place *at, uint32_t to) {
  struct dmi_out out;
  if (!to || atomic_load(&at->proc->core.heir)) return false;
  dmi_out_init(&out);
  if (!dmi_page_offer(&at->proc->core, at->page, to, &out)) return false;
  at->proc->sim->totals->offers++;
  act(at, &out);
  return true;
}

static bool spill(const struct place *at) {
  struct dmi_frame **disk = &at->proc->pmap[at->map].disk[at->num];
  if (!at->proc->spills || *disk) return false;
  *disk = dmi_page_spill(&at->proc->core, at->page);
  if (!*disk) return false;
  at->proc->sim->totals->spills++;
  sim_log(at->proc->sim, "p%u spills map %u page %u", at->proc->core.self, at->map, at->num);
  return true;
}

/* With memory reserved. */
static void unspill(const struct place *at) {
  struct dmi_frame **disk = &at->proc->pmap[at->map].disk[at->num], *frame = *disk;
  struct dmi_out out;
  dmi_out_init(&out);
  *disk = NULL;
  if (!dmi_page_unspill(&at->proc->core, at->page, frame, &out)) {
    sim_bad(at->proc->sim, "p%u cannot read back", at->proc->core.self);
  }
  at->proc->sim->totals->unspills++;
  act(at, &out);
}

/* With memory reserved. */
static void go_on(const struct place *at) {
  struct dmi_out out;
  dmi_out_init(&out);
  if (dmi_page_unstall(&at->proc->core, at->page, DMI_OK, &out)) {
    act(at, &out);
  } else if (at->page->flags & DMI_PAGE_SPILLED) {
    unspill(at);
  } else {
    release(at->proc, at->page->map->page_size);
  }
}

void sim_capacity_refused(struct sim_proc *proc, const struct dmi_page *page) {
  const struct dmi_req *first = page->busy->queue.first;
  bool fetch = first->foreign && first->type == DMI_REQ_READ;
  if (fetch) proc->sim->fetch_refused = true; /* and all reads that wait for the same fetch */
  if (!fetch) proc->sim->refusals++;
}

static void refuse(const struct place *at) {
  struct dmi_out out;
  dmi_out_init(&out);
  struct sim *sim = at->proc->sim;
  sim_capacity_refused(at->proc, at->page);
  /* With this rule broken the account must not complain, so that the wrong bytes are noticed. */
  at->proc->pool.excused = sim->opt.page_break == DMI_BREAK_REFUSE;
  if (!dmi_page_unstall(&at->proc->core, at->page, DMI_ENOMEM, &out)) {
    sim_bad(sim, "p%u cannot refuse what stalls", at->proc->core.self);
  }
  at->proc->pool.excused = false;
  act(at, &out);
}

void sim_capacity_step(struct sim *sim) {
  struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
  struct place at;
  if (!proc) return;
  at = any_page(proc);
  if (!at.page) return;
  bool waits = at.page->flags & (DMI_PAGE_STALLED | DMI_PAGE_SPILLED);
  switch (rng_below(&sim->rng, 6)) {
    case 0:
    case 1:
      (void)drop_copy(&at);
      break;
    case 2:
      (void)spill(&at);
      break;
    case 3:
      if (waits && reserve(proc, at.page->map->page_size, false)) go_on(&at);
      break;
    default:
      (void)offer(&at, any_member(proc));
  }
}

/* ---- When nothing else can move ------------------------------------------------------------- */

static bool make_capacity(struct sim_proc *proc, uint64_t bytes) {
  struct sim *sim = proc->sim;
  for (uint32_t m = 0; m < sim->maps && !fits(&proc->pool, bytes); m++) {
    for (uint32_t p = 0; p < SIM_PAGES && !fits(&proc->pool, bytes); p++) {
      struct place at = {proc, proc->pmap[m].page[p], m, p};
      if (!at.page) continue;
      sim_touch(sim, m, p);
      if (!drop_copy(&at)) (void)spill(&at);
    }
  }
  return fits(&proc->pool, bytes);
}

/* A process that has memory for the page that is stalled here; 0: none. */
static uint32_t with_capacity(struct sim_proc *proc, uint64_t bytes) {
  struct sim *sim = proc->sim;
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *other = sim->proc[(start + i) % SIM_PROCS];
    if (!other || other == proc || other->stage != SIM_STAYS) continue;
    if (!sim_has_left(proc, other->core.self) && make_capacity(other, bytes))
      return other->core.self;
  }
  return 0;
}

bool sim_capacity_is_kick(const struct sim_proc *proc, const struct dmi_page *page) {
  const struct dmi_req *req = page->busy->queue.first;
  const struct sim_thread *thread = sim_thread_of(proc->sim, req->origin, req->op);
  const struct sim_proc *origin = sim_by_uid(proc->sim, req->origin);
  return thread && thread == &origin->thread[SIM_THREADS];
}

/* OWN cannot fail; a process that waits may have given up and would not notice. */
static bool may_refuse(const struct dmi_req *req) {
  return req->type != DMI_REQ_OWN && !(req->type == DMI_REQ_ATOMIC && req->kind == DMI_RMW_WATCH);
}

/* A write may fail for lack of memory only if no process has any reserved: a reservation may be
 * given back (by GRANT or DATA with ZERO), and then there was memory. */
static void check_refused(const struct place *at) {
  const struct sim *sim = at->proc->sim;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *proc = sim->proc[i];
    if (!proc || !proc->pool.reserved) continue;
    sim_bad(at->proc->sim, "p%u: a write to map %u page %u fails, but p%u has %llu bytes reserved",
            at->proc->core.self, at->map, at->num, proc->core.self,
            (unsigned long long)proc->pool.reserved);
  }
}

static void settle(const struct place *at) {
  uint64_t bytes = at->page->map->page_size;
  struct sim *sim = at->proc->sim;
  bool spilled = (at->page->flags & DMI_PAGE_SPILLED) != 0;
  if (sim_capacity_is_kick(at->proc, at->page)) at->proc->pool.limit += bytes;
  if (make_capacity(at->proc, bytes)) {
    (void)reserve(at->proc, bytes, false);
    go_on(at);
  } else if (spilled && (rng_once_in(&sim->rng, 2) || !may_refuse(at->page->busy->queue.first))) {
    at->proc->pool.excused = true; /* one page above the limit, to read it back */
    (void)reserve(at->proc, bytes, true);
    at->proc->pool.excused = false;
    go_on(at);
  } else if (spilled || !offer(at, with_capacity(at->proc, bytes))) {
    if (!spilled) check_refused(at);
    refuse(at);
  }
}

/* Helps the first stalled page that is spilled, or not spilled. */
static bool go_on_with(struct sim *sim, bool spilled) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    for (uint32_t m = 0; sim->proc[i] && m < sim->maps; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++) {
        struct place at = {sim->proc[i], sim->proc[i]->pmap[m].page[p], m, p};
        if (!at.page || !(at.page->flags & DMI_PAGE_STALLED)) continue;
        if (!(at.page->flags & DMI_PAGE_SPILLED) == spilled) continue;
        sim_touch(sim, m, p);
        settle(&at);
        return true;
      }
    }
  }
  return false;
}

/* Spilled pages first: no operation overtakes a spilled page, so those behind it may have memory
 * reserved. */
bool sim_capacity_go_on(struct sim *sim) {
  if (sim->opt.pagers) return sim_pager_go_on(sim);
  return go_on_with(sim, true) || go_on_with(sim, false);
}
