/*
 * farm_runner_test.c - the process that runs the tasks of a worker: how tasks end, what they print,
 * what they leave behind, and what happens when the worker ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../farm/alloc.h"
#include "../../farm/runner.h"

#define PLACES 2

static char *base;
static struct farm_runner runners[PLACES];

static char *path_of(uint32_t place, const char *name) {
  return farm_format("%s/%" PRIu32 "/%s", base, place, name);
}

static void write_file(uint32_t place, const char *name, const char *text, mode_t mode) {
  char *path = path_of(place, name);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, strlen(text)), strlen(text));
  assert_int_equal(fchmod(file, mode), 0);
  close(file);
  free(path);
}

/* Also without what tasks before have told of themselves. */
static void make_place(uint32_t place) {
  static const char *const told[] = {"pid", "child", "away"};
  for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
    char *path = path_of(place, told[i]);
    (void)unlink(path);
    free(path);
  }
  char *cwd = path_of(place, "cwd");
  assert_true(rmdir(cwd) == 0 || errno == ENOENT); /* the runner has left it empty */
  assert_int_equal(mkdir(cwd, 0700), 0);
  free(cwd);
}

static void ask(uint32_t place, const struct farm_ask *what) {
  assert_int_equal(send(runners[place].socket, what, sizeof(*what), 0), sizeof(*what));
}

/* Runs lines of sh. */
static void start(uint32_t place, const char *lines, uint64_t timeout_ms) {
  struct farm_ask what = {.type = FARM_ASK_START, .version = 1, .timeout_ms = timeout_ms};
  make_place(place);
  write_file(place, "program", lines, 0600);
  strcpy(what.name, "a task");
  ask(place, &what);
}

static struct farm_told *hear(uint32_t place) {
  static struct farm_told told;
  assert_int_equal(recv(runners[place].socket, &told, sizeof(told), 0), sizeof(told));
  return &told;
}

static void ended(uint32_t place, enum farm_how how, int32_t status, const char *out) {
  struct farm_told *told = hear(place);
  assert_int_equal(told->how, how);
  assert_int_equal(told->status, status);
  assert_int_equal(told->out_size, strlen(out));
  assert_memory_equal(told->out, out, strlen(out));
}

/* A process that a task has started writes its number to this file of its place, which stays. */
static pid_t read_pid(uint32_t place, const char *name) {
  char *path = path_of(place, name);
  long pid = 0;
  while (pid == 0) { /* the task makes it, at once */
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ld", &pid) != 1) pid = 0;
    if (file) fclose(file);
  }
  free(path);
  return (pid_t)pid;
}

static void start_runner(uint32_t place) {
  char *path;
  assert_true(farm_runner_start(&runners[place], "/proc/self/exe", base, (int32_t)place));
  path = farm_runner_ready(&runners[place]);
  assert_non_null(path);
  if (base) {
    assert_string_equal(path, base);
    free(path);
  } else {
    base = path;
  }
}

static int start_runners(void **state) {
  (void)state;
  base = NULL; /* the first one makes it */
  for (uint32_t i = 0; i < PLACES; i++)
    start_runner(i);
  return 0;
}

static int end_runners(void **state) {
  (void)state;
  for (uint32_t i = 0; i < PLACES; i++) {
    assert_int_equal(access(base, F_OK), 0); /* the last one removes it */
    farm_runner_end(&runners[i]);
  }
  assert_int_not_equal(access(base, F_OK), 0); /* nothing is left */
  free(base);
  return 0;
}

/* ---- How tasks end --------------------------------------------------------------------------- */

static void test_ends(void **state) {
  (void)state;
  start(0, "echo hello; echo oops >&2", 0);
  struct farm_told *told = hear(0);
  assert_int_equal(told->how, FARM_EXITED);
  assert_int_equal(told->status, 0);
  assert_int_equal(told->out_size, 6);
  assert_memory_equal(told->out, "hello\n", 6);
  assert_int_equal(told->err_size, 5);
  assert_memory_equal(told->err, "oops\n", 5);
  start(0, "exit 3", 0);
  ended(0, FARM_EXITED, 3, "");
  start(0, "kill -SEGV $$", 0);
  ended(0, FARM_SIGNALLED, SIGSEGV, "");
}

