/*
 * board_dmi.c - threads of many processes of one host meet, while some of these are killed: what
 * board.t runs.
 *
 *   board_dmi PROCESSES LOST      the first process owns the barrier's page; a thread of each other
 *                                 one meets the others round after round; LOST of them are killed,
 *                                 one when all have said that they know of the one before; the
 *                                 others say with how many messages they met then
 *   board_dmi PROCESSES exit      the threads wait for one that does not come; when the first
 * process is asked to leave it calls DMI_exit(6)
 */
#include "dmi_ext.h"
#include "multi.h"

#define ARRIVAL UINT64_C(0x9e3779b97f4a7c15) /* DMI_SYNC_UNIT of core/syncop.h */
#define ROUNDS 100 /* of those that are left, and before a process is killed */

/* How many requests of a type this process has sent (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_sent(const struct dmi_access *access, int type);
enum { MSG_LAST = 5 }; /* GET, READ, PUT, ATOMIC, OWN */

static int64_t sent_all(void) {
  int64_t sum = 0;
  for (int type = 1; type <= MSG_LAST; type++)
    sum += (int64_t)dmi_access_sent(dmi_runtime_access(), type);
  return sum;
}

struct plan {
  DMI_barrier_t barrier;
  int32_t num, lost; /* threads */
  int32_t exits;
};

/* Meets the others until a process is lost.  False: `most` rounds are over. */
static int meets(DMI_local_barrier_t *barrier, int32_t num, int32_t most) {
  for (int32_t round = 0; !most || round < most; round++) {
    const int64_t mine = round;
    double sum = 0;
    int64_t least = 0;
    if (!DMI_local_barrier_allreduce(barrier, 0.5, &sum, num)) break;
    IS(sum == 0.5 * num);
    if (!DMI_local_barrier_allreduce_op(barrier, DMI_OP_MIN, DMI_TYPE_INT64, &mine, &least, 1, num))
      break;
    EQ(least, mine);
    if (round + 1 == ROUNDS) say("meets");
    if (most && round + 1 == most) return 0;
  }
  EQ(DMI_errno(), DMI_EBROKEN);
  return 1;
}

/* The last rounds, in which nobody is lost. */
static void count_messages(DMI_local_barrier_t *barrier, int32_t num) {
  int64_t sent = sent_all(), all = 0;
  IS(!meets(barrier, num, ROUNDS));
  sent = sent_all() - sent;
  OK(DMI_local_barrier_allreduce_op(barrier, DMI_OP_SUM, DMI_TYPE_INT64, &sent, &all, 1, num));
  say("messages %d for %d arrivals", (int)all, 2 * ROUNDS * num);
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t barrier;
  struct plan plan;
  MUST(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  OK(DMI_local_barrier_init(&barrier, addr));
  for (int32_t lost = 0; lost < plan.lost; lost++) {
    IS(meets(&barrier, plan.num - lost, 0));
    say("broken %d", lost + 1);
  }
  count_messages(&barrier, plan.num - plan.lost);
  if (plan.exits) {
    FAILS(DMI_local_barrier_sync(&barrier, plan.num + 1), DMI_EEND);
    say("ends");
  }
  OK(DMI_local_barrier_destroy(&barrier));
  return atomic_load(&checks_failed);
}

/* All arrivals are at the owner of the barrier's page, as its first number says. */
static void await_arrivals(int64_t addr, int32_t num) {
  uint64_t arrived = 0;
  while (arrived != (uint64_t)num * ARRIVAL) {
    MUST(DMI_read(addr, sizeof(arrived), &arrived, DMI_GET_READ, NULL));
    sched_yield();
  }
}

static void run_exit(int64_t addr, int32_t num) {
  DMI_node_t node;
  await_arrivals(addr, num);
  say("all wait");
  MUST(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  OK(DMI_exit(6));
  verdict("board", 0);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t threads[64];
  int32_t ids[64], lost = 0;
  const int32_t num = argc == 3 ? atoi(argv[1]) : 0;
  struct plan plan = {.num = num - 1, .exits = argc == 3 && strcmp(argv[2], "exit") == 0};
  int64_t addr;
  if (argc == 3 && !plan.exits) plan.lost = atoi(argv[2]);
  MUST(num > 1 && num <= 64);
  gather(num, ids);
  MUST(DMI_mmap(&addr, sizeof(plan), 1, NULL));
  MUST(DMI_write(addr, sizeof(plan), &plan, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_barrier_init(addr));
  for (int32_t i = 1; i < num; i++)
    MUST(DMI_create(&threads[i], ids[i], addr, NULL));
  if (plan.exits) {
    run_exit(addr, plan.num);
    return;
  }
  for (int32_t i = 1; i < num; i++) {
    int64_t failed = 0;
    if (DMI_join(threads[i], &failed, NULL)) {
      EQ(failed, 0);
    } else {
      EQ(DMI_errno(), DMI_ELOST);
      lost++;
    }
  }
  EQ(lost, plan.lost);
  verdict("board", 0);
}
