/*
 * team_sim.h - a team of ports and its table under a virtual network: each rank in a process of its
 * own, which sends, receives, resets, leaves and is killed at random.
 */
#ifndef SIM_TEAM_SIM_H
#define SIM_TEAM_SIM_H

#include "rng.h"
#include "team/port.h"
#include "team/table.h"

#define RANKS 6
#define OPS 12 /* the most of a rank that are not over */

enum phase {
  ABSENT,  /* a hole; somebody may join */
  JOINS,   /* waits for its first epoch */
  WORKS,   /* calls sends and receives */
  DRAINS,  /* has called reset or leave: waits for its own calls */
  ARRIVED, /* waits for the next epoch */
  DEAD     /* killed; the others do not all know */
};

/* A call, and what the judge knows of it. */
struct call {
  struct dmi_team_op op; /* first */
  bool used, is_send;
  uint64_t number; /* of the calls of its rank */
  uint64_t epoch;
};

/* Of a receive from one rank that is over: it was the number-th call, and got the k-th message. */
struct pick {
  uint64_t number, k;
};

/* What the judge knows of a pair and lane in this epoch. */
struct pair {
  uint64_t sent, received;
  struct pick *picks;
  uint32_t pick_num, pick_capacity;
};

struct rank {
  enum phase phase;
  uint32_t process; /* its uid */
  struct dmi_team_port port;
  struct call calls[OPS];
  uint64_t call_num;
  bool leaves;
  bool knows[RANKS];             /* that the rank, which is DEAD, was lost */
  struct dmi_team_table *larger; /* it has made one, and has not told the old one; or NULL */
  uint64_t larger_steps;
};

struct letter {
  struct letter *next;
  struct dmi_msg msg;
  uint32_t from_process, to_process;
};

struct totals {
  uint64_t seeds, sends, receives, resets, leaves, losses, joins, epochs, offers, released, lost,
      small, ahead, resizes, moves, cut;
};

struct world {
  struct rng rng;
  uint64_t seed;
  int32_t size;
  struct rank ranks[RANKS];
  struct letter *first[RANKS][RANKS], *last[RANKS][RANKS];
  struct pair pairs[RANKS][RANKS][DMI_TEAM_LANES];
  struct dmi_team_table *table; /* the newest: all steps are done on it */
  uint32_t processes;           /* uids given out */
  uint64_t reset;               /* newest epoch that some rank has reset */
  bool may_lose;
  bool ends; /* nobody begins anything but resets */
  enum dmi_team_rule broken;
  struct totals *totals;
};

/* Says what is wrong, and ends the program. */
_Noreturn __attribute__((format(printf, 2, 3))) void team_wrong(const struct world *world,
                                                                const char *format, ...);

/* ---- team_rank.c: what a rank does ---- */
/* One random thing.  False: it can only wait. */
bool team_rank_acts(struct world *world, int32_t rank);
/* What a port has decided: sends and judges. */
void team_carry(struct world *world, int32_t rank, struct dmi_team_out *out);
/* A step of the table for this rank; all are told when it begins an epoch. */
void team_step(struct world *world, int32_t rank, struct dmi_team_step *step,
               struct dmi_team_answer *answer);
/* EPOCH or a loss was heard. */
void team_rank_hears(struct world *world, int32_t rank);
/* A DEAD rank becomes known to another one. */
void team_rank_loses(struct world *world, int32_t rank, int32_t dead);

/* ---- team_judge.c ---- */
void team_judge_sent(struct world *world, int32_t from, const struct call *call);
void team_judge_over(struct world *world, int32_t rank, struct call *call);
/* Nothing is on its way. */
void team_judge_quiet(struct world *world);
/* A new epoch has begun at the table. */
void team_judge_epoch(struct world *world);
/* The k-th message of a lane from one rank to another. */
uint64_t team_body_size(const struct world *world, int32_t from, int32_t to, int lane, uint64_t k);
void team_body_fill(const struct world *world, unsigned char *body, uint64_t size, uint64_t epoch,
                    int32_t from, int32_t to, int lane, uint64_t k);

#endif
