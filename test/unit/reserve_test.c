/*
 * reserve_test.c - replacement (docs/protocol.md R12), one test for each row of its table but
 * offers (offer_test.c), and the account behind struct dmi_account.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reserve_world.h"

/* ---- Drop ----------------------------------------------------------------------------------- */

static void test_drop(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  expect(two, PAGE, 0, PAGE);
  assert_true(dmi_page_drop(&two->core, &two->page));
  expect(two, 0, 0, 0);
  assert_int_equal(two->page.copy, 0);
  assert_int_equal(w->line.last, 0); /* no process is told */
  assert_false(dmi_page_drop(&two->core, &two->page));
  /* the owner still believes that there is a copy; there is a new one, and a write finds it */
  read_copy(w, 2);
  write_now(w, 1, DMI_REQ_PUT, 8);
  assert_int_equal(value_at(w, 2), 8);
}

static void test_no_drop(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_false(dmi_page_drop(&one->core, &one->page)); /* owned */
  read_copy(w, 2);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 9);
  assert_int_equal(two->page.role, DMI_ROLE_PENDING);
  assert_false(dmi_page_drop(&two->core, &two->page)); /* GRANT will say HAVE */
  expect(two, PAGE, 0, 0);
  settle(w);
  assert_true(own.done);
}

/* ---- No memory at the asking process -------------------------------------------------------- */

static void test_read_without_capacity(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  write_now(w, 1, DMI_REQ_PUT, 7);
  two->limit = PAGE - 1;
  read_copy(w, 2);
  assert_int_equal(w->line.sent[DMI_MSG_READ], 0);
  assert_int_equal(w->line.sent[DMI_MSG_GET], 1);
  assert_int_equal(two->page.copy, 0);
  expect(two, 0, 0, 0);
}

static void test_read_reserves(void **state) {
  struct world *w = *state;
  struct own own;
  begin(w, 2, &own, DMI_REQ_READ, 0, 8);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w); /* DATA is ZERO: a copy without bytes */
  assert_true(own.done);
  assert_int_equal(w->proc[1].page.copy, DMI_KIND_INVALIDATE);
  expect(&w->proc[1], 0, 0, 0);
}

static void test_exclusive_without_capacity(void **state) {
  struct world *w = *state;
  w->proc[1].limit = 0;
  write_now(w, 2, DMI_REQ_EXCL, 5);
  assert_int_equal(w->line.sent[DMI_MSG_OWN], 0);
  assert_int_equal(w->line.sent[DMI_MSG_PUT], 1);
  assert_int_equal(value_at(w, 1), 5);
  expect(&w->proc[0], PAGE, 0, 0);
}

static void test_exclusive_reserves(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 5);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w);
  expect(&w->proc[1], PAGE, 0, 0);
  expect(&w->proc[0], 0, 0, 0);
}

/* A copy that goes while PENDING leaves its memory for the bytes of GRANT. */
static void test_copy_goes_while_pending(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct own put, own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  write_begin(w, 3, &put, DMI_REQ_PUT, 8); /* comes first, and invalidates */
  write_begin(w, 2, &own, DMI_REQ_EXCL, 9);
  expect(two, PAGE, 0, 0);
  deliver(w); /* PUT */
  deliver(w); /* OWN */
  deliver(w); /* INVALIDATE */
  assert_int_equal(two->page.copy, 0);
  expect(two, PAGE, PAGE, 0);
  settle(w);
  assert_true(own.done && put.done);
  expect(two, PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 9);
}

/* A zero copy that an UPDATE would give bytes. */
static void test_update_without_capacity(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct own own;
  begin(w, 2, &own, DMI_REQ_READ, 0, 8);
  own.req.kind = DMI_KIND_UPDATE;
  w->line.msg[0].read.kind = DMI_KIND_UPDATE;
  settle(w);
  assert_int_equal(two->page.copy, DMI_KIND_UPDATE);
  two->limit = 0;
  write_now(w, 1, DMI_REQ_PUT, 3);
  assert_int_equal(w->line.sent[DMI_MSG_UPDATED], 1);
  assert_int_equal(two->page.copy, 0);
  assert_null(w->proc[0].page.busy); /* DROPPED: out of the copyset */
}

