/*
 * bench_ops_dmi.c - what the calls cost that reach global memory: `name value unit min max` lines.
 *
 *   dmirun ./bench_ops_dmi            and one process that joins it
 *
 * All pages are owned by the first process, where DMI_main only waits.  One thread in the second
 * process makes the calls, so each of them goes to the other process unless it hits a copy.  Every
 * figure is taken by itself, on an idle system.  The figures come back through global memory, for
 * DMI_main to print.
 */
#include <math.h>

#include "../../examples/check.h"
#include "bench.h"

#define MIB ((int64_t)1024 * 1024)
#define IN_FLIGHT 64
#define PER_BATCH 16 /* pages of 1 MiB read for the first time */
#define FRESH_PAGES ((BATCHES + 1) * PER_BATCH)

enum {
  READ_HIT_8,
  READ_HIT_4K,
  GET_8,
  PUT_8,
  FAD,
  CAS,
  FAS,
  RMW,
  MALLOC,
  GET_ASYNC,
  GET_1M,
  FIRST_READ_1M,
  FIRST_READ_FRESH,
  POW,
  FIGURES
};

/* In global memory, on pages of their own: one for each kind of use. */
typedef struct {
  int64_t word_addr;    /* a page of 4 KiB that is read and written remotely */
  int64_t copy_addr;    /* a page of 4 KiB of which the thread keeps a copy */
  int64_t block_addr;   /* a page of 1 MiB */
  int64_t fresh_addr;   /* FRESH_PAGES pages of 1 MiB */
  int64_t figures_addr; /* FIGURES figure_t */
  int64_t touch_addr;   /* PER_BATCH pages of 1 MiB: a thread that gets this plan writes them; */
                        /* 0: it measures */
  int32_t owner;        /* the first process */
} plan_t;

/* The shortest useful read-modify-write: add out1 and answer with the old value. */
void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  int64_t value, add;
  (void)size, (void)out2_ptr, (void)out2_size, (void)tag;
  memcpy(&value, page_ptr, sizeof(value));
  memcpy(&add, out1_ptr, (size_t)out1_size);
  memcpy(in_ptr, &value, (size_t)in_size);
  value += add;
  memcpy(page_ptr, &value, sizeof(value));
}

/* ---- The calls, each made `count` times ----------------------------------------------------- */

typedef void many_t(const plan_t *plan, int64_t count, char *buf);

static void many_hit_8(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_read(plan->copy_addr, 8, buf, DMI_INVALIDATE_READ, NULL));
  }
}

static void many_hit_4k(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_read(plan->copy_addr, 4096, buf, DMI_INVALIDATE_READ, NULL));
  }
}

static void many_get_8(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_read(plan->word_addr, 8, buf, DMI_GET_READ, NULL));
  }
}

static void many_put_8(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_write(plan->word_addr, 8, buf, DMI_PUT_WRITE, NULL));
  }
}

/* Allocated and freed by this process: nothing is sent. */
static void many_malloc(const plan_t *plan, int64_t count, char *buf) {
  int64_t addr;
  (void)plan, (void)buf;
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_malloc(&addr, 64, 4096));
    CHECK(DMI_free(addr));
  }
}

/* What the thread itself computes, between its calls. */
static void many_pow(const plan_t *plan, int64_t count, char *buf) {
  volatile double sum = 0;
  (void)plan, (void)buf;
  for (int64_t i = 0; i < count; i++)
    sum = sum + pow(1.0001, (double)i * 0.01);
}

static void many_fad(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_fad(plan->word_addr, 1, (int64_t *)(void *)buf, DMI_PUT_ATOMIC, NULL));
  }
}

static void many_cas(const plan_t *plan, int64_t count, char *buf) {
  int8_t flag;
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_cas(plan->word_addr, 8, buf, buf + 8, &flag, DMI_PUT_ATOMIC, NULL));
  }
}

static void many_fas(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_fas(plan->word_addr, 8, buf, buf + 8, DMI_PUT_ATOMIC, NULL));
  }
}

static void many_rmw(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_atomic(plan->word_addr, 8, buf, 8, NULL, 0, buf + 8, 8, 0, DMI_PUT_ATOMIC, NULL));
  }
}

