/*
 * sim_crash.c - processes that are lost, and the recovery of the others (docs/crashes-pages.md).
 *
 * The real recovery (core/recover.h) runs in each virtual process, its messages over the virtual
 * network.  Of membership there is only what it needs: views that each process takes when it likes,
 * in order, and a coordinator that says RESUME when all are READY.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- What the recovery asks for ------------------------------------------------------------- */

static bool is_cut(void *recover, uint32_t uid) {
  return dmi_recover_is_cut(recover, uid);
}

static void dropped(void *recover, uint32_t origin, dmi_op_t op) {
  dmi_recover_dropped(recover, origin, op);
}

static void held(void *recover, uint32_t origin, dmi_op_t op) {
  dmi_recover_held(recover, origin, op);
}

static struct dmi_req *next_op(void *arg, uint64_t *at, struct dmi_page **page) {
  struct sim_proc *proc = arg;
  while (*at <= SIM_THREADS) {
    struct sim_thread *thread = &proc->thread[(*at)++];
    if (!thread->out || !atomic_load(&thread->req.sent)) continue;
    *page = sim_page_get(proc, thread->map, thread->page);
    proc->away = true; /* until the last one: what ends now is away */
    return &thread->req;
  }
  proc->away = false;
  return NULL;
}

void sim_crash_init(struct sim_proc *proc) {
  proc->core.is_cut = is_cut;
  proc->core.dropped = dropped;
  proc->core.held = held;
  proc->recover_env = (struct dmi_recover_env){.arg = proc, .next_op = next_op};
  proc->recover = dmi_recover_new(&proc->core, &proc->env, &proc->recover_env);
  proc->core.recover = proc->recover;
}

void sim_crash_fini(struct sim_proc *proc) {
  dmi_recover_free(proc->recover);
  for (uint32_t i = 0; i < proc->held_num; i++) {
    struct dmi_msg *msg = &proc->held[i];
    if (msg->type == DMI_MSG_GRANT) { /* the process is lost before it has taken it */
      proc->sim->map[(msg->map >> 20) - 1].grants[msg->page]--;
      sim_crash_orphan(proc->sim, (uint32_t)(msg->map >> 20) - 1, (uint32_t)msg->page);
    }
    dmi_slice_drop(&proc->held[i].list);
    dmi_slice_drop(&proc->held[i].body);
  }
  free(proc->held);
  free(proc->held_from);
}

bool sim_crash_holds(const struct sim_proc *proc, uint32_t from) {
  return atomic_load(&proc->core.frozen) && dmi_recover_is_cut(proc->recover, from);
}

void sim_crash_hold(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  if (proc->held_num == proc->held_capacity) {
    proc->held_capacity = proc->held_capacity ? 2 * proc->held_capacity : 8;
    proc->held = realloc(proc->held, proc->held_capacity * sizeof(*proc->held));
    proc->held_from = realloc(proc->held_from, proc->held_capacity * sizeof(*proc->held_from));
    if (!proc->held || !proc->held_from) abort();
  }
  if (msg->list.len && !msg->list.frame) msg->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  if (msg->body.len && !msg->body.frame) msg->body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  if (msg->type == DMI_MSG_GRANT) proc->sim->map[(msg->map >> 20) - 1].grants[msg->page]++;
  proc->held_from[proc->held_num] = from;
  proc->held[proc->held_num++] = *msg;
  proc->sim->totals->held++;
}

static void replay_held(struct sim_proc *proc) {
  struct dmi_msg *msg = proc->held;
  uint32_t *from = proc->held_from, num = proc->held_num;
  proc->held = NULL;
  proc->held_from = NULL;
  proc->held_num = proc->held_capacity = 0;
  for (uint32_t i = 0; i < num; i++)
    sim_handle(proc, from[i], &msg[i]);
  free(msg);
  free(from);
}

/* ---- The judge ------------------------------------------------------------------------------ */

static uint32_t number_of(const struct dmi_map *map) {
  return (uint32_t)(map->base >> 20) - 1;
}

