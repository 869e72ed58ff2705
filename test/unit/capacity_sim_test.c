/*
 * capacity_sim_test.c - the capacity of members: a simulation of several processes, with messages
 * in any order between different pairs.  No process may wait for memory that is free, no promise
 * may be lost, and each rule that is switched off is noticed.
 */
#include "core/promise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sim/rng.h"

#define PROCS 6
#define LIMIT 100
#define HIGH 12 /* what is kept free when it is not urgent */
#define QUEUE 4096

enum { MSG_CAPACITY, MSG_OFFER, MSG_REFUSE_PAGE, MSG_TAKE };

struct flying {
  uint8_t type;
  uint64_t bytes;
  struct dmi_msg msg;
};

struct proc {
  uint64_t transient; /* in transient use; part of `used` */
  uint64_t ended;
  uint64_t asked_ended[PROCS]; /* `turned` when a member asked */
  bool member, leaving;
  struct dmi_capacity *capacity;
  struct dmi_core core;
  struct dmi_promises *promises;
  uint64_t used;                    /* including what is promised to others */
  uint64_t unit;                    /* the size of the page that must leave; 0: none */
  uint8_t kind;                     /* AHEAD or URGENT */
  bool offered;                     /* an offer is in flight */
  bool giving;                      /* READY: pages leave */
  struct dmi_promise_size sizes[3]; /* the pages that it has when it leaves */
  uint64_t told[PROCS];             /* what a member may still be offered */
  uint64_t out;                     /* TAKEs that have not arrived */
};

struct world {
  struct rng rng;
  struct proc proc[PROCS];
  struct flying *queue[PROCS][PROCS]; /* [from][to] */
  uint32_t first[PROCS][PROCS], last[PROCS][PROCS];
  uint64_t steps;
  const char *bad;
};

static void bad(struct world *world, const char *what) {
  if (!world->bad) world->bad = what;
}

static void fly(struct world *world, uint32_t from, uint32_t to, const struct flying *flying) {
  if (world->last[from][to] == QUEUE) {
    bad(world, "messages without end");
    return;
  }
  world->queue[from][to][world->last[from][to]++] = *flying;
}

static void send_all(struct world *world, uint32_t from, struct dmi_capacity_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    uint32_t to = out->send[i].to - 1;
    struct flying flying = {.type = MSG_CAPACITY, .msg = out->send[i].msg};
    if (!world->proc[to].member) {
      bad(world, "a message to a process that is no member");
    } else {
      fly(world, from, to, &flying);
    }
  }
  dmi_capacity_out_free(out);
}

/* The same of a leaver. */
static void send_leave(struct world *world, uint32_t from, struct dmi_out *out) {
  struct dmi_capacity_out all;
  struct dmi_act act;
  dmi_capacity_out_init(&all);
  while (dmi_out_take(out, &act)) {
    all.send = realloc(all.send, (all.num + 1) * sizeof(*all.send));
    all.send[all.num++] = (struct dmi_capacity_send){act.to, act.msg};
  }
  dmi_out_free(out);
  send_all(world, from, &all);
}

static uint64_t ahead(const struct proc *proc) {
  if (proc->leaving || proc->used + HIGH > LIMIT) return 0;
  return LIMIT - HIGH - proc->used;
}

static uint64_t urgent(const struct proc *proc) {
  return proc->leaving || proc->used > LIMIT ? 0 : LIMIT - proc->used;
}

/* Does what the pager does at each event. */
static void look(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  struct dmi_capacity_asker asker;
  struct dmi_capacity_out out;
  if (!proc->member) return;
  dmi_capacity_out_init(&out);
  dmi_capacity_again(proc->capacity);
  while (dmi_capacity_asker(proc->capacity, &asker)) {
    uint64_t free_bytes = asker.kind == DMI_CAPACITY_AHEAD ? ahead(proc) : urgent(proc);
    struct dmi_capacity_transient transient = {proc->transient, proc->ended, false};
    if (!proc->leaving && dmi_capacity_defer(proc->capacity, &asker, free_bytes, &transient))
      continue;
    if (asker.kind == DMI_CAPACITY_URGENT && free_bytes < asker.unit && !proc->leaving &&
        proc->transient && proc->ended == proc->asked_ended[asker.uid - 1]) {
      bad(world, "refused for what is in use only transiently");
    }
    if (free_bytes > asker.bytes) free_bytes = asker.bytes;
    if (free_bytes < asker.unit && asker.kind == DMI_CAPACITY_PROMISE) free_bytes = 0;
    if (asker.kind == DMI_CAPACITY_PROMISE) proc->used += free_bytes;
    dmi_capacity_answer(proc->capacity, &asker, free_bytes, &out);
  }
  dmi_capacity_freed(proc->capacity, ahead(proc), urgent(proc), &out);
  send_all(world, at, &out);
  if (!proc->unit || proc->offered || proc->leaving) return;
  if (dmi_capacity_need(proc->capacity, proc->unit, proc->unit, (enum dmi_capacity_kind)proc->kind,
                        &out) == DMI_CAPACITY_SOME) {
    uint32_t to =
        dmi_capacity_pick(proc->capacity, NULL, 0, proc->unit, (enum dmi_capacity_kind)proc->kind) -
        1;
    struct flying flying = {.type = MSG_OFFER, .bytes = proc->unit};
    if (to >= PROCS || !world->proc[to].member) {
      bad(world, "nobody to offer to");
    } else {
      if (proc->told[to] < proc->unit) bad(world, "more offered than was said to be there");
      proc->told[to] -= proc->unit;
      proc->offered = true;
      fly(world, at, to, &flying);
    }
  }
  send_all(world, at, &out);
}