static void many_get_async(const plan_t *plan, int64_t count, char *buf) {
  DMI_local_status_t statuses[IN_FLIGHT];
  for (int64_t i = 0; i < count; i += IN_FLIGHT) {
    for (int64_t j = 0; j < IN_FLIGHT; j++) {
      CHECK(DMI_read(plan->word_addr + 8 * j, 8, buf + 8 * j, DMI_GET_READ, &statuses[j]));
    }
    for (int64_t j = 0; j < IN_FLIGHT; j++) {
      check_wait(&statuses[j]);
    }
  }
}

static void many_get_1m(const plan_t *plan, int64_t count, char *buf) {
  for (int64_t i = 0; i < count; i++) {
    CHECK(DMI_read(plan->block_addr, MIB, buf, DMI_GET_READ, NULL));
  }
}

/* ---- The thread in the second process ------------------------------------------------------- */

static void measure_time(figure_t *figure, const char *name, const char *unit, double unit_ns,
                         many_t *many, int64_t count, const plan_t *plan, char *buf) {
  snprintf(figure->name, sizeof(figure->name), "%s", name);
  snprintf(figure->unit, sizeof(figure->unit), "%s", unit);
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    many(plan, count, buf);
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / (double)count / unit_ns;
  }
}

static void measure_get_1m(figure_t *figure, const plan_t *plan, char *buf) {
  measure_time(figure, "get_1m", "MB/s", 1, many_get_1m, 64, plan, buf);
  for (int i = 0; i < batches(); i++)
    figure->values[i] = (double)MIB * 1000 / figure->values[i];
}

static double read_batch(int64_t page_addr, char *buf) {
  const int64_t start = now_ns();
  for (int i = 0; i < PER_BATCH; i++) {
    CHECK(DMI_read(page_addr + i * MIB, MIB, buf, DMI_INVALIDATE_READ, NULL));
  }
  return rate_mb(PER_BATCH * MIB, now_ns() - start);
}

/* First reads of pages that this process has never had: into memory that it has never touched. */
static void measure_first_read_fresh(figure_t *figure, const plan_t *plan, char *buf) {
  snprintf(figure->name, sizeof(figure->name), "first_read_fresh");
  snprintf(figure->unit, sizeof(figure->unit), "MB/s");
  for (int batch = -1; batch < batches(); batch++) {
    const double rate = read_batch(plan->fresh_addr + (batch + 1) * PER_BATCH * MIB, buf);
    if (batch >= 0) figure->values[batch] = rate;
  }
}

/* Makes the owner write a number in each page of a batch, so that all copies become invalid. */
static void touch_batch(const plan_t *plan, int64_t page_addr) {
  plan_t order = *plan;
  DMI_thread_t thread;
  int64_t order_addr;
  order.touch_addr = page_addr;
  CHECK(DMI_mmap(&order_addr, sizeof(order), 1, NULL));
  CHECK(DMI_write(order_addr, sizeof(order), &order, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_create(&thread, plan->owner, order_addr, NULL));
  CHECK(DMI_join(thread, NULL, NULL));
  CHECK(DMI_munmap(order_addr, NULL));
}

/* First reads of pages that have been written since this process last read them. */
static void measure_first_read(figure_t *figure, const plan_t *plan, char *buf) {
  snprintf(figure->name, sizeof(figure->name), "first_read_1m");
  snprintf(figure->unit, sizeof(figure->unit), "MB/s");
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t page_addr = plan->fresh_addr + (batch + 1) * PER_BATCH * MIB;
    touch_batch(plan, page_addr);
    const double rate = read_batch(page_addr, buf);
    if (batch >= 0) figure->values[batch] = rate;
  }
}

