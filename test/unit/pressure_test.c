/*
 * pressure_test.c - what the pager decides (core/pressure.h), one action after the other, in rare
 * cases: memory that becomes free at the last moment, messages that arrive while something else is
 * done, transient use that never ends.
 *
 * The test decides the result of each action; pages are only records with a size.
 */
#include "core/pressure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dmi_api.h"

#define LIMIT 1000

/* One process with a pager, and others that are only uids. */
struct world {
  struct dmi_core core;
  struct dmi_pool *pool;
  struct dmi_pressure *p;
  struct dmi_map map;
  struct dmi_page page[4];
  uint32_t held;
  struct dmi_pressure_action action;
  struct dmi_capacity_out out; /* of the last step */
};

static void let_go(void *arg, struct dmi_page *page) {
  struct world *w = arg;
  assert_non_null(page);
  assert_true(w->held > 0);
  w->held--;
}

static void begin(struct world *w, bool spills, uint64_t page_size) {
  memset(w, 0, sizeof(*w));
  w->core.self = 1;
  w->map.page_size = page_size;
  for (uint64_t i = 0; i < 4; i++)
    w->page[i] = (struct dmi_page){.map = &w->map, .index = i};
  w->pool = dmi_pool_new(LIMIT, NULL, NULL);
  w->p = dmi_pressure_new(&w->core, w->pool, spills);
  dmi_pressure_open(w->p);
  dmi_capacity_out_init(&w->out);
}

static void end(struct world *w) {
  dmi_capacity_out_free(&w->out);
  dmi_pressure_free(w->p, let_go, w);
  assert_int_equal(w->held, 0);
  dmi_pool_free(w->pool);
}

static void fresh(struct world *w) {
  dmi_capacity_out_free(&w->out);
  dmi_capacity_out_init(&w->out);
}

/* Gives the result of the last action; the next one must be of this type. */
static void next(struct world *w, struct dmi_pressure_result result, enum dmi_pressure_do type) {
  fresh(w);
  dmi_pressure_next(w->p, &result, &w->action, &w->out);
  if (w->action.release) let_go(w, w->action.release);
  assert_int_equal(w->action.type, type);
}

#define FATE(what) ((struct dmi_pressure_result){.fate = DMI_PRESSURE_##what})
#define BYTES(num) ((struct dmi_pressure_result){.bytes = (num)})
#define YES(what) ((struct dmi_pressure_result){.yes = (what)})
#define OFFER(what) ((struct dmi_pressure_result){.offer = DMI_PRESSURE_##what})
#define NOTHING ((struct dmi_pressure_result){.bytes = 0})

static void stall(struct world *w, uint64_t page) {
  w->held++;
  assert_true(dmi_pressure_stalled(w->p, &w->page[page]));
}

static void view(struct world *w, uint32_t others) {
  const uint32_t uid[] = {2, 3, 4};
  dmi_pressure_view(w->p, uid, others);
}

static void report(struct world *w, uint32_t from, enum dmi_capacity_kind kind, uint64_t number,
                   uint64_t bytes) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_REPORT};
  msg.capacity_report = (struct dmi_msg_capacity_report){number, kind, bytes};
  assert_true(dmi_pressure_message(w->p, from, &msg));
}

static void ask(struct world *w, uint32_t from, enum dmi_capacity_kind kind, uint64_t number,
                uint64_t bytes, uint64_t unit) {
  struct dmi_msg msg = {.type = DMI_SVC_CAPACITY_ASK};
  msg.capacity_ask = (struct dmi_msg_capacity_ask){number, kind, bytes, unit};
  assert_true(dmi_pressure_message(w->p, from, &msg));
}

/* Fills the pool with transient use, or (`frame`) with other use. */
static struct dmi_frame *use(struct world *w, uint64_t bytes) {
  struct dmi_frame *frame = dmi_frame_new(bytes);
  dmi_pool_attach(w->pool, frame, false);
  return frame;
}

