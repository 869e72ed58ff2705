/*
 * program.c - the part of the program in C.
 */
#include <dmi_api.h>

int64_t square(int64_t number);

int64_t square(int64_t number) {
  return number * number;
}
