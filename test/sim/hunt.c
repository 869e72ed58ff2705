/*
 * hunt.c - the command line of the simulators: see docs/simulation.md.
 *
 *   SIMULATOR [--seeds A-B | --seed N] [--ops N] [--break RULE] ...
 *
 * Runs seeds until one is bad; with --break RULE, until a run without that rule is bad.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hunt.h"
#include "msg/wire.h"

static const struct {
  const char *name;
  enum hunt_side side;
  int rule;
} breaks[] = {
    {"RELEASE", HUNT_PAGE, DMI_BREAK_RELEASE},
    {"ACK_WAIT", HUNT_PAGE, DMI_BREAK_ACK_WAIT},
    {"INVALIDATE", HUNT_PAGE, DMI_BREAK_INVALIDATE},
    {"FLOOR", HUNT_PAGE, DMI_BREAK_FLOOR},
    {"POISON", HUNT_PAGE, DMI_BREAK_POISON},
    {"PUTS", HUNT_PAGE, DMI_BREAK_PUTS},
    {"GAP", HUNT_PAGE, DMI_BREAK_GAP},
    {"FORWARD", HUNT_PAGE, DMI_BREAK_FORWARD},
    {"COPYSET", HUNT_PAGE, DMI_BREAK_COPYSET},
    {"STALE", HUNT_PAGE, DMI_BREAK_STALE},
    {"AWAY", HUNT_PAGE, DMI_BREAK_AWAY},
    {"TAILS", HUNT_PAGE, DMI_BREAK_TAILS},
    {"TAKE", HUNT_PAGE, DMI_BREAK_TAKE},
    {"LIST", HUNT_PAGE, DMI_BREAK_LIST},
    {"LOOK", HUNT_PAGE, DMI_BREAK_LOOK},
    {"MOVE", HUNT_PAGE, DMI_BREAK_MOVE},
    {"TOLD", HUNT_PAGE, DMI_BREAK_TOLD},
    {"DROP", HUNT_PAGE, DMI_BREAK_DROP},
    {"LEAVER", HUNT_PAGE, DMI_BREAK_LEAVER},
    {"REOFFER", HUNT_PAGE, DMI_BREAK_REOFFER},
    {"STALL", HUNT_PAGE, DMI_BREAK_STALL},
    {"BEHIND", HUNT_PAGE, DMI_BREAK_BEHIND},
    {"REFUSE", HUNT_PAGE, DMI_BREAK_REFUSE},
    {"RESERVE", HUNT_PAGE, DMI_BREAK_RESERVE},
    {"RETURN", HUNT_PAGE, DMI_BREAK_RETURN},
    {"SPILL", HUNT_PAGE, DMI_BREAK_SPILL},
    {"EARLY", HUNT_PAGE, DMI_BREAK_EARLY},
    {"DELEGATE", HUNT_PAGE, DMI_BREAK_DELEGATE},
    {"AFTER", HUNT_PAGE, DMI_BREAK_AFTER},
    {"DELEGATED", HUNT_PAGE, DMI_BREAK_DELEGATED},
    {"DATA", HUNT_PAGE, DMI_BREAK_DATA},
    {"DECIDE", HUNT_PAGE, DMI_BREAK_DECIDE},
    {"DIRECT", HUNT_PAGE, DMI_BREAK_DIRECT},
    {"CRASH_FREEZE", HUNT_CRASH, DMI_BREAK_FREEZE},
    {"CRASH_CUT", HUNT_CRASH, DMI_BREAK_CUT},
    {"CRASH_GRANT", HUNT_CRASH, DMI_BREAK_GRANT},
    {"CRASH_BACK", HUNT_CRASH, DMI_BREAK_BACK},
    {"CRASH_EXACT", HUNT_CRASH, DMI_BREAK_EXACT},
    {"CRASH_WAITS", HUNT_CRASH, DMI_BREAK_WAITS},
    {"CRASH_STALEKEPT", HUNT_CRASH, DMI_BREAK_STALE_KEPT},
    {"CRASH_FLOORKEPT", HUNT_CRASH, DMI_BREAK_FLOOR_KEPT},
    {"CRASH_DROPEARLY", HUNT_CRASH, DMI_BREAK_DROP_EARLY},
    {"CRASH_DOUBT", HUNT_CRASH, DMI_BREAK_DOUBT},
    {"CRASH_REVIVE", HUNT_CRASH, DMI_BREAK_REVIVE},
    {"CRASH_TELLERS", HUNT_CRASH, DMI_BREAK_TELLERS},
    {"MEMBER_TAKEN", HUNT_MEMBER, DMI_MBREAK_TAKEN},
    {"MEMBER_HEIR", HUNT_MEMBER, DMI_MBREAK_HEIR},
    {"MEMBER_DEFER", HUNT_MEMBER, DMI_MBREAK_DEFER},
    {"MEMBER_POLLS", HUNT_MEMBER, DMI_MBREAK_POLLS},
    {"MEMBER_LAST_REQUEST", HUNT_MEMBER, DMI_MBREAK_LAST_REQUEST},
    {"MEMBER_FLUSHED", HUNT_MEMBER, DMI_MBREAK_FLUSHED},
    {"MEMBER_BUSY", HUNT_MEMBER, DMI_MBREAK_BUSY},
    {"MEMBER_OPENED", HUNT_MEMBER, DMI_MBREAK_OPENED},
    {"MEMBER_VOTE", HUNT_MEMBER, DMI_MBREAK_VOTE},
    {"MEMBER_LEASE", HUNT_MEMBER, DMI_MBREAK_LEASE},
    {"MEMBER_UID", HUNT_MEMBER, DMI_MBREAK_UID},
    {"MEMBER_UNMAP", HUNT_MEMBER, DMI_MBREAK_UNMAP},
    {"MEMBER_ADOPT", HUNT_MEMBER, DMI_MBREAK_ADOPT},
    {"MEMBER_FORGOT", HUNT_MEMBER, DMI_MBREAK_FORGOT},
    {"MEMBER_LEFT", HUNT_MEMBER, DMI_MBREAK_LEFT},
    {"MEMBER_AWAITS", HUNT_MEMBER, DMI_MBREAK_AWAITS},
    {"MEMBER_ROLE", HUNT_MEMBER, DMI_MBREAK_ROLE},
    {"MEMBER_LOST", HUNT_MEMBER, DMI_MBREAK_LOST},
    {"MEMBER_RETRY", HUNT_MEMBER, DMI_MBREAK_RETRY},
    {"MEMBER_RETRIED", HUNT_MEMBER, DMI_MBREAK_RETRIED},
    {"CAPACITY_OWED", HUNT_CAPACITY, DMI_CAPACITY_BREAK_OWED},
    {"CAPACITY_REFUSED", HUNT_CAPACITY, DMI_CAPACITY_BREAK_REFUSED},
    {"CAPACITY_GIVE_UP", HUNT_CAPACITY, DMI_CAPACITY_BREAK_GIVE_UP},
    {"CAPACITY_GONE", HUNT_CAPACITY, DMI_CAPACITY_BREAK_GONE},
    {"CAPACITY_KNOWN", HUNT_CAPACITY, DMI_CAPACITY_BREAK_KNOWN},
    {"CAPACITY_DEFER", HUNT_CAPACITY, DMI_CAPACITY_BREAK_DEFER},
    {"CAPACITY_WHOLE", HUNT_CAPACITY, DMI_CAPACITY_BREAK_WHOLE},
    {"HOME_END", HUNT_HANDOVER, DMI_HBREAK_END},
    {"HOME_LIST", HUNT_HANDOVER, DMI_HBREAK_LIST},
    {"HOME_RECORD", HUNT_HANDOVER, DMI_HBREAK_RECORD},
    {"HOME_PAGES", HUNT_HANDOVER, DMI_HBREAK_PAGES},
    {"HOME_DONE", HUNT_HANDOVER, DMI_HBREAK_DONE},
    {"HOME_OWNED", HUNT_HANDOVER, DMI_HBREAK_OWNED},
    {"HOME_COPY", HUNT_HANDOVER, DMI_HBREAK_COPY},
    {"HOME_DEFER", HUNT_HANDOVER, DMI_HBREAK_DEFER},
    {"HOME_REPLAY", HUNT_HANDOVER, DMI_HBREAK_REPLAY},
    {"HOME_NEVER", HUNT_HANDOVER, DMI_HBREAK_NEVER},
    {"HOME_LOOKUP", HUNT_HANDOVER, DMI_HBREAK_LOOKUP},
    {"HOME_REFUSED", HUNT_HANDOVER, DMI_HBREAK_REFUSED},
    {"HOME_HEIR", HUNT_HANDOVER, DMI_HBREAK_HEIR},
    {"HOME_KILL", HUNT_HANDOVER, DMI_HBREAK_KILL},
    {"PAGER_STALLED", HUNT_PRESSURE, DMI_PRESSURE_BREAK_STALLED},
    {"PAGER_SETTLE", HUNT_PRESSURE, DMI_PRESSURE_BREAK_SETTLE},
    {"PAGER_PATIENCE", HUNT_PRESSURE, DMI_PRESSURE_BREAK_PATIENCE},
    {"PAGER_FOREVER", HUNT_PRESSURE, DMI_PRESSURE_BREAK_FOREVER},
    {"PAGER_COPIES", HUNT_PRESSURE, DMI_PRESSURE_BREAK_COPIES},
    {"PAGER_LEAVING", HUNT_PRESSURE, DMI_PRESSURE_BREAK_LEAVING},
    {"PAGER_OPEN", HUNT_PRESSURE, DMI_PRESSURE_BREAK_OPEN},
    {"PAGER_FULL", HUNT_PRESSURE, DMI_PRESSURE_BREAK_FULL},
    {"PAGER_STEP", HUNT_PRESSURE, DMI_PRESSURE_BREAK_STEP},
    {"PAGER_WATCH", HUNT_PRESSURE, DMI_PRESSURE_BREAK_WATCH},
    {"PAGER_SPILLED", HUNT_PRESSURE, DMI_PRESSURE_BREAK_SPILLED},
    {"PAGER_PROMISE", HUNT_PRESSURE, DMI_PRESSURE_BREAK_PROMISE},
    {"PAGER_OTHERS", HUNT_PRESSURE, DMI_PRESSURE_BREAK_OTHERS},
    {"PAGER_ITSELF", HUNT_PRESSURE, DMI_PRESSURE_BREAK_ITSELF},
    {"PAGER_BEFORE", HUNT_PRESSURE, DMI_PRESSURE_BREAK_BEFORE},
    {"AGREE_NO_BALLOT", HUNT_AGREE, DMI_PULSE_BREAK_NO_BALLOT},
    {"AGREE_NO_ADOPT", HUNT_AGREE, DMI_PULSE_BREAK_NO_ADOPT},
    {"AGREE_BY_NUMBER", HUNT_AGREE, DMI_PULSE_BREAK_BY_NUMBER},
    {"AGREE_NEWEST_VIEW_ONLY", HUNT_AGREE, DMI_PULSE_BREAK_NEWEST_VIEW_ONLY},
    {"AGREE_DEAD_NOT_COUNTED", HUNT_AGREE, DMI_PULSE_BREAK_DEAD_NOT_COUNTED},
    {"AGREE_NO_LEASE", HUNT_AGREE, DMI_PULSE_BREAK_NO_LEASE},
    {"AGREE_NO_LEADER", HUNT_AGREE, DMI_PULSE_BREAK_NO_LEADER},
    {"AGREE_NO_WAIT", HUNT_AGREE, DMI_PULSE_BREAK_NO_WAIT},
    {"AGREE_GIVER", HUNT_AGREE, DMI_PULSE_BREAK_GIVER},
    {"AGREE_LEFT", HUNT_AGREE, DMI_PULSE_BREAK_LEFT},
    {"AGREE_LATE", HUNT_AGREE, DMI_PULSE_BREAK_LATE},
    {"PACK_ORDER", HUNT_PACK, SIM_PACK_ORDER},
    {"PACK_LOST", HUNT_PACK, SIM_PACK_LOST},
    {"PACK_BEFORE", HUNT_PACK, SIM_PACK_BEFORE},
};
#define BREAKS (sizeof(breaks) / sizeof(breaks[0]))
_Static_assert(BREAKS == DMI_BREAK_LAST - 1 + DMI_MBREAK_LAST_KIND - 1 + DMI_CAPACITY_BREAK_LAST -
                             1 + DMI_HBREAK_LAST - 1 + DMI_PRESSURE_BREAK_LAST - 1 +
                             DMI_PULSE_BREAK_LAST - 1 + SIM_PACK_LAST - 1,
               "each broken rule has a name here");

struct args {
  uint64_t first, last;
  bool broken; /* a rule is switched off */
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

