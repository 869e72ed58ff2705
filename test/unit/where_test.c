/*
 * where_test.c - places in the source name the functions that the compiler has put into others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/where.h"

static char place[DMI_WHERE_SIZE];
static struct dmi_where_function function;

__attribute__((noinline)) static void note(void) {
  (void)dmi_where_plain(place, sizeof(place), __builtin_return_address(0), &function);
  dmi_where(place, sizeof(place), __builtin_return_address(0));
}

/* What follows the call keeps it from being the last thing that a function does. */
#define NOTE()            \
  do {                    \
    note();               \
    __asm__ volatile(""); \
  } while (0)

#include "dmi/where_own.hpp"

__attribute__((always_inline)) static inline void put(void) {
  NOTE(); /* line: put */
}

__attribute__((always_inline)) static inline void fill(void) {
  put(); /* line: fill */
  __asm__ volatile("");
}

__attribute__((noinline)) static void plain(void) {
  NOTE(); /* line: plain */
}

__attribute__((noinline)) static void once(void) {
  put(); /* line: once */
  __asm__ volatile("");
}

__attribute__((noinline)) static void twice(void) {
  fill(); /* line: twice */
  __asm__ volatile("");
}

__attribute__((noinline)) static void calls_own(void) {
  own(); /* line: calls own */
  __asm__ volatile("nop\n nop");
}

__attribute__((always_inline)) static inline void between(void) {
  own(); /* line: between */
  __asm__ volatile("nop\n nop\n nop");
}

__attribute__((noinline)) static void calls_between(void) {
  between(); /* line: calls between */
  __asm__ volatile("");
}

__attribute__((noinline)) static int64_t DMI_thread(int64_t addr) {
  NOTE();
  return addr;
}

/* Named as DMI's. Other code than that of plain(), or the compiler makes one of both. */
__attribute__((noinline)) static void dmi_runtime_main(void) {
  NOTE();
  __asm__ volatile("nop\n nop");
}

/* The line of this file with that mark. */
static int line_of(const char *mark) {
  char line[256], wanted[64];
  FILE *file = fopen(__FILE__, "r");
  int number = 0;
  assert_non_null(file);
  snprintf(wanted, sizeof(wanted), "/* line: %s */", mark);
  do
    number++;
  while (fgets(line, sizeof(line), file) && !strstr(line, wanted));
  fclose(file);
  return number;
}

static void check(const char *format, const char *first, const char *second, const char *third) {
  char wanted[DMI_WHERE_SIZE];
  if (!dmi_where_names() || strstr(place, "compile with -g")) skip();
  snprintf(wanted, sizeof(wanted), format, line_of(first), line_of(second), line_of(third));
  assert_string_equal(place, wanted);
}

static void test_plain(void **state) {
  (void)state;
  plain();
  check("where_test.c:%d (plain)", "plain", "plain", "plain");
}

static void test_own(void **state) {
  (void)state;
  calls_own();
  check("where_test.c:%d (calls_own)", "calls own", "calls own", "calls own");
  calls_between();
  check("where_test.c:%d (between, inlined in calls_between at where_test.c:%d)", "between",
        "calls between", "between");
  own_not_inlined(); /* nobody is known who calls it */
  if (!dmi_where_names() || strstr(place, "compile with -g")) skip();
  assert_non_null(strstr(place, "own_inner"));
  assert_int_equal(function.role, DMI_WHERE_OWN);
}

/* What lists of functions leave out, and where they end. */
static void test_roles(void **state) {
  (void)state;
  plain();
  assert_int_equal(function.role, DMI_WHERE_PLAIN);
  if (!dmi_where_names()) skip();
  (void)DMI_thread(0);
  assert_int_equal(function.role, DMI_WHERE_FIRST);
  dmi_runtime_main();
  assert_int_equal(function.role, DMI_WHERE_BELOW);
}

static void test_inlined(void **state) {
  (void)state;
  once();
  check("where_test.c:%d (put, inlined in once at where_test.c:%d)", "put", "once", "once");
}

static void test_inlined_twice(void **state) {
  (void)state;
  twice();
  check("where_test.c:%d (put, inlined in fill at where_test.c:%d, in twice at where_test.c:%d)",
        "put", "fill", "twice");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),         cmocka_unit_test(test_own),
      cmocka_unit_test(test_roles),         cmocka_unit_test(test_inlined),
      cmocka_unit_test(test_inlined_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
