/*
 * bench_leave_dmi.c - how long a process that owns 256 MiB takes to leave, and what others feel of
 * it.
 *
 *   dmirun ./bench_leave_dmi            first process: DMI_main; owns the page that is read below
 *   dmirun -i HOST ./bench_leave_dmi    second: becomes owner of 256 pages of 1 MiB, then leaves
 *   dmirun -i HOST ./bench_leave_dmi    third: a thread there reads 4 KiB with GET all the time
 *
 * Prints `ready` when everything is in place and the reader has been measured undisturbed; then
 * the second process must get SIGINT.  Prints figures as `name value unit` and ends by itself.
 * Every page is compared afterwards with what its owner had written: a fast leave that loses bytes
 * is worth nothing.
 */
#include <stddef.h>

#include "../../examples/check.h"
#include "bench.h"

#define MIB ((int64_t)1024 * 1024)
#define OWNED ((int64_t)256) /* pages of 1 MiB */
#define WINDOW_NS ((int64_t)1000000000)

/* What the reader is to do, and which of its counts a read belongs to. */
enum { WARM_UP, BEFORE, DURING, STOP, PHASES = STOP };

/* DMI_thread's argument, and its results. */
typedef struct {
  int32_t role;  /* OWNER or READER */
  int32_t phase; /* written by DMI_main, once: DURING, then STOP */
  int64_t addr;  /* the pages to become owner of, or the page to read */
  int64_t reads[PHASES];
  int64_t total_ns[PHASES];
  int64_t longest_ns[PHASES];
} work_t;

enum { OWNER, READER };

/* Word w of owned page p. */
static int64_t content(int64_t page, int64_t word) {
  return page * 1000003 + word * 7919 + 1;
}

