/*
 * crash_proc.c - one process: its clock, its pulse thread's part, and of its daemon what makes and
 * takes views.
 */
#include <stdlib.h>
#include <string.h>

#include "crash_sim.h"
#include "msg/wire.h"

#define ADDED_MARK UINT32_MAX /* in the body of a view that a coordinator made */

/* ---- Views ---------------------------------------------------------------------------------- */

static struct sim_view copy(const struct dmi_pulse_view *view) {
  struct sim_view made = {.view = *view};
  memcpy(made.member, view->members, view->num * sizeof(made.member[0]));
  made.view.body = (struct dmi_slice){0};
  return made;
}

static struct dmi_slice body_of(const struct sim_view *view) {
  struct dmi_pack pack;
  dmi_pack_init(&pack);
  dmi_pack_u64(&pack, view->view.number);
  dmi_pack_u32(&pack, view->view.coordinator);
  dmi_pack_u32(&pack, ADDED_MARK);
  dmi_pack_raw(&pack, view->member, sizeof(view->member));
  dmi_pack_u32(&pack, view->view.num);
  return dmi_pack_slice(&pack);
}

static bool is_in(const struct sim_view *view, dmi_uid_t uid) {
  for (uint32_t i = 0; i < view->view.num; i++) {
    if (view->member[i].uid == uid) return true;
  }
  return false;
}

static void remove_member(struct sim_view *view, dmi_uid_t uid) {
  for (uint32_t i = 0; i < view->view.num; i++) {
    if (view->member[i].uid != uid) continue;
    memmove(&view->member[i], &view->member[i + 1],
            (view->view.num - i - 1) * sizeof(view->member[0]));
    view->view.num--;
    return;
  }
}

/* As the daemon reads VIEW. */
static void read_view(struct sim *sim, struct sim_proc *proc, const struct dmi_slice *body) {
  struct dmi_unpack unpack;
  uint32_t added;
  dmi_unpack_init(&unpack, body);
  if (dmi_unpack_u64(&unpack) != proc->view.view.number + 1)
    sim_bad(sim, "p%u is given a view that does not follow", proc->uid);
  proc->view.view.number++;
  proc->view.view.coordinator = dmi_unpack_u32(&unpack);
  added = dmi_unpack_u32(&unpack);
  if (added == ADDED_MARK) {
    dmi_unpack_raw(&unpack, proc->view.member, sizeof(proc->view.member));
    proc->view.view.num = dmi_unpack_u32(&unpack);
    return;
  }
  for (uint32_t num = dmi_unpack_u32(&unpack); num > 0; num--) {
    remove_member(&proc->view, dmi_unpack_u32(&unpack));
    (void)dmi_unpack_u32(&unpack);
    (void)dmi_unpack_u8(&unpack);
  }
}

static void carry(struct sim *sim, struct sim_proc *proc, struct dmi_pulse_out *out);

/* All have taken the newest view? */
static void look_complete(struct sim *sim, struct sim_proc *proc) {
  const struct dmi_pulse_view *view = &proc->view.view;
  struct dmi_pulse_out out;
  if (proc->maker != proc->uid || proc->completed == view->number) return;
  for (uint32_t i = 0; i < view->num; i++) {
    dmi_uid_t uid = proc->view.member[i].uid;
    if (uid != proc->uid && proc->took[uid] < view->number) return;
  }
  proc->completed = view->number;
  sim_log(sim, "p%u: all have taken %u", proc->uid, (unsigned)view->number);
  sim_check_view(sim, proc, true);
  dmi_pulse_out_init(&out);
  if (view->coordinator != proc->uid) { /* it has handed the role over */
    struct sim_letter letter = {.said = SAID_COORD, .number = view->number};
    sim_letter(sim, proc->uid, view->coordinator, LANE_DAEMON, letter);
    proc->role = false;
  } else {
    proc->role = true;
    dmi_pulse_all_taken(proc->pulse, sim_proc_now(sim, proc), view->number, &out);
  }
  carry(sim, proc, &out);
}

static void say_taken(struct sim *sim, struct sim_proc *proc, dmi_uid_t maker) {
  struct sim_letter letter = {.said = SAID_TAKEN, .number = proc->view.view.number};
  proc->maker = maker;
  if (maker != proc->uid) {
    sim_letter(sim, proc->uid, maker, LANE_DAEMON, letter);
  } else {
    look_complete(sim, proc);
  }
}

/* A join, leave or handover that it learns of by the agreement was made by the coordinator before.
 */
static void take_agreed(struct sim *sim, struct sim_proc *proc, struct dmi_pulse_act *act) {
  dmi_uid_t maker = proc->view.view.coordinator;
  read_view(sim, proc, &act->body);
  sim_log(sim, "p%u takes %sview %u of p%u", proc->uid, act->crash ? "crash " : "",
          (unsigned)proc->view.view.number, proc->view.view.coordinator);
  if (act->crash) sim_check_view(sim, proc, false);
  if (act->crash) proc->role = false;
  say_taken(sim, proc, act->crash ? proc->view.view.coordinator : maker);
}

/* ---- Actions of the core -------------------------------------------------------------------- */

