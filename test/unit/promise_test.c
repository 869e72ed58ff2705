/*
 * promise_test.c - who takes the pages of a leaver (lib/core/promise.h): single scenarios, and
 * reports that no correct peer sends.
 */
#include "core/promise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Of process 1; the others are only uids. */
struct world {
  struct dmi_core core;
  struct dmi_promises *promises;
  struct dmi_out out;
};

static int setup(void **state) {
  static const uint32_t others[] = {2, 3, 4};
  static struct world w;
  w = (struct world){.core = {.self = 1}};
  w.promises = dmi_promises_new(&w.core);
  dmi_promises_view(w.promises, others, 3);
  dmi_out_init(&w.out);
  *state = &w;
  return 0;
}

static int teardown(void **state) {
  struct world *w = *state;
  dmi_promises_free(w->promises);
  dmi_out_free(&w->out);
  return 0;
}

/* 3 is the heir. */
static void begin(struct world *w, uint64_t size1, uint64_t num1, uint64_t size2, uint64_t num2) {
  const struct dmi_promise_size sizes[] = {{size1, num1}, {size2, num2}};
  dmi_promises_begin(w->promises, 3, sizes, num2 ? 2 : num1 ? 1 : 0);
}

static bool report(struct world *w, uint32_t from, enum dmi_capacity_kind kind, uint64_t number,
                   uint64_t bytes) {
  const struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_REPORT,
                              .capacity_report = {.number = number, .kind = kind, .bytes = bytes}};
  return dmi_promises_report(w->promises, from, &msg);
}

/* The next message is this question; it is answered. */
static void asks(struct world *w, uint32_t to, uint64_t bytes, uint64_t unit, uint64_t answer) {
  struct dmi_act act;
  assert_int_equal(dmi_promises_ask(w->promises, &w->out), DMI_PROMISES_ASKED);
  assert_int_equal(dmi_promises_ask(w->promises, &w->out), DMI_PROMISES_WAIT);
  assert_true(dmi_out_take(&w->out, &act));
  assert_int_equal(act.to, to);
  assert_int_equal(act.msg.type, DMI_SVC_CAPACITY_ASK);
  assert_int_equal(act.msg.origin, 1);
  assert_int_equal(act.msg.capacity_ask.kind, DMI_CAPACITY_PROMISE);
  assert_int_equal(act.msg.capacity_ask.bytes, bytes);
  assert_int_equal(act.msg.capacity_ask.unit, unit);
  assert_true(report(w, to, DMI_CAPACITY_PROMISE, act.msg.capacity_ask.number, answer));
  assert_false(dmi_out_take(&w->out, &act));
}

static void becomes(struct world *w, enum dmi_promises_state wanted) {
  assert_int_equal(dmi_promises_ask(w->promises, &w->out), wanted);
}

/* The end of a leave gives this back, and no more than that. */
static void gives_back(struct world *w, uint32_t to, uint64_t bytes) {
  struct dmi_act act;
  assert_true(dmi_out_take(&w->out, &act));
  assert_int_equal(act.to, to);
  assert_int_equal(act.msg.type, DMI_SVC_CAPACITY_RETURN);
  assert_int_equal(act.msg.capacity_return.bytes, bytes);
}

static void no_more(struct world *w) {
  struct dmi_act act;
  assert_false(dmi_out_take(&w->out, &act));
}

static void nothing_to_give(void **state) {
  struct world *w = *state;
  begin(w, 0, 0, 0, 0);
  becomes(w, DMI_PROMISES_ENOUGH);
  dmi_promises_end(w->promises, false, &w->out);
  no_more(w);
}

/* Enough at the heir: nobody else is asked. */
static void heir_takes_all(void **state) {
  struct world *w = *state;
  begin(w, 40, 1, 60, 1);
  asks(w, 3, 100, 40, 100);
  becomes(w, DMI_PROMISES_ENOUGH);
  assert_int_equal(dmi_promises_give(w->promises, 60), 3);
  assert_int_equal(dmi_promises_give(w->promises, 60), 0); /* more than was promised */
  dmi_promises_end(w->promises, false, &w->out);
  gives_back(w, 3, 40);
  no_more(w);
}

