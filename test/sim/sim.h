/*
 * sim.h - virtual processes around the real page protocol (lib/core); one seed is one run.
 *
 * The seed decides everything: which message arrives next, which thread begins what, which process
 * joins and leaves.  No threads, no sockets, no clock.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "both.h"
#include "core/handover.h"
#include "core/page.h"
#include "core/pressure.h"
#include "core/recover.h"
#include "hunt.h"
#include "rng.h"

#define SIM_PROCS 8u          /* at most, alive at the same time */
#define SIM_UIDS 512u         /* in all, in one run */
#define SIM_MAPS 32u          /* in all, in one run */
#define SIM_LAST_REQUEST 0xff /* dmi_msg.type of the last message to a leaving process */
#define SIM_FOUND 0xfe        /* the directory's answer about a mapping */

/* ---- Network: two queues for each ordered pair ---- */

/* DATA and BLOCKs, which other messages of their sender may overtake, are bulk (R13). */
#define SIM_ROWS (2 * SIM_PROCS)

struct sim_chan {
  struct dmi_msg *msg; /* ring */
  /* of each message: bytes that count in its sender's pool until it arrives; NULL: none */
  struct dmi_frame **hold;
  uint32_t first, num, capacity;
  uint64_t part;  /* bytes of the first one's body that have arrived */
  uint32_t prio;  /* strategy PRIO: the highest delivers first */
  uint32_t place; /* in sim_net.busy, when num > 0 */
  bool slow;      /* strategy LAG: delivers only when nothing else can */
};

enum sim_strategy { SIM_UNIFORM, SIM_PRIO, SIM_LAG, SIM_BURST, SIM_STRATEGIES };

struct sim_net {
  struct sim_chan chan[SIM_ROWS][SIM_PROCS]; /* [from][to], slots; and [SIM_PROCS + from]: bulk */
  uint16_t busy[SIM_ROWS * SIM_PROCS];       /* row * SIM_PROCS + to, those with messages */
  uint32_t busy_num;
  uint32_t in_flight; /* messages */
  enum sim_strategy strategy;
  uint32_t burst; /* BURST: messages that this one may still send in its turn */
  uint16_t burst_chan;
};

/* ---- Processes ---- */

enum sim_known { SIM_UNKNOWN, SIM_KNOWN, SIM_FORGOTTEN };

/* A mapping in one process. */
struct sim_pmap {
  enum sim_known known;
  struct dmi_map map;
  struct dmi_page *page[SIM_PAGES]; /* NULL: no record */
  struct dmi_msg *deferred;         /* until HOME_END */
  uint32_t *deferred_from;          /* uids */
  uint32_t deferred_num, deferred_capacity;
  struct dmi_frame *disk[SIM_PAGES]; /* spilled bytes */
  int32_t refs;                      /* references that the handover has */
};

/* The pool of a process (R12); all in bytes. */
struct sim_pool {
  uint64_t limit;
  uint64_t reserved, bytes; /* reserved; of pages that are here */
  int64_t copies;           /* part of `bytes` that could be dropped, as the core reports it */
  uint64_t over;            /* bytes above the limit that are allowed: leaving, TAKE with MUST */
  bool excused;             /* what is reserved now may be above the limit */
};

enum sim_stage {
  SIM_STAYS,
  SIM_ASKS,    /* asks for promises: real pagers only */
  SIM_LEAVES,  /* hands over homes and pages; its threads end */
  SIM_DRAINED, /* the view without it exists; waits for the last messages */
};

struct sim;

