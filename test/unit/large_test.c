/* large_test.c - memory for large frames: frames do not overlap, are zero if requested, and their
 * memory is used again and given back. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/large.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define MIB ((size_t)1 << 20)
#define SYSTEM_PAGE ((size_t)4096)
#define PIECE (MIB / 4) /* what is touched at a time */
#define HELD 48
#define SPARE (64 * MIB) /* bytes that may stay mapped when nothing is in use */
#define KEPT (144 * MIB) /* the same, of large ones */

/* The first and last bytes say whose block it is. */
struct block {
  unsigned char *ptr;
  size_t size;
  uint64_t mark;
};

static uint64_t next_random(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

static void put_marks(const struct block *block) {
  memcpy(block->ptr - DMI_LARGE_OWN, &block->mark, 8);
  memcpy(block->ptr, &block->mark, 8);
  memcpy(block->ptr + block->size - 8, &block->mark, 8);
}

static void check_marks(const struct block *block) {
  assert_memory_equal(block->ptr - DMI_LARGE_OWN, &block->mark, 8);
  assert_memory_equal(block->ptr, &block->mark, 8);
  assert_memory_equal(block->ptr + block->size - 8, &block->mark, 8);
}

static int is_zero(const unsigned char *ptr, size_t size) {
  return ptr[0] == 0 && memcmp(ptr, ptr + 1, size - 1) == 0;
}

/* Random sizes, most of them powers of two as pages are, held and given back in random order. */
static void *wander(void *arg) {
  uint64_t seed = (uint64_t)(uintptr_t)arg;
  struct block held[HELD] = {{0}};
  for (uint64_t step = 1; step <= 1500; step++) {
    struct block *block = &held[next_random(&seed) % HELD];
    if (block->ptr) {
      check_marks(block);
      dmi_large_free(block->ptr);
      block->ptr = NULL;
      continue;
    }
    block->size = DMI_LARGE_MIN << next_random(&seed) % 5;
    if (next_random(&seed) % 3 == 0) block->size += next_random(&seed) % block->size;
    if (next_random(&seed) % 200 == 0) block->size = 33 * MIB + next_random(&seed) % MIB;
    block->mark = step << 32 | (uintptr_t)arg;
    bool zero = next_random(&seed) % 4 == 0;
    block->ptr = dmi_large_new(block->size, zero);
    assert_non_null(block->ptr);
    assert_int_equal((uintptr_t)block->ptr % 64, 0);
    if (zero) assert_true(is_zero(block->ptr, block->size));
    put_marks(block);
  }
  for (int i = 0; i < HELD; i++) {
    if (!held[i].ptr) continue;
    check_marks(&held[i]);
    dmi_large_free(held[i].ptr);
  }
  return NULL;
}

/* Touches memory while others get and free it. */
static void *touch(void *arg) {
  const _Atomic bool *stop = arg;
  for (size_t i = 0; !atomic_load(stop); i++)
    (void)dmi_large_ahead(DMI_LARGE_MIN << i % 6, 64 * MIB);
  return NULL;
}

static void test_threads(void **state) {
  pthread_t threads[3], toucher;
  _Atomic bool stop = false;
  (void)state;
  assert_int_equal(pthread_create(&toucher, NULL, touch, &stop), 0);
  for (uintptr_t i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, wander, (void *)(i + 1)), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(toucher, NULL);
  assert_true(dmi_large_mapped() <= SPARE + KEPT);
}

/* True if the kernel has provided all of this MiB of memory. */
static bool is_provided(const unsigned char *ptr) {
  const uintptr_t from = ((uintptr_t)ptr + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
  const size_t all = ((uintptr_t)ptr + MIB - from) / SYSTEM_PAGE;
  unsigned char is[MIB / SYSTEM_PAGE];
  size_t num = 0;
  assert_int_equal(mincore((void *)from, all * SYSTEM_PAGE, is), 0);
  for (size_t i = 0; i < all; i++)
    num += is[i] & 1;
  return num == all;
}

static bool kernel_can_touch(void) {
  void *page = mmap(NULL, SYSTEM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool can = madvise(page, SYSTEM_PAGE, MADV_POPULATE_WRITE) == 0;
  munmap(page, SYSTEM_PAGE);
  return can;
}

/* The first test, as it counts on having no memory of this size yet. */
static void test_ahead(void **state) {
  unsigned char *held[20];
  size_t before, pieces = 0;
  (void)state;
  if (sysconf(_SC_PAGESIZE) != SYSTEM_PAGE || !kernel_can_touch()) skip();
  assert_false(dmi_large_ahead(MIB, 0));
  while (dmi_large_ahead(MIB, 18 * MIB)) /* of which a span has 15 */
    pieces++;
  assert_in_range(pieces, 18 * MIB / PIECE, 18 * MIB / PIECE + 1);
  for (int i = 0; i < 20; i++) {
    held[i] = dmi_large_new(MIB, i % 2);
    if (i < 17) assert_true(is_provided(held[i])); /* with their heads they are a little longer */
    if (i % 2) assert_true(is_zero(held[i], MIB));
    memset(held[i], i + 1, MIB);
  }
  while (dmi_large_ahead(MIB, 8 * MIB)) /* what is in use stays as it is */
    continue;
  for (int i = 0; i < 20; i++)
    assert_true(held[i][0] == i + 1 && memcmp(held[i], held[i] + 1, MIB - 1) == 0);
  for (int i = 0; i < 20; i++)
    dmi_large_free(held[i]);
  assert_false(dmi_large_ahead(MIB, 20 * MIB)); /* it was used before */
  before = dmi_large_mapped();
  assert_false(dmi_large_ahead(32 * MIB, 16 * MIB)); /* four of them would be too much */
  assert_false(dmi_large_ahead(64 * MIB, 16 * MIB));
  while (dmi_large_ahead(2 * MIB, 1024 * MIB)) /* not more than may be empty */
    continue;
  assert_true(dmi_large_mapped() > before);
  assert_true(dmi_large_mapped() <= SPARE);
}

static void test_used_again(void **state) {
  unsigned char *beside = dmi_large_new(MIB, false); /* so that their span is never empty */
  unsigned char *first = dmi_large_new(MIB, false);
  unsigned char *other;
  (void)state;
  memset(first, 7, MIB);
  dmi_large_free(first);
  other = dmi_large_new(MIB, false);
  assert_ptr_equal(other, first);
  dmi_large_free(other);
  other = dmi_large_new(MIB, true);
  assert_ptr_equal(other, first);
  assert_true(is_zero(other, MIB));
  dmi_large_free(other);
  dmi_large_free(beside);
}

/* Those above the largest class, which have spans of their own. */
static void test_large_used_again(void **state) {
  unsigned char *first = dmi_large_new(64 * MIB, false), *other, *third;
  (void)state;
  memset(first, 7, 64 * MIB);
  dmi_large_free(first);
  other = dmi_large_new(64 * MIB, false);
  assert_ptr_equal(other, first);
  dmi_large_free(other);
  other = dmi_large_new(64 * MIB, true); /* what may be touched in part only gets fresh memory */
  assert_ptr_not_equal(other, first);
  assert_true(is_zero(other, 64 * MIB));
  third = dmi_large_new(40 * MIB, false); /* nor is so much more than is asked for used */
  assert_ptr_not_equal(third, first);
  dmi_large_free(third);
  dmi_large_free(other);
  other = dmi_large_new(64 * MIB, false); /* first or other */
  third = dmi_large_new(62 * MIB, false);
  memset(other, 1, 64 * MIB);
  memset(third, 2, 62 * MIB);
  assert_int_equal(other[64 * MIB - 1], 1);
  dmi_large_free(other);
  dmi_large_free(third);
}

/* More than is kept of those is given back. */
static void test_large_given_back(void **state) {
  unsigned char *held[6];
  (void)state;
  for (int i = 0; i < 6; i++) {
    held[i] = dmi_large_new((64 + (size_t)i) * MIB, false);
    held[i][0] = 1;
  }
  for (int i = 0; i < 6; i++)
    dmi_large_free(held[i]);
  assert_true(dmi_large_mapped() <= SPARE + KEPT);
}

/* Uses twice as much as is kept: the rest is given back. */
static void test_given_back(void **state) {
  unsigned char *held[128];
  size_t before = dmi_large_mapped();
  (void)state;
  for (int i = 0; i < 128; i++) {
    held[i] = dmi_large_new(MIB, false);
    held[i][0] = 1;
  }
  assert_true(dmi_large_mapped() >= 128 * MIB);
  assert_true(dmi_large_mapped() <= before + 128 * MIB * 9 / 8 + SPARE);
  for (int i = 0; i < 128; i++)
    dmi_large_free(held[i]);
  assert_true(dmi_large_mapped() <= before + SPARE);
}

static void test_sizes(void **state) {
  size_t before = dmi_large_mapped();
  unsigned char *ptr = dmi_large_new((size_t)4 << 30, true); /* costs nothing until touched */
  (void)state;
  assert_non_null(ptr);
  ptr[((size_t)4 << 30) - 1] = 1;
  dmi_large_free(ptr);
  assert_int_equal(dmi_large_mapped(), before);
  assert_null(dmi_large_new(PTRDIFF_MAX, false));
  assert_null(dmi_large_new((size_t)1 << 60, false));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ahead),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_used_again),
      cmocka_unit_test(test_large_used_again),
      cmocka_unit_test(test_large_given_back),
      cmocka_unit_test(test_given_back),
      cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