/* What was offered may not have been taken: it goes back, too; but not what was offered in the
 * leave before. */
static void untaken(void **state) {
  struct world *w = *state;
  for (int again = 0; again < 2; again++) {
    begin(w, 40, 1, 60, 1);
    asks(w, 3, 100, 40, 100);
    becomes(w, DMI_PROMISES_ENOUGH);
    assert_int_equal(dmi_promises_give(w->promises, 60), 3);
    dmi_promises_end(w->promises, again, &w->out);
    gives_back(w, 3, again ? 100 : 40);
    no_more(w);
  }
}

/* A loss comes when a page was offered: it is offered again, where memory was promised for it. */
static void offered_again(void **state) {
  struct world *w = *state;
  begin(w, 40, 1, 60, 1);
  asks(w, 3, 100, 40, 100);
  becomes(w, DMI_PROMISES_ENOUGH);
  assert_int_equal(dmi_promises_give(w->promises, 60), 3);
  dmi_promises_untaken(w->promises, 3, 60);
  dmi_promises_untaken(w->promises, 3, 60); /* no more than was offered */
  dmi_promises_untaken(w->promises, 2, 60);
  assert_int_equal(dmi_promises_give(w->promises, 60), 3);
  assert_int_equal(dmi_promises_give(w->promises, 60), 0);
  assert_int_equal(dmi_promises_give(w->promises, 40), 3);
  dmi_promises_end(w->promises, false, &w->out);
  no_more(w);
}

/* Not enough there: the others one by one, for the rest; who has reported the most first. */
static void several(void **state) {
  struct world *w = *state;
  uint64_t given[5] = {0};
  assert_true(report(w, 2, DMI_CAPACITY_AHEAD, 0, 7));
  assert_true(report(w, 4, DMI_CAPACITY_URGENT, 0, 8));
  assert_true(report(w, 9, DMI_CAPACITY_URGENT, 0, 8)); /* no member: ignored */
  begin(w, 20, 4, 10, 2);
  asks(w, 3, 100, 10, 30);
  asks(w, 4, 70, 10, 20);
  asks(w, 2, 50, 10, 50);
  becomes(w, DMI_PROMISES_ENOUGH);
  for (int i = 0; i < 4; i++)
    given[dmi_promises_give(w->promises, 20)] += 20;
  for (int i = 0; i < 2; i++)
    given[dmi_promises_give(w->promises, 10)] += 10;
  assert_int_equal(given[3], 30);
  assert_int_equal(given[4], 20);
  assert_int_equal(given[2], 50);
  dmi_promises_end(w->promises, false, &w->out);
  no_more(w);
}

/* Not enough anywhere: all of it goes back.  The next time all are asked again. */
static void too_little(void **state) {
  struct world *w = *state;
  for (int again = 0; again < 2; again++) {
    begin(w, 10, 9, 1, 10);
    asks(w, 3, 100, 1, 30);
    asks(w, 2, 70, 1, 0);
    asks(w, 4, 70, 1, 69);
    becomes(w, DMI_PROMISES_TOO_LITTLE);
    dmi_promises_end(w->promises, false, &w->out);
    gives_back(w, 3, 30);
    gives_back(w, 4, 69);
    no_more(w);
  }
}

/* Sums of bytes are not enough: a page goes to one process as a whole. */
static void whole_pages(void **state) {
  struct world *w = *state;
  begin(w, 100, 2, 0, 0);
  asks(w, 3, 200, 100, 150);
  asks(w, 2, 100, 100, 50); /* one page is missing, not 50 bytes */
  asks(w, 4, 100, 100, 99);
  becomes(w, DMI_PROMISES_TOO_LITTLE);
  dmi_promises_end(w->promises, false, &w->out);
  gives_back(w, 3, 150);
  gives_back(w, 2, 50);
  gives_back(w, 4, 99);
  /* A large and two small ones, in whatever order they go: the large one has its place kept. */
  begin(w, 50, 2, 100, 1);
  asks(w, 3, 200, 50, 150);
  asks(w, 2, 50, 50, 50);
  becomes(w, DMI_PROMISES_ENOUGH);
  (void)dmi_promises_give(w->promises, 50);
  (void)dmi_promises_give(w->promises, 50);
  assert_int_equal(dmi_promises_give(w->promises, 100), 3);
  dmi_promises_end(w->promises, false, &w->out);
  no_more(w); /* all was used */
}

