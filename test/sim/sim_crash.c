/*
 * sim_crash.c - processes that are lost, and the recovery of the others (docs/crashes-pages.md).
 *
 * The real recovery (core/recover.h) runs in each virtual process, its messages over the virtual
 * network.  Of membership there is only what it needs: views that each process takes when it likes,
 * in order, and a coordinator that says RESUME when all are READY.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

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

static bool speaks(void *arg, dmi_uid_t uid) {
  return ((const struct sim_proc *)arg)->spoke[uid];
}

void sim_crash_init(struct sim_proc *proc) {
  proc->core.is_cut = is_cut;
  proc->core.dropped = dropped;
  proc->core.held = held;
  proc->recover_env =
      (struct dmi_recover_env){.arg = proc, .next_op = sim_next_op, .speaks = speaks};
  proc->recover = dmi_recover_new(&proc->core, &proc->env, &proc->recover_env);
  proc->core.recover = proc->recover;
}

void sim_crash_fini(struct sim_proc *proc) {
  dmi_recover_free(proc->recover);
  sim_drop_held(proc);
}

bool sim_crash_holds(const struct sim_proc *proc, uint32_t from) {
  return atomic_load(&proc->core.frozen) && dmi_recover_is_cut(proc->recover, from);
}

static void replay_held(struct sim_proc *proc) {
  struct dmi_deferred_list held = proc->held;
  memset(&proc->held, 0, sizeof(proc->held));
  for (uint32_t i = 0; i < held.num; i++)
    sim_handle(proc, held.at[i].from, &held.at[i].msg);
  free(held.at);
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
        sim_handover_replay(proc, sim_map_num(proc->sim, act.map->base));
        break;
      case DMI_ACT_READY:
        proc->ready = proc->views;
        sim_log(proc->sim, "p%u is ready", proc->core.self);
        sim_check_ready(proc, proc->recover);
        break;
      case DMI_ACT_BEGUN:
        dmi_recover_begun(proc->recover, act.number, out);
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

static void resume(struct sim_proc *proc) {
  uint64_t hint = ++proc->sim->effects;
  bool had[SIM_MAPS * SIM_PAGES];
  struct dmi_out out;
  (void)sim_copies_at_work(proc, had);
  sim_log(proc->sim, "p%u resumes", proc->core.self);
  proc->resumed = proc->ready;
  dmi_out_init(&out);
  dmi_recover_resume(proc->recover, &out);
  sim_hint_promoted(proc, had, hint);
  carry(proc, &out);
  if (sim_crash_calm(proc->sim)) sim_close_calls(proc->sim);
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
  if (msg->type == DMI_MSG_GRANT) sim->map[sim_map_num(sim, msg->map)].grants[msg->page]++;
  sim_lose_message(sim, msg);
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

static void lose(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  uint32_t uid = proc->core.self;
  sim_log(sim, "p%u is lost", uid);
  sim->totals->crashes++;
  if (!sim_crash_calm(sim)) sim->totals->second_crashes++;
  sim_lose_pages(proc);
  for (uint32_t m = 0; m < sim->maps; m++)
    proc->pmap[m].refs = 0;
  sim->crashed[proc->slot] = uid;
  for (uint32_t i = 0; i < SIM_PROCS; i++) { /* what it has not refused itself */
    if (sim->proc[i] || !sim_has_left(proc, sim->crashed[i]))
      sim_net_each(sim, i, proc->slot, sim_lose_grant);
  }
  if (rng_once_in(&sim->rng, 2)) sim_net_cut(sim, proc->slot, sim_lose_message);
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    const struct sim_thread *thread = &proc->thread[t];
    if (!thread->out) continue;
    sim->out--;
    sim_open_call(sim, thread, uid);
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

/* Whom the next view of a process lacks, and those of recoveries before it that do not count, as
 * RESUME was carried out by nobody: homes that moved in them are as they were before, so they go to
 * the heir of this one. */
static uint32_t homeless(const struct sim_proc *proc, struct dmi_homeless *lost) {
  const struct sim *sim = proc->sim;
  uint32_t num = 0, v = proc->views;
  lost[num++] = (struct dmi_homeless){sim->view[v].uid, sim->view[v].heir};
  for (; v > 0 && !sim->view[v].carried; v--)
    lost[num++] = (struct dmi_homeless){sim->view[v - 1].uid, sim->view[proc->views].heir};
  return num;
}

static void take(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  const struct sim_view *view = &sim->view[proc->views];
  struct dmi_homeless lost[SIM_UIDS];
  struct dmi_recover_view what = {.number = proc->views + 1,
                                  .coordinator = view->heir,
                                  .member_num = view->member_num,
                                  .member = view->member,
                                  .removed_num = homeless(proc, lost),
                                  .removed = lost};
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
    if (sim->crashed[i] == view->uid) sim_net_each(sim, i, proc->slot, sim_lose_grant);
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
  if (sim->open.num && sim_crash_calm(sim)) sim_close_calls(sim);
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