static void fill_page(int64_t *words, int64_t page) {
  for (int64_t i = 0; i < MIB / 8; i++)
    words[i] = content(page, i);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void own_pages(int64_t addr) {
  int64_t *words = my_malloc((size_t)MIB);
  for (int64_t page = 0; page < OWNED; page++) {
    fill_page(words, page);
    CHECK(DMI_write(addr + page * MIB, MIB, words, DMI_EXCLUSIVE_WRITE, NULL));
  }
  my_free(words);
}

/* The reads of one phase go into three numbers, so that measuring costs one look at the clock. */
static void count_read(work_t *work, int phase, int64_t ns) {
  work->reads[phase]++;
  work->total_ns[phase] += ns;
  if (ns > work->longest_ns[phase]) work->longest_ns[phase] = ns;
}

/* Warm-up and undisturbed reads last a fixed time; then DMI_main says when the leave begins and
 * ends.  A read that saw the leave begin or end counts as during. */
static void read_on(int64_t work_addr, work_t *work) {
  char bytes[4096];
  const int64_t phase_addr = work_addr + (int64_t)offsetof(work_t, phase);
  const int64_t begin = now_ns();
  int64_t last = begin;
  int told = 0;
  while (work->phase != STOP) {
    CHECK(DMI_read(work->addr, sizeof(bytes), bytes, DMI_GET_READ, NULL));
    CHECK(DMI_read(phase_addr, sizeof(work->phase), &work->phase, DMI_UPDATE_READ, NULL));
    /* From the end of the last round, so that no pause can hide between two of them. */
    const int64_t end = now_ns(), ns = end - last;
    last = end;
    if (work->phase >= DURING) {
      count_read(work, DURING, ns);
    } else if (end - begin < WINDOW_NS / 4) {
      count_read(work, WARM_UP, ns);
    } else if (end - begin < WINDOW_NS / 4 + WINDOW_NS) {
      count_read(work, BEFORE, ns);
    } else if (!told) {
      told = 1;
      printf("ready\n");
      fflush(stdout);
    }
  }
}

int64_t DMI_thread(int64_t addr) {
  work_t work;
  CHECK(DMI_read(addr, sizeof(work), &work, DMI_GET_READ, NULL));
  if (work.role == OWNER) {
    own_pages(work.addr);
  } else {
    read_on(addr, &work);
    CHECK(DMI_write(addr, sizeof(work), &work, DMI_PUT_WRITE, NULL));
  }
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static int64_t new_page(int64_t size, const void *bytes) {
  int64_t addr;
  CHECK(DMI_mmap(&addr, size, 1, NULL));
  CHECK(DMI_write(addr, size, bytes, DMI_EXCLUSIVE_WRITE, NULL));
  return addr;
}

static void set_phase(int64_t work_addr, int32_t phase) {
  CHECK(DMI_write(work_addr + (int64_t)offsetof(work_t, phase), sizeof(phase), &phase,
                  DMI_PUT_WRITE, NULL));
}

/* Waits for the next notice, which must be of this kind; returns who sent it. */
static int32_t expect(int32_t state) {
  DMI_node_t node;
  CHECK(DMI_poll(&node));
  if (node.state != state) {
    fprintf(stderr, "process %d came or went at the wrong time\n", node.dmi_id);
    exit(EXIT_FAILURE);
  }
  if (state == DMI_OPEN) CHECK(DMI_welcome(node.dmi_id));
  return node.dmi_id;
}

static void compare_pages(int64_t addr) {
  int64_t *have = my_malloc((size_t)MIB), *want = my_malloc((size_t)MIB);
  for (int64_t page = 0; page < OWNED; page++) {
    fill_page(want, page);
    CHECK(DMI_read(addr + page * MIB, MIB, have, DMI_GET_READ, NULL));
    if (memcmp(have, want, (size_t)MIB) != 0) {
      fprintf(stderr, "page %lld is not what its owner wrote before it left\n", (long long)page);
      exit(EXIT_FAILURE);
    }
  }
  my_free(want);
  my_free(have);
}

static double reads_per_s(const work_t *work, int phase) {
  return work->total_ns[phase] == 0
             ? 0
             : (double)work->reads[phase] * 1e9 / (double)work->total_ns[phase];
}

static void print_figures(const work_t *work, int64_t leave_ns) {
  printf("leave %.4g ms\n", (double)leave_ns / 1e6);
  printf("reads_before %.5g 1/s\n", reads_per_s(work, BEFORE));
  printf("reads_during %.5g 1/s\n", reads_per_s(work, DURING));
  printf("pause_before %.4g ms\n", (double)work->longest_ns[BEFORE] / 1e6);
  printf("pause_during %.4g ms\n", (double)work->longest_ns[DURING] / 1e6);
  fflush(stdout);
}

void DMI_main(int argc, char **argv) {
  char bytes[4096] = {1};
  DMI_thread_t owner, reader;
  work_t work = {.role = OWNER};
  int64_t owned_addr;
  (void)argc, (void)argv;

  expect(DMI_OPEN);
  const int32_t leaver_id = expect(DMI_OPEN);
  const int32_t reader_id = expect(DMI_OPEN);

  CHECK(DMI_mmap(&owned_addr, MIB, OWNED, NULL));
  work.addr = owned_addr;
  const int64_t owner_addr = new_page(sizeof(work), &work);
  CHECK(DMI_create(&owner, leaver_id, owner_addr, NULL));
  CHECK(DMI_join(owner, NULL, NULL));

  work.role = READER;
  work.addr = new_page(sizeof(bytes), bytes);
  const int64_t reader_addr = new_page(sizeof(work), &work);
  CHECK(DMI_create(&reader, reader_id, reader_addr, NULL));

  if (expect(DMI_CLOSE) != leaver_id) {
    fprintf(stderr, "the wrong process was told to leave\n");
    exit(EXIT_FAILURE);
  }
  set_phase(reader_addr, DURING);
  const int64_t start = now_ns();
  CHECK(DMI_goodbye(leaver_id));
  const int64_t leave_ns = now_ns() - start;
  set_phase(reader_addr, STOP);
  CHECK(DMI_join(reader, NULL, NULL));

  CHECK(DMI_read(reader_addr, sizeof(work), &work, DMI_GET_READ, NULL));
  print_figures(&work, leave_ns);
  compare_pages(owned_addr);
  printf("intact\n");
  fflush(stdout);
}
