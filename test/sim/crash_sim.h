/*
 * crash_sim.h - processes that pulse, and agree on who is left, under a simulated network and
 * simulated clocks; one seed, one program (docs/simulation.md, "Who goes on").
 *
 * Real: core/pulse*.c and crash*.c.  Simulated: daemons, as far as they make and take views.
 */
#ifndef SIM_CRASH_SIM_H
#define SIM_CRASH_SIM_H

#include "core/pulse_int.h"
#include "rng.h"

#define PROCS 14u /* ever, in one run; uids are 1 to PROCS - 1 */
#define HOSTS 3u
#define LANES 3u         /* pulses; daemons; what a host tells of its processes */
#define VIEWS 400u       /* numbers of views, at most */
#define DEAD_AFTER 1000u /* ms */
#define MS 1000u         /* true time is in microseconds */

enum { LANE_PULSE, LANE_DAEMON, LANE_HOST };

/* What daemons say to each other, and what a connection or a host says. */
enum sim_said {
  SAID_PULSE,
  SAID_VIEW,
  SAID_TAKEN,
  SAID_COORD,
  SAID_EOF,
  SAID_DEAD,
  SAID_DAEMON,
  SAID_AGREED,
  SAID_CUT
};

struct sim_view {
  struct dmi_pulse_view view;
  struct dmi_pulse_member member[PROCS];
};

struct sim_letter {
  enum sim_said said;
  uint64_t at; /* when it arrives, unless it is held up */
  struct dmi_msg msg;
  struct sim_view view; /* VIEW */
  uint64_t ballot;      /* VIEW */
  dmi_uid_t tie;        /* VIEW */
  uint64_t number;      /* TAKEN, COORD, CUT; DEAD: uid */
};

/* In order. */
struct sim_lane {
  struct sim_letter *letter;
  uint32_t first, num, capacity;
  uint64_t cut; /* nothing arrives until then */
  bool over;    /* the connection has ended */
};

struct sim_proc {
  dmi_uid_t uid;
  uint32_t host;
  bool alive, started;
  uint64_t stopped; /* until then (SIGSTOP) */
  uint64_t trouble; /* the last time at which it was stopped, or cut off from anybody */
  uint64_t born;
  double rate; /* of its clock */
  dmi_ms_t offset;
  struct dmi_pulse *pulse;
  /* the daemon */
  struct sim_view view;
  dmi_uid_t maker;      /* to whom it says TAKEN */
  uint64_t took[PROCS]; /* numbers of the views that others have said TAKEN of */
  uint64_t completed;   /* number of the view that all have taken */
  bool role;            /* COORD has come, or it has led all the time */
  bool left[PROCS];     /* who has left in its view, and may be removed */
  /* crash_member.c */
  void *daemon;
  bool ended;             /* it has left, as the others know */
  dmi_uid_t promised_uid; /* by the coordinator that lets it join */
};

struct sim_given; /* crash_map.h */

struct sim_totals {
  uint64_t seeds, events, kills, stops, cuts, links, joins, leaves, handovers, changes, crashes;
  uint64_t removed, ended, notices, survivors, extinct, freezes, given_up, roots, recovers;
  uint64_t witnesses; /* that have joined */
  uint64_t survives;  /* programs that have called DMI_survive */
  bool depose;        /* an option: leaders are deposed behind a change */
  bool late;          /* an option: they begin without --survive, and call it later */
  uint64_t notes;     /* calls of DMI_notify that were answered */
  uint64_t exits;     /* calls of DMI_exit that were the first */
  bool with_exit;     /* an option: processes call it */
  bool with_notes;    /* an option: processes call DMI_notify */
  bool with_roots;    /* an option: processes name things, and DMI_main is gone on with when lost */
};

struct sim {
  struct rng rng;
  uint64_t seed, now;
  enum dmi_pulse_break broken;
  bool verbose, bad, resting;
  bool gentle; /* one host; coordinators are killed just behind a join, then all is well for long */
  bool joins;  /* the next change is a join */
  char why[300];
  uint32_t mode;  /* bits: kills, stops, cuts, links */
  uint32_t hosts; /* that processes are on */
  uint32_t still; /* how often a process has woken since the time changed */
  uint32_t slow;  /* ms, of a letter at most */
  uint32_t attempts,
      seed_of; /* crash_member.c: numbers given; who is asked by the next that joins */
  struct sim_proc proc[PROCS];
  struct sim_lane lane[PROCS][PROCS][LANES];
  /* the history of crash views, and of what all have taken: which view has the number */
  uint64_t made[VIEWS];
  struct sim_view firm[VIEWS];
  struct sim_given *given; /* crash_member.c: addresses that were given */
  struct sim_totals *totals;
};

/* ---- crash_net.c ---- */
void sim_bad(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_log(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_log_said(const struct sim *sim, const struct sim_proc *proc,
                  const struct dmi_pulse_act *act);
void sim_letter(struct sim *sim, dmi_uid_t from, dmi_uid_t to, uint32_t lane,
                struct sim_letter letter);
/* The next that arrives; false: nothing will. */
bool sim_next_letter(struct sim *sim, uint64_t *at, struct sim_lane **lane, dmi_uid_t *from,
                     dmi_uid_t *to);
struct sim_letter sim_take_letter(struct sim_lane *lane);
void sim_lane_end(struct sim *sim, dmi_uid_t from, dmi_uid_t to); /* EOF, behind a part of it */
void sim_lane_lose(struct sim *sim, dmi_uid_t from); /* what it has sent of pulses last */
void sim_net_free(struct sim *sim);

/* ---- crash_proc.c: one process ---- */
void sim_proc_start(struct sim *sim, dmi_uid_t uid, uint32_t host);
void sim_proc_die(struct sim *sim, struct sim_proc *proc);
void sim_proc_tick(struct sim *sim, struct sim_proc *proc);
uint64_t sim_proc_wake(const struct sim *sim, const struct sim_proc *proc); /* true time */
void sim_proc_letter(struct sim *sim, struct sim_proc *proc, dmi_uid_t from,
                     struct sim_letter *letter);
/* The coordinator makes a view, if it can. */
void sim_proc_change(struct sim *sim, struct sim_proc *proc);
dmi_ms_t sim_proc_now(const struct sim *sim, const struct sim_proc *proc);
bool sim_proc_runs(const struct sim *sim, const struct sim_proc *proc);

void sim_proc_free(struct sim_proc *proc);
void sim_begin(struct sim *sim);
bool sim_may_change(const struct sim_proc *proc);
void sim_users(struct sim *sim);
void sim_check_members(struct sim *sim);
/* Where the process of this uid is in sim->proc. */
dmi_uid_t sim_index_of(const struct sim *sim, dmi_uid_t uid);

/* ---- crash_sim.c ---- */
void sim_run_until(struct sim *sim, uint64_t until);
void sim_cut(struct sim *sim, dmi_uid_t a, dmi_uid_t b, uint64_t until); /* one way */
void sim_heal(struct sim *sim); /* all that is cut, or stopped */

/* ---- crash_depose.c ---- */
void sim_depose(struct sim *sim);

/* ---- crash_check.c ---- */
void sim_check_view(struct sim *sim, struct sim_proc *proc, bool complete);
void sim_check_leases(struct sim *sim);
void sim_check_end(struct sim *sim);
/* It ends, as it says, without having been killed or asked to. */
void sim_check_gives_up(struct sim *sim, const struct sim_proc *proc, const char *text);

#endif