struct sim_proc {
  struct sim *sim;
  struct dmi_core core;
  uint32_t slot;
  bool lives;
  bool mute;     /* its threads begin no operations any more */
  bool abandons; /* it has given up operations that wait */
  uint32_t threads;
  /* the last one is only for ending waits: sim_ops_kick */
  struct sim_thread thread[SIM_THREADS + 1];
  struct sim_pmap pmap[SIM_MAPS];
  struct sim_pool pool;
  struct sim_pager *pager;    /* NULL: its decisions are made at random */
  bool spills;                /* it has a file */
  uint64_t ops;               /* number of its operations so far */
  uint8_t left[SIM_UIDS / 8]; /* uids that have left in its view */
  uint32_t views;             /* how many of sim.view it has taken */
  /* leaving */
  enum sim_stage stage;
  uint32_t heir_slot;
  uint32_t byes, byes_wanted;
  struct dmi_handover_env env;
  struct dmi_handover *handover;
  bool drained; /* the handover has reported it */
  bool daemon;  /* it handles an event of the handover, so it takes no view meanwhile */
  bool must;    /* it handles a TAKE with MUST, or its REFUSE_PAGE */
  /* losses */
  struct dmi_recover_env recover_env;
  struct dmi_recover *recover;
  bool spoke[SIM_UIDS];          /* with these: something was sent to them */
  uint32_t ready, resumed;       /* numbers of views */
  struct dmi_deferred_list held; /* until RESUME */
  const struct dmi_req *asked;   /* sim_next_op */
  bool no_lease;                 /* never again */
};

/* ---- Views, for the coordinator and the judge ---- */

/* The view without `uid`, whose heir is `heir`. */
struct sim_view {
  uint32_t uid, heir;
  uint32_t unmapping; /* bits: mappings whose unmapping began before it */
  /* It was lost (sim_crash.c). */
  bool crash;
  bool carried; /* what was decided for the view before counts */
  uint32_t member_num, member[SIM_PROCS];
};

struct sim {
  struct rng rng;
  struct sim_options opt;
  uint64_t seed;
  uint64_t now; /* time; every event has a different one */
  uint64_t steps;
  uint64_t effects; /* number of hints so far */
  struct sim_net net;
  struct sim_proc *proc[SIM_PROCS];
  uint32_t uids;            /* number of uids so far */
  int8_t slot_of[SIM_UIDS]; /* -1: gone */
  struct sim_map map[SIM_MAPS];
  uint32_t maps;
  struct sim_view view[SIM_UIDS];
  uint32_t views;
  uint32_t crashed[SIM_PROCS]; /* uid that was lost in this slot; 0: none.  It is not used again */
  uint32_t resume;             /* RESUME was sent for this view */
  uint32_t coord;              /* uid: who would send it */
  sim_open_list_t open;        /* calls that stay open, until all have recovered */
  bool ready;                  /* all that were left at the last loss had sent READY */
  struct sim_mix mix;
  bool pools;          /* processes lend little memory: R12 */
  uint64_t refusals;   /* operations that were refused for lack of memory, not complete */
  bool fetch_refused;  /* a READ was refused, so reads may fail */
  uint64_t hop, block; /* of all processes: dmi_core */
  uint64_t begun;      /* operations */
  uint64_t stir;       /* counts the beginnings of leaves */
  uint32_t out;        /* operations not complete */
  struct sim_totals *totals;
  uint64_t hash; /* hash of all histories */
  struct {
    uint8_t map, page;
  } touched[SIM_MAPS * SIM_PAGES]; /* pages that this step concerns */
  uint32_t touched_num;
  bool bad; /* a rule was broken; `why` says which */
  char why[256];
};

/* ---- For the files of both simulators (simulator.h) ---- */
typedef struct sim_proc sim_process_t;
#define SIM_PLACES SIM_PROCS

/* The number of the mapping that begins there. */
static inline uint32_t sim_map_num(const struct sim *sim, uint64_t base) {
  (void)sim;
  return (uint32_t)(base >> 20) - 1;
}

/* ---- sim_net.c ---- */
void sim_net_init(struct sim *sim);
void sim_net_fini(struct sim *sim);
void sim_net_retune(struct sim *sim);
void sim_net_put(struct sim *sim, uint32_t from, uint32_t to, const struct dmi_msg *msg,
                 struct dmi_frame *hold);
