/*
 * sim_check.c - checks what must hold between the processes, at every step and when nothing is in
 * flight.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "core/syncop.h"
#include "sim.h"

void sim_bad(struct sim *sim, const char *format, ...) {
  va_list args;
  if (sim->bad) return;
  sim->bad = true;
  va_start(args, format);
  vsnprintf(sim->why, sizeof(sim->why), format, args);
  va_end(args);
}

void sim_touch(struct sim *sim, uint32_t map, uint32_t page) {
  for (uint32_t i = 0; i < sim->touched_num; i++) {
    if (sim->touched[i].map == map && sim->touched[i].page == page) return;
  }
  sim->touched[sim->touched_num].map = (uint8_t)map;
  sim->touched[sim->touched_num++].page = (uint8_t)page;
}

/* At any time a page has one owner, or one GRANT in flight; before its first use it has none. */
static void check_owner(struct sim *sim, uint32_t map, uint32_t page) {
  struct sim_map *real = &sim->map[map];
  uint32_t owners = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *proc = sim->proc[i];
    const struct dmi_page *at = proc ? proc->pmap[map].page[page] : NULL;
    if (!at) continue;
    dmi_page_check(&proc->core, at);
    owners += at->role == DMI_ROLE_OWNER;
  }
  if (owners) real->owned[page] = true;
  if (owners) real->orphan[page] = false;
  if (owners + real->grants[page] > 1) {
    sim_bad(sim, "two owners: map %u page %u has %u, and %u GRANTs under way", map + 1, page,
            owners, real->grants[page]);
  }
  if (!real->unmapping && real->owned[page] && !real->orphan[page] &&
      owners + real->grants[page] == 0) {
    sim_bad(sim, "no owner: map %u page %u", map + 1, page);
  }
}

void sim_check_touched(struct sim *sim) {
  for (uint32_t i = 0; i < sim->touched_num; i++) {
    check_owner(sim, sim->touched[i].map, sim->touched[i].page);
  }
  sim->touched_num = 0;
  struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
  if (proc && sim->pools) sim_capacity_check(proc, false);
}

/* The bytes of a page in this process, in memory or in the file. */
static const unsigned char *bytes_at(const struct sim_proc *proc, uint32_t map, uint32_t page) {
  static const unsigned char zeros[HIST_PAGE_MAX];
  const struct sim_pmap *pmap = proc ? &proc->pmap[map] : NULL;
  if (pmap && pmap->disk[page]) return pmap->disk[page]->bytes;
  if (pmap && pmap->page[page] && pmap->page[page]->frame) return pmap->page[page]->frame->bytes;
  return zeros;
}

static const struct sim_proc *owner_of(const struct sim *sim, uint32_t map, uint32_t page) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct dmi_page *at = sim->proc[i] ? sim->proc[i]->pmap[map].page[page] : NULL;
    if (at && at->role == DMI_ROLE_OWNER) return sim->proc[i];
  }
  return NULL;
}

static void print_page(const struct sim *sim, uint32_t map, uint32_t page) {
  static const char *const roles[] = {"NONE", "PENDING", "OWNER"};
  fprintf(stderr, "  map %u page %u:\n", map + 1, page);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *proc = sim->proc[i];
    const struct dmi_page *at = proc ? proc->pmap[map].page[page] : NULL;
    if (!at) continue;
    const struct dmi_page_busy *busy = at->busy;
    fprintf(stderr,
            "    p%u home p%u %s copy %u held %u flags %x hint p%u tail p%u version %llu "
            "floor %llu",
            proc->core.self, atomic_load(&proc->pmap[map].map.home), roles[at->role], at->copy,
            (at->flags & DMI_PAGE_UNRELEASED) != 0, at->flags, at->hint, at->tail,
            (unsigned long long)at->version.n, (unsigned long long)at->floor.n);
    if (busy) {
      fprintf(stderr, ", queue %s waiters %s current %s acks %u puts %u fetch %llu holders",
              busy->queue.first ? "yes" : "no", busy->waiters.first ? "yes" : "no",
              busy->current ? "yes" : "no", busy->acks, busy->puts,
              (unsigned long long)busy->fetch.n);
      for (uint32_t h = 0; h < busy->holders; h++)
        fprintf(stderr, " p%u", busy->holder[h].uid);
    }
    fprintf(stderr, "\n");
  }
}

