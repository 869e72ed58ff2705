/* version_test.c - the library says which version it is, in a form that scripts can split. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "base/version.h"
#include "dmi_api.h"

static void library_and_header_agree(void **state) {
  (void)state;
  assert_string_equal(dmi_version(), DMI_VERSION);
}

static void has_three_numbers(void **state) {
  int major, minor, patch, length = 0;
  (void)state;
  assert_int_equal(sscanf(dmi_version(), "%d.%d.%d%n", &major, &minor, &patch, &length), 3);
  assert_int_equal(dmi_version()[length], '\0');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(library_and_header_agree),
      cmocka_unit_test(has_three_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
