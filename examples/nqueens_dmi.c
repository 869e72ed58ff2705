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
 * there.  Each placement and its mirror image have as many solutions: only those whose first queen
 * stands in the left half (or, once, in the middle) are tasks.  All threads get the list of them.
 */
#include "check.h"
#include "dmi_farm.h"

#define N_MAX 30 /* no machine will count further; columns are bits of an int32_t */

/* Which columns of the next row are attacked. */
typedef struct {
  uint32_t columns; /* from straight above */
  uint32_t left;    /* along diagonals that move to lower bits, row by row */
  uint32_t right;
} board_t;

/* A task: a filled beginning of the board. */
typedef struct {
  board_t board;
  uint32_t all;   /* columns that there are */
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

/* Adds all ways to fill `rows` more rows to the tasks. */
static void add_tasks(tasks_t *tasks, task_t task, int32_t rows) {
  if (rows == 0) {
    if (tasks->items != NULL) tasks->items[tasks->num] = task;
    tasks->num++;
    return;
  }
  const board_t board = task.board;
  for (uint32_t left = free_columns(board, task.all); left != 0; left &= left - 1) {
    task.board = with_queen(board, left & -left);
    add_tasks(tasks, task, rows - 1);
  }
}

static void list_tasks(tasks_t *tasks, int32_t n, int32_t rows) {
  tasks->num = 0;
  for (int32_t column = 0; 2 * column < n; column++) {
    const task_t task = {.board = with_queen((board_t){0}, 1u << column),
                         .all = (1u << n) - 1,
                         .weight = 2 * column + 1 == n ? 1 : 2};
    add_tasks(tasks, task, rows - 1);
  }
}

static int64_t count_solutions(board_t board, uint32_t all) {
  int64_t solutions = 0;
  if (board.columns == all) return 1;
  for (uint32_t left = free_columns(board, all); left != 0; left &= left - 1)
    solutions += count_solutions(with_queen(board, left & -left), all);
  return solutions;
}

int32_t DMI_farm_task(int64_t number, void *out, int64_t size, const void *job) {
  const task_t *task = (const task_t *)job + number;
  (void)size;
  *(int64_t *)out = task->weight * count_solutions(task->board, task->all);
  return 0;
}

void DMI_main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s n [processes [rows]]\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t n = check_number("n", argv[1], 1);
  const int32_t processes = argc > 2 ? check_number("processes", argv[2], 1) : 1;
  const int32_t rows = argc > 3 ? check_number("rows", argv[3], 1) : 3;
  if (n > N_MAX) {
    fprintf(stderr, "n must be at most %d\n", N_MAX);
    exit(EXIT_FAILURE);
  }

  tasks_t tasks = {0};
  list_tasks(&tasks, n, rows < n ? rows : n); /* counts them */
  tasks.items = my_malloc((size_t)tasks.num * sizeof(task_t));
  list_tasks(&tasks, n, rows < n ? rows : n);
  DMI_farm_t farm = {.tasks = tasks.num,
                     .result_size = sizeof(int64_t),
                     .job = tasks.items,
                     .job_size = tasks.num * (int64_t)sizeof(task_t),
                     .processes = processes,
                     .event = DMI_farm_print,
                     .event_arg = stdout};
  CHECK(DMI_farm_run(&farm));
  int64_t total = 0;
  for (int64_t task = 0; task < tasks.num; task++) {
    int64_t solutions;
    CHECK(DMI_farm_result(&farm, task, &solutions, NULL));
    total += solutions;
  }
  printf("%d queens: %lld solutions, %lld tasks, %.3f s\n", n, (long long)total,
         (long long)tasks.num, farm.seconds);
  fflush(stdout);
  CHECK(DMI_farm_free(&farm));
  my_free(tasks.items);
}
