/*
 * syncop.c - tickets, rounds and watches: how they change their bytes, and when a wait ends.  Locks
 * are in syncop_lock.c.
 *
 * Works on a copy of the bytes made by the caller; does not touch pages or lists. The objects need
 * not be aligned, so they are copied to variables and back.
 */
#include <string.h>

#include "base/mutation.h"
#include "core/reduce.h"
#include "core/syncop_int.h"
#include "dmi_api.h"

_Static_assert(sizeof(struct dmi_locked_by) == 16 && sizeof(struct dmi_tickets) == 16 &&
                   sizeof(struct dmi_round) == 40,
               "objects in global memory, the same in every process");
_Static_assert(sizeof(struct dmi_await_round) == sizeof(struct dmi_arrived),
               "the wait's input takes the place of the answer");

bool dmi_syncop_may_wait(uint8_t kind) {
  return kind >= DMI_RMW_LOCK;
}

bool dmi_syncop_is_wait(uint8_t kind) {
  return kind >= DMI_RMW_TURN;
}

bool dmi_syncop_may_move(uint8_t kind) {
  return kind == DMI_RMW_LOCK || dmi_syncop_is_wait(kind);
}

bool dmi_syncop_repeats(uint8_t kind) {
  return kind >= DMI_RMW_TRYLOCK;
}

bool dmi_syncop_lives(const struct dmi_core *core, dmi_uid_t uid) {
  if (uid == core->self || core->is_member(core->arg, uid)) return true;
  return core->is_there && core->is_there(core->arg, uid);
}

bool dmi_syncop_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                      uint64_t input) {
  if (sizes->out2 || sizes->out1 != input) return false;
  switch (rmw) {
    case DMI_RMW_TRYLOCK:
    case DMI_RMW_LOCK:
      return len == sizeof(struct dmi_locked_by) && !input &&
             sizes->in == sizeof(struct dmi_locked);
    case DMI_RMW_UNLOCK:
    case DMI_RMW_MEND:
      return len == sizeof(struct dmi_locked_by) && input == 8 && !sizes->in;
    case DMI_RMW_SIGNAL:
      return len == sizeof(struct dmi_tickets) && input == 8 && !sizes->in;
    case DMI_RMW_TICKET:
      return len == sizeof(struct dmi_tickets) && !input && sizes->in == 8;
    case DMI_RMW_ARRIVE:
      return len == sizeof(struct dmi_round) && input % 8 == 0 &&
             input >= sizeof(struct dmi_arrive) + 8 && input <= DMI_SYNC_ARRIVE_MOST &&
             sizes->in == sizeof(struct dmi_arrived);
    case DMI_RMW_TURN:
      return len == sizeof(struct dmi_tickets) && input == 8 && sizes->in == 8;
    case DMI_RMW_ROUND:
      return len == sizeof(struct dmi_round) && input == sizeof(struct dmi_await_round) &&
             sizes->in == sizeof(struct dmi_arrived);
    case DMI_RMW_WATCH:
      return len && input == len && sizes->in == len;
    default:
      return false;
  }
}

/* ---- Counts --------------------------------------------------------------------------------- */

/* counts stay below it: 10 million a second for 14 years */
#define COUNT_MOST (UINT64_C(1) << 52)
#define APART_MOST (INT64_C(1) << 31) /* most threads that hold or wait */

/* By how many steps one stored number is ahead of another. */
static int64_t ahead(uint64_t number, uint64_t other) {
  return (int64_t)((number - other) * DMI_SYNC_COUNT);
}

static bool is_count(uint64_t number) {
  return number * DMI_SYNC_COUNT < COUNT_MOST;
}

bool dmi_tickets_valid(const struct dmi_tickets *tickets) {
  int64_t waiting = ahead(tickets->next, tickets->serving);
  return is_count(tickets->next) && waiting > -APART_MOST && waiting < APART_MOST;
}

bool dmi_round_valid(const struct dmi_round *round) {
  return is_count(round->generation) && ahead(round->arrived, 0) >= 0 &&
         ahead(round->arrived, 0) < APART_MOST &&
         (!round->arrived || round->pnum < (uint64_t)APART_MOST);
}

/* ---- Tickets -------------------------------------------------------------------------------- */

static bool served(const struct dmi_tickets *tickets, uint64_t ticket) {
  return ahead(tickets->serving, ticket) >= 0;
}

/* The lowest number above `served` that a living thread waits for at this condition.  False: none.
 */
