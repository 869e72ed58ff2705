/*
 * node_main.c - the command line of the simulator of whole nodes: see docs/simulation.md.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node_sim.h"

enum side { PAGE, MEMBER, ROOM, HANDOVER, PRESSURE };

static const struct {
  const char *name;
  enum side side;
  int broken;
} breaks[] = {
    {"RELEASE", PAGE, DMI_BREAK_RELEASE},
    {"ACK_WAIT", PAGE, DMI_BREAK_ACK_WAIT},
    {"INVALIDATE", PAGE, DMI_BREAK_INVALIDATE},
    {"FLOOR", PAGE, DMI_BREAK_FLOOR},
    {"POISON", PAGE, DMI_BREAK_POISON},
    {"PUTS", PAGE, DMI_BREAK_PUTS},
    {"GAP", PAGE, DMI_BREAK_GAP},
    {"FORWARD", PAGE, DMI_BREAK_FORWARD},
    {"COPYSET", PAGE, DMI_BREAK_COPYSET},
    {"STALE", PAGE, DMI_BREAK_STALE},
    {"AWAY", PAGE, DMI_BREAK_AWAY},
    {"TAILS", PAGE, DMI_BREAK_TAILS},
    {"TAKE", PAGE, DMI_BREAK_TAKE},
    {"LIST", PAGE, DMI_BREAK_LIST},
    {"LOOK", PAGE, DMI_BREAK_LOOK},
    {"MOVE", PAGE, DMI_BREAK_MOVE},
    {"TOLD", PAGE, DMI_BREAK_TOLD},
    {"DROP", PAGE, DMI_BREAK_DROP},
    {"LEAVER", PAGE, DMI_BREAK_LEAVER},
    {"REOFFER", PAGE, DMI_BREAK_REOFFER},
    {"STALL", PAGE, DMI_BREAK_STALL},
    {"BEHIND", PAGE, DMI_BREAK_BEHIND},
    {"REFUSE", PAGE, DMI_BREAK_REFUSE},
    {"RESERVE", PAGE, DMI_BREAK_RESERVE},
    {"RETURN", PAGE, DMI_BREAK_RETURN},
    {"SPILL", PAGE, DMI_BREAK_SPILL},
    {"DELEGATE", PAGE, DMI_BREAK_DELEGATE},
    {"AFTER", PAGE, DMI_BREAK_AFTER},
    {"DELEGATED", PAGE, DMI_BREAK_DELEGATED},
    {"DATA", PAGE, DMI_BREAK_DATA},
    {"DECIDE", PAGE, DMI_BREAK_DECIDE},
    {"DIRECT", PAGE, DMI_BREAK_DIRECT},
    {"MEMBER_TAKEN", MEMBER, DMI_MBREAK_TAKEN},
    {"MEMBER_HEIR", MEMBER, DMI_MBREAK_HEIR},
    {"MEMBER_PARK", MEMBER, DMI_MBREAK_DEFER},
    {"MEMBER_POLLS", MEMBER, DMI_MBREAK_POLLS},
    {"MEMBER_BYE", MEMBER, DMI_MBREAK_LAST_REQUEST},
    {"MEMBER_LAST_OK", MEMBER, DMI_MBREAK_FLUSHED},
    {"MEMBER_BUSY", MEMBER, DMI_MBREAK_BUSY},
    {"MEMBER_OPENED", MEMBER, DMI_MBREAK_OPENED},
    {"MEMBER_UID", MEMBER, DMI_MBREAK_UID},
    {"MEMBER_UNMAP", MEMBER, DMI_MBREAK_UNMAP},
    {"MEMBER_ADOPT", MEMBER, DMI_MBREAK_ADOPT},
    {"MEMBER_FORGOT", MEMBER, DMI_MBREAK_FORGOT},
    {"MEMBER_LEFT", MEMBER, DMI_MBREAK_LEFT},
    {"MEMBER_AWAITS", MEMBER, DMI_MBREAK_AWAITS},
    {"MEMBER_ROLE", MEMBER, DMI_MBREAK_ROLE},
    {"MEMBER_LOST", MEMBER, DMI_MBREAK_LOST},
    {"MEMBER_ROOM", MEMBER, DMI_MBREAK_RETRY},
    {"MEMBER_ROOMED", MEMBER, DMI_MBREAK_RETRIED},
    {"ROOM_OWED", ROOM, DMI_CAPACITY_BREAK_OWED},
    {"ROOM_REFUSED", ROOM, DMI_CAPACITY_BREAK_REFUSED},
    {"ROOM_GIVE_UP", ROOM, DMI_CAPACITY_BREAK_GIVE_UP},
    {"ROOM_GONE", ROOM, DMI_CAPACITY_BREAK_GONE},
    {"ROOM_WORD", ROOM, DMI_CAPACITY_BREAK_KNOWN},
    {"ROOM_HOLD", ROOM, DMI_CAPACITY_BREAK_DEFER},
    {"ROOM_WHOLE", ROOM, DMI_CAPACITY_BREAK_WHOLE},
    {"HOME_END", HANDOVER, DMI_HBREAK_END},
    {"HOME_LIST", HANDOVER, DMI_HBREAK_LIST},
    {"HOME_RECORD", HANDOVER, DMI_HBREAK_RECORD},
    {"HOME_PAGES", HANDOVER, DMI_HBREAK_PAGES},
    {"HOME_DONE", HANDOVER, DMI_HBREAK_DONE},
    {"HOME_OWNED", HANDOVER, DMI_HBREAK_OWNED},
    {"HOME_COPY", HANDOVER, DMI_HBREAK_COPY},
    {"HOME_PARK", HANDOVER, DMI_HBREAK_PARK},
    {"HOME_REPLAY", HANDOVER, DMI_HBREAK_REPLAY},
    {"HOME_NEVER", HANDOVER, DMI_HBREAK_NEVER},
    {"HOME_LOOKUP", HANDOVER, DMI_HBREAK_LOOKUP},
    {"HOME_KEEP", HANDOVER, DMI_HBREAK_KEEP},
    {"HOME_HEIR", HANDOVER, DMI_HBREAK_HEIR},
    {"HOME_KILL", HANDOVER, DMI_HBREAK_KILL},
    {"PAGER_STALLED", PRESSURE, DMI_PRESSURE_BREAK_STALLED},
    {"PAGER_SETTLE", PRESSURE, DMI_PRESSURE_BREAK_SETTLE},
    {"PAGER_PATIENCE", PRESSURE, DMI_PRESSURE_BREAK_PATIENCE},
    {"PAGER_FOREVER", PRESSURE, DMI_PRESSURE_BREAK_FOREVER},
    {"PAGER_COPIES", PRESSURE, DMI_PRESSURE_BREAK_COPIES},
    {"PAGER_LEAVING", PRESSURE, DMI_PRESSURE_BREAK_LEAVING},
    {"PAGER_OPEN", PRESSURE, DMI_PRESSURE_BREAK_OPEN},
    {"PAGER_FULL", PRESSURE, DMI_PRESSURE_BREAK_FULL},
    {"PAGER_STEP", PRESSURE, DMI_PRESSURE_BREAK_STEP},
    {"PAGER_WATCH", PRESSURE, DMI_PRESSURE_BREAK_WATCH},
    {"PAGER_SPILLED", PRESSURE, DMI_PRESSURE_BREAK_SPILLED},
    {"PAGER_PROMISE", PRESSURE, DMI_PRESSURE_BREAK_PROMISE},
    {"PAGER_OTHERS", PRESSURE, DMI_PRESSURE_BREAK_OTHERS},
    {"PAGER_ITSELF", PRESSURE, DMI_PRESSURE_BREAK_ITSELF},
};
#define BREAKS (sizeof(breaks) / sizeof(breaks[0]))
_Static_assert(BREAKS == DMI_BREAK_LAST - 1 + DMI_MBREAK_LAST_KIND - 1 + DMI_CAPACITY_BREAK_LAST -
                             1 + DMI_HBREAK_LAST - 1 + DMI_PRESSURE_BREAK_LAST - 1,
               "each broken rule has a name here");

struct args {
  uint64_t first, last;
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
          "usage: node_sim [--seeds A-B | --seed N] [--ops N] [--break RULE] [--hash] "
          "[--lax] [--quiet] [--verbose]\nRULE is one of");
  for (size_t i = 0; i < BREAKS; i++)
    fprintf(stderr, " %s", breaks[i].name);
  fprintf(stderr, "\n");
  return 2;
}

static void set_break(struct sim_options *options, enum side side, int broken) {
  options->broken = true;
  if (side == PAGE) options->page_break = (enum dmi_break)broken;
  if (side == MEMBER) options->member_break = (enum dmi_member_break)broken;
  if (side == ROOM) options->capacity_break = (enum dmi_capacity_break)broken;
  if (side == HANDOVER) options->handover_break = (enum dmi_handover_break)broken;
  if (side == PRESSURE) options->pressure_break = (enum dmi_pressure_break)broken;
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
      size_t b = 0;
      i++;
      while (b < BREAKS && strcmp(breaks[b].name, argv[i]) != 0)
        b++;
      if (b == BREAKS) return false;
      set_break(&args->sim, breaks[b].side, breaks[b].broken);
    } else {
      return false;
    }
  }
  return args->first <= args->last;
}

#define N(field) (unsigned long long)t->field

static void print_members(const struct sim_totals *t) {
  printf(
      "\njoins %llu, leaves %llu, lost %llu, stopped for long %llu, handovers of the role %llu, "
      "views taken %llu, notices %llu, calls %llu\n",
      N(joins), N(leaves), N(kills), N(freezes), N(handovers), N(views), N(notices), N(calls));
  printf("mappings %llu, unmapped %llu, owner moves %llu, copies dropped %llu, quiet points %llu\n",
         N(maps), N(unmaps), N(moves), N(drops), N(quiets));
  printf(
      "messages %llu delivered, %llu to self, %llu parked, %llu dropped, %llu sent back; "
      "hops of one request at most %u (%u while nobody leaves)\n",
      N(messages), N(self_messages), N(deferred), N(dropped), N(bounced), t->hops_max,
      t->hops_calm_max);
  printf("%llu operations waited, %llu waits ended by a kick\n", N(waited), N(kicks));
  printf(
      "little room: %llu times none, %llu stalled, %llu refused, %llu pages offered, %llu kept, "
      "%llu spilled, %llu read back, %llu times the file was full; %llu waits given up",
      N(no_capacity), N(stalls), N(refused), N(offers), N(refused_pages), N(spills), N(unspills),
      N(full), N(given_up));
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
  print_members(t);
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
  if (args.sim.broken) return hunt(&args);
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
