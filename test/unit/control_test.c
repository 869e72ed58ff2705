/*
 * control_test.c - what a launcher tells a process on DMI_CONTROL_FD: which lines are obeyed, and
 * that nothing is read behind one that is not understood.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/control.h"

#define PROGRAM "000102030405060708090a0b0c0d0e0f"

static struct dmi_control control;
static struct ev_loop *loop;
static int in;           /* where the launcher writes */
static uint32_t dead[8]; /* as told */
static uint32_t dead_num, wrong_num;
static uint8_t program[16]; /* of the last one */
static char wrong_line[200];

static void on_dead(void *arg, const uint8_t of[16], dmi_uid_t uid) {
  assert_ptr_equal(arg, &control);
  memcpy(program, of, sizeof program);
  assert_true(dead_num < 8);
  dead[dead_num++] = uid;
}

static void on_wrong(void *arg, const char *line) {
  (void)arg;
  wrong_num++;
  strcpy(wrong_line, line);
}

static void begin(void) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  in = ends[1];
  dead_num = wrong_num = 0;
  loop = ev_loop_new(0);
  control.dead = on_dead;
  control.wrong = on_wrong;
  control.arg = &control;
  assert_true(dmi_control_own(ends[0]));
  dmi_control_begin(&control, loop, ends[0]);
}

/* The launcher writes that, and it is read. */
static void tell(const char *text) {
  assert_int_equal(write(in, text, strlen(text)), strlen(text));
  ev_run(loop, EVRUN_NOWAIT);
}

static void end(void) {
  dmi_control_end(&control);
  close(in);
  ev_loop_destroy(loop);
}

static void test_lines(void **state) {
  (void)state;
  begin();
  tell("dead " PROGRAM " 7\ndead " PROGRAM " 2147483647\n");
  assert_int_equal(dead_num, 2);
  assert_int_equal(dead[0], 7);
  assert_int_equal(dead[1], 2147483647);
  for (uint8_t i = 0; i < 16; i++)
    assert_int_equal(program[i], i);
  tell("dead " PROGRAM " 1");
  assert_int_equal(dead_num, 2);
  tell("2\n");
  assert_int_equal(dead_num, 3);
  assert_int_equal(dead[2], 12);
  assert_int_equal(wrong_num, 0);
  end();
}

/* Nothing is believed behind it either. */
static void refused(const char *line) {
  begin();
  tell("dead " PROGRAM " 3\n");
  assert_int_equal(write(in, line, strlen(line)), strlen(line));
  assert_int_equal(write(in, "\ndead " PROGRAM " 4\n", 41), 41);
  ev_run(loop, EVRUN_NOWAIT);
  ev_run(loop, EVRUN_NOWAIT);
  assert_int_equal(dead_num, 1);
  assert_int_equal(wrong_num, 1);
  assert_int_equal(control.fd, -1);
  end();
}

static void test_refused(void **state) {
  char much[400];
  (void)state;
  refused("");
  refused("live " PROGRAM " 3");
  refused("dead " PROGRAM);
  refused("dead " PROGRAM " ");
  refused("dead " PROGRAM " 0");
  refused("dead " PROGRAM " 03");
  refused("dead " PROGRAM " -3");
  refused("dead " PROGRAM " 3 ");
  refused("dead " PROGRAM " 2147483648"); /* a temporary id */
  refused("dead " PROGRAM " 18446744073709551619");
  refused("dead 000102030405060708090A0b0c0d0e0f 3");
  refused("dead 0001 3");
  refused("dead\033[1m");
  assert_string_equal(wrong_line, "dead?[1m");
  memset(much, 'x', sizeof much - 1);
  much[sizeof much - 1] = '\0';
  refused(much);
  assert_int_equal(strlen(wrong_line), DMI_CONTROL_LINE - 1);
}

/* The launcher ends. */
static void test_end(void **state) {
  (void)state;
  begin();
  tell("dead " PROGRAM " 5\ndead ");
  close(in);
  in = open("/dev/null", O_WRONLY);
  ev_run(loop, EVRUN_NOWAIT);
  assert_int_equal(control.fd, -1);
  assert_int_equal(dead_num, 1);
  assert_int_equal(wrong_num, 0);
  end();
  assert_false(dmi_control_own(9999));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_end),
  };
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