static void carry(struct sim *sim, struct sim_proc *proc, struct dmi_pulse_out *out) {
  for (uint32_t i = 0; i < out->num && proc->alive; i++) {
    struct dmi_pulse_act *act = &out->act[i];
    struct sim_letter letter = {.said = SAID_PULSE, .msg = act->msg};
    switch (act->type) {
      case DMI_PULSE_SEND:
        sim_log_said(sim, proc, act);
        sim_letter(sim, proc->uid, act->uid, LANE_PULSE, letter);
        memset(&act->msg, 0, sizeof(act->msg));
        break;
      case DMI_PULSE_VIEW:
        take_agreed(sim, proc, act);
        break;
      case DMI_PULSE_END:
        sim_log(sim, "p%u ends: %s", proc->uid, act->text);
        sim_check_gives_up(sim, proc, act->text);
        sim_proc_die(sim, proc);
        break;
      case DMI_PULSE_FREEZE:
        sim->totals->freezes++;
        sim_log(sim, "p%u freezes", proc->uid);
        break;
      case DMI_PULSE_LOST:
        sim_bad(sim, "LOST although it is to survive");
        break;
      default: /* lines for people */
        break;
    }
  }
  dmi_pulse_out_free(out);
}

/* ---- Life ----------------------------------------------------------------------------------- */

void sim_proc_start(struct sim *sim, dmi_uid_t uid, uint32_t host) {
  struct sim_proc *proc = &sim->proc[uid];
  const struct dmi_pulse_config config = {.self = uid, .dead_after = DEAD_AFTER, .survive = true};
  proc->uid = uid;
  proc->host = host;
  proc->alive = true;
  proc->born = proc->trouble = sim->now;
  proc->rate = 0.99 + rng_below(&sim->rng, 20) / 1000.0;
  proc->offset = rng_below(&sim->rng, 1000000);
  proc->pulse = dmi_pulse_new(&config);
  dmi_pulse_set_break(proc->pulse, sim->broken);
}

void sim_proc_die(struct sim *sim, struct sim_proc *proc) {
  proc->alive = false;
  for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
    struct sim_letter dead = {.said = SAID_DEAD, .number = proc->uid};
    if (uid == proc->uid || !sim->proc[uid].alive) continue;
    sim_lane_end(sim, proc->uid, uid);
    if (sim->proc[uid].host == proc->host) sim_letter(sim, proc->uid, uid, LANE_HOST, dead);
  }
}

void sim_proc_tick(struct sim *sim, struct sim_proc *proc) {
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  dmi_pulse_tick(proc->pulse, sim_proc_now(sim, proc), &out);
  carry(sim, proc, &out);
}

/* ---- What comes to the daemon --------------------------------------------------------------- */

static void on_view(struct sim *sim, struct sim_proc *proc, dmi_uid_t from,
                    const struct sim_letter *letter, struct dmi_pulse_out *out) {
  struct dmi_pulse_view view = letter->view.view;
  view.members = letter->view.member;
  view.tie = letter->tie;
  if (!proc->started) {
    proc->view = copy(&view);
    proc->started = true;
    dmi_pulse_start(proc->pulse, sim_proc_now(sim, proc), &view, letter->ballot, out);
  } else if (dmi_pulse_take(proc->pulse, sim_proc_now(sim, proc), &view, letter->ballot, out)) {
    proc->view = copy(&view);
  } else {
    return;
  }
  sim_log(sim, "p%u takes view %u of p%u", proc->uid, (unsigned)view.number, from);
  say_taken(sim, proc, from);
}

/* A connection with `from` has ended. */
static void on_eof(struct sim *sim, struct sim_proc *proc, dmi_uid_t from,
                   struct dmi_pulse_out *out) {
  if (!proc->started) { /* who was to accept it */
    sim_log(sim, "p%u does not join", proc->uid);
    sim_proc_die(sim, proc);
    return;
  }
  dmi_pulse_broken(proc->pulse, sim_proc_now(sim, proc), from, out);
}

void sim_proc_letter(struct sim *sim, struct sim_proc *proc, dmi_uid_t from,
                     struct sim_letter *letter) {
  struct dmi_pulse_out out;
  dmi_ms_t now = sim_proc_now(sim, proc);
  dmi_pulse_out_init(&out);
  switch (letter->said) {
    case SAID_PULSE:
      if (!proc->started) break;
      if (!dmi_pulse_message(proc->pulse, now, from, &letter->msg, &out))
        sim_bad(sim, "p%u refuses a message of p%u", proc->uid, from);
      break;
    case SAID_VIEW:
      on_view(sim, proc, from, letter, &out);
      break;
    case SAID_TAKEN:
      if (proc->took[from] < letter->number) proc->took[from] = letter->number;
      look_complete(sim, proc);
      break;
    case SAID_COORD:
      if (letter->number != proc->view.view.number) break;
      proc->role = true;
      proc->maker = proc->uid;
      proc->completed = letter->number;
      dmi_pulse_all_taken(proc->pulse, now, letter->number, &out);
      break;
    case SAID_EOF:
      on_eof(sim, proc, from, &out);
      break;
    case SAID_DEAD:
      if (proc->started) dmi_pulse_dead(proc->pulse, now, (dmi_uid_t)letter->number, &out);
      break;
    default:
      break;
  }
  dmi_slice_drop(&letter->msg.body);
  dmi_slice_drop(&letter->view.view.body);
  carry(sim, proc, &out);
}

