/*
 * ring_test.c - a ring of bytes between two threads: order, wrapping around, waiting at both ends;
 * and an end that writes anything into what both share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "net/ring.h"

#define SIZE 64

static struct dmi_ring ring;
static unsigned char bytes[SIZE + 1]; /* the last one must not change */
static struct dmi_ring_out out;
static struct dmi_ring_in in;

static void begin(void) {
  memset(&ring, 0, sizeof ring);
  memset(bytes, 0xee, sizeof bytes);
  out = (struct dmi_ring_out){&ring, bytes, SIZE, 0, 0};
  in = (struct dmi_ring_in){&ring, bytes, SIZE, 0};
}

static ssize_t put(const void *from, size_t size) {
  struct iovec iov = {(void *)(uintptr_t)from, size};
  struct dmi_ring_parts parts = {.iov = &iov, .num = 1};
  return dmi_ring_put(&out, &parts, SIZE_MAX);
}

static ssize_t get(void *to, size_t size) {
  struct iovec iov = {to, size};
  struct dmi_ring_parts parts = {.iov = &iov, .num = 1};
  return dmi_ring_get(&in, &parts, SIZE_MAX);
}

static void test_full_and_empty(void **state) {
  (void)state;
  unsigned char some[2 * SIZE] = {1, 2, 3}, back[2 * SIZE];
  begin();
  assert_int_equal(get(back, sizeof back), 0);
  assert_int_equal(put(some, sizeof some), SIZE);
  assert_int_equal(put(some, 1), 0);
  assert_int_equal(get(back, 3), 3);
  assert_memory_equal(back, some, 3);
  assert_int_equal(put("abcdef", 6), 3); /* around the end */
  assert_int_equal(get(back, sizeof back), SIZE);
  assert_memory_equal(back + SIZE - 3, "abc", 3);
  assert_int_equal(get(back, sizeof back), 0);
  assert_int_equal(bytes[SIZE], 0xee);
}

/* What is put while nothing is there begins at the beginning of the memory. */
static void test_begins_again(void **state) {
  (void)state;
  char back[SIZE];
  begin();
  for (int i = 0; i < 100; i++) {
    assert_int_equal(put("hello", 5), 5);
    assert_int_equal(get(back, sizeof back), 5);
    assert_memory_equal(back, "hello", 5);
  }
  assert_int_equal(bytes[5], 0xee);
}

static void test_parts(void **state) {
  (void)state;
  char a[4], b[9], c[4];
  struct iovec from[] = {{"abc", 3}, {"", 0}, {"defgh", 5}, {"ij", 2}};
  struct iovec to[] = {{a, 4}, {b, 0}, {b, 5}, {c, 4}};
  struct dmi_ring_parts source = {.iov = from, .num = 4}, target = {.iov = to, .num = 4};
  begin();
  assert_int_equal(dmi_ring_put(&out, &source, 7), 7);
  assert_int_equal(dmi_ring_put(&out, &source, 7), 3);
  assert_int_equal(dmi_ring_put(&out, &source, 7), 0);
  assert_int_equal(dmi_ring_get(&in, &target, 6), 6);
  assert_int_equal(dmi_ring_get(&in, &target, 6), 4);
  assert_memory_equal(a, "abcd", 4);
  assert_memory_equal(b, "efghi", 5);
  assert_memory_equal(c, "j", 1);
}

#define LARGE 20000
#define GOT 4096

/* The getting end writes into what it has got, to take over the cache lines: into each, and not
 * into what it has not got, nor behind the ring. */
static void test_lines_are_taken_over(void **state) {
  (void)state;
  static unsigned char large[LARGE + 1], some[LARGE], back[LARGE];
  begin();
  out.bytes = in.bytes = large;
  out.size = in.size = LARGE;
  large[LARGE] = 0xee;
  for (size_t i = 0; i < LARGE; i++)
    some[i] = (unsigned char)(i % 251 + 1);
  assert_int_equal(put(some, LARGE), LARGE);
  assert_int_equal(get(back, GOT), GOT);
  for (size_t i = 0; i < GOT; i += 64)
    assert_non_null(memchr(large + i, 0, 64));
  assert_memory_equal(large + GOT, some + GOT, LARGE - GOT);
  assert_int_equal(put(some, GOT), GOT); /* around the end */
  assert_int_equal(get(back + GOT, LARGE - GOT), LARGE - GOT);
  assert_memory_equal(back, some, LARGE);
  assert_memory_equal(large, some, GOT);
  assert_int_equal(get(back, LARGE), GOT);
  assert_memory_equal(back, some, GOT);
  assert_int_equal(large[LARGE], 0xee);
}

/* Who says that it will sleep is woken once, or told that it need not. */
static void test_waits(void **state) {
  (void)state;
  char some[SIZE] = {0};
  bool woken;
  begin();
  assert_false(dmi_ring_wakes_getter(&out));
  assert_true(dmi_ring_wait_bytes(&in, &woken));
  put(some, 1);
  assert_true(dmi_ring_wakes_getter(&out));
  assert_false(dmi_ring_wakes_getter(&out));
  assert_true(dmi_ring_end_wait(&in));
  assert_false(dmi_ring_wait_bytes(&in, &woken));
  assert_false(woken);
  assert_false(dmi_ring_wakes_getter(&out));

  assert_false(dmi_ring_wait_space(&out));
  put(some, SIZE);
  assert_true(dmi_ring_wait_space(&out));
  get(some, SIZE / 2 - 1);
  assert_false(dmi_ring_wakes_putter(&in));
  get(some, 1);
  assert_true(dmi_ring_wakes_putter(&in));
  assert_false(dmi_ring_wakes_putter(&in));
}

/* ---- Two threads ----------------------------------------------------------------------------- */

#define TOTAL 300000

