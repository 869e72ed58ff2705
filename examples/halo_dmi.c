/*
 * halo_dmi.c - heat that spreads on a sheet: ranks of a team exchange the borders of their blocks.
 *
 *   dmicc -O2 halo_dmi.c -o halo_dmi -lm
 *   dmirun ./halo_dmi 512 1000             512 x 512 cells, 1000 steps; a rank per core
 *   dmirun ./halo_dmi 512 1000 2 3         two processes with three ranks each: waits for the
 *   dmirun -i HOST ./halo_dmi              second one, this; more may join at any time
 *   Ctrl+C                                 leaves, at any time
 *
 * Arguments: n steps [processes [ranks per process [steps between two changes]]].  Ranks stand in
 * rows and columns, each with a block of the sheet in local memory and one more line of cells at
 * each side, the halo.  In each step a rank sends the lines at its four sides to its neighbours and
 * receives theirs as its halo; meanwhile it computes the cells that need no halo.  The opposite
 * ends of the sheet are joined, so every rank has four neighbours, which may be itself.
 *
 * Messages have no tags: from one rank to another they come in the order in which they were sent.
 * A rank may be a neighbour at two sides; so what is sent to one side is received, in the same
 * order, from the opposite one.
 *
 * After some steps the ranks store their blocks in global memory and leave the team.  Then
 * processes join and leave, and a team of another size goes on from there.
 *
 * A digest of all cells and the largest change are compared with those of a sequential run.  Prints
 * `correct` if no bit differs, else `wrong`.
 */
#include <math.h>

#include "check.h"
#include "dmi_team.h"
#include "spmd.h"

enum side { UP, DOWN, LEFT, RIGHT, SIDES };

/* The work, in global memory. */
typedef struct {
  int64_t n;          /* rows of the sheet, cells of a row */
  int64_t steps;      /* of this phase */
  int64_t team_addr;  /* DMI_team_t */
  int64_t sheet_addr; /* n pages, a row each */
  /* ---- written by rank 0 at the end of a phase ---- */
  uint64_t digest;
  double change; /* the largest one of the last step */
} job_t;

/* A part of the sheet, in local memory. */
typedef struct {
  int64_t top, left;      /* of the sheet */
  int64_t height, width;  /* without the halo */
  double *cells, *next;   /* (height + 2) x (width + 2) of them */
  double *column[SIDES];  /* LEFT and RIGHT: cells of a column, to be sent and received */
  double *halo[SIDES];    /* where they are received */
  int32_t rank_at[SIDES]; /* neighbours */
} block_t;

static enum side opposite(enum side side) {
  return side == UP ? DOWN : side == DOWN ? UP : side == LEFT ? RIGHT : LEFT;
}

static double *cell(const block_t *b, double *cells, int64_t y, int64_t x) {
  return cells + (y + 1) * (b->width + 2) + x + 1;
}

static int64_t line_bytes(const block_t *b, enum side side) {
  return (side <= DOWN ? b->width : b->height) * (int64_t)sizeof(double);
}

static void block_open(block_t *b, int64_t top, int64_t left, int64_t height, int64_t width) {
  const size_t bytes = (size_t)((height + 2) * (width + 2)) * sizeof(double);
  *b = (block_t){.top = top, .left = left, .height = height, .width = width};
  b->cells = my_malloc(bytes);
  b->next = my_malloc(bytes);
  for (int i = 0; i < SIDES; i++) {
    b->column[i] = my_malloc((size_t)line_bytes(b, (enum side)i));
    b->halo[i] = my_malloc((size_t)line_bytes(b, (enum side)i));
  }
}

static void block_close(block_t *b) {
  for (int i = 0; i < SIDES; i++) {
    my_free(b->column[i]);
    my_free(b->halo[i]);
  }
  my_free(b->cells);
  my_free(b->next);
}

/* ---- The method ----------------------------------------------------------------------------- */

static double first_value(int64_t y, int64_t x) {
  return (y * 7 + x * 13) % 1000 == 0 ? 1000 : 0;
}

/* Computes rows [y, y_end) of columns [x, x_end); returns the largest change. */
static double compute(const block_t *b, int64_t y, int64_t y_end, int64_t x, int64_t x_end) {
  double most = 0;
  for (; y < y_end; y++) {
    const double *above = cell(b, b->cells, y - 1, 0), *row = cell(b, b->cells, y, 0);
    const double *below = cell(b, b->cells, y + 1, 0);
    double *to = cell(b, b->next, y, 0);
    for (int64_t i = x; i < x_end; i++) {
      to[i] = row[i] / 2 + (above[i] + below[i] + row[i - 1] + row[i + 1]) / 8;
      if (fabs(to[i] - row[i]) > most) most = fabs(to[i] - row[i]);
    }
  }
  return most;
}

