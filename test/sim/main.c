/*
 * main.c - the simulator's command line: see docs/simulation.md.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static const struct {
  const char *name;
  enum dmi_break broken;
  enum dmi_handover_break handover;
} breaks[] = {
    {"RELEASE", DMI_BREAK_RELEASE, 0},
    {"ACK_WAIT", DMI_BREAK_ACK_WAIT, 0},
    {"INVALIDATE", DMI_BREAK_INVALIDATE, 0},
    {"FLOOR", DMI_BREAK_FLOOR, 0},
    {"POISON", DMI_BREAK_POISON, 0},
    {"PUTS", DMI_BREAK_PUTS, 0},
    {"GAP", DMI_BREAK_GAP, 0},
    {"FORWARD", DMI_BREAK_FORWARD, 0},
    {"COPYSET", DMI_BREAK_COPYSET, 0},
    {"STALE", DMI_BREAK_STALE, 0},
    {"AWAY", DMI_BREAK_AWAY, 0},
    {"TAILS", DMI_BREAK_TAILS, 0},
    {"TAKE", DMI_BREAK_TAKE, 0},
    {"LIST", DMI_BREAK_LIST, 0},
    {"LOOK", DMI_BREAK_LOOK, 0},
    {"MOVE", DMI_BREAK_MOVE, 0},
    {"TOLD", DMI_BREAK_TOLD, 0},
    {"DROP", DMI_BREAK_DROP, 0},
    {"LEAVER", DMI_BREAK_LEAVER, 0},
    {"REOFFER", DMI_BREAK_REOFFER, 0},
    {"STALL", DMI_BREAK_STALL, 0},
    {"BEHIND", DMI_BREAK_BEHIND, 0},
    {"REFUSE", DMI_BREAK_REFUSE, 0},
    {"RESERVE", DMI_BREAK_RESERVE, 0},
    {"RETURN", DMI_BREAK_RETURN, 0},
    {"SPILL", DMI_BREAK_SPILL, 0},
    {"DELEGATE", DMI_BREAK_DELEGATE, 0},
    {"AFTER", DMI_BREAK_AFTER, 0},
    {"DELEGATED", DMI_BREAK_DELEGATED, 0},
    {"DATA", DMI_BREAK_DATA, 0},
    {"DECIDE", DMI_BREAK_DECIDE, 0},
    {"DIRECT", DMI_BREAK_DIRECT, 0},
    {"HOME_END", 0, DMI_HBREAK_END},
    {"HOME_LIST", 0, DMI_HBREAK_LIST},
    {"HOME_RECORD", 0, DMI_HBREAK_RECORD},
    {"HOME_PAGES", 0, DMI_HBREAK_PAGES},
    {"HOME_DONE", 0, DMI_HBREAK_DONE},
    {"HOME_OWNED", 0, DMI_HBREAK_OWNED},
    {"HOME_COPY", 0, DMI_HBREAK_COPY},
    {"HOME_PARK", 0, DMI_HBREAK_PARK},
    {"HOME_REPLAY", 0, DMI_HBREAK_REPLAY},
    {"HOME_NEVER", 0, DMI_HBREAK_NEVER},
    {"HOME_LOOKUP", 0, DMI_HBREAK_LOOKUP},
    {"HOME_KEEP", 0, DMI_HBREAK_KEEP},
    {"HOME_HEIR", 0, DMI_HBREAK_HEIR},
    {"HOME_KILL", 0, DMI_HBREAK_KILL},
};
#define BREAKS (sizeof(breaks) / sizeof(breaks[0]))
_Static_assert(BREAKS == DMI_BREAK_LAST - 1 + DMI_HBREAK_LAST - 1, "each broken rule has a name");

/* The same for real pagers. */
static const struct {
  const char *name;
  enum dmi_pressure_break pressure;
  enum dmi_capacity_break capacity;
} pager_breaks[] = {
    {"PAGER_STALLED", DMI_PRESSURE_BREAK_STALLED, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_SETTLE", DMI_PRESSURE_BREAK_SETTLE, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_PATIENCE", DMI_PRESSURE_BREAK_PATIENCE, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_FOREVER", DMI_PRESSURE_BREAK_FOREVER, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_COPIES", DMI_PRESSURE_BREAK_COPIES, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_LEAVING", DMI_PRESSURE_BREAK_LEAVING, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_OPEN", DMI_PRESSURE_BREAK_OPEN, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_FULL", DMI_PRESSURE_BREAK_FULL, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_STEP", DMI_PRESSURE_BREAK_STEP, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_WATCH", DMI_PRESSURE_BREAK_WATCH, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_SPILLED", DMI_PRESSURE_BREAK_SPILLED, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_PROMISE", DMI_PRESSURE_BREAK_PROMISE, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_OTHERS", DMI_PRESSURE_BREAK_OTHERS, DMI_CAPACITY_BREAK_NOTHING},
    {"PAGER_ITSELF", DMI_PRESSURE_BREAK_ITSELF, DMI_CAPACITY_BREAK_NOTHING},
    {"ROOM_OWED", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_OWED},
    {"ROOM_REFUSED", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_REFUSED},
    {"ROOM_GIVE_UP", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_GIVE_UP},
    {"ROOM_GONE", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_GONE},
    {"ROOM_WORD", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_KNOWN},
    {"ROOM_HOLD", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_DEFER},
    {"ROOM_WHOLE", DMI_PRESSURE_BREAK_NOTHING, DMI_CAPACITY_BREAK_WHOLE},
};
#define PAGER_BREAKS (sizeof(pager_breaks) / sizeof(pager_breaks[0]))
_Static_assert(PAGER_BREAKS == DMI_PRESSURE_BREAK_LAST - 1 + DMI_CAPACITY_BREAK_LAST - 1,
               "each of them has a name here");