int64_t DMI_thread(int64_t addr) {
  plan_t plan;
  figure_t figures[FIGURES] = {0};
  char *buf = my_malloc((size_t)MIB);
  memset(buf, 0, (size_t)MIB);
  CHECK(DMI_read(addr, sizeof(plan), &plan, DMI_GET_READ, NULL));
  if (plan.touch_addr != 0) {
    for (int i = 0; i < PER_BATCH; i++) {
      CHECK(DMI_write(plan.touch_addr + i * MIB, 8, &plan, DMI_EXCLUSIVE_WRITE, NULL));
    }
    my_free(buf);
    return DMI_NULL;
  }

  measure_time(&figures[GET_8], "get_8", "us", 1000, many_get_8, 1000, &plan, buf);
  measure_time(&figures[PUT_8], "put_8", "us", 1000, many_put_8, 1000, &plan, buf);
  measure_time(&figures[FAD], "fad", "us", 1000, many_fad, 1000, &plan, buf);
  measure_time(&figures[MALLOC], "malloc_free", "us", 1000, many_malloc, 1000, &plan, buf);
  measure_time(&figures[CAS], "cas", "us", 1000, many_cas, 1000, &plan, buf);
  measure_time(&figures[FAS], "fas", "us", 1000, many_fas, 1000, &plan, buf);
  measure_time(&figures[RMW], "rmw", "us", 1000, many_rmw, 1000, &plan, buf);
  measure_time(&figures[GET_ASYNC], "get_8_async", "us", 1000, many_get_async, 50 * IN_FLIGHT,
               &plan, buf);
  measure_get_1m(&figures[GET_1M], &plan, buf);
  measure_first_read_fresh(&figures[FIRST_READ_FRESH], &plan, buf);
  measure_first_read(&figures[FIRST_READ_1M], &plan, buf);
  measure_time(&figures[READ_HIT_8], "read_hit_8", "ns", 1, many_hit_8, 500000, &plan, buf);
  measure_time(&figures[READ_HIT_4K], "read_hit_4k", "ns", 1, many_hit_4k, 200000, &plan, buf);
  measure_time(&figures[POW], "pow", "ns", 1, many_pow, 100000, &plan, buf);

  CHECK(DMI_write(plan.figures_addr, sizeof(figures), figures, DMI_PUT_WRITE, NULL));
  my_free(buf);
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

/* A mapping whose pages this process owns and has filled. */
static int64_t own_pages(int64_t page_size, int64_t page_num) {
  int64_t addr;
  char *bytes = my_malloc((size_t)page_size);
  memset(bytes, 1, (size_t)page_size);
  CHECK(DMI_mmap(&addr, page_size, page_num, NULL));
  for (int64_t i = 0; i < page_num; i++) {
    CHECK(DMI_write(addr + i * page_size, page_size, bytes, DMI_EXCLUSIVE_WRITE, NULL));
  }
  my_free(bytes);
  return addr;
}

/* Waits until a process other than this one has joined; returns its id. */
static int32_t wait_for_other(void) {
  int32_t my_dmi_id;
  DMI_node_t node;
  CHECK(DMI_rank(&my_dmi_id));
  do {
    CHECK(DMI_poll(&node));
    if (node.state == DMI_CLOSE) {
      fprintf(stderr, "told to leave before anything was measured\n");
      exit(EXIT_FAILURE);
    }
    CHECK(DMI_welcome(node.dmi_id));
  } while (node.dmi_id == my_dmi_id);
  return node.dmi_id;
}

void DMI_main(int argc, char **argv) {
  plan_t plan = {0};
  figure_t figures[FIGURES];
  DMI_thread_t thread;
  int64_t plan_addr;
  (void)argc, (void)argv;

  const int32_t other = wait_for_other();
  CHECK(DMI_rank(&plan.owner));
  plan.word_addr = own_pages(4096, 1);
  plan.copy_addr = own_pages(4096, 1);
  plan.block_addr = own_pages(MIB, 1);
  plan.fresh_addr = own_pages(MIB, FRESH_PAGES);
  plan.figures_addr = own_pages(sizeof(figures), 1);
  plan_addr = own_pages(sizeof(plan), 1);
  CHECK(DMI_write(plan_addr, sizeof(plan), &plan, DMI_EXCLUSIVE_WRITE, NULL));

  CHECK(DMI_create(&thread, other, plan_addr, NULL));
  CHECK(DMI_join(thread, NULL, NULL));
  CHECK(DMI_read(plan.figures_addr, sizeof(figures), figures, DMI_GET_READ, NULL));
  for (int i = 0; i < FIGURES; i++)
    figure_print(&figures[i]);
}