static bool has(size_t at) {
  return hunt_simulator.members || (breaks[at].side != HUNT_MEMBER &&
                                    breaks[at].side != HUNT_AGREE && breaks[at].side != HUNT_PACK);
}

static int usage(void) {
  fprintf(stderr,
          "usage: %s [--seeds A-B | --seed N] [--ops N] [--break RULE] [--hash] %s"
          "[--lax] [--quiet] [--verbose]\nRULE is one of",
          hunt_simulator.name,
          hunt_simulator.members ? "[--crashes] [--agree] " : "[--pagers] [--crashes] ");
  for (size_t i = 0; i < BREAKS; i++)
    if (has(i)) fprintf(stderr, " %s", breaks[i].name);
  fprintf(stderr, "\n");
  return 2;
}

static void set_break(struct sim_options *options, enum hunt_side side, int rule) {
  switch (side) {
    case HUNT_PAGE:
      options->page_break = (enum dmi_break)rule;
      break;
    case HUNT_CRASH:
      options->page_break = (enum dmi_break)rule;
      options->crashes = true;
      break;
    case HUNT_HANDOVER:
      options->handover_break = (enum dmi_handover_break)rule;
      break;
    case HUNT_MEMBER:
      options->member_break = (enum dmi_member_break)rule;
      break;
    case HUNT_CAPACITY:
      options->capacity_break = (enum dmi_capacity_break)rule;
      options->pagers = true;
      break;
    case HUNT_PRESSURE:
      options->pressure_break = (enum dmi_pressure_break)rule;
      options->pagers = true;
      break;
    case HUNT_AGREE:
      options->pulse_break = (enum dmi_pulse_break)rule;
      options->agree = options->crashes = true;
      break;
    case HUNT_PACK:
      options->pack_break = (enum sim_pack_break)rule;
      break;
  }
}

