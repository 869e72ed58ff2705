/*
 * churn_dmi.c - a program that computes while its processes join and leave at random.
 *
 *   dmirun churn_dmi MODE       MODE: returns (DMI_main ends at once) or stays (DMI_main goes on
 *                               to compute after its process was dismissed, until the end)
 *
 * Two workers run in each process: they add to counters, and rewrite pages whose contents carry a
 * number and a checksum.  One thread, the steward, handles notices; when its own process is asked
 * to leave, it starts a steward elsewhere and ends.  When the last process that can be asked is
 * asked, the steward compares what all workers say they did with what memory says, and ends.
 */
#include <pthread.h>

#include "multi.h"

#define IDS 64 /* more than there ever are at once */
#define WORKERS 2
#define COUNTERS 5
#define PAGES 6

/* ---- What is in global memory ------------------------------------------------------------ */

/* Of each process, by dmi_id. */
struct team {
  int64_t stop; /* not 0: its workers end.  This structure has a page of its own */
  DMI_thread_t workers[WORKERS];
};

/* The page of a worker's argument. */
struct arg {
  int64_t world; /* address of struct world */
  int64_t dmi_id;
  int64_t seed;
};

/* Written once. */
struct world {
  int64_t teams, args, counters, totals, locks, numbers, report;
  int64_t pages[PAGES];
  int64_t page_size[PAGES];
  int64_t stays; /* DMI_main goes on until `final` */
  int64_t final;
};

enum totals { ADDED, WRITTEN, CHECKED, LEAVES, JOINS, STEWARDS, TOTALS };

/* The first bytes of a page under test; the others follow from `number` and `seed`. */
struct head {
  int64_t number; /* how often it was written */
  uint64_t seed;
  uint64_t sum; /* over number, seed and all that follows */
};

static void total_add(const struct world *world, enum totals which, int64_t add) {
  MUST(DMI_fad(world->totals + 8 * which, add, NULL, DMI_PUT_ATOMIC, NULL));
}

/* ---- Pages with checksums ------------------------------------------------------------------ */

static uint64_t checksum(const struct head *head, const unsigned char *body, int64_t size) {
  uint64_t sum = (uint64_t)head->number * 0x9e3779b97f4a7c15u + head->seed;
  for (int64_t i = 0; i + 8 <= size; i += 8) {
    uint64_t value;
    memcpy(&value, body + i, 8);
    sum = (sum ^ value) * 0xff51afd7ed558ccdu;
    sum ^= sum >> 29;
  }
  return sum;
}

/* Reads a page at once: never torn.  Returns its number. */
static int64_t page_check(const struct world *world, int page, unsigned char *buf, int8_t mode) {
  struct head head;
  int64_t body = world->page_size[page] - (int64_t)sizeof(head);
  OK(DMI_read(world->pages[page], world->page_size[page], buf, mode, NULL));
  memcpy(&head, buf, sizeof(head));
  if (head.number == 0) return 0; /* not written yet: zeros */
  check_that(head.sum == checksum(&head, buf + sizeof(head), body), AT,
             "page %d number %" PRId64 " is torn", page, head.number);
  return head.number;
}

static void page_fill(const struct world *world, int page, int64_t number, uint64_t seed,
                      unsigned char *buf) {
  struct head head = {number, seed, 0};
  int64_t body = world->page_size[page] - (int64_t)sizeof(head);
  rng_fill(seed, buf + sizeof(head), (uint64_t)body);
  head.sum = checksum(&head, buf + sizeof(head), body);
  memcpy(buf, &head, sizeof(head));
}

/* Takes the page's lock if it is free, and writes the next contents. No other thread may have done
 * so: the number in the page and the one that is stored beside it grow together, by one. */
