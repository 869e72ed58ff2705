/*
 * offer_test.c - a page that goes to another process: because there is no memory here, or because
 * this process leaves (docs/protocol.md R8, R12).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reserve_world.h"

/* ---- Offers --------------------------------------------------------------------------------- */

static void test_offer(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_true(offer(w, 1, 2));
  assert_true(w->proc[0].page.flags & DMI_PAGE_OFFERED);
  assert_false(offer(w, 1, 3)); /* one at a time */
  assert_int_equal(w->line.msg[0].flags & DMI_F_MUST, 0);
  deliver(w);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[0].page.flags, 0);
  expect(&w->proc[0], 0, 0, 0);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(value_at(w, 3), 7);
}

static void test_offer_to_who_has_a_copy(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  assert_true(offer(w, 1, 2)); /* it uses the copy's memory; no bytes are sent */
  deliver(w);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(w->line.msg[1].flags & DMI_F_HAVE, DMI_F_HAVE);
  settle(w);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
}

static void test_kept(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  w->proc[1].limit = PAGE - 1;
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_REFUSE_PAGE], 1);
  assert_int_equal(w->proc[0].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[0].page.flags, 0);
  assert_true(offer(w, 1, 3));
  settle(w);
  assert_int_equal(w->proc[2].page.role, DMI_ROLE_OWNER);
}

static void test_offer_comes_too_late(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 8);
  assert_true(offer(w, 1, 2)); /* meets PENDING, or an owner: nothing to do */
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_OWN], 1);
  assert_int_equal(w->line.sent[DMI_MSG_REFUSE_PAGE], 0);
  assert_int_equal(w->proc[0].page.flags, 0);
}

static void test_no_offer(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_false(offer(w, 2, 3)); /* not the owner */
  read_copy(w, 2);
  write_begin(w, 1, &own, DMI_REQ_PUT, 8); /* waits for INVALIDATED */
  assert_false(offer(w, 1, 3));
  settle(w);
  assert_true(own.done);
}

static void test_offer_sent_back(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_out out;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_true(offer(w, 1, 2));
  dmi_out_init(&out);
  dmi_page_bounced(&one->core, &one->page, 2, &w->line.msg[w->line.first++], &out);
  act(w, one, &out);
  assert_int_equal(one->page.flags, 0);
  assert_false(line_any(&w->line));
}

/* ---- Leavers -------------------------------------------------------------------------------- */

static void test_leaver_keeps(void **state) {
  struct world *w = *state;
  struct dmi_out out;
  write_now(w, 1, DMI_REQ_PUT, 7);
  atomic_store(&w->proc[1].core.heir, 3);
  w->proc[1].limit = 4 * PAGE;
  dmi_out_init(&out);
  assert_false(dmi_page_take(&w->proc[1].core, &w->proc[1].page, false, false, &out));
  assert_false(dmi_page_take(&w->proc[1].core, &w->proc[1].page, true, false, &out));
  dmi_out_free(&out);
  expect(&w->proc[1], 0, 0, 0);
}

static void test_leaver_gives(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  atomic_store(&w->proc[1].core.heir, 1);
  atomic_store(&w->proc[2].core.heir, 1); /* the one it asks leaves, too */
  one->limit = 0;
  dmi_out_init(&out);
  dmi_page_give(&w->proc[1].core, &w->proc[1].page, 3, &out);
  act(w, &w->proc[1], &out);
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_REFUSE_PAGE], 1);
  assert_int_equal(w->line.sent[DMI_MSG_TAKE], 2);
  assert_int_equal(one->page.role, DMI_ROLE_OWNER); /* the heir, whether it has memory or not */
  expect(one, PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 7);
}

/* A page without bytes takes no memory, not even for a moment; but if it gets bytes on the way,
 * they are accepted. */
static void test_leaver_gives_zeros(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct dmi_out out;
  struct own own;
  for (int late = 0; late < 2; late++) {
    one->limit = 0;
    atomic_store(&one->core.heir, 2); /* 1 leaves */
    atomic_store(&two->core.heir, 0);
    two->limit = 0;
    dmi_out_init(&out);
    dmi_page_give(&one->core, &one->page, 2, &out);
    act(w, one, &out);
    deliver(w); /* TAKE */
    assert_int_equal(two->page.role, DMI_ROLE_PENDING);
    expect(two, 0, 0, 0);
    if (late) write_begin(w, 1, &own, DMI_REQ_PUT, 7);
    settle(w);
    assert_int_equal(two->page.role, DMI_ROLE_OWNER);
    expect(two, late ? PAGE : 0, 0, 0);
    if (late) {
      assert_int_equal(value_at(w, 3), 7);
      return;
    }
    /* The page goes back. */
    atomic_store(&one->core.heir, 0);
    atomic_store(&two->core.heir, 1);
    dmi_out_init(&out);
    dmi_page_give(&two->core, &two->page, 1, &out);
    act(w, two, &out);
    settle(w);
    assert_int_equal(one->page.role, DMI_ROLE_OWNER);
    expect(one, 0, 0, 0);
  }
}

/* A page that it offered before it began to leave has no promise, and the heir is not asked for it.
 */
static void test_leaver_has_offered(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  w->proc[3].limit = 0;
  assert_true(offer(w, 2, 4));
  atomic_store(&two->core.heir, 1);
  dmi_out_init(&out);
  dmi_page_give(&two->core, &two->page, 3, &out);
  act(w, two, &out);
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_REFUSE_PAGE], 1);
  assert_int_equal(w->line.sent[DMI_MSG_TAKE], 2);
  assert_int_equal(w->line.sent[DMI_MSG_GRANT], 2);
  assert_int_equal(w->proc[2].page.role, DMI_ROLE_OWNER); /* and stays there */
  expect(&w->proc[0], 0, 0, 0);
}

/* The process that should get the page has left: the heir takes it.  A refused offer is over. */
static void test_leaver_sent_back(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  assert_true(offer(w, 2, 4));
  atomic_store(&two->core.heir, 1);
  dmi_out_init(&out);
  dmi_page_bounced(&two->core, &two->page, 4, &w->line.msg[w->line.first++], &out);
  assert_int_equal(out.num, 0);
  dmi_page_give(&two->core, &two->page, 3, &out);
  act(w, two, &out);
  dmi_out_init(&out);
  dmi_page_bounced(&two->core, &two->page, 3, &w->line.msg[w->line.first++], &out);
  act(w, two, &out);
  settle(w);
  assert_int_equal(w->proc[0].page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 1), 7);
}

static void test_leaver_does_not_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own own;
  struct dmi_out out;
  one->limit = 0;
  write_begin(w, 2, &own, DMI_REQ_PUT, 7);
  settle(w);
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  atomic_store(&one->core.heir, 2);
  dmi_out_init(&out);
  dmi_page_give(&one->core, &one->page, 2, &out);
  assert_int_equal(one->page.flags & DMI_PAGE_STALLED, 0);
  act(w, one, &out);
  settle(w);
  assert_true(own.done);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 3), 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ROW(test_offer),
      ROW(test_offer_to_who_has_a_copy),
      ROW(test_kept),
      ROW(test_offer_comes_too_late),
      ROW(test_no_offer),
      ROW(test_offer_sent_back),
      ROW(test_leaver_keeps),
      ROW(test_leaver_gives),
      ROW(test_leaver_gives_zeros),
      ROW(test_leaver_has_offered),
      ROW(test_leaver_sent_back),
      ROW(test_leaver_does_not_stall),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
