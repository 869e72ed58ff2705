/*
 * mpi_ops.c - what MPI's equals of DMI's calls cost: `name value unit min max` lines.
 *
 *   mpirun -np 2 ./mpi_ops one-sided      MPI_Get, MPI_Put, ..., from rank 1 to memory of rank 0, over TCP
 *   mpirun -np 2 ./mpi_ops one-sided shm  the same over shared memory
 *   mpirun -np N ./mpi_ops together       MPI_Barrier and MPI_Allreduce of N processes
 *
 * Uses no part of DMI, and is compiled with mpicc by `make bench` only.  test/bench/Mpi.pm has the
 * options with which it is run, and docs/performance.md says what is compared with what.
 *
 * One-sided calls are made in one passive epoch (MPI_Win_lock_all) that is never left: nothing is
 * paid for locks.  Meanwhile rank 0 waits in MPI_Barrier, where MPI serves the requests: outside
 * of MPI's calls nobody would.
 *
 * Errors of MPI end the program, which is MPI's default, so results are not looked at.
 */
#include <mpi.h>

#include <stdint.h>
#include <string.h>

#include "bench.h"

#define MIB (1024 * 1024)
#define WORDS (MIB / (int)sizeof(int64_t))
#define IN_FLIGHT 64
#define ITEMS 1000
#define PAGE 65536                   /* bytes: the pages of the group reads */
#define MOST_PAGES 100               /* of a group read */
#define BLOCK_AT (MOST_PAGES * PAGE) /* in the window: pages, a block of 1 MiB, a counter */
#define COUNTER_AT (BLOCK_AT + MIB)
#define WINDOW_SIZE (COUNTER_AT + PAGE)
#define OWNER 0
#define BATCH_NS 50000000 /* a batch is made smaller when it would take longer */

/* What a run of calls needs. */
typedef struct {
  MPI_Win window;
  MPI_Datatype indexed;     /* the items of a group read, at the owner */
  int displacements[ITEMS]; /* of the same, in doubles */
  int64_t *buf;             /* 1 MiB */
} plan_t;

static int64_t counted; /* fetch-and-adds made */

static void fail(const char *what) {
  fprintf(stderr, "mpi_ops: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  exit(EXIT_FAILURE);
}

/* ---- The calls, each made `count` times ----------------------------------------------------- */

typedef void many_t(const plan_t *plan, int64_t count);

static void many_get_8(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    MPI_Get(plan->buf, 8, MPI_BYTE, OWNER, BLOCK_AT, 8, MPI_BYTE, plan->window);
    MPI_Win_flush(OWNER, plan->window);
  }
}

/* The quicker way to get something at once: no flush, only the answer is waited for.  The other
 * figures about getting are taken in this way too. */
static void get_now(const plan_t *plan, int size, int at, int num, MPI_Datatype type) {
  MPI_Request request;
  MPI_Rget(plan->buf, size, MPI_BYTE, OWNER, at, num, type, plan->window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void many_rget_8(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    get_now(plan, 8, BLOCK_AT, 8, MPI_BYTE);
}

/* Flushed: complete at the owner, as a DMI_PUT_WRITE is when it returns. */
static void many_put_8(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    MPI_Put(plan->buf, 8, MPI_BYTE, OWNER, BLOCK_AT, 8, MPI_BYTE, plan->window);
    MPI_Win_flush(OWNER, plan->window);
  }
}

static void many_fad(const plan_t *plan, int64_t count) {
  const int64_t one = 1;
  for (int64_t i = 0; i < count; i++) {
    MPI_Fetch_and_op(&one, plan->buf, MPI_INT64_T, OWNER, COUNTER_AT, MPI_SUM, plan->window);
    MPI_Win_flush(OWNER, plan->window);
    if (plan->buf[0] != counted++) fail("MPI_Fetch_and_op has lost count");
  }
}

static void many_fas(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    MPI_Fetch_and_op(&i, plan->buf, MPI_INT64_T, OWNER, BLOCK_AT, MPI_REPLACE, plan->window);
    MPI_Win_flush(OWNER, plan->window);
  }
}

static void many_cas(const plan_t *plan, int64_t count) {
  const int64_t zero = 0;
  for (int64_t i = 0; i < count; i++) {
    MPI_Compare_and_swap(&zero, &zero, plan->buf, MPI_INT64_T, OWNER, BLOCK_AT, plan->window);
    MPI_Win_flush(OWNER, plan->window);
  }
}