struct args {
  uint64_t first, last;
  bool broken; /* some rule is switched off */
  struct sim_options sim;
  bool hash, quiet;
};

static volatile uint64_t current_seed;

static void on_abort(int sig) {
  char text[64] = "seed ", digits[24];
  uint64_t seed = current_seed;
  size_t num = 0, at = 5;
  (void)sig;
  do {
    digits[num++] = (char)('0' + seed % 10);
    seed /= 10;
  } while (seed);
  while (num)
    text[at++] = digits[--num];
  memcpy(text + at, ": failed invariant\n", 20);
  if (write(2, text, at + 19) < 0) _exit(2);
}

static int usage(void) {
  fprintf(stderr,
          "usage: sim [--seeds A-B | --seed N] [--ops N] [--break RULE] [--hash] "
          "[--pagers] [--lax] [--quiet] [--verbose]\nRULE is one of");
  for (size_t i = 0; i < BREAKS; i++)
    fprintf(stderr, " %s", breaks[i].name);
  for (size_t i = 0; i < PAGER_BREAKS; i++)
    fprintf(stderr, " %s", pager_breaks[i].name);
  fprintf(stderr, "\n");
  return 2;
}

static bool parse_break(const char *name, struct args *args) {
  args->broken = true;
  for (size_t i = 0; i < BREAKS; i++) {
    if (strcmp(breaks[i].name, name) != 0) continue;
    args->sim.broken = breaks[i].broken;
    args->sim.handover = breaks[i].handover;
    return true;
  }
  for (size_t i = 0; i < PAGER_BREAKS; i++) {
    if (strcmp(pager_breaks[i].name, name) != 0) continue;
    args->sim.pressure_broken = pager_breaks[i].pressure;
    args->sim.capacity_broken = pager_breaks[i].capacity;
    args->sim.pagers = true;
    return true;
  }
  return false;
}

static bool parse(int argc, char **argv, struct args *args) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    char *end;
    if (!strcmp(argv[i], "--verbose")) {
      args->sim.verbose = true;
    } else if (!strcmp(argv[i], "--hash")) {
      args->hash = true;
    } else if (!strcmp(argv[i], "--lax")) {
      args->sim.lax = true;
    } else if (!strcmp(argv[i], "--pagers")) {
      args->sim.pagers = true;
    } else if (!strcmp(argv[i], "--quiet")) {
      args->quiet = true;
    } else if (!value) {
      return false;
    } else if (!strcmp(argv[i], "--seeds") || !strcmp(argv[i], "--seed")) {
      args->first = args->last = strtoull(argv[++i], &end, 10);
      if (*end == '-') args->last = strtoull(end + 1, &end, 10);
      if (*end) return false;
    } else if (!strcmp(argv[i], "--ops")) {
      args->sim.ops = strtoull(argv[++i], &end, 10);
    } else if (!strcmp(argv[i], "--break")) {
      if (!parse_break(argv[++i], args)) return false;
    } else {
      return false;
    }
  }
  return args->first <= args->last;
}