static int64_t page_rewrite(const struct world *world, int page, unsigned char *buf,
                            uint64_t *rng) {
  int64_t lock = world->locks + 8 * page, zero = 0, one = 1, number;
  int8_t flag = DMI_FALSE;
  OK(DMI_cas(lock, 8, &zero, &one, &flag, any_atomic(rng), NULL));
  if (!flag) return 0;
  OK(DMI_fad(world->numbers + 8 * page, 1, &number, any_atomic(rng), NULL));
  EQ(page_check(world, page, buf, any_read(rng)), number);
  page_fill(world, page, number + 1, rng_next(rng), buf);
  OK(DMI_write(world->pages[page], world->page_size[page], buf, any_write(rng), NULL));
  OK(DMI_write(lock, 8, &zero, any_write(rng), NULL));
  return 1;
}

/* ---- Workers ------------------------------------------------------------------------------- */

/* One piece of work. */
static void work(const struct world *world, uint64_t *rng, unsigned char *buf, int64_t done[TOTALS],
                 int64_t last[PAGES]) {
  int page = (int)rng_below(rng, PAGES);
  int64_t number, add = (int64_t)rng_below(rng, 10) - 2;
  switch (rng_below(rng, 4)) {
    case 0:
      done[WRITTEN] += page_rewrite(world, page, buf, rng);
      break;
    case 1:
      number = page_check(world, page, buf, any_read(rng));
      IS(number >= last[page]); /* never an old one after a new one */
      last[page] = number;
      done[CHECKED]++;
      break;
    default:
      OK(DMI_fad(world->counters + 8 * (int64_t)rng_below(rng, COUNTERS), add, NULL,
                 any_atomic(rng), NULL));
      done[ADDED] += add;
  }
}

static int64_t largest(const struct world *world) {
  int64_t size = 0;
  for (int i = 0; i < PAGES; i++) {
    if (world->page_size[i] > size) size = world->page_size[i];
  }
  return size;
}

static int64_t worker(const struct world *world, const struct arg *arg) {
  int64_t stop_addr = world->teams + arg->dmi_id * (int64_t)sizeof(struct team), stop = 0;
  int64_t done[TOTALS] = {0}, last[PAGES] = {0};
  uint64_t rng = (uint64_t)arg->seed;
  unsigned char *buf = my_malloc((size_t)largest(world));
  while (!stop) {
    work(world, &rng, buf, done, last);
    OK(DMI_read(stop_addr, 8, &stop, DMI_UPDATE_READ, NULL));
  }
  my_free(buf);
  total_add(world, WRITTEN, done[WRITTEN]);
  total_add(world, CHECKED, done[CHECKED]);
  check_report(world->report);
  return done[ADDED]; /* the one who joins adds it to the totals */
}

/* ---- The steward --------------------------------------------------------------------------- */

struct team_key {
  const struct world *world;
  int32_t dmi_id;
};

static int64_t team_addr(const struct world *world, int32_t dmi_id) {
  return world->teams + dmi_id * (int64_t)sizeof(struct team);
}

