/*
 * bench_wide_dmi.c - what many processes cost: `name value unit min max` lines.
 *
 *   dmirun ./bench_wide_dmi N BEGIN COUNT      and N - 1 processes that join it
 *
 * BEGIN: nanoseconds of CLOCK_MONOTONIC when the first launcher was started.  Prints in how many
 * seconds since then all N have joined, and have been welcomed; then what a barrier and an
 * allreduce of N cost, one thread in each process, COUNT of them in a batch.
 */
#include "../../examples/check.h"
#include "bench.h"

/* In global memory. */
typedef struct {
  int32_t num, count;
  int64_t barrier_addr;
  int64_t figures_addr; /* of barrier and allreduce, written by the last process */
} plan_t;

static void meet(DMI_local_barrier_t *barrier, const plan_t *plan, int sums) {
  double sum = 0;
  for (int32_t i = 0; i < plan->count && sums; i++)
    CHECK(DMI_local_barrier_allreduce(barrier, 1, &sum, plan->num) && sum == plan->num);
  for (int32_t i = 0; i < plan->count && !sums; i++)
    CHECK(DMI_local_barrier_sync(barrier, plan->num));
}

int64_t DMI_thread(int64_t addr) {
  DMI_local_barrier_t barrier;
  figure_t figures[2];
  plan_t plan;
  int32_t rank;
  memset(figures, 0, sizeof(figures));
  CHECK(DMI_rank(&rank));
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  CHECK(DMI_local_barrier_init(&barrier, plan.barrier_addr));
  for (int sums = 0; sums < 2; sums++) {
    snprintf(figures[sums].name, sizeof(figures[sums].name), "%s_%d",
             sums ? "allreduce" : "barrier", plan.num);
    snprintf(figures[sums].unit, sizeof(figures[sums].unit), "us");
    for (int batch = -1; batch < batches(); batch++) {
      CHECK(DMI_local_barrier_sync(&barrier, plan.num));
      const int64_t start = now_ns();
      meet(&barrier, &plan, sums);
      if (batch >= 0)
        figures[sums].values[batch] = (double)(now_ns() - start) / 1000.0 / plan.count;
    }
  }
  if (rank == plan.num - 1)
    CHECK(DMI_write(plan.figures_addr, sizeof(figures), figures, DMI_PUT_WRITE, NULL));
  CHECK(DMI_local_barrier_destroy(&barrier));
  return DMI_NULL;
}

static void print_seconds(const char *name, int32_t num, int64_t begin) {
  const double seconds = (double)(now_ns() - begin) * 1e-9;
  printf("%s_%d %.3f s\n", name, num, seconds);
  fflush(stdout);
}

/* Welcomes `num` processes. */
static void gather(int32_t num, int64_t begin, int32_t *ids) {
  DMI_node_t node;
  for (int32_t i = 0; i < num; i++) {
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
    ids[i] = node.dmi_id;
  }
  print_seconds("joined", num, begin);
}

static int64_t object(int64_t size) {
  int64_t addr;
  CHECK(DMI_mmap(&addr, size, 1, NULL));
  return addr;
}

void DMI_main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s processes begin count\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t num = check_number("processes", argv[1], 1);
  plan_t plan = {.num = num, .count = check_number("count", argv[3], 1)};
  int32_t *ids = my_malloc((size_t)num * sizeof(*ids));
  DMI_thread_t *threads = my_malloc((size_t)num * sizeof(*threads));
  figure_t figures[2];
  gather(num, atoll(argv[2]), ids);
  plan.barrier_addr = object(sizeof(DMI_barrier_t));
  plan.figures_addr = object(sizeof(figures));
  const int64_t plan_addr = object(sizeof(plan));
  CHECK(DMI_barrier_init(plan.barrier_addr));
  CHECK(DMI_write(plan_addr, sizeof(plan), &plan, DMI_PUT_WRITE, NULL));
  const int64_t created = now_ns();
  for (int32_t i = 0; i < num; i++)
    CHECK(DMI_create(&threads[i], ids[i], plan_addr, NULL));
  for (int32_t i = 0; i < num; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
  print_seconds("worked", num, created);
  CHECK(DMI_read(plan.figures_addr, sizeof(figures), figures, DMI_GET_READ, NULL));
  figure_print(&figures[0]);
  figure_print(&figures[1]);
  my_free(threads);
  my_free(ids);
}
