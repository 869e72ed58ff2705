/*
 * team_rank.c - what a rank does: joins, sends, receives, resets, leaves, as the runtime does it
 * (lib/team/join.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "team_sim.h"

#define TEAM UINT64_C(77)

/* ---- Messages ------------------------------------------------------------------------------- */

static void post(struct world *world, int32_t from, int32_t to, const struct dmi_msg *msg) {
  struct letter *letter = dmi_xalloc(1, sizeof(*letter));
  letter->msg = *msg;
  letter->msg.body = (struct dmi_slice){0};
  if (msg->body.len) letter->msg.body = dmi_slice_xcopy(msg->body.ptr, msg->body.len);
  letter->from_process = world->ranks[from].process;
  letter->to_process = world->ranks[to].process;
  if (world->last[from][to]) {
    world->last[from][to]->next = letter;
  } else {
    world->first[from][to] = letter;
  }
  world->last[from][to] = letter;
}

void team_carry(struct world *world, int32_t rank, struct dmi_team_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    if (out->msgs[i].type == DMI_TEAM_OFFER) world->totals->offers++;
    if (out->msgs[i].team.to >= RANKS) team_wrong(world, "rank %d sends nowhere", rank);
    post(world, rank, (int32_t)out->msgs[i].team.to, &out->msgs[i]);
  }
  out->num = 0;
  while (out->over) {
    struct dmi_team_op *op = out->over;
    out->over = op->next;
    team_judge_over(world, rank, (struct call *)(void *)op);
  }
}

/* To all other processes with a rank in `slots`. */
static void tell(struct world *world, int32_t rank, enum dmi_msg_type type, uint64_t epoch) {
  struct dmi_msg msg = {.type = (uint8_t)type, .map = TEAM};
  msg.team.epoch = epoch;
  msg.team.from = (uint32_t)rank;
  for (int32_t to = 0; to < world->size; to++)
    post(world, rank, to, &msg);
}