/* LOST, though somebody has a copy of it, and has no PUT out that could make it old? */
static void check_lost(struct sim *sim, uint32_t map, uint32_t page) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct dmi_page *at = sim->proc[i] ? sim->proc[i]->pmap[map].page[page] : NULL;
    if (!at || !(at->flags & DMI_PAGE_FROZEN)) continue;
    if (at->copy && (!at->busy || !at->busy->puts))
      sim_bad(sim, "map %u page %u is given up, and p%u has an exact copy", map, page,
              sim->proc[i]->core.self);
  }
}

/* All processes are frozen: what this one has decided as a home. */
static void check_ready(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < sim->map[m].page_num; p++) {
      if (proc->pmap[m].known != SIM_KNOWN) continue;
      if (dmi_recover_gives_up(proc->recover, &proc->pmap[m].map, p)) check_lost(sim, m, p);
    }
  }
}

/* The owner of the page, or its GRANT, is lost. */
void sim_crash_orphan(struct sim *sim, uint32_t map, uint32_t page) {
  sim->map[map].orphan[page] = true;
  sim->totals->orphans++;
}

static void open_call(struct sim *sim, const struct sim_thread *thread, uint32_t uid,
                      uint32_t hist) {
  uint32_t kind = sim->map[thread->map].hist[thread->page].op[hist].kind;
  if (kind == HIST_READ) return;
  if (sim->open_num == sim->open_capacity) {
    sim->open_capacity = sim->open_capacity ? 2 * sim->open_capacity : 16;
    sim->open = realloc(sim->open, sim->open_capacity * sizeof(*sim->open));
    if (!sim->open) abort();
  }
  sim->open[sim->open_num].map = thread->map;
  sim->open[sim->open_num].page = thread->page;
  sim->open[sim->open_num].hist = hist;
  sim->open[sim->open_num].uid = uid;
  sim->open[sim->open_num++].op = thread->req.op;
}

void sim_crash_open(struct sim *sim, const struct sim_thread *thread, uint32_t uid) {
  if (thread->hist_wait != SIM_NO_WAIT) open_call(sim, thread, uid, thread->hist_wait);
  open_call(sim, thread, uid, thread->hist);
}

void sim_crash_hint(struct sim *sim, uint32_t uid, dmi_op_t op) {
  struct hist_op *call = NULL;
  for (uint32_t i = 0; i < sim->open_num; i++) {
    if (sim->open[i].uid == uid && dmi_op_is(sim->open[i].op, op))
      call = &sim->map[sim->open[i].map].hist[sim->open[i].page].op[sim->open[i].hist];
  }
  if (call && !call->hint) call->hint = ++sim->effects;
}

/* All have recovered: what has had no effect by now will have none. */
static void close_calls(struct sim *sim) {
  sim->now++;
  for (uint32_t i = 0; i < sim->open_num; i++) {
    struct hist *hist = &sim->map[sim->open[i].map].hist[sim->open[i].page];
    hist->op[sim->open[i].hist].until = sim->now;
  }
  sim->open_num = 0;
  for (uint32_t m = 0; m < sim->maps; m++)
    memset(sim->map[m].at_work, 0, sizeof(sim->map[m].at_work));
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void carry(struct sim_proc *proc, struct dmi_out *out) {
  struct dmi_act act;
  while (dmi_out_take(out, &act)) {
    switch ((enum dmi_act_type)act.type) {
      case DMI_ACT_SEND:
        sim_send(proc, act.to, &act.msg);
        break;
      case DMI_ACT_REPLAY:
        sim_handover_replay(proc, number_of(act.map));
        break;
      case DMI_ACT_READY:
        proc->ready = proc->views;
        sim_log(proc->sim, "p%u is ready", proc->core.self);
        check_ready(proc);
        break;
      case DMI_ACT_RESUMED:
        replay_held(proc);
        break;
      default:
        sim_bad(proc->sim, "p%u: the recovery has another's action", proc->core.self);
    }
  }
  dmi_out_free(out);
}

void sim_crash_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  uint8_t type = msg->type;
  dmi_out_init(&out);
  if (!dmi_recover_message(proc->recover, from, msg, &out))
    sim_bad(proc->sim, "p%u refuses %s of p%u", proc->core.self, sim_msg_name(type), from);
  carry(proc, &out);
}

/* Does this process have a copy with the write that was at work at the lost owner? */
static bool has_at_work(const struct sim_proc *proc, uint32_t map, uint32_t page) {
  const struct sim_map *real = &proc->sim->map[map];
  const struct dmi_page *at = proc->pmap[map].page[page];
  return at && at->copy && real->at_work[page].hist && at->version.n == real->at_work[page].version;
}

