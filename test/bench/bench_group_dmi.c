/*
 * bench_group_dmi.c - scattered access beside one contiguous GET of the same bytes: `name value
 * unit min max` lines.
 *
 *   dmirun ./bench_group_dmi          and one process that joins it
 *
 * All pages are owned by the first process, where DMI_main only waits.  One thread in the second
 * one reads and writes 1000 doubles that lie scattered in 1, 10 and 100 pages of 64 KiB, far enough
 * apart that a list is sent (bytes that lie close together would be fetched with what is between).
 */
#include "../../examples/check.h"
#include "bench.h"

#define ITEMS 1000
#define PAGE ((int64_t)65536)
#define PAGES 100
#define CALLS 200 /* of a batch, with 1 page */

enum { GET_8000, ONE_BY_ONE, READ_1, READ_10, READ_100, WRITE_1, WRITE_10, WRITE_100, FIGURES };

/* In global memory. */
typedef struct {
  int64_t pages_addr;   /* PAGES pages */
  int64_t figures_addr; /* FIGURES figure_t */
} plan_t;

static double values[ITEMS];

/* Items in the first `pages` pages. */
static void make_group(const plan_t *plan, int64_t pages, DMI_local_group_t *group) {
  static int64_t addrs[ITEMS], sizes[ITEMS], offsets[ITEMS];
  const int64_t each = ITEMS / pages, stride = PAGE / each / 8 * 8;
  for (int64_t i = 0; i < ITEMS; i++) {
    addrs[i] = plan->pages_addr + i % pages * PAGE + i / pages * stride;
    sizes[i] = sizeof(double);
    offsets[i] = (int64_t)sizeof(double) * ((i * 7) % ITEMS);
  }
  CHECK(DMI_group_init(group, addrs, sizes, offsets, ITEMS));
}

static void name_figure(figure_t *figure, const char *name) {
  snprintf(figure->name, sizeof(figure->name), "%s", name);
  snprintf(figure->unit, sizeof(figure->unit), "us");
}

static void set_value(figure_t *figure, int batch, int64_t start, int64_t calls) {
  if (batch >= 0) figure->values[batch] = (double)(now_ns() - start) / 1000 / (double)calls;
}

static void measure_group(figure_t *read, figure_t *write, const plan_t *plan, int64_t pages) {
  char name[32];
  const int64_t calls = CALLS / (pages < 20 ? pages : 20) + 1;
  DMI_local_group_t group;
  make_group(plan, pages, &group);
  snprintf(name, sizeof(name), "group_read_%lld", (long long)pages);
  name_figure(read, name);
  snprintf(name, sizeof(name), "group_write_%lld", (long long)pages);
  name_figure(write, name);
  for (int batch = -1; batch < batches(); batch++) {
    int64_t start = now_ns();
    for (int64_t i = 0; i < calls; i++)
      CHECK(DMI_group_read(&group, values, NULL));
    set_value(read, batch, start, calls);
    start = now_ns();
    for (int64_t i = 0; i < calls; i++)
      CHECK(DMI_group_write(&group, values, NULL));
    set_value(write, batch, start, calls);
  }
  CHECK(DMI_group_destroy(&group));
}

/* The same bytes in one piece, and piece by piece. */
static void measure_reads(figure_t *figures, const plan_t *plan) {
  name_figure(&figures[GET_8000], "get_8000");
  name_figure(&figures[ONE_BY_ONE], "gets_1000");
  for (int batch = -1; batch < batches(); batch++) {
    int64_t start = now_ns();
    for (int64_t i = 0; i < CALLS; i++)
      CHECK(DMI_read(plan->pages_addr, sizeof(values), values, DMI_GET_READ, NULL));
    set_value(&figures[GET_8000], batch, start, CALLS);
    start = now_ns();
    for (int64_t i = 0; i < ITEMS; i++)
      CHECK(DMI_read(plan->pages_addr + 64 * i, 8, &values[i], DMI_GET_READ, NULL));
    set_value(&figures[ONE_BY_ONE], batch, start, 1);
  }
}

int64_t DMI_thread(int64_t addr) {
  plan_t plan;
  figure_t figures[FIGURES] = {0};
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  measure_reads(figures, &plan);
  measure_group(&figures[READ_1], &figures[WRITE_1], &plan, 1);
  measure_group(&figures[READ_10], &figures[WRITE_10], &plan, 10);
  measure_group(&figures[READ_100], &figures[WRITE_100], &plan, 100);
  CHECK(DMI_write(plan.figures_addr, sizeof(figures), figures, DMI_PUT_WRITE, NULL));
  return 0;
}

void DMI_main(int argc, char **argv) {
  plan_t plan;
  figure_t figures[FIGURES];
  DMI_thread_t thread;
  DMI_node_t node;
  int64_t plan_addr;
  int32_t me;
  char *ones = my_malloc((size_t)PAGE);
  (void)argc, (void)argv;
  CHECK(DMI_rank(&me));
  do {
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
  } while (node.dmi_id == me);
  CHECK(DMI_mmap(&plan.pages_addr, PAGE, PAGES, NULL));
  CHECK(DMI_mmap(&plan.figures_addr, sizeof(figures), 1, NULL));
  CHECK(DMI_mmap(&plan_addr, sizeof(plan), 1, NULL));
  memset(ones, 1, (size_t)PAGE);
  for (int64_t i = 0; i < PAGES; i++)
    CHECK(DMI_write(plan.pages_addr + i * PAGE, PAGE, ones, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(ones);
  CHECK(DMI_write(plan_addr, sizeof(plan), &plan, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_create(&thread, node.dmi_id, plan_addr, NULL));
  CHECK(DMI_join(thread, NULL, NULL));
  CHECK(DMI_read(plan.figures_addr, sizeof(figures), figures, DMI_GET_READ, NULL));
  for (int i = 0; i < FIGURES; i++)
    figure_print(&figures[i]);
}
