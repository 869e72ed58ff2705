/*
 * remote_sim.c - runs of remote functions, one for each seed; and what notices a broken rule.
 *
 *   remote_sim [--seeds A-B | --seed N] [--calls N] [--break RULE|all] [--verbose]
 *
 * In runs with odd seeds processes are lost.  Checked: each call is fired once, or again only after
 * a loss; a function gets the right bytes, and so does who reads a value; a pool is below its
 * limit; no machine refuses a message; a value that is found lost is; no page is freed twice; when
 * nothing moves any more, all is done; in the end nothing is left anywhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote_sim.h"

void sim_wrong(struct world *world, const char *format, ...) {
  va_list args;
  if (world->failed[0]) return;
  va_start(args, format);
  vsnprintf(world->failed, sizeof(world->failed), format, args);
  va_end(args);
}

/* ---- A run ---------------------------------------------------------------------------------- */

/* Some process, not a fixed one, that lives.  NULL: none was found. */
static struct process *any(struct world *world) {
  struct process *process = &world->process[rng_range(&world->rng, 1, world->last_uid)];
  return process->state == P_GONE || process->fixed ? NULL : process;
}

static uint32_t living(const struct world *world) {
  uint32_t num = 0;
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++)
    num += world->process[uid].state == P_LIVE;
  return num;
}

static void members_change(struct world *world) {
  uint32_t what = rng_below(&world->rng, world->survive ? 3 : 2);
  struct process *process = any(world);
  if (what == 0 && world->last_uid + 1 < PROCESSES && living(world) < 6) {
    proc_join(world, false);
  } else if (what == 1 && process && process->state == P_LIVE) {
    proc_leave(world, process);
  } else if (what == 2 && process) {
    proc_crash(world, process, false);
  }
}

static struct program *some_program(struct world *world) {
  struct program *program = world->programs;
  uint32_t num = 0;
  for (; program; program = program->next)
    num++;
  if (!num) return NULL;
  num = rng_below(&world->rng, num);
  for (program = world->programs; num; num--)
    program = program->next;
  return program;
}

static bool all_closed(const struct world *world) {
  for (const struct program *program = world->programs; program; program = program->next) {
    if (!program->closed) return false;
  }
  return true;
}

/* A step of anything.  False: nothing can move. */
static bool step(struct world *world) {
  struct program *program;
  for (int tries = 0; tries < 200; tries++) {
    uint32_t what = rng_below(&world->rng, 100);
    if (what < world->speed[0] && world->busy_num) {
      net_deliver(world);
      return true;
    }
    if (what >= world->speed[1] && world->job_num) {
      job_step(world);
      return true;
    }
    program = some_program(world);
    if (program && prog_step(world, program)) return true;
    if (proc_part(world)) return true;
  }
  return world->busy_num || world->job_num;
}

static void check_end(struct world *world) {
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++) {
    const struct process *process = &world->process[uid];
    struct dmi_remote_pool_counts counts;
    if (process->state == P_GONE) continue;
    counts = dmi_remote_pool_counts(process->pool);
    if (counts.calls || counts.values || counts.made || counts.used || counts.carried ||
        counts.running || process->buffers)
      sim_wrong(world,
                "in the end pool %u has %" PRIu64 " calls, %" PRIu64 " values, %" PRIu64
                " made, %" PRIu64 " bytes",
                uid, counts.calls, counts.values, counts.made, counts.used);
    for (size_t i = 0; i < process->page_num; i++) {
      if (process->pages[i].used) sim_wrong(world, "a page of process %u is left", uid);
    }
  }
}

static void begin(struct world *world, uint64_t seed) {
  uint32_t clients;
  rng_seed(&world->rng, seed);
  world->survive = seed % 2;
  world->forgets = world->survive && rng_once_in(&world->rng, 6);
  world->carries = seed / 2 % 2;
  world->fatal = world->survive && rng_once_in(&world->rng, 4);
  world->newest = rng_below(&world->rng, 2);
  world->limited = rng_below(&world->rng, 2);
  world->fails = rng_once_in(&world->rng, 3);
  world->speed[0] = rng_range(&world->rng, 10, 70);                  /* messages */
  world->speed[1] = rng_range(&world->rng, world->speed[0] + 5, 95); /* programs; then jobs */
  clients = rng_range(&world->rng, 1, 2);
  for (uint32_t i = rng_range(&world->rng, 1, 4); i > 0; i--)
    proc_join(world, !world->last_uid || rng_once_in(&world->rng, 4));
  while (!world->process[1].heard[1].uid) /* which can hold any call */
    net_deliver(world);
  for (uint32_t i = 0; i < clients; i++)
    prog_open(world, &world->process[1], (uint32_t)world->options->calls / clients, NULL, 0);
}