/* A copy that was not told of a write would answer reads with old bytes for ever. */
static void check_copy(struct sim *sim, const struct sim_proc *proc, uint32_t map, uint32_t page,
                       const struct sim_proc *owner) {
  const struct dmi_page *copy = proc->pmap[map].page[page];
  const struct dmi_page *real = owner ? owner->pmap[map].page[page] : NULL;
  const unsigned char *a = bytes_at(proc, map, page), *b = bytes_at(owner, map, page);
  bool listed = false;
  for (uint32_t i = 0; real && real->busy && i < real->busy->holders; i++) {
    listed |= real->busy->holder[i].uid == proc->core.self;
  }
  if (!listed) {
    sim_bad(sim, "p%u has a copy that the owner does not know: map %u page %u", proc->core.self,
            map + 1, page);
  }
  if (memcmp(a, b, sim->map[map].page_size) != 0 ||
      (real && !dmi_version_is(copy->version, real->version))) {
    sim_bad(sim, "p%u has a stale copy: map %u page %u", proc->core.self, map + 1, page);
  }
  if (copy->flags & DMI_PAGE_UNRELEASED) {
    sim_bad(sim, "p%u holds a copy for ever: map %u page %u", proc->core.self, map + 1, page);
  }
}

static void check_quiet_page(struct sim *sim, uint32_t map, uint32_t page) {
  const struct sim_proc *owner = owner_of(sim, map, page);
  bool was_bad = sim->bad;
  check_owner(sim, map, page);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *proc = sim->proc[i];
    const struct dmi_page *at = proc ? proc->pmap[map].page[page] : NULL;
    if (!at) continue;
    const struct dmi_page_busy *busy = at->busy;
    if (at->role == DMI_ROLE_PENDING) {
      sim_bad(sim, "p%u waits for ownership for ever: map %u page %u", proc->core.self, map + 1,
              page);
    }
    if (busy &&
        (busy->queue.first || busy->waiters.first || busy->current || busy->waiting_ops.first)) {
      sim_bad(sim, "p%u: operations wait for ever: map %u page %u", proc->core.self, map + 1, page);
    }
    if (busy && (busy->puts || dmi_fetch_any(busy->fetch))) {
      sim_bad(sim, "p%u: an answer never came: map %u page %u", proc->core.self, map + 1, page);
    }
    if (at->copy && !sim->opt.lax) check_copy(sim, proc, map, page, owner);
    /* Without the rule about STALE the mark stays by definition, which would prove nothing. */
    if (at->flags & (DMI_PAGE_STALE | DMI_PAGE_LISTED) && sim->opt.page_break != DMI_BREAK_STALE) {
      sim_bad(sim, "p%u: marks of a change of home stay: map %u page %u", proc->core.self, map + 1,
              page);
    }
  }
  if (sim->bad && !was_bad) print_page(sim, map, page);
}

static void check_threads(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[i];
    for (uint32_t t = 0; proc && t <= SIM_THREADS; t++) {
      struct sim_thread *thread = &proc->thread[t];
      if (!thread->out) continue;
      if (!sim->bad) print_page(sim, thread->map, thread->page);
      sim_bad(sim, "lost request: p%u.%u waits for ever for op %llu, map %u page %u",
              proc->core.self, t, (unsigned long long)thread->req.op.n, thread->map + 1u,
              thread->page);
    }
    if (proc && proc->stage != SIM_STAYS) {
      sim_bad(sim, "p%u cannot leave: stage %d, owns %llu", proc->core.self, proc->stage,
              (unsigned long long)atomic_load(&proc->core.owned));
    }
  }
}

/* Each operation that waits must be at the owner, once, and wait for other bytes than those that
 * are there. */
