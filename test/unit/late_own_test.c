/*
 * late_own_test.c - an OWN that a change of home made void, and that comes back when this process
 * is not the home any more (docs/protocol.md R9): the shortest form of a fault that the simulator
 * of whole nodes found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/page.h"

static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= 4;
}

/* Process 2 has asked process 1 for a page, which hands over the home to 2 before the OWN arrives.
 * 2 hands over the home to 3, and the page to 4, before its OWN comes back. */
static void late_own(void **state) {
  struct dmi_core core = {.self = 2, .is_member = is_member};
  struct dmi_map map = {.base = 1 << 20, .page_size = 64, .page_num = 1};
  struct dmi_page page;
  struct dmi_req req = {.type = DMI_REQ_EXCL, .origin = 2, .op = {1}, .len = 8};
  struct dmi_msg own = {.type = DMI_MSG_OWN, .origin = 2, .map = 1 << 20};
  struct dmi_msg other = {.type = DMI_MSG_OWN, .origin = 4, .map = 1 << 20, .flags = DMI_F_TAIL};
  struct dmi_out out;
  (void)state;
  memset(&page, 0, sizeof(page));
  req.src = dmi_slice_copy("12345678", 8);
  atomic_init(&map.home, 1);
  dmi_page_init(&core, &map, &page, 0);
  dmi_out_init(&out);
  dmi_page_begin(&core, &page, &req, &out);
  assert_int_equal(page.role, DMI_ROLE_PENDING);
  assert_int_equal(out.act[0].to, 1);
  out.num = 0;
  atomic_store(&map.home, 2);
  assert_true(dmi_page_home_arrived(&core, &page, false, 0, &out));
  assert_int_equal(page.role, DMI_ROLE_OWNER);
  atomic_store(&core.heir, 3);
  atomic_store(&map.home, 3);
  out.num = 0;
  assert_true(dmi_page_message(&core, &page, 3, &other, NULL, &out));
  assert_int_equal(page.role, DMI_ROLE_NONE);
  assert_int_equal(out.act[out.num - 1].msg.type, DMI_MSG_GRANT);
  dmi_slice_drop(&out.act[out.num - 1].msg.body);
  assert_int_not_equal(atomic_load(&core.owned), 0); /* it must not leave yet */
  out.num = 0;
  assert_true(dmi_page_message(&core, &page, 1, &own, NULL, &out));
  assert_int_equal(out.num, 0); /* no process is asked to grant because of a void OWN */
  assert_int_equal(atomic_load(&core.owned), 0);
  dmi_out_free(&out);
  dmi_page_fini(&core, &page);
  dmi_slice_drop(&req.src);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(late_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