/* A process that reads reserves memory until the answer comes: if the read waited for a stalled
 * write, that memory could be missing for ever. */
static void test_what_needs_no_room_passes_a_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct own write, get, read;
  one->limit = 0;
  two->limit = PAGE;
  write_begin(w, 1, &write, DMI_REQ_PUT, 3);
  assert_int_equal(one->stalls, 1);
  begin(w, 3, &get, DMI_REQ_GET, 0, 8);
  begin(w, 2, &read, DMI_REQ_READ, 0, 8);
  expect(two, PAGE, PAGE, 0);
  settle(w);
  assert_true(get.done && read.done && !write.done);
  assert_int_equal(get.bytes[0] | read.bytes[0], 0);
  expect(two, 0, 0, 0); /* so there is memory for the write */
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  assert_int_equal(one->stalls, 1); /* the caller knows */
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_true(write.done);
  assert_int_equal(write.req.error, DMI_OK);
  assert_int_equal(two->page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 3), 3);
}

/* ---- Stalls --------------------------------------------------------------------------------- */

static void test_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, get;
  one->limit = 0;
  assert_false(dmi_page_write_now(&one->core, &one->page, 0, "x", 1));
  expect(one, 0, 0, 0);
  write_begin(w, 2, &put, DMI_REQ_PUT, 7);
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  assert_int_equal(one->stalls, 1);
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  assert_true(get.done && !put.done); /* it is zero until then */
  assert_int_equal(get.bytes[0], 0);
  assert_true(dmi_page_readable(&one->core, &one->page));
  assert_true(go_on(w, 1, DMI_OK));
  settle(w);
  assert_true(put.done);
  assert_int_equal(value_at(w, 2), 7);
  expect(one, PAGE, 0, 0);
  assert_false(go_on(w, 1, DMI_OK)); /* does not stall any more */
  expect(one, PAGE, 0, 0);
}

static void test_stalled_write_fails(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, own, get;
  one->limit = 0;
  write_begin(w, 2, &put, DMI_REQ_PUT, 7);
  settle(w);
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  write_begin(w, 1, &own, DMI_REQ_PUT, 8);
  assert_int_equal(one->stalls, 1);
  assert_true(go_on(w, 1, DMI_ENOMEM));
  settle(w);
  assert_true(put.done && get.done);
  assert_int_equal(put.req.error, DMI_ENOMEM);
  assert_int_equal(get.bytes[0], 0); /* nothing was written */
  assert_int_equal(one->stalls, 2);  /* the next one stalls */
  assert_true(go_on(w, 1, DMI_ENOMEM));
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_ENOMEM);
  assert_null(one->page.busy);
  expect(one, 0, 0, 0);
}

/* A compare that fails reserves memory before it runs, and gives it back. */
static void test_atomic_changes_nothing(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own own;
  struct dmi_out out;
  static const unsigned char input[2] = {1, 2};
  memset(&own, 0, sizeof(own));
  own.req.type = DMI_REQ_ATOMIC;
  own.req.kind = DMI_RMW_CAS;
  own.req.len = 1;
  own.req.sizes = (struct dmi_rmw_sizes){1, 1, 1};
  own.req.src = (struct dmi_slice){NULL, input, 2};
  own.req.dst = own.bytes;
  dmi_out_init(&out);
  dmi_page_begin(&one->core, &one->page, &own.req, &out);
  act(w, one, &out);
  assert_true(own.done);
  assert_int_equal(own.bytes[0], 0);
  expect(one, 0, 0, 0);
  assert_null(one->page.frame);
}