/* `count` is a number of calls, IN_FLIGHT at a time. */
static void many_rget_async(const plan_t *plan, int64_t count) {
  MPI_Request requests[IN_FLIGHT];
  for (int64_t i = 0; i < count; i += IN_FLIGHT) {
    for (int j = 0; j < IN_FLIGHT; j++) {
      MPI_Rget(plan->buf + j, 8, MPI_BYTE, OWNER, BLOCK_AT + 8 * j, 8, MPI_BYTE, plan->window,
               &requests[j]);
    }
    MPI_Waitall(IN_FLIGHT, requests, MPI_STATUSES_IGNORE);
  }
}

static void many_get_1m(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    get_now(plan, MIB, BLOCK_AT, MIB, MPI_BYTE);
}

static void many_group(const plan_t *plan, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    get_now(plan, ITEMS * (int)sizeof(double), 0, 1, plan->indexed);
}

static void many_barrier(const plan_t *plan, int64_t count) {
  (void)plan;
  for (int64_t i = 0; i < count; i++)
    MPI_Barrier(MPI_COMM_WORLD);
}

static void many_allreduce(const plan_t *plan, int64_t count) {
  const double one = 1;
  double sum = 0;
  int num;
  (void)plan;
  MPI_Comm_size(MPI_COMM_WORLD, &num);
  for (int64_t i = 0; i < count; i++) {
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != num) fail("MPI_Allreduce gave a wrong sum");
  }
}

/* ---- Measuring ------------------------------------------------------------------------------ */

/* How many calls to put into a batch: `count`, or as many as fit into BATCH_NS, in whole `step`s.
 * On a busy machine a process that spins is put aside, and each call takes milliseconds. */
static int64_t fit(many_t *many, int64_t count, int64_t step, const plan_t *plan) {
  const int64_t probe = step > count / 16 ? step : count / 16 / step * step;
  const int64_t start = now_ns();
  many(plan, probe);
  const int64_t fitting = BATCH_NS * probe / (now_ns() - start + 1) / step * step;
  return fitting < step ? step : fitting < count ? fitting : count;
}

/* Microseconds per call; one more batch comes first and is thrown away. */
static void measure(figure_t *figure, const char *name, many_t *many, int64_t count,
                    const plan_t *plan) {
  snprintf(figure->name, sizeof(figure->name), "%s", name);
  snprintf(figure->unit, sizeof(figure->unit), "us");
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    many(plan, count);
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / 1000.0 / (double)count;
  }
}

/* A call that only this process makes. */
static void one_side(const char *name, many_t *many, int64_t count, int64_t step,
                     const plan_t *plan) {
  figure_t figure;
  measure(&figure, name, many, fit(many, count, step, plan), plan);
  figure_print(&figure);
}

/* Bytes that this process has taken in by read and readv; those of shared memory are not seen. */
static int64_t bytes_read(void) {
  long long bytes = -1;
  FILE *file = fopen("/proc/self/io", "r");
  if (file == NULL || fscanf(file, "rchar: %lld", &bytes) != 1) fail("no rchar in /proc/self/io");
  fclose(file);
  return bytes;
}

/* Checks that what is measured is what the name says. */
static void check_transport(const plan_t *plan, int by_tcp) {
  const int64_t before = bytes_read();
  many_get_1m(plan, 1);
  if ((bytes_read() - before >= MIB) != by_tcp)
    fail(by_tcp ? "1 MiB has not come through a socket: is this TCP?" : "1 MiB has come through a socket");
  for (int i = 0; i < WORDS; i++)
    if (plan->buf[i] != i) fail("MPI_Get gave wrong bytes");
}

static void one_side_1m(const plan_t *plan) {
  figure_t figure;
  measure(&figure, "mpi_get_1m", many_get_1m, fit(many_get_1m, 64, 1, plan), plan);
  snprintf(figure.unit, sizeof(figure.unit), "MB/s");
  for (int i = 0; i < batches(); i++)
    figure.values[i] = MIB / figure.values[i];
  figure_print(&figure);
}