static bool parse_break(const char *name, struct args *args) {
  for (size_t i = 0; i < BREAKS; i++) {
    if (!has(i) || strcmp(breaks[i].name, name) != 0) continue;
    args->broken = true;
    set_break(&args->sim, breaks[i].side, breaks[i].rule);
    return true;
  }
  return false;
}

/* Handles an option without a value.  False: it is not one of these. */
static bool parse_flag(const char *word, struct args *args) {
  const struct {
    const char *word;
    bool *is;
  } flags[] = {
      {"--verbose", &args->sim.verbose},
      {"--hash", &args->hash},
      {"--lax", &args->sim.lax},
      {"--quiet", &args->quiet},
      {"--pagers", hunt_simulator.members ? NULL : &args->sim.pagers},
      {"--crashes", &args->sim.crashes},
      {"--agree", hunt_simulator.members ? &args->sim.agree : NULL},
  };
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
    if (!flags[i].is || strcmp(word, flags[i].word) != 0) continue;
    return *flags[i].is = true;
  }
  return false;
}

static bool parse(int argc, char **argv, struct args *args) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    char *end = NULL;
    if (parse_flag(argv[i], args)) continue;
    if (!value) return false;
    if (!strcmp(argv[i], "--seeds") || !strcmp(argv[i], "--seed")) {
      args->first = args->last = strtoull(value, &end, 10);
      if (*end == '-') args->last = strtoull(end + 1, &end, 10);
      if (*end) return false;
    } else if (!strcmp(argv[i], "--ops")) {
      args->sim.ops = strtoull(value, &end, 10);
    } else if (strcmp(argv[i], "--break") != 0 || !parse_break(value, args)) {
      return false;
    }
    i++;
  }
  args->sim.crashes |= args->sim.agree;
  return args->first <= args->last;
}

