/*
 * left_dmi.c - processes that have left may be lost.  left.t starts and kills them.
 *
 *   dmirun left_dmi returns    DMI_main returns at once; a thread of the second process manages
 *   dmirun left_dmi goes_on    the same, but DMI_main goes on adding to a counter of its own
 *
 * The manager has threads in all processes add to counters, and take copies of their pages, until a
 * process asks to leave; then it dismisses that one.  When its own process asks to leave it stops
 * all threads and compares what they say with the counters.
 */
#include "multi.h"

#define COUNTERS 8
#define BIG (256 * 1024)     /* bytes of a page that holds one */
#define EARLIER COUNTERS     /* each thread adds to this counter, */
#define LATER (COUNTERS + 1) /* and then to this one */
#define MOST 32              /* processes one after the other */
#define THREADS 2

/* In global memory. */
struct order {
  int64_t manage; /* this thread is the manager */
  int64_t stop;
  int64_t counters; /* address of pages, one counter in each: COUNTERS, EARLIER, LATER */
  int64_t own;      /* counter of DMI_main */
};

static int64_t counter_at(int64_t counters, int i) {
  return counters + (int64_t)i * BIG;
}

/* ---- A worker ------------------------------------------------------------------------------- */

static int64_t work(int64_t addr, const struct order *order) {
  static const int8_t add[] = {DMI_PUT_ATOMIC, DMI_EXCLUSIVE_ATOMIC};
  static const int8_t look[] = {DMI_UPDATE_READ, DMI_INVALIDATE_READ, DMI_GET_READ};
  uint64_t rng = (uint64_t)addr * 2654435761u + (uint64_t)getpid();
  int64_t added = 0, stop = 0, value;
  while (!stop) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    int counter = (int)(rng >> 33) % COUNTERS;
    MUST(DMI_fad(counter_at(order->counters, counter), 1, &value, add[(rng >> 40) % 2], NULL));
    added++;
    counter = (int)(rng >> 44) % COUNTERS;
    MUST(DMI_read(counter_at(order->counters, counter), sizeof(value), &value,
                  look[(rng >> 50) % 3], NULL));
    MUST(DMI_fad(counter_at(order->counters, EARLIER), 1, &value, DMI_PUT_ATOMIC, NULL));
    MUST(DMI_fad(counter_at(order->counters, LATER), 1, &value, DMI_PUT_ATOMIC, NULL));
    MUST(DMI_read(addr + (int64_t)offsetof(struct order, stop), sizeof(stop), &stop,
                  DMI_UPDATE_READ, NULL));
  }
  return added;
}

/* ---- The manager ---------------------------------------------------------------------------- */

static struct team {
  int64_t order; /* address; 0: none */
  DMI_thread_t thread[THREADS];
} team[MOST];
static int64_t total;

static void begin(int32_t id, const struct order *like) {
  struct order order = *like;
  order.manage = 0;
  if (id >= MOST || team[id].order) exit(3);
  MUST(DMI_mmap(&team[id].order, sizeof(order), 1, NULL));
  MUST(DMI_write(team[id].order, sizeof(order), &order, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < THREADS; i++)
    MUST(DMI_create(&team[id].thread[i], id, team[id].order, NULL));
  say("works in %d", id);
}

static void end(int32_t id) {
  const int64_t stop = 1;
  int64_t added;
  if (!team[id].order) return;
  MUST(DMI_write(team[id].order + (int64_t)offsetof(struct order, stop), sizeof(stop), &stop,
                 DMI_PUT_WRITE, NULL));
  for (int i = 0; i < THREADS; i++) {
    MUST(DMI_join(team[id].thread[i], &added, NULL));
    total += added;
  }
  MUST(DMI_munmap(team[id].order, NULL));
  team[id].order = 0;
}

static int64_t manage(const struct order *order) {
  int64_t sum = 0, value;
  DMI_node_t node;
  int32_t me;
  MUST(DMI_rank(&me));
  for (int i = EARLIER; i <= LATER; i++) /* here from now on, so the first process has a copy */
    MUST(DMI_fad(counter_at(order->counters, i), 1, &value, DMI_EXCLUSIVE_ATOMIC, NULL));
  begin(0, order);
  begin(me, order);
  for (;;) {
    MUST(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      OK(DMI_welcome(node.dmi_id));
      begin(node.dmi_id, order);
      continue;
    }
    if (node.dmi_id == me) break;
    end(node.dmi_id);
    OK(DMI_goodbye(node.dmi_id));
    say("dismissed %d", node.dmi_id);
  }
  for (int32_t id = 0; id < MOST; id++)
    end(id);
  for (int i = 0; i < COUNTERS; i++) {
    OK(DMI_read(counter_at(order->counters, i), sizeof(value), &value, DMI_GET_READ, NULL));
    sum += value;
  }
  IS(sum > 0);
  EQ(sum, total);
  verdict("left", 0);
  return 0;
}

int64_t DMI_thread(int64_t addr) {
  struct order order;
  MUST(DMI_read(addr, sizeof(order), &order, DMI_GET_READ, NULL));
  return order.manage ? manage(&order) : work(addr, &order);
}

void DMI_main(int argc, char **argv) {
  bool goes_on = argc > 1 && strcmp(argv[1], "goes_on") == 0;
  struct order order = {.manage = 1};
  DMI_thread_t thread;
  DMI_node_t node;
  int64_t addr, value, later, earlier;
  for (int i = 0; i < 2; i++) {
    MUST(DMI_poll(&node));
    MUST(DMI_welcome(node.dmi_id));
  }
  MUST(DMI_mmap(&order.counters, BIG, LATER + 1, NULL));
  MUST(DMI_mmap(&order.own, sizeof(int64_t), 1, NULL));
  MUST(DMI_mmap(&addr, sizeof(order), 1, NULL));
  MUST(DMI_write(addr, sizeof(order), &order, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, node.dmi_id, addr, NULL));
  MUST(DMI_detach(thread, NULL));
  for (int64_t i = 0; goes_on; i++) {
    MUST(DMI_fad(order.own, 1, &value, DMI_EXCLUSIVE_ATOMIC, NULL));
    if (value != i) say("FAIL: the counter of DMI_main is %" PRId64 ", not %" PRId64, value, i);
    /* The copies that it has when it leaves must not be read after others have stopped telling it
     * of their writes. */
    MUST(DMI_fad(counter_at(order.counters, LATER), 0, &later, DMI_PUT_ATOMIC, NULL));
    MUST(DMI_read(counter_at(order.counters, EARLIER), sizeof(earlier), &earlier, DMI_UPDATE_READ,
                  NULL));
    if (earlier < later) say("FAIL: %" PRId64 " came before %" PRId64, later, earlier);
    if (i % 50 == 0) say("main goes on");
  }
}
