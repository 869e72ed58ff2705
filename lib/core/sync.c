/*
 * sync.c - tickets, rounds and watches: what they do to their bytes, and when a wait is over.
 *
 * Works on bytes that the caller made; does not touch pages or lists.  The objects may lie at any
 * alignment, so they are copied out and in.
 */
#include "core/sync.h"

#include <string.h>

_Static_assert(sizeof(struct dmi_tickets) == 16 && sizeof(struct dmi_round) == 40,
               "objects in global memory, the same in every process");
_Static_assert(sizeof(struct dmi_await_round) == sizeof(struct dmi_arrived),
               "the wait's input takes the place of the answer");

bool dmi_sync_may_wait(uint8_t kind) {
  return kind >= DMI_RMW_LOCK;
}

bool dmi_sync_is_wait(uint8_t kind) {
  return kind >= DMI_RMW_TURN;
}

bool dmi_sync_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                    uint64_t input) {
  if (sizes->out2 || sizes->out1 != input) return false;
  switch (rmw) {
    case DMI_RMW_TRYLOCK:
      return len == sizeof(struct dmi_tickets) && !input && sizes->in == 1;
    case DMI_RMW_SIGNAL:
      return len == sizeof(struct dmi_tickets) && input == 8 && !sizes->in;
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

/* ---- Tickets -------------------------------------------------------------------------------- */

/* Tickets count for ever, so they are compared by their distance. */
static bool served(const struct dmi_tickets *tickets, uint64_t ticket) {
  return (int64_t)(tickets->serving - ticket) >= 0;
}

static bool lock(unsigned char *bytes, unsigned char *answer) {
  struct dmi_tickets tickets;
  uint64_t mine;
  memcpy(&tickets, bytes, sizeof(tickets));
  mine = tickets.next++;
  memcpy(bytes, &tickets, sizeof(tickets));
  memcpy(answer, &mine, sizeof(mine));
  return served(&tickets, mine);
}

static void try_lock(unsigned char *bytes, unsigned char *answer) {
  struct dmi_tickets tickets;
  memcpy(&tickets, bytes, sizeof(tickets));
  if (tickets.next != tickets.serving) return;
  tickets.next++;
  memcpy(bytes, &tickets, sizeof(tickets));
  answer[0] = 1;
}

static void signal_some(unsigned char *bytes, const unsigned char *input) {
  struct dmi_tickets tickets;
  uint64_t most, waiting;
  memcpy(&tickets, bytes, sizeof(tickets));
  memcpy(&most, input, sizeof(most));
  waiting = tickets.next - tickets.serving;
  tickets.serving += waiting < most ? waiting : most;
  memcpy(bytes, &tickets, sizeof(tickets));
}

static bool turn_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_tickets tickets;
  uint64_t ticket;
  memcpy(&tickets, bytes, sizeof(tickets));
  memcpy(&ticket, input, sizeof(ticket));
  return served(&tickets, ticket);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Arrivals beyond the round are left out: the caller asks again for them. */
static bool arrive(const struct dmi_req *req, unsigned char *bytes, unsigned char *answer) {
  struct dmi_round round;
  struct dmi_arrive head;
  struct dmi_arrived done = {0, 0, 0};
  struct dmi_await_round wait;
  const unsigned char *values = req->src.ptr + sizeof(head);
  uint64_t num = (req->src.len - sizeof(head)) / sizeof(double);
  memcpy(&round, bytes, sizeof(round));
  memcpy(&head, req->src.ptr, sizeof(head));
  if (!round.arrived) {
    round.pnum = head.pnum;
    round.adding = 0;
  }
  if (head.pnum == round.pnum && round.arrived < round.pnum) {
    done.taken = round.pnum - round.arrived < num ? round.pnum - round.arrived : num;
  }
  memcpy(answer, &done, sizeof(done));
  if (!done.taken) return true;
  for (uint64_t i = 0; i < done.taken; i++) {
    double value;
    memcpy(&value, values + i * sizeof(value), sizeof(value));
    round.adding += value;
  }
  round.arrived += done.taken;
  if (round.arrived < round.pnum) {
    memcpy(bytes, &round, sizeof(round));
    wait = (struct dmi_await_round){round.generation + 1, done.taken, 0};
    memcpy(answer, &wait, sizeof(wait));
    return false;
  }
  round.generation++;
  round.arrived = 0;
  round.sum = done.sum = round.adding;
  done.generation = round.generation;
  memcpy(bytes, &round, sizeof(round));
  memcpy(answer, &done, sizeof(done));
  return true;
}

static bool round_met(const unsigned char *bytes, const unsigned char *input) {
  struct dmi_round round;
  struct dmi_await_round wait;
  memcpy(&round, bytes, sizeof(round));
  memcpy(&wait, input, sizeof(wait));
  return (int64_t)(round.generation - wait.generation) >= 0;
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

bool dmi_sync_met(const struct dmi_req *req, const unsigned char *bytes) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TURN:
      return turn_met(bytes, req->src.ptr);
    case DMI_RMW_ROUND:
      return round_met(bytes, req->src.ptr);
    default: /* WATCH */
      return memcmp(bytes, req->src.ptr, req->len) != 0;
  }
}

void dmi_sync_answer(const struct dmi_req *req, const unsigned char *bytes, unsigned char *answer) {
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

bool dmi_sync_run(const struct dmi_req *req, unsigned char *bytes, unsigned char *answer) {
  switch ((enum dmi_rmw)req->kind) {
    case DMI_RMW_TRYLOCK:
      try_lock(bytes, answer);
      return true;
    case DMI_RMW_SIGNAL:
      signal_some(bytes, req->src.ptr);
      return true;
    case DMI_RMW_LOCK:
      return lock(bytes, answer);
    case DMI_RMW_ARRIVE:
      return arrive(req, bytes, answer);
    default: /* only wait: they do not come here */
      return false;
  }
}

bool dmi_sync_park(struct dmi_req *req, const unsigned char *answer) {
  struct dmi_slice input;
  if (dmi_sync_is_wait(req->kind)) return true;
  input = dmi_slice_copy(answer, req->sizes.in);
  if (!input.ptr) return false;
  dmi_slice_drop(&req->src);
  req->src = input;
  req->sizes.out1 = input.len;
  req->kind = req->kind == DMI_RMW_LOCK ? DMI_RMW_TURN : DMI_RMW_ROUND;
  return true;
}
