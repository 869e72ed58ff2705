/*
 * pool_test.c - the account of page bytes: which bytes count and how long, the limit with several
 * threads, the marks.
 */
#include "base/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static _Atomic int woken;

static void wake(void *arg) {
  (void)arg;
  atomic_fetch_add(&woken, 1);
}

static struct dmi_pool *pool; /* of the present test */

static int close_pool(void **state) {
  (void)state;
  dmi_pool_free(pool);
  return 0;
}

static void open_pool(uint64_t limit) {
  pool = dmi_pool_new(limit, wake, NULL);
  assert_non_null(pool);
  woken = 0;
}

static void test_limit(void **state) {
  (void)state;
  open_pool(100);
  assert_true(dmi_pool_reserve(pool, 60, false));
  assert_true(dmi_pool_reserve(pool, 40, false));
  assert_int_equal(dmi_pool_refused(pool), 0);
  assert_int_equal(woken, 0);
  assert_false(dmi_pool_reserve(pool, 1, false));
  assert_int_equal(woken, 1);
  assert_int_equal(dmi_pool_refused(pool), 1);
  assert_true(dmi_pool_reserve(pool, 7, true)); /* comes anyway */
  assert_int_equal(dmi_pool_used(pool), 107);
  assert_int_equal(dmi_pool_peak(pool), 107);
  dmi_pool_release(pool, 47);
  assert_int_equal(dmi_pool_used(pool), 60);
  assert_int_equal(dmi_pool_peak(pool), 107);
  assert_false(dmi_pool_reserve(pool, UINT64_MAX, false)); /* no overflow */
  assert_false(dmi_pool_reserve(pool, 41, false));
  assert_true(dmi_pool_reserve(pool, 40, false));
  woken = 0;
  dmi_pool_patience(pool, 3);
  for (int i = 1; i <= 7; i++) {
    assert_false(dmi_pool_reserve(pool, 1, false));
    assert_int_equal(woken, i / 3);
  }
}

static void test_no_limit(void **state) {
  (void)state;
  open_pool(0);
  assert_true(dmi_pool_reserve(pool, UINT64_C(1) << 50, false));
  assert_int_equal(dmi_pool_limit(pool), UINT64_MAX);
}

/* A frame counts from the time when it becomes a page's until its last reference, also that of a
 * message, is given back. */
static void test_frames(void **state) {
  struct dmi_frame *a, *b;
  struct dmi_slice slice;
  (void)state;
  open_pool(1 << 20);
  a = dmi_frame_new(4096);
  assert_int_equal(dmi_pool_used(pool), 0);
  assert_true(dmi_pool_reserve(pool, 4096, false));
  dmi_pool_attach(pool, a, true);
  assert_int_equal(dmi_pool_used(pool), 4096);
  dmi_pool_attach(pool, a, false); /* the same bytes, counted already */
  assert_int_equal(dmi_pool_used(pool), 4096);
  assert_true(dmi_pool_reserve(pool, 4096, false));
  dmi_pool_attach(pool, a, true); /* the reservation was not needed */
  assert_int_equal(dmi_pool_used(pool), 4096);
  slice = dmi_slice_of(a, 10, 20);
  dmi_frame_unref(a);
  assert_int_equal(dmi_pool_used(pool), 4096);
  dmi_slice_drop(&slice);
  assert_int_equal(dmi_pool_used(pool), 0);
  b = dmi_frame_new(1 << 20); /* a large one; not asked for */
  dmi_pool_attach(pool, b, false);
  assert_int_equal(dmi_pool_used(pool), 1 << 20);
  assert_false(dmi_pool_reserve(pool, 1, false));
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_used(pool), 0);
  assert_int_equal(dmi_pool_peak(pool), 1 << 20);
}

static void test_marks(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_watch(pool, 50, 0);
  assert_true(dmi_pool_reserve(pool, 50, false));
  assert_int_equal(woken, 0);
  assert_true(dmi_pool_reserve(pool, 1, false));
  assert_int_equal(woken, 1);
  assert_true(dmi_pool_reserve(pool, 9, false)); /* said once */
  assert_int_equal(woken, 1);
  dmi_pool_watch(pool, UINT64_MAX, 30);
  dmi_pool_release(pool, 30);
  assert_int_equal(woken, 1);
  dmi_pool_release(pool, 1);
  assert_int_equal(woken, 2);
  dmi_pool_release(pool, 9);
  assert_int_equal(woken, 2);
  dmi_pool_watch(pool, 20, 20);
  dmi_pool_release(pool, 1); /* 19 */
  assert_int_equal(woken, 3);
  assert_true(dmi_pool_reserve(pool, 2, true));
  assert_int_equal(woken, 4);
}

