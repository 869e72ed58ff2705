/*
 * team_judge.c - what must hold of messages (docs/teams.md): each receive gets the next message of
 * its channel and epoch, whole; nobody waits in vain; nothing is kept beyond the windows.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "team_sim.h"

#define HEADER 5 /* words at the beginning of a message, if it is long enough */

static uint64_t mixed(uint64_t a, uint64_t b) {
  struct rng rng = {a ^ b * UINT64_C(0x9e3779b97f4a7c15)};
  return rng_next(&rng);
}

static uint64_t key(uint64_t seed, uint64_t epoch, int32_t from, int32_t to, int lane, uint64_t k) {
  uint64_t place = (uint64_t)from << 40 | (uint64_t)to << 20 | (uint64_t)lane;
  return mixed(mixed(mixed(seed, epoch), place), k);
}

/* At least 8 bytes, so that no two messages are the same. */
uint64_t team_body_size(const struct world *world, int32_t from, int32_t to, int lane, uint64_t k) {
  uint64_t bits = key(world->seed + 1, world->table->epoch, from, to, lane, k);
  switch (bits % 8) {
    case 0:
      return DMI_TEAM_EAGER_MOST - 2 + bits / 8 % 5; /* around the limit */
    case 1:
      return 8 + bits / 8 % (100 << 10);
    case 2:
      return 8 + bits / 8 % (20 << 10);
    default:
      return 8 + bits / 8 % 200;
  }
}

void team_body_fill(const struct world *world, unsigned char *body, uint64_t size, uint64_t epoch,
                    int32_t from, int32_t to, int lane, uint64_t k) {
  uint64_t word = key(world->seed, epoch, from, to, lane, k);
  for (uint64_t i = 0; i < size; i++)
    body[i] = (unsigned char)(word >> i % 8 * 8) ^ (unsigned char)(i >> 3);
}

void team_judge_sent(struct world *world, int32_t from, const struct call *call) {
  world->pairs[from][call->op.peer][call->op.lane].sent++;
}

/* Of two receives from the same rank the first call gets the first message. */
static void check_order(struct world *world, int32_t rank, struct pair *pair,
                        const struct call *call, uint64_t k) {
  for (uint32_t i = 0; i < pair->pick_num; i++) {
    if ((pair->picks[i].number < call->number) != (pair->picks[i].k < k))
      team_wrong(world,
                 "rank %d: call %" PRIu64 " got message %" PRIu64 ", call %" PRIu64
                 " message %" PRIu64,
                 rank, call->number, k, pair->picks[i].number, pair->picks[i].k);
  }
  DMI_XALLOC_GROW(pair->picks, pair->pick_num, pair->pick_capacity);
  pair->picks[pair->pick_num++] = (struct pick){call->number, k};
}

/* Which message it was; it must be one that was sent, in this epoch. */
static uint64_t identify(struct world *world, int32_t rank, const struct call *call) {
  const struct dmi_team_op *op = &call->op;
  const struct pair *pair = &world->pairs[op->from][rank][op->lane];
  static unsigned char wanted[200 << 10];
  for (uint64_t k = 0; k < pair->sent; k++) {
    uint64_t size = team_body_size(world, op->from, rank, op->lane, k);
    if (size != op->got || size > sizeof(wanted)) continue;
    team_body_fill(world, wanted, size, call->epoch, op->from, rank, op->lane, k);
    if (memcmp(wanted, op->buf, size) == 0) return k;
  }
  team_wrong(world, "rank %d: bytes that rank %d has not sent in epoch %" PRIu64, rank, op->from,
             call->epoch);
}

static void check_received(struct world *world, int32_t rank, const struct call *call) {
  const struct dmi_team_op *op = &call->op;
  struct pair *pair = &world->pairs[op->from][rank][op->lane];
  uint64_t k;
  if (op->got > op->size) team_wrong(world, "rank %d: a message was cut off", rank);
  if (op->peer != DMI_TEAM_FROM_ANY && op->peer != op->from)
    team_wrong(world, "rank %d: a message of another rank", rank);
  k = identify(world, rank, call);
  for (uint32_t i = 0; i < pair->pick_num; i++) {
    if (pair->picks[i].k == k) team_wrong(world, "rank %d: a message came twice", rank);
  }
  check_order(world, rank, pair, call, k);
  pair->received++;
  world->totals->receives++;
}