#define N(field) (unsigned long long)t->field

void hunt_print_work(const struct sim_totals *t) {
  printf(
      "messages %llu delivered, %llu to self, %llu deferred, %llu dropped, %llu sent back; "
      "hops of one request at most %u (%u while nobody leaves)",
      N(messages), N(self_messages), N(deferred), N(dropped), N(bounced), t->hops_max,
      t->hops_calm_max);
  int any = 0;
  for (uint32_t i = 1; i < DMI_MSG_NUMBERS; i++) {
    if (t->by_type[i])
      printf("%s %s %llu", any++ ? "" : "\n", dmi_wire_name((uint8_t)i), N(by_type[i]));
  }
  printf("\n%llu operations waited, %llu waits ended by a kick\n", N(waited), N(kicks));
  printf(
      "little memory: %llu times none, %llu stalled, %llu refused, %llu pages offered, %llu "
      "of them refused, %llu spilled, %llu read back",
      N(no_capacity), N(stalls), N(refused), N(offers), N(refused_pages), N(spills), N(unspills));
}

void hunt_print_losses(const struct sim_totals *t) {
  printf(
      "\nlosses: %llu, %llu of them during a recovery; marks in doubt %llu times; %llu pages "
      "without an owner, %llu operations DMI_ELOST (%llu of them away), %llu messages held until "
      "RESUME; without a lease %llu times",
      N(crashes), N(second_crashes), N(doubts), N(orphans), N(elost), N(away), N(held), N(pauses));
}