static void end(struct world *world) {
  while (world->programs)
    prog_forget(world, world->programs);
  for (dmi_uid_t uid = 1; uid <= world->last_uid; uid++)
    proc_free(world, &world->process[uid]);
  for (size_t from = 0; from < PROCESSES; from++) {
    for (size_t to = 0; to < PROCESSES; to++)
      net_free_channel(world, &world->channel[from][to]);
  }
  free(world->busy);
  free(world->jobs);
}

/* False: something was wrong. */
static bool run(uint64_t seed, const struct options *options, struct totals *totals) {
  struct world *world = calloc(1, sizeof(*world));
  const struct program *program;
  uint32_t often;
  uint64_t steps = 0, most = 2000 * options->calls + 100000;
  bool good;
  world->options = options;
  world->totals = totals;
  begin(world, seed);
  often = rng_range(&world->rng, 100, 4000);
  while (!world->failed[0] && !(all_closed(world) && !world->busy_num && !world->job_num)) {
    if (rng_once_in(&world->rng, often)) members_change(world);
    if (!step(world)) sim_wrong(world, "nothing moves, and not all is done");
    if (++steps > most) sim_wrong(world, "it does not end");
  }
  if (!world->failed[0]) check_end(world);
  for (program = world->programs; world->failed[0] && options->verbose && program;
       program = program->next)
    prog_print(program);
  totals->seeds++;
  good = !world->failed[0];
  if (!good) fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, world->failed);
  end(world);
  free(world);
  return good;
}

/* ---- Broken rules --------------------------------------------------------------------------- */

static const struct rule {
  const char *name;
  enum dmi_remote_pool_break pool;
  enum dmi_remote_book_break book;
} rules[] = {
    {"POOL_EARLY", DMI_REMOTE_BREAK_EARLY, 0},
    {"POOL_LATE", DMI_REMOTE_BREAK_LATE, 0},
    {"POOL_AHEAD", DMI_REMOTE_BREAK_AHEAD, 0},
    {"POOL_GEN", DMI_REMOTE_BREAK_GEN, 0},
    {"POOL_LIMIT", DMI_REMOTE_BREAK_LIMIT, 0},
    {"POOL_WAITS", DMI_REMOTE_BREAK_WAITS, 0},
    {"POOL_REFUSE", DMI_REMOTE_BREAK_REFUSE, 0},
    {"POOL_UNFIRED", DMI_REMOTE_BREAK_UNFIRED, 0},
    {"POOL_TOLD", DMI_REMOTE_BREAK_TOLD, 0},
    {"POOL_STALE", DMI_REMOTE_BREAK_STALE, 0},
    {"POOL_KEEP", DMI_REMOTE_BREAK_KEEP, 0},
    {"POOL_POISON", DMI_REMOTE_BREAK_POISON, 0},
    {"POOL_RETIRE", DMI_REMOTE_BREAK_RETIRE, 0},
    {"BOOK_NEEDS", 0, DMI_REMOTE_BOOK_BREAK_NEEDS},
    {"BOOK_DROP", 0, DMI_REMOTE_BOOK_BREAK_DROP},
    {"BOOK_WANT", 0, DMI_REMOTE_BOOK_BREAK_WANT},
    {"BOOK_TELL", 0, DMI_REMOTE_BOOK_BREAK_TELL},
    {"BOOK_REPLACE", 0, DMI_REMOTE_BOOK_BREAK_REPLACE},
    {"BOOK_ADDR", 0, DMI_REMOTE_BOOK_BREAK_ADDR},
    {"BOOK_LINEAGE", 0, DMI_REMOTE_BOOK_BREAK_LINEAGE},
    {"BOOK_DEEP", 0, DMI_REMOTE_BOOK_BREAK_DEEP},
    {"BOOK_SPARE", 0, DMI_REMOTE_BOOK_BREAK_SPARE},
    {"BOOK_GEN", 0, DMI_REMOTE_BOOK_BREAK_GEN},
    {"BOOK_CLOSED", 0, DMI_REMOTE_BOOK_BREAK_CLOSED},
    {"BOOK_STEAL", 0, DMI_REMOTE_BOOK_BREAK_STEAL},
    {"BOOK_FATAL", 0, DMI_REMOTE_BOOK_BREAK_FATAL},
    {"BOOK_POISON", 0, DMI_REMOTE_BOOK_BREAK_POISON},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))