/* A leave goes on as soon as promises have come, or were refused. */
static void look_leave(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  enum dmi_promises_state state;
  struct dmi_out out;
  if (!proc->member || !proc->leaving || proc->giving) return;
  dmi_out_init(&out);
  state = dmi_promises_ask(proc->promises, &out);
  if (state == DMI_PROMISES_TOO_LITTLE) dmi_promises_end(proc->promises, false, &out);
  send_leave(world, at, &out);
  if (state == DMI_PROMISES_TOO_LITTLE) {
    proc->leaving = false;
    look(world, at);
  }
  if (state != DMI_PROMISES_ENOUGH) return;
  proc->giving = true;
  while (proc->used) {
    struct dmi_promise_size *sizes = &proc->sizes[rng_below(&world->rng, 3)];
    uint64_t bytes = sizes->size;
    struct flying flying = {.type = MSG_TAKE, .bytes = bytes};
    uint32_t to;
    if (!sizes->num) continue;
    sizes->num--;
    to = dmi_promises_give(proc->promises, bytes) - 1;
    if (to >= PROCS || !world->proc[to].member) {
      bad(world, "a page for a process that is no member");
      return;
    }
    proc->used -= bytes;
    proc->out++;
    fly(world, at, to, &flying);
  }
}

static void views(struct world *world) {
  for (uint32_t i = 0; i < PROCS; i++) {
    uint32_t uid[PROCS];
    uint64_t num = 0;
    if (!world->proc[i].member) continue;
    for (uint32_t j = 0; j < PROCS; j++) {
      if (j != i && world->proc[j].member) uid[num++] = j + 1;
    }
    world->proc[i].used -= dmi_capacity_view(world->proc[i].capacity, uid, num);
    dmi_promises_view(world->proc[i].promises, uid, num);
  }
  for (uint32_t i = 0; i < PROCS; i++) {
    look_leave(world, i);
    look(world, i);
  }
}

static bool has_flying(const struct world *world, uint32_t from, uint32_t to, uint8_t type) {
  for (uint32_t i = world->first[from][to]; i < world->last[from][to]; i++) {
    if (world->queue[from][to][i].type == type) return true;
  }
  return false;
}

/* The leaver has handed over everything, and ends. */
static void gone(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  proc->member = false; /* what was promised to it ends with the view */
  dmi_capacity_free(proc->capacity);
  dmi_promises_free(proc->promises);
  proc->capacity = NULL;
  proc->promises = NULL;
  for (uint32_t i = 0; i < PROCS; i++) {
    /* An offer that is in flight to it comes back. */
    if (has_flying(world, i, at, MSG_OFFER) || has_flying(world, at, i, MSG_REFUSE_PAGE))
      world->proc[i].offered = false;
    world->first[at][i] = world->last[at][i] = 0;
    world->first[i][at] = world->last[i][at] = 0;
  }
  views(world);
}

static void offer_arrives(struct world *world, uint32_t from, uint32_t to, uint64_t bytes) {
  struct proc *giver = &world->proc[from], *taker = &world->proc[to];
  struct flying refusal = {.type = MSG_REFUSE_PAGE};
  if (urgent(taker) < bytes) {
    fly(world, to, from, &refusal);
    return;
  }
  taker->used += bytes;
  bytes = bytes <= giver->used - giver->transient ? bytes : giver->used - giver->transient;
  giver->used -= bytes;
  giver->offered = false;
  giver->unit = 0;
  look(world, from);
  look(world, to);
}