static void test_closed(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_close(pool, true);
  assert_false(dmi_pool_reserve(pool, 1, false));
  assert_true(dmi_pool_reserve_first(pool, 60));
  assert_false(dmi_pool_reserve_first(pool, 41));
  assert_true(dmi_pool_reserve(pool, 41, true));
  dmi_pool_release(pool, 41);
  dmi_pool_close(pool, false);
  assert_true(dmi_pool_reserve(pool, 40, false));
}

static void test_copies(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_copies(pool, 30);
  assert_int_equal(dmi_pool_copy_bytes(pool), 30);
  dmi_pool_copies(pool, -40);
  assert_int_equal(dmi_pool_copy_bytes(pool), 0);
  dmi_pool_copies(pool, 10);
  assert_int_equal(dmi_pool_copy_bytes(pool), 0);
}

#define THREADS 4
#define ROUNDS 20000
#define PAGE 64
#define LIMIT ((uint64_t)PAGE * 5)

static _Atomic uint64_t worst;

static void *body(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    struct dmi_frame *frame;
    uint64_t now;
    while (!dmi_pool_reserve(pool, PAGE, false))
      continue;
    frame = dmi_frame_new(PAGE);
    dmi_pool_attach(pool, frame, true);
    now = dmi_pool_used(pool);
    if (now > atomic_load(&worst)) atomic_store(&worst, now);
    dmi_frame_unref(frame);
    if (dmi_pool_reserve(pool, 2 * PAGE, false)) dmi_pool_release(pool, 2 * PAGE);
  }
  return NULL;
}

static void test_threads(void **state) {
  pthread_t thread[THREADS];
  (void)state;
  open_pool(LIMIT);
  atomic_store(&worst, 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, body, NULL), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(thread[i], NULL);
  assert_int_equal(dmi_pool_used(pool), 0);
  assert_true(atomic_load(&worst) > 0 && atomic_load(&worst) <= LIMIT);
  assert_true(dmi_pool_peak(pool) <= LIMIT && dmi_pool_peak(pool) >= PAGE);
}

/* Transient use: reservations, and bytes that belong to no page any more. */
static void test_passing(void **state) {
  struct dmi_frame *a, *b;
  uint64_t ended;
  (void)state;
  open_pool(1 << 20);
  ended = dmi_pool_transient_ended(pool);
  a = dmi_frame_new(4096);
  b = dmi_frame_new(4096);
  assert_true(dmi_pool_reserve(pool, 4096, false));
  assert_int_equal(dmi_pool_transient(pool), 4096);
  assert_int_equal(woken, 0);
  dmi_pool_attach(pool, a, true);
  assert_int_equal(woken, 1); /* it has ended, though nothing is free */
  assert_int_equal(dmi_pool_transient_ended(pool), ended + 4096);
  assert_int_equal(dmi_pool_transient(pool), 0);
  dmi_pool_attach(pool, b, false);
  assert_int_equal(dmi_pool_transient(pool), 0);
  dmi_frame_ref(a); /* a message has a reference */
  dmi_pool_detach(pool, a);
  dmi_frame_unref(a);
  woken = 0;
  assert_int_equal(dmi_pool_transient(pool), 4096);
  assert_int_equal(woken, 0);
  dmi_frame_unref(a);
  assert_int_equal(woken, 1);
  dmi_frame_ref(b); /* the page's bytes become another page's */
  dmi_pool_detach(pool, b);
  dmi_pool_attach(pool, b, false);
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_transient(pool), 0);
  assert_true(dmi_pool_reserve(pool, 4096, false));
  dmi_pool_detach(pool, b);
  dmi_pool_attach(pool, b, true); /* ... with a reservation that was not needed */
  assert_int_equal(dmi_pool_transient(pool), 0);
  dmi_pool_detach(pool, b);
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_used(pool), 0);
  assert_int_equal(dmi_pool_transient(pool), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_limit, close_pool),
      cmocka_unit_test_teardown(test_no_limit, close_pool),
      cmocka_unit_test_teardown(test_frames, close_pool),
      cmocka_unit_test_teardown(test_passing, close_pool),
      cmocka_unit_test_teardown(test_marks, close_pool),
      cmocka_unit_test_teardown(test_closed, close_pool),
      cmocka_unit_test_teardown(test_copies, close_pool),
      cmocka_unit_test_teardown(test_threads, close_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
