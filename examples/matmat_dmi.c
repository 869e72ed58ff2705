/*
 * matmat_dmi.c - a product of two matrices, C = A B, by a fixed number of processes.
 *
 *   dmicc -O2 matmat_dmi.c -o matmat_dmi
 *   dmirun ./matmat_dmi 2 4 1000    starts the program: 2 processes, 4 threads each, 1000 x 1000
 *   dmirun -i HOST ./matmat_dmi     joins it; the second of 2
 *
 * Arguments: node_num thread_num n.  Rows are divided into blocks of equal size, one page of global
 * memory and one thread per block; when n is not divisible the last blocks are shorter or empty.
 * There are two phases, and each is a set of threads: when DMI_main has joined those of the first,
 * which make A and B, it creates those of the second, which read them.  The same division in both
 * phases keeps a block of A in the process that uses it.  DMI_main compares the result with one
 * that it computes by itself and prints `correct` or `wrong`.
 */
#include "spmd.h"

enum { FILL, MULTIPLY };

/* What the threads are told, in global memory. */
typedef struct {
  int32_t phase; /* FILL or MULTIPLY */
  int32_t n;
  int64_t a_addr, b_addr, c_addr;
} work_t;

/* An element of A (which 0) or B (which 1): looks random, and is the same in every process.  Whole
 * numbers below 1000, so that sums are exact in any order and results can be compared with ==. */
static double element(uint32_t which, int64_t row, int64_t column) {
  uint32_t h = (uint32_t)row * 2654435761u ^ (uint32_t)column * 2246822519u ^ which * 3266489917u;
  h = (h ^ (h >> 15)) * 2654435769u;
  return (double)((h ^ (h >> 13)) % 1999) - 999;
}

static int64_t rows_bytes(int64_t rows, int64_t n) {
  return rows * n * (int64_t)sizeof(double);
}

static void fill(double *rows, uint32_t which, int64_t begin, int64_t end, int64_t n) {
  for (int64_t i = begin; i < end; i++) {
    for (int64_t j = 0; j < n; j++)
      *rows++ = element(which, i, j);
  }
}

/* c = a b for `rows` rows of a and c. */
static void multiply(const double *a, const double *b, double *c, int64_t rows, int64_t n) {
  memset(c, 0, (size_t)rows_bytes(rows, n));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < n; k++) {
      const double factor = a[i * n + k];
      for (int64_t j = 0; j < n; j++)
        c[i * n + j] += factor * b[k * n + j];
    }
  }
}

/* ---- The threads ---------------------------------------------------------------------------- */

/* A thread has the rows [begin, end). */
static void fill_block(const work_t *work, int64_t begin, int64_t end) {
  const int64_t offset = rows_bytes(begin, work->n);
  const int64_t bytes = rows_bytes(end - begin, work->n);
  double *rows = my_malloc((size_t)bytes);
  fill(rows, 0, begin, end, work->n);
  CHECK(DMI_write(work->a_addr + offset, bytes, rows, DMI_EXCLUSIVE_WRITE, NULL));
  fill(rows, 1, begin, end, work->n);
  CHECK(DMI_write(work->b_addr + offset, bytes, rows, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(rows);
}

static void multiply_block(const work_t *work, int64_t begin, int64_t end) {
  const int64_t n = work->n, rows = end - begin;
  const int64_t offset = rows_bytes(begin, n), bytes = rows_bytes(rows, n);
  double *a = my_malloc((size_t)bytes);
  double *b = my_malloc((size_t)rows_bytes(n, n));
  double *c = my_malloc((size_t)bytes);
  CHECK(DMI_read(work->a_addr + offset, bytes, a, DMI_INVALIDATE_READ, NULL));
  /* All threads of a process read the whole of B: only the first of them waits for the network. */
  CHECK(DMI_read(work->b_addr, rows_bytes(n, n), b, DMI_INVALIDATE_READ, NULL));
  multiply(a, b, c, rows, n);
  CHECK(DMI_write(work->c_addr + offset, bytes, c, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(c);
  my_free(b);
  my_free(a);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  work_t work;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(work), &work, DMI_GET_READ, NULL));
  const int64_t block = (work.n + arg.pnum - 1) / arg.pnum;
  const int64_t begin = block * arg.rank;
  const int64_t end = begin + block < work.n ? begin + block : work.n;
  if (begin >= end) return DMI_NULL;
  if (work.phase == FILL) {
    fill_block(&work, begin, end);
  } else {
    multiply_block(&work, begin, end);
  }
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

static void run_phase(const spmd_t *spmd, int64_t work_addr, work_t *work, int32_t phase) {
  work->phase = phase;
  CHECK(DMI_write(work_addr, sizeof(*work), work, DMI_EXCLUSIVE_WRITE, NULL));
  spmd_run(spmd, work_addr);
}

static int result_is_right(const work_t *work) {
  const int64_t n = work->n, bytes = rows_bytes(n, n);
  double *a = my_malloc((size_t)bytes), *b = my_malloc((size_t)bytes);
  double *expected = my_malloc((size_t)bytes), *c = my_malloc((size_t)bytes);
  fill(a, 0, 0, n, n);
  fill(b, 1, 0, n, n);
  multiply(a, b, expected, n, n);
  CHECK(DMI_read(work->c_addr, bytes, c, DMI_GET_READ, NULL));
  const int right = memcmp(c, expected, (size_t)bytes) == 0;
  my_free(c);
  my_free(expected);
  my_free(b);
  my_free(a);
  return right;
}

void DMI_main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s node_num thread_num n\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t node_num = check_number("node_num", argv[1], 1);
  const int32_t thread_num = check_number("thread_num", argv[2], 1);
  work_t work = {.n = check_number("n", argv[3], 1)};
  int64_t work_addr;
  spmd_t spmd;

  spmd_gather(&spmd, node_num, thread_num);
  const int64_t page = rows_bytes((work.n + spmd.pnum - 1) / spmd.pnum, work.n);
  CHECK(DMI_mmap(&work.a_addr, page, spmd.pnum, NULL));
  CHECK(DMI_mmap(&work.b_addr, page, spmd.pnum, NULL));
  CHECK(DMI_mmap(&work.c_addr, page, spmd.pnum, NULL));
  CHECK(DMI_mmap(&work_addr, sizeof(work), 1, NULL));
  run_phase(&spmd, work_addr, &work, FILL);
  run_phase(&spmd, work_addr, &work, MULTIPLY);
  const int right = result_is_right(&work);
  printf("%s\n", right ? "correct" : "wrong");
  fflush(stdout);

  CHECK(DMI_munmap(work_addr, NULL));
  CHECK(DMI_munmap(work.c_addr, NULL));
  CHECK(DMI_munmap(work.b_addr, NULL));
  CHECK(DMI_munmap(work.a_addr, NULL));
  if (!right) CHECK(DMI_exit(EXIT_FAILURE)); /* of all processes */
  spmd_end(&spmd);
}
