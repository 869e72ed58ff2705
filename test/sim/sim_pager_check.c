/*
 * sim_pager_check.c - what must hold for pagers: no write fails, and no leave is refused, for lack
 * of room that is there; nobody waits for ever; promises are kept.
 */
#include "sim_pager.h"

typedef unsigned long long ull;

static bool can_give(const struct sim_proc *proc) {
  const struct dmi_pressure *core = proc->pager->core;
  return proc->pager->open && proc->stage == SIM_STAYS && !core->waiting.num && !core->stalled.num;
}

static uint64_t left_in(const struct sim_proc *proc) {
  uint64_t used = dmi_pool_used(proc->pager->pool), limit = dmi_pool_limit(proc->pager->pool);
  return used < limit ? limit - used : 0;
}

/* Bytes of copies that could go now. */
static uint64_t droppable(const struct sim_proc *proc) {
  uint64_t bytes = 0;
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; proc->pmap[m].known == SIM_KNOWN && p < SIM_PAGES; p++) {
      struct dmi_look look = {.droppable = false};
      if (!proc->pmap[m].page[p] || (proc->pager->saved[m] >> p & 1)) continue;
      (void)dmi_pressure_look_at(proc->pmap[m].page[p], &look);
      if (look.droppable) bytes += proc->pmap[m].map.page_size;
    }
  }
  return bytes;
}

/* What is in use in passing, without what is promised.  (dmi_pool_passing has the pool wake
 * somebody the next time.) */
static struct sim_stall now(const struct sim_proc *proc) {
  uint64_t used = dmi_pool_used(proc->pager->pool);
  uint64_t pages = dmi_room_promised(proc->pager->core->rooms);
  for (uint32_t m = 0; m < proc->sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (page && page->frame) pages += page->map->page_size;
    }
  }
  return (struct sim_stall){dmi_pool_turned(proc->pager->pool), used > pages ? used - pages : 0};
}

/* Has less ended since then than was in use in passing, and is some so now? */
static bool goes_on(const struct sim_proc *proc, const struct sim_stall *since) {
  struct sim_stall at = now(proc);
  return at.passing && at.turned - since->turned < since->passing;
}

/* ---- Questions ------------------------------------------------------------------------------ */

static struct sim_question *question(const struct sim_proc *proc, uint32_t uid, uint8_t kind) {
  const struct sim_proc *other = sim_by_uid(proc->sim, uid);
  return other ? &proc->pager->asks[other->slot][kind == DMI_ROOM_PROMISE] : NULL;
}

/* An answer that is too small: is that so? */
static void check_answer(const struct sim_proc *proc, uint32_t to, const struct dmi_room_msg *msg) {
  struct sim_question *asks = question(proc, to, msg->kind);
  bool promise = msg->kind == DMI_ROOM_PROMISE;
  uint64_t there = left_in(proc), enough;
  if (!asks || asks->uid != to) return;
  enough = promise ? asks->bytes : asks->unit;
  asks->uid = 0;
  if (msg->kind == DMI_ROOM_AHEAD || msg->bytes >= enough || !can_give(proc)) return;
  if (promise) there += msg->bytes;
  if (there >= asks->unit && msg->bytes < (there < enough ? there : enough)) {
    sim_bad(proc->sim, "p%u tells p%u of %llu bytes, and has %llu", proc->core.self, to,
            (ull)msg->bytes, (ull)there);
  } else if (droppable(proc)) {
    sim_bad(proc->sim, "p%u tells p%u of %llu bytes, and has %llu of copies", proc->core.self, to,
            (ull)msg->bytes, (ull)droppable(proc));
  } else if (!asks->now && goes_on(proc, &asks->since)) {
    sim_bad(proc->sim, "p%u tells p%u of %llu bytes, and has more in use only in passing",
            proc->core.self, to, (ull)msg->bytes);
  }
}

void sim_pager_says(struct sim_proc *proc, const struct dmi_room_send *send) {
  const struct sim_proc *to = sim_by_uid(proc->sim, send->to);
  const struct dmi_room_msg *msg = &send->msg;
  sim_log(proc->sim, "p%u room %u kind %u number %llu bytes %llu unit %llu to p%u", proc->core.self,
          msg->type, msg->kind, (ull)msg->number, (ull)msg->bytes, (ull)msg->unit, send->to);
  if (msg->type == DMI_ROOM_TELL && msg->number) check_answer(proc, send->to, msg);
  if (msg->type == DMI_ROOM_ASK && msg->kind != DMI_ROOM_PROMISE && to)
    proc->pager->asked[to->slot] = send->to;
}