static void test_own_passes_a_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, own;
  one->limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  assert_int_equal(one->stalls, 1);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 8);
  settle(w);
  assert_true(own.done && put.done); /* both written, at 2 */
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[1].page.version.n, 2);
  assert_int_equal(one->page.flags, 0);
}

static void test_offer_of_a_stalled_page(void **state) {
  struct world *w = *state;
  struct own put;
  w->proc[0].limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_true(put.done);
  assert_int_equal(put.req.error, DMI_OK);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 7);
}

static void test_kill_a_stalled_page(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put;
  struct dmi_out out;
  one->limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  dmi_out_init(&out);
  dmi_page_kill(&one->core, &one->page, &out);
  act(w, one, &out);
  settle(w);
  assert_int_equal(put.req.error, DMI_EADDR);
  assert_int_equal(one->page.flags, DMI_PAGE_DEAD);
}

/* ---- Spilling ------------------------------------------------------------------------------- */

static void test_spill(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own get, own;
  assert_null(dmi_page_spill(&one->core, &one->page)); /* zero: nothing to gain */
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  assert_non_null(frame);
  expect(one, 0, 0, 0);
  assert_false(dmi_page_readable(&one->core, &one->page));
  assert_false(dmi_page_writable(&one->core, &one->page));
  assert_null(dmi_page_spill(&one->core, &one->page));
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  begin(w, 1, &own, DMI_REQ_GET, 0, 8);
  assert_int_equal(one->stalls, 1);
  assert_false(go_on(w, 1, DMI_OK)); /* memory alone is not enough */
  assert_true(unspill(w, 1, frame));
  settle(w);
  assert_true(get.done && own.done);
  assert_int_equal(get.bytes[0], 7);
  assert_int_equal(own.bytes[0], 7);
  expect(one, PAGE, 0, 0);
  assert_int_equal(one->overwritten, 0);
}

static void test_spilled_is_overwritten(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  memset(own.bytes, 9, sizeof(own.bytes));
  begin(w, 1, &own, DMI_REQ_PUT, 0, PAGE); /* needs only memory, which there is */
  assert_true(own.done);
  assert_int_equal(one->overwritten, 1);
  assert_false(unspill(w, 1, frame));
  expect(one, PAGE, 0, 0);
  dmi_frame_unref(frame);
  assert_int_equal(value_at(w, 2), 9);
}

static void test_spilled_and_asked_for(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  begin(w, 2, &own, DMI_REQ_EXCL, 0, 4);
  settle(w);
  assert_int_equal(one->stalls, 1);
  assert_false(go_on(w, 1, DMI_ENOMEM)); /* OWN cannot fail */
  assert_true(unspill(w, 1, frame));
  settle(w);
  assert_true(own.done);
  begin(w, 1, &own, DMI_REQ_GET, 4, 4); /* what it did not write came along */
  settle(w);
  assert_int_equal(own.bytes[0], 7);
}

static void test_no_spill(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  assert_null(dmi_page_spill(&one->core, &one->page)); /* another has the bytes: offer it there */
  assert_null(dmi_page_spill(&w->proc[1].core, &w->proc[1].page));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ROW(test_drop),
      ROW(test_no_drop),
      ROW(test_read_without_capacity),
      ROW(test_read_reserves),
      ROW(test_exclusive_without_capacity),
      ROW(test_exclusive_reserves),
      ROW(test_copy_goes_while_pending),
      ROW(test_update_without_capacity),
      ROW(test_what_needs_no_room_passes_a_stall),
      ROW(test_stall),
      ROW(test_stalled_write_fails),
      ROW(test_atomic_changes_nothing),
      ROW(test_own_passes_a_stall),
      ROW(test_offer_of_a_stalled_page),
      ROW(test_kill_a_stalled_page),
      ROW(test_spill),
      ROW(test_spilled_is_overwritten),
      ROW(test_spilled_and_asked_for),
      ROW(test_no_spill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