/* Who has left is not waited for, and what it promised does not count. */
static void one_leaves(void **state) {
  static const uint32_t rest[] = {2, 3};
  struct world *w = *state;
  begin(w, 10, 3, 0, 0);
  asks(w, 3, 30, 10, 10);
  becomes(w, DMI_PROMISES_ASKED); /* 2 */
  assert_true(report(w, 2, DMI_CAPACITY_PROMISE, 2, 0));
  becomes(w, DMI_PROMISES_ASKED); /* 4 */
  becomes(w, DMI_PROMISES_WAIT);
  dmi_promises_view(w->promises, rest, 2);
  becomes(w, DMI_PROMISES_TOO_LITTLE);
  assert_true(report(w, 4, DMI_CAPACITY_PROMISE, 3, 20)); /* in flight before */
  becomes(w, DMI_PROMISES_TOO_LITTLE);
}

/* It has promised enough, and leaves: others must be asked, and they have too little. */
static void one_that_promised_leaves(void **state) {
  static const uint32_t rest[] = {2, 3};
  struct world *w = *state;
  begin(w, 10, 3, 0, 0);
  asks(w, 3, 30, 10, 10);
  becomes(w, DMI_PROMISES_ASKED); /* 2 */
  assert_true(report(w, 2, DMI_CAPACITY_PROMISE, 2, 0));
  becomes(w, DMI_PROMISES_ASKED); /* 4 */
  assert_true(report(w, 4, DMI_CAPACITY_PROMISE, 3, 20));
  dmi_promises_view(w->promises, rest, 2);
  becomes(w, DMI_PROMISES_TOO_LITTLE);
}

static void rubbish(void **state) {
  struct world *w = *state;
  begin(w, 100, 1, 0, 0);
  assert_false(report(w, 3, DMI_CAPACITY_PROMISE, 0, 10)); /* unasked */
  assert_false(report(w, 3, DMI_CAPACITY_PROMISE, 1, 10));
  becomes(w, DMI_PROMISES_ASKED);                           /* question 1, to 3 */
  assert_false(report(w, 3, DMI_CAPACITY_PROMISE, 1, 101)); /* too much */
  assert_false(report(w, 3, DMI_CAPACITY_PROMISE, 2, 10));
  assert_false(report(w, 2, DMI_CAPACITY_PROMISE, 1, 10));
  becomes(w, DMI_PROMISES_WAIT);
  assert_true(report(w, 3, DMI_CAPACITY_PROMISE, 1, 100));
  assert_false(report(w, 3, DMI_CAPACITY_PROMISE, 1, 100)); /* twice */
  becomes(w, DMI_PROMISES_ENOUGH);
}

/* A report of a kind that there is not is refused, and does not say how much the member has. */
static void unknown_kind(void **state) {
  struct world *w = *state;
  assert_true(report(w, 2, DMI_CAPACITY_AHEAD, 0, 7));
  assert_false(report(w, 4, (enum dmi_capacity_kind)(DMI_CAPACITY_PROMISE + 1), 0, 8));
  begin(w, 10, 3, 0, 0);
  asks(w, 3, 30, 10, 0);
  asks(w, 2, 30, 10, 0); /* it has more than 4, as far as is known */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(nothing_to_give), TEST(heir_takes_all), TEST(untaken),
      TEST(offered_again),   TEST(several),        TEST(too_little),
      TEST(whole_pages),     TEST(one_leaves),     TEST(one_that_promised_leaves),
      TEST(rubbish),         TEST(unknown_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