static void test_capacity(void **state) {
  struct world w;
  (void)state;
  begin(&w, false, 100);
  next(&w, NOTHING, DMI_PRESSURE_REST);
  assert_true(w.action.sleep);
  assert_false(w.action.expects);
  stall(&w, 0);
  stall(&w, 1);
  assert_false(dmi_pool_reserve(w.pool, 1, false)); /* closed to others */
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  assert_ptr_equal(w.action.page, &w.page[0]);
  next(&w, FATE(GONE), DMI_PRESSURE_CHECK);
  assert_int_equal(w.held, 1);
  assert_ptr_equal(w.action.page, &w.page[1]);
  next(&w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  assert_int_equal(w.action.error, DMI_OK);
  assert_int_equal(dmi_pool_used(w.pool), 100);
  next(&w, NOTHING, DMI_PRESSURE_REST);
  assert_true(dmi_pool_reserve(w.pool, 1, false));
  dmi_pool_release(w.pool, 101);
  end(&w);
}

/* A look in which the stalled page fails: nothing can leave, and there is no member to ask. */
static void fails(struct world *w) {
  next(w, NOTHING, DMI_PRESSURE_CHECK);
  next(w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(w, BYTES(0), DMI_PRESSURE_CHECK);
  next(w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  assert_int_equal(w->action.error, DMI_ENOMEM);
  next(w, NOTHING, DMI_PRESSURE_REST);
}

/* Nothing to drop, no member to ask. */
static void test_fail(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  all = use(&w, LIMIT);
  stall(&w, 0);
  fails(&w);
  assert_int_equal(w.held, 0);
  assert_false(w.action.sleep);
  dmi_frame_unref(all);
  end(&w);
}

/* Pages in the file come back above the limit. */
static void test_spilled(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, true, 100);
  all = use(&w, LIMIT);
  stall(&w, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(SPILLED), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_SWEEP); /* to the file */
  next(&w, BYTES(0), DMI_PRESSURE_CHECK);
  next(&w, FATE(SPILLED), DMI_PRESSURE_ADMIT);
  assert_int_equal(w.action.error, DMI_OK);
  assert_int_equal(dmi_pool_used(w.pool), LIMIT + 100);
  next(&w, NOTHING, DMI_PRESSURE_REST);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(all);
  end(&w);
}

/* A look that ends with sleep: the stalled page waits for the end of transient use. */
static void waits(struct world *w) {
  next(w, NOTHING, DMI_PRESSURE_CHECK);
  next(w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(w, BYTES(0), DMI_PRESSURE_REST);
  assert_true(w->action.sleep);
  assert_true(w->action.expects);
}

/* Page 0 waits for 100 bytes in transient use; the rest, which is returned, stays in use. */
static struct dmi_frame *begin_waiting(struct world *w) {
  struct dmi_frame *most;
  begin(w, false, 100);
  most = use(w, LIMIT - 100);
  assert_true(dmi_pool_reserve(w->pool, 100, false));
  stall(w, 0);
  waits(w);
  return most;
}

static void test_passing(void **state) {
  struct dmi_frame *most;
  struct world w;
  (void)state;
  most = begin_waiting(&w);
  dmi_pool_release(w.pool, 100);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  assert_int_equal(w.action.error, DMI_OK);
  next(&w, NOTHING, DMI_PRESSURE_SWEEP); /* it is full */
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  assert_true(w.action.sleep);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(most);
  end(&w);
}

/* Whenever some transient use ends, more comes: the page fails when as much has ended as there was,
 * plus its size. */
static void test_patience(void **state) {
  struct dmi_frame *most;
  struct world w;
  (void)state;
  most = begin_waiting(&w);
  for (int i = 0; i < 3; i++) { /* 50 each */
    dmi_pool_release(w.pool, 50);
    dmi_pool_reserve(w.pool, 50, true);
    waits(&w);
  }
  dmi_pool_release(w.pool, 50);
  dmi_pool_reserve(w.pool, 50, true);
  fails(&w);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(most);
  end(&w);
}

/* The first page is not stalled any more: the next one begins its own waiting time. */
static void test_patience_of_each(void **state) {
  struct dmi_frame *most;
  struct world w;
  (void)state;
  most = begin_waiting(&w);
  for (int i = 0; i < 4; i++) { /* as much as the first one waits for */
    dmi_pool_release(w.pool, 50);
    dmi_pool_reserve(w.pool, 50, true);
  }
  stall(&w, 1);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(GONE), DMI_PRESSURE_CHECK);
  assert_ptr_equal(w.action.page, &w.page[1]);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  waits(&w);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(most);
  end(&w);
}

/* Memory becomes free during the look, when the waiting time is over (there is a file). */
static void test_last_moment(void **state) {
  struct dmi_frame *most, *last;
  struct world w;
  (void)state;
  begin(&w, true, 100);
  most = use(&w, LIMIT - 100);
  last = use(&w, 100);
  stall(&w, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_SWEEP);
  dmi_frame_unref(last);
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  assert_false(w.action.sleep);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  assert_int_equal(w.action.error, DMI_OK);
  next(&w, NOTHING, DMI_PRESSURE_SWEEP); /* it is full */
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  assert_true(w.action.sleep);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(most);
  end(&w);
}

/* A member that has refused reports memory while pages are being spilled. */
static void test_word(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, true, 100);
  view(&w, 1);
  all = use(&w, LIMIT);
  stall(&w, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  assert_true(w.action.sleep);
  assert_int_equal(w.out.num, 1); /* asked */
  report(&w, 2, DMI_CAPACITY_URGENT, 1, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_SWEEP); /* to the file */
  report(&w, 2, DMI_CAPACITY_URGENT, 0, 500);
  next(&w, BYTES(0), DMI_PRESSURE_REST);
  assert_false(w.action.sleep);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_OFFER);
  assert_ptr_equal(w.action.page, &w.page[0]);
  next(&w, OFFER(OFFERED), DMI_PRESSURE_REST);
  dmi_frame_unref(all);
  end(&w);
}

/* The only member that is known to have memory leaves before the page is offered: the others are
 * asked first. */
static void test_leaver(void **state) {
  const uint32_t rest[] = {3};
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 2);
  report(&w, 2, DMI_CAPACITY_URGENT, 0, 500);
  all = use(&w, LIMIT);
  stall(&w, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_OFFER);
  dmi_pressure_view(w.p, rest, 1);
  next(&w, OFFER(NOBODY), DMI_PRESSURE_REST);
  assert_int_equal(w.out.num, 1);
  assert_int_equal(w.out.send[0].to, 3);
  dmi_frame_unref(all);
  end(&w);
}