static bool next_turn(const struct dmi_core *core, const struct dmi_req *waiting,
                      const struct dmi_req *req, uint64_t served, uint64_t *turn) {
  bool found = false;
  for (; waiting; waiting = waiting->next) {
    uint64_t number;
    if (waiting->kind != DMI_RMW_TURN || waiting->off != req->off) continue;
    memcpy(&number, waiting->src.ptr, sizeof(number));
    if (ahead(number, served) <= 0 || !dmi_syncop_lives(core, waiting->origin)) continue;
    if (!found || ahead(*turn, number) > 0) *turn = number;
    found = true;
  }
  return found;
}

/* Once a process was lost, a ticket may belong to nobody: then tickets count whose threads wait
 * here, and those before them are served beside.  Some of them may be living threads that are just
 * on their way here: each of these returns without a signal. */
static void signal_some(const struct dmi_core *core, const struct dmi_req *waiting,
                        const struct dmi_req *req, struct dmi_tickets *tickets) {
  uint64_t most, num = (uint64_t)ahead(tickets->next, tickets->serving);
  memcpy(&most, req->src.ptr, sizeof(most));
  if (!atomic_load(&core->losses) || DMI_BROKEN(core, DMI_BREAK_SWALLOW) || num <= most) {
    tickets->serving += (num < most ? num : most) * DMI_SYNC_UNIT;
    return;
  }
  for (; most && tickets->serving != tickets->next; most--) {
    if (!next_turn(core, waiting, req, tickets->serving, &tickets->serving))
      tickets->serving = tickets->next;
  }
}

static enum dmi_rmw_end run_tickets(const struct dmi_core *core, const struct dmi_req *waiting,
                                    const struct dmi_req *req, unsigned char *bytes,
                                    unsigned char *answer) {
  struct dmi_tickets tickets;
  memcpy(&tickets, bytes, sizeof(tickets));
  if (!dmi_tickets_valid(&tickets)) return DMI_RMW_NO_OBJECT;
  if (req->kind == DMI_RMW_SIGNAL) {
    signal_some(core, waiting, req, &tickets);
  } else {
    memcpy(answer, &tickets.next, sizeof(tickets.next));
    tickets.next += DMI_SYNC_UNIT;
  }
  memcpy(bytes, &tickets, sizeof(tickets));
  return DMI_RMW_DONE;
}

static bool turn_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_tickets tickets;
  uint64_t ticket;
  memcpy(&tickets, bytes, sizeof(tickets));
  memcpy(&ticket, input, sizeof(ticket));
  return served(&tickets, ticket);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Is `losses` of before a loss that `other` knows of? */
static bool is_before(uint64_t losses, uint64_t other) {
  return (int32_t)((uint32_t)other - (uint32_t)losses) > 0;
}

/* A process was lost since the last arrival: those of before do not count. */
static void begin_round(const struct dmi_core *core, struct dmi_round *round,
                        const struct dmi_arrive *head) {
  if (is_before(round->losses, head->losses) && !DMI_BROKEN(core, DMI_BREAK_ROUND))
    round->arrived = 0;
  if (round->arrived) return;
  round->pnum = head->pnum;
  round->losses = head->losses;
  round->adding = 0;
}

/* The last arrival of a round ends it. */
static struct dmi_arrived end_round(struct dmi_round *round, uint64_t taken) {
  round->generation += DMI_SYNC_UNIT;
  round->arrived = 0;
  round->sum = round->adding;
  return (struct dmi_arrived){taken, round->sum, round->generation};
}

