/*
 * crash_sim.c - runs of processes that agree on who is left: see docs/simulation.md, "Who goes on".
 *
 *   crash_sim [--seeds A-B | --seed N] [--break RULE] [--depose] [--verbose]
 *   member_sim  the same, and [--roots] [--notes] [--exit] [--late]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "crash_sim.h"

#define STILL 10000u /* what cannot all be due at one time */

enum { KILLS = 1, STOPS = 2, CUTS = 4, LINKS = 8 };

static const char *const breaks[] = {"NOTHING",
                                     "NO_BALLOT",
                                     "NO_ADOPT",
                                     "BY_NUMBER",
                                     "NEWEST_VIEW_ONLY",
                                     "DEAD_NOT_COUNTED",
                                     "NO_LEASE",
                                     "NO_LEADER",
                                     "NO_WAIT",
                                     "GIVER",
                                     "LEFT",
                                     "LATE"};
_Static_assert(sizeof(breaks) / sizeof(breaks[0]) == DMI_PULSE_BREAK_LAST, "each has a name");

/* ---- What happens to them -------------------------------------------------------------------- */

static struct sim_proc *some(struct sim *sim) {
  struct sim_proc *found = NULL;
  uint32_t seen = 0;
  for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
    struct sim_proc *proc = &sim->proc[uid];
    if (proc->alive && rng_once_in(&sim->rng, ++seen)) found = proc;
  }
  return found;
}

/* Something is wrong with it until then.  It may be cut off for longer by what happened before: the
 * end of a connection is noticed when the cut has healed. */
static void trouble(struct sim_proc *proc, uint64_t until) {
  if (proc->trouble < until) proc->trouble = until;
}

static void kill_one(struct sim *sim) {
  struct sim_proc *proc = some(sim);
  if (!proc) return;
  sim_log(sim, "p%u (host %u): killed", proc->uid, proc->host);
  sim->totals->kills++;
  sim_proc_die(sim, proc);
}

static void stop_one(struct sim *sim) {
  struct sim_proc *proc = some(sim);
  uint32_t span = rng_below(&sim->rng, rng_once_in(&sim->rng, 2) ? DEAD_AFTER / 2 : 5 * DEAD_AFTER);
  if (!proc) return;
  sim_log(sim, "p%u: stopped for %u ms", proc->uid, span);
  sim->totals->stops++;
  proc->stopped = sim->now + span * MS;
  trouble(proc, proc->stopped);
}

void sim_cut(struct sim *sim, dmi_uid_t a, dmi_uid_t b, uint64_t until) {
  for (uint32_t i = 0; i < LANES - 1; i++)
    sim->lane[a][b][i].cut = until;
  trouble(&sim->proc[a], until);
  trouble(&sim->proc[b], until);
}

/* A part of the processes, or one pair, one way or both. */
static void cut_some(struct sim *sim) {
  uint32_t part = rng_below(&sim->rng, 1u << PROCS), way = rng_below(&sim->rng, 3);
  uint32_t host = rng_below(&sim->rng, HOSTS), kind = rng_below(&sim->rng, 3);
  uint64_t until = sim->now + rng_below(&sim->rng, 6 * DEAD_AFTER) * (uint64_t)MS;
  dmi_uid_t one = rng_range(&sim->rng, 1, PROCS - 1), two = rng_range(&sim->rng, 1, PROCS - 1);
  sim->totals->cuts++;
  sim_log(sim, "cut, kind %u, way %u, for %u ms", kind, way, (unsigned)((until - sim->now) / MS));
  for (dmi_uid_t a = 1; a < PROCS; a++) {
    for (dmi_uid_t b = 1; b < PROCS; b++) {
      bool in_a = part >> a & 1, in_b = part >> b & 1;
      if (!sim->proc[a].uid || !sim->proc[b].uid || a == b) continue;
      if (kind == 1) in_a = sim->proc[a].host == host, in_b = sim->proc[b].host == host;
      if (kind == 2) in_a = a == one && b == two, in_b = b == one && a == two;
      if (kind == 2 && in_a == in_b) continue;
      if (in_a == in_b || (way == 1 && in_a) || (way == 2 && in_b)) continue;
      sim_cut(sim, a, b, until);
    }
  }
}

