/*
 * lock_test.c - locks exclude each other; builds with --enable-debug abort when the order of
 * docs/locking.md is violated.
 */
#include "base/lock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS 50000

static _Atomic uint32_t small;
static struct dmi_mutex big;
static uint64_t counts[2];

static void *body(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    dmi_lock(&small, DMI_RANK_PAGE);
    counts[0]++;
    dmi_unlock(&small, DMI_RANK_PAGE);
    dmi_mutex_lock(&big);
    counts[1]++;
    dmi_mutex_unlock(&big);
  }
  return NULL;
}

static void test_exclusion(void **state) {
  pthread_t thread[THREADS];
  (void)state;
  dmi_mutex_init(&big, DMI_RANK_MAPPING);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, body, NULL), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(thread[i], NULL);
  dmi_mutex_destroy(&big);
  assert_int_equal(counts[0], THREADS * ROUNDS);
  assert_int_equal(counts[1], THREADS * ROUNDS);
}

/* True if a process that takes these two, in this order, aborts. */
static bool aborts(enum dmi_rank first, enum dmi_rank second) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    struct dmi_mutex a, b;
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL); /* cmocka has a handler of its own */
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    dmi_mutex_init(&a, first);
    dmi_mutex_init(&b, second);
    dmi_mutex_lock(&a);
    dmi_mutex_lock(&b);
    dmi_mutex_unlock(&b);
    dmi_mutex_lock(&b); /* a rank that was given back may be taken again */
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_order(void **state) {
  (void)state;
#ifndef DMI_DEBUG
  skip();
#endif
  assert_false(aborts(DMI_RANK_MAPPING, DMI_RANK_PAGE));
  assert_false(aborts(DMI_RANK_PAGE, DMI_RANK_PEER));
  assert_true(aborts(DMI_RANK_PAGE, DMI_RANK_MAPPING));
  assert_true(aborts(DMI_RANK_PAGE, DMI_RANK_PAGE));
  assert_true(aborts(DMI_RANK_LEAF, DMI_RANK_LEAF));
  assert_true(aborts(DMI_RANK_PAGE, DMI_RANK_TURN));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exclusion),
                                     cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
