/*
 * member_world.h - processes, connections and a simple shell around the membership core, in one
 * process, with one random number generator that decides everything.
 *
 * Connections are FIFO each way.  A process that ends has its last messages delivered; what comes
 * for it later is an error.  "Page traffic" is requests that wander over members and are answered
 * to their origin.
 */
#ifndef DMI_TEST_MEMBER_WORLD_H
#define DMI_TEST_MEMBER_WORLD_H

#include "core/member_int.h"

#define SLOTS 40
#define LIVING 8
#define CONNS 600
#define HOSTS 3
#define MAPS 64

/* Messages between shells. */
enum {
  SIM_REQUEST = 200, /* origin, op; len: forwards left */
  SIM_ANSWER,        /* op */
  SIM_CREATE,        /* op; flags: 1: the target is welcome, must not say otherwise */
  SIM_CREATED,       /* op, error */
  SIM_HOME           /* map: you are its home now */
};

enum pending_type {
  PEND_CONNECT,
  PEND_VIEWED,
  PEND_STOPPED,
  PEND_DRAINED,
  PEND_NO_ROOM,
  PEND_FORGOT,
  PEND_CREATE
};

struct pending {
  enum pending_type type;
  struct dmi_addr addr;
  uint64_t base;
  uint32_t uid; /* CREATE: where */
  bool must;    /* CREATE: it was welcomed */
};

struct call {
  uint64_t op;
  enum dmi_msg_type type;
  int slot;     /* welcome, goodbye: whom the notice was about, -1: a random id */
  uint64_t arg; /* base, or seq */
  uint32_t uid; /* thread: whose */
  bool sole;    /* no other such call for this slot before */
};

struct creating {
  uint64_t op;   /* of busy */
  uint32_t from; /* who asked */
  uint64_t from_op;
};

struct known_map {
  uint64_t base;
  uint32_t home;
};

struct proc {
  struct dmi_member *m;
  bool alive;     /* started and not ended */
  bool killed;    /* by the scenario */
  bool main_lost; /* and DMI_main with it */
  uint32_t told;  /* by how many that was said */
  bool joined, opened, closed, left;
  bool refused_stop;   /* said once that threads run */
  bool refused_room;   /* said once that nobody has room for its pages */
  uint64_t refused_at; /* event at which it found none, the last time */
  uint64_t room_at;    /* event at which it heard of room, the last time */
  uint32_t close_base; /* CLOSE notices about it when that was said */
  uint64_t rooms;      /* of the coordinator here, as last seen */
  bool creates;        /* accepts creates */
  bool expect_close;
  bool over; /* END came */
  uint32_t uid, dmi_id;
  int seed; /* slot that it asked first */
  int host;
  bool main_runs;
  uint32_t threads;
  uint32_t ops; /* own page operations without answer */
  uint32_t own_creates;
  uint64_t next_seq; /* of threads */
  DMI_LIST(struct dmi_ended) ended;
  DMI_LIST(struct pending) pend;
  DMI_LIST(struct call) calls;
  DMI_LIST(struct creating) creating;
  DMI_LIST(struct known_map) maps;
  struct dmi_uid_set view;  /* members, as the shell has carried out */
  struct dmi_uid_set away;  /* of these, those that have left */
  struct dmi_uid_set known; /* peers of the network */
  DMI_LIST(struct dmi_peer) addrs;
  uint32_t heir; /* of START_DRAIN */
  /* what happened to its notices and requests */
  uint64_t open_rank, close_rank; /* event at which it asked, 0: not */
  uint32_t open_got, close_got;   /* callers that got the notice */
  bool open_out, close_out;       /* no longer in the coordinator's queue */
  uint32_t welcomes, goodbyes;    /* calls for it */
  bool welcomed, dismissed;
};

struct conn {
  bool used;
  int slot[2];
  uint32_t id[2];           /* what the process at this end calls the other */
  bool closed[2];           /* this end has shut its direction, or ended */
  bool dead[2];             /* nothing is handed up at this end any more */
  bool last[2];             /* this end has sent LAST */
  bool slow[2];             /* to this end */
  struct dmi_keep queue[2]; /* to this end */
};

/* A result of a thread whose process has left. */
struct departed {
  uint32_t uid;
  uint64_t seq;
  bool asked; /* a call is out or was answered */
};

struct world {
  uint64_t rng;
  uint64_t event;
  uint64_t seed;
  uint64_t next_op;
  uint32_t next_temp;
  enum dmi_member_break broken;
  bool trace;
  int slots; /* used so far */
  struct proc proc[SLOTS];
  struct conn conn[CONNS];
  bool random_ids;         /* users may call DMI_welcome and DMI_goodbye with any id */
  bool random_used[2][64]; /* did so: goodbye or welcome, id */
  bool uid_used[4096];
  uint64_t map_live[MAPS]; /* bases mapped and not asked to be unmapped */
  uint32_t map_num;
  bool notices_lost;           /* somebody was killed who may have been about to get one */
  uint64_t room_event;         /* the last one at which there may have come more room */
  DMI_LIST(uint64_t) map_dead; /* DMI_munmap has returned */
  DMI_LIST(struct departed) departed;
  uint64_t stat_events, stat_views, stat_handovers, stat_leaves, stat_kills, stat_notices,
      stat_calls, stat_joins;
};

extern struct world *w;

uint64_t rnd(uint64_t below);
/* Prints the seed and the sentence; exits with 1. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

int world_spawn(int seed_slot); /* -1: the first process; the slot */
void world_kill(int slot);
void world_free(void);
bool world_deliver(void);   /* one message, end of connection or answer of a shell; false: none */
bool world_user_code(void); /* does any user code run, or is going to? */
int world_slot_of(uint32_t uid);
int world_coordinator(void); /* slot, -1: on its way */

/* Inside of the world: sends over a connection, made if there is none; carries actions out; looks
 * at the coordinator's queue of notices (member_sim.c); what the core asks of its surroundings. */
void world_send(int slot, uint32_t id, const struct dmi_msg *msg);
void world_send_sim(int slot, uint32_t to, int type, uint64_t op, uint32_t origin, uint64_t hops);
void world_run(int slot, struct dmi_mout *out);
void world_watch(int slot);
uint32_t world_close_notices(int slot); /* about it, given or waiting */
bool world_connected(void *arg, uint32_t uid);
void world_addrs(void *arg, uint32_t id, struct dmi_addr *ours, struct dmi_addr *theirs);

/* Events by the user of a process (member_user.c). */
void act_leave(int slot);
void act_room(int slot);
void act_call(int slot, enum dmi_msg_type type, uint64_t a, uint64_t b, int about);
void act_create(int slot, uint32_t uid, bool must);
void act_request(int slot, uint32_t uid);
void act_end_thread(int slot, bool main);

#endif