/* Arrivals that do not fit into this round are not counted: the caller sends them again. */
static enum dmi_rmw_end arrive(const struct dmi_core *core, const struct dmi_req *req,
                               unsigned char *bytes, unsigned char *answer) {
  struct dmi_round round;
  struct dmi_arrive head;
  struct dmi_arrived done = {0, 0, 0};
  struct dmi_await_round wait;
  const unsigned char *values = req->src.ptr + sizeof(head);
  uint64_t arrived, num = (req->src.len - sizeof(head)) / sizeof(double);
  bool late;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&head, req->src.ptr, sizeof(head));
  if (!dmi_round_valid(&round) || !dmi_reduce_valid(req->tag)) return DMI_RMW_NO_OBJECT;
  late = (round.arrived && is_before(head.losses, round.losses)) ||
         is_before(head.losses, atomic_load(&core->losses));
  if (late && !DMI_BROKEN(core, DMI_BREAK_ROUND)) {
    done.taken = DMI_ARRIVED_LATE;
    memcpy(answer, &done, sizeof(done));
    return DMI_RMW_DONE;
  }
  begin_round(core, &round, &head);
  arrived = (uint64_t)ahead(round.arrived, 0);
  if (head.pnum == round.pnum && arrived < round.pnum)
    done.taken = round.pnum - arrived < num ? round.pnum - arrived : num;
  memcpy(answer, &done, sizeof(done));
  if (!done.taken) return DMI_RMW_DONE;
  for (uint64_t i = 0; i < done.taken; i++, values += sizeof(round.adding)) {
    if (req->tag && !arrived && !i) {
      memcpy(&round.adding, values, sizeof(round.adding)); /* the first one of the round */
    } else {
      dmi_reduce_add(req->tag, &round.adding, values);
    }
  }
  round.arrived += done.taken * DMI_SYNC_UNIT;
  if (arrived + done.taken < round.pnum) {
    wait = (struct dmi_await_round){round.generation + DMI_SYNC_UNIT, done.taken, round.losses};
    memcpy(answer, &wait, sizeof(wait));
  } else {
    done = end_round(&round, done.taken);
    memcpy(answer, &done, sizeof(done));
  }
  memcpy(bytes, &round, sizeof(round));
  return round.arrived ? DMI_RMW_WAITS : DMI_RMW_DONE;
}

/* Its round has ended, or will not: a later one has begun behind a loss. */
static bool round_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_round round;
  struct dmi_await_round wait;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&wait, input, sizeof(wait));
  return ahead(round.generation, wait.generation) >= 0 || is_before(wait.losses, round.losses);
}

static int round_answer(const unsigned char *bytes, const unsigned char *input,
                        unsigned char *answer) {
  struct dmi_round round;
  struct dmi_await_round wait;
  struct dmi_arrived done;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&wait, input, sizeof(wait));
  if (ahead(round.generation, wait.generation) < 0) return DMI_EBROKEN;
  done = (struct dmi_arrived){wait.taken, round.sum, round.generation};
  memcpy(answer, &done, sizeof(done));
  return DMI_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

bool dmi_syncop_met(const struct dmi_req *req, const unsigned char *bytes) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_LOCK:
      return dmi_syncop_lock_met(req, bytes);
    case DMI_RMW_TURN:
      return turn_met(bytes, req->src.ptr);
    case DMI_RMW_ROUND:
      return round_met(bytes, req->src.ptr);
    default: /* WATCH */
      return memcmp(bytes, req->src.ptr, req->len) != 0;
  }
}

int dmi_syncop_answer(const struct dmi_req *req, const unsigned char *bytes,
                      unsigned char *answer) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_LOCK:
      dmi_syncop_lock_answer(bytes, answer);
      return DMI_OK;
    case DMI_RMW_TURN:
      memcpy(answer, req->src.ptr, 8);
      return DMI_OK;
    case DMI_RMW_ROUND:
      return round_answer(bytes, req->src.ptr, answer);
    default: /* WATCH */
      memcpy(answer, bytes, req->len);
      return DMI_OK;
  }
}

enum dmi_rmw_end dmi_syncop_run(const struct dmi_core *core, const struct dmi_req *waiting,
                                const struct dmi_req *req, unsigned char *bytes,
                                unsigned char *answer) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TRYLOCK:
    case DMI_RMW_UNLOCK:
    case DMI_RMW_MEND:
    case DMI_RMW_LOCK:
      return dmi_syncop_lock_run(core, waiting, req, bytes, answer);
    case DMI_RMW_SIGNAL:
    case DMI_RMW_TICKET:
      return run_tickets(core, waiting, req, bytes, answer);
    case DMI_RMW_ARRIVE:
      return arrive(core, req, bytes, answer);
    default: /* only wait: they begin as waits */
      return DMI_RMW_WAITS;
  }
}

bool dmi_syncop_wait(struct dmi_req *req, const unsigned char *answer) {
  struct dmi_slice input;
  if (req->kind != DMI_RMW_ARRIVE) return true;
  input = dmi_slice_copy(answer, req->sizes.in);
  if (!input.ptr) return false;
  dmi_slice_drop(&req->src);
  req->src = input;
  req->sizes.out1 = input.len;
  req->kind = DMI_RMW_ROUND;
  return true;
}
