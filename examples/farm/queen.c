/*
 * queen.c - in how many ways n queens fit on an n x n board, in parts: a program for dmifarm.
 *
 *   cc -O2 queen.c -o queen
 *   ./queen 15             7432: the number of parts of the problem
 *   ./queen 15 0:7432      2279184: the solutions in these parts, all of them
 *   ./queen 15 i:j         the solutions in parts i, i+1 ... j-1
 *
 * A part is one way to place queens in the first four rows, none attacking another; of each such
 * way and its mirror image only one is a part, and its solutions count twice.  (With an odd n, a
 * first queen in the middle column has its mirror image among the parts, too.)
 *
 * As a job, on all cores of this machine and of those that join:
 *
 *   mkdir -p Q/bin && cp queen Q/bin
 *   dmifarm make Q --split 'queen 15 {begin}:{end}' `./queen 15` 100
 *   echo "cat task.*[a-z]/result | awk '{n += \$1} END {print n}'" > Q/finish
 *   dmifarm run Q
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N_MAX 30 /* columns are bits of a uint32_t */
#define ROWS 4   /* filled by a part */

        /* Which columns of the next row are attacked. */
        struct board {
  uint32_t columns; /* from straight above */
  uint32_t left;    /* along diagonals that move to lower bits, row by row */
  uint32_t right;
};

/* The parts that are wanted, and what is found. */
struct count {
  uint32_t all; /* a bit for each column */
  int64_t part; /* the number of the next one */
  int64_t begin, end;
  int64_t solutions;
};

static struct board with_queen(struct board board, uint32_t column) {
  return (struct board){.columns = board.columns | column,
                        .left = (board.left | column) >> 1,
                        .right = (board.right | column) << 1};
}

static uint32_t free_columns(struct board board, uint32_t all) {
  return all & ~(board.columns | board.left | board.right);
}

static int64_t solve(struct board board, uint32_t all) {
  int64_t solutions = 0;
  if (board.columns == all) return 1;
  for (uint32_t left = free_columns(board, all); left != 0; left &= left - 1)
    solutions += solve(with_queen(board, left & -left), all);
  return solutions;
}

static void find_parts(struct count *count, struct board board, int rows, int64_t weight) {
  if (rows == 0) {
    const int64_t part = count->part++;
    if (part >= count->begin && part < count->end)
      count->solutions += weight * solve(board, count->all);
    return;
  }
  for (uint32_t left = free_columns(board, count->all); left != 0; left &= left - 1)
    find_parts(count, with_queen(board, left & -left), rows - 1, weight);
}

static void run(struct count *count, int n) {
  const int rows = n < ROWS ? n : ROWS;
  count->all = (1u << n) - 1;
  for (int column = 0; 2 * column < n; column++) {
    const int64_t weight = 2 * column + 1 == n ? 1 : 2;
    find_parts(count, with_queen((struct board){0}, 1u << column), rows - 1, weight);
  }
}

int main(int argc, char **argv) {
  struct count count = {0};
  char rest;
  int n;
  if (argc < 2 || argc > 3 || sscanf(argv[1], "%d%c", &n, &rest) != 1 || n < 1 || n > N_MAX ||
      (argc == 3 &&
       sscanf(argv[2], "%" SCNd64 ":%" SCNd64 "%c", &count.begin, &count.end, &rest) != 2)) {
    fprintf(stderr, "usage: %s n [i:j], with n from 1 to %d\n", argv[0], N_MAX);
    return EXIT_FAILURE;
  }
  run(&count, n);
  printf("%" PRId64 "\n", argc == 3 ? count.solutions : count.part);
  return EXIT_SUCCESS;
}
