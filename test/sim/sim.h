/*
 * sim.h - virtual processes around the real page protocol (lib/core): one seed, one run.
 *
 * Everything is decided by the seed: which message arrives next, which thread begins what, who
 * joins and leaves.  No threads, no sockets, no clock.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/handover.h"
#include "core/page.h"
#include "core/pressure.h"
#include "history.h"
#include "hunt.h"
#include "rng.h"

#define SIM_PROCS 8u   /* living at a time, at most */
#define SIM_UIDS 512u  /* ever, in one run */
#define SIM_MAPS 32u   /* ever, in one run */
#define SIM_PAGES 4u   /* per mapping, at most */
#define SIM_THREADS 3u /* per process, at most */
#define SIM_RANGES 6u  /* of one operation, at most */
#define SIM_NO_WAIT UINT32_MAX
#define SIM_LAST_REQUEST 0xff /* dmi_msg.type of the last message to a leaving process */
#define SIM_FOUND 0xfe        /* the directory's answer about a mapping */

/* ---- Network: two queues for each ordered pair ---- */

/* DATA and BLOCK may be overtaken by other messages of their sender: those are bulk (R13). */
#define SIM_ROWS (2 * SIM_PROCS)

struct sim_chan {
  struct dmi_msg *msg;     /* ring */
  struct dmi_frame **hold; /* of each: its sender's bytes, in use until it arrives; NULL: none */
  uint32_t first, num, capacity;
  uint64_t part;  /* bytes of the first one's body that have arrived */
  uint32_t prio;  /* strategy PRIO: the highest goes first */
  uint32_t place; /* in sim_net.busy, when num > 0 */
  bool slow;      /* strategy LAG: only when nothing else can move */
};

enum sim_strategy { SIM_UNIFORM, SIM_PRIO, SIM_LAG, SIM_BURST, SIM_STRATEGIES };

struct sim_net {
  struct sim_chan chan[SIM_ROWS][SIM_PROCS]; /* [from][to], slots; and [SIM_PROCS + from]: bulk */
  uint16_t busy[SIM_ROWS * SIM_PROCS];       /* row * SIM_PROCS + to, those with messages */
  uint32_t busy_num;
  uint32_t in_flight; /* messages */
  enum sim_strategy strategy;
  uint32_t burst; /* BURST: messages left of this one's turn */
  uint16_t burst_chan;
};

/* ---- Processes ---- */

struct sim_thread {
  bool out;   /* its operation is not complete */
  bool frame; /* its bytes are in a frame, not in src */
  uint8_t map, page;
  uint32_t hist;      /* number in the page's history */
  uint32_t hist_wait; /* of its second half, NO_WAIT: has none */
  bool waits;         /* it is a kind that may wait at the owner */
  uint32_t hops;      /* times its request was sent */
  uint64_t calm;      /* sim.stir when it began */
  struct dmi_req req;
  /* Of several ranges: each is a part; `mask` has a bit for each of their bytes, from `from` on. */
  uint64_t mask;
  uint32_t from, span; /* the bytes from the first range to the last */
  struct dmi_part part[SIM_RANGES];
  unsigned char src[2 * HIST_PAGE_MAX + SIM_RANGES * sizeof(struct dmi_range)];
  unsigned char dst[HIST_PAGE_MAX];
};

enum sim_known { SIM_UNKNOWN, SIM_KNOWN, SIM_FORGOTTEN };

/* A mapping, as one process sees it. */
struct sim_pmap {
  enum sim_known known;
  struct dmi_map map;
  struct dmi_page *page[SIM_PAGES]; /* NULL: no record */
  struct dmi_msg *deferred;         /* until HOME_END */
  uint32_t *deferred_from;          /* uids */
  uint32_t deferred_num, deferred_capacity;
  struct dmi_frame *disk[SIM_PAGES]; /* spilled bytes */
  int32_t refs;                      /* that the handover has */
};