/* Takes the next message that arrives.  False: none is in flight. */
bool sim_net_take(struct sim *sim, uint32_t *from, uint32_t *to, struct dmi_msg *msg);
bool sim_net_idle(const struct sim *sim, uint32_t slot);
/* True if no message about memory is in flight between these two. */
bool sim_net_silent(const struct sim *sim, uint32_t slot, uint32_t other);
/* Makes some more bytes of a DATA or BLOCK arrive: [*off, *got).  False: none is in flight. */
bool sim_net_part(struct sim *sim, uint32_t *from, uint32_t *to, struct dmi_msg **msg,
                  uint64_t *off, uint64_t *got);
const char *sim_msg_name(uint32_t type);
/* What is in flight between these two. */
void sim_net_each(struct sim *sim, uint32_t from, uint32_t to,
                  void (*visit)(struct sim *, const struct dmi_msg *));
/* Of what a lost process had sent, only the first ones of each queue arrive (one at least). */
void sim_net_cut(struct sim *sim, uint32_t slot, void (*drop)(struct sim *, struct dmi_msg *));

/* ---- sim_proc.c: one process carries out what its core says ---- */
struct sim_proc *sim_proc_new(struct sim *sim);
void sim_proc_free(struct sim_proc *proc);
struct sim_proc *sim_by_uid(const struct sim *sim, uint32_t uid);
bool sim_has_left(const struct sim_proc *proc, uint32_t uid);
/* The mapping in this process, looked up in the directory if necessary; NULL: it was forgotten. */
struct sim_pmap *sim_pmap_get(struct sim_proc *proc, uint32_t map);
struct dmi_page *sim_page_get(struct sim_proc *proc, uint32_t map, uint32_t page);
void sim_send(struct sim_proc *proc, uint32_t to, struct dmi_msg *msg);
void sim_page_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
/* Bytes [off, got) of this DATA or BLOCK have arrived. */
void sim_part(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg,
              uint64_t off, uint64_t got);
