/*
 * squares.cc - squares of numbers, by all processes of the program.
 */
#include <dmi.hpp>

extern "C" int64_t square(int64_t number); /* program.c */

void DMI_main(int, char **) {
  const auto squares =
      dmi::parallel_for(100, int64_t{0}, [](int64_t i, const int64_t &) { return square(i); });
  int64_t sum = 0;
  for (int64_t i = 0; i < squares.size(); i++)
    sum += squares[i];
  printf("the squares have the sum %lld\n", static_cast<long long>(sum));
}
