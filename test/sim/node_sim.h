/*
 * node_sim.h - whole virtual nodes: the product's membership, pages and pagers together, on a
 * simulated network.  One seed is one program, from its first process to its end.
 *
 * docs/simulation.md says what is real, what is simulated and what is checked.  No threads, no
 * sockets, no clock: the seed decides every step.
 */
#ifndef SIM_NODE_SIM_H
#define SIM_NODE_SIM_H

#include "base/pool.h"
#include "both.h"
#include "core/coord_int.h"
#include "core/node.h"
#include "core/pulse.h"
#include "hunt.h"
#include "node_net.h"
#include "rng.h"

#define SIM_LIVING 9u  /* processes at a time, at most */
#define SIM_NODES 512u /* ever, in one run; also small numbers of uids (node_number.c) */
#define SIM_HOSTS 3u
#define SIM_MAPS 192u      /* ever, in one run: DMI_mmap that is made again leaves some behind */
#define SIM_MAPS_ASKED 96u /* of users */

/* Messages of user code; the product's are those of class THREAD. */
enum {
  SIM_CREATE = 200, /* op; flags 1: the target is welcome, must not say otherwise */
  SIM_CREATED       /* op */
};

/* ---- Nodes ---------------------------------------------------------------------------------- */

enum sim_known { SIM_UNKNOWN, SIM_KNOWN, SIM_FORGOTTEN };

/* A mapping, as one process sees it. */
struct sim_pmap {
  enum sim_known known;
  bool asked; /* a LOOKUP of its threads is in flight */
  struct dmi_map map;
  struct dmi_page *page[SIM_PAGES];  /* NULL: no record */
  int32_t refs;                      /* of the handover and the pager */
  uint64_t hand;                     /* core/replace.h */
  struct dmi_deferred_list deferred; /* until HOME_END */
  struct dmi_frame *disk[SIM_PAGES]; /* spilled bytes */
};

/* An action of the membership core whose answer is to come. */
enum sim_pending_type { SIM_PEND_CONNECT, SIM_PEND_STOPPED, SIM_PEND_CREATE };

struct sim_pending {
  enum sim_pending_type type;
  struct dmi_addr addr;
  uint32_t uid; /* CREATE: where */
  bool must;    /* CREATE: it was welcomed */
};

struct sim_call {
  uint64_t op;
  enum dmi_msg_type type;
  struct node *about; /* welcome, goodbye: the process of the notice; NULL: a random id */
  uint64_t arg;       /* base, or seq */
  uint32_t uid;       /* of a thread: its process */
  uint64_t crash;     /* the last crash view when it was called */
  bool sole;          /* it is the first such call for this node */
};

struct sim_creating {
  uint64_t op;   /* of busy */
  uint32_t from; /* of the process that asked */
  uint64_t from_op;
};

struct sim_addr {
  uint32_t uid;
  struct dmi_addr addr;
};

/* --agree: what a pulse thread says to another one, or an end that is seen. */
enum sim_letter_type { SIM_LETTER_PULSE, SIM_LETTER_BROKEN, SIM_LETTER_DEAD };

struct sim_letter {
  enum sim_letter_type what;
  uint64_t at; /* when it arrives, unless it is held up */
  struct node *from, *to;
  uint32_t uid; /* PULSE: of the sender */
  struct dmi_msg msg;
};

/* --agree: a view that the daemon has not heard of yet. */
struct sim_news {
  struct dmi_slice body;
  bool crash;
};

/* What is noted about a process and its notices, for the judge. */
struct sim_notes {
  bool refused_stop; /* DMI_goodbye has failed because threads run */
  /* DMI_goodbye has failed because no process has memory for its pages */
  bool refused_capacity;
  uint64_t drain_at;              /* time at which it was told to leave, the last time */
  uint64_t refused_at;            /* the same, if it found no memory */
  uint64_t retry_at;              /* last time at which it heard of free memory */
  uint32_t close_base;            /* CLOSE notices about it at that time */
  uint64_t capacity;              /* of the coordinator here, as last seen */
  bool main_lost;                 /* killed, and DMI_main with it */
  uint32_t told;                  /* how many processes have reported that */
  uint64_t open_rank, close_rank; /* time at which it asked, 0: not */
  uint32_t open_got, close_got;   /* callers that got the notice */
  bool open_out, close_out;       /* no longer in the coordinator's queue */
  uint32_t welcomes, goodbyes;    /* calls for it */
  bool welcomed, dismissed;
  struct node *open_to, *close_to, *lost_to; /* who was given the notice last */
};