/* A look after which the member is asked, and it is waited for. */
static void asks(struct world *w) {
  next(w, NOTHING, DMI_PRESSURE_CHECK);
  next(w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(w, BYTES(0), DMI_PRESSURE_REST);
  assert_int_equal(w->out.num, 1);
  assert_int_equal(w->out.send[0].msg.type, DMI_SVC_CAPACITY_ASK);
  if (!w->action.sleep) waits(w);
}

/* A member frees memory after it has refused, and its report is in flight while the next write
 * stalls: it is asked again before that write fails. */
static void test_refused_before(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 1);
  all = use(&w, LIMIT);
  stall(&w, 0);
  asks(&w);
  report(&w, 2, DMI_CAPACITY_URGENT, 1, 0);
  fails(&w);
  stall(&w, 1);
  asks(&w);
  report(&w, 2, DMI_CAPACITY_URGENT, 2, 500);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_OFFER);
  dmi_frame_unref(all);
  end(&w);
}

/* Of three pages that wait two did when the member was asked, and the third stalls again while it
 * is looked at: the member is asked once for both, then for the third, then for that once more. */
static void test_asked_once(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 1);
  all = use(&w, LIMIT);
  stall(&w, 0);
  stall(&w, 1);
  asks(&w);
  stall(&w, 2);
  report(&w, 2, DMI_CAPACITY_URGENT, 1, 0);
  fails(&w);
  fails(&w);
  assert_int_equal(w.held, 1);
  asks(&w);
  report(&w, 2, DMI_CAPACITY_URGENT, 2, 0);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
  next(&w, BYTES(0), DMI_PRESSURE_CHECK);
  stall(&w, 2); /* it went on meanwhile */
  next(&w, FATE(STALLS), DMI_PRESSURE_REST);
  asks(&w);
  dmi_frame_unref(all);
  end(&w);
}