void team_step(struct world *world, int32_t rank, struct dmi_team_step *step,
               struct dmi_team_answer *answer) {
  if (world->broken == DMI_TEAM_NO_WAIT) step->zero = DMI_TEAM_STEP_HASTY;
  if (world->broken == DMI_TEAM_NO_STEPS) step->zero = DMI_TEAM_STEP_BLIND;
  dmi_team_table_step(world->table, dmi_team_table_size(world->table->capacity), step, answer,
                      sizeof(*answer));
  if (answer->begins) team_judge_epoch(world);
  if (answer->news) tell(world, rank, DMI_TEAM_EPOCH, answer->epoch);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

/* A larger table, which is not used before `move`. */
static void grow(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_step step = {.what = DMI_TEAM_LOOK};
  struct {
    struct dmi_team_answer answer;
    struct dmi_team_slot slots[RANKS];
  } in;
  dmi_team_table_step(world->table, dmi_team_table_size(world->table->capacity), &step, &in,
                      sizeof(in));
  if (in.answer.capacity >= (uint32_t)world->size) return;
  self->larger = dmi_xalloc(1, dmi_team_table_size(RANKS));
  self->larger_steps = in.answer.steps;
  dmi_team_table_grow(self->larger, &in.answer, in.slots, in.answer.capacity + 1);
}

static void move(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_step step = {.what = DMI_TEAM_MOVE, .steps = self->larger_steps, .addr = 1};
  struct dmi_team_answer answer;
  step.size = (int32_t)self->larger->capacity - 1;
  team_step(world, rank, &step, &answer);
  if (answer.error == DMI_OK) {
    free(world->table);
    world->table = self->larger;
    world->totals->moves++;
  } else {
    free(self->larger);
  }
  self->larger = NULL;
}

/* Some thread of its process asks for another size. */
static void resize(struct world *world, int32_t rank) {
  struct dmi_team_step step = {.what = DMI_TEAM_RESIZE};
  struct dmi_team_answer answer;
  step.size = (int32_t)rng_range(&world->rng, 1, (uint32_t)world->size);
  team_step(world, rank, &step, &answer);
  if (answer.error == DMI_ESIZE) grow(world, rank);
  if (answer.error == DMI_OK) world->totals->resizes++;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static struct call *free_call(struct rank *self) {
  for (int i = 0; i < OPS; i++) {
    if (!self->calls[i].used) return &self->calls[i];
  }
  return NULL;
}

static struct call *new_call(struct rank *self, bool is_send) {
  struct call *call = free_call(self);
  if (!call) return NULL;
  memset(call, 0, sizeof(*call));
  call->used = true;
  call->is_send = is_send;
  call->number = ++self->call_num;
  call->epoch = self->port.epoch;
  return call;
}

static void send(struct world *world, int32_t rank, int32_t to) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_out out = {0};
  struct call *call = new_call(self, true);
  struct dmi_team_op *op;
  uint64_t k;
  if (!call) return;
  op = &call->op;
  op->peer = to;
  op->lane = rng_once_in(&world->rng, 3) ? DMI_TEAM_COLLECTIVE : DMI_TEAM_USER;
  k = world->pairs[rank][to][op->lane].sent;
  op->size = team_body_size(world, rank, to, op->lane, k);
  op->buf = dmi_xalloc(op->size, 1);
  team_body_fill(world, op->buf, op->size, self->port.epoch, rank, to, op->lane, k);
  world->totals->sends++;
  dmi_team_port_send(&self->port, op, &out);
  if (op->state != DMI_TEAM_OVER || op->error == DMI_OK) team_judge_sent(world, rank, call);
  team_carry(world, rank, &out);
  dmi_team_out_free(&out);
}

static void receive(struct world *world, int32_t rank, int32_t from) {
  static const uint64_t sizes[] = {4, 100, 30 << 10, 200 << 10, 200 << 10, 200 << 10};
  struct rank *self = &world->ranks[rank];
  struct dmi_team_out out = {0};
  struct call *call = new_call(self, false);
  struct dmi_team_op *op;
  if (!call) return;
  op = &call->op;
  op->peer = from;
  op->lane = rng_once_in(&world->rng, 3) ? DMI_TEAM_COLLECTIVE : DMI_TEAM_USER;
  op->probe = rng_once_in(&world->rng, 10);
  op->size = sizes[rng_below(&world->rng, 6)];
  op->buf = dmi_xalloc(op->size, 1);
  dmi_team_port_receive(&self->port, op, &out);
  team_carry(world, rank, &out);
  dmi_team_out_free(&out);
}

static void look(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_op op = {.peer = DMI_TEAM_FROM_ANY};
  if (dmi_team_port_look(&self->port, &op) && op.error == DMI_OK &&
      (op.from < 0 || op.from >= self->port.size))
    team_wrong(world, "rank %d sees a message of nobody", rank);
}

/* ---- Epochs --------------------------------------------------------------------------------- */

static void arrive(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_answer answer;
  struct dmi_team_step step = {.what = DMI_TEAM_ARRIVE,
                               .process = self->process,
                               .rank = rank,
                               .arrived = self->leaves ? DMI_TEAM_LEAVES : DMI_TEAM_RESETS,
                               .epoch = self->port.epoch};
  self->phase = ARRIVED;
  team_step(world, rank, &step, &answer);
  if (answer.error != DMI_OK) team_wrong(world, "rank %d cannot arrive", rank);
}

static void reset(struct world *world, int32_t rank, bool leaves) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_out out = {0};
  self->leaves = leaves;
  self->phase = DRAINS;
  if (!leaves) world->reset = self->port.epoch;
  dmi_team_port_reset(&self->port, &out);
  team_carry(world, rank, &out);
  dmi_team_out_free(&out);
  if (leaves) world->totals->leaves++;
  if (!leaves) world->totals->resets++;
  tell(world, rank, leaves ? DMI_TEAM_LEAVE : DMI_TEAM_RESET, self->port.epoch);
}

static void join(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_answer answer;
  struct dmi_team_step step = {.what = DMI_TEAM_JOIN, .rank = rank};
  step.process = world->processes + 1;
  team_step(world, rank, &step, &answer);
  if (answer.error != DMI_OK) return; /* the one before is still in the table */
  free(self->larger);
  memset(self, 0, sizeof(*self));
  self->process = ++world->processes;
  self->phase = JOINS;
  dmi_team_port_init(&self->port, TEAM, rank, answer.epoch);
  self->port.broken = world->broken;
  step.what = DMI_TEAM_ARRIVE;
  team_step(world, rank, &step, &answer);
  world->totals->joins++;
}

/* Gives its rank back, which there is not any more. */
static void unjoin(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_step step = {.what = DMI_TEAM_UNJOIN, .rank = rank, .process = self->process};
  struct dmi_team_answer answer;
  team_step(world, rank, &step, &answer);
  dmi_team_port_free(&self->port);
  self->phase = ABSENT;
  world->totals->cut++;
}