/* Such a copy has become the page: a hint, of before RESUME, for the search for an order. */
static void hint_promoted(struct sim_proc *proc, uint64_t had, uint64_t hint) {
  struct sim *sim = proc->sim;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      struct hist_op *op;
      if (!page || !(had >> (m * SIM_PAGES + p) % 64 & 1) || page->role != DMI_ROLE_OWNER) continue;
      if (!sim->map[m].at_work[p].hist) continue;
      op = &sim->map[m].hist[p].op[sim->map[m].at_work[p].hist - 1];
      if (!op->hint) op->hint = hint;
    }
  }
}

static void resume(struct sim_proc *proc) {
  uint64_t had = 0, hint = ++proc->sim->effects;
  struct dmi_out out;
  for (uint32_t i = 0; i < proc->sim->maps * SIM_PAGES; i++)
    had |= (uint64_t)has_at_work(proc, i / SIM_PAGES, i % SIM_PAGES) << i % 64;
  sim_log(proc->sim, "p%u resumes", proc->core.self);
  proc->resumed = proc->ready;
  dmi_out_init(&out);
  dmi_recover_resume(proc->recover, &out);
  hint_promoted(proc, had, hint);
  carry(proc, &out);
  if (sim_crash_calm(proc->sim)) close_calls(proc->sim);
}

/* ---- Membership ----------------------------------------------------------------------------- */

static struct sim_proc *oldest(const struct sim *sim) {
  struct sim_proc *best = NULL;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[i];
    if (proc && (!best || proc->core.self < best->core.self)) best = proc;
  }
  return best;
}

bool sim_crash_calm(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *proc = sim->proc[i];
    if (proc && (proc->views < sim->views || atomic_load(&proc->core.frozen))) return false;
  }
  return true;
}

/* Is everybody READY for the newest view? */
static bool all_ready(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i] && sim->proc[i]->ready < sim->views) return false;
  }
  return sim->views > 0;
}

static void lose_grant(struct sim *sim, const struct dmi_msg *msg) {
  uint32_t map = (uint32_t)(msg->map >> 20) - 1;
  if (msg->type != DMI_MSG_GRANT) return;
  sim->map[map].grants[msg->page]--;
  sim_crash_orphan(sim, map, (uint32_t)msg->page);
  sim_touch(sim, map, (uint32_t)msg->page);
}

static void drop_message(struct sim *sim, struct dmi_msg *msg) {
  lose_grant(sim, msg);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

/* A message to or from a process that is lost.  True: it is gone. */
bool sim_crash_drops(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg) {
  const struct sim_proc *proc = sim->proc[to_slot];
  uint32_t from = sim->crashed[from_slot];
  if (!sim->opt.crashes) return false;
  if (proc && (sim->proc[from_slot] || !from || !sim_has_left(proc, from))) return false;
  /* A GRANT was lost when the receiver was, or took the view. */
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return true;
}

/* It goes to nobody. */
bool sim_crash_to_nobody(struct sim *sim, struct dmi_msg *msg) {
  if (!sim->opt.crashes) return false;
  if (msg->type == DMI_MSG_GRANT) sim->map[(msg->map >> 20) - 1].grants[msg->page]++;
  drop_message(sim, msg);
  return true;
}

/* Whoever stays, in the view that is made now. */
static void make_view(struct sim *sim, uint32_t uid) {
  struct sim_view *view = &sim->view[sim->views++];
  view->uid = uid;
  view->heir = oldest(sim)->core.self;
  view->crash = true;
  /* RESUME of the recovery before may have been carried out by one that cannot tell. */
  view->carried = sim->resume == sim->views - 1 ||
                  (sim->coord == uid && sim->ready && sim->resume < sim->views - 1);
  view->member_num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i]) view->member[view->member_num++] = sim->proc[i]->core.self;
  }
  sim->coord = view->heir;
  sim->ready = false;
  sim_log(sim, "view %u without p%u, heir p%u%s", sim->views, uid, view->heir,
          view->carried ? ", carried" : "");
}

