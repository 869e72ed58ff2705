/*
 * nqueens_dmi.c - in how many ways n queens fit on an n x n board, none attacking another.
 *
 *   dmicc -O2 nqueens_dmi.c -o nqueens_dmi
 *   dmirun ./nqueens_dmi 15                starts the program: 2279184 ways
 *   dmirun -i HOST ./nqueens_dmi           joins it, at any time, from anywhere
 *   Ctrl+C                                 leaves it, at any time
 *
 * Arguments: n [processes [rows]].  It begins when so many processes (1) have joined.  A task is
 * one way to fill the first `rows` rows (3): the thread that takes it counts all ways to go on from
 * there.  Every thread makes the same list of tasks for itself, so that a task is only a number,
 * taken with DMI_fad (farm.h).  Each placement and its mirror image have as many solutions: only
 * those whose first queen stands in the left half (or, once, in the middle) are tasks.
 *
 * A thread reports each task with its count, and DMI_main adds them.  (A total to which the threads
 * add would be wrong when a process is lost behind its addition and before its report, as another
 * one would do the task again.)
 */
#include "farm.h"

#define N_MAX 30 /* no machine will count further; columns are bits of an int32_t */

/* The work, in global memory. */
typedef struct {
  farm_t farm;
  int32_t n;
  int32_t rows; /* filled by a task */
} job_t;

/* Which columns of the next row are attacked. */
typedef struct {
  uint32_t columns; /* from straight above */
  uint32_t left;    /* along diagonals that move to lower bits, row by row */
  uint32_t right;
} board_t;

/* A filled beginning of the board. */
typedef struct {
  board_t board;
  int32_t weight; /* 2 where the mirror image is none of the tasks */
} task_t;

typedef struct {
  task_t *items; /* NULL: only to be counted */
  int64_t num;
} tasks_t;

static board_t with_queen(board_t board, uint32_t column) {
  return (board_t){.columns = board.columns | column,
                   .left = (board.left | column) >> 1,
                   .right = (board.right | column) << 1};
}

static uint32_t free_columns(board_t board, uint32_t all) {
  return all & ~(board.columns | board.left | board.right);
}

/* Adds all ways to fill `rows` more rows to the tasks, in an order that is the same everywhere. */
static void list_tasks(tasks_t *tasks, board_t board, uint32_t all, int32_t rows, int32_t weight) {
  if (rows == 0) {
    if (tasks->items != NULL) tasks->items[tasks->num] = (task_t){board, weight};
    tasks->num++;
    return;
  }
  for (uint32_t left = free_columns(board, all); left != 0; left &= left - 1)
    list_tasks(tasks, with_queen(board, left & -left), all, rows - 1, weight);
}

static void list_all(tasks_t *tasks, const job_t *job) {
  const uint32_t all = (1u << job->n) - 1;
  for (int32_t column = 0; 2 * column < job->n; column++) {
    const int32_t weight = 2 * column + 1 == job->n ? 1 : 2;
    list_tasks(tasks, with_queen((board_t){0}, 1u << column), all, job->rows - 1, weight);
  }
}

static int64_t count_solutions(board_t board, uint32_t all) {
  int64_t solutions = 0;
  if (board.columns == all) return 1;
  for (uint32_t left = free_columns(board, all); left != 0; left &= left - 1)
    solutions += count_solutions(with_queen(board, left & -left), all);
  return solutions;
}

int64_t DMI_thread(int64_t addr) {
  team_arg_t arg;
  job_t job;
  int64_t task;
  CHECK(DMI_read(addr, sizeof(arg), &arg, DMI_GET_READ, NULL));
  CHECK(DMI_read(arg.job_addr, sizeof(job), &job, DMI_GET_READ, NULL));
  tasks_t tasks = {.items = my_malloc((size_t)job.farm.tasks * sizeof(task_t))};
  list_all(&tasks, &job);

  while (farm_take(&arg, &job.farm, &task)) {
    const task_t *item = &tasks.items[task];
    const int64_t solutions = item->weight * count_solutions(item->board, (1u << job.n) - 1);
    farm_report(&arg, &job.farm, task, &solutions);
  }
  my_free(tasks.items);
  return DMI_NULL;
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s n [processes [rows]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  job_t job = {.n = check_number("n", argv[1], 1), .rows = 3};
  const int32_t process_num = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  if (argc > 3) job.rows = check_number("rows", argv[3], 1);
  if (job.rows > job.n) job.rows = job.n;
  if (job.n > N_MAX) {
    fprintf(stderr, "n must be at most %d\n", N_MAX);
    exit(EXIT_FAILURE);
  }

  tasks_t tasks = {0};
  int64_t job_addr;
  list_all(&tasks, &job);
  farm_init(&job.farm, tasks.num, sizeof(int64_t));
  CHECK(DMI_mmap(&job_addr, sizeof(job), 1, NULL));
  CHECK(DMI_write(job_addr, sizeof(job), &job, DMI_EXCLUSIVE_WRITE, NULL));
  farm_end_t end = {0};
  if (tasks.num > 0) end = farm_run(job_addr, process_num, NULL, NULL);
  int64_t total = 0;
  for (int64_t task = 0; task < tasks.num; task++) {
    int64_t solutions;
    farm_result(&job.farm, task, &solutions);
    total += solutions;
  }
  printf("%d queens: %lld solutions, %lld tasks, %.3f s\n", job.n, (long long)total,
         (long long)job.farm.tasks, end.seconds);
  fflush(stdout);
  CHECK(DMI_munmap(job_addr, NULL));
  farm_destroy(&job.farm);
  farm_leave(end);
}
