/*
 * rooms_sim_test.c - who has room: a simulation of several processes with messages in any order
 * between different pairs, in which nobody may wait for room that is there, no promise may be lost,
 * and each rule that is switched off is noticed.
 */
#include "core/room.h"

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

enum { MSG_ROOM, MSG_OFFER, MSG_KEEP, MSG_TAKE };

struct flying {
  uint8_t type;
  uint64_t bytes;
  struct dmi_room_msg msg;
};

struct proc {
  uint64_t passing; /* in use for a moment; part of `used` */
  uint64_t turned;
  uint64_t asked_turned[PROCS]; /* `turned` when a member asked */
  bool member, leaving;
  struct dmi_rooms *rooms;
  uint64_t used;              /* with what is promised to others */
  uint64_t unit;              /* it wants a page of this size to leave; 0: none */
  uint8_t kind;               /* AHEAD or URGENT */
  bool offered;               /* it is on its way */
  bool giving;                /* READY: pages go */
  struct dmi_room_lot lot[3]; /* the pages it leaves with */
  uint64_t told[PROCS];       /* what a member may still be offered */
  uint64_t out;               /* TAKEs that have not arrived */
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

static void send_all(struct world *world, uint32_t from, struct dmi_room_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    uint32_t to = out->send[i].to - 1;
    struct flying flying = {.type = MSG_ROOM, .msg = out->send[i].msg};
    if (!world->proc[to].member) {
      bad(world, "a message to a process that is no member");
    } else {
      fly(world, from, to, &flying);
    }
  }
  dmi_room_out_free(out);
}

static uint64_t ahead(const struct proc *proc) {
  if (proc->leaving || proc->used + HIGH > LIMIT) return 0;
  return LIMIT - HIGH - proc->used;
}

static uint64_t urgent(const struct proc *proc) {
  return proc->leaving || proc->used > LIMIT ? 0 : LIMIT - proc->used;
}