/* One connection ends, and both processes live. */
static void break_link(struct sim *sim) {
  struct sim_proc *a = some(sim), *b = some(sim);
  if (!a || !b || a == b || !a->started || !b->started) return;
  sim_log(sim, "the connection of p%u and p%u ends", a->uid, b->uid);
  sim->totals->links++;
  trouble(a, sim->now);
  trouble(b, sim->now);
  sim_lane_end(sim, (dmi_uid_t)(a - sim->proc), (dmi_uid_t)(b - sim->proc));
  sim_lane_end(sim, (dmi_uid_t)(b - sim->proc), (dmi_uid_t)(a - sim->proc));
}

/* One is stopped for long; while the others go on without it they die, one after the other. */
static void leave_one(struct sim *sim) {
  struct sim_proc *last = some(sim);
  if (!last) return;
  last->stopped = sim->now + rng_range(&sim->rng, 2, 4) * DEAD_AFTER * MS;
  trouble(last, last->stopped);
  sim_run_until(sim, sim->now + rng_below(&sim->rng, 3 * DEAD_AFTER) * (uint64_t)MS);
  for (dmi_uid_t at = 1; at < PROCS && !sim->bad; at++) {
    struct sim_proc *proc = &sim->proc[at];
    if (proc == last || !proc->alive) continue;
    sim->totals->kills++;
    sim_log(sim, "p%u (host %u): killed, p%u is to be the last", proc->uid, proc->host, last->uid);
    sim_proc_die(sim, proc);
    sim_run_until(sim, sim->now + rng_below(&sim->rng, DEAD_AFTER / 2) * (uint64_t)MS);
  }
}

/* The coordinator dies some ms before or behind the view with a new member. */
static void join_and_kill(struct sim *sim) {
  dmi_uid_t at = 1;
  while (at < PROCS && !(sim->proc[at].started && sim_proc_runs(sim, &sim->proc[at]) &&
                         dmi_pulse_top(sim->proc[at].pulse)->coordinator == sim->proc[at].uid))
    at++;
  if (at == PROCS || !sim_may_change(&sim->proc[at])) return;
  sim->joins = true;
  sim_proc_change(sim, &sim->proc[at]);
  sim->joins = false;
  sim_run_until(sim, sim->now + rng_below(&sim->rng, rng_range(&sim->rng, 1, 20) * MS));
  if (sim->bad || !sim->proc[at].alive) return;
  sim_log(sim, "p%u: killed behind a join", sim->proc[at].uid);
  sim->totals->kills++;
  sim_proc_die(sim, &sim->proc[at]);
  sim_run_until(sim, sim->now + 5 * DEAD_AFTER * MS);
}

static void happen(struct sim *sim) {
  uint32_t what = rng_below(&sim->rng, 8);
  struct sim_proc *proc = some(sim);
  if (sim->totals->depose && what < 4) {
    sim_depose(sim);
  } else if (what < 4 && sim->gentle) {
    join_and_kill(sim);
  } else if (what == 0 && (sim->mode & KILLS)) {
    kill_one(sim);
  } else if (what == 1 && (sim->mode & STOPS)) {
    stop_one(sim);
  } else if (what == 2 && (sim->mode & CUTS)) {
    cut_some(sim);
  } else if (what == 3 && (sim->mode & LINKS)) {
    break_link(sim);
  } else if (what == 4 && (sim->mode & KILLS) && (sim->mode & STOPS) && rng_once_in(&sim->rng, 8)) {
    leave_one(sim);
  } else {
    for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
      proc = &sim->proc[uid];
      if (proc->started && sim_proc_runs(sim, proc) && sim_may_change(proc))
        sim_proc_change(sim, proc);
    }
  }
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* The next thing before `until`.  False: there is none. */
static bool step(struct sim *sim, uint64_t until) {
  struct sim_lane *lane = NULL;
  struct sim_proc *waker = NULL;
  struct sim_letter letter;
  uint64_t at = UINT64_MAX;
  dmi_uid_t from = 0, to = 0;
  bool any = sim_next_letter(sim, &at, &lane, &from, &to);
  for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
    uint64_t wake = sim_proc_wake(sim, &sim->proc[uid]);
    if (wake >= at) continue;
    at = wake;
    waker = &sim->proc[uid];
  }
  if ((!any && !waker) || at > until) return false;
  if (at > sim->now) sim->now = at, sim->still = 0;
  if (waker && ++sim->still > STILL) sim_bad(sim, "p%u wakes again and again", waker->uid);
  sim->totals->events++;
  if (waker) {
    sim_proc_tick(sim, waker);
  } else {
    letter = sim_take_letter(lane);
    if (sim->proc[to].alive) {
      sim_proc_letter(sim, &sim->proc[to], from, &letter);
    } else {
      dmi_slice_drop(&letter.msg.body);
      dmi_slice_drop(&letter.view.view.body);
    }
  }
  sim_check_leases(sim);
  return true;
}