/* ---- Views that a coordinator makes --------------------------------------------------------- */

static dmi_uid_t unborn(const struct sim *sim) {
  for (dmi_uid_t uid = 2; uid < PROCS; uid++) {
    if (!sim->proc[uid].uid) return uid;
  }
  return 0;
}

/* What changes: somebody joins, becomes a voter, leaves, is removed having left; or the role moves.
 * False: nothing. */
static bool change_view(struct sim *sim, struct sim_proc *proc, struct sim_view *view) {
  uint32_t at = rng_below(&sim->rng, view->view.num);
  struct dmi_pulse_member *one = &view->member[at];
  dmi_uid_t uid = unborn(sim);
  uint32_t choice = rng_below(&sim->rng, 10);
  if (sim->joins) choice = 0;
  if (choice < 4 && uid && view->view.num < (sim->totals->depose ? 11 : 6)) {
    sim_proc_start(sim, uid, rng_below(&sim->rng, sim->hosts));
    view->member[view->view.num] =
        (struct dmi_pulse_member){.uid = uid, .witness = rng_once_in(&sim->rng, 4)};
    sim->totals->witnesses += view->member[view->view.num++].witness;
    sim->totals->joins++;
  } else if (!one->voter && proc->left[one->uid]) {
    remove_member(view, one->uid); /* its end is told to nobody else */
  } else if (!one->voter) {
    one->voter = true;
  } else if (one->uid != proc->uid && choice == 9 && !one->witness) {
    view->view.coordinator = one->uid;
    sim->totals->handovers++;
  } else if (one->uid != proc->uid && choice == 8 && view->view.num > 3) {
    one->voter = false;
    proc->left[one->uid] = true;
    sim->totals->leaves++;
  } else {
    return false;
  }
  return true;
}

void sim_proc_change(struct sim *sim, struct sim_proc *proc) {
  struct sim_view view = proc->view, old = proc->view;
  dmi_ms_t now = sim_proc_now(sim, proc);
  struct dmi_pulse_out out;
  uint64_t ballot;
  if (!proc->role || proc->completed != view.view.number) return;
  if (!dmi_pulse_may_change(proc->pulse, now) || !change_view(sim, proc, &view)) return;
  sim->totals->changes++;
  view.view.number++;
  view.view.members = view.member;
  view.view.body = body_of(&view);
  dmi_pulse_out_init(&out);
  ballot = dmi_pulse_change(proc->pulse, now, &view.view, &out);
  proc->view = copy(&view.view);
  proc->maker = proc->uid;
  sim_log(sim, "p%u makes view %u: %u members, coordinator p%u", proc->uid,
          (unsigned)view.view.number, view.view.num, view.view.coordinator);
  for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
    struct sim_letter letter = {.said = SAID_VIEW, .view = view, .ballot = ballot};
    if (uid == proc->uid || !is_in(&view, uid)) continue;
    letter.tie = dmi_pulse_tie(proc->pulse);
    letter.view.view.body = dmi_slice_xcopy(view.view.body.ptr, view.view.body.len);
    sim_letter(sim, proc->uid, uid, LANE_DAEMON, letter);
  }
  dmi_slice_drop(&view.view.body);
  for (uint32_t i = 0; i < old.view.num; i++) { /* removed, having left: it ends */
    if (!is_in(&view, old.member[i].uid)) sim->proc[old.member[i].uid].alive = false;
  }
  carry(sim, proc, &out);
  look_complete(sim, proc);
}

/* ---- What only crash_member.c has ---------------------------------------------------------- */

void sim_proc_free(struct sim_proc *proc) {
  (void)proc;
}

void sim_users(struct sim *sim) {
  (void)sim;
}

void sim_check_members(struct sim *sim) {
  (void)sim;
}

dmi_uid_t sim_index_of(const struct sim *sim, dmi_uid_t uid) {
  (void)sim;
  return uid;
}

/* The first process. */
void sim_begin(struct sim *sim) {
  struct sim_proc *first = &sim->proc[1];
  struct sim_view view = {.view = {.number = 1, .coordinator = 1, .num = 1}};
  struct dmi_pulse_out out;
  view.member[0] = (struct dmi_pulse_member){.uid = 1, .voter = true};
  view.view.members = view.member;
  sim_proc_start(sim, 1, 0);
  dmi_pulse_out_init(&out);
  dmi_pulse_start(first->pulse, sim_proc_now(sim, first), &view.view, DMI_BALLOT(0, 1), &out);
  dmi_pulse_out_free(&out);
  first->view = view;
  first->started = first->role = true;
  first->maker = 1;
  first->completed = 1;
}

bool sim_may_change(const struct sim_proc *proc) {
  return proc->role && proc->view.view.coordinator == proc->uid;
}
