/*
 * xalloc_test.c - memory for bookkeeping (base/xalloc.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/xalloc.h"

/* A sanitizer's functions end the process when a size is too large, and keep what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static void check_zero(const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    assert_int_equal(bytes[i], 0);
}

static void test_zero(void **state) {
  static const size_t sizes[] = {1, 24, 1024, 1025, 100000};
  (void)state;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    unsigned char *bytes = dmi_xalloc(1, sizes[i]);
    check_zero(bytes, sizes[i]);
    memset(bytes, 1, sizes[i]);
    free(bytes);
    bytes = dmi_xalloc(sizes[i], 2);
    check_zero(bytes, 2 * sizes[i]);
    free(bytes);
  }
}

static void test_too_large(void **state) {
  (void)state;
  if (SANITIZED) skip();
  assert_null(dmi_zalloc(SIZE_MAX / 2, 3));
  assert_null(dmi_zalloc(1000, SIZE_MAX / 999));
}

/* It is made of malloc, which in glibc gives what the thread has freed last: calloc does not,
 * before glibc 2.41. */
static void test_again(void **state) {
  void *ptr = dmi_zalloc(1, 200);
  const uintptr_t first = (uintptr_t)ptr;
  (void)first;
  (void)state;
  free(ptr);
  if (SANITIZED) skip();
  ptr = dmi_zalloc(2, 100);
#ifdef __GLIBC__
  assert_int_equal((uintptr_t)ptr, first);
#endif
  free(ptr);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zero),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