struct node {
  struct sim *sim;
  uint32_t num;  /* number among all processes of this run; its port is 1000 + num */
  uint32_t slot; /* in sim.proc */
  uint32_t host;
  struct node *seed; /* the process that it asks to join */
  bool alive;        /* started and not ended */
  bool killed;
  bool joined, opened, closed, left;
  bool creates; /* accepts CREATE */
  bool expect_close;
  /* losses: it has been told to the agreement; the view that has accepted it was given up; it is
   * cut off until it is removed; it was lost, and its operations are noted */
  bool started, astray, no_lease, noted;
  bool change_refused; /* sim_agree_survive.may_change */
  bool was_leased;     /* a coordinator has given it a lease, with --agree */
  bool awaits_lease;   /* ....leased was false */
  bool gave_lease; /* its pulse thread has answered a pulse with one, since it was told of that */
  bool ready;      /* it has recovered, and waits for the others */
  uint8_t cut;     /* 1: nothing arrives there, 2: nothing arrives of it */
  uint64_t heard;  /* number of the newest view that it knows */
  uint64_t all_taken; /* number of the last one that it knows all to have taken */
  /* --agree: its pulse thread, with its clock; what that has for the daemon */
  struct dmi_pulse *pulse;
  double clock_rate;
  dmi_ms_t clock_offset;
  DMI_LIST(struct sim_news) news;
  bool gives_up;                           /* it is to end, as it cannot go on */
  bool had_any, had[SIM_MAPS * SIM_PAGES]; /* sim_copies_at_work, and its hint */
  uint64_t had_at;
  bool over;       /* END has arrived */
  bool cut_off;    /* behind END it has nobody to agree with */
  bool carrying;   /* inside of node_carry */
  bool by_thread;  /* the present step is of a thread: what it sends may be barred */
  uint64_t frozen; /* it is stopped until this step */
  uint32_t uid;    /* 0: none yet */
  dmi_id_t dmi_id;
  struct dmi_node *whole; /* the product's part of this process; all else is simulated */
  struct dmi_member *m;   /* part of it */
  struct dmi_core core;
  struct dmi_pool *pool;
  struct dmi_out out; /* the daemon's */
  struct dmi_node_env env;
  bool holds;       /* the daemon has the lock of a mapping */
  bool no_capacity; /* as last seen of `m` */
  bool drain;       /* it leaves, so the end of a step is an event */
  bool stepped;     /* a step is over */
  /* the pager */
  struct dmi_pressure *pressure;
  struct dmi_pressure_action action; /* what it does next */
  uint64_t events, seen;             /* number of events; that number when its last look began */
  bool expects, watches_steps;       /* GRANTs, or ends of steps, are events for it */
  bool spills;                       /* it has a file */
  uint64_t disk_limit, disk_used;    /* bytes */
  struct pager_judge *judge;
  const char *hope; /* why the write that will fail should not; NULL: no reason */
  /* the page that it could not offer was offered by the simulator meanwhile */
  bool behind;
  uint32_t has_capacity; /* uid of a process that has memory for it; 0: none */
  /* user code */
  bool main_runs;
  bool real_main;               /* DMI_main, or DMI_recover, is among it */
  DMI_LIST(uint32_t) create_to; /* uids, of own_creates */
  uint64_t main_op;             /* in a joiner: the call after which it begins */
  uint32_t threads;             /* DMI threads */
  uint32_t idle_owed;           /* ended threads whose operations are still in flight */
  uint32_t own_creates;
  uint64_t next_seq, ops; /* numbers of threads; of operations */
  /* the last one is only for ending waits: sim_ops_kick */
  struct sim_thread thread[SIM_THREADS + 1];
  DMI_LIST(struct dmi_ended) ended;
  DMI_LIST(struct sim_pending) pend;
  DMI_LIST(struct sim_call) calls;
  DMI_LIST(struct sim_creating) creating;
  /* the network */
  uint16_t conn_of[SIM_NODES]; /* by sim_uid: 1 + 2 * connection + own end; 0: none */
  uint8_t knows[SIM_NODES];    /* by sim_uid: bool, its network knows how to reach it */
  uint8_t barred[SIM_NODES];
  uint8_t fenced[SIM_NODES]; /* by sim_uid: bool, it was removed as lost */
  uint8_t lost[SIM_NODES];   /* by sim_uid: bool, its connection broke */
  DMI_LIST(struct sim_addr) addrs;
  struct sim_conn *self_conn;
  /* what it has entered of views and mappings */
  const struct dmi_req *asked;   /* sim_next_op */
  struct dmi_deferred_list held; /* until RESUME */
  uint8_t view[SIM_NODES];       /* by sim_uid: 1 a member, 2 one that has left, as carried out */
  uint32_t maps;                 /* number of the last one that was entered, plus 1 */
  struct sim_pmap pmap[SIM_MAPS];
  struct sim_notes notes;
};

