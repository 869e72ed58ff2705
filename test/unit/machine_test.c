/*
 * machine_test.c - the limits of control groups, of both versions, read from an invented system;
 * and the cores of this machine, with an affinity.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/machine.h"

static char root[] = "/tmp/dmi-machine-XXXXXX";

/* Writes a file below root, and makes the directories on its way. */
static void put(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", root, name);
  for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    mkdir(path, 0755);
    *at = '/';
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static int setup(void **state) {
  (void)state;
  strcpy(root + strlen(root) - 6, "XXXXXX");
  return mkdtemp(root) == NULL;
}

static int teardown(void **state) {
  char command[64];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command) != 0;
}

/* Version 2: the quota of a group above counts when it is less; "max" is none. */
static void test_unified(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/user.slice/job\n");
  put("/proc/self/mountinfo",
      "22 1 0:5 / /proc rw - proc proc rw\n"
      "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  put("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  assert_true(dmi_machine_quota(root) == 0);
  assert_int_equal(dmi_machine_memory_limit(root), 0);
  put("/sys/fs/cgroup/user.slice/job/cpu.max", "350000 100000\n");
  put("/sys/fs/cgroup/user.slice/job/memory.max", "3221225472\n");
  assert_true(dmi_machine_quota(root) == 3.5);
  assert_int_equal(dmi_machine_memory_limit(root), 3221225472u);
  put("/sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n");
  put("/sys/fs/cgroup/user.slice/memory.max", "1048576\n");
  assert_true(dmi_machine_quota(root) == 0.5);
  assert_int_equal(dmi_machine_memory_limit(root), 1048576);
}

/* Version 1, beside an empty version 2; in a container, where only a part is mounted. */
static void test_version1(void **state) {
  (void)state;
  put("/proc/self/cgroup", "5:cpu,cpuacct:/docker/abc/job\n4:memory:/docker/abc\n0::/\n");
  put("/proc/self/mountinfo",
      "40 22 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpuacct,cpu\n"
      "41 22 0:31 /docker/abc /sys/fs/cgroup/memory ro master:1 - cgroup cgroup rw,memory\n"
      "42 22 0:32 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  assert_true(dmi_machine_quota(root) == 0);
  assert_int_equal(dmi_machine_memory_limit(root), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  assert_true(dmi_machine_quota(root) == 2);
  assert_int_equal(dmi_machine_memory_limit(root), 536870912);
}

/* No files, or nonsense in them: no limit. */
static void test_nonsense(void **state) {
  (void)state;
  assert_true(dmi_machine_quota(root) == 0);
  put("/proc/self/cgroup", "0::/\nnonsense\n::\n\n");
  put("/proc/self/mountinfo",
      "x\n1 2 3 - \n30 22 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n - - -\n");
  put("/sys/fs/cgroup/cpu.max", "0 0\n");
  put("/sys/fs/cgroup/memory.max", "many\n");
  assert_true(dmi_machine_quota(root) == 0);
  assert_int_equal(dmi_machine_memory_limit(root), 0);
}

/* With an affinity of one processor there is one core, and that processor is the order. */
static void test_affinity(void **state) {
  struct dmi_machine machine;
  cpu_set_t all, one;
  size_t last = 0;
  (void)state;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  dmi_machine_look(&machine, 1, 1);
  assert_in_range(machine.cores, 1, (uintmax_t)CPU_COUNT(&all));
  assert_int_equal(machine.order_num, CPU_COUNT(&all));
  assert_in_range(machine.usable, machine.cores, machine.present);
  assert_true(machine.memory > 0);
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (uint32_t i = 0; i < machine.order_num; i++)
    CPU_SET(machine.order[i], &seen);
  assert_true(CPU_EQUAL(&seen, &all));
  dmi_machine_free(&machine);
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (CPU_ISSET(i, &all)) last = i;
  }
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  dmi_machine_look(&machine, 1, 1);
  assert_int_equal(machine.cores, 1);
  assert_int_equal(machine.order_num, 1);
  assert_int_equal(machine.order[0], last);
  dmi_machine_free(&machine);
  sched_setaffinity(0, sizeof all, &all);
}

/* Two packages of two cores with two processors each: hwloc takes it from HWLOC_SYNTHETIC. */
static void test_order(void **state) {
  static const uint32_t expected[] = {0, 4, 2, 6, 1, 5, 3, 7};
  struct dmi_machine machine;
  (void)state;
  setenv("HWLOC_SYNTHETIC", "pack:2 core:2 pu:2", 1);
  dmi_machine_look(&machine, 1, 1);
  unsetenv("HWLOC_SYNTHETIC");
  assert_int_equal(machine.present, 4);
  assert_int_equal(machine.usable, 4);
  assert_int_equal(machine.order_num, 8);
  assert_memory_equal(machine.order, expected, sizeof expected);
  dmi_machine_free(&machine);
}

/* The processors of one part. */
static void expect_part(uint32_t part, uint32_t parts, uint32_t cores, uint32_t num,
                        const uint32_t *order) {
  struct dmi_machine machine;
  setenv("HWLOC_SYNTHETIC", "pack:2 core:2 pu:2", 1);
  dmi_machine_look(&machine, part, parts);
  unsetenv("HWLOC_SYNTHETIC");
  assert_int_equal(machine.present, 4);
  assert_int_equal(machine.usable, cores);
  assert_int_equal(machine.order_num, num);
  assert_memory_equal(machine.order, order, num * sizeof *order);
  dmi_machine_free(&machine);
}

/* Parts are near to each other, and all of them are all processors; more parts than processors
 * are single processors. */
static void test_parts(void **state) {
  (void)state;
  expect_part(1, 2, 2, 4, (const uint32_t[]){0, 2, 1, 3});
  expect_part(2, 2, 2, 4, (const uint32_t[]){4, 6, 5, 7});
  expect_part(1, 3, 1, 2, (const uint32_t[]){0, 1});
  expect_part(2, 3, 1, 2, (const uint32_t[]){2, 3});
  expect_part(3, 3, 2, 4, (const uint32_t[]){4, 6, 5, 7});
  expect_part(2, 4, 1, 2, (const uint32_t[]){2, 3});
  expect_part(3, 8, 1, 1, (const uint32_t[]){2});
  expect_part(1, 16, 1, 1, (const uint32_t[]){0});
  expect_part(2, 16, 1, 1, (const uint32_t[]){0});
  expect_part(16, 16, 1, 1, (const uint32_t[]){7});
  expect_part(INT32_MAX, INT32_MAX, 1, 1, (const uint32_t[]){7});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_unified, setup, teardown),
      cmocka_unit_test_setup_teardown(test_version1, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
      cmocka_unit_test(test_affinity),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
