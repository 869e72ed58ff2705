/*
 * syncop.c - tickets, rounds and watches: how they change their bytes, and when a wait ends.
 *
 * Works on a copy of the bytes made by the caller; does not touch pages or lists. The objects need
 * not be aligned, so they are copied to variables and back.
 */
#include "core/syncop.h"

#include <string.h>

_Static_assert(sizeof(struct dmi_tickets) == 16 && sizeof(struct dmi_round) == 40,
               "objects in global memory, the same in every process");
_Static_assert(sizeof(struct dmi_await_round) == sizeof(struct dmi_arrived),
               "the wait's input takes the place of the answer");

bool dmi_syncop_may_wait(uint8_t kind) {
  return kind >= DMI_RMW_LOCK;
}

bool dmi_syncop_is_wait(uint8_t kind) {
  return kind >= DMI_RMW_TURN;
}

bool dmi_syncop_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                      uint64_t input) {
  if (sizes->out2 || sizes->out1 != input) return false;
  switch (rmw) {
    case DMI_RMW_TRYLOCK:
      return len == sizeof(struct dmi_tickets) && !input && sizes->in == 1;
    case DMI_RMW_SIGNAL:
      return len == sizeof(struct dmi_tickets) && input == 8 && !sizes->in;
    case DMI_RMW_TICKET:
    case DMI_RMW_LOCK:
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

static void take_ticket(struct dmi_tickets *tickets, unsigned char *answer) {
  memcpy(answer, &tickets->next, sizeof(tickets->next));
  tickets->next += DMI_SYNC_UNIT;
}

static void signal_some(struct dmi_tickets *tickets, const unsigned char *input) {
  uint64_t most, waiting = (uint64_t)ahead(tickets->next, tickets->serving);
  memcpy(&most, input, sizeof(most));
  tickets->serving += (waiting < most ? waiting : most) * DMI_SYNC_UNIT;
}

static enum dmi_rmw_end run_tickets(const struct dmi_req *req, unsigned char *bytes,
                                    unsigned char *answer) {
  enum dmi_rmw_end end = DMI_RMW_DONE;
  struct dmi_tickets tickets;
  memcpy(&tickets, bytes, sizeof(tickets));
  if (!dmi_tickets_valid(&tickets)) return DMI_RMW_NO_OBJECT;
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TRYLOCK:
      answer[0] = tickets.next == tickets.serving;
      if (answer[0]) tickets.next += DMI_SYNC_UNIT;
      break;
    case DMI_RMW_SIGNAL:
      signal_some(&tickets, req->src.ptr);
      break;
    case DMI_RMW_TICKET:
      take_ticket(&tickets, answer);
      break;
    default: /* LOCK */
      end = ahead(tickets.serving, tickets.next) >= 0 ? DMI_RMW_DONE : DMI_RMW_WAITS;
      take_ticket(&tickets, answer);
  }
  memcpy(bytes, &tickets, sizeof(tickets));
  return end;
}

static bool turn_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_tickets tickets;
  uint64_t ticket;
  memcpy(&tickets, bytes, sizeof(tickets));
  memcpy(&ticket, input, sizeof(ticket));
  return served(&tickets, ticket);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Arrivals that do not fit into this round are not counted: the caller sends them again. */
static enum dmi_rmw_end arrive(const struct dmi_req *req, unsigned char *bytes,
                               unsigned char *answer) {
  struct dmi_round round;
  struct dmi_arrive head;
  uint64_t arrived;
  struct dmi_arrived done = {0, 0, 0};
  struct dmi_await_round wait;
  const unsigned char *values = req->src.ptr + sizeof(head);
  uint64_t num = (req->src.len - sizeof(head)) / sizeof(double);
  memcpy(&round, bytes, sizeof(round));
  memcpy(&head, req->src.ptr, sizeof(head));
  if (!dmi_round_valid(&round)) return DMI_RMW_NO_OBJECT;
  arrived = (uint64_t)ahead(round.arrived, 0);
  if (!arrived) {
    round.pnum = head.pnum;
    round.adding = 0;
  }
  if (head.pnum == round.pnum && arrived < round.pnum) {
    done.taken = round.pnum - arrived < num ? round.pnum - arrived : num;
  }
  memcpy(answer, &done, sizeof(done));
  if (!done.taken) return DMI_RMW_DONE;
  for (uint64_t i = 0; i < done.taken; i++) {
    double value;
    memcpy(&value, values + i * sizeof(value), sizeof(value));
    round.adding += value;
  }
  round.arrived += done.taken * DMI_SYNC_UNIT;
  if (arrived + done.taken < round.pnum) {
    memcpy(bytes, &round, sizeof(round));
    wait = (struct dmi_await_round){round.generation + DMI_SYNC_UNIT, done.taken, 0};
    memcpy(answer, &wait, sizeof(wait));
    return DMI_RMW_WAITS;
  }
  round.generation += DMI_SYNC_UNIT;
  round.arrived = 0;
  round.sum = done.sum = round.adding;
  done.generation = round.generation;
  memcpy(bytes, &round, sizeof(round));
  memcpy(answer, &done, sizeof(done));
  return DMI_RMW_DONE;
}

static bool round_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_round round;
  struct dmi_await_round wait;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&wait, input, sizeof(wait));
  return ahead(round.generation, wait.generation) >= 0;
}

static void round_answer(const unsigned char *bytes, const unsigned char *input,
                         unsigned char *answer) {
  struct dmi_round round;
  struct dmi_await_round wait;
  struct dmi_arrived done;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&wait, input, sizeof(wait));
  done = (struct dmi_arrived){wait.taken, round.sum, round.generation};
  memcpy(answer, &done, sizeof(done));
}

/* ---- All ------------------------------------------------------------------------------------ */

bool dmi_syncop_met(const struct dmi_req *req, const unsigned char *bytes) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TURN:
      return turn_met(bytes, req->src.ptr);
    case DMI_RMW_ROUND:
      return round_met(bytes, req->src.ptr);
    default: /* WATCH */
      return memcmp(bytes, req->src.ptr, req->len) != 0;
  }
}

void dmi_syncop_answer(const struct dmi_req *req, const unsigned char *bytes,
                       unsigned char *answer) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TURN:
      memcpy(answer, req->src.ptr, 8);
      break;
    case DMI_RMW_ROUND:
      round_answer(bytes, req->src.ptr, answer);
      break;
    default: /* WATCH */
      memcpy(answer, bytes, req->len);
  }
}

enum dmi_rmw_end dmi_syncop_run(const struct dmi_req *req, unsigned char *bytes,
                                unsigned char *answer) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TRYLOCK:
    case DMI_RMW_SIGNAL:
    case DMI_RMW_TICKET:
    case DMI_RMW_LOCK:
      return run_tickets(req, bytes, answer);
    case DMI_RMW_ARRIVE:
      return arrive(req, bytes, answer);
    default: /* only wait: they begin as waits */
      return DMI_RMW_WAITS;
  }
}

bool dmi_syncop_wait(struct dmi_req *req, const unsigned char *answer) {
  struct dmi_slice input;
  if (dmi_syncop_is_wait(req->kind)) return true;
  input = dmi_slice_copy(answer, req->sizes.in);
  if (!input.ptr) return false;
  dmi_slice_drop(&req->src);
  req->src = input;
  req->sizes.out1 = input.len;
  req->kind = req->kind == DMI_RMW_LOCK ? DMI_RMW_TURN : DMI_RMW_ROUND;
  return true;
}