/* A view that was decided on; with --agree only crash views, and of those nothing but the members.
 */
struct sim_agreed {
  bool crash;
  uint64_t number, ballot;
  uint32_t coordinator;  /* uid */
  struct dmi_slice body; /* as in VIEW */
  uint32_t num;
  struct dmi_pulse_member *member;
};

/* A result of a thread whose process has left. */
struct sim_departed {
  uint32_t uid;
  uint64_t seq;
  bool asked; /* a call is in flight or was answered */
};

struct sim {
  struct rng rng;
  struct sim_options opt;
  uint64_t seed;
  uint64_t now; /* time; every event has a different one */
  uint64_t steps;
  uint64_t effects; /* number of hints so far */
  uint64_t next_op;
  struct sim_net net;
  struct node *proc[SIM_LIVING]; /* NULL: free */
  struct node *all[SIM_NODES];
  DMI_LIST(struct sim_agreed) agreed; /* by number */
  uint64_t last_crash;                /* number of the last crash view; 0: none */
  uint64_t ballot;
  const struct sim_agreement *agreement;
  uint64_t clock;                      /* --agree: true time in microseconds */
  uint32_t pace;                       /* how long a step takes, on average */
  DMI_LIST(struct sim_letter) letters; /* in flight between pulse threads */
  uint64_t heals;                      /* the step at which cuts end; 0: none */
  bool recovers;                       /* DMI_recover is defined */
  DMI_LIST(struct node *) doomed;      /* removed, and alive */
  sim_open_list_t open;                /* calls that stay open, until all have recovered */
  uint32_t nodes;
  struct sim_numbers *uid_numbers, *map_numbers;
  struct node *by_uid[SIM_NODES]; /* by sim_uid */
  struct sim_map map[SIM_MAPS];
  uint32_t maps;       /* number of the last one made, plus 1 */
  uint32_t maps_asked; /* calls of DMI_mmap */
  struct sim_mix mix;
  bool pools;              /* processes lend little memory: R12 */
  bool random_ids;         /* users may call DMI_welcome and DMI_goodbye with any id */
  bool random_used[2][64]; /* which were used: goodbye or welcome, id */
  bool notices_lost;       /* a process was killed that may have been about to get one */
  bool ending;             /* nothing new begins: the program is to end */
  bool finished;           /* it has ended before, as only those that are lost had user code */
  uint64_t retry_event;    /* the last time at which memory may have become free */
  DMI_LIST(struct sim_departed) departed;
  uint32_t kicks_refused; /* for lack of memory, since the last one that was not */
  uint64_t hop, block;    /* of all processes: dmi_core */
  uint64_t begun;         /* operations */
  uint64_t stir;          /* counts the beginnings of leaves */
  uint32_t out;           /* operations not complete */
  struct sim_totals *totals;
  uint64_t hash; /* hash of all histories */
  struct {
    uint8_t map, page;
  } touched[SIM_MAPS * SIM_PAGES]; /* pages that this step concerns */
  uint32_t touched_num;
  bool resting; /* nothing new begins */
  bool bad;     /* a rule was broken; `why` says which */
  char why[400];
};

/* ---- For the files of both simulators (simulator.h) ---- */
typedef struct node sim_process_t;
#define SIM_PLACES SIM_LIVING

/* ---- node_number.c: small numbers of uids and mappings, which are not dense after a loss ---- */
struct sim_numbers *sim_numbers_new(void);
/* 0: a temporary id, or none. */
uint32_t sim_uid(const struct sim *sim, uint32_t id);
struct node *sim_by_uid(const struct sim *sim, uint32_t uid); /* NULL: it has not begun */
uint32_t sim_map_num(const struct sim *sim, uint64_t addr);   /* any address in it */

/* ---- node_proc.c: a process, its mappings and records; node_page.c: the page protocol in it ----
 */