static void note_current(struct sim *sim, uint32_t map, uint32_t page, const struct dmi_page *at) {
  const struct dmi_req *current = at->busy ? at->busy->current : NULL;
  const struct sim_thread *thread =
      current ? sim_thread_of(sim, current->origin, current->op) : NULL;
  sim->map[map].at_work[page].hist = thread ? thread->hist + 1 : 0;
  sim->map[map].at_work[page].version = at->version.n + 1;
}

static void lose(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  uint32_t uid = proc->core.self;
  sim_log(sim, "p%u is lost", uid);
  sim->totals->crashes++;
  if (!sim_crash_calm(sim)) sim->totals->second_crashes++;
  for (uint32_t m = 0; m < sim->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = proc->pmap[m].page[p];
      if (!page || page->role != DMI_ROLE_OWNER) continue;
      sim_crash_orphan(sim, m, p);
      note_current(sim, m, p, page);
    }
    proc->pmap[m].refs = 0;
  }
  sim->crashed[proc->slot] = uid;
  for (uint32_t i = 0; i < SIM_PROCS; i++) { /* what it has not refused itself */
    if (sim->proc[i] || !sim_has_left(proc, sim->crashed[i]))
      sim_net_each(sim, i, proc->slot, lose_grant);
  }
  if (rng_once_in(&sim->rng, 2)) sim_net_cut(sim, proc->slot, drop_message);
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    const struct sim_thread *thread = &proc->thread[t];
    if (!thread->out) continue;
    sim->out--;
    sim_crash_open(sim, thread, uid);
  }
  sim_proc_free(proc);
  sim->ready = all_ready(sim); /* who is left has sent READY, and cannot know more */
  make_view(sim, uid);
}

bool sim_crash(struct sim *sim) {
  struct sim_proc *proc = sim->proc[rng_below(&sim->rng, SIM_PROCS)];
  if (rng_once_in(&sim->rng, 2) && sim_pause(sim)) return true;
  if (!proc || sim_living(sim) < 2 || sim->views + 1 >= SIM_UIDS) return false;
  if (!sim_crash_calm(sim) && !rng_once_in(&sim->rng, 20)) return false;
  lose(proc);
  return true;
}

static void take(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  const struct sim_view *view = &sim->view[proc->views];
  struct dmi_homeless lost = {view->uid, view->heir};
  struct dmi_recover_view what = {.number = proc->views + 1,
                                  .member_num = view->member_num,
                                  .member = view->member,
                                  .removed_num = 1,
                                  .removed = &lost};
  struct dmi_out out;
  bool doubt = dmi_recover_state(proc->recover) == DMI_RECOVER_READY && view->carried;
  if (doubt && sim->opt.page_break != DMI_BREAK_DOUBT) {
    sim->totals->doubts++;
    resume(proc);
  }
  sim_log(sim, "p%u takes view %u", proc->core.self, proc->views + 1);
  proc->left[view->uid / 8] = (uint8_t)(proc->left[view->uid / 8] | 1u << (view->uid % 8));
  proc->views++;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->crashed[i] == view->uid) sim_net_each(sim, i, proc->slot, lose_grant);
  }
  dmi_out_init(&out);
  dmi_recover_begin(proc->recover, &what, &out);
  carry(proc, &out);
}

/* RESUME arrives at one, or is decided on. */
static bool resume_step(struct sim *sim, struct sim_proc *proc) {
  if (sim->resume < sim->views && all_ready(sim)) {
    sim->resume = sim->views;
    if (!rng_once_in(&sim->rng, 3)) return true;
  }
  if (proc->ready != sim->resume || proc->resumed == proc->ready || !proc->ready) return false;
  if (proc->views != proc->ready) return false;
  resume(proc);
  return true;
}

bool sim_crash_go_on(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS);
  bool some = false;
  if (!sim->opt.crashes) return false;
  if (rng_once_in(&sim->rng, 10) && sim_unpause(sim)) return true;
  if (sim->open_num && sim_crash_calm(sim)) close_calls(sim);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc) continue;
    if (proc->views < sim->views) {
      take(proc);
      some = true;
    } else if (resume_step(sim, proc)) {
      some = true;
    }
    if (some && !rng_once_in(&sim->rng, 3)) return true; /* else the next one at once */
  }
  return some || sim_unpause(sim);
}
