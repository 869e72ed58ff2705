/*
 * bench_team_dmi.c - what messages between ranks of a team cost (ranks.h).
 *
 *   dmirun ./bench_team_dmi RANKS PROCESSES      and PROCESSES - 1 processes that join it
 */
#include "../../examples/check.h"
#include "dmi_team.h"
#include "ranks.h"

static void team_send(void *arg, int32_t to, const void *buf, int64_t size) {
  CHECK(DMI_team_send(arg, to, buf, size, NULL));
}

static void team_recv(void *arg, int32_t from, void *buf, int64_t size) {
  CHECK(DMI_team_recv(arg, from, buf, size, NULL, NULL));
}

static void team_bcast(void *arg, int32_t root, void *buf, int64_t size) {
  CHECK(DMI_team_bcast(arg, root, buf, size));
}

static void team_reduce(void *arg, int32_t root, const double *in, double *out, int64_t num) {
  CHECK(DMI_team_reduce(arg, root, in, out, num, DMI_TYPE_DOUBLE, DMI_OP_SUM));
}

static void team_allreduce(void *arg, const double *in, double *out, int64_t num) {
  CHECK(DMI_team_allreduce(arg, in, out, num, DMI_TYPE_DOUBLE, DMI_OP_SUM));
}

static void team_barrier(void *arg) {
  CHECK(DMI_team_barrier(arg));
}

/* In global memory, for each thread. */
typedef struct {
  int64_t team_addr, rank;
} plan_t;

int64_t DMI_thread(int64_t addr) {
  DMI_local_team_t team;
  plan_t plan;
  ranks_t ranks = {.arg = &team,
                   .prefix = "",
                   .send = team_send,
                   .recv = team_recv,
                   .bcast = team_bcast,
                   .reduce = team_reduce,
                   .allreduce = team_allreduce,
                   .barrier = team_barrier};
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  CHECK(DMI_team_join(&team, plan.team_addr, (int32_t)plan.rank));
  CHECK(DMI_team_rank(&team, &ranks.rank, &ranks.size));
  ranks_run(&ranks);
  CHECK(DMI_team_leave(&team));
  return DMI_NULL;
}

void DMI_main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s ranks processes\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t num = check_number("ranks", argv[1], 1);
  const int32_t process_num = check_number("processes", argv[2], 1);
  int32_t *ids = my_malloc((size_t)process_num * sizeof(*ids));
  DMI_thread_t *threads = my_malloc((size_t)num * sizeof(*threads));
  int64_t plans_addr;
  plan_t plan;
  for (int32_t i = 0; i < process_num; i++) {
    DMI_node_t node;
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
    ids[i] = node.dmi_id;
  }
  CHECK(DMI_mmap(&plan.team_addr, sizeof(DMI_team_t), 1, NULL));
  CHECK(DMI_mmap(&plans_addr, sizeof(plan), num, NULL));
  CHECK(DMI_team_init(plan.team_addr, num));
  for (plan.rank = 0; plan.rank < num; plan.rank++) {
    const int64_t addr = plans_addr + plan.rank * (int64_t)sizeof(plan);
    CHECK(DMI_write(addr, sizeof(plan), &plan, DMI_PUT_WRITE, NULL));
    CHECK(DMI_create(&threads[plan.rank], ids[plan.rank % process_num], addr, NULL));
  }
  for (int32_t i = 0; i < num; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
  CHECK(DMI_team_destroy(plan.team_addr));
  my_free(threads);
  my_free(ids);
}
