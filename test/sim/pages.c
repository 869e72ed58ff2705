/*
 * pages.c - what must hold for pages between processes, at every step and when nothing is in
 * flight; and the histories.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "core/syncop.h"
#include "simulator.h"

void sim_log(struct sim *sim, const char *format, ...) {
  va_list args;
  if (!sim->opt.verbose) return;
  printf("%8llu ", (unsigned long long)sim->now);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
}

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
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const sim_process_t *proc = sim_at(sim, i);
    const struct dmi_page *at = proc ? proc->pmap[map].page[page] : NULL;
    if (!at) continue;
    dmi_page_check(&proc->core, at);
    owners += at->role == DMI_ROLE_OWNER;
  }
  if (owners) real->owned[page] = true;
  if (owners) real->orphan[page] = false;
  if (owners + real->grants[page] > 1) {
    sim_bad(sim, "two owners: map %u page %u has %u, and %u GRANTs under way", map, page, owners,
            real->grants[page]);
  }
  if (!real->unmapping && real->owned[page] && !real->orphan[page] &&
      owners + real->grants[page] == 0) {
    sim_bad(sim, "no owner: map %u page %u", map, page);
  }
}

void sim_pages_touched(struct sim *sim) {
  for (uint32_t i = 0; i < sim->touched_num; i++) {
    check_owner(sim, sim->touched[i].map, sim->touched[i].page);
  }
  sim->touched_num = 0;
}

/* The bytes of a page in this process, in memory or in the file. */
static const unsigned char *bytes_at(const sim_process_t *proc, uint32_t map, uint32_t page) {
  static const unsigned char zeros[HIST_PAGE_MAX];
  const struct sim_pmap *pmap = proc ? &proc->pmap[map] : NULL;
  if (pmap && pmap->disk[page]) return pmap->disk[page]->bytes;
  if (pmap && pmap->page[page] && pmap->page[page]->frame) return pmap->page[page]->frame->bytes;
  return zeros;
}

static const sim_process_t *owner_of(const struct sim *sim, uint32_t map, uint32_t page) {
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const struct dmi_page *at = sim_record_at(sim, i, map, page);
    if (at && at->role == DMI_ROLE_OWNER) return sim_at(sim, i);
  }
  return NULL;
}

static void print_page(const struct sim *sim, uint32_t map, uint32_t page) {
  static const char *const roles[] = {"NONE", "PENDING", "OWNER"};
  fprintf(stderr, "  map %u page %u:\n", map, page);
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const sim_process_t *proc = sim_at(sim, i);
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
static void check_copy(struct sim *sim, const sim_process_t *proc, uint32_t map, uint32_t page,
                       const sim_process_t *owner) {
  const struct dmi_page *copy = proc->pmap[map].page[page];
  const struct dmi_page *real = owner ? owner->pmap[map].page[page] : NULL;
  const unsigned char *a = bytes_at(proc, map, page), *b = bytes_at(owner, map, page);
  bool listed = false;
  for (uint32_t i = 0; real && real->busy && i < real->busy->holders; i++) {
    listed |= real->busy->holder[i].uid == proc->core.self;
  }
  if (!listed) {
    sim_bad(sim, "p%u has a copy that the owner does not know: map %u page %u", proc->core.self,
            map, page);
  }
  if (memcmp(a, b, sim->map[map].page_size) != 0 ||
      (real && !dmi_version_is(copy->version, real->version))) {
    sim_bad(sim, "p%u has a stale copy: map %u page %u", proc->core.self, map, page);
  }
  if (copy->flags & DMI_PAGE_UNRELEASED) {
    sim_bad(sim, "p%u holds a copy for ever: map %u page %u", proc->core.self, map, page);
  }
}

/* Operations wait for ever whose threads have not given up, nor ended with their process. */
static bool wait_for_ever(const struct sim *sim, const struct dmi_page_busy *busy) {
  if (busy->queue.first || busy->waiters.first || busy->current) return true;
  for (const struct dmi_req *req = busy->waiting_ops.first; req; req = req->next) {
    const struct sim_thread *thread = sim_thread_of(sim, req->origin, req->op);
    if (!thread || !(thread->given_up || thread->ghost)) return true;
    if (sim->opt.crashes && sim_is_lost(sim, req->origin)) return true;
  }
  return false;
}

static void check_quiet_page(struct sim *sim, uint32_t map, uint32_t page) {
  const sim_process_t *owner = owner_of(sim, map, page);
  bool was_bad = sim->bad;
  check_owner(sim, map, page);
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const sim_process_t *proc = sim_at(sim, i);
    const struct dmi_page *at = proc ? proc->pmap[map].page[page] : NULL;
    if (!at) continue;
    const struct dmi_page_busy *busy = at->busy;
    if (at->role == DMI_ROLE_PENDING) {
      sim_bad(sim, "p%u waits for ownership for ever: map %u page %u", proc->core.self, map, page);
    }
    if (busy && wait_for_ever(sim, busy)) {
      sim_bad(sim, "p%u: operations wait for ever: map %u page %u", proc->core.self, map, page);
    }
    if (busy && (busy->puts || dmi_fetch_any(busy->fetch))) {
      sim_bad(sim, "p%u: an answer never came: map %u page %u", proc->core.self, map, page);
    }
    if (at->copy && !sim->opt.lax) check_copy(sim, proc, map, page, owner);
    /* Without the rule about STALE the mark stays by definition, which would prove nothing. */
    if (at->flags & (DMI_PAGE_STALE | DMI_PAGE_LISTED) && sim->opt.page_break != DMI_BREAK_STALE) {
      sim_bad(sim, "p%u: marks of a change of home stay: map %u page %u", proc->core.self, map,
              page);
    }
  }
  if (sim->bad && !was_bad) print_page(sim, map, page);
}