/* 1,000 doubles spread evenly over `pages` pages, in ascending order, which is best for MPI. */
static void one_side_group(const char *name, int pages, plan_t *plan) {
  const int step = pages * (PAGE / 8) / ITEMS;
  for (int i = 0; i < ITEMS; i++)
    plan->displacements[i] = i * step;
  MPI_Type_create_indexed_block(ITEMS, 1, plan->displacements, MPI_DOUBLE, &plan->indexed);
  MPI_Type_commit(&plan->indexed);
  memset(plan->buf, 0, ITEMS * 8);
  one_side(name, many_group, 200, 1, plan);
  for (int i = 0; i < ITEMS; i++)
    if (((double *)plan->buf)[i] != i * step) fail("MPI_Get of an indexed type: wrong bytes");
  MPI_Type_free(&plan->indexed);
}

static void one_sided(int rank, int by_tcp) {
  plan_t plan;
  char *memory;
  MPI_Win_allocate(WINDOW_SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &plan.window);
  memset(memory, 0, WINDOW_SIZE);
  for (int i = 0; i < BLOCK_AT / 8; i++)
    ((double *)memory)[i] = i;
  for (int i = 0; i < WORDS; i++)
    ((int64_t *)(memory + BLOCK_AT))[i] = i;
  plan.buf = calloc(1, MIB);
  if (plan.buf == NULL) fail("no memory");

  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, plan.window);
  if (rank != OWNER) {
    check_transport(&plan, by_tcp);
    one_side("mpi_get_8", many_get_8, 500, 1, &plan);
    one_side("mpi_rget_8", many_rget_8, 500, 1, &plan);
    one_side("mpi_put_8", many_put_8, 500, 1, &plan);
    one_side("mpi_fad", many_fad, 500, 1, &plan);
    one_side("mpi_fas", many_fas, 500, 1, &plan);
    one_side("mpi_cas", many_cas, 500, 1, &plan);
    one_side("mpi_get_8_async", many_rget_async, 50 * IN_FLIGHT, IN_FLIGHT, &plan);
    one_side_1m(&plan);
    one_side_group("mpi_group_read_1", 1, &plan);
    one_side_group("mpi_group_read_10", 10, &plan);
    one_side_group("mpi_group_read_100", MOST_PAGES, &plan);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_unlock_all(plan.window);
  MPI_Win_free(&plan.window);
  free(plan.buf);
}

/* 64 MiB from rank 0 to all, in milliseconds, as bench_tree_dmi measures it. */
static void bcast(int rank, int num) {
  const int words = 8 << 20, times = 3;
  int64_t *buf = malloc((size_t)words * 8);
  double ms[3];
  if (buf == NULL) fail("no memory");
  for (int time = -1; time < times; time++) {
    for (int i = 0; i < words; i++)
      buf[i] = rank == 0 ? (int64_t)time * words + i : -7;
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t start = now_ns();
    MPI_Bcast(buf, words, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (time >= 0) ms[time] = (double)(now_ns() - start) / 1e6;
    for (int i = 0; i < words; i++)
      if (buf[i] != (int64_t)time * words + i) fail("MPI_Bcast gave wrong bytes");
  }
  free(buf);
  qsort(ms, (size_t)times, sizeof(double), compare_doubles);
  if (rank == 0) printf("mpi_bcast_64m_%d %.4g ms %.4g %.4g\n", num, ms[1], ms[0], ms[2]);
}

/* A call that all make at once, as often as rank 0 finds right; rank 0 measures. */
static void all_sides(const char *name, many_t *many, int rank, int num) {
  figure_t figure;
  char full_name[32];
  int64_t count = fit(many, 1000, 1, NULL);
  MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  snprintf(full_name, sizeof(full_name), "%s_%d", name, num);
  measure(&figure, full_name, many, count, NULL);
  if (rank == 0) figure_print(&figure);
}

int main(int argc, char **argv) {
  int rank, num;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num);
  const int by_shm = argc == 3 && strcmp(argv[2], "shm") == 0;
  if ((argc == 2 || by_shm) && strcmp(argv[1], "one-sided") == 0 && num == 2) {
    one_sided(rank, !by_shm);
  } else if (argc == 2 && strcmp(argv[1], "together") == 0) {
    all_sides("mpi_barrier", many_barrier, rank, num);
    all_sides("mpi_allreduce", many_allreduce, rank, num);
    if (num == 8) bcast(rank, num);
  } else {
    fail("usage: mpirun -np 2 ./mpi_ops one-sided [shm] | mpirun -np N ./mpi_ops together");
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