static void arrive(struct world *world, uint32_t from, uint32_t to) {
  struct flying flying = world->queue[from][to][world->first[from][to]++];
  struct proc *proc = &world->proc[to];
  const struct dmi_msg *msg = &flying.msg;
  const struct dmi_msg_capacity_report *said = &msg->capacity_report;
  bool report = msg->type == DMI_SVC_CAPACITY_REPORT, promise = said->kind == DMI_CAPACITY_PROMISE;
  uint64_t freed = 0;
  if (world->first[from][to] == world->last[from][to])
    world->first[from][to] = world->last[from][to] = 0;
  switch (flying.type) {
    case MSG_CAPACITY:
      if (flying.msg.type == DMI_SVC_CAPACITY_ASK) proc->asked_ended[from] = proc->ended;
      if (report && !promise) proc->told[from] = said->bytes;
      if (report && !dmi_promises_report(proc->promises, from + 1, msg))
        bad(world, "a promise was refused");
      if (!(report && promise) && !dmi_capacity_message(proc->capacity, from + 1, msg, &freed))
        bad(world, "a message was refused");
      proc->used -= freed;
      break;
    case MSG_OFFER:
      offer_arrives(world, from, to, flying.bytes);
      return;
    case MSG_REFUSE_PAGE:
      proc->told[from] = 0;
      dmi_capacity_refused(proc->capacity, from + 1);
      proc->offered = false;
      break;
    default: /* MSG_TAKE */
      freed = dmi_capacity_taken(proc->capacity, from + 1, flying.bytes);
      if (freed != flying.bytes) bad(world, "a page for which there was no promise");
      proc->used += flying.bytes - freed;
      if (--world->proc[from].out == 0 && !world->proc[from].used) gone(world, from);
      look(world, to);
      return;
  }
  look_leave(world, to);
  look(world, to);
}

/* Divides all that it has into pages of three sizes. */
static void draw_pages(struct world *world, struct proc *proc) {
  static const uint64_t sizes[] = {25, 7, 1};
  uint64_t left = proc->used;
  for (int i = 0; i < 3; i++) {
    uint64_t most = left / sizes[i];
    uint64_t num = sizes[i] == 1 ? most : rng_below(&world->rng, (uint32_t)most + 1);
    proc->sizes[i] = (struct dmi_promise_size){sizes[i], num};
    left -= num * sizes[i];
  }
}

static void enter(struct proc *proc) {
  proc->member = true;
  proc->capacity = dmi_capacity_new();
  proc->promises = dmi_promises_new(&proc->core);
}

/* Makes a random event in one process. */
static void happen(struct world *world) {
  uint32_t at = rng_below(&world->rng, PROCS), members = 0, heir = PROCS;
  struct proc *proc = &world->proc[at];
  uint64_t grow;
  for (uint32_t i = 0; i < PROCS; i++) {
    const struct proc *other = &world->proc[i];
    members += other->member;
    if (i != at && other->member && !other->leaving) heir = i;
  }
  if (!proc->member) {
    if (!rng_once_in(&world->rng, 8)) return;
    memset(proc, 0, sizeof(*proc));
    enter(proc);
    for (uint32_t i = 0; i < PROCS; i++)
      world->proc[i].told[at] = 0;
    views(world);
    return;
  }
  if (proc->leaving) return;
  switch (rng_below(&world->rng, 10)) {
    case 0: /* memory is freed */
    case 1:
      grow = rng_below(&world->rng, 60);
      if (proc->offered ||
          proc->used < grow + proc->transient + dmi_capacity_promised(proc->capacity))
        break;
      proc->used -= grow;
      break;
    case 2: /* leaves, but not in the middle of an offer */
      if (members < 3 || heir == PROCS || proc->offered || dmi_capacity_promised(proc->capacity))
        break;
      for (uint32_t i = 0; i < PROCS; i++) {
        if (world->proc[i].leaving) return; /* one at a time, as their heirs go otherwise */
        if (world->last[i][at] || world->last[at][i]) return;
      }
      proc->used -= proc->transient; /* what it fetches it does not keep */
      proc->ended += proc->transient;
      proc->transient = 0;
      proc->leaving = true;
      proc->unit = 0;
      draw_pages(world, proc);
      dmi_promises_begin(proc->promises, heir + 1, proc->sizes, 3);
      look_leave(world, at);
      if (proc->giving && !proc->used && !proc->out) gone(world, at);
      return;
    default:
      grow = rng_below(&world->rng, 30);
      if (proc->used + grow <= LIMIT) {
        proc->used += grow;
        if (rng_below(&world->rng, 2)) proc->transient += grow;
      }
      if (proc->unit || proc->used < 25) break;
      proc->unit = rng_range(&world->rng, 1, 20);
      proc->kind = rng_below(&world->rng, 2) ? DMI_CAPACITY_URGENT : DMI_CAPACITY_AHEAD;
  }
  look(world, at);
}