void team_judge_over(struct world *world, int32_t rank, struct call *call) {
  struct dmi_team_op *op = &call->op;
  if (op->error == DMI_ERESET) {
    world->totals->released++;
    if (!world->ranks[rank].port.reset) { /* a PULL that came too late: RESET is on its way */
      if (call->is_send) team_wrong(world, "rank %d: a send was reset", rank);
      if (world->reset != call->epoch) team_wrong(world, "rank %d: nobody has reset", rank);
    }
  } else if (op->error == DMI_ELOST) {
    world->totals->lost++;
    if (!world->ranks[rank].port.holes && !world->ranks[rank].port.left &&
        !world->ranks[rank].port.failed)
      team_wrong(world, "rank %d: nobody was lost", rank);
  } else if (op->error == DMI_ESIZE) {
    world->totals->small++;
    if (op->got <= op->size) team_wrong(world, "rank %d: it was not too small", rank);
  } else if (!call->is_send && !op->probe) {
    check_received(world, rank, call);
  }
  if (call->is_send) free(op->buf);
  if (!call->is_send) free(op->buf);
  call->used = false;
}

/* ---- Nothing is on its way ------------------------------------------------------------------ */

static bool is_there(const struct world *world, int32_t rank) {
  return world->ranks[rank].phase != ABSENT && world->ranks[rank].phase != DEAD;
}

/* True if the receive should have got something, or been told that it will not. */
static bool in_vain(const struct world *world, int32_t rank, const struct dmi_team_op *op) {
  const struct dmi_team_port *port = &world->ranks[rank].port;
  for (int32_t from = 0; from < port->size; from++) {
    const struct pair *pair = &world->pairs[from][rank][op->lane];
    if (op->peer != DMI_TEAM_FROM_ANY && op->peer != from) continue;
    if (!is_there(world, from)) return true;
    if (port->peers[from].left && op->peer == from) return true;
    if (pair->sent > pair->received) return true;
  }
  return false;
}

static void check_windows(const struct world *world, int32_t rank) {
  const struct dmi_team_port *port = &world->ranks[rank].port;
  uint64_t most = 0;
  for (int32_t i = 0; i < port->size; i++)
    most += DMI_TEAM_WINDOW;
  for (int32_t i = 0; i < port->size; i++) {
    if (port->peers[i].used > DMI_TEAM_WINDOW) team_wrong(world, "rank %d: no window", rank);
  }
  /* Each message counts its overhead, which is less than what keeping it takes. */
  if (port->kept > 4 * most) team_wrong(world, "rank %d keeps %" PRIu64 " bytes", rank, port->kept);
}

/* Who wants to leave waits for others only. */
static void check_leavers(const struct world *world) {
  bool any = false;
  for (int32_t rank = 0; rank < world->size; rank++) {
    const struct rank *self = &world->ranks[rank];
    if (!is_there(world, rank) || self->phase == JOINS) continue;
    if (self->phase != ARRIVED || !self->leaves) return;
    any = true;
  }
  if (any) team_wrong(world, "all leave, and nobody has left");
}

void team_judge_quiet(struct world *world) {
  check_leavers(world);
  for (int32_t rank = 0; rank < world->size; rank++) {
    const struct rank *self = &world->ranks[rank];
    const struct dmi_team_op *op;
    if (!is_there(world, rank)) continue;
    check_windows(world, rank);
    for (op = self->port.posted; op && self->phase == WORKS && !self->port.reset; op = op->next) {
      if (in_vain(world, rank, op)) team_wrong(world, "rank %d waits in vain", rank);
    }
    if (self->port.pulls) team_wrong(world, "rank %d waits for bytes in vain", rank);
    for (op = self->port.sends; op; op = op->next) {
      bool fails = op->lane == DMI_TEAM_COLLECTIVE && self->port.failed;
      if (op->state == DMI_TEAM_SENDING || !is_there(world, op->peer) || fails)
        team_wrong(world, "a send of rank %d waits in vain", rank);
    }
  }
}

void team_judge_epoch(struct world *world) {
  for (int32_t rank = 0; rank < world->size; rank++) {
    const struct rank *self = &world->ranks[rank];
    if (self->phase == WORKS || self->phase == DRAINS)
      team_wrong(world, "an epoch begins while rank %d still works", rank);
    for (int i = 0; i < OPS; i++) {
      if (self->phase == ARRIVED && self->calls[i].used)
        team_wrong(world, "an epoch begins before all calls of rank %d are over", rank);
    }
  }
  for (int32_t from = 0; from < RANKS; from++) {
    for (int32_t to = 0; to < RANKS; to++) {
      for (int lane = 0; lane < DMI_TEAM_LANES; lane++) {
        struct pair *pair = &world->pairs[from][to][lane];
        pair->sent = pair->received = pair->pick_num = 0;
      }
    }
  }
  world->totals->epochs++;
}
