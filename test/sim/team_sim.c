/*
 * team_sim.c - runs worlds of team_sim.h: `team_sim [--seeds A-B] [--break RULE|all]`.
 */
#include "team_sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "msg/wire.h"

#define STEPS 6000

_Noreturn void team_wrong(const struct world *world, const char *format, ...) {
  va_list args;
  fprintf(stderr, "seed %" PRIu64 ", epoch %" PRIu64 ": ", world->seed, world->table->epoch);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

/* ---- The network ---------------------------------------------------------------------------- */

static bool is_there(const struct rank *rank, uint32_t process) {
  return rank->phase != ABSENT && rank->phase != DEAD && rank->process == process;
}

static void deliver(struct world *world, int32_t from, int32_t to) {
  struct letter *letter = world->first[from][to];
  struct rank *self = &world->ranks[to];
  struct dmi_team_out out = {0};
  world->first[from][to] = letter->next;
  if (!letter->next) world->last[from][to] = NULL;
  letter->msg.origin = letter->from_process;
  if (is_there(self, letter->to_process)) {
    void *where = dmi_team_port_where(&self->port, &letter->msg);
    if (where && letter->msg.body.len) { /* as the network does */
      uint64_t len = letter->msg.body.len;
      memcpy(where, letter->msg.body.ptr, len);
      dmi_slice_drop(&letter->msg.body);
      letter->msg.body = (struct dmi_slice){.ptr = where, .len = len};
    }
    if (!dmi_team_port_message(&self->port, &letter->msg, &out))
      team_wrong(world, "rank %d: a correct rank %d does not send this %s", to, from,
                 dmi_wire_name(letter->msg.type));
    team_carry(world, to, &out);
    if (letter->msg.type == DMI_TEAM_EPOCH) team_rank_hears(world, to);
  }
  dmi_slice_drop(&letter->msg.body);
  dmi_team_out_free(&out);
  free(letter);
}

static bool deliver_any(struct world *world) {
  uint32_t at = rng_below(&world->rng, RANKS * RANKS);
  for (uint32_t i = 0; i < RANKS * RANKS; i++) {
    uint32_t pair = (at + i) % (RANKS * RANKS);
    if (!world->first[pair / RANKS][pair % RANKS]) continue;
    deliver(world, (int32_t)(pair / RANKS), (int32_t)(pair % RANKS));
    return true;
  }
  return false;
}

/* ---- Losses --------------------------------------------------------------------------------- */

static void kill_one(struct world *world) {
  int32_t rank = (int32_t)rng_below(&world->rng, (uint32_t)world->size);
  struct rank *self = &world->ranks[rank];
  if (self->phase == ABSENT || self->phase == DEAD) return;
  self->phase = DEAD;
  for (int i = 0; i < OPS; i++) {
    if (self->calls[i].used) free(self->calls[i].op.buf);
    self->calls[i].used = false;
  }
  for (int32_t i = 0; i < world->size; i++)
    world->ranks[i].knows[rank] = false;
  dmi_team_port_free(&self->port);
  free(self->larger); /* a mapping that nobody knows */
  self->larger = NULL;
  world->totals->losses++;
}

/* What a process that was lost has sent does not arrive any more. */
static void cut(struct world *world, int32_t from, int32_t to) {
  while (world->first[from][to]) {
    struct letter *letter = world->first[from][to];
    world->first[from][to] = letter->next;
    dmi_slice_drop(&letter->msg.body);
    free(letter);
  }
  world->last[from][to] = NULL;
}

/* Some rank learns of a loss; when all know it, somebody else may join.  False: all know. */
static bool learn(struct world *world) {
  for (int32_t dead = 0; dead < world->size; dead++) {
    struct dmi_team_step step = {.what = DMI_TEAM_GONE, .process = world->ranks[dead].process};
    struct dmi_team_answer answer;
    if (world->ranks[dead].phase != DEAD) continue;
    for (int32_t i = 0; i < world->size; i++) {
      const struct rank *rank = &world->ranks[i];
      if (rank->phase == ABSENT || rank->phase == DEAD || rank->knows[dead]) continue;
      cut(world, dead, i);
      team_rank_loses(world, i, dead);
      return true;
    }
    /* The runtime of who joins there does it; the others know. */
    world->ranks[dead].phase = ABSENT;
    for (int32_t i = 0; i < RANKS; i++)
      cut(world, dead, i);
    team_step(world, dead, &step, &answer);
    return true;
  }
  return false;
}

/* ---- A run ---------------------------------------------------------------------------------- */

static bool anybody_acts(struct world *world) {
  uint32_t at = rng_below(&world->rng, (uint32_t)world->size);
  for (int32_t i = 0; i < world->size; i++) {
    if (team_rank_acts(world, ((int32_t)at + i) % world->size)) return true;
  }
  return false;
}

static void settle(struct world *world) {
  while (learn(world) || deliver_any(world))
    continue;
  team_judge_quiet(world);
}

static void end(struct world *world) {
  world->ends = true;
  while (learn(world) || deliver_any(world) || anybody_acts(world))
    continue;
  for (int32_t i = 0; i < world->size; i++) {
    struct rank *self = &world->ranks[i];
    if (self->phase != ABSENT && self->phase != JOINS)
      team_wrong(world, "rank %d hangs (phase %d)", i, (int)self->phase);
    dmi_team_port_free(&self->port);
    free(self->larger);
    if (self->port.kept) team_wrong(world, "rank %d counts bytes that it does not keep", i);
  }
}

static void run(uint64_t seed, enum dmi_team_rule broken, struct totals *totals) {
  struct world *world = dmi_xalloc(1, sizeof(*world));
  int32_t first;
  world->totals = totals;
  world->seed = seed;
  world->broken = broken;
  rng_seed(&world->rng, seed);
  world->size = (int32_t)rng_range(&world->rng, 2, RANKS);
  world->may_lose = rng_once_in(&world->rng, 2);
  world->table = dmi_xalloc(1, dmi_team_table_size(RANKS));
  first = (int32_t)rng_range(&world->rng, 1, (uint32_t)world->size);
  dmi_team_table_init(world->table, 77, first, (uint32_t)first);
  for (int i = 0; i < STEPS; i++) {
    uint32_t draw = rng_below(&world->rng, 100);
    if (draw < 55) {
      if (!deliver_any(world)) (void)anybody_acts(world);
    } else if (draw < 97) {
      (void)anybody_acts(world);
    } else if (draw < 98) {
      settle(world);
    } else if (draw < 99 && world->may_lose) {
      (void)learn(world);
    } else if (world->may_lose && rng_once_in(&world->rng, 10)) {
      kill_one(world);
    }
  }
  end(world);
  for (int32_t i = 0; i < RANKS * RANKS * DMI_TEAM_LANES; i++)
    free(((struct pair *)(void *)world->pairs)[i].picks);
  free(world->table);
  free(world);
  totals->seeds++;
}

/* ---- Rules that are switched off ------------------------------------------------------------ */

static const char *const names[] = {
    [DMI_TEAM_NO_ORDER] = "NO_ORDER",   [DMI_TEAM_NO_POSTED] = "NO_POSTED",
    [DMI_TEAM_NO_LANES] = "NO_LANES",   [DMI_TEAM_NO_WINDOW] = "NO_WINDOW",
    [DMI_TEAM_NO_CREDIT] = "NO_CREDIT", [DMI_TEAM_CUT] = "CUT",
    [DMI_TEAM_NO_EPOCH] = "NO_EPOCH",   [DMI_TEAM_NO_AHEAD] = "NO_AHEAD",
    [DMI_TEAM_NO_GONE] = "NO_GONE",     [DMI_TEAM_NO_RELEASE] = "NO_RELEASE",
    [DMI_TEAM_NO_EMPTY] = "NO_EMPTY",   [DMI_TEAM_NO_DRAIN] = "NO_DRAIN",
    [DMI_TEAM_NO_WAIT] = "NO_WAIT",     [DMI_TEAM_NO_HOLE] = "NO_HOLE",
    [DMI_TEAM_NO_FAIL] = "NO_FAIL",     [DMI_TEAM_NO_REASON] = "NO_REASON",
    [DMI_TEAM_NO_STEPS] = "NO_STEPS"};
_Static_assert(sizeof(names) / sizeof(names[0]) == DMI_TEAM_RULES, "each rule has a name");

/* A broken port may do anything: each seed runs in a child.  True: something was noticed. */
static bool notices(uint64_t seed, enum dmi_team_rule rule, char *why, size_t size) {
  int fds[2], status;
  ssize_t got;
  pid_t pid;
  if (pipe(fds) != 0) exit(2);
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    struct totals totals = {0};
    setvbuf(stderr, NULL, _IOFBF, BUFSIZ); /* the parent reads once */
    dup2(fds[1], 2);
    close(fds[0]);
    alarm(60);
    run(seed, rule, &totals);
    _exit(0);
  }
  close(fds[1]);
  got = read(fds[0], why, size - 1);
  why[got > 0 ? got : 0] = 0;
  close(fds[0]);
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status) && got <= 0) snprintf(why, size, "signal %d\n", WTERMSIG(status));
  return status != 0;
}

