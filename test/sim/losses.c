/*
 * losses.c - what both simulators with pages note about lost processes, and check: calls that stay
 * open, pages without an owner, copies that were given up, operations that had gone to a lost
 * process.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

/* ---- What the recovery asks for ------------------------------------------------------------- */

struct dmi_req *sim_next_op(void *arg, uint64_t *at, struct dmi_page **page) {
  sim_process_t *proc = arg;
  while (*at <= SIM_THREADS) {
    struct sim_thread *thread = &proc->thread[(*at)++];
    if (!thread->out || !atomic_load(&thread->req.sent)) continue;
    *page = proc->pmap[thread->map].page[thread->page];
    sim_touch(proc->sim, thread->map, thread->page);
    proc->asked = &thread->req;
    sim_ops_again(proc->sim, thread);
    return &thread->req;
  }
  proc->asked = NULL;
  return NULL;
}

/* ---- Messages that are held until RESUME ---------------------------------------------------- */

void sim_hold(sim_process_t *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_deferred *held = DMI_LIST_ADD(&proc->held);
  if (msg->list.len && !msg->list.frame) msg->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  if (msg->body.len && !msg->body.frame) msg->body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  if (msg->type == DMI_MSG_GRANT)
    proc->sim->map[sim_map_num(proc->sim, msg->map)].grants[msg->page]++;
  held->from = from;
  held->msg = *msg;
  proc->sim->totals->held++;
}

void sim_drop_held(sim_process_t *proc) {
  for (uint32_t i = 0; i < proc->held.num; i++)
    sim_lose_message(proc->sim, &proc->held.at[i].msg);
  free(proc->held.at);
  memset(&proc->held, 0, sizeof(proc->held));
}

/* ---- Pages without an owner ----------------------------------------------------------------- */

static void orphan(struct sim *sim, uint32_t map, uint32_t page) {
  if (!sim->opt.crashes) return;
  sim->map[map].orphan[page] = true;
  sim->totals->orphans++;
}

void sim_lose_grant(struct sim *sim, const struct dmi_msg *msg) {
  uint32_t map;
  if (msg->type != DMI_MSG_GRANT) return;
  map = sim_map_num(sim, msg->map);
  sim->map[map].grants[msg->page]--;
  orphan(sim, map, (uint32_t)msg->page);
  sim_touch(sim, map, (uint32_t)msg->page);
}

void sim_lose_message(struct sim *sim, struct dmi_msg *msg) {
  sim_lose_grant(sim, msg);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

static void note_current(struct sim *sim, uint32_t map, uint32_t page, const struct dmi_page *at) {
  const struct dmi_req *current = at->busy ? at->busy->current : NULL;
  const struct sim_thread *thread =
      current ? sim_thread_of(sim, current->origin, current->op) : NULL;
  sim->map[map].at_work[page].hist = thread ? thread->hist + 1 : 0;
  sim->map[map].at_work[page].version = at->version.n + 1;
}

void sim_lose_pages(sim_process_t *proc) {
  struct sim *sim = proc->sim;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (!page || page->role != DMI_ROLE_OWNER) continue;
      orphan(sim, m, p);
      note_current(sim, m, p, page);
    }
  }
}

/* LOST, though somebody has a copy of it, and has no PUT out that could make it old? */
static void check_lost(struct sim *sim, uint32_t map, uint32_t page) {
  sim->map[map].lost[page] = true;
  if (sim->map[map].unmapping) return; /* some have forgotten it, and report nothing */
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const struct dmi_page *at = sim_record_at(sim, i, map, page);
    if (!at || !(at->flags & DMI_PAGE_FROZEN)) continue;
    if (at->copy && (!at->busy || !at->busy->puts))
      sim_bad(sim, "map %u page %u is given up, and p%u has an exact copy", map, page,
              sim_at(sim, i)->core.self);
  }
}

void sim_check_ready(sim_process_t *proc, struct dmi_recover *recover) {
  struct sim *sim = proc->sim;
  uint64_t lost = 0, told = dmi_recover_lost_pages(recover);
  bool hole = false;   /* then some were LOST before */
  bool others = false; /* there are mappings that the judge does not know */
  for (uint32_t m = 0; m < SIM_MAPS; m++)
    others |= proc->pmap[m].known == SIM_KNOWN && !(m < sim->maps && sim->map[m].made);
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < sim->map[m].page_num; p++) {
      if (proc->pmap[m].known != SIM_KNOWN) continue;
      hole |= atomic_load(&proc->pmap[m].map.hole);
      if (!dmi_recover_gives_up(recover, &proc->pmap[m].map, p)) continue;
      check_lost(sim, m, p);
      lost++;
    }
  }
  if (!others && (hole ? told > lost : told != lost))
    sim_bad(sim, "p%u says that %" PRIu64 " pages are lost, and gives up %" PRIu64, proc->core.self,
            told, lost);
}