void sim_run_until(struct sim *sim, uint64_t until) {
  while (!sim->bad && step(sim, until)) {
  }
  if (sim->now < until) sim->now = until;
}

void sim_heal(struct sim *sim) {
  for (dmi_uid_t a = 1; a < PROCS; a++) {
    if (sim->proc[a].stopped > sim->now) sim->proc[a].stopped = sim->now;
    for (dmi_uid_t b = 1; b < PROCS; b++) {
      for (uint32_t i = 0; i < LANES; i++) {
        if (sim->lane[a][b][i].cut > sim->now) sim->lane[a][b][i].cut = sim->now;
      }
    }
  }
}

static bool run(uint64_t seed, enum dmi_pulse_break broken, bool verbose,
                struct sim_totals *totals) {
  struct sim *sim = dmi_xalloc(1, sizeof(*sim));
  bool good;
  rng_seed(&sim->rng, seed);
  sim->seed = seed;
  sim->broken = broken;
  sim->verbose = verbose;
  sim->totals = totals;
  sim->mode = rng_below(&sim->rng, 16);
  sim->hosts = rng_range(&sim->rng, 1, HOSTS);
  sim->slow = rng_range(&sim->rng, 5, 100);
  /* before DMI_survive the loss of a coordinator ends the program */
  sim->gentle = seed % 8 == 0 && !totals->late && !totals->depose;
  if (sim->gentle || totals->depose) sim->mode = 0, sim->hosts = 1;
  sim_begin(sim);
  /* some processes, before anything goes wrong */
  for (uint32_t i = 0, num = sim->gentle ? rng_range(&sim->rng, 3, 20) : 40; i < num && !sim->bad;
       i++) {
    for (dmi_uid_t uid = 1; uid < PROCS; uid++) {
      if (sim->proc[uid].started && sim_proc_runs(sim, &sim->proc[uid]) &&
          sim_may_change(&sim->proc[uid]))
        sim_proc_change(sim, &sim->proc[uid]);
    }
    sim_users(sim);
    sim_run_until(sim, sim->now + 60 * MS);
  }
  for (uint32_t i = 0, num = rng_range(&sim->rng, 5, 40); i < num && !sim->bad; i++) {
    happen(sim);
    sim_users(sim);
    sim_run_until(sim,
                  sim->now + rng_below(&sim->rng, rng_once_in(&sim->rng, 2) ? 100 : 2500) * MS);
  }
  sim_heal(sim);
  for (uint32_t i = 0; i < 60 && !sim->bad; i++) {
    sim_run_until(sim, sim->now + DEAD_AFTER / 4 * MS);
    sim->resting = i >= 40; /* what is begun from then on might not be complete in the end */
    sim_users(sim);
  }
  sim_run_until(sim, sim->now + DEAD_AFTER * MS); /* the last calls are answered */
  if (!sim->bad) sim_check_end(sim);
  if (!sim->bad) sim_check_members(sim);
  good = !sim->bad;
  if (!good) fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, sim->why);
  sim_net_free(sim);
  free(sim->given);
  for (dmi_uid_t uid = 1; uid < PROCS; uid++)
    sim_proc_free(&sim->proc[uid]), dmi_pulse_free(sim->proc[uid].pulse);
  free(sim);
  totals->seeds++;
  return good;
}