void sim_pager_hears(struct sim_proc *proc, uint32_t from, const struct dmi_room_msg *msg) {
  struct sim_question *asks = question(proc, from, msg->kind);
  const struct sim_proc *other = sim_by_uid(proc->sim, from);
  if (msg->type == DMI_ROOM_ASK && asks)
    *asks = (struct sim_question){from, msg->bytes, msg->unit, msg->now, now(proc)};
  if (msg->type == DMI_ROOM_TELL && msg->kind != DMI_ROOM_PROMISE && other)
    proc->pager->told[other->slot] = msg->bytes;
  if (msg->type == DMI_ROOM_TELL && msg->number && msg->kind != DMI_ROOM_PROMISE && other)
    proc->pager->asked[other->slot] = 0;
}

void sim_pager_offers(struct sim_proc *proc, const struct dmi_out *out, uint64_t bytes) {
  uint32_t to = out->num ? out->act[0].to : 0;
  const struct sim_proc *other = sim_by_uid(proc->sim, to);
  if (!other) return;
  if (proc->pager->told[other->slot] < bytes)
    sim_bad(proc->sim, "p%u offers p%u %llu bytes more than it has told of", proc->core.self, to,
            (ull)bytes);
  proc->pager->told[other->slot] -= bytes;
}

void sim_pager_refuses(struct sim_proc *proc, uint32_t from) {
  const struct sim_proc *other = sim_by_uid(proc->sim, from);
  if (other) proc->pager->told[other->slot] = 0;
}

void sim_pager_sends_back(struct sim_proc *proc, uint32_t from, bool must) {
  proc->sim->totals->kept++;
  if (must && dmi_room_promised(proc->pager->core->rooms))
    sim_bad(proc->sim, "p%u sends a page back to p%u, and has promised room", proc->core.self,
            from);
}

void sim_pager_forgets(struct sim_proc *proc) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    uint32_t uid = proc->pager->asked[i];
    if (uid && sim_has_left(proc, uid)) proc->pager->asked[i] = 0;
  }
}

/* ---- Waiting and failing -------------------------------------------------------------------- */

void sim_pager_notes_stall(struct sim_proc *proc, const struct dmi_page *page) {
  proc->pager->stall[sim_map_of(page)][page->index] = now(proc);
}

/* Is there nothing that it waits for but use in passing?  Then not for ever. */
void sim_pager_rests(struct sim_proc *proc) {
  struct sim_pager *pager = proc->pager;
  const struct dmi_pressure *core = pager->core;
  bool patient = core->waiting.num && !core->offered.num && !pager->armed;
  for (uint32_t i = 0; i < SIM_PROCS; i++)
    patient = patient && !pager->asked[i];
  if (!patient) {
    pager->patient = NULL;
  } else if (pager->patient != core->waiting.page[0]) {
    pager->patient = core->waiting.page[0];
    pager->patience = now(proc);
    pager->patience.passing += dmi_room_promised(core->rooms);
  } else if (dmi_pool_turned(pager->pool) - pager->patience.turned >
             pager->patience.passing + pager->patient->map->page_size) {
    sim_bad(proc->sim, "p%u: a write waits for room that always others get", proc->core.self);
  }
}

/* Has somebody room for it who has nothing to do, and from whom no message is under way?  Then it
 * owes word of that.  NULL: nobody. */
static const struct sim_proc *with_room(const struct sim_proc *proc, uint64_t bytes) {
  const struct sim *sim = proc->sim;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *other = sim->proc[i];
    if (!other || other == proc || sim_has_left(proc, other->core.self)) continue;
    if (!can_give(other) || !sim_pager_sleeps(other)) continue;
    if (!sim_net_silent(sim, proc->slot, other->slot) || left_in(other) < bytes) continue;
    return other;
  }
  return NULL;
}

void sim_pager_gives_up(struct sim_proc *proc, const struct dmi_page *page) {
  struct sim_pager *pager = proc->pager;
  const struct sim_stall *since = &pager->stall[sim_map_of(page)][page->index];
  const struct sim_proc *other = with_room(proc, page->map->page_size);
  pager->doubt[0] = 0;
  if (page->map->page_size <= left_in(proc)) {
    snprintf(pager->doubt, sizeof(pager->doubt), "it has room itself");
  } else if (other) {
    snprintf(pager->doubt, sizeof(pager->doubt), "p%u has %llu bytes", other->core.self,
             (ull)left_in(other));
  } else if (!pager->core->spills && goes_on(proc, since)) {
    snprintf(pager->doubt, sizeof(pager->doubt), "room in use in passing will be free");
  }
}

