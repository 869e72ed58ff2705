/*
 * pulse_int.h - what the files of pulses and of the agreement share; nobody else includes it.
 *
 * pulse.c is the frame of every event; pulse_watch.c silence, probes and broken links;
 * pulse_lease.c pulses and leases; crash_view.c the views that may be in force, and quorums;
 * crash.c what each member answers; crash_lead.c who asks.
 */
#ifndef DMI_CORE_PULSE_INT_H
#define DMI_CORE_PULSE_INT_H

#include "base/mutation.h"
#include "core/pulse.h"
#include "msg/pack.h"

/* ---- Ballots and views ---------------------------------------------------------------------- */

/* The number of an attempt to lead: a round, then the uid of the process that it belongs to. */
#define DMI_BALLOT(round, uid) ((uint64_t)(round) << 32 | (uid))
#define DMI_BALLOT_ROUND(ballot) ((uint32_t)((ballot) >> 32))
#define DMI_BALLOT_UID(ballot) ((dmi_uid_t)(ballot))
/* No correct process gets so far, as an attempt takes milliseconds at least.  Ballots beyond it are
 * refused: after the largest of all numbers the rounds would begin again at 0, below what was
 * promised. */
#define DMI_ROUNDS 0x80000000u
static inline bool dmi_crash_ballot_good(uint64_t ballot) {
  return DMI_BALLOT_ROUND(ballot) < DMI_ROUNDS;
}

/* A view as the agreement knows it.  (number, made) says which one it is. */
struct dmi_crash_view {
  uint64_t number;
  uint64_t made;   /* ballot in which it was made, or proposed first */
  uint64_t ballot; /* the highest in which it was decided, as far as known here; changes: `made` */
  bool crash;
  dmi_uid_t coordinator;
  dmi_uid_t tie; /* who has the heavier vote */
  uint32_t num;
  struct dmi_pulse_member *members; /* uids ascend */
  struct dmi_slice body;
};

/* Views one behind the other. */
struct dmi_crash_chain {
  struct dmi_crash_view *at;
  uint32_t num, capacity;
};

/* What was accepted, or is proposed. */
struct dmi_crash_proposal {
  bool any;
  uint64_t ballot;            /* the last in which it was accepted */
  struct dmi_crash_view view; /* .ballot is not used */
};

/* ---- The others ----------------------------------------------------------------------------- */

/* Why a process is suspected, the surest last. */
enum dmi_pulse_doubt {
  DMI_DOUBT_NONE,
  DMI_DOUBT_SILENT,     /* ends when it is heard */
  DMI_DOUBT_UNANSWERED, /* it did not take part in an attempt; likewise */
  DMI_DOUBT_LINK,       /* it, or who has lost it, has to go */
  DMI_DOUBT_BROKEN,     /* the connection with it ended */
  DMI_DOUBT_DEAD        /* for certain */
};

/* Another process, in any of the views that may be in force. */
struct dmi_pulse_peer {
  dmi_uid_t uid;
  bool in; /* in the newest view */
  /* silence */
  dmi_ms_t heard; /* last, or when it began to be watched */
  bool watched;
  bool silent;     /* SILENT was said */
  bool probed;     /* PROBEs were sent since it was heard */
  dmi_ms_t direct; /* as `heard`, without what others have said */
  enum dmi_pulse_doubt doubt;
  /* leases */
  dmi_ms_t given;  /* until when it may have a lease, by what was answered to it from here */
  dmi_ms_t led;    /* likewise, as a leader, which could give leases to others by that */
  bool leased;     /* a pulse of it was answered from here, in the ballot that is promised */
  dmi_ms_t pulsed; /* when the last pulse was sent from here that it has answered; 0: none */
  /* an attempt of this process */
  bool chosen;  /* scratch: in a set that is looked at */
  bool told;    /* has promised, and told what it has behind our base; or takes its views from us */
  bool refused; /* to promise */
  bool accepted;
  bool force; /* its lease was in force then (promise or acceptance) */
};

/* The chain and proposal that a promise told. */
struct dmi_crash_said {
  dmi_uid_t uid;
  bool unsure;
  struct dmi_crash_chain chain;
  struct dmi_crash_proposal accepted;
};