static void print_totals(const struct sim_totals *t, double seconds, uint64_t bad) {
  static const char *const kinds[] = {"reads", "writes", "cas",    "fas",    "fad",
                                      "user",  "try",    "signal", "ticket", "lock",
                                      "turn",  "arrive", "round",  "watch",  "no objects"};
  printf(
      "seeds %llu, operations %llu (%llu of several ranges, %llu at once, %llu failed by "
      "unmapping)\n ",
      (unsigned long long)t->seeds, (unsigned long long)t->ops, (unsigned long long)t->list_ops,
      (unsigned long long)t->fast_ops, (unsigned long long)t->failed_ops);
  for (int i = 0; i < HIST_DIFFERS; i++)
    printf(" %s %llu", kinds[i], (unsigned long long)t->by_kind[i]);
  printf(
      "\njoins %llu, leaves %llu, mappings %llu, unmapped %llu, owner moves %llu, "
      "copies dropped %llu, quiet points %llu\n",
      (unsigned long long)t->joins, (unsigned long long)t->leaves, (unsigned long long)t->maps,
      (unsigned long long)t->unmaps, (unsigned long long)t->moves, (unsigned long long)t->drops,
      (unsigned long long)t->quiets);
  printf(
      "messages %llu delivered, %llu to self, %llu parked, %llu dropped, %llu sent back; "
      "hops of one request at most %u (%u while nobody leaves)\n ",
      (unsigned long long)t->messages, (unsigned long long)t->self_messages,
      (unsigned long long)t->deferred, (unsigned long long)t->dropped,
      (unsigned long long)t->bounced, t->hops_max, t->hops_calm_max);
  for (uint32_t i = 1; i < DMI_MSG_NUMBERS; i++) {
    if (t->by_type[i]) printf(" %s %llu", sim_msg_name(i), (unsigned long long)t->by_type[i]);
  }
  printf("\n%llu operations waited, %llu waits ended by a kick, %llu given up",
         (unsigned long long)t->waited, (unsigned long long)t->kicks,
         (unsigned long long)t->abandoned);
  printf(
      "\nlittle room: %llu times none, %llu stalled, %llu refused, %llu pages offered, %llu kept, "
      "%llu spilled, "
      "%llu read back",
      (unsigned long long)t->no_capacity, (unsigned long long)t->stalls,
      (unsigned long long)t->refused, (unsigned long long)t->offers,
      (unsigned long long)t->refused_pages, (unsigned long long)t->spills,
      (unsigned long long)t->unspills);
  if (t->capacity_messages) {
    printf(
        "\nreal pagers: %llu messages about room, %llu operations failed for lack of it, %llu "
        "leaves "
        "refused, %llu pages too many for the file",
        (unsigned long long)t->capacity_messages, (unsigned long long)t->failed_for_capacity,
        (unsigned long long)t->leaves_refused, (unsigned long long)t->full);
  }
  printf("\n%llu checks of operations, %llu tries\n", (unsigned long long)t->checked,
         (unsigned long long)t->tries);
  printf("%.1f s, %.0f operations/s, violations %llu\n", seconds, (double)t->ops / seconds,
         (unsigned long long)bad);
}

static double now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A core with a broken rule may abort: each seed runs in a child, whose words are kept. */
static bool run_broken(uint64_t seed, const struct args *args, char *why, size_t capacity) {
  int fds[2], status;
  size_t got = 0;
  ssize_t num;
  if (pipe(fds) != 0) exit(2);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    struct sim_totals totals = {0};
    dup2(fds[1], 2);
    close(fds[0]);
    close(fds[1]);
    signal(SIGABRT, SIG_DFL);
    alarm(60);
    _exit(sim_run(seed, &args->sim, &totals, NULL) ? 0 : 1);
  }
  close(fds[1]);
  while ((num = read(fds[0], why + got, capacity - 1 - got)) > 0) {
    got += (size_t)num;
    if (got > capacity / 2) { /* the end says most */
      memmove(why, why + got - capacity / 4, capacity / 4);
      got = capacity / 4;
    }
  }
  why[got] = 0;
  close(fds[0]);
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) snprintf(why + got, capacity - got, "signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Success is to be caught. */
static int hunt(const struct args *args) {
  static char why[65536];
  for (uint64_t seed = args->first; seed <= args->last; seed++) {
    if (run_broken(seed, args, why, sizeof(why))) continue;
    printf("caught by seed %llu, the %llu. run:\n%s", (unsigned long long)seed,
           (unsigned long long)(seed - args->first + 1), why);
    return 1;
  }
  printf("not caught in %llu runs\n", (unsigned long long)(args->last - args->first + 1));
  return 0;
}

int main(int argc, char **argv) {
  struct args args = {.first = 1, .last = 20, .sim = {.ops = 10000}};
  struct sim_totals totals = {0};
  uint64_t bad = 0, hash = 0, all = 0;
  double start = now();
  const char *scale = getenv("DMI_TEST_SCALE");
  if (scale && !strcmp(scale, "small")) args.last = 4;
  if (scale && !strcmp(scale, "soak")) args.last = 200;
  if (!parse(argc, argv, &args)) return usage();
  if (args.broken) return hunt(&args);
  signal(SIGABRT, on_abort);
  for (uint64_t seed = args.first; seed <= args.last && !bad; seed++) {
    current_seed = seed;
    if (!sim_run(seed, &args.sim, &totals, &hash)) bad++;
    all = (all ^ hash) * 0x100000001b3u;
  }
  if (args.hash) printf("hash %016llx\n", (unsigned long long)all);
  if (!args.quiet) print_totals(&totals, now() - start, bad);
  return bad != 0;
}