/* True if the rank is in no epoch any more. */
static bool is_cut(struct world *world, int32_t rank) {
  const struct rank *self = &world->ranks[rank];
  if (self->phase == JOINS)
    return world->table->slots[rank].next == self->process && rank >= world->table->wanted;
  return self->phase == ARRIVED && world->table->epoch > self->port.epoch &&
         rank >= world->table->size;
}

static void go(struct rank *self) {
  dmi_team_port_free(&self->port);
  self->phase = ABSENT;
}

/* Its epoch has begun. */
static void begin(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_out out = {0};
  uint32_t processes[RANKS] = {0};
  if (self->leaves && self->phase == ARRIVED) {
    go(self);
    return;
  }
  if (world->table->slots[rank].member != self->process) return; /* it joins later */
  if (self->phase == ARRIVED && world->table->epoch == self->port.epoch) return;
  for (int32_t i = 0; i < world->table->size; i++)
    processes[i] = world->table->slots[i].member;
  if (self->port.ahead) world->totals->ahead++;
  self->phase = WORKS;
  memset(self->knows, 0, sizeof(self->knows));
  if (!dmi_team_port_begin(&self->port, world->table->epoch, world->table->size, processes, &out))
    team_wrong(world, "rank %d: what came ahead was wrong", rank);
  team_carry(world, rank, &out);
  dmi_team_out_free(&out);
  for (int32_t i = 0; i < world->size; i++) {
    if (world->ranks[i].phase == DEAD) team_rank_loses(world, rank, i);
  }
}

void team_rank_hears(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  if (self->phase != JOINS && self->phase != ARRIVED) return;
  if (self->phase == ARRIVED && self->leaves && world->table->epoch == self->port.epoch &&
      dmi_team_all_arrived(world->table->slots, world->table->capacity)) {
    go(self);
  } else if (is_cut(world, rank) && !self->leaves) {
    unjoin(world, rank);
  } else if (self->port.begun > self->port.epoch && world->table->epoch >= self->port.begun) {
    begin(world, rank);
  }
}

void team_rank_loses(struct world *world, int32_t rank, int32_t dead) {
  struct rank *self = &world->ranks[rank];
  struct dmi_team_out out = {0};
  struct dmi_team_answer answer;
  struct dmi_team_step step = {.what = DMI_TEAM_GONE, .process = world->ranks[dead].process};
  self->knows[dead] = true;
  dmi_team_port_lost(&self->port, dead, &out);
  team_carry(world, rank, &out);
  dmi_team_out_free(&out);
  if (self->phase != JOINS && self->phase != ARRIVED) return;
  team_step(world, rank, &step, &answer);
  if (answer.epoch > self->port.begun) self->port.begun = answer.epoch; /* EPOCH may be lost */
  team_rank_hears(world, rank);
}

/* None of its calls waits. */
static bool may_leave(const struct rank *self) {
  return !self->port.sends && !self->port.posted && !self->port.pulls;
}

/* At the end who is awaited comes, so that others can leave. */
static bool may_join(const struct world *world, int32_t rank) {
  const struct dmi_team_table *table = world->table;
  if ((uint32_t)rank >= table->capacity) return false;
  if (!world->ends) return true;
  return table->slots[rank].awaited && !table->slots[rank].next && table->size > 0;
}

bool team_rank_acts(struct world *world, int32_t rank) {
  struct rank *self = &world->ranks[rank];
  int32_t other;
  if (self->larger && self->phase != DEAD && (world->ends || rng_once_in(&world->rng, 4))) {
    move(world, rank);
    return true;
  }
  switch (self->phase) {
    case ABSENT:
      if (!may_join(world, rank)) return false;
      join(world, rank);
      return true;
    case WORKS:
      other = (int32_t)rng_below(&world->rng, (uint32_t)self->port.size);
      if (self->port.reset || world->ends || rng_once_in(&world->rng, 150)) {
        reset(world, rank, may_leave(self) && (world->ends || rng_once_in(&world->rng, 8)));
      } else if (rng_once_in(&world->rng, 400) && !self->larger) {
        resize(world, rank);
      } else if (rng_once_in(&world->rng, 2)) {
        send(world, rank, other);
      } else if (rng_once_in(&world->rng, 20)) {
        look(world, rank);
      } else {
        receive(world, rank, rng_once_in(&world->rng, 4) ? DMI_TEAM_FROM_ANY : other);
      }
      return true;
    case DRAINS:
      if (!dmi_team_port_drained(&self->port)) return false;
      arrive(world, rank);
      return true;
    default:
      return false;
  }
}
