/*
 * lease_test.c - the pages of a process that has no lease are paused, also while one of them is
 * locked for long; and are not any more when it has its lease back (lib/node/lease.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/epoch.h"
#include "node/lease.h"
#include "node/process.h"

#define LIMIT 300 /* seconds: a page that is never paused must not be waited for for ever */
#define BASE (UINT64_C(1) << 32)
#define MAPS 3
#define PAGES 600u
#define BUSY 5u /* the page that is locked */

static struct dmi_process *process;
static struct dmi_mapping *mapping[MAPS];
static struct dmi_page *page[MAPS][PAGES];
static struct dmi_lease *lease;

static bool is_member(void *arg, dmi_uid_t uid) {
  (void)arg;
  return uid == 1;
}

static int begin(void **state) {
  int32_t error;
  (void)state;
  dmi_epoch_begin();
  process = calloc(1, sizeof(*process));
  dmi_access_init(&process->access, NULL, NULL);
  process->access.core.self = 1;
  process->access.core.is_member = process->access.core.is_there = is_member;
  for (uint32_t i = 0; i < MAPS; i++) {
    mapping[i] = dmi_mapping_new(BASE * (i + 1), 4096, PAGES, 1);
    dmi_space_add(&process->access.space, &process->access.core, mapping[i]);
    for (uint32_t j = 0; j < PAGES; j++)
      page[i][j] = dmi_mapping_get(&process->access.core, mapping[i], j, &error);
  }
  lease = dmi_lease_new(process);
  return lease ? 0 : -1;
}

static int finish(void **state) {
  (void)state;
  dmi_lease_free(lease);
  dmi_access_end(&process->access);
  dmi_access_fini(&process->access);
  dmi_epoch_end();
  free(process);
  return 0;
}

static bool is_paused(struct dmi_page *one) {
  bool is;
  dmi_lock(&one->lock, DMI_RANK_PAGE);
  is = (one->flags & DMI_PAGE_PAUSED) != 0;
  dmi_unlock(&one->lock, DMI_RANK_PAGE);
  return is;
}

static void wait_for(struct dmi_page *one, bool paused) {
  while (is_paused(one) != paused)
    sched_yield();
}

static void wait_all(bool paused) {
  for (uint32_t i = 0; i < MAPS; i++) {
    for (uint32_t j = 0; j < PAGES; j++)
      wait_for(page[i][j], paused);
  }
}

static void test_all(void **state) {
  (void)state;
  dmi_lease_set(lease, true);
  wait_all(true);
  dmi_lease_set(lease, false);
  wait_all(false);
}

/* Looked at only when the lease's thread waits for the locked page, which it does last: a page that
 * is locked for a look when that thread comes to it is left for later, too. */
static void *look_at_last(void *arg) {
  struct dmi_page *busy = arg;
  while (atomic_load(&busy->lock) != DMI_LOCK_CONTENDED)
    sched_yield();
  assert_true(is_paused(page[MAPS - 1][PAGES - 1]));
  return NULL;
}

static void test_locked(void **state) {
  struct dmi_page *busy = page[0][BUSY];
  pthread_t other; /* a thread of a debug build locks one page at a time */
  (void)state;
  dmi_lock(&busy->lock, DMI_RANK_PAGE);
  dmi_lease_set(lease, true);
  assert_int_equal(pthread_create(&other, NULL, look_at_last, busy), 0);
  assert_int_equal(pthread_join(other, NULL), 0);
  assert_false(busy->flags & DMI_PAGE_PAUSED);
  dmi_unlock(&busy->lock, DMI_RANK_PAGE);
  wait_all(true);
  dmi_lease_set(lease, false);
  wait_all(false);
}

/* It ends although it is paused. */
static void test_end(void **state) {
  (void)state;
  dmi_lease_set(lease, true);
  wait_for(page[0][0], true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_all, begin, finish),
                                     cmocka_unit_test_setup_teardown(test_locked, begin, finish),
                                     cmocka_unit_test_setup_teardown(test_end, begin, finish)};
  alarm(LIMIT);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