/* What a process lends (R12); all in bytes. */
struct sim_pool {
  uint64_t limit;
  uint64_t reserved, bytes; /* set aside; of pages that are here */
  int64_t copies;           /* of `bytes`, as the core says: could be dropped */
  uint64_t over;            /* above the limit for a reason: leaving, TAKE with MUST */
  bool excused;             /* what is reserved now has such a reason */
};

enum sim_stage {
  SIM_STAYS,
  SIM_ASKS,    /* for promises of room: real pagers only */
  SIM_LEAVES,  /* gives away homes and pages; its threads come to an end */
  SIM_DRAINED, /* the view without it exists; waits for the last messages */
};

struct sim;

struct sim_proc {
  struct sim *sim;
  struct dmi_core core;
  uint32_t slot;
  bool lives;
  bool mute;     /* its threads begin nothing any more */
  bool abandons; /* it has given up waits */
  uint32_t threads;
  struct sim_thread thread[SIM_THREADS + 1]; /* the last one only ends waits: sim_ops_kick */
  struct sim_pmap pmap[SIM_MAPS];
  struct sim_pool pool;
  struct sim_pager *pager;    /* NULL: what it would do is decided at random */
  bool spills;                /* has a disk */
  uint64_t ops;               /* numbers of operations given out */
  uint8_t left[SIM_UIDS / 8]; /* uids that its view is without */
  uint32_t views;             /* of sim.view, taken */
  /* leaving */
  enum sim_stage stage;
  uint32_t heir_slot;
  uint32_t byes, byes_wanted;
  struct dmi_handover_env env;
  struct dmi_handover *handover;
  bool drained; /* as the handover has said */
  bool daemon;  /* in an event of the handover: no view is taken meanwhile */
  bool must;    /* at work for a TAKE with MUST, or its REFUSE_PAGE */
};

/* ---- Mappings, as the coordinator and the judge see them ---- */

struct sim_map {
  bool made, unmapping, gone;
  uint32_t creator; /* uid */
  uint64_t base, page_size, page_num;
  bool sync; /* its pages begin with tickets, or a barrier if they have the room */
  struct hist hist[SIM_PAGES];
  uint32_t grants[SIM_PAGES]; /* GRANTs under way */
  bool owned[SIM_PAGES];      /* some process has been its owner by a record */
};

/* The view without `uid`, whose roles went to `heir`. */
struct sim_view {
  uint32_t uid, heir;
  uint32_t unmapping; /* bits: mappings that were on their way out before it */
};

struct sim {
  struct rng rng;
  struct sim_options opt;
  uint64_t seed;
  uint64_t now; /* time; every event gets another one */
  uint64_t steps;
  uint64_t effects; /* hints given out */
  struct sim_net net;
  struct sim_proc *proc[SIM_PROCS];
  uint32_t uids;            /* given out */
  int8_t slot_of[SIM_UIDS]; /* -1: gone */
  struct sim_map map[SIM_MAPS];
  uint32_t maps;
  struct sim_view view[SIM_UIDS];
  uint32_t views;
  /* workload, redrawn now and then */
  uint32_t issue;             /* of 1000 steps, how many begin an operation */
  uint32_t weight[6];         /* by enum dmi_req_type */
  uint32_t hot;               /* of 100 operations, how many go to the hot page */
  uint32_t hot_map, hot_page; /* SIM_PAGES: any page of it */
  uint32_t whole, small;      /* of 100 ranges */
  uint32_t drop;              /* of 10000 steps, how many drop a copy */
  uint32_t kick;              /* of 10000 steps, how many end a wait */
  uint32_t paging;            /* of 10000 steps, how many free memory, or ask for it */
  bool pools;                 /* processes lend little: R12 */
  uint64_t refusals;          /* operations that were refused for lack of memory, not complete */
  bool fetch_refused;         /* a READ was, so reads may fail */
  uint32_t churn;             /* of 10000 steps, how many change members or mappings */
  uint64_t hop, block;        /* of all processes: dmi_core */
  uint64_t begun;             /* operations */
  uint64_t stir;              /* counts the beginnings of leaves */
  uint32_t out;               /* operations not complete */
  struct sim_totals *totals;
  uint64_t hash; /* of all histories */
  struct {
    uint8_t map, page;
  } touched[SIM_MAPS * SIM_PAGES]; /* pages that this step has to do with */
  uint32_t touched_num;
  bool bad; /* a rule was broken; `why` says which */
  char why[256];
};