static uint32_t check_waiting(struct sim *sim, uint32_t map, uint32_t page) {
  const struct sim_proc *owner = owner_of(sim, map, page);
  const struct dmi_page *at = owner ? owner->pmap[map].page[page] : NULL;
  const unsigned char *bytes = bytes_at(owner, map, page);
  uint32_t num = 0;
  if (!at || !at->busy) return 0;
  for (const struct dmi_req *req = at->busy->waiting_ops.first; req; req = req->next) {
    const struct sim_thread *thread = sim_thread_of(sim, req->origin, req->op);
    if (dmi_syncop_met(req, bytes + req->off)) {
      sim_bad(sim,
              "lost wake-up: an operation of p%u waits at p%u for what is there: map %u page %u",
              req->origin, owner->core.self, map + 1, page);
    }
    num += thread && thread->map == map && thread->page == page;
  }
  return num;
}

void sim_check_waits(struct sim *sim) {
  uint32_t out = 0, waiting = 0;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; !sim->map[m].unmapping && p < sim->map[m].page_num; p++)
      waiting += check_waiting(sim, m, p);
  }
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    for (uint32_t t = 0; sim->proc[i] && t <= SIM_THREADS; t++)
      out += sim->proc[i]->thread[t].out && sim->proc[i]->thread[t].waits;
  }
  if (out != waiting) {
    sim_bad(sim, "lost wait: %u operations wait, %u of them at an owner", out, waiting);
  }
}

void sim_check_quiet(struct sim *sim) {
  sim->totals->quiets++;
  if (sim->refusals && sim->opt.page_break == DMI_BREAK_NOTHING) {
    sim_bad(sim, "%llu operations were refused and do not know it",
            (unsigned long long)sim->refusals);
  }
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i]) sim_capacity_check(sim->proc[i], true);
  }
  check_threads(sim);
  for (uint32_t m = 0; m < sim->maps; m++) {
    if (sim->map[m].unmapping) continue;
    for (uint32_t p = 0; p < sim->map[m].page_num; p++)
      check_quiet_page(sim, m, p);
  }
}

/* Nobody has its bytes, and who asks is told so. */
static bool is_lost(const struct sim_proc *owner, uint32_t map, uint32_t page, bool orphan) {
  const struct dmi_page *at = owner ? owner->pmap[map].page[page] : NULL;
  if (!at) return owner == NULL && orphan; /* its home has no record of it, but knows (HOLE) */
  return at->flags & DMI_PAGE_LOST;
}

/* Records the owner's bytes as a last read: the order must lead to them. */
static void read_last(struct sim *sim, uint32_t map, uint32_t page) {
  struct sim_map *real = &sim->map[map];
  const struct sim_proc *owner = owner_of(sim, map, page);
  uint64_t call = ++sim->now, back = ++sim->now;
  if (real->unmapping || is_lost(owner, map, page, real->orphan[page])) return;
  hist_add(&real->hist[page], call, back, 0, HIST_READ, 0, (uint8_t)real->page_size, NULL, 0,
           bytes_at(owner, map, page), (uint16_t)real->page_size);
}

static void print_history(struct sim *sim, uint32_t map, uint32_t page, const struct hist *hist) {
  struct hist small;
  if (getenv("SIM_RAW")) hist_print(hist, stderr);
  check_shrink(hist, &small);
  fprintf(stderr, "seed %llu, map %u page %u: no order explains these (process 0 is the judge)\n",
          (unsigned long long)sim->seed, map + 1, page);
  hist_print(&small, stderr);
  hist_fini(&small);
}

void sim_check_histories(struct sim *sim) {
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < sim->map[m].page_num; p++) {
      struct hist *hist = &sim->map[m].hist[p];
      struct check_stats stats = {0, 0};
      if (!sim->bad) read_last(sim, m, p);
      enum check_result result = check_page(hist, &stats);
      sim->totals->checked += stats.ops;
      sim->totals->tries += stats.tries;
      sim->hash = (sim->hash ^ hist_hash(hist)) * 0x100000001b3u;
      if (result == CHECK_OK) continue;
      if (result == CHECK_NO_ORDER && !sim->bad) print_history(sim, m, p, hist);
      sim_bad(sim, "%s: map %u page %u, %u operations",
              result == CHECK_NO_ORDER ? "wrong history" : "checker gave up", m + 1, p, hist->num);
    }
  }
}