/* Nobody sleeps who could go on: with a question that it could answer now, or a page that it could
 * make room for. */
static void check_sleep(const struct sim_proc *proc) {
  const struct sim_pager *pager = proc->pager;
  uint64_t there = left_in(proc) + droppable(proc);
  bool waits = pager->core->waiting.num && !pager->core->offered.num;
  if (!sim_pager_sleeps(proc)) return;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_question *asks = pager->asks[i];
    const struct sim_proc *other = proc->sim->proc[i];
    waits = waits && !pager->asked[i];
    for (int q = 0; q < 2; q++) {
      if (!other || asks[q].uid != other->core.self || sim_has_left(proc, asks[q].uid)) continue;
      if (can_give(proc) && there >= (q ? asks[q].bytes : asks[q].unit))
        sim_bad(proc->sim, "p%u sleeps, and p%u waits for its answer", proc->core.self,
                asks[q].uid);
    }
  }
  if (waits && droppable(proc) && pager->core->waiting.page[0]->map->page_size <= there)
    sim_bad(proc->sim, "p%u sleeps, and could drop copies for a write", proc->core.self);
}

bool sim_pager_fails(struct sim_proc *proc, struct dmi_page *page) {
  struct sim *sim = proc->sim;
  if (!(page->flags & DMI_PAGE_STALLED)) return false;
  if (sim_room_is_kick(proc, page)) return true;
  if (page->flags & DMI_PAGE_SPILLED)
    sim_bad(sim, "p%u: what needs a spilled page fails", proc->core.self);
  if (proc->pager->doubt[0])
    sim_bad(sim, "p%u: a write of %llu bytes fails, and %s", proc->core.self,
            (ull)page->map->page_size, proc->pager->doubt);
  sim->totals->failed_for_room++;
  sim_room_refused(proc, page);
  return false;
}

/* ---- The account ---------------------------------------------------------------------------- */

void sim_pager_check(struct sim_proc *proc, bool quiet) {
  struct sim *sim = proc->sim;
  struct sim_pager *pager = proc->pager;
  uint64_t reserved = dmi_room_promised(pager->core->rooms), bytes = 0, copied = 0, disk = 0;
  uint64_t used = dmi_pool_used(pager->pool);
  uint16_t flags = 0;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (!page) continue;
      flags |= page->flags;
      if (page->flags & DMI_PAGE_ROOM) reserved += page->map->page_size;
      if (page->frame) bytes += page->map->page_size;
      if (page->frame && page->role == DMI_ROLE_NONE) copied += page->map->page_size;
      if (proc->pmap[m].disk[p]) disk += page->map->page_size;
      if (!(page->flags & DMI_PAGE_SPILLED) != !proc->pmap[m].disk[p])
        sim_bad(sim, "p%u: map %u page %u is spilled and has no bytes, or the other way round",
                proc->core.self, m + 1, p);
    }
  }
  if (used < reserved + bytes || used > (UINT64_C(1) << 60))
    sim_bad(sim, "p%u: the account has %llu bytes; %llu are reserved, %llu of pages",
            proc->core.self, (ull)used, (ull)reserved, (ull)bytes);
  if (dmi_pool_copy_bytes(pager->pool) != copied || pager->disk_used != disk)
    sim_bad(sim, "p%u: the account of copies, or of the file, is wrong", proc->core.self);
  check_sleep(proc);
  if (!quiet) return;
  if (used != bytes || dmi_pool_passing(pager->pool))
    sim_bad(sim, "p%u: %llu bytes stay in use, and pages have %llu", proc->core.self, (ull)used,
            (ull)bytes);
  if (flags & (DMI_PAGE_OFFERED | DMI_PAGE_STALLED | DMI_PAGE_ROOM))
    sim_bad(sim, "p%u: flags %x stay", proc->core.self, flags);
  if (pager->core->waiting.num || pager->core->stalled.num || pager->core->offered.num ||
      pager->held)
    sim_bad(sim, "p%u: its pager still holds pages", proc->core.self);
}