/* The cells at the four sides. */
static double compute_sides(const block_t *b) {
  double most = compute(b, 0, 1, 0, b->width);
  most = fmax(most, compute(b, b->height - 1, b->height, 0, b->width));
  most = fmax(most, compute(b, 0, b->height, 0, 1));
  return fmax(most, compute(b, 0, b->height, b->width - 1, b->width));
}

static void advance(block_t *b) {
  double *const old = b->cells;
  b->cells = b->next;
  b->next = old;
}

/* A sum over all cells, so it does not depend on the blocks. */
static uint64_t digest_of(const block_t *b, int64_t n) {
  uint64_t sum = 0, bits;
  for (int64_t y = 0; y < b->height; y++) {
    for (int64_t x = 0; x < b->width; x++) {
      memcpy(&bits, cell(b, b->cells, y, x), sizeof(bits));
      bits = (bits ^ (uint64_t)((b->top + y) * n + b->left + x)) * 0x9e3779b97f4a7c15u;
      sum += (bits ^ bits >> 31) * 0xbf58476d1ce4e5b9u;
    }
  }
  return sum;
}

/* ---- Halo exchange -------------------------------------------------------------------------- */

/* The line of cells at a side; one of columns is put together. */
static const double *line_at(const block_t *b, enum side side) {
  if (side == UP) return cell(b, b->cells, 0, 0);
  if (side == DOWN) return cell(b, b->cells, b->height - 1, 0);
  for (int64_t y = 0; y < b->height; y++)
    b->column[side][y] = *cell(b, b->cells, y, side == LEFT ? 0 : b->width - 1);
  return b->column[side];
}

static void put_halo(const block_t *b, enum side side) {
  const double *line = b->halo[side];
  if (side <= DOWN) {
    memcpy(cell(b, b->cells, side == UP ? -1 : b->height, 0), line, (size_t)line_bytes(b, side));
    return;
  }
  for (int64_t y = 0; y < b->height; y++)
    *cell(b, b->cells, y, side == LEFT ? -1 : b->width) = line[y];
}

static double step(block_t *b, DMI_local_team_t *team) {
  DMI_local_status_t sent[SIDES], received[SIDES];
  double most;
  for (int i = 0; i < SIDES; i++) {
    const enum side to = (enum side)i, from = opposite(to);
    CHECK(DMI_team_recv(team, b->rank_at[from], b->halo[from], line_bytes(b, from), NULL,
                        &received[i]));
    CHECK(DMI_team_send(team, b->rank_at[to], line_at(b, to), line_bytes(b, to), &sent[i]));
  }
  most = compute(b, 1, b->height - 1, 1, b->width - 1);
  for (int i = 0; i < SIDES; i++) {
    check_wait(&received[i]);
    put_halo(b, opposite((enum side)i));
  }
  most = fmax(most, compute_sides(b));
  for (int i = 0; i < SIDES; i++) /* only now may the lines change */
    check_wait(&sent[i]);
  advance(b);
  return most;
}

/* ---- The ranks ------------------------------------------------------------------------------ */

/* As many rows of ranks as possible, but not more than columns. */
static int32_t rank_rows(int32_t pnum) {
  int32_t rows = 1;
  for (int32_t i = 1; i * i <= pnum; i++)
    if (pnum % i == 0) rows = i;
  return rows;
}

static void block_of_rank(block_t *b, int64_t n, int32_t rank, int32_t pnum) {
  const int32_t rows = rank_rows(pnum), columns = pnum / rows;
  const int32_t row = rank / columns, column = rank % columns;
  int64_t top, bottom, left, right;
  CHECK(DMI_block(n, row, rows, &top, &bottom));
  CHECK(DMI_block(n, column, columns, &left, &right));
  block_open(b, top, left, bottom - top, right - left);
  b->rank_at[UP] = (row + rows - 1) % rows * columns + column;
  b->rank_at[DOWN] = (row + 1) % rows * columns + column;
  b->rank_at[LEFT] = row * columns + (column + columns - 1) % columns;
  b->rank_at[RIGHT] = row * columns + (column + 1) % columns;
}

/* The address of the first cell of a row of the block. */
static int64_t row_addr(const block_t *b, const job_t *job, int64_t y) {
  return job->sheet_addr + ((b->top + y) * job->n + b->left) * (int64_t)sizeof(double);
}

