/*
 * bench_sync_dmi.c - what synchronisation costs: `name value unit min max` lines.
 *
 *   dmirun ./bench_sync_dmi N         and N - 1 processes that join it
 *
 * All objects are on pages of the first process.  One thread runs in each process.  With N = 2: a
 * mutex that nobody else wants, locked from the second process; a mutex that the two processes hand
 * to each other; a condition by which they take turns; a watch of a word that the other one
 * writes.  With any N: a barrier and an allreduce of N.
 */
#include "../../examples/check.h"
#include "bench.h"

#define MOST 64 /* processes */

enum what { BARRIER, ALLREDUCE, LOCK, HAND_OVER, PING_PONG, WATCH, WORKS };

static const struct {
  const char *name;
  int64_t count; /* per batch */
  int32_t only;  /* this many processes, 0: any */
} works[WORKS] = {
    [BARRIER] = {"barrier", 1000, 0},
    [ALLREDUCE] = {"allreduce", 1000, 0},
    [LOCK] = {"mutex", 1000, 2},
    [HAND_OVER] = {"mutex_hand_over", 500, 2},
    [PING_PONG] = {"cond_ping_pong", 500, 2},
    [WATCH] = {"watch_ping_pong", 500, 2},
};

/* In global memory. */
typedef struct {
  int32_t rank, num;
  int64_t mutex_addr, cond_addr, barrier_addr, turn_addr;
  int64_t figures_addr; /* WORKS figure_t, written by the last process */
} plan_t;

static int64_t get(int64_t addr) {
  int64_t value;
  CHECK(DMI_read(addr, sizeof(value), &value, DMI_GET_READ, NULL));
  return value;
}

static void put(int64_t addr, int64_t value) {
  CHECK(DMI_write(addr, sizeof(value), &value, DMI_PUT_WRITE, NULL));
}

/* One after the other: `turn` is a count, and its parity says whose turn it is. */
static void ping_pong(const plan_t *plan, int64_t count) {
  CHECK(DMI_mutex_lock(plan->mutex_addr));
  for (int64_t i = 0; i < count; i++) {
    int64_t turn;
    while ((turn = get(plan->turn_addr)) % 2 != plan->rank)
      CHECK(DMI_cond_wait(plan->cond_addr, plan->mutex_addr));
    put(plan->turn_addr, turn + 1);
    CHECK(DMI_cond_signal(plan->cond_addr));
  }
  CHECK(DMI_mutex_unlock(plan->mutex_addr));
}

static void watch(const plan_t *plan, int64_t count) {
  int64_t turn = get(plan->turn_addr);
  for (int64_t i = 0; i < count; i++) {
    while (turn % 2 != plan->rank)
      CHECK(DMI_watch(plan->turn_addr, sizeof(turn), &turn, &turn, NULL));
    put(plan->turn_addr, ++turn);
  }
}

static void work(enum what what, const plan_t *plan, DMI_local_barrier_t *barrier, int64_t count) {
  double sum;
  switch (what) {
    case BARRIER:
      for (int64_t i = 0; i < count; i++)
        CHECK(DMI_local_barrier_sync(barrier, plan->num));
      break;
    case ALLREDUCE:
      for (int64_t i = 0; i < count; i++)
        CHECK(DMI_local_barrier_allreduce(barrier, 1, &sum, plan->num) && sum == plan->num);
      break;
    case LOCK:
      for (int64_t i = 0; i < count && plan->rank == 1; i++) {
        CHECK(DMI_mutex_lock(plan->mutex_addr));
        CHECK(DMI_mutex_unlock(plan->mutex_addr));
      }
      break;
    case HAND_OVER: /* as long as both are at it, an unlock gives it to the other */
      for (int64_t i = 0; i < count; i++) {
        CHECK(DMI_mutex_lock(plan->mutex_addr));
        CHECK(DMI_mutex_unlock(plan->mutex_addr));
      }
      break;
    case PING_PONG:
      ping_pong(plan, count);
      break;
    default:
      watch(plan, count);
  }
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t barrier;
  figure_t figure;
  plan_t plan;
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&barrier, plan.barrier_addr));
  for (int what = 0; what < WORKS; what++) {
    /* Two of them share a hand-over, a turn. */
    const int64_t shared = what >= HAND_OVER ? 2 : 1, count = works[what].count;
    if (works[what].only && works[what].only != plan.num) continue;
    memset(&figure, 0, sizeof(figure));
    snprintf(figure.name, sizeof(figure.name), "%s%s%.0d", works[what].name,
             works[what].only ? "" : "_", works[what].only ? 0 : plan.num);
    snprintf(figure.unit, sizeof(figure.unit), "us");
    for (int batch = -1; batch < batches(); batch++) {
      CHECK(DMI_local_barrier_sync(&barrier, plan.num));
      const int64_t start = now_ns();
      work((enum what)what, &plan, &barrier, count);
      const int64_t ns = now_ns() - start;
      if (batch >= 0) figure.values[batch] = (double)ns / 1000.0 / (double)(count * shared);
    }
    if (plan.rank == plan.num - 1) {
      CHECK(DMI_write(plan.figures_addr + what * (int64_t)sizeof(figure), sizeof(figure), &figure,
                      DMI_PUT_WRITE, NULL));
    }
  }
  CHECK(DMI_local_barrier_destroy(&barrier));
  return DMI_NULL;
}

static int64_t object(int64_t size) {
  int64_t addr;
  CHECK(DMI_mmap(&addr, size, 1, NULL));
  return addr;
}

void DMI_main(int argc, char **argv) {
  const int32_t num = argc > 1 ? atoi(argv[1]) : 2;
  figure_t figures[WORKS];
  DMI_thread_t threads[MOST];
  int32_t ids[MOST];
  DMI_node_t node;
  int64_t plans;
  plan_t plan = {.num = num};
  CHECK(num >= 1 && num <= MOST);
  for (int32_t i = 0; i < num; i++) {
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
    ids[i] = node.dmi_id;
  }
  plan.mutex_addr = object(sizeof(DMI_mutex_t));
  plan.cond_addr = object(sizeof(DMI_cond_t));
  plan.barrier_addr = object(sizeof(DMI_barrier_t));
  plan.turn_addr = object(sizeof(int64_t));
  plan.figures_addr = object(sizeof(figures));
  CHECK(DMI_mmap(&plans, sizeof(plan), num, NULL));
  for (plan.rank = 0; plan.rank < num; plan.rank++) {
    const int64_t addr = plans + plan.rank * (int64_t)sizeof(plan);
    CHECK(DMI_write(addr, sizeof(plan), &plan, DMI_PUT_WRITE, NULL));
    CHECK(DMI_create(&threads[plan.rank], ids[plan.rank], addr, NULL));
  }
  for (int32_t i = 0; i < num; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
  CHECK(DMI_read(plan.figures_addr, sizeof(figures), figures, DMI_GET_READ, NULL));
  for (int what = 0; what < WORKS; what++) {
    if (figures[what].name[0]) figure_print(&figures[what]);
  }
}
