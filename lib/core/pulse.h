/*
 * pulse.h - who is alive, and who goes on after a loss: pulses, leases, suspicion, probes, and the
 * agreement on crash views (docs/crashes.md).
 *
 * Pure: no sockets, threads, clocks or locks.  The caller tells the time at each event, and comes
 * back at dmi_pulse_wake at the latest.
 *
 * Two threads use one struct dmi_pulse, under one lock of the caller that is held during each call
 * here and never while an action is carried out:
 * - the pulse thread, for messages of class PULSE, the time, broken pulse connections and proofs of
 *   death.  It must not wait for the daemon: a process whose daemon copies pages or runs a user's
 *   function answers nevertheless.
 * - the daemon, for views: dmi_pulse_start, _take, _change, _all_taken, _ending.
 * Each call appends to `out`.  The thread that made the call carries out SEND (on the pulse
 * connection with that process, made when there is none) and passes all other actions on to the
 * daemon, in the order in which the calls were made.
 *
 * Without `survive` there are no leases and no agreement: who is silent or dead is LOST, and the
 * daemon does what it always did when it lost a process.
 */
#ifndef DMI_CORE_PULSE_H
#define DMI_CORE_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "msg/msg.h"

/* A time, or a span of time, in milliseconds of a clock that never goes back and goes on while the
 * machine sleeps (CLOCK_BOOTTIME): who was suspended must find that its lease has run out. */
typedef uint64_t dmi_ms_t;
#define DMI_MS_NEVER (UINT64_MAX / 4) /* later than any time */

struct dmi_pulse_config {
  dmi_uid_t self;
  dmi_ms_t dead_after; /* who is silent for so long is lost; 0: never.  All other times follow */
  bool survive;        /* the program goes on without who is lost */
  bool trust_refused;  /* a port at which nobody listens proves the death of who is suspected */
};

/* ---- Views ---------------------------------------------------------------------------------- */

struct dmi_pulse_member {
  dmi_uid_t uid;
  bool voter;   /* welcomed and not left, the first process, or a witness */
  bool witness; /* it only votes: it never leads, so it is never the coordinator */
};

/* What the agreement has to know of a view.  `number` is one more than that of the view before. */
struct dmi_pulse_view {
  uint64_t number;
  dmi_uid_t coordinator;
  dmi_uid_t tie; /* whose vote is heavier; only for dmi_pulse_start: 0: the coordinator's */
  uint32_t num;
  const struct dmi_pulse_member *members; /* all of it, those that have left, too */
  struct dmi_slice body; /* of its VIEW: what a daemon needs to take it, coming from the one before.
                            Borrowed: a copy is made */
};

/* ---- Actions -------------------------------------------------------------------------------- */

enum dmi_pulse_act_type {
  DMI_PULSE_SEND,   /* msg to `uid`, on the pulse connection; none can be made: drop it */
  DMI_PULSE_SILENT, /* nothing has come of `uid` for half of dead_after: a line for people */
  DMI_PULSE_HEARD,  /* ... but now */
  DMI_PULSE_LOST,   /* not with `survive`: `uid` is lost, `text` says why */
  /* ---- with `survive` ---- */
  DMI_PULSE_DOUBT, /* `uid` may be removed for what `text` says, unless it is heard again.  Not said
                      if its connection has ended: everybody can see that */
  DMI_PULSE_FREEZE, /* the lease has run out, or the coordinator is lost: others may soon go on
                       without this process.  Copies become unreadable, nothing is begun elsewhere;
                       own pages go on */
  DMI_PULSE_THAW,   /* it is in force again, and nothing was lost */
  DMI_PULSE_VIEW,   /* take this view: `body` is as in VIEW.  `crash`: all messages of those that it
                       removes are dropped from now on, and recovery begins.  This process has not
                       been told of it by a coordinator, or will be and then ignores that */
  DMI_PULSE_END     /* this process cannot go on, `text` says why: a line, and exit status 1 */
};

struct dmi_pulse_act {
  enum dmi_pulse_act_type type;
  dmi_uid_t uid;
  bool crash;            /* VIEW */
  struct dmi_msg msg;    /* SEND; its body belongs to whoever carries it out */
  struct dmi_slice body; /* VIEW; likewise */
  char *text;            /* LOST, END; for free() */
};

struct dmi_pulse_out {
  struct dmi_pulse_act *act;
  uint32_t num, capacity;
};

void dmi_pulse_out_init(struct dmi_pulse_out *out);
/* Frees what the actions hold (zero what was moved), and empties the list. */
void dmi_pulse_out_clear(struct dmi_pulse_out *out);
void dmi_pulse_out_free(struct dmi_pulse_out *out);

/* Deliberate faults, one rule of docs/crashes.md switched off each: base/mutation.h. */
enum dmi_pulse_break {
  DMI_PULSE_BREAK_NOTHING,
  DMI_PULSE_BREAK_NO_BALLOT,        /* promises are not kept */
  DMI_PULSE_BREAK_NO_ADOPT,         /* what was accepted before is not proposed again */
  DMI_PULSE_BREAK_BY_NUMBER,        /* what was accepted is compared by number first */
  DMI_PULSE_BREAK_NEWEST_VIEW_ONLY, /* a quorum of the newest view alone */
  DMI_PULSE_BREAK_DEAD_NOT_COUNTED, /* the weight of the dead does not count */
  DMI_PULSE_BREAK_NO_LEASE,         /* who is left alone need not have a lease */
  DMI_PULSE_BREAK_NO_LEADER,        /* views are made without a quorum */
  DMI_PULSE_BREAK_NO_WAIT,          /* decided before the leases of the lost have run out */
  DMI_PULSE_BREAK_GIVER,            /* ... or those that a leader gave that was lost then */
  DMI_PULSE_BREAK_LEFT,             /* a lease may outlast that of who gave it */
  DMI_PULSE_BREAK_LATE,             /* who comes late itself forgives nobody */
  DMI_PULSE_BREAK_LAST
};