_Static_assert(RULES == DMI_REMOTE_BREAK_LAST - 1 + DMI_REMOTE_BOOK_BREAK_LAST - 1,
               "each rule has a name here");

/* A broken machine may abort: so each seed runs in a child.  True: something was noticed. */
static bool notices(uint64_t seed, const struct options *options, char *why, size_t size) {
  int fds[2], status;
  ssize_t got;
  pid_t pid;
  if (pipe(fds) != 0) exit(2);
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    struct totals totals = {0};
    dup2(fds[1], 2);
    close(fds[0]);
    alarm(60);
    _exit(run(seed, options, &totals) ? 0 : 1);
  }
  close(fds[1]);
  got = read(fds[0], why, size - 1);
  why[got > 0 ? got : 0] = 0;
  close(fds[0]);
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status) && got <= 0) snprintf(why, size, "signal %d\n", WTERMSIG(status));
  return status != 0;
}

/* True: it was noticed in time. */
static bool hunt(const struct rule *rule, struct options options, uint64_t first, uint64_t last) {
  static char why[4096];
  options.pool_break = rule->pool;
  options.book_break = rule->book;
  for (uint64_t seed = first; seed <= last; seed++) {
    if (!notices(seed, &options, why, sizeof(why))) continue;
    printf("without %s: run %" PRIu64 ": %s", rule->name, seed - first + 1, why);
    return true;
  }
  printf("without %s: not noticed in %" PRIu64 " runs\n", rule->name, last - first + 1);
  return false;
}

/* ---- The program ---------------------------------------------------------------------------- */

static void print(const struct totals *t) {
  printf("%" PRIu64 " seeds, calls %" PRIu64 ", fired %" PRIu64 ", done again %" PRIu64
         ", joins %" PRIu64 ", leaves %" PRIu64 ", losses %" PRIu64 " (%" PRIu64
         " pages)\nsteals %" PRIu64 ", stolen %" PRIu64 ", returned %" PRIu64 ", messages %" PRIu64
         " (%" PRIu64 " wants, %" PRIu64 " told by clients, %" PRIu64
         " brought bytes), reads %" PRIu64 " (%" PRIu64 " failed, %" PRIu64 " lost, %" PRIu64
         " given up), nested clients %" PRIu64 ", closed early %" PRIu64
         ", most bytes below a limit %" PRIu64 "\n",
         t->seeds, t->calls, t->fired, t->again, t->joins, t->leaves, t->losses, t->lost_pages,
         t->steals, t->stolen, t->returned, t->messages, t->wants, t->told, t->carried, t->reads,
         t->failed, t->given_up, t->fatal, t->nested, t->early, t->peak);
}

int main(int argc, char **argv) {
  struct options options = {.calls = 1000};
  struct totals totals = {0};
  const char *scale = getenv("DMI_TEST_SCALE"), *rule = NULL;
  uint64_t first = 1, last = 40;
  bool bad = false;
  if (scale && strcmp(scale, "small") == 0) last = 8;
  if (scale && strcmp(scale, "soak") == 0) last = 1000;
  for (int i = 1; i < argc; i += 2) {
    if (!strcmp(argv[i], "--verbose")) {
      options.verbose = true;
      i--;
      continue;
    }
    if (i + 1 == argc) return 2;
    if (!strcmp(argv[i], "--seeds") || !strcmp(argv[i], "--seed")) {
      char *more;
      first = last = strtoull(argv[i + 1], &more, 10);
      if (*more == '-') last = strtoull(more + 1, NULL, 10);
    }
    if (!strcmp(argv[i], "--calls")) options.calls = strtoull(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--break")) rule = argv[i + 1];
  }
  for (size_t i = 0; rule && i < RULES; i++) {
    if (strcmp(rule, "all") == 0 || strcmp(rule, rules[i].name) == 0)
      bad = !hunt(&rules[i], options, first, last) || bad;
  }
  if (rule) return bad;
  for (uint64_t seed = first; seed <= last && !bad; seed++)
    bad = !run(seed, &options, &totals);
  print(&totals);
  return bad;
}