/* The first of two pages that wait stalls again between two looks. */
static void test_stalls_again(void **state) {
  struct dmi_frame *all;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 1);
  all = use(&w, LIMIT);
  stall(&w, 0);
  stall(&w, 1);
  asks(&w);
  stall(&w, 0);
  report(&w, 2, DMI_CAPACITY_URGENT, 1, 0);
  asks(&w);
  report(&w, 2, DMI_CAPACITY_URGENT, 2, 0);
  for (int i = 0; i < 3; i++)
    fails(&w);
  assert_int_equal(w.held, 0);
  dmi_frame_unref(all);
  end(&w);
}

/* A process that has asked to leave and found no memory owes a report of memory for pages that
 * leave in time, and never gives it: it must not look again because of that. */
static void test_refused(void **state) {
  struct dmi_frame *page;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 1);
  page = use(&w, 100);
  dmi_pressure_leave(w.p, 2);
  dmi_pressure_stay(w.p);
  ask(&w, 2, DMI_CAPACITY_AHEAD, 1, 100, 100);
  next(&w, NOTHING, DMI_PRESSURE_REST);
  assert_int_equal(w.out.num, 1);
  assert_int_equal(w.out.send[0].msg.capacity_report.bytes, 0);
  assert_true(w.action.sleep);
  dmi_frame_unref(page);
  end(&w);
}

/* More memory is in use after copies were dropped for a question: more copies are dropped. */
static void test_copies(void **state) {
  struct dmi_frame *most, *copy;
  struct world w;
  (void)state;
  begin(&w, false, 100);
  view(&w, 1);
  most = use(&w, LIMIT - 300);
  copy = use(&w, 200);
  dmi_pool_copies(w.pool, 200);
  ask(&w, 2, DMI_CAPACITY_URGENT, 1, 200, 100);
  next(&w, NOTHING, DMI_PRESSURE_SWEEP);
  dmi_pool_reserve(w.pool, 100, true);
  next(&w, BYTES(100), DMI_PRESSURE_SWEEP);
  dmi_frame_unref(copy);
  dmi_pool_copies(w.pool, -200);
  next(&w, BYTES(200), DMI_PRESSURE_REST);
  assert_int_equal(w.out.num, 1);
  assert_int_equal(w.out.send[0].msg.capacity_report.bytes, 200);
  dmi_pool_release(w.pool, 100);
  dmi_frame_unref(most);
  end(&w);
}

/* One busy page; *arg: it is saved. */
static bool look_busy(void *arg, void *map, uint64_t from, struct dmi_look *look,
                      enum dmi_pressure_busy *busy) {
  (void)map;
  if (from > 0) return false;
  *look = (struct dmi_look){.index = 0, .saved = *(const bool *)arg};
  *busy = DMI_PRESSURE_BUSY;
  return true;
}

