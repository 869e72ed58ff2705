/*
 * crash_depose.c - a leader that is deposed behind a change, and what it proposed last (crash_sim
 * --depose): what one process has accepted of it must not win over what others have decided
 * meanwhile, though it has a higher number.
 *
 * A leads, makes a change, and is cut off with X from the others; somebody dies, and A proposes a
 * view without it, which X accepts.  A dies; the others go on with L, which dies as it decides.
 * The cut heals.
 */
#include "crash_sim.h"

#define WAIT (DEAD_AFTER * 3 / 2) /* ms: X ends when it has had no lease for longer */

static bool leads(const struct sim *sim, dmi_uid_t at) {
  const struct sim_proc *proc = &sim->proc[at];
  return proc->started && sim_proc_runs(sim, proc) &&
         dmi_pulse_top(proc->pulse)->coordinator == proc->uid && sim_may_change(proc);
}

static bool votes(const struct sim *sim, dmi_uid_t at) {
  const struct sim_proc *proc = &sim->proc[at];
  return proc->started && sim_proc_runs(sim, proc) &&
         dmi_crash_candidate(dmi_pulse_top(proc->pulse), proc->uid);
}

/* Some process that votes, other than these. */
static dmi_uid_t choose(struct sim *sim, dmi_uid_t but, dmi_uid_t or) {
  dmi_uid_t found = 0;
  uint32_t seen = 0;
  for (dmi_uid_t at = 1; at < PROCS; at++) {
    if (at != but && at != or &&votes(sim, at) && rng_once_in(&sim->rng, ++seen)) found = at;
  }
  return found;
}

static void cut_off(struct sim *sim, dmi_uid_t a, dmi_uid_t x, uint64_t until) {
  for (dmi_uid_t at = 1; at < PROCS; at++) {
    if (at == a || at == x || !sim->proc[at].uid) continue;
    sim_cut(sim, a, at, until);
    sim_cut(sim, at, a, until);
    sim_cut(sim, x, at, until);
    sim_cut(sim, at, x, until);
  }
}

static void kill(struct sim *sim, dmi_uid_t at, const char *why) {
  sim->totals->kills++;
  sim_log(sim, "p%u: killed, %s", sim->proc[at].uid, why);
  sim_proc_die(sim, &sim->proc[at]);
}

static bool has_accepted(const struct sim *sim, dmi_uid_t x) {
  return sim->proc[x].alive && sim->proc[x].pulse->accepted.any;
}

/* Who has decided, of those that are not cut off; 0: nobody yet. */
static dmi_uid_t decider(const struct sim *sim, dmi_uid_t x, uint64_t number) {
  for (dmi_uid_t at = 1; at < PROCS; at++) {
    const struct sim_proc *proc = &sim->proc[at];
    const struct dmi_crash_view *top =
        proc->started && proc->alive ? dmi_pulse_top(proc->pulse) : NULL;
    if (top && at != x && top->crash && top->number >= number) return at;
  }
  return 0;
}

void sim_depose(struct sim *sim) {
  dmi_uid_t a = 1, x, lost, next = 0;
  uint64_t number, until = sim->now + WAIT * (uint64_t)MS;
  while (a < PROCS && !leads(sim, a))
    a++;
  if (a == PROCS) return;
  x = choose(sim, a, 0);
  lost = choose(sim, a, x);
  number = dmi_pulse_top(sim->proc[a].pulse)->number;
  if (!x || !lost) return;
  sim_proc_change(sim, &sim->proc[a]);
  if (dmi_pulse_top(sim->proc[a].pulse)->number == number || !sim->proc[x].alive) return;
  sim_log(sim, "p%u and p%u are cut off", a, x);
  cut_off(sim, a, x, until + DEAD_AFTER * MS);
  while (!sim->bad && sim->now < until && sim->proc[x].alive &&
         dmi_pulse_top(sim->proc[x].pulse)->number == number)
    sim_run_until(sim, sim->now + MS);
  if (sim->proc[lost].alive) kill(sim, lost, "others see it");
  while (!sim->bad && sim->now < until && !has_accepted(sim, x))
    sim_run_until(sim, sim->now + MS);
  if (sim->bad || !has_accepted(sim, x)) return;
  if (sim->proc[a].alive) kill(sim, a, "it has proposed");
  while (!sim->bad && sim->now < until && !(next = decider(sim, x, number)))
    sim_run_until(sim, sim->now + MS / 10);
  if (next && rng_once_in(&sim->rng, 2)) sim_lane_lose(sim, next); /* nobody hears of it */
  if (next) kill(sim, next, "it has decided");
  sim_heal(sim);
  sim_run_until(sim, sim->now + 5 * DEAD_AFTER * MS);
}
