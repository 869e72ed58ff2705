/*
 * sim_pager_check.c - checks pagers: no write fails, and no leave is refused, while there is
 * memory; no process waits for ever; promises are kept.  Most of this is in pager_judge.c.
 */
#include "sim_pager.h"

/* ---- For the judge -------------------------------------------------------------------------- */

static bool gives(void *arg) {
  const struct sim_proc *proc = arg;
  return proc->pager->open && proc->stage == SIM_STAYS;
}

static bool member(void *arg, uint32_t uid) {
  return !sim_has_left(arg, uid);
}

static void each(void *arg, bool saved, void (*visit)(struct dmi_page *page, void *with),
                 void *with) {
  struct sim_proc *proc = arg;
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (!proc->pmap[m].page[p] || (!saved && (proc->pager->saved[m] >> p & 1))) continue;
      visit(proc->pmap[m].page[p], with);
    }
  }
}

static void bad(void *arg, const char *why) {
  struct sim_proc *proc = arg;
  sim_bad(proc->sim, "p%u: %s", proc->core.self, why);
}

void sim_pager_judge(struct sim_proc *proc) {
  const struct pager_judge_env env = {proc, gives, member, each, bad};
  proc->pager->judge = pager_judge_new(&env, proc->pager->pool, proc->pager->core);
}

/* ---- Failing -------------------------------------------------------------------------------- */

void sim_pager_sends_back(struct sim_proc *proc, uint32_t from, bool must) {
  proc->sim->totals->refused_pages++;
  if (must && dmi_capacity_promised(proc->pager->core->capacity))
    sim_bad(proc->sim, "p%u sends a page back to p%u, and has promised memory", proc->core.self,
            from);
}

/* A process that has memory for it, has nothing to do, and has no message in flight: it should have
 * reported its memory.  NULL: none. */
static const struct sim_proc *with_capacity(const struct sim_proc *proc, uint64_t bytes) {
  const struct sim *sim = proc->sim;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *other = sim->proc[i];
    if (!other || other == proc || sim_has_left(proc, other->core.self)) continue;
    if (!sim_pager_sleeps(other) || !sim_net_silent(sim, proc->slot, other->slot)) continue;
    if (pager_judge_capacity(other->pager->judge) >= bytes) return other;
  }
  return NULL;
}

void sim_pager_gives_up(struct sim_proc *proc, const struct dmi_page *page) {
  struct sim_pager *pager = proc->pager;
  const struct sim_proc *other = with_capacity(proc, page->map->page_size);
  const char *hope = pager_judge_hopes(pager->judge, page);
  pager->doubt[0] = 0;
  if (hope) {
    snprintf(pager->doubt, sizeof(pager->doubt), "%s", hope);
  } else if (pager_judge_unasked(pager->judge, page)) {
    snprintf(pager->doubt, sizeof(pager->doubt), "a member was not asked since it waits");
  } else if (other) {
    snprintf(pager->doubt, sizeof(pager->doubt), "p%u has %llu bytes", other->core.self,
             (unsigned long long)pager_judge_capacity(other->pager->judge));
  }
}

bool sim_pager_fails(struct sim_proc *proc, struct dmi_page *page) {
  struct sim *sim = proc->sim;
  if (!(page->flags & DMI_PAGE_STALLED)) return false;
  if (sim_capacity_is_kick(proc, page)) return true;
  if (page->flags & DMI_PAGE_SPILLED)
    sim_bad(sim, "p%u: what needs a spilled page fails", proc->core.self);
  if (proc->pager->doubt[0])
    sim_bad(sim, "p%u: a write of %llu bytes fails, and %s", proc->core.self,
            (unsigned long long)page->map->page_size, proc->pager->doubt);
  sim->totals->failed_for_capacity++;
  sim_capacity_refused(proc, page);
  return false;
}

/* ---- At any time, and when nothing is under way --------------------------------------------- */

void sim_pager_check(struct sim_proc *proc, bool quiet) {
  struct sim *sim = proc->sim;
  struct sim_pager *pager = proc->pager;
  uint64_t disk = 0;
  uint16_t flags = 0;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (!page) continue;
      flags |= page->flags;
      if (proc->pmap[m].disk[p]) disk += page->map->page_size;
      if (!(page->flags & DMI_PAGE_SPILLED) != !proc->pmap[m].disk[p])
        sim_bad(sim, "p%u: map %u page %u is spilled and has no bytes, or the other way round",
                proc->core.self, m, p);
    }
  }
  if (pager->disk_used != disk)
    sim_bad(sim, "p%u: the account of the file is wrong", proc->core.self);
  pager_judge_account(pager->judge, quiet);
  if (sim_pager_sleeps(proc)) pager_judge_sleeps(pager->judge);
  if (!quiet) return;
  if (flags & (DMI_PAGE_OFFERED | DMI_PAGE_STALLED | DMI_PAGE_RESERVED))
    sim_bad(sim, "p%u: flags %x stay", proc->core.self, flags);
  if (pager->core->waiting.num || pager->core->stalled.num || pager->core->offered.num ||
      pager->held)
    sim_bad(sim, "p%u: its pager still holds pages", proc->core.self);
}
