/*
 * nqueens_cxx.cc - in how many ways n queens fit on a board, in C++: nqueens_dmi.c (which explains
 * more) with dmi::parallel_for.
 *
 *   dmicxx -O2 nqueens_cxx.cc -o nqueens_cxx
 *   dmirun ./nqueens_cxx 15                starts the program: 2279184 ways (then: processes, rows)
 *   dmirun -i HOST ./nqueens_cxx           joins it, at any time; Ctrl+C leaves it
 */
#include <algorithm>

#include "check.h"
#include "dmi.hpp"

/* A filled beginning of the board: which columns of the next row are attacked. */
struct board {
  uint32_t columns, left, right; /* from straight above, and along both diagonals */
  uint32_t all;                  /* columns that there are */
  int32_t weight;                /* 2 where the mirror image is none of the tasks */

  board with_queen(uint32_t column) const {
    return {columns | column, (left | column) >> 1, (right | column) << 1, all, weight};
  }
  /* Calls f with each board that has one more row. */
  template <class F>
  void each_next(F f) const {
    for (uint32_t free = all & ~(columns | left | right); free != 0; free &= free - 1)
      f(with_queen(free & -free));
  }
  int64_t solutions() const {
    int64_t sum = columns == all;
    if (!sum) each_next([&](const board &next) { sum += next.solutions(); });
    return sum;
  }
  void add_to(std::vector<board> &tasks, int32_t rows) const {
    if (rows == 0)
      tasks.push_back(*this);
    else
      each_next([&](const board &next) { next.add_to(tasks, rows - 1); });
  }
};

void DMI_main(int argc, char **argv) {
  if (argc < 2) throw std::invalid_argument("usage: nqueens_cxx n [processes [rows]]");
  const int32_t n = check_number("n", argv[1], 1);
  const int32_t rows = argc > 3 ? check_number("rows", argv[3], 1) : 3;
  if (n > 30) throw std::invalid_argument("n must be at most 30");
  std::vector<board> tasks;
  for (int32_t column = 0; 2 * column < n; column++)
    board{0, 0, 0, (1u << n) - 1, 2 * column + 1 == n ? 1 : 2}
        .with_queen(1u << column)
        .add_to(tasks, std::min(rows, n) - 1);
  const auto counts = dmi::parallel_for(
      static_cast<int64_t>(tasks.size()), tasks,
      [](int64_t i, dmi::in<board> all) { return all[i].weight * all[i].solutions(); },
      dmi::farm_options().processes(argc > 2 ? check_number("processes", argv[2], 1) : 1).print());
  int64_t total = 0;
  for (int64_t i = 0; i < counts.size(); i++)
    total += counts[i];
  printf("%d queens: %lld solutions, %lld tasks, %.3f s\n", n, static_cast<long long>(total),
         static_cast<long long>(counts.size()), counts.seconds());
}
