/*
 * farm_job_test.c - the directory of a job when something ends dmifarm at a bad moment: nothing of
 * the user's is taken for a version, and lists that were cut off are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../farm/alloc.h"
#include "../../farm/job_int.h"

static char *dir;

static char *path_of(const char *name) {
  return farm_format("%s/%s", dir, name);
}

static void write_file(const char *name, const char *text) {
  char *path = path_of(name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  free(path);
}

static void make_dir(const char *name) {
  char *path = path_of(name);
  assert_int_equal(mkdir(path, 0700), 0);
  free(path);
}

static bool is_there(const char *name) {
  char *path = path_of(name);
  const bool there = access(path, F_OK) == 0;
  free(path);
  return there;
}

static void holds(const char *name, const char *text) {
  char *path = path_of(name), found[1000] = "";
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  (void)fread(found, 1, sizeof(found) - 1, file);
  fclose(file);
  assert_string_equal(found, text);
  free(path);
}

/* A job with the tasks `one` and `two`. */
static int make_job(void **state) {
  char *path = farm_strdup("/tmp/farm_job_test-XXXXXX");
  (void)state;
  assert_non_null(dir = mkdtemp(path));
  make_dir("tasks");
  make_dir(FARM_STATE);
  write_file("tasks/one", "echo 1\n");
  write_file("tasks/two", "echo 2\n");
  return 0;
}

static int remove_job(void **state) {
  (void)state;
  farm_remove(dir);
  free(dir);
  return 0;
}

static void open_job(struct farm_job *job) {
  char *why = farm_job_open(job, dir);
  if (why) fail_msg("%s", why);
}

/* ---- Names that are taken -------------------------------------------------------------------- */

/* Whenever dmifarm ends from here on, nothing says that this directory is one of its own. */
static void test_taken(void **state) {
  struct farm_job job;
  bool taken;
  (void)state;
  make_dir("one.a");
  open_job(&job);
  assert_null(farm_job_begin(&job, 0, 0, "host", &taken));
  assert_true(taken);
  assert_false(farm_job_has_begun(&job, 0, 0));
  holds(FARM_BEGUN, "");
  assert_null(farm_job_begin(&job, 0, 1, "host", &taken));
  assert_false(taken);
  holds(FARM_BEGUN, "one.b\n");
  farm_job_close(&job);
  open_job(&job); /* as after a kill: the version goes */
  assert_true(is_there("one.a"));
  assert_false(is_there("one.b"));
  farm_job_close(&job);
}

/* A list that cannot be written. */
static void test_full(void **state) {
  struct farm_job job;
  bool taken;
  char *why;
  (void)state;
  make_dir("one.a");
  open_job(&job);
  close(job.begun);
  job.begun = open("/dev/full", O_WRONLY);
  assert_null(farm_job_begin(&job, 0, 0, "host", &taken));
  assert_true(taken);
  why = farm_job_begin(&job, 1, 0, "host", &taken);
  assert_non_null(why);
  free(why);
  assert_false(taken);
  assert_false(farm_job_has_begun(&job, 1, 0));
  assert_false(is_there("two.a"));
  farm_job_close(&job);
}

/* ---- Lists that were cut off ----------------------------------------------------------------- */

static void count_line(struct farm_job_line *line, void *arg) {
  assert_string_equal(line->status, "done");
  ++*(int *)arg;
}

/* "one.bc" was on its way to the disk: "one.b" is not one that has begun. */
static void test_cut_off(void **state) {
  struct farm_job job;
  int lines = 0;
  (void)state;
  write_file(FARM_BEGUN, "two.a\none.b");
  write_file(FARM_LOG, "two.a\thost\t1\t2\tdone\none.a\thost\t1\t2\tsig");
  open_job(&job);
  holds(FARM_BEGUN, "two.a\n");
  assert_true(farm_job_has_begun(&job, 1, 0));
  assert_false(farm_job_has_begun(&job, 0, 1));
  assert_null(farm_job_log(&job, count_line, &lines));
  assert_int_equal(lines, 1);
  assert_null(farm_job_add_begun(&job, 1, 1));
  holds(FARM_BEGUN, "two.a\ntwo.b\n");
  farm_job_close(&job);
  write_file(FARM_BEGUN, "one.b");
  open_job(&job);
  holds(FARM_BEGUN, "");
  farm_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_taken, make_job, remove_job),
      cmocka_unit_test_setup_teardown(test_full, make_job, remove_job),
      cmocka_unit_test_setup_teardown(test_cut_off, make_job, remove_job),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
