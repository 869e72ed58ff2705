/*
 * queens.c - nqueens(n): in how many ways n queens stand on a board so that none attacks another.
 * A part is one way to fill the first rows; what is left has the size of LAST queens, at most.
 */
#include "functions.h"
#include "parts.h"

#define MOST 32 /* columns are bits */
#define LAST 11 /* rows of a part: some milliseconds */

/* Columns of the next row that are attacked: from straight above, and along diagonals. */
struct board {
  uint32_t all, columns, left, right;
  int32_t rows; /* that are left */
};

static struct board with(struct board board, uint32_t queen) {
  return (struct board){board.all, board.columns | queen, (board.left | queen) << 1,
                        (board.right | queen) >> 1, board.rows - 1};
}

static uint32_t open_columns(struct board board) {
  return board.all & ~(board.columns | board.left | board.right);
}

static int64_t count(struct board board) {
  int64_t sum = 0;
  if (board.columns == board.all) return 1;
  for (uint32_t open = open_columns(board); open != 0; open &= open - 1)
    sum += count(with(board, open & -open));
  return sum;
}

void ox_queens_part(const void *job, int64_t job_size, const void *part, int64_t part_size,
                    void *out, int64_t out_size) {
  (void)job, (void)job_size, (void)part_size, (void)out_size;
  *(int64_t *)out = count(*(const struct board *)part);
}

static void take(void *arg, const void *out) {
  *(int64_t *)arg += *(const int64_t *)out;
}

/* False: nobody wants the rest. */
static bool add_boards(struct ox_parts *parts, struct board board) {
  if (board.rows <= LAST) return ox_parts_add(parts, &board, sizeof board, sizeof(int64_t));
  for (uint32_t open = open_columns(board); open != 0; open &= open - 1)
    if (!add_boards(parts, with(board, open & -open))) return false;
  return true;
}

DMI_ox_value_t *ox_nqueens(DMI_ox_value_t *const *args, int64_t num) {
  int64_t n, sum = 0;
  DMI_ox_value_t *error = NULL;
  if (num != 1 || !DMI_ox_to_int64(args[0], &n) || n < 1 || n > MOST)
    return DMI_ox_error("nqueens(n): n is 1 to 32");
  struct ox_parts *parts = ox_parts_begin(OX_QUEENS, NULL, 0, take, &sum, &error);
  if (parts == NULL) return error;
  (void)add_boards(parts,
                   (struct board){.all = (uint32_t)((UINT64_C(1) << n) - 1), .rows = (int32_t)n});
  error = ox_parts_end(parts);
  return error != NULL ? error : DMI_ox_from_int64(sum);
}