/* ---- The command line ------------------------------------------------------------------------ */

#define N(field) (unsigned long long)totals->field

static void print(const struct sim_totals *totals) {
  printf("%llu seeds, %llu events; killed %llu, stopped %llu, cuts %llu, broken links %llu\n",
         N(seeds), N(events), N(kills), N(stops), N(cuts), N(links));
  printf(
      "joins %llu, leaves %llu, handovers %llu, changes %llu; crash views %llu, removed %llu, "
      "frozen %llu, ended by themselves %llu (gave a view up: %llu)\n",
      N(joins), N(leaves), N(handovers), N(changes), N(crashes), N(removed), N(freezes), N(ended),
      N(given_up));
  printf("survivors %llu, programs without any %llu, losses told %llu\n", N(survivors), N(extinct),
         N(notices));
  printf("witnesses %llu\n", N(witnesses));
  if (totals->late) printf("DMI_survive %llu\n", N(survives));
  if (totals->with_exit) printf("DMI_exit %llu\n", N(exits));
  if (totals->with_notes) printf("notes %llu\n", N(notes));
  if (totals->with_roots) printf("roots %llu, DMI_recover %llu\n", N(roots), N(recovers));
}

static int usage(void) {
  fprintf(stderr,
          "usage: crash_sim [--seeds A-B | --seed N] [--break RULE] [--depose] [--verbose]\nRULE:");
  for (size_t i = 1; i < DMI_PULSE_BREAK_LAST; i++)
    fprintf(stderr, " %s", breaks[i]);
  fprintf(stderr, "\n");
  return 2;
}

struct args {
  uint64_t first, last;
  enum dmi_pulse_break broken;
  bool verbose, roots, notes, exit, late, depose;
};

static bool parse(int argc, char **argv, struct args *args) {
  for (int i = 1; i < argc; i++) {
    char *end;
    if (!strcmp(argv[i], "--verbose")) {
      args->verbose = true;
    } else if (!strcmp(argv[i], "--roots")) {
      args->roots = true;
    } else if (!strcmp(argv[i], "--notes")) {
      args->notes = true;
    } else if (!strcmp(argv[i], "--exit")) {
      args->exit = true;
    } else if (!strcmp(argv[i], "--late")) {
      args->late = true;
    } else if (!strcmp(argv[i], "--depose")) {
      args->depose = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (!strcmp(argv[i], "--seeds") || !strcmp(argv[i], "--seed")) {
      args->first = args->last = strtoull(argv[++i], &end, 10);
      if (*end == '-') args->last = strtoull(end + 1, &end, 10);
      if (*end) return false;
    } else if (!strcmp(argv[i], "--break")) {
      uint32_t b = 1;
      i++;
      while (b < DMI_PULSE_BREAK_LAST && strcmp(breaks[b], argv[i]) != 0)
        b++;
      if (b == DMI_PULSE_BREAK_LAST) return false;
      args->broken = (enum dmi_pulse_break)b;
    } else {
      return false;
    }
  }
  return args->first <= args->last;
}

int main(int argc, char **argv) {
  struct args args = {.first = 1, .last = 110};
  struct sim_totals totals = {0};
  bool good = true;
  const char *scale = getenv("DMI_TEST_SCALE");
  if (scale && !strcmp(scale, "small")) args.last = 50;
  if (scale && !strcmp(scale, "soak")) args.last = 20000;
  if (!parse(argc, argv, &args)) return usage();
  totals.with_roots = args.roots;
  totals.with_notes = args.notes;
  totals.with_exit = args.exit;
  totals.late = args.late;
  totals.depose = args.depose;
  for (uint64_t seed = args.first; seed <= args.last && good; seed++)
    good = run(seed, args.broken, args.verbose, &totals);
  print(&totals);
  return !good;
}