/* ---- sim_net.c ---- */
void sim_net_init(struct sim *sim);
void sim_net_fini(struct sim *sim);
void sim_net_retune(struct sim *sim);
void sim_net_put(struct sim *sim, uint32_t from, uint32_t to, const struct dmi_msg *msg,
                 struct dmi_frame *hold);
/* Takes the next message to arrive; false: none under way. */
bool sim_net_take(struct sim *sim, uint32_t *from, uint32_t *to, struct dmi_msg *msg);
bool sim_net_idle(const struct sim *sim, uint32_t slot);
/* Nothing about room is under way between these two. */
bool sim_net_silent(const struct sim *sim, uint32_t slot, uint32_t other);
/* Some more bytes of a DATA arrive: *got of them are there.  False: of none. */
bool sim_net_part(struct sim *sim, uint32_t *from, uint32_t *to, const struct dmi_msg **msg,
                  uint64_t *got);
const char *sim_msg_name(uint32_t type);

/* ---- sim_proc.c: one process carries out what its core says ---- */
struct sim_proc *sim_proc_new(struct sim *sim);
void sim_proc_free(struct sim_proc *proc);
struct sim_proc *sim_by_uid(const struct sim *sim, uint32_t uid);
bool sim_has_left(const struct sim_proc *proc, uint32_t uid);
/* The mapping as `proc` knows it, fetched from the directory if need be; NULL: forgotten. */
struct sim_pmap *sim_pmap_get(struct sim_proc *proc, uint32_t map);
struct dmi_page *sim_page_get(struct sim_proc *proc, uint32_t map, uint32_t page);
void sim_act(struct sim_proc *proc, uint32_t map, uint32_t page, struct dmi_out *out);
void sim_send(struct sim_proc *proc, uint32_t to, struct dmi_msg *msg);
void sim_page_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
/* The first `got` bytes of this DATA are there. */
void sim_part(struct sim *sim, uint32_t from_slot, uint32_t to_slot, const struct dmi_msg *msg,
              uint64_t got);
void sim_deliver(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg);

/* ---- sim_member.c: joins, leaves, mappings that come and go ---- */
bool sim_member_step(struct sim *sim);
/* Takes the next view, if there is one and it makes the process forget no mapping. */
void sim_member_view_now(struct sim_proc *proc);
/* Goes on with what has begun; false: nothing to do. */
bool sim_member_go_on(struct sim *sim);
void sim_map_new(struct sim *sim, struct sim_proc *proc);
uint32_t sim_living(const struct sim *sim);
bool sim_leaving(const struct sim *sim);

/* ---- sim_handover.c: homes and pages that go and come (R8), mappings that are forgotten (R10)
 * ---- */
void sim_handover_init(struct sim_proc *proc);
void sim_handover_fini(struct sim_proc *proc);
void sim_handover_begin(struct sim_proc *proc, uint32_t heir);
/* One small step; false: nothing can be done now. */
bool sim_handover_go_on(struct sim_proc *proc);
/* HOME_*, TAKE, REFUSE_PAGE. */
void sim_handover_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg);
/* SIM_FOUND. */
void sim_handover_found(struct sim_proc *proc, const struct dmi_msg *msg);
void sim_handover_forget(struct sim_proc *proc, uint32_t map);
/* The process ends now. */
void sim_handover_gone(struct sim_proc *proc);

/* ---- sim_ops.c: what threads do ---- */
void sim_ops_retune(struct sim *sim);
bool sim_ops_begin(struct sim *sim);
/* An operation on the page takes effect now, if it has not before. */
void sim_ops_hint(struct sim *sim, struct sim_thread *thread);
void sim_ops_complete(struct sim_proc *proc, struct dmi_req *req);
void sim_ops_fini(struct sim_thread *thread);
/* Operations that wait on this page have done their first half. */
void sim_ops_waits(struct sim *sim, const struct dmi_page *page);
/* Some thread writes what an operation waits for.  False: none waits. */
bool sim_ops_kick(struct sim *sim);
/* A leaver gives up what it waits for without having changed anything. */
bool sim_ops_abandon(struct sim_proc *proc);
struct sim_thread *sim_thread_of(const struct sim *sim, uint32_t uid, dmi_op_t op);

