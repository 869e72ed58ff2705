/*
 * pool_test.c - the account of page bytes: what counts and until when, the limit under threads, the
 * marks.
 */
#include "mem/pool.h"

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

static void open_pool(uint64_t limit) {
  dmi_pool_open(limit, wake, NULL);
  woken = 0;
}

static void test_limit(void **state) {
  (void)state;
  open_pool(100);
  assert_true(dmi_pool_reserve(60, false));
  assert_true(dmi_pool_reserve(40, false));
  assert_int_equal(dmi_pool_refused(), 0);
  assert_int_equal(woken, 0);
  assert_false(dmi_pool_reserve(1, false));
  assert_int_equal(woken, 1);
  assert_int_equal(dmi_pool_refused(), 1);
  assert_true(dmi_pool_reserve(7, true)); /* comes anyway */
  assert_int_equal(dmi_pool_used(), 107);
  assert_int_equal(dmi_pool_peak(), 107);
  dmi_pool_release(47);
  assert_int_equal(dmi_pool_used(), 60);
  assert_int_equal(dmi_pool_peak(), 107);
  assert_false(dmi_pool_reserve(UINT64_MAX, false)); /* no overflow */
  assert_false(dmi_pool_reserve(41, false));
  assert_true(dmi_pool_reserve(40, false));
  woken = 0;
  dmi_pool_patience(3);
  for (int i = 1; i <= 7; i++) {
    assert_false(dmi_pool_reserve(1, false));
    assert_int_equal(woken, i / 3);
  }
}

static void test_no_limit(void **state) {
  (void)state;
  open_pool(0);
  assert_true(dmi_pool_reserve(UINT64_C(1) << 50, false));
  assert_int_equal(dmi_pool_limit(), UINT64_MAX);
}

/* A frame counts from the moment it is a page's until its last holder, be it a message, is gone. */
static void test_frames(void **state) {
  struct dmi_frame *a, *b;
  struct dmi_slice slice;
  (void)state;
  open_pool(1 << 20);
  a = dmi_frame_new(4096);
  assert_int_equal(dmi_pool_used(), 0);
  assert_true(dmi_pool_reserve(4096, false));
  dmi_pool_attach(a, true);
  assert_int_equal(dmi_pool_used(), 4096);
  dmi_pool_attach(a, false); /* the same bytes, counted already */
  assert_int_equal(dmi_pool_used(), 4096);
  assert_true(dmi_pool_reserve(4096, false));
  dmi_pool_attach(a, true); /* the reservation was not needed */
  assert_int_equal(dmi_pool_used(), 4096);
  slice = dmi_slice_of(a, 10, 20);
  dmi_frame_unref(a);
  assert_int_equal(dmi_pool_used(), 4096);
  dmi_slice_drop(&slice);
  assert_int_equal(dmi_pool_used(), 0);
  b = dmi_frame_new(1 << 20); /* a large one; not asked for */
  dmi_pool_attach(b, false);
  assert_int_equal(dmi_pool_used(), 1 << 20);
  assert_false(dmi_pool_reserve(1, false));
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_used(), 0);
  assert_int_equal(dmi_pool_peak(), 1 << 20);
}

static void test_marks(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_watch(50, 0);
  assert_true(dmi_pool_reserve(50, false));
  assert_int_equal(woken, 0);
  assert_true(dmi_pool_reserve(1, false));
  assert_int_equal(woken, 1);
  assert_true(dmi_pool_reserve(9, false)); /* said once */
  assert_int_equal(woken, 1);
  dmi_pool_watch(UINT64_MAX, 30);
  dmi_pool_release(30);
  assert_int_equal(woken, 1);
  dmi_pool_release(1);
  assert_int_equal(woken, 2);
  dmi_pool_release(9);
  assert_int_equal(woken, 2);
  dmi_pool_watch(20, 20);
  dmi_pool_release(1); /* 19 */
  assert_int_equal(woken, 3);
  assert_true(dmi_pool_reserve(2, true));
  assert_int_equal(woken, 4);
}

static void test_closed(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_close(true);
  assert_false(dmi_pool_reserve(1, false));
  assert_true(dmi_pool_reserve_first(60));
  assert_false(dmi_pool_reserve_first(41));
  assert_true(dmi_pool_reserve(41, true));
  dmi_pool_release(41);
  dmi_pool_close(false);
  assert_true(dmi_pool_reserve(40, false));
}

static void test_copies(void **state) {
  (void)state;
  open_pool(100);
  dmi_pool_copies(30);
  assert_int_equal(dmi_pool_copy_bytes(), 30);
  dmi_pool_copies(-40);
  assert_int_equal(dmi_pool_copy_bytes(), 0);
  dmi_pool_copies(10);
  assert_int_equal(dmi_pool_copy_bytes(), 0);
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
    while (!dmi_pool_reserve(PAGE, false))
      continue;
    frame = dmi_frame_new(PAGE);
    dmi_pool_attach(frame, true);
    now = dmi_pool_used();
    if (now > atomic_load(&worst)) atomic_store(&worst, now);
    dmi_frame_unref(frame);
    if (dmi_pool_reserve(2 * PAGE, false)) dmi_pool_release(2 * PAGE);
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
  assert_int_equal(dmi_pool_used(), 0);
  assert_true(atomic_load(&worst) > 0 && atomic_load(&worst) <= LIMIT);
  assert_true(dmi_pool_peak() <= LIMIT && dmi_pool_peak() >= PAGE);
}

/* What is in use only in passing: reservations, and bytes that are no page's any more. */
static void test_passing(void **state) {
  struct dmi_frame *a, *b;
  uint64_t turned;
  (void)state;
  open_pool(1 << 20);
  turned = dmi_pool_turned();
  a = dmi_frame_new(4096);
  b = dmi_frame_new(4096);
  assert_true(dmi_pool_reserve(4096, false));
  assert_int_equal(dmi_pool_passing(), 4096);
  assert_int_equal(woken, 0);
  dmi_pool_attach(a, true);
  assert_int_equal(woken, 1); /* it has ended, though nothing is free */
  assert_int_equal(dmi_pool_turned(), turned + 4096);
  assert_int_equal(dmi_pool_passing(), 0);
  dmi_pool_attach(b, false);
  assert_int_equal(dmi_pool_passing(), 0);
  dmi_frame_ref(a); /* a message has it */
  dmi_pool_detach(a);
  dmi_frame_unref(a);
  woken = 0;
  assert_int_equal(dmi_pool_passing(), 4096);
  assert_int_equal(woken, 0);
  dmi_frame_unref(a);
  assert_int_equal(woken, 1);
  dmi_frame_ref(b); /* the page's bytes go on in another page */
  dmi_pool_detach(b);
  dmi_pool_attach(b, false);
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_passing(), 0);
  assert_true(dmi_pool_reserve(4096, false));
  dmi_pool_detach(b);
  dmi_pool_attach(b, true); /* ... with a reservation that was not needed */
  assert_int_equal(dmi_pool_passing(), 0);
  dmi_pool_detach(b);
  dmi_frame_unref(b);
  assert_int_equal(dmi_pool_used(), 0);
  assert_int_equal(dmi_pool_passing(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limit),  cmocka_unit_test(test_no_limit),
      cmocka_unit_test(test_frames), cmocka_unit_test(test_passing),
      cmocka_unit_test(test_marks),  cmocka_unit_test(test_closed),
      cmocka_unit_test(test_copies), cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
