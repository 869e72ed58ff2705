/*
 * team_int.h - private to the runtime of teams.
 *
 * All ports of a process are under one lock, which is held for steps of ports and copies of small
 * messages between two of them.  Messages are queued under it, so that they are sent in the order
 * in which the ports said them, and written to the network behind it.
 */
#ifndef DMI_TEAM_TEAM_INT_H
#define DMI_TEAM_TEAM_INT_H

#include "access/status.h"
#include "base/lock.h"
#include "net/net.h"
#include "team/port.h"
#include "team/table.h"
#include "team/team.h"

/* Where a team's table is. */
struct dmi_team_at {
  struct dmi_process *process;
  int64_t addr; /* of the table */
  uint32_t capacity;
};

/* A thread's part in a team. */
struct dmi_team_rank {
  struct dmi_team_rank *prev, *next; /* in dmi_teams.ranks */
  struct dmi_teams *teams;
  struct dmi_team_at at;     /* of its thread */
  struct dmi_team_port port; /* the lock of `teams`, as the next one */
  uint32_t *uids;            /* of the ranks in this epoch; 0: a hole */
  bool near;                 /* other ranks of the epoch are in this process */
  dmi_uid_t only;            /* all others are in this one; 0: in several, or there are none */
  _Atomic uint32_t news;     /* goes up when its thread is to look again, in reset or join */
  struct dmi_look_past near_look; /* its thread: for messages of this process */
  struct dmi_look_past look;      /* its thread: for messages of other processes */
};

struct dmi_teams {
  struct dmi_process *process;
  _Atomic uint32_t lock; /* of the ranks; rank LEAF */
  struct dmi_team_rank *ranks;
  _Atomic uint32_t removed; /* newest process that is known to have been removed */
  uint32_t made;            /* teams that were made here */
  uint32_t joining;         /* threads that ask for a rank; the lock */
  bool leaving;             /* nobody joins, as this process leaves; the lock */
  atomic_bool stopping;     /* DMI_exit was called */
};

/* A call of the program, or of a collective call. */
struct dmi_team_wait {
  struct dmi_team_op op; /* first */
  struct dmi_status *status;
  DMI_got_t *got; /* or NULL */
  bool heap;      /* freed when it is over */
  bool sends;     /* of a collective call: it is a send */
};

/* Bytes of one rank here for the buffer of another one. */
struct dmi_team_copy {
  struct dmi_msg msg; /* BODY; it is delivered when they are there */
  void *to;
};

/* What a thread has to do behind the lock. */
struct dmi_team_carry {
  struct dmi_team_out out;
  struct dmi_flush flush;
  struct dmi_team_copy *copies;
  uint32_t copy_num, copy_capacity;
};

/* ---- message.c ---- */
void dmi_team_lock(struct dmi_teams *teams, struct dmi_team_carry *carry);
/* Delivers what ports here have said, unlocks, writes to the network, completes calls.  `rank`: one
 * that has probably said something; or NULL. */
void dmi_team_unlock(struct dmi_teams *teams, const struct dmi_team_rank *rank,
                     struct dmi_team_carry *carry);
bool dmi_team_message(struct dmi_teams *teams, dmi_uid_t from, struct dmi_msg *msg);
void *dmi_team_where(struct dmi_teams *teams, dmi_uid_t from, struct dmi_msg *msg);
/* Says RESET, EPOCH or LEAVE to these processes, each once, also to the ports here. */
void dmi_team_tell(struct dmi_teams *teams, const struct dmi_msg *msg, const uint32_t *uids,
                   uint32_t num);
/* The rank's thread is to look again. */
void dmi_team_news(struct dmi_team_rank *rank);

/* ---- ask.c: steps on tables ---- */
/* The table of the team at `addr`.  DMI_OK, or why there is none. */
int32_t dmi_team_find(struct dmi_process *process, int64_t addr, struct dmi_team_at *at);
/* Does a step; tells all that an epoch has begun.  `slots` NULL, or gets them, for free(); there
 * are answer->capacity of them.  DMI_OK, or why not. */
int32_t dmi_team_ask(struct dmi_team_at *at, const struct dmi_team_step *step,
                     struct dmi_team_answer *answer, struct dmi_team_slot **slots);
void dmi_team_step(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                   int64_t out2_size, void *in, int64_t in_size, int8_t tag);

/* ---- channel.c ---- */
/* The rank that `team` names.  NULL: none of this process. */
struct dmi_team_rank *dmi_team_of(struct dmi_process *process, const DMI_local_team_t *team);
/* What the program's object has beside the rank, of which it is made here: no other bytes have. */
int64_t dmi_team_mark(const struct dmi_process *process, const struct dmi_team_rank *rank);
/* The error of a call that names a rank which a team of this size has not. */
int32_t dmi_team_no_rank(int32_t rank, int32_t size);
/* Begin an operation of the lane of collective calls, and wait for it: DMI_OK or DMI_E*. */
void dmi_team_begin_send(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t to,
                         const void *buf, uint64_t size);
void dmi_team_begin_recv(struct dmi_team_rank *rank, struct dmi_team_wait *wait, int32_t from,
                         void *buf, uint64_t size);
int32_t dmi_team_end(struct dmi_team_rank *rank, struct dmi_team_wait *wait);

/* ---- collect.c: what collective calls are made of ---- */
#define DMI_TEAM_CHILDREN 32 /* a tree of 2^31 ranks has at most 31 levels */
/* A send or receive of a collective call.  Who begins it ends it, also when another one has failed:
 * until then the port may use its buffer. */
struct dmi_team_part {
  struct dmi_team_wait wait;
  DMI_local_status_t status;
};
void dmi_team_part_send(struct dmi_team_rank *rank, struct dmi_team_part *part, int32_t to,
                        const void *buf, uint64_t size);
void dmi_team_part_recv(struct dmi_team_rank *rank, struct dmi_team_part *part, int32_t from,
                        void *buf, uint64_t size);
/* Ends it: DMI_OK or DMI_E*.  A receive gets as many bytes as it expects: else the ranks have made
 * different calls. */
int32_t dmi_team_part_sent(struct dmi_team_rank *rank, struct dmi_team_part *part);
int32_t dmi_team_part_received(struct dmi_team_rank *rank, struct dmi_team_part *part);
/* The call fails here with this error, which it returns. */
int32_t dmi_team_give_up(struct dmi_team_rank *rank, int32_t error);
/* DMI_OK, or why a collective call cannot begin.  `rank` may be NULL. */
int32_t dmi_team_check_call(struct dmi_team_rank *rank, int32_t root);
/* Bcast. */
int32_t dmi_team_pass_down(struct dmi_team_rank *rank, int32_t root, unsigned char *buf,
                           uint64_t size);

/* ---- join.c ---- */
void dmi_team_view(struct dmi_teams *teams, const struct dmi_mact *view);
/* A step that is refused (DMI_EBUSY) for ranks that threads have: not for those of lost processes.
 */
int32_t dmi_team_ask_free(struct dmi_team_at *at, const struct dmi_team_step *step,
                          struct dmi_team_answer *answer);
void dmi_team_rank_free(struct dmi_team_rank *rank);

#endif