/* A message that has arrived is handled. */
void sim_handle(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
void sim_deliver(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg);

/* ---- sim_member.c: joins, leaves, mappings that come and go ---- */
bool sim_member_step(struct sim *sim);
/* Takes the next view, if there is one that does not make the process forget a mapping. */
void sim_member_view_now(struct sim_proc *proc);
/* Continues joins, leaves and unmappings.  False: there is nothing to do. */
bool sim_member_go_on(struct sim *sim);
void sim_map_new(struct sim *sim, struct sim_proc *proc);
uint32_t sim_living(const struct sim *sim);
bool sim_leaving(const struct sim *sim);

/* ---- sim_handover.c: homes and pages that go and come (R8), mappings that are forgotten (R10)
 * ---- */
void sim_handover_init(struct sim_proc *proc);
void sim_handover_fini(struct sim_proc *proc);
void sim_handover_begin(struct sim_proc *proc, uint32_t heir);
/* Does one small step.  False: nothing can be done now. */
bool sim_handover_go_on(struct sim_proc *proc);
/* Handles HOME_*, TAKE, REFUSE_PAGE. */
void sim_handover_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
/* Handles SIM_FOUND. */
void sim_handover_found(struct sim_proc *proc, const struct dmi_msg *msg);
void sim_handover_forget(struct sim_proc *proc, uint32_t map);
/* To be called when the process ends. */
void sim_handover_gone(struct sim_proc *proc);

void sim_handover_replay(struct sim_proc *proc, uint32_t map);

/* ---- sim_crash.c: losses; nothing of it without --crashes ---- */
void sim_crash_init(struct sim_proc *proc);
void sim_crash_fini(struct sim_proc *proc);
/* Makes a process stop.  False: not now. */
bool sim_crash(struct sim *sim);
/* Continues the recovery of the others.  False: there is nothing to do. */
bool sim_crash_go_on(struct sim *sim);
/* True if all have recovered from all losses. */
bool sim_crash_calm(const struct sim *sim);
void sim_crash_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
/* True if messages of `from` have to wait until RESUME. */
bool sim_crash_holds(const struct sim_proc *proc, uint32_t from);
/* True if the message that arrives is of a lost process, or for one; it is freed. */
bool sim_crash_drops(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg);
/* The same, of one that is sent to a uid that does not exist any more. */
bool sim_crash_to_nobody(struct sim *sim, struct dmi_msg *msg);

/* ---- sim_ops.c: what threads do ---- */
void sim_ops_retune(struct sim *sim);
bool sim_ops_begin(struct sim *sim);
void sim_ops_complete(struct sim_proc *proc, struct dmi_req *req);
void sim_ops_fini(struct sim_thread *thread);
/* Makes a thread write what an operation waits for.  False: none waits. */
bool sim_ops_kick(struct sim *sim);
/* Makes a leaver give up an operation that waits and has changed nothing. */
bool sim_ops_abandon(struct sim_proc *proc);
/* ---- sim_capacity.c: pools, and what a pager may do (R12) ---- */
void sim_capacity_init(struct sim_proc *proc);
/* At the end of a process: checks that its account is empty. */
void sim_capacity_fini(struct sim_proc *proc);
/* Makes a process free memory, or ask for it, whether needed or not. */
void sim_capacity_step(struct sim *sim);
/* Makes a stalled operation go on, or fail.  False: none is stalled. */
bool sim_capacity_go_on(struct sim *sim);
/* Makes a process drop a copy. */
void sim_capacity_drop(struct sim *sim);
/* A member that can take a leaver's page. */
uint32_t sim_capacity_heir(struct sim_proc *proc);
/* True if a write that should end a wait is stalled here.  If it were refused, it would be repeated
 * for ever. */
bool sim_capacity_is_kick(const struct sim_proc *proc, const struct dmi_page *page);
/* To be called before the first operation of the queue fails for lack of memory. */
void sim_capacity_refused(struct sim_proc *proc, const struct dmi_page *page);
/* Checks the account of the process against its records. */
void sim_capacity_check(struct sim_proc *proc, bool quiet);

/* ---- sim_pager.c: real pagers (core/pressure.h); used only with them ---- */
void sim_pager_init(struct sim_proc *proc);
void sim_pager_fini(struct sim_proc *proc);
void sim_pager_check(struct sim_proc *proc, bool quiet);
/* Makes a pager do its next action.  False: all sleep. */
bool sim_pager_go_on(struct sim *sim);
/* The same; sometimes saves a page. */
void sim_pager_step(struct sim *sim);
/* Events: the process has taken a view; there is a new process; it is welcomed; ... */
void sim_pager_view(struct sim_proc *proc);
void sim_pager_joined(struct sim *sim);
void sim_pager_open(struct sim_proc *proc);
bool sim_pager_is_open(const struct sim_proc *proc);
/* True if it is between two looks, where the product's thread may end. */
bool sim_pager_rests(const struct sim_proc *proc);
void sim_pager_message(struct sim_proc *proc, uint32_t from, const struct dmi_msg *msg);
void sim_pager_stalled(struct sim_proc *proc, struct dmi_page *page);
void sim_pager_stepped(struct sim_proc *proc);
void sim_pager_granted(struct sim_proc *proc);
void sim_pager_kept(struct sim_proc *proc, uint32_t from);
void sim_pager_forgot(struct sim_proc *proc);
void sim_pager_taken(struct sim_proc *proc, uint32_t from, uint64_t bytes);
/* It refuses a page that `from` gives or offers. */
void sim_pager_sends_back(struct sim_proc *proc, uint32_t from, bool must);
void sim_pager_leave(struct sim_proc *proc, uint32_t heir);
/* Is memory here promised to others that leave? */
bool sim_pager_has_promised(const struct sim_proc *proc);
/* There is no memory for its leave. */
void sim_pager_stays(struct sim_proc *proc);
/* A message of class CAPACITY is to be sent. */
void sim_pager_sends(struct sim_proc *proc, uint32_t to, const struct dmi_msg *msg);

/* ---- sim_check.c: when what must hold is checked ---- */
/* After each step. */
void sim_check_touched(struct sim *sim);
/* When nothing is in flight. */
void sim_check_quiet(struct sim *sim);

/* ---- sim_run.c ---- */
/* Does one run.  False: it is bad; sim->why and the history were printed. */
bool sim_run(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
             uint64_t *hash);

#endif