static sem_t getter_wakes, putter_wakes;

static void *puts_all(void *arg) {
  unsigned char next[96];
  unsigned char value = 0;
  (void)arg;
  for (size_t done = 0; done < TOTAL;) {
    size_t want = 1 + (done * 7 + value) % sizeof next, had = 0;
    if (want > TOTAL - done) want = TOTAL - done;
    for (size_t i = 0; i < want; i++)
      next[i] = (unsigned char)(value + i);
    while (had < want) {
      ssize_t size = put(next + had, want - had);
      if (size < 0) abort();
      had += (size_t)size;
      if (size > 0 && dmi_ring_wakes_getter(&out)) sem_post(&getter_wakes);
      if (size == 0 && dmi_ring_wait_space(&out)) sem_wait(&putter_wakes);
    }
    value = (unsigned char)(value + want);
    done += want;
  }
  return NULL;
}

static void test_two_threads(void **state) {
  (void)state;
  pthread_t thread;
  unsigned char some[50], value = 0;
  bool woken;
  begin();
  sem_init(&getter_wakes, 0, 0);
  sem_init(&putter_wakes, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, puts_all, NULL), 0);
  for (size_t done = 0; done < TOTAL;) {
    ssize_t size = get(some, 1 + done % sizeof some);
    assert_true(size >= 0);
    for (ssize_t i = 0; i < size; i++)
      assert_int_equal(some[i], value++);
    done += (size_t)size;
    if (size > 0 && dmi_ring_wakes_putter(&in)) sem_post(&putter_wakes);
    if (size == 0 && dmi_ring_wait_bytes(&in, &woken)) sem_wait(&getter_wakes);
    if (size == 0 && woken) sem_wait(&getter_wakes);
  }
  pthread_join(thread, NULL);
}

/* ---- An end that writes anything ------------------------------------------------------------- */

static const uint64_t values[] = {
    0,          1,         SIZE - 1,          SIZE,           SIZE + 1,  1000,
    UINT32_MAX, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 1, UINT64_MAX};
#define VALUES (sizeof values / sizeof *values)

/* Whatever the putting end writes, what is got lies in the ring, or nothing is got. */
static void test_wrong_head(void **state) {
  (void)state;
  unsigned char back[2 * SIZE + 1];
  bool woken;
  for (size_t i = 0; i < VALUES * VALUES; i++) {
    begin();
    in.tail = i % 3 * 1000;
    ring.head = values[i / VALUES];
    ring.shift = values[i % VALUES];
    uint64_t have = ring.head - in.tail;
    memset(back, 0x11, sizeof back);
    ssize_t got = get(back, 2 * SIZE);
    assert_int_equal(got, have > SIZE ? -EPROTO : (ssize_t)have);
    for (ssize_t j = 0; j < got; j++)
      assert_int_equal(back[j], 0xee);
    assert_int_equal(back[got < 0 ? 0 : got], 0x11);
    ring.full_wait = 1;
    (void)dmi_ring_wakes_putter(&in);
    (void)dmi_ring_wait_bytes(&in, &woken);
  }
}

/* Whatever the getting end writes, nothing is put outside of the ring. */
static void test_wrong_tail(void **state) {
  (void)state;
  unsigned char some[2 * SIZE] = {0};
  for (size_t i = 0; i < VALUES * 3; i++) {
    begin();
    out.head = i % 3 * 1000;
    ring.tail = values[i / 3];
    uint64_t full = out.head - ring.tail;
    ssize_t done = put(some, sizeof some);
    assert_int_equal(done, full > SIZE ? -EPROTO : (ssize_t)(SIZE - full));
    assert_int_equal(bytes[SIZE], 0xee);
    ring.empty_wait = 77;
    assert_true(dmi_ring_wakes_getter(&out));
    ring.tail = 5000;
    assert_false(dmi_ring_wait_space(&out));
  }
}

static _Atomic bool over;

static void *writes_anything(void *arg) {
  uint64_t number = 88172645463325252u;
  (void)arg;
  while (!over) {
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    atomic_store(&ring.head, number % 5 == 0 ? number : number % 4096);
    atomic_store(&ring.tail, number % 7 == 0 ? number : number % 4096);
    atomic_store(&ring.shift, number);
    atomic_store(&ring.empty_wait, (uint32_t)number);
    atomic_store(&ring.full_wait, (uint32_t)number);
  }
  return NULL;
}

/* The same while this end puts and gets. */
static void test_changes_meanwhile(void **state) {
  (void)state;
  pthread_t thread;
  unsigned char some[SIZE + 1];
  bool woken;
  begin();
  over = false;
  some[SIZE] = 0x11;
  assert_int_equal(pthread_create(&thread, NULL, writes_anything, NULL), 0);
  for (int i = 0; i < 100000; i++) {
    assert_in_range(put(some, SIZE) + EPROTO, 0, EPROTO + SIZE);
    assert_in_range(get(some, SIZE) + EPROTO, 0, EPROTO + SIZE);
    (void)dmi_ring_wait_bytes(&in, &woken);
    (void)dmi_ring_wait_space(&out);
    (void)dmi_ring_wakes_getter(&out);
    (void)dmi_ring_wakes_putter(&in);
  }
  over = true;
  pthread_join(thread, NULL);
  assert_int_equal(some[SIZE], 0x11);
  assert_int_equal(bytes[SIZE], 0xee);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_and_empty),
                                     cmocka_unit_test(test_begins_again),
                                     cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_lines_are_taken_over),
                                     cmocka_unit_test(test_waits),
                                     cmocka_unit_test(test_two_threads),
                                     cmocka_unit_test(test_wrong_head),
                                     cmocka_unit_test(test_wrong_tail),
                                     cmocka_unit_test(test_changes_meanwhile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