int64_t DMI_thread(int64_t addr) {
  spmd_arg_t arg;
  job_t job;
  block_t b;
  DMI_local_team_t team;
  uint64_t digest;
  double change = 0;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  block_of_rank(&b, job.n, arg.rank, arg.pnum);
  for (int64_t y = 0; y < b.height; y++)
    CHECK(DMI_read(row_addr(&b, &job, y), line_bytes(&b, UP), cell(&b, b.cells, y, 0), DMI_GET_READ,
                   NULL));
  CHECK(DMI_team_join(&team, job.team_addr, arg.rank));
  for (int64_t i = 0; i < job.steps; i++)
    change = step(&b, &team);
  digest = digest_of(&b, job.n);
  CHECK(DMI_team_reduce(&team, 0, &digest, &job.digest, 1, DMI_TYPE_UINT64, DMI_OP_SUM));
  CHECK(DMI_team_reduce(&team, 0, &change, &job.change, 1, DMI_TYPE_DOUBLE, DMI_OP_MAX));
  for (int64_t y = 0; y < b.height; y++)
    CHECK(DMI_write(row_addr(&b, &job, y), line_bytes(&b, UP), cell(&b, b.cells, y, 0),
                    DMI_PUT_WRITE, NULL));
  if (arg.rank == 0) CHECK(DMI_write(arg.job_addr, sizeof(job), &job, DMI_PUT_WRITE, NULL));
  CHECK(DMI_team_leave(&team));
  block_close(&b);
  return DMI_NULL;
}

/* ---- The first process ---------------------------------------------------------------------- */

/* The whole sheet as one block. */
static void first_sheet(block_t *b, int64_t n) {
  block_open(b, 0, 0, n, n);
  for (int64_t y = 0; y < n; y++) {
    for (int64_t x = 0; x < n; x++)
      *cell(b, b->cells, y, x) = first_value(y, x);
  }
}

static double step_alone(block_t *b) {
  double most;
  for (int i = 0; i < SIDES; i++)
    memcpy(b->halo[i], line_at(b, opposite((enum side)i)), (size_t)line_bytes(b, (enum side)i));
  for (int i = 0; i < SIDES; i++)
    put_halo(b, (enum side)i);
  most = compute(b, 0, b->height, 0, b->width);
  advance(b);
  return most;
}

static int result_is_right(const job_t *job, int64_t steps) {
  block_t all;
  double change = 0;
  uint64_t digest;
  first_sheet(&all, job->n);
  for (int64_t i = 0; i < steps; i++)
    change = step_alone(&all);
  digest = digest_of(&all, job->n);
  block_close(&all);
  return digest == job->digest && change == job->change;
}

/* Runs so many steps with the processes that are there. */
static void run_phase(const spmd_t *spmd, int64_t job_addr, job_t *job) {
  if (spmd->pnum > job->n) {
    fprintf(stderr, "a sheet of %lld rows is too small for %d ranks\n", (long long)job->n,
            spmd->pnum);
    exit(EXIT_FAILURE);
  }
  CHECK(DMI_write(job_addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  CHECK(DMI_team_resize(job->team_addr, spmd->pnum)); /* nobody is in it now */
  spmd_run(spmd, job_addr);
  CHECK(DMI_read(job_addr, sizeof(*job), job, DMI_GET_READ, NULL));
}

void DMI_main(int argc, char **argv) {
  if (argc < 3 || argc > 6) {
    fprintf(stderr, "usage: %s n steps [processes [ranks [steps between two changes]]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.n = check_number("n", argv[1], 1)};
  const int64_t steps = check_number("steps", argv[2], 1);
  const int32_t process_num = argc > 3 ? check_number("processes", argv[3], 1) : 1;
  const int32_t thread_num = argc > 4 ? check_number("ranks", argv[4], 1) : 0;
  const int64_t each = argc > 5 ? check_number("steps between two changes", argv[5], 1) : 100;
  const int64_t row = job.n * (int64_t)sizeof(double);
  int64_t job_addr, done = 0;
  block_t sheet;
  spmd_t spmd;

  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_mmap(&job.team_addr, sizeof(DMI_team_t), 1, NULL));
  CHECK(DMI_mmap(&job.sheet_addr, row, job.n, NULL));
  first_sheet(&sheet, job.n);
  for (int64_t y = 0; y < job.n; y++)
    CHECK(DMI_write(job.sheet_addr + y * row, row, cell(&sheet, sheet.cells, y, 0),
                    DMI_EXCLUSIVE_WRITE, NULL));
  block_close(&sheet);
  CHECK(DMI_team_init(job.team_addr, 1));
  spmd_gather(&spmd, process_num, thread_num);
  for (; done < steps; done += job.steps) {
    if (spmd_change(&spmd) || done == 0) {
      printf("%d ranks go on after step %lld\n", spmd.pnum, (long long)done);
      fflush(stdout);
    }
    job.steps = steps - done < each ? steps - done : each;
    run_phase(&spmd, job_addr, &job);
  }
  CHECK(DMI_team_destroy(job.team_addr));
  printf("largest change %.6e, digest %016llx\n", job.change, (unsigned long long)job.digest);
  const int right = result_is_right(&job, steps);
  printf("%s\n", right ? "correct" : "wrong");
  if (!right) exit(EXIT_FAILURE);
  spmd_end(&spmd);
}