static void test_environment(void **state) {
  (void)state;
  start(0, "echo \"$DMIFARM_TASK|$DMIFARM_VERSION|${PWD##*/}|$0\" | sed 's,/.*/,,'", 0);
  ended(0, FARM_EXITED, 0, "a task|b|cwd|program\n");
  start(0, "cat; kill -TERM $$", 0); /* stdin is empty; signals are as they should be */
  ended(0, FARM_SIGNALLED, SIGTERM, "");
}

/* What a task leaves in its directory, or makes of it, is not the next one's. */
static void test_leaves_files(void **state) {
  (void)state;
  start(0, "mkdir -p deep/deeper; echo x > deep/file; chmod 500 deep .", 0);
  ended(0, FARM_EXITED, 0, "");
  start(0, "ls -A; stat -c %a .", 0);
  ended(0, FARM_EXITED, 0, "700\n");
  start(0, "rmdir ../cwd", 0);
  ended(0, FARM_EXITED, 0, "");
  start(0, "ls -A", 0);
  ended(0, FARM_EXITED, 0, "");
}

static void test_data(void **state) {
  struct farm_ask what = {.type = FARM_ASK_START, .has_data = true, .name = "-n\n x"};
  (void)state;
  make_place(0);
  write_file(0, "program", "#!/bin/sh\ncat\ncat data\necho \"$DMIFARM_TASK\"\n", 0700);
  write_file(0, "cwd/data", "12", 0600);
  ask(0, &what);
  ended(0, FARM_EXITED, 0, "1212-n\n x\n");
  make_place(0); /* executable, but nothing that the system knows: for sh */
  write_file(0, "program", "echo $((6*7))\n", 0700);
  what.has_data = false;
  ask(0, &what);
  ended(0, FARM_EXITED, 0, "42\n");
}

static void test_long_output(void **state) {
  struct farm_told *told;
  struct stat status;
  char *path = path_of(0, "out");
  (void)state;
  start(0, "head -c 3000000 /dev/zero; head -c 4000 /dev/zero >&2", 0);
  told = hear(0);
  assert_int_equal(told->how, FARM_EXITED);
  assert_int_equal(told->out_size, 3000000);
  assert_int_equal(told->err_size, 4000);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, 3000000);
  free(path);
}

/* What it prints cannot be stored: the file's place is taken by a directory. */
static void test_not_stored(void **state) {
  struct farm_ask what = {.type = FARM_ASK_START};
  char *out = path_of(0, "out");
  (void)state;
  make_place(0);
  write_file(0, "program", "while :; do echo 12345678901234567890; done", 0600);
  (void)unlink(out);
  assert_int_equal(mkdir(out, 0700), 0);
  ask(0, &what);
  struct farm_told *told = hear(0);
  assert_int_equal(told->how, FARM_NOT_STORED);
  assert_int_equal(told->status, EEXIST);
  assert_int_equal(rmdir(out), 0);
  free(out);
}

static void test_many(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 40; i++) {
    for (uint32_t place = 0; place < PLACES; place++)
      start(place, "echo $DMIFARM_TASK", 0);
    for (uint32_t place = 0; place < PLACES; place++)
      ended(place, FARM_EXITED, 0, "a task\n");
  }
}

/* ---- How they are ended ---------------------------------------------------------------------- */

/* Long enough for what they print to be there. */
#define LIMIT_MS 2000

static void test_timeout(void **state) {
  (void)state;
  start(0, "echo a; sleep 1000", LIMIT_MS);
  ended(0, FARM_TIMED_OUT, 0, "a\n");
  /* Only SIGKILL helps. */
  start(0, "trap '' TERM; echo b; while :; do sleep 1000; done", LIMIT_MS);
  ended(0, FARM_TIMED_OUT, 0, "b\n");
}

static void test_stop(void **state) {
  struct farm_ask stop = {.type = FARM_ASK_STOP};
  (void)state;
  start(0, "echo $$ > ../pid; kill -STOP $$; echo a; sleep 1000", 0);
  read_pid(0, "pid");
  ask(0, &stop);
  struct farm_told *told = hear(0);
  assert_int_equal(told->how, FARM_STOPPED);
  ask(0, &stop); /* nothing runs there: ignored */
  start(0, "echo c", 0);
  ended(0, FARM_EXITED, 0, "c\n");
}