static void check_threads(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const sim_process_t *proc = sim_at(sim, i);
    for (uint32_t t = 0; proc && t <= SIM_THREADS; t++) {
      const struct sim_thread *thread = &proc->thread[t];
      if (!thread->out || thread->given_up) continue;
      if (!sim->bad) print_page(sim, thread->map, thread->page);
      sim_bad(sim, "lost request: p%u.%u waits for ever for op %llu, map %u page %u",
              proc->core.self, t, (unsigned long long)thread->req.op.n, thread->map, thread->page);
    }
  }
}

/* Operations that wait at the page's owner must wait for other bytes than those that are there. */
static void check_waiting(struct sim *sim, uint32_t map, uint32_t page) {
  const sim_process_t *owner = owner_of(sim, map, page);
  const struct dmi_page *at = owner ? owner->pmap[map].page[page] : NULL;
  const unsigned char *bytes = bytes_at(owner, map, page);
  if (!at || !at->busy) return;
  for (const struct dmi_req *req = at->busy->waiting_ops.first; req; req = req->next) {
    if (dmi_syncop_met(req, bytes + req->off))
      sim_bad(sim,
              "lost wake-up: an operation of p%u waits at p%u for what is there: map %u page %u",
              req->origin, owner->core.self, map, page);
  }
}

/* How often this operation waits at its page's owner. */
static uint32_t deferred(const struct sim *sim, const sim_process_t *proc,
                         const struct sim_thread *thread) {
  const sim_process_t *owner = owner_of(sim, thread->map, thread->page);
  const struct dmi_page *at = owner ? owner->pmap[thread->map].page[thread->page] : NULL;
  uint32_t num = 0;
  if (!at || !at->busy) return 0;
  for (const struct dmi_req *req = at->busy->waiting_ops.first; req; req = req->next)
    num += req->origin == proc->core.self && dmi_op_is(req->op, thread->req.op);
  return num;
}

void sim_check_waits(struct sim *sim) {
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; !sim->map[m].unmapping && p < sim->map[m].page_num; p++)
      check_waiting(sim, m, p);
  }
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const sim_process_t *proc = sim_at(sim, i);
    for (uint32_t t = 0; proc && t <= SIM_THREADS; t++) {
      const struct sim_thread *thread = &proc->thread[t];
      uint32_t num;
      if (!thread->out || !thread->waits || thread->given_up) continue;
      num = deferred(sim, proc, thread);
      if (num == 1) continue;
      if (!sim->bad) print_page(sim, thread->map, thread->page);
      sim_bad(sim, "lost wait: op %llu of p%u.%u is %u times at the owner, map %u page %u",
              (unsigned long long)thread->req.op.n, proc->core.self, t, num, thread->map,
              thread->page);
    }
  }
}

void sim_pages_quiet(struct sim *sim) {
  check_threads(sim);
  for (uint32_t m = 0; m < sim->maps; m++) {
    if (!sim->map[m].made || sim->map[m].unmapping) continue;
    for (uint32_t p = 0; p < sim->map[m].page_num; p++)
      check_quiet_page(sim, m, p);
  }
}

/* Nobody has its bytes, and who asks is told so. */
static bool is_lost(const sim_process_t *owner, uint32_t map, uint32_t page, bool orphan) {
  const struct dmi_page *at = owner ? owner->pmap[map].page[page] : NULL;
  if (!at) return owner == NULL && orphan; /* its home has no record of it, but knows (HOLE) */
  return at->flags & DMI_PAGE_LOST;
}

/* Records the owner's bytes as a last read: the order must lead to them. */
static void read_last(struct sim *sim, uint32_t map, uint32_t page) {
  struct sim_map *real = &sim->map[map];
  const sim_process_t *owner = owner_of(sim, map, page);
  uint64_t call = ++sim->now, back = ++sim->now;
  if (real->unmapping || is_lost(owner, map, page, real->orphan[page])) return;
  hist_add(&real->hist[page], call, back, 0, HIST_READ, 0, (uint8_t)real->page_size, NULL, 0,
           bytes_at(owner, map, page), (uint16_t)real->page_size);
}

void sim_check_last(struct sim *sim) {
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; sim->map[m].made && p < sim->map[m].page_num; p++)
      read_last(sim, m, p);
  }
}

static void print_history(struct sim *sim, uint32_t map, uint32_t page, const struct hist *hist) {
  struct hist small;
  if (getenv("SIM_RAW")) hist_print(hist, stderr);
  check_shrink(hist, &small);
  fprintf(stderr, "seed %llu, map %u page %u: no order explains these (process 0 is the judge)\n",
          (unsigned long long)sim->seed, map, page);
  hist_print(&small, stderr);
  hist_fini(&small);
}

void sim_check_histories(struct sim *sim) {
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; sim->map[m].made && p < sim->map[m].page_num; p++) {
      struct hist *hist = &sim->map[m].hist[p];
      struct check_stats stats = {0, 0};
      enum check_result result = check_page(hist, &stats);
      sim->totals->checked += stats.ops;
      sim->totals->tries += stats.tries;
      sim->hash = (sim->hash ^ hist_hash(hist)) * 0x100000001b3u;
      if (result == CHECK_OK) continue;
      if (result == CHECK_NO_ORDER && !sim->bad) print_history(sim, m, p, hist);
      sim_bad(sim, "%s: map %u page %u, %u operations",
              result == CHECK_NO_ORDER ? "wrong history" : "checker gave up", m, p, hist->num);
    }
  }
}