/* A busy page may leave later; a saved one stays. */
static void test_busy(void **state) {
  struct dmi_frame *all;
  struct world w;
  bool saved = false;
  const struct dmi_pressure_env env = {.arg = &saved, .look = look_busy};
  uint64_t hand = 0;
  (void)state;
  begin(&w, false, 100);
  all = use(&w, LIMIT);
  stall(&w, 0);
  for (int i = 0; i < 2; i++) {
    struct dmi_replace_map map = {&w.map, 100, &hand};
    next(&w, NOTHING, DMI_PRESSURE_CHECK);
    next(&w, FATE(STALLS), DMI_PRESSURE_SWEEP);
    assert_int_equal(dmi_pressure_sweep(w.p, &env, &map, 1), 0);
    next(&w, BYTES(0), saved ? DMI_PRESSURE_CHECK : DMI_PRESSURE_ARM);
    if (saved) break;
    next(&w, YES(false), DMI_PRESSURE_REST);
    assert_true(w.action.sleep);
    saved = true;
  }
  next(&w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  assert_int_equal(w.action.error, DMI_ENOMEM);
  next(&w, NOTHING, DMI_PRESSURE_REST);
  dmi_frame_unref(all);
  end(&w);
}

/* What is frozen cannot leave, but after RESUME: who asks for memory has to wait for that. */
static void test_frozen(void **state) {
  struct dmi_map map = {.page_size = 8};
  struct dmi_page page = {.map = &map, .copy = 1};
  struct dmi_look look;
  (void)state;
  page.frame = dmi_frame_new(8);
  assert_int_equal(dmi_pressure_look_at(&page, &look), DMI_PRESSURE_IDLE);
  assert_true(look.droppable);
  page.flags = DMI_PAGE_FROZEN;
  assert_int_equal(dmi_pressure_look_at(&page, &look), DMI_PRESSURE_BUSY_COPY);
  assert_false(look.droppable);
  page.role = DMI_ROLE_OWNER;
  assert_int_equal(dmi_pressure_look_at(&page, &look), DMI_PRESSURE_BUSY);
  assert_false(look.offerable);
  dmi_frame_unref(page.frame);
}

static void offer(struct world *w, uint64_t page) {
  struct dmi_out out;
  dmi_out_init(&out);
  w->page[page].role = DMI_ROLE_OWNER;
  assert_int_equal(dmi_pressure_offer(w->p, &w->page[page], &out), DMI_PRESSURE_OFFERED);
  w->held++;
  for (uint32_t i = 0; i < out.num; i++)
    dmi_slice_drop(&out.act[i].msg.list);
  dmi_out_free(&out);
}

/* The process ends in the middle of a look: each page is let go once. */
static void test_end(void **state) {
  struct world w;
  (void)state;
  begin(&w, false, 100);
  for (uint64_t i = 0; i < 3; i++)
    stall(&w, i);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  next(&w, FATE(GONE), DMI_PRESSURE_CHECK);
  next(&w, FATE(STALLS), DMI_PRESSURE_ADMIT);
  next(&w, NOTHING, DMI_PRESSURE_CHECK);
  dmi_pool_release(w.pool, 100);
  end(&w);
  begin(&w, false, 100);
  view(&w, 1);
  report(&w, 2, DMI_CAPACITY_AHEAD, 0, 500);
  for (uint64_t i = 0; i < 3; i++)
    offer(&w, i);
  next(&w, NOTHING, DMI_PRESSURE_SETTLE);
  next(&w, FATE(BACK), DMI_PRESSURE_SETTLE);
  next(&w, FATE(OUT), DMI_PRESSURE_SETTLE);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_capacity),       cmocka_unit_test(test_fail),
      cmocka_unit_test(test_spilled),        cmocka_unit_test(test_passing),
      cmocka_unit_test(test_patience),       cmocka_unit_test(test_patience_of_each),
      cmocka_unit_test(test_last_moment),    cmocka_unit_test(test_word),
      cmocka_unit_test(test_refused),        cmocka_unit_test(test_copies),
      cmocka_unit_test(test_busy),           cmocka_unit_test(test_leaver),
      cmocka_unit_test(test_refused_before), cmocka_unit_test(test_asked_once),
      cmocka_unit_test(test_stalls_again),   cmocka_unit_test(test_end),
      cmocka_unit_test(test_frozen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