static void wait_gone(pid_t pid) { /* it was sent SIGKILL */
  while (kill(pid, 0) == 0)
    continue;
}

/* What a task leaves behind ends with it, also what has left its group; what belongs to another
 * task stays. */
static void test_left_behind(void **state) {
  pid_t child, away, other;
  (void)state;
  start(1, "(setsid sh -c 'echo $$ > ../away; exec sleep 1000' &); echo $$ > ../pid; sleep 1000",
        0);
  other = read_pid(1, "away");
  start(0,
        "sleep 1000 & echo $! > ../child; (setsid sh -c 'echo $$ > ../away; exec sleep 1000' &)\n"
        "while [ ! -s ../away ]; do :; done",
        0);
  child = read_pid(0, "child");
  away = read_pid(0, "away");
  ended(0, FARM_EXITED, 0, "");
  assert_int_not_equal(kill(child, 0), 0);
  assert_int_not_equal(kill(away, 0), 0);
  assert_int_equal(kill(other, 0), 0);
  ask(1, &(struct farm_ask){.type = FARM_ASK_STOP});
  hear(1);
  assert_int_not_equal(kill(other, 0), 0);
}

/* A process that has cleared its environment and left the group runs for as long as its task, while
 * other processes come and go; then it ends. */
static void test_cleared_environment(void **state) {
  pid_t away;
  (void)state;
  start(0,
        "(env -i setsid sh -c 'echo $$ > ../away; exec sleep 1000' &)\n"
        "while [ ! -s ../away ]; do :; done\n"
        "for i in 1 2 3; do (true &); sh -c true; done; kill -0 `cat ../away` && echo runs",
        0);
  away = read_pid(0, "away");
  ended(0, FARM_EXITED, 0, "runs\n");
  assert_int_not_equal(kill(away, 0), 0);
}

/* The runner is killed: what its task has started ends, and a new one goes on in the directory. */
static void test_runner_killed(void **state) {
  pid_t pid, away;
  (void)state;
  start(0, "(setsid sh -c 'echo $$ > ../away; exec sleep 1000' &); echo $$ > ../pid; sleep 1000",
        0);
  pid = read_pid(0, "pid");
  away = read_pid(0, "away");
  kill(runners[0].pid, SIGKILL);
  farm_runner_lost(&runners[0]);
  farm_runner_end(&runners[0]);
  wait_gone(pid);  /* it ends with the runner */
  wait_gone(away); /* it has ended, but process 1 may not have waited for it yet */
  start_runner(0);
  char *cwd = path_of(0, "cwd");
  farm_remove(cwd);
  free(cwd);
  start(0, "echo again", 0);
  ended(0, FARM_EXITED, 0, "again\n");
}

/* The worker is gone: nothing is left (end_runners looks at the directory). */
static void test_worker_gone(void **state) {
  pid_t pid, away;
  (void)state;
  start(0,
        "trap '' TERM; (setsid sh -c 'echo $$ > ../away; exec sleep 1000' &); echo $$ > ../pid\n"
        "while :; do sleep 1000; done",
        0);
  pid = read_pid(0, "pid");
  away = read_pid(0, "away");
  end_runners(NULL);
  assert_int_not_equal(kill(pid, 0), 0);
  assert_int_not_equal(kill(away, 0), 0);
  assert_int_equal(start_runners(NULL), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_data),
      cmocka_unit_test(test_leaves_files),
      cmocka_unit_test(test_long_output),
      cmocka_unit_test(test_not_stored),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_timeout),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_left_behind),
      cmocka_unit_test(test_cleared_environment),
      cmocka_unit_test(test_runner_killed),
      cmocka_unit_test(test_worker_gone),
  };
  if (argc > 1 && strcmp(argv[1], FARM_RUNNER_ARG) == 0) return farm_runner_main(argc, argv);
  return cmocka_run_group_tests(tests, start_runners, end_runners);
}