static void team_start(const struct world *world, int32_t dmi_id) {
  static _Atomic int64_t serial;
  struct team team = {0};
  if (!IS(dmi_id >= 0 && dmi_id < IDS)) _exit(9);
  MUST(DMI_write(team_addr(world, dmi_id), sizeof(team), &team, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < WORKERS; i++) {
    struct arg arg = {.dmi_id = dmi_id, .seed = now_ns() + atomic_fetch_add(&serial, 1)};
    int64_t addr = world->args + (dmi_id * (WORKERS + 1) + i) * (int64_t)sizeof(arg);
    MUST(DMI_read(world->report + 16, 8, &arg.world, DMI_GET_READ, NULL));
    MUST(DMI_write(addr, sizeof(arg), &arg, DMI_PUT_WRITE, NULL));
    MUST(DMI_create(&team.workers[i], dmi_id, addr, NULL));
  }
  MUST(DMI_write(team_addr(world, dmi_id), sizeof(team), &team, DMI_EXCLUSIVE_WRITE, NULL));
}

static void team_stop(const struct world *world, int32_t dmi_id) {
  struct team team;
  int64_t one = 1, value;
  MUST(DMI_read(team_addr(world, dmi_id), sizeof(team), &team, DMI_GET_READ, NULL));
  OK(DMI_write(team_addr(world, dmi_id), 8, &one, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < WORKERS; i++) {
    value = 0;
    OK(DMI_join(team.workers[i], &value, NULL));
    total_add(world, ADDED, value);
  }
}

/* Dismisses a process in a thread of its own, so that several leave at the same time. */
static void *dismiss(void *arg) {
  struct team_key *key = arg;
  team_stop(key->world, key->dmi_id);
  OK(DMI_goodbye(key->dmi_id));
  total_add(key->world, LEAVES, 1);
  my_free(key);
  return NULL;
}

/* Starts a steward in some other process; false: there is none. */
static bool hand_over(const struct world *world, int32_t me) {
  DMI_node_t nodes[IDS];
  DMI_thread_t thread;
  struct arg arg = {.dmi_id = -1, .seed = me};
  int32_t num;
  int64_t addr = world->args + (me * (WORKERS + 1) + WORKERS) * (int64_t)sizeof(arg);
  MUST(DMI_read(world->report + 16, 8, &arg.world, DMI_GET_READ, NULL));
  MUST(DMI_write(addr, sizeof(arg), &arg, DMI_PUT_WRITE, NULL));
  MUST(DMI_nodes(nodes, &num, IDS));
  for (int pass = 0; pass < 2; pass++) { /* first those that are not asked to leave themselves */
    for (int32_t i = 0; i < num; i++) {
      if (nodes[i].dmi_id == me || (nodes[i].state == DMI_OPENED) != (pass == 0)) continue;
      if (DMI_create(&thread, nodes[i].dmi_id, addr, NULL)) {
        OK(DMI_detach(thread, NULL));
        return true;
      }
      /* It has gone, or asks to join and is not welcome yet. */
      IS(DMI_errno() == DMI_ELEAVING || DMI_errno() == DMI_EMEMBER);
    }
  }
  return false;
}

static void compare(const struct world *world) {
  int64_t counters[COUNTERS], totals[TOTALS], numbers[PAGES], sum = 0, written = 0;
  unsigned char *buf = my_malloc((size_t)largest(world));
  OK(DMI_read(world->counters, sizeof(counters), counters, DMI_GET_READ, NULL));
  OK(DMI_read(world->totals, sizeof(totals), totals, DMI_GET_READ, NULL));
  OK(DMI_read(world->numbers, sizeof(numbers), numbers, DMI_GET_READ, NULL));
  for (int i = 0; i < COUNTERS; i++)
    sum += counters[i];
  EQ(sum, totals[ADDED]);
  for (int i = 0; i < PAGES; i++) {
    written += numbers[i];
    EQ(page_check(world, i, buf, DMI_GET_READ), numbers[i]);
  }
  EQ(written, totals[WRITTEN]);
  my_free(buf);
  say("churn: %" PRId64 " joins, %" PRId64 " leaves, %" PRId64 " stewards, %" PRId64
      " pages written, %" PRId64 " checked, counters %" PRId64,
      totals[JOINS], totals[LEAVES], totals[STEWARDS], written, totals[CHECKED], sum);
}

/* `before`: process of the steward before this one, -1: none. */
static int64_t steward(const struct world *world, int32_t before) {
  pthread_t thread[IDS];
  int32_t threads = 0, me;
  DMI_node_t node;
  int64_t one = 1;
  OK(DMI_rank(&me));
  total_add(world, STEWARDS, 1);
  if (before >= 0) {
    /* Its workers have been joined; the steward thread there may still be about to return. */
    while (!DMI_goodbye(before)) {
      if (!IS(DMI_errno() == DMI_EBUSY)) break;
      sched_yield();
    }
    total_add(world, LEAVES, 1);
  }
  for (;;) {
    struct team_key *key;
    MUST(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      MUST(DMI_welcome(node.dmi_id));
      team_start(world, node.dmi_id);
      total_add(world, JOINS, 1);
      continue;
    }
    if (node.dmi_id == me) break;
    key = my_malloc(sizeof(*key));
    *key = (struct team_key){world, node.dmi_id};
    if (threads == IDS) {
      for (; threads; threads--)
        pthread_join(thread[threads - 1], NULL);
    }
    if (pthread_create(&thread[threads++], NULL, dismiss, key) != 0) abort();
  }
  team_stop(world, me);
  for (; threads; threads--)
    pthread_join(thread[threads - 1], NULL);
  if (hand_over(world, me)) {
    check_report(world->report);
    return 0;
  }
  say("comparing");
  compare(world);
  MUST(DMI_write(world->final, 8, &one, DMI_PUT_WRITE, NULL));
  verdict("churn", world->report);
  return 0; /* nothing runs but perhaps DMI_main, which sees `final` */
}

/* ---- The program --------------------------------------------------------------------------- */

int64_t DMI_thread(int64_t addr) {
  struct arg arg;
  struct world world;
  MUST(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  MUST(DMI_read(arg.world, sizeof(world), &world, DMI_GET_READ, NULL));
  return arg.dmi_id < 0 ? steward(&world, (int32_t)arg.seed) : worker(&world, &arg);
}

/* DMI_main stays, and computes, whether its process is a member or not. */
static void stay(const struct world *world) {
  int64_t done[TOTALS] = {0}, last[PAGES] = {0}, final = 0;
  uint64_t rng = (uint64_t)now_ns();
  unsigned char *buf = my_malloc((size_t)largest(world));
  while (!final) {
    int page = (int)rng_below(&rng, PAGES);
    int64_t number = page_check(world, page, buf, any_read(&rng));
    IS(number >= last[page]);
    last[page] = number;
    done[CHECKED]++;
    /* Adds nothing in the end, so it cannot be in the way of the comparison. */
    OK(DMI_fas(world->final + 8, 8, &number, &number, any_atomic(&rng), NULL));
    OK(DMI_read(world->final, 8, &final, DMI_UPDATE_READ, NULL));
  }
  my_free(buf);
  say("DMI_main checked %" PRId64 " pages", done[CHECKED]);
  verdict("main", 0);
}

void DMI_main(int argc, char **argv) {
  static const int64_t sizes[PAGES] = {64, 4096, 4096, 60000, 100, 1 << 20};
  struct world world = {0};
  struct arg arg = {.dmi_id = -1, .seed = -1};
  DMI_thread_t thread;
  DMI_node_t node;
  int64_t addr;
  int32_t me;
  world.stays = argc > 1 && strcmp(argv[1], "stays") == 0;
  MUST(DMI_rank(&me));
  MUST(DMI_poll(&node));
  MUST(DMI_welcome(node.dmi_id));
  MUST(DMI_mmap(&world.teams, sizeof(struct team), IDS, NULL));
  MUST(DMI_mmap(&world.args, sizeof(struct arg), IDS * (WORKERS + 1), NULL));
  MUST(DMI_mmap(&world.counters, 8, COUNTERS, NULL));
  MUST(DMI_mmap(&world.totals, 8 * TOTALS, 1, NULL));
  MUST(DMI_mmap(&world.locks, 8, PAGES, NULL));
  MUST(DMI_mmap(&world.numbers, 8, PAGES, NULL));
  MUST(DMI_mmap(&world.report, 24, 1, NULL)); /* two counters, and where the world is */
  MUST(DMI_mmap(&world.final, 8, 2, NULL));
  for (int i = 0; i < PAGES; i++) {
    world.page_size[i] = sizes[i];
    MUST(DMI_mmap(&world.pages[i], sizes[i], 1, NULL));
  }
  MUST(DMI_mmap(&addr, sizeof(world), 1, NULL));
  MUST(DMI_write(addr, sizeof(world), &world, DMI_PUT_WRITE, NULL));
  MUST(DMI_write(world.report + 16, 8, &addr, DMI_PUT_WRITE, NULL));
  team_start(&world, me);
  arg.world = addr;
  MUST(DMI_write(world.args + (me * (WORKERS + 1) + WORKERS) * (int64_t)sizeof(arg), sizeof(arg),
                 &arg, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, me, world.args + (me * (WORKERS + 1) + WORKERS) * (int64_t)sizeof(arg),
                  NULL));
  MUST(DMI_detach(thread, NULL));
  if (world.stays) stay(&world);
}
