/*
 * syncop.h - what mutexes, conditions and barriers do at the owner of their page (docs/protocol.md
 * R11).
 *
 * Each is a few numbers in global memory and a few read-modify-writes on them.  Some of these
 * operations wait: what they have to change is changed at once, and from then on they are a pure
 * wait (TURN, ROUND, WATCH), which changes nothing and is looked at after each write to its bytes.
 */
#ifndef DMI_CORE_SYNCOP_H
#define DMI_CORE_SYNCOP_H

#include "core/rmw.h"

/* What counts in these objects goes up by this number instead of 1: zero bytes are an object that
 * nobody uses, and bytes that are something else (small numbers, text, a repeated byte) are counts
 * that no object reaches, or that lie too far apart.  So an operation sees that there is none.
 * Counting goes on when 64 bits are full, as with 1: the number is odd. */
#define DMI_SYNC_UNIT UINT64_C(0x9e3779b97f4a7c15)
/* The inverse: a difference of two stored numbers times this is how far they are apart. */
#define DMI_SYNC_COUNT UINT64_C(0xf1de83e19937733d)

/* Mutex, spin lock, condition. */
struct dmi_tickets {
  uint64_t next;    /* units: ticket that the next one to come gets */
  uint64_t serving; /* units; mutex: the ticket that holds it, or may; condition: tickets below it
                       may go */
};

/* Barrier: one round after another. */
struct dmi_round {
  uint64_t arrived;    /* units; of the round that is going on */
  uint64_t generation; /* units; rounds that are over */
  double sum;          /* of the last round that is over */
  double adding;       /* of the round that is going on, so far */
  uint64_t pnum;       /* as the first to arrive said, of the round that is going on */
};

/* Input of ARRIVE, followed by one double for each arrival. */
struct dmi_arrive {
  uint64_t pnum;
};

/* Most bytes of input of an ARRIVE. */
#define DMI_SYNC_ARRIVE_MOST 65536u

/* Answer of ARRIVE and ROUND. */
struct dmi_arrived {
  uint64_t taken; /* that many of the arrivals, the first ones, were of the round that is over now;
                     0: the round is one of another pnum, nothing was changed */
  double sum;
  uint64_t generation; /* units; rounds that are over, with this one */
};

/* Input of ROUND. */
struct dmi_await_round {
  uint64_t generation; /* units; until that many rounds are over */
  uint64_t taken;      /* for the answer */
  uint64_t none;
};

/* True if the bytes are such an object, initialised or zero. */
bool dmi_tickets_valid(const struct dmi_tickets *tickets);
bool dmi_round_valid(const struct dmi_round *round);

/* True if it may wait at the owner. Its origin's copy is told of its write like any other copy, and
 * it does not count in `puts`. */
bool dmi_syncop_may_wait(uint8_t kind);

/* True if it waits without changing anything. */
bool dmi_syncop_is_wait(uint8_t kind);

/* For the kinds from DMI_RMW_TRYLOCK on: as dmi_rmw_valid. */
bool dmi_syncop_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                      uint64_t input);

/* Runs the operation on its bytes.  DMI_RMW_WAITS: `answer` is then the input of the pure wait that
 * it is from now on: see dmi_syncop_wait.  DMI_RMW_NO_OBJECT: nothing was changed. */
enum dmi_rmw_end dmi_syncop_run(const struct dmi_req *req, unsigned char *bytes,
                                unsigned char *answer);

/* The operation has to wait: makes the pure wait of it.  False: no memory, nothing was changed. */
bool dmi_syncop_wait(struct dmi_req *req, const unsigned char *answer);

/* Is the pure wait over, its bytes being these? */
bool dmi_syncop_met(const struct dmi_req *req, const unsigned char *bytes);
/* Then: its sizes.in bytes of answer. */
void dmi_syncop_answer(const struct dmi_req *req, const unsigned char *bytes,
                       unsigned char *answer);

#endif