/* ---- Making and ending ---------------------------------------------------------------------- */

struct dmi_pulse;

struct dmi_pulse *dmi_pulse_new(const struct dmi_pulse_config *config);
void dmi_pulse_free(struct dmi_pulse *pulse);
#ifdef DMI_MUTATIONS
void dmi_pulse_set_break(struct dmi_pulse *pulse, enum dmi_pulse_break broken);
#endif

/* ---- Events: the pulse thread --------------------------------------------------------------- */

/* It is `now`.  To be called at dmi_pulse_wake; a call that comes late forgives everybody for that
 * time. */
void dmi_pulse_tick(struct dmi_pulse *pulse, dmi_ms_t now, struct dmi_pulse_out *out);
dmi_ms_t dmi_pulse_wake(const struct dmi_pulse *pulse); /* DMI_MS_NEVER: nothing is due */

/* A message of class PULSE of a process whose uid the connection has proved.  The caller keeps it
 * and its slices.  False, with nothing changed: no correct process says so; close the connection.
 */
bool dmi_pulse_message(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t from,
                       const struct dmi_msg *msg, struct dmi_pulse_out *out);

/* A connection with `uid`, of the daemon or of pulses, ended although `uid` did not say that it
 * would.  This process suspects it at once, and tells the coordinator: of two that
 * have no connection one has to go. */
void dmi_pulse_broken(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t uid,
                      struct dmi_pulse_out *out);
/* `uid` is dead for certain: its process is gone from its own host, as this process has seen, or a
 * launcher that reaped it says. */
void dmi_pulse_dead(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t uid,
                    struct dmi_pulse_out *out);

/* Nobody listens at the port of `uid`. */
void dmi_pulse_refused(struct dmi_pulse *pulse, dmi_ms_t now, dmi_uid_t uid,
                       struct dmi_pulse_out *out);

/* True if this process itself stood still (it was stopped, or its machine was) until a moment ago,
 * and for so long that the others may have lost it: `text` is how long, "4.1 s". */
#define DMI_PULSE_STOOD 32
bool dmi_pulse_stood_still(const struct dmi_pulse *pulse, dmi_ms_t now, char text[DMI_PULSE_STOOD]);

/* ---- Events: the daemon --------------------------------------------------------------------- */

/* This process is a member: of a program that it starts, or by ACCEPT. */
void dmi_pulse_start(struct dmi_pulse *pulse, dmi_ms_t now, const struct dmi_pulse_view *view,
                     uint64_t ballot, struct dmi_pulse_out *out);

/* VIEW of the coordinator has come (no crash view: those come as actions).  False: it must not be
 * taken, as its coordinator was deposed meanwhile, or it is known already: ignore it. */
bool dmi_pulse_take(struct dmi_pulse *pulse, dmi_ms_t now, const struct dmi_pulse_view *view,
                    uint64_t ballot, struct dmi_pulse_out *out);

/* This process is the coordinator.  Can it make a view now, or END: does it lead, is its lease in
 * force, is nobody suspected? */
bool dmi_pulse_may_change(const struct dmi_pulse *pulse, dmi_ms_t now);
/* It makes this one; dmi_pulse_may_change was true under the same lock.  A new coordinator in it:
 * the role is handed over.  Returns the ballot that VIEW and ACCEPT carry. */
uint64_t dmi_pulse_change(struct dmi_pulse *pulse, dmi_ms_t now, const struct dmi_pulse_view *view,
                          struct dmi_pulse_out *out);
/* All members have taken the view of this number (VIEW_TAKEN of all; READY of all, of a crash
 * view); or COORD has made this process the coordinator, which says the same.  There may be newer
 * ones that the daemon has not heard of yet. */
void dmi_pulse_all_taken(struct dmi_pulse *pulse, dmi_ms_t now, uint64_t number,
                         struct dmi_pulse_out *out);

/* The program ends: closed connections and silence are normal from now on. */
void dmi_pulse_ending(struct dmi_pulse *pulse);

/* ---- Looking -------------------------------------------------------------------------------- */

bool dmi_pulse_frozen(const struct dmi_pulse *pulse);
dmi_ms_t dmi_pulse_lease(const struct dmi_pulse *pulse, dmi_ms_t now); /* what is left of it */
/* Has this process, since it leads, given one to `uid`? */
bool dmi_pulse_leased(struct dmi_pulse *pulse, dmi_uid_t uid);
/* For ACCEPT: whose vote is the heavier one, and the ballot of the newest view. */
dmi_uid_t dmi_pulse_tie(const struct dmi_pulse *pulse);
uint64_t dmi_pulse_ballot(const struct dmi_pulse *pulse);
/* The ballot of a view that it makes now. */
uint64_t dmi_pulse_promised(const struct dmi_pulse *pulse);

#endif