/* ---- Calls that stay open ------------------------------------------------------------------- */

static void open_call(struct sim *sim, const struct sim_thread *thread, uint32_t uid,
                      uint32_t hist) {
  struct sim_open *open;
  if (sim->map[thread->map].hist[thread->page].op[hist].kind == HIST_READ) return;
  open = DMI_LIST_ADD(&sim->open);
  *open = (struct sim_open){thread->map, thread->page, hist, uid, thread->req.op};
}

void sim_open_call(struct sim *sim, const struct sim_thread *thread, uint32_t uid) {
  if (thread->hist_wait != SIM_NO_WAIT) open_call(sim, thread, uid, thread->hist_wait);
  open_call(sim, thread, uid, thread->hist);
}

void sim_open_hint(struct sim *sim, uint32_t uid, dmi_op_t op) {
  struct hist_op *call = NULL;
  for (uint32_t i = 0; i < sim->open.num; i++) {
    const struct sim_open *open = &sim->open.at[i];
    if (open->uid == uid && dmi_op_is(open->op, op))
      call = &sim->map[open->map].hist[open->page].op[open->hist];
  }
  if (call && !call->hint) call->hint = ++sim->effects;
}

void sim_close_calls(struct sim *sim) {
  sim->now++;
  for (uint32_t i = 0; i < sim->open.num; i++) {
    const struct sim_open *open = &sim->open.at[i];
    sim->map[open->map].hist[open->page].op[open->hist].until = sim->now;
  }
  sim->open.num = 0;
  for (uint32_t m = 0; m < sim->maps; m++)
    memset(sim->map[m].at_work, 0, sizeof(sim->map[m].at_work));
}

/* The page is LOST, and nothing was done; or the operation had gone to a lost process: then its
 * call stays open, as it may have taken effect. */
void sim_op_lost(sim_process_t *proc, const struct sim_thread *thread) {
  struct sim *sim = proc->sim;
  const struct sim_map *map = &sim->map[thread->map];
  bool away = proc->asked == &thread->req;
  sim->totals->elost++;
  sim->totals->away += away;
  if (away && !sim_is_lost(sim, thread->sent_from) && !sim_is_lost(sim, thread->sent_to))
    sim_bad(sim, "p%u: op %llu is said to be lost, and had gone from p%u to p%u", proc->core.self,
            (unsigned long long)thread->req.op.n, thread->sent_from, thread->sent_to);
  if (!away && !map->lost[thread->page] && !map->unmapping)
    sim_bad(sim, "p%u: DMI_ELOST, and nobody has given up map %u page %u", proc->core.self,
            thread->map, thread->page);
  if (!away && !map->hist[thread->page].op[thread->hist].hint) { /* nor its first half */
    sim_ops_failed(sim, thread);
    return;
  }
  sim_open_call(sim, thread, proc->core.self);
}

/* ---- Hints: writes that were at work at a lost owner ---------------------------------------- */

/* Does this process have a copy with the write that was at work at the lost owner? */
static bool has_at_work(const sim_process_t *proc, uint32_t map, uint32_t page) {
  const struct sim_map *real = &proc->sim->map[map];
  const struct dmi_page *at = proc->pmap[map].page[page];
  return at && at->copy && real->at_work[page].hist && at->version.n == real->at_work[page].version;
}

bool sim_copies_at_work(const sim_process_t *proc, bool had[SIM_MAPS * SIM_PAGES]) {
  bool any = false;
  for (uint32_t i = 0; i < SIM_MAPS * SIM_PAGES; i++) {
    had[i] = i < proc->sim->maps * SIM_PAGES && has_at_work(proc, i / SIM_PAGES, i % SIM_PAGES);
    any |= had[i];
  }
  return any;
}

void sim_hint_promoted(sim_process_t *proc, const bool had[SIM_MAPS * SIM_PAGES], uint64_t hint) {
  struct sim *sim = proc->sim;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      struct hist_op *op;
      if (!page || !had[m * SIM_PAGES + p] || page->role != DMI_ROLE_OWNER) continue;
      if (!sim->map[m].at_work[p].hist) continue;
      op = &sim->map[m].hist[p].op[sim->map[m].at_work[p].hist - 1];
      if (!op->hint) op->hint = hint;
    }
  }
}