/* What the pager does at each event. */
static void look(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  if (!proc->member) return;
  dmi_room_out_init(&out);
  dmi_room_again(proc->rooms);
  while (dmi_room_asker(proc->rooms, &asker)) {
    uint64_t room = asker.kind == DMI_ROOM_AHEAD ? ahead(proc) : urgent(proc);
    struct dmi_room_passing passing = {proc->passing, proc->turned, false};
    if (!proc->leaving && dmi_room_hold(proc->rooms, &asker, room, &passing)) continue;
    if (asker.kind == DMI_ROOM_URGENT && room < asker.unit && !proc->leaving && proc->passing &&
        proc->turned == proc->asked_turned[asker.uid - 1]) {
      bad(world, "refused for what is in use only in passing");
    }
    if (room > asker.bytes) room = asker.bytes;
    if (room < asker.unit && asker.kind == DMI_ROOM_PROMISE) room = 0;
    if (asker.kind == DMI_ROOM_PROMISE) proc->used += room;
    dmi_room_answer(proc->rooms, &asker, room, &out);
  }
  dmi_room_freed(proc->rooms, ahead(proc), urgent(proc), &out);
  send_all(world, at, &out);
  if (!proc->unit || proc->offered || proc->leaving) return;
  if (dmi_room_need(proc->rooms, proc->unit, proc->unit, (enum dmi_room_kind)proc->kind, &out) ==
      DMI_ROOM_SOME) {
    uint32_t to =
        dmi_room_pick(proc->rooms, NULL, 0, proc->unit, (enum dmi_room_kind)proc->kind) - 1;
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

/* A leave goes on as soon as it is known how. */
static void look_leave(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  struct dmi_room_out out;
  if (!proc->member || !proc->leaving) return;
  dmi_room_out_init(&out);
  switch (dmi_room_leave_state(proc->rooms)) {
    case DMI_ROOM_LEAVE_READY:
      proc->giving = true;
      break;
    case DMI_ROOM_LEAVE_FAILED:
      proc->leaving = false;
      dmi_room_leave_end(proc->rooms, &out);
      send_all(world, at, &out);
      look(world, at);
      return;
    default:
      return;
  }
  while (proc->used) {
    struct dmi_room_lot *lot = &proc->lot[rng_below(&world->rng, 3)];
    uint64_t bytes = lot->size;
    struct flying flying = {.type = MSG_TAKE, .bytes = bytes};
    uint32_t to;
    if (!lot->num) continue;
    lot->num--;
    to = dmi_room_give(proc->rooms, bytes) - 1;
    if (!world->proc[to].member) {
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
    struct dmi_room_out out;
    if (!world->proc[i].member) continue;
    for (uint32_t j = 0; j < PROCS; j++) {
      if (j != i && world->proc[j].member) uid[num++] = j + 1;
    }
    dmi_room_out_init(&out);
    world->proc[i].used -= dmi_room_view(world->proc[i].rooms, uid, num, &out);
    send_all(world, i, &out);
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

/* The leaver has given everything away, and goes. */
static void gone(struct world *world, uint32_t at) {
  struct proc *proc = &world->proc[at];
  struct dmi_room_out out;
  dmi_room_out_init(&out);
  dmi_room_leave_end(proc->rooms, &out);
  dmi_room_out_free(&out); /* they are lost with it, or arrive: the view says the same */
  proc->member = false;
  dmi_rooms_free(proc->rooms);
  proc->rooms = NULL;
  for (uint32_t i = 0; i < PROCS; i++) {
    /* An offer that was on its way to it comes back. */
    if (has_flying(world, i, at, MSG_OFFER) || has_flying(world, at, i, MSG_KEEP))
      world->proc[i].offered = false;
    world->first[at][i] = world->last[at][i] = 0;
    world->first[i][at] = world->last[i][at] = 0;
  }
  views(world);
}

static void offer_arrives(struct world *world, uint32_t from, uint32_t to, uint64_t bytes) {
  struct proc *giver = &world->proc[from], *taker = &world->proc[to];
  struct flying keep = {.type = MSG_KEEP};
  if (urgent(taker) < bytes) {
    fly(world, to, from, &keep);
    return;
  }
  taker->used += bytes;
  bytes = bytes <= giver->used - giver->passing ? bytes : giver->used - giver->passing;
  giver->used -= bytes;
  giver->offered = false;
  giver->unit = 0;
  look(world, from);
  look(world, to);
}

static void arrive(struct world *world, uint32_t from, uint32_t to) {
  struct flying flying = world->queue[from][to][world->first[from][to]++];
  struct proc *proc = &world->proc[to];
  struct dmi_room_out out;
  uint64_t freed = 0;
  if (world->first[from][to] == world->last[from][to])
    world->first[from][to] = world->last[from][to] = 0;
  dmi_room_out_init(&out);
  switch (flying.type) {
    case MSG_ROOM:
      if (flying.msg.type == DMI_ROOM_ASK) proc->asked_turned[from] = proc->turned;
      if (flying.msg.type == DMI_ROOM_TELL && flying.msg.kind != DMI_ROOM_PROMISE)
        proc->told[from] = flying.msg.bytes;
      if (!dmi_room_message(proc->rooms, from + 1, &flying.msg, &freed, &out))
        bad(world, "a message was refused");
      proc->used -= freed;
      send_all(world, to, &out);
      break;
    case MSG_OFFER:
      offer_arrives(world, from, to, flying.bytes);
      return;
    case MSG_KEEP:
      proc->told[from] = 0;
      dmi_room_kept(proc->rooms, from + 1);
      proc->offered = false;
      break;
    default: /* MSG_TAKE */
      freed = dmi_room_taken(proc->rooms, from + 1, flying.bytes);
      if (freed != flying.bytes) bad(world, "a page for which there was no promise");
      proc->used += flying.bytes - freed;
      if (--world->proc[from].out == 0 && !world->proc[from].used) gone(world, from);
      look(world, to);
      return;
  }
  look_leave(world, to);
  look(world, to);
}

/* Pages of three sizes, which are all that it has. */
static void draw_pages(struct world *world, struct proc *proc) {
  static const uint64_t sizes[] = {25, 7, 1};
  uint64_t left = proc->used;
  for (int i = 0; i < 3; i++) {
    uint64_t most = left / sizes[i];
    uint64_t num = sizes[i] == 1 ? most : rng_below(&world->rng, (uint32_t)most + 1);
    proc->lot[i] = (struct dmi_room_lot){sizes[i], num};
    left -= num * sizes[i];
  }
}

/* Something happens in one process. */
static void happen(struct world *world) {
  uint32_t at = rng_below(&world->rng, PROCS), members = 0, heir = PROCS;
  struct proc *proc = &world->proc[at];
  struct dmi_room_out out;
  uint64_t grow;
  for (uint32_t i = 0; i < PROCS; i++) {
    const struct proc *other = &world->proc[i];
    members += other->member;
    if (i != at && other->member && !other->leaving) heir = i;
  }
  if (!proc->member) {
    if (!rng_once_in(&world->rng, 8)) return;
    memset(proc, 0, sizeof(*proc));
    proc->rooms = dmi_rooms_new();
    proc->member = true;
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
      if (proc->offered || proc->used < grow + proc->passing + dmi_room_promised(proc->rooms))
        break;
      proc->used -= grow;
      break;
    case 2: /* leaves, but not in the middle of an offer */
      if (members < 3 || heir == PROCS || proc->offered || dmi_room_promised(proc->rooms)) break;
      for (uint32_t i = 0; i < PROCS; i++) {
        if (world->proc[i].leaving) return; /* one at a time, as their heirs go otherwise */
        if (world->last[i][at] || world->last[at][i]) return;
      }
      proc->used -= proc->passing; /* what it fetches it does not keep */
      proc->turned += proc->passing;
      proc->passing = 0;
      proc->leaving = true;
      proc->unit = 0;
      dmi_room_out_init(&out);
      draw_pages(world, proc);
      dmi_room_leave(proc->rooms, heir + 1, proc->lot, 3, &out);
      send_all(world, at, &out);
      look_leave(world, at);
      if (proc->giving && !proc->used && !proc->out) gone(world, at);
      return;
    default:
      grow = rng_below(&world->rng, 30);
      if (proc->used + grow <= LIMIT) {
        proc->used += grow;
        if (rng_below(&world->rng, 2)) proc->passing += grow;
      }
      if (proc->unit || proc->used < 25) break;
      proc->unit = rng_range(&world->rng, 1, 20);
      proc->kind = rng_below(&world->rng, 2) ? DMI_ROOM_URGENT : DMI_ROOM_AHEAD;
  }
  look(world, at);
}

/* What is in use in passing ends: free, or here for good. */
static bool pass(struct world *world) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &world->proc[i];
    uint64_t ends;
    if (!proc->member || !proc->passing) continue;
    ends = rng_range(&world->rng, 1, (uint32_t)proc->passing);
    proc->passing -= ends;
    proc->turned += ends;
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

/* Nothing is on its way. */
static void check_rest(struct world *world) {
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &world->proc[i];
    struct dmi_room_out out;
    if (!proc->member) continue;
    if (proc->leaving) bad(world, "a leave that does not end");
    if (dmi_room_promised(proc->rooms)) bad(world, "a promise that nobody wants");
    if (!proc->unit) continue;
    if (proc->offered) bad(world, "an offer without an answer");
    dmi_room_out_init(&out);
    if (dmi_room_need(proc->rooms, proc->unit, proc->unit, (enum dmi_room_kind)proc->kind, &out) !=
        DMI_ROOM_NONE) {
      bad(world, "waits for an answer that will not come");
    }
    dmi_room_out_free(&out);
    for (uint32_t j = 0; j < PROCS; j++) {
      const struct proc *other = &world->proc[j];
      if (j == i || !other->member) continue;
      if ((proc->kind == DMI_ROOM_AHEAD ? ahead(other) : urgent(other)) >= proc->unit)
        bad(world, "waits for room that is there");
    }
  }
}

static const char *simulate(uint64_t seed, enum dmi_room_break broken) {
  static struct flying room[PROCS][PROCS][QUEUE];
  struct world world;
  memset(&world, 0, sizeof(world));
  world.rng.state = seed;
  for (uint32_t i = 0; i < PROCS; i++) {
    for (uint32_t j = 0; j < PROCS; j++)
      world.queue[i][j] = room[i][j];
    if (i >= 3) continue;
    world.proc[i].member = true;
    world.proc[i].rooms = dmi_rooms_new();
  }
  views(&world);
  for (int round = 0; round < 40 && !world.bad; round++) {
    uint32_t most = rng_below(&world.rng, 30);
    for (uint32_t i = 0; i < PROCS; i++) {
      if (world.proc[i].member) dmi_rooms_set_break(world.proc[i].rooms, broken);
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
  for (uint32_t i = 0; i < PROCS; i++)
    dmi_rooms_free(world.proc[i].rooms);
  return world.bad;
}

static void test_simulation(void **state) {
  const char *scale = getenv("DMI_TEST_SCALE");
  uint64_t seeds = scale && strcmp(scale, "soak") == 0 ? 200000 : 2000;
  (void)state;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    const char *what = simulate(seed, DMI_ROOM_BREAK_NOTHING);
    if (what) printf("seed %llu: %s\n", (unsigned long long)seed, what);
    assert_null(what);
  }
}

static void test_breaks(void **state) {
  (void)state;
  for (int broken = 1; broken < DMI_ROOM_BREAK_LAST; broken++) {
    const char *what = NULL;
    uint64_t seed;
    for (seed = 1; !what && seed <= 500; seed++)
      what = simulate(seed, (enum dmi_room_break)broken);
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
