/*
 * table.h - who is in a team: its table in global memory, and the steps that change it
 * (docs/teams.md, rules T6 to T8).  Steps of one table are done one after the other, by its owner.
 *
 * Pure: bytes in, bytes out.  The bytes may have been overwritten by the program; then a step
 * answers DMI_EINVAL.
 */
#ifndef DMI_TEAM_TABLE_H
#define DMI_TEAM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define DMI_TEAM_MADE UINT64_C(0x444d497465616d31)
#define DMI_TEAM_RANKS_MOST (1 << 20) /* each step answers with all slots */

/* How a member's rank has ended its epoch. */
enum dmi_team_arrived { DMI_TEAM_NOT_ARRIVED, DMI_TEAM_RESETS, DMI_TEAM_LEAVES };

struct dmi_team_slot {
  uint32_t member; /* process whose thread has this rank in this epoch; 0: a hole */
  uint32_t was;    /* the same of the epoch before */
  uint32_t next;   /* process whose thread joins with this rank; 0: none */
  uint8_t arrived; /* enum dmi_team_arrived, of the member */
  uint8_t ready;   /* bool: who joins waits for the epoch */
  uint8_t awaited; /* bool: the next epoch needs a thread here */
  uint8_t zero;
};

struct dmi_team_table {
  uint64_t made;  /* DMI_TEAM_MADE */
  uint64_t team;  /* its number */
  uint64_t epoch; /* 0: none has begun */
  uint64_t steps; /* that were done, and may have changed it */
  int64_t moved;  /* address of the table that took its place; 0: none */
  int32_t size;   /* ranks of this epoch */
  int32_t wanted; /* ranks of the next one */
  uint32_t capacity;
  uint32_t zero;
  struct dmi_team_slot slots[];
};

enum dmi_team_what {
  DMI_TEAM_LOOK = 1, /* only the answer */
  DMI_TEAM_JOIN,     /* takes `rank` (-1: any) for a thread of `process` */
  DMI_TEAM_ARRIVE,   /* who joined is ready (arrived NOT_ARRIVED), or a member has arrived */
  DMI_TEAM_UNJOIN,   /* who joined, and was not ready, gives its rank back */
  DMI_TEAM_GONE,     /* `process` was lost */
  DMI_TEAM_RESIZE,   /* the next epoch has `size` ranks */
  DMI_TEAM_MOVE, /* the table at `addr`, which has what it had after `steps` steps with a capacity
                    of `size`, takes its place; DMI_EBUSY: it has changed since */
  DMI_TEAM_END   /* there is no such team any more */
};

struct dmi_team_step {
  uint32_t what; /* enum dmi_team_what */
  uint32_t process;
  int32_t rank;
  uint32_t arrived; /* ARRIVE: enum dmi_team_arrived */
  uint64_t epoch;   /* ARRIVE of a member: its epoch */
  uint64_t steps;   /* MOVE */
  int64_t addr;
  int32_t size;
  uint32_t zero;
};

/* The slots come behind it, if there is space for them. */
struct dmi_team_answer {
  int32_t error; /* DMI_E*; DMI_TEAM_HAS_MOVED: ask the table at `moved` */
  int32_t rank;  /* JOIN */
  uint64_t team;
  uint64_t epoch;
  uint64_t steps;
  int64_t moved;
  int32_t size;
  int32_t wanted;
  uint32_t capacity;
  uint32_t begins; /* bool: this step has begun `epoch` */
  uint32_t news;   /* bool: who waits at the table is to look at it again */
  uint32_t zero;
  uint64_t made; /* DMI_TEAM_MADE: there is an answer */
};
#define DMI_TEAM_HAS_MOVED 1000

static inline uint64_t dmi_team_table_size(uint32_t capacity) {
  return sizeof(struct dmi_team_table) + (uint64_t)capacity * sizeof(struct dmi_team_slot);
}

/* T6: all members of these slots have called reset or leave: those that leave may go. */
bool dmi_team_all_arrived(const struct dmi_team_slot *slots, uint32_t capacity);

/* A thread of `process` that joins with `rank`, by the slots of an answer: DMI_OK: it is in the
 * epoch; DMI_EBUSY: it waits for one behind `before`; DMI_EINVAL: it was cut off, and gives its
 * rank back; DMI_ELOST: it has none any more. */
int32_t dmi_team_joins_as(const struct dmi_team_answer *answer, const struct dmi_team_slot *slots,
                          uint32_t process, int32_t rank, uint64_t before);
/* The same for one that was in `epoch` and has called reset.  DMI_EINVAL: it was cut off. */
int32_t dmi_team_goes_on_as(const struct dmi_team_answer *answer, const struct dmi_team_slot *slots,
                            uint32_t process, int32_t rank, uint64_t epoch);

void dmi_team_table_init(struct dmi_team_table *table, uint64_t team, int32_t size,
                         uint32_t capacity);
/* The same team in a larger table, from what a step answered of the old one. */
void dmi_team_table_grow(struct dmi_team_table *table, const struct dmi_team_answer *answer,
                         const struct dmi_team_slot *slots, uint32_t capacity);
/* Does a step on a table of `bytes` bytes; `in` gets the answer and as many slots as fit. */
void dmi_team_table_step(struct dmi_team_table *table, uint64_t bytes,
                         const struct dmi_team_step *step, void *in, uint64_t in_size);

#ifdef DMI_MUTATIONS
/* In step.zero: a rule is switched off. */
#define DMI_TEAM_STEP_HASTY 1 /* T6: the next epoch begins when one rank has arrived */
#define DMI_TEAM_STEP_BLIND 2 /* a table may have changed since the new one was made */
#endif

#endif
