/*
 * claim_test.c - the read-modify-write by which read-write-sets claim cells: the second one to
 * claim a cell notices it, and claims that a correct peer does not make do no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/rmw.h"

#define CELLS 4

/* Runs the claims; returns how many cells were not free. */
static uint64_t run(uint64_t *cell, const struct dmi_claim *claim, uint64_t num) {
  const struct dmi_core core = {0};
  struct dmi_req req;
  uint64_t taken = 99;
  memset(&req, 0, sizeof(req));
  req.kind = DMI_RMW_CLAIM;
  req.len = CELLS * sizeof(*cell);
  req.sizes = (struct dmi_rmw_sizes){num * sizeof(*claim), 0, sizeof(taken)};
  req.src = (struct dmi_slice){NULL, (const unsigned char *)claim, num * sizeof(*claim)};
  assert_true(dmi_rmw_valid(DMI_RMW_CLAIM, req.len, &req.sizes, req.src.len));
  assert_int_equal(dmi_rmw_run(&core, NULL, &req, (unsigned char *)cell, (unsigned char *)&taken),
                   DMI_RMW_DONE);
  return taken;
}

static void first_come(void **state) {
  static const struct dmi_claim one[] = {{0, 10}, {2, 12}}, two[] = {{1, 21}, {2, 22}, {3, 23}};
  uint64_t cell[CELLS] = {0};
  (void)state;
  assert_int_equal(run(cell, one, 2), 0);
  assert_int_equal(run(cell, two, 3), 1);
  assert_int_equal(cell[0], 10);
  assert_int_equal(cell[1], 21);
  assert_int_equal(cell[2], 12); /* stays the first one's */
  assert_int_equal(cell[3], 23);
  assert_int_equal(run(cell, one, 2), 2);
}

static void outside(void **state) {
  static const struct dmi_claim claim[] = {{CELLS, 1}, {UINT64_MAX, 1}, {UINT64_MAX / 8 + 1, 1}};
  uint64_t cell[CELLS + 1] = {0};
  (void)state;
  assert_int_equal(run(cell, claim, 3), 3);
  for (int i = 0; i <= CELLS; i++)
    assert_int_equal(cell[i], 0);
}

static void sizes(void **state) {
  struct dmi_rmw_sizes good = {32, 0, 8}, bad;
  (void)state;
#define REFUSED(len, input) assert_false(dmi_rmw_valid(DMI_RMW_CLAIM, (len), &bad, (input)))
  assert_true(dmi_rmw_valid(DMI_RMW_CLAIM, 16, &good, 32));
  bad = good;
  REFUSED(15, 32);
  REFUSED(8, 32); /* more claims than cells */
  REFUSED(16, 31);
  bad.out1 = 31;
  REFUSED(16, 31);
  bad = (struct dmi_rmw_sizes){16, 16, 8};
  REFUSED(16, 32);
  bad = (struct dmi_rmw_sizes){32, 0, 9};
  REFUSED(16, 32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_come),
      cmocka_unit_test(outside),
      cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