struct node *node_new(struct sim *sim, struct node *seed);
void node_free(struct node *node);
void node_end(struct node *node);  /* it has ended; its notes stay */
void node_bury(struct node *node); /* frees what it had */
bool node_frozen(const struct node *node);
struct sim_pmap *node_pmap(struct node *node, uint64_t base); /* NULL: not known */
void node_enter(struct node *node, const struct dmi_entry *entry, uint32_t arriving);
struct dmi_page *node_page(struct node *node, uint32_t map, uint32_t page);
void node_act(struct node *node, uint32_t map, uint32_t page, struct dmi_out *out);
void node_send(struct node *node, uint32_t to, struct dmi_msg *msg);
void node_page_message(struct node *node, uint32_t from, struct dmi_msg *msg);
/* Delivers a message from a uid or temporary id. */
void node_message(struct node *node, uint32_t from, struct dmi_msg *msg);
/* The same, of one that was held. */
void node_handle(struct node *node, uint32_t from, struct dmi_msg *msg);
/* Bytes [off, got) of this DATA or BLOCK have arrived. */
void node_part(struct node *node, const struct dmi_msg *msg, uint64_t off, uint64_t got);
/* Before the first of them. */
void node_part_begins(struct node *node, uint32_t from, struct dmi_msg *msg);

/* ---- node_life.c: the membership core's actions --------------------------------------------- */
/* Handles an input of the daemon, with all its actions.  False: a correct peer does not send it.
 */
bool node_input(struct node *node, const struct dmi_input *in);
void node_carry(struct node *node);
/* Gives one of the answers that are due.  False: none is. */
bool node_answer(struct node *node);
void node_lost(struct node *node, uint32_t id);
void node_shell_message(struct node *node, uint32_t from, const struct dmi_msg *msg);
void node_idle_look(struct node *node);

/* ---- node_records.c: mappings and records, as the core walks over them ---------------------- */
void node_records_init(struct node *node);
void node_records_check(const struct node *node);
void node_replay(struct node *node, const struct dmi_map *map);
void node_freed(struct node *node, const struct dmi_map *map);
uint32_t node_leave_heir(const struct node *node); /* 0: it is not handing over */

/* ---- node_pager.c: memory (R12, docs/replacement.md)
 * ---------------------------------------------
 */
void node_pager_init(struct node *node);
void node_pager_end(struct node *node);
void node_pager_fini(struct node *node);
void node_pager_stalled(struct node *node, struct dmi_page *page);
void node_pager_granted(struct node *node);
void node_pager_stepped(struct node *node);
/* Carries out its next action.  False: it sleeps. */
bool node_pager_step(struct node *node);
/* ---- node_pressure.c: judges the pager ---- */
void node_room_init(struct node *node);
void node_room_sends(struct node *node, uint32_t to, const struct dmi_msg *msg);
void node_room_takes(struct node *node, uint32_t from, const struct dmi_msg *msg);
/* To be called when it has decided its next action. */
void node_room_stepped(struct node *node);
/* To be called before the first operation of this page fails. */
void node_room_fails(struct node *node, const struct dmi_page *page);
/* May be called at any time. */
void node_room_look(struct node *node);

bool sim_pager_step(struct sim *sim); /* the step is of any process */
/* Makes a process drop a copy, or offer a page, without need. */
void sim_pager_drop(struct sim *sim);
void sim_pager_offer(struct sim *sim);

/* ---- node_call.c: calls, and their results -------------------------------------------------- */
void node_call(struct node *node, enum dmi_msg_type type, uint64_t a, uint64_t b);
/* DMI_welcome or DMI_goodbye. */
void node_dismiss(struct node *node, enum dmi_msg_type type, dmi_id_t id, struct node *about);
void node_result(struct node *node, const struct dmi_mact *act);

/* ---- node_user.c: what users do ------------------------------------------------------------- */
void node_create(struct node *node, uint32_t uid, bool must);
bool node_has_user(const struct node *node);
uint32_t node_users(const struct node *node);
bool sim_is_unmapped(const struct sim *sim); /* losses have left no mapping, and all were made */
bool sim_user_code(const struct sim *sim);   /* true if user code runs, or is about to */
/* Makes a user do something, or a process start, be asked to leave, be lost, or stop for long. */
void sim_user_step(struct sim *sim);
void sim_user_freeze(struct sim *sim);
/* Ends all user code. */
void sim_user_end_all(struct sim *sim);
uint32_t sim_living(const struct sim *sim);
struct node *sim_pick(struct sim *sim, bool (*good)(const struct node *node));

/* ---- The agreement on who goes on; only with --crashes -------------------------------------- */
struct sim_agreement {
  const struct dmi_member_survive *survive; /* what membership tells it, and asks */
  /* True if a member of the newest view does not go on. */
  bool (*missing)(const struct sim *sim);
  /* True if the others go on without this one. */
  bool (*spares)(const struct sim *sim, const struct node *but);
  /* True if all have recovered from all losses. */
  bool (*calm)(const struct sim *sim);
  /* Decides on a view, or has a process hear of one.  `forced`: nothing else can happen.  False:
   * there is nothing to do. */
  bool (*step)(struct sim *sim, bool forced);
  /* Another process leads, though nobody was lost. */
  void (*coup)(struct sim *sim);
};
extern const struct sim_agreement sim_agreement_oracle; /* node_agree.c */
extern const struct sim_agreement sim_agreement_real;   /* node_pulse.c: --agree */
void sim_agree_fini(struct sim *sim);