struct dmi_pulse_asker {
  dmi_uid_t about, asker;
};

struct dmi_pulse_bad_link {
  dmi_uid_t a, b;
  dmi_ms_t since;
};

/* What this process does about leading. */
enum dmi_pulse_lead {
  DMI_LEAD_NOT,      /* it follows `promised` */
  DMI_LEAD_PREPARES, /* waits for promises */
  DMI_LEAD_IS,       /* leads */
  DMI_LEAD_PROPOSES, /* waits for acceptance */
  DMI_LEAD_WAITS     /* decided; until no lease of those that are removed can be in force */
};

struct dmi_pulse {
  struct dmi_pulse_config config;
#ifdef DMI_MUTATIONS
  enum dmi_pulse_break broken;
#endif
  bool started, ending, over;
  dmi_ms_t now;
  struct dmi_pulse_out *out; /* of the event at work */
  struct {
    struct dmi_pulse_peer *at;
    uint32_t num;
  } peers; /* by uid */
  /* times */
  dmi_ms_t due; /* as dmi_pulse_wake said last */
  dmi_ms_t next_pulse;
  dmi_ms_t lease; /* until then */
  dmi_ms_t woke;  /* when it came late last: what the others have said since may not be here yet */
  dmi_ms_t stood; /* for how long nothing had happened here then */
  bool frozen;
  struct {
    struct dmi_pulse_asker *at;
    uint32_t num, capacity;
  } askers; /* of probes, until they are answered */
  struct {
    struct dmi_pulse_bad_link *at;
    uint32_t num, capacity;
  } links; /* of others, which the coordinator was told of */
  /* the member's side of the agreement */
  struct dmi_crash_chain
      chain; /* from the last view that is known to be taken by all to the newest */
  bool
      unsure; /* it is not known that all have taken the first of them: this process joined by it */
  uint64_t promised;
  struct dmi_crash_proposal accepted;
  /* the leader's */
  enum dmi_pulse_lead lead;
  bool awaits_role; /* it was handed over to this process: COORD is to come */
  bool waits;       /* until the attempt of another, to which it has promised, comes to an end */
  bool outrun;      /* a member has promised a higher ballot, which came to nothing */
  uint64_t round;   /* the highest that was heard of */
  dmi_ms_t attempt; /* when to try; NEVER: no reason to */
  dmi_ms_t
      patience;   /* PREPARES, PROPOSES: until then.  IS: when to propose. WAITS: when to decide */
  dmi_ms_t lapse; /* by then leases of those that are removed have run out */
  struct {
    struct dmi_crash_said *at;
    uint32_t num, capacity;
  } said;
  struct dmi_crash_proposal proposal;
  struct dmi_crash_chain base; /* PROPOSES, WAITS: the views that it is behind */
  bool again;                  /* what is proposed was accepted in an earlier ballot */
};

/* ---- Spans of time, by dead_after (pulse_watch.c) -------------------------------------------- */

/* So many hundredths of dead_after; it is never: of five seconds. */
dmi_ms_t dmi_pulse_span(const struct dmi_pulse *p, uint32_t hundredths);
/* The same, but not more than when dead_after is a second: what is waited for takes no longer. */
dmi_ms_t dmi_pulse_short(const struct dmi_pulse *p, uint32_t hundredths);
/* As dmi_pulse_span; never: NEVER. */
dmi_ms_t dmi_pulse_limit(const struct dmi_pulse *p, uint32_t hundredths);
#define DMI_SPAN_PULSE 10  /* between pulses */
#define DMI_SPAN_SILENT 50 /* people hear of it */
#define DMI_SPAN_PROBE 70  /* others are asked */
#define DMI_SPAN_LATE 20   /* of the caller: everybody is forgiven */
#define DMI_SPAN_LEASE 80  /* of who has it; those who gave it count a twentieth more: */
#define DMI_SPAN_GIVEN 84  /* clocks differ */
#define DMI_SPAN_GATHER 2  /* others may be lost as well */
#define DMI_SPAN_LINK 25   /* one of the two may be dead */
#define DMI_SPAN_ANSWER 30 /* to PREPARE, PROPOSE */
#define DMI_SPAN_RANK 15   /* between candidates */
#define DMI_SPAN_END 220   /* without a lease */