static bool hunt(enum dmi_team_rule rule, uint64_t first, uint64_t last) {
  char why[1000];
  for (uint64_t seed = first; seed <= last; seed++) {
    if (!notices(seed, rule, why, sizeof(why))) continue;
    printf("without %s: run %" PRIu64 ": %s", names[rule], seed - first + 1, why);
    return true;
  }
  printf("without %s: not noticed in %" PRIu64 " runs\n", names[rule], last - first + 1);
  return false;
}

int main(int argc, char **argv) {
  struct totals t = {0};
  const char *scale = getenv("DMI_TEST_SCALE"), *rule = NULL;
  uint64_t first = 1, last = 200;
  bool bad = false;
  if (scale && strcmp(scale, "small") == 0) last = 20;
  if (scale && strcmp(scale, "soak") == 0) last = 10000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seeds")) {
      char *more;
      first = last = strtoull(argv[i + 1], &more, 10);
      if (*more == '-') last = strtoull(more + 1, NULL, 10);
    }
    if (!strcmp(argv[i], "--break")) rule = argv[i + 1];
  }
  for (int i = 1; rule && i < DMI_TEAM_RULES; i++) {
    if (strcmp(rule, "all") == 0 || strcmp(rule, names[i]) == 0)
      bad = !hunt((enum dmi_team_rule)i, first, last) || bad;
  }
  if (rule) return bad;
  for (uint64_t seed = first; seed <= last; seed++)
    run(seed, DMI_TEAM_UNBROKEN, &t);
  printf("%" PRIu64 " seeds, sends %" PRIu64 ", receives %" PRIu64 ", offers %" PRIu64
         ", resets %" PRIu64 ", leaves %" PRIu64 ", losses %" PRIu64 ", joins %" PRIu64
         ", epochs %" PRIu64 ", released %" PRIu64 ", lost %" PRIu64 ", small %" PRIu64
         ", ahead %" PRIu64 ", resizes %" PRIu64 ", moves %" PRIu64 ", cut %" PRIu64 "\n",
         t.seeds, t.sends, t.receives, t.offers, t.resets, t.leaves, t.losses, t.joins, t.epochs,
         t.released, t.lost, t.small, t.ahead, t.resizes, t.moves, t.cut);
  return 0;
}