/* ---- node_pulse.c: a pulse thread; only with --agree */
void sim_pulse_tick(struct node *node);
void sim_pulse_letter(struct node *node, const struct sim_letter *letter);
/* The daemon's connection with this process broke. */
void sim_pulse_broken(struct node *node, uint32_t uid);

/* ---- node_clock.c: time, and the network of pulses; only with --agree */
dmi_ms_t sim_clock_of(const struct node *node);
void sim_letter(struct node *from, struct node *to, struct sim_letter letter);
void sim_letters_end(struct node *node, bool killed); /* it has ended */
void sim_letters_free(struct sim *sim);
void sim_clock_step(struct sim *sim); /* some time goes by */
/* Goes on to the next thing that is due, and does it.  False: nothing is. */
bool sim_clock_jump(struct sim *sim);

/* ---- node_loss.c: losses; only with --crashes ----------------------------------------------- */
void node_loss_init(struct node *node);
void node_loss_look(struct node *node);
/* It is removed, and lives. */
void node_doom(struct node *node);
void node_end_doomed(struct node *node);
void node_cut_off(struct node *node);
void node_lose(struct node *node);
/* By a crash view, or its join was given up; it may live. */
bool node_is_removed(const struct node *node);
void node_fence(struct node *node, uint32_t uid);
void node_creates_lost(struct node *node, uint32_t uid);
void node_main_lost(struct node *node);
void node_replay_held(struct node *node);
/* Some process is lost while the program ends. */
void sim_lose_at_end(struct sim *sim);
/* Some process is lost, or cut off for a while. */
void sim_lose_some(struct sim *sim);
/* Whatever goes on behind it.  False: there is nothing to do. */
bool sim_losses_go_on(struct sim *sim, bool forced);

/* ---- node_ops.c: page operations of threads ------------------------------------------------- */
void sim_ops_retune(struct sim *sim);
bool sim_ops_begin(struct sim *sim);
bool sim_leaving(const struct sim *sim); /* true while homes or views change */
bool node_ops_begin(struct node *node);  /* by a thread of this process, if one is free */
void sim_ops_complete(struct node *node, struct dmi_req *req);
uint32_t sim_ops_num(const struct node *node); /* operations in flight that were not given up */
/* gives up operations that wait; they may still be answered */
void sim_ops_give_up(struct sim *sim);
/* Makes a thread write what an operation waits for.  False: none waits. */
bool sim_ops_kick(struct sim *sim);
void sim_ops_fini(struct node *node);

/* ---- node_check.c: when what must hold of pages is checked; node_judge.c: what must hold of
 * members, notices and calls ---- */
void sim_check_quiet(struct sim *sim); /* when nothing is in flight */
/* Checks the coordinator's queue of notices after an event there. */
void sim_judge_capacity(struct node *node);
void sim_judge_watch(struct node *node);
void sim_judge_quiet(struct sim *sim);
void sim_judge_notices(struct sim *sim); /* at the end */
void sim_judge_print(struct sim *sim);   /* prints what the coordinator knows, and what is true */
void sim_judge_joined(struct node *node);
void sim_judge_finish(struct node *node);
void sim_judge_notice(struct node *node, const struct dmi_notice *notice);
void sim_judge_result(struct node *node, const struct sim_call *call, const struct dmi_mact *act);
void sim_judge_forget(struct sim *sim, uint64_t base);
void sim_judge_refused(struct node *node);
void sim_judge_told(struct node *node);    /* it hears of free memory */
void sim_judge_drained(struct node *node); /* it says that it is drained, with an heir */
/* A write to this page will fail, as no process has memory. */
void sim_judge_pool(struct node *node);        /* when nothing is under way */
struct node *sim_coordinator(struct sim *sim); /* NULL: the role is being handed over */

/* ---- node_run.c ----------------------------------------------------------------------------- */
/* Lets a process that leaves check its pages.  False: nothing has changed. */
bool sim_leave_look(struct node *node);
/* Does one run.  False: it is bad; sim->why and the history were printed. */
bool sim_run(uint64_t seed, const struct sim_options *options, struct sim_totals *totals,
             uint64_t *hash);

#endif