static void print_totals(const struct sim_totals *t, double seconds, uint64_t bad) {
  static const char *const kinds[] = {"reads", "writes", "cas",    "fas",       "fad",
                                      "user",  "signal", "ticket", "turn",      "arrive",
                                      "round", "watch",  "revive", "no objects"};
  _Static_assert(sizeof(kinds) / sizeof(kinds[0]) == HIST_DIFFERS, "each kind has a name");
  printf(
      "seeds %llu, operations %llu (%llu of several ranges, %llu at once, %llu failed by "
      "unmapping)\n ",
      N(seeds), N(ops), N(list_ops), N(fast_ops), N(failed_ops));
  for (int i = 0; i < HIST_DIFFERS; i++)
    printf(" %s %llu", kinds[i], N(by_kind[i]));
  hunt_simulator.print(t);
  printf("\n%llu checks of operations, %llu tries\n", N(checked), N(tries));
  printf("%.1f s, %.0f operations/s, violations %llu\n", seconds, (double)t->ops / seconds,
         (unsigned long long)bad);
}

static double now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A core with a broken rule may abort: so each seed runs in a child, whose output is kept. */
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
    _exit(hunt_simulator.run(seed, &args->sim, &totals, NULL) ? 0 : 1);
  }
  close(fds[1]);
  while ((num = read(fds[0], why + got, capacity - 1 - got)) > 0) {
    got += (size_t)num;
    if (got > capacity / 2) { /* keep the end, which is what matters */
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

/* Runs seeds until the broken rule is noticed. */
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
    if (!hunt_simulator.run(seed, &args.sim, &totals, &hash)) bad++;
    all = (all ^ hash) * 0x100000001b3u;
  }
  if (args.hash) printf("hash %016llx\n", (unsigned long long)all);
  if (!args.quiet) print_totals(&totals, now() - start, bad);
  return bad != 0;
}
