/*
 * syncop.h - what mutexes, conditions and barriers do at the owner of their page (docs/protocol.md
 * R11).
 *
 * Each object is a few numbers in global memory, with a few read-modify-writes on them. Some of
 * these operations wait: they make their change at once and then become a pure wait (TURN, ROUND,
 * WATCH), which changes nothing. Its condition is checked after each write to its bytes.
 */
#ifndef DMI_CORE_SYNCOP_H
#define DMI_CORE_SYNCOP_H

#include "core/rmw.h"

/* Counters in these objects go up by this number instead of 1. Zero bytes are an unused object;
 * other bytes (small numbers, text, a repeated byte) are values that no counter reaches, or that
 * are too far apart. So an operation can tell that bytes are not such an object. Counting works
 * after an overflow of 64 bits, as with 1, because the number is odd. */
#define DMI_SYNC_UNIT UINT64_C(0x9e3779b97f4a7c15)
/* The inverse of DMI_SYNC_UNIT modulo 2^64: a difference of two stored numbers times this is
 * their distance in steps. */
#define DMI_SYNC_COUNT UINT64_C(0xf1de83e19937733d)

/* Mutex, spin lock.  It names the operation LOCK or TRYLOCK that took it, so that each may be sent
 * again when its answer was lost.  Who waits for it is in the page's list of waiting operations,
 * nowhere else. */
struct dmi_locked_by {
  uint64_t op;   /* dmi_op_t of that operation; 0: free */
  dmi_uid_t uid; /* its process; 0: free */
  /* a hash of these: so other bytes are no lock; another one if the lock is marked: a holder was
   * lost, and nobody has said since that the data are consistent */
  uint32_t check;
};

/* Answer of LOCK and TRYLOCK. */
struct dmi_locked {
  uint64_t op; /* what UNLOCK and MEND must give */
  uint32_t how;
  uint32_t none;
};

enum dmi_locked_how {
  DMI_LOCKED_NOT, /* TRYLOCK: another thread holds it */
  DMI_LOCKED_YES,
  DMI_LOCKED_MARKED /* yes, and it is marked */
};

/* Condition. */
struct dmi_tickets {
  uint64_t next;    /* units: the next ticket to give out */
  uint64_t serving; /* units: tickets below it may go on */
};

/* Barrier: one round after another. */
struct dmi_round {
  uint64_t arrived;    /* units; arrivals in the current round */
  uint64_t generation; /* units; rounds that have ended */
  double sum;          /* of the last round that ended; or what else its calls have asked for */
  double adding;       /* of the current round so far */
  uint32_t pnum;       /* of the current round, as its first arrival gave it */
  uint32_t losses;     /* dmi_core.losses, of the current round */
};

/* Input of ARRIVE, followed by 8 bytes for each arrival; the tag says what they are, and how they
 * are combined (core/reduce.h). */
struct dmi_arrive {
  uint32_t pnum;
  uint32_t losses; /* dmi_core.losses, when the threads came */
};

/* Most bytes of input of an ARRIVE. */
#define DMI_SYNC_ARRIVE_MOST 65536u

/* Answer of ARRIVE and ROUND. */
struct dmi_arrived {
  /* so many of the arrivals, the first ones, belong to the round that has ended; 0: the round has
   * another pnum, nothing was changed */
  uint64_t taken;
  double sum;
  uint64_t generation; /* units; rounds that have ended, this one included */
};

/* dmi_arrived.taken: a process was lost since the threads came; nothing was changed */
#define DMI_ARRIVED_LATE UINT64_MAX

/* Input of ROUND. */
struct dmi_await_round {
  uint64_t generation; /* units; waits until so many rounds have ended */
  uint64_t taken;      /* for the answer */
  uint64_t losses;     /* of the round */
};

/* True if the bytes are such an object, initialised or all zero. */
bool dmi_locked_by_valid(const struct dmi_locked_by *holder);
bool dmi_tickets_valid(const struct dmi_tickets *tickets);
bool dmi_round_valid(const struct dmi_round *round);

/* True if it may wait at the owner. Its origin's copy gets its write like any other copy, and it
 * is not counted in `puts`. */
bool dmi_syncop_may_wait(uint8_t kind);

/* True if it only waits, and never changes anything. */
bool dmi_syncop_is_wait(uint8_t kind);

/* True if it may come to the next owner with the flag WAITING. */
bool dmi_syncop_may_move(uint8_t kind);

/* True if it may be sent again when it is not known whether it was done. */
bool dmi_syncop_repeats(uint8_t kind);

/* True if a process with this uid may still hold or wait: a member, or one that has left whose
 * DMI_main may still run. */
bool dmi_syncop_lives(const struct dmi_core *core, dmi_uid_t uid);

/* As dmi_rmw_valid, for the kinds from DMI_RMW_TRYLOCK on. */
bool dmi_syncop_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                      uint64_t input);

/* Runs the operation on its bytes; `waiting`: the first of those that wait for bytes of this page.
 * DMI_RMW_WAITS: `answer` is the input of the pure wait that it becomes: see dmi_syncop_wait.
 * DMI_RMW_NO_OBJECT: nothing was changed. */
enum dmi_rmw_end dmi_syncop_run(const struct dmi_core *core, const struct dmi_req *waiting,
                                const struct dmi_req *req, unsigned char *bytes,
                                unsigned char *answer);

/* The operation has to wait: turns it into the pure wait. False: no memory, nothing was changed. */
bool dmi_syncop_wait(struct dmi_req *req, const unsigned char *answer);

/* True if the wait ends with these bytes. */
bool dmi_syncop_met(const struct dmi_req *req, const unsigned char *bytes);
/* Writes the answer of a wait that has ended, sizes.in bytes.  Returns DMI_OK, or the error that
 * it ends with. */
int dmi_syncop_answer(const struct dmi_req *req, const unsigned char *bytes, unsigned char *answer);

#endif