/* ---- pulse.c -------------------------------------------------------------------------------- */

/* Messages: handlers, as the table names them.  False: no correct process says so. */
#define DMI_PULSE_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_pulse *p, dmi_uid_t from, const struct dmi_msg *msg);
DMI_MSGS_PULSE(DMI_PULSE_HANDLER)

struct dmi_pulse_act *dmi_pulse_act(struct dmi_pulse *p, enum dmi_pulse_act_type type);
struct dmi_msg *dmi_pulse_send(struct dmi_pulse *p, dmi_uid_t to, enum dmi_msg_type type);
void dmi_pulse_end(struct dmi_pulse *p, const char *why);
/* NULL: none.  Good until dmi_pulse_viewed, which whatever takes or forgets views calls. */
struct dmi_pulse_peer *dmi_pulse_peer(struct dmi_pulse *p, dmi_uid_t uid);
struct dmi_pulse_peer *dmi_pulse_self(struct dmi_pulse *p);
/* The newest view that this process has taken. */
static inline struct dmi_crash_view *dmi_pulse_top(struct dmi_pulse *p) {
  return &p->chain.at[p->chain.num - 1];
}
static inline bool dmi_pulse_coordinates(struct dmi_pulse *p) {
  return dmi_pulse_top(p)->coordinator == p->config.self;
}
/* The newest view has changed: who is in it, who is watched. */
void dmi_pulse_viewed(struct dmi_pulse *p);

/* ---- pulse_watch.c -------------------------------------------------------------------------- */

void dmi_pulse_heard(struct dmi_pulse *p, struct dmi_pulse_peer *peer);
void dmi_pulse_forgive(struct dmi_pulse *p, dmi_ms_t span);
void dmi_pulse_watch(struct dmi_pulse *p, struct dmi_pulse_peer *peer, bool watched);
void dmi_pulse_doubt(struct dmi_pulse *p, struct dmi_pulse_peer *peer, enum dmi_pulse_doubt doubt);
/* Makes the network connect with one whose connection has broken, to see if anybody listens. */
void dmi_pulse_knock(struct dmi_pulse *p, const struct dmi_pulse_peer *broken);
void dmi_pulse_dead_known(struct dmi_pulse *p, struct dmi_pulse_peer *dead);
void dmi_pulse_look_silent(struct dmi_pulse *p);
void dmi_pulse_tell_link(struct dmi_pulse *p, const struct dmi_pulse_peer *broken);
void dmi_pulse_look_links(struct dmi_pulse *p);
dmi_ms_t dmi_pulse_watch_wake(const struct dmi_pulse *p);

/* ---- pulse_lease.c -------------------------------------------------------------------------- */

void dmi_pulse_look_pulse(struct dmi_pulse *p); /* sends those that are due */
void dmi_pulse_look_lease(struct dmi_pulse *p); /* freezes, thaws, or gives up */
dmi_ms_t dmi_pulse_lease_wake(const struct dmi_pulse *p);
void dmi_pulse_give_all(struct dmi_pulse *p); /* it has taken a view */
/* How long those that `view` removes may still hold leases, by what was answered from here.
 * `proposer` itself says what it has given. */
dmi_ms_t dmi_pulse_given(struct dmi_pulse *p, const struct dmi_crash_view *view,
                         dmi_uid_t proposer);

/* ---- crash_view.c --------------------------------------------------------------------------- */

void dmi_crash_view_copy(struct dmi_crash_view *to, const struct dmi_crash_view *from);
void dmi_crash_view_free(struct dmi_crash_view *view);
/* The view that the daemon describes, behind `before` (NULL: the first one here). */
void dmi_crash_view_make(struct dmi_crash_view *link, const struct dmi_pulse_view *view,
                         uint64_t ballot, const struct dmi_crash_view *before);