/* ---- sim_capacity.c: pools, and what a pager might do (R12) ---- */
void sim_capacity_init(struct sim_proc *proc);
/* At the end of a process: nothing is counted any more. */
void sim_capacity_fini(struct sim_proc *proc);
/* Some process frees memory, or asks for it, needed or not. */
void sim_capacity_step(struct sim *sim);
/* An operation that stalls goes on, somehow, or fails.  False: none stalls. */
bool sim_capacity_go_on(struct sim *sim);
/* Some process drops a copy. */
void sim_capacity_drop(struct sim *sim);
/* A member for a leaver's page. */
uint32_t sim_capacity_heir(struct sim_proc *proc);
/* Does a write stall that is to end somebody's wait?  Refused, it would come again for ever. */
bool sim_capacity_is_kick(const struct sim_proc *proc, const struct dmi_page *page);
/* The operation at the head of the queue is about to fail for lack of room. */
void sim_capacity_refused(struct sim_proc *proc, const struct dmi_page *page);
/* Is the account of the process what its records say? */
void sim_capacity_check(struct sim_proc *proc, bool quiet);

/* ---- sim_pager.c: real pagers (core/pressure.h); none of it without them ---- */
void sim_pager_init(struct sim_proc *proc);
void sim_pager_fini(struct sim_proc *proc);
void sim_pager_check(struct sim_proc *proc, bool quiet);
/* Some pager goes on; false: all sleep. */
bool sim_pager_go_on(struct sim *sim);
/* The same; now and then a page is saved. */
void sim_pager_step(struct sim *sim);
/* Events: the process has taken a view; there is a new process; it is welcomed; ... */
void sim_pager_view(struct sim_proc *proc);
void sim_pager_joined(struct sim *sim);
void sim_pager_open(struct sim_proc *proc);
bool sim_pager_is_open(const struct sim_proc *proc);
void sim_pager_message(struct sim_proc *proc, uint32_t from, const struct dmi_msg *msg);
void sim_pager_stalled(struct sim_proc *proc, struct dmi_page *page);
void sim_pager_stepped(struct sim_proc *proc);
void sim_pager_granted(struct sim_proc *proc);
void sim_pager_kept(struct sim_proc *proc, uint32_t from);
void sim_pager_forgot(struct sim_proc *proc);
void sim_pager_taken(struct sim_proc *proc, uint32_t from, uint64_t bytes);
/* It sends a page back that `from` gives or offers it. */
void sim_pager_sends_back(struct sim_proc *proc, uint32_t from, bool must);
void sim_pager_leave(struct sim_proc *proc, uint32_t heir);
uint32_t sim_pager_give(struct sim_proc *proc, uint64_t bytes);
void sim_pager_leave_end(struct sim_proc *proc);

/* ---- sim_check.c: what must hold between processes ---- */
/* Says why this run is bad; the first reason stays. */
void sim_bad(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* After each step: one owner, and what the core itself can check. */
void sim_check_touched(struct sim *sim);
/* When no message is under way: what waits has a reason to. */
void sim_check_waits(struct sim *sim);
/* When nothing is under way: nothing waits, and every copy is like the owner's bytes. */
void sim_check_quiet(struct sim *sim);
/* At the end: the owner's bytes are read once more, and the histories are judged. */
void sim_check_histories(struct sim *sim);

/* ---- sim_run.c ---- */
void sim_log(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* This step has to do with the page: its rules are checked when the step is over. */
void sim_touch(struct sim *sim, uint32_t map, uint32_t page);
/* One run.  False: bad; sim->why was printed, and the history. */
bool sim_run(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
             uint64_t *hash);

#endif