/* Transient use ends: the bytes are free, or stay. */
static bool pass(struct world *world) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &world->proc[i];
    uint64_t ends;
    if (!proc->member || !proc->transient) continue;
    ends = rng_range(&world->rng, 1, (uint32_t)proc->transient);
    proc->transient -= ends;
    proc->ended += ends;
    if (rng_below(&world->rng, 4)) proc->used -= ends;
    look(world, i);
    return true;
  }
  return false;
}

static bool deliver_one(struct world *world) {
  uint32_t pair[PROCS * PROCS], num = 0;
  for (uint32_t i = 0; i < PROCS * PROCS; i++) {
    if (world->first[i / PROCS][i % PROCS] < world->last[i / PROCS][i % PROCS]) pair[num++] = i;
  }
  if (!num) return false;
  num = pair[rng_below(&world->rng, num)];
  arrive(world, num / PROCS, num % PROCS);
  return true;
}

/* Checks what must hold when nothing is in flight. */
static void check_rest(struct world *world) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &world->proc[i];
    struct dmi_capacity_out out;
    if (!proc->member) continue;
    if (proc->leaving) bad(world, "a leave that does not end");
    if (dmi_capacity_promised(proc->capacity)) bad(world, "a promise that nobody wants");
    if (!proc->unit) continue;
    if (proc->offered) bad(world, "an offer without an answer");
    dmi_capacity_out_init(&out);
    if (dmi_capacity_need(proc->capacity, proc->unit, proc->unit,
                          (enum dmi_capacity_kind)proc->kind, &out) != DMI_CAPACITY_NONE) {
      bad(world, "waits for an answer that will not come");
    }
    dmi_capacity_out_free(&out);
    for (uint32_t j = 0; j < PROCS; j++) {
      const struct proc *other = &world->proc[j];
      if (j == i || !other->member) continue;
      if ((proc->kind == DMI_CAPACITY_AHEAD ? ahead(other) : urgent(other)) >= proc->unit)
        bad(world, "waits for memory that is there");
    }
  }
}

static const char *simulate(uint64_t seed, enum dmi_capacity_break broken) {
  static struct flying free_bytes[PROCS][PROCS][QUEUE];
  struct world world;
  memset(&world, 0, sizeof(world));
  world.rng.state = seed;
  for (uint32_t i = 0; i < PROCS; i++) {
    for (uint32_t j = 0; j < PROCS; j++)
      world.queue[i][j] = free_bytes[i][j];
    if (i >= 3) continue;
    enter(&world.proc[i]);
  }
  views(&world);
  for (int round = 0; round < 40 && !world.bad; round++) {
    uint32_t most = rng_below(&world.rng, 30);
    for (uint32_t i = 0; i < PROCS; i++) {
      if (!world.proc[i].member) continue;
      dmi_capacity_set_break(world.proc[i].capacity, broken);
      dmi_promises_set_break(world.proc[i].promises, broken);
    }
    for (uint32_t i = 0; i < most && !world.bad; i++) {
      if (rng_below(&world.rng, 2) || !deliver_one(&world)) happen(&world);
      if (rng_once_in(&world.rng, 8)) pass(&world);
    }
    for (uint32_t i = 0; !world.bad && (deliver_one(&world) || pass(&world)); i++) {
      if (i == 100000) bad(&world, "messages without end");
    }
    if (!world.bad) check_rest(&world);
  }
  for (uint32_t i = 0; i < PROCS; i++) {
    dmi_capacity_free(world.proc[i].capacity);
    dmi_promises_free(world.proc[i].promises);
  }
  return world.bad;
}

static void test_simulation(void **state) {
  const char *scale = getenv("DMI_TEST_SCALE");
  uint64_t seeds = scale && strcmp(scale, "soak") == 0 ? 200000 : 2000;
  (void)state;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    const char *what = simulate(seed, DMI_CAPACITY_BREAK_NOTHING);
    if (what) printf("seed %llu: %s\n", (unsigned long long)seed, what);
    assert_null(what);
  }
}

static void test_breaks(void **state) {
  (void)state;
  for (int broken = 1; broken < DMI_CAPACITY_BREAK_LAST; broken++) {
    const char *what = NULL;
    uint64_t seed;
    for (seed = 1; !what && seed <= 500; seed++)
      what = simulate(seed, (enum dmi_capacity_break)broken);
    printf("rule %d switched off: %s (seed %llu)\n", broken, what ? what : "NOT NOTICED",
           (unsigned long long)seed - 1);
    assert_non_null(what);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_simulation),
      cmocka_unit_test(test_breaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
