/*
 * bench_tree_dmi.c - one process writes a page of 64 MiB, all others read all of it at once: `name
 * value unit min max` lines.
 *
 *   dmirun ./bench_tree_dmi NUM       and NUM - 1 processes that join
 *
 * bcast_64m_NUM: copies are kept, so readers pass the page on.  plain_64m_NUM: nothing is kept
 * (GET), so the owner sends it NUM - 1 times.  Measured by the writer, from one barrier to the
 * next; the bytes are checked after that.  bcast_sends_NUM: pages that the owner itself has sent.
 */
#include <string.h>

#include "../../examples/check.h"
#include "bench.h"

#define PAGE ((int64_t)64 << 20)
#define TIMES 3
#define MOST 64

/* Bytes of pages sent by this process in messages of a type (lib/access/access.h). */
struct dmi_access;
struct dmi_access *dmi_runtime_access(void);
uint64_t dmi_access_bytes(const struct dmi_access *access, int type, uint64_t *num);
enum { MSG_DATA = 7, MSG_BLOCK = 23 };

/* In global memory. */
typedef struct {
  int64_t page_addr, barrier_addr;
  int32_t num;
} plan_t;

static int64_t *words; /* a page */

static int64_t sent(void) {
  return (int64_t)(dmi_access_bytes(dmi_runtime_access(), MSG_DATA, NULL) +
                   dmi_access_bytes(dmi_runtime_access(), MSG_BLOCK, NULL));
}

/* One write, then all but the writer read.  Returns the milliseconds that the reads took. */
static double one(const plan_t *plan, DMI_local_barrier_t *barrier, int32_t rank, int64_t number,
                  int8_t mode) {
  int64_t start, ns;
  if (rank == 0) {
    for (int64_t i = 0; i < PAGE / 8; i++)
      words[i] = number * PAGE + i;
    CHECK(DMI_write(plan->page_addr, PAGE, words, DMI_EXCLUSIVE_WRITE, NULL));
  }
  CHECK(DMI_local_barrier_sync(barrier, plan->num));
  start = now_ns();
  if (rank != 0) CHECK(DMI_read(plan->page_addr, PAGE, words, mode, NULL));
  CHECK(DMI_local_barrier_sync(barrier, plan->num));
  ns = now_ns() - start;
  for (int64_t i = 0; i < PAGE / 8; i++) {
    if (words[i] == number * PAGE + i) continue;
    fprintf(stderr, "word %lld of the page is wrong\n", (long long)i);
    exit(1);
  }
  return (double)ns / 1e6;
}

static void take_part(const plan_t *plan, int32_t rank) {
  static const int8_t modes[] = {DMI_INVALIDATE_READ, DMI_GET_READ};
  static const char *const names[] = {"bcast_64m", "plain_64m"};
  DMI_local_barrier_t barrier;
  double values[2][TIMES];
  int64_t before = 0, out = 0;
  words = my_malloc((size_t)PAGE);
  CHECK(DMI_local_barrier_init(&barrier, plan->barrier_addr));
  for (int64_t time = -1; time < TIMES; time++) {
    for (int i = 0; i < 2; i++) {
      if (i == 0) before = sent();
      double ms = one(plan, &barrier, rank, 2 * time + i, modes[i]);
      if (i == 0) out = sent() - before;
      if (time >= 0) values[i][time] = ms;
    }
  }
  CHECK(DMI_local_barrier_destroy(&barrier));
  my_free(words);
  if (rank != 0) return;
  for (int i = 0; i < 2; i++) {
    qsort(values[i], TIMES, sizeof(double), compare_doubles);
    printf("%s_%d %.4g ms %.4g %.4g\n", names[i], plan->num, values[i][TIMES / 2], values[i][0],
           values[i][TIMES - 1]);
  }
  printf("bcast_sends_%d %.4g pages\n", plan->num, (double)out / (double)PAGE);
  fflush(stdout);
}

int64_t DMI_thread(int64_t addr) {
  plan_t plan;
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  take_part(&plan, 1);
  return 0;
}

void DMI_main(int argc, char **argv) {
  plan_t plan = {.num = argc > 1 ? (int32_t)atoi(argv[1]) : 8};
  DMI_thread_t threads[MOST];
  DMI_node_t node;
  int32_t me, ids[MOST];
  int64_t plan_addr;
  CHECK(DMI_rank(&me));
  for (int32_t i = 0; i < plan.num;) {
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
    if (node.dmi_id != me) ids[i++] = node.dmi_id;
    if (i == plan.num - 1) break;
  }
  CHECK(DMI_mmap(&plan.page_addr, PAGE, 1, NULL));
  CHECK(DMI_mmap(&plan.barrier_addr, sizeof(DMI_barrier_t), 1, NULL));
  CHECK(DMI_barrier_init(plan.barrier_addr));
  CHECK(DMI_mmap(&plan_addr, sizeof(plan), 1, NULL));
  CHECK(DMI_write(plan_addr, sizeof(plan), &plan, DMI_EXCLUSIVE_WRITE, NULL));
  for (int32_t i = 0; i < plan.num - 1; i++)
    CHECK(DMI_create(&threads[i], ids[i], plan_addr, NULL));
  take_part(&plan, 0);
  for (int32_t i = 0; i < plan.num - 1; i++)
    CHECK(DMI_join(threads[i], NULL, NULL));
}