void dmi_crash_choose_tie(struct dmi_crash_view *view, dmi_uid_t before);
const struct dmi_pulse_member *dmi_crash_member(const struct dmi_crash_view *view, dmi_uid_t uid);
bool dmi_crash_voter(const struct dmi_crash_view *view, dmi_uid_t uid);
/* May it ask for promises, and so become the coordinator?  A voter that is no witness. */
bool dmi_crash_candidate(const struct dmi_crash_view *view, dmi_uid_t uid);

void dmi_crash_chain_free(struct dmi_crash_chain *chain);
void dmi_crash_chain_add(struct dmi_crash_chain *chain, const struct dmi_crash_view *view);
void dmi_crash_chain_drop(struct dmi_crash_chain *chain, uint32_t first); /* those before it */
void dmi_crash_chain_copy(struct dmi_crash_chain *to, const struct dmi_crash_chain *from);
/* Where the view is in the chain; UINT32_MAX: nowhere. */
uint32_t dmi_crash_chain_find(const struct dmi_crash_chain *chain,
                              const struct dmi_crash_view *view);
void dmi_crash_chain_pack(struct dmi_pack *pack, const struct dmi_crash_chain *chain);
/* False: malformed; what it holds is to be freed nevertheless. */
bool dmi_crash_chain_unpack(struct dmi_unpack *unpack, struct dmi_crash_chain *chain);

void dmi_crash_proposal_set(struct dmi_crash_proposal *to, const struct dmi_crash_proposal *from);
void dmi_crash_proposal_free(struct dmi_crash_proposal *proposal);
void dmi_crash_proposal_pack(struct dmi_pack *pack, const struct dmi_crash_proposal *proposal);
bool dmi_crash_proposal_unpack(struct dmi_unpack *unpack, struct dmi_crash_proposal *proposal);

/* Is a process in the set? */
typedef bool dmi_crash_in_set(const struct dmi_pulse *p, const struct dmi_pulse_peer *peer);
/* Do this process and those in the set decide behind the last view of the chain?  If they do as all
 * other voters are dead, this process's lease must be in force; `each`: the leases of all voters in
 * the set, as they have said last.  (Of a lost voter that went on without one that has no vote
 * nobody living has heard.) */
bool dmi_crash_decides(struct dmi_pulse *p, const struct dmi_crash_chain *chain,
                       dmi_crash_in_set *in, bool each);

/* ---- crash.c -------------------------------------------------------------------------------- */

void dmi_crash_promise(struct dmi_pulse *p, uint64_t ballot); /* never one below the last */
/* Takes those views of the chain that are new here and decided; `all`: who leads says that they
 * are.  False: it has not got to the last of them. */
bool dmi_crash_take(struct dmi_pulse *p, const struct dmi_crash_chain *chain, bool all);
void dmi_crash_accept(struct dmi_pulse *p, const struct dmi_crash_proposal *proposal);
/* To one that does not know what was decided. */
void dmi_crash_send_decided(struct dmi_pulse *p, dmi_uid_t to);
/* Views that the coordinator makes alone. */
bool dmi_crash_take_change(struct dmi_pulse *p, const struct dmi_pulse_view *view, uint64_t ballot);
void dmi_crash_change(struct dmi_pulse *p, const struct dmi_pulse_view *view);
void dmi_crash_all_taken(struct dmi_pulse *p, uint64_t number);
/* The coordinator says: all have taken the view of this number. */
void dmi_crash_known(struct dmi_pulse *p, uint64_t number);

/* ---- crash_lead.c --------------------------------------------------------------------------- */

void dmi_crash_follow(struct dmi_pulse *p); /* it leads no more, or tries no more */
void dmi_crash_look(struct dmi_pulse *p);
dmi_ms_t dmi_crash_wake(const struct dmi_pulse *p);
bool dmi_crash_may_change(const struct dmi_pulse *p, dmi_ms_t now);
/* It proposes a view in which it is not. */
bool dmi_crash_leaves_itself(const struct dmi_pulse *p);
/* A pulse has come with another ballot than this process has promised. */
void dmi_crash_on_ballot(struct dmi_pulse *p, dmi_uid_t from, uint64_t ballot);
void dmi_crash_forget_said(struct dmi_pulse *p);

#endif
