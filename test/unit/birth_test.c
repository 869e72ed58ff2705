/*
 * birth_test.c - what a process sees of another one on its machine (base/birth.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/birth.h"

/* A process that tells its birth, and then waits for its end. */
static pid_t begin(struct dmi_birth *birth) {
  int told[2];
  pid_t pid;
  assert_int_equal(pipe(told), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dmi_birth_find(birth);
    if (write(told[1], birth, sizeof *birth) != sizeof *birth) _exit(1);
    for (;;)
      pause();
  }
  assert_int_equal(read(told[0], birth, sizeof *birth), sizeof *birth);
  close(told[0]);
  close(told[1]);
  return pid;
}

static bool ends(int fd, int ms) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, ms) == 1;
}

/* It lives; it ends, and nobody has waited for it; it is gone altogether. */
static void test_end(void **state) {
  struct dmi_birth birth;
  pid_t pid = begin(&birth);
  int fd, other;
  (void)state;
  assert_int_equal(birth.pid, pid);
  assert_int_equal(dmi_birth_look(&birth, &fd), DMI_BIRTH_LIVES);
  assert_true(fd >= 0);
  assert_false(ends(fd, 0));
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_true(ends(fd, 60000));
  assert_int_equal(dmi_birth_look(&birth, &other), DMI_BIRTH_GONE);
  assert_int_equal(other, -1);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_int_equal(dmi_birth_look(&birth, &other), DMI_BIRTH_GONE);
  close(fd);
}

/* Somebody else has its number now. */
static void test_used_again(void **state) {
  struct dmi_birth birth;
  pid_t pid = begin(&birth);
  int fd;
  (void)state;
  birth.start--;
  assert_int_equal(dmi_birth_look(&birth, &fd), DMI_BIRTH_GONE);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Of another machine, of another namespace, of one that does not tell: nothing is known. */
static void test_elsewhere(void **state) {
  struct dmi_birth mine, birth;
  int fd;
  (void)state;
  dmi_birth_find(&mine);
  assert_int_equal(dmi_birth_look(&mine, &fd), DMI_BIRTH_LIVES);
  close(fd);
  birth = mine;
  birth.boot[15] ^= 1;
  assert_int_equal(dmi_birth_look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
  birth = mine;
  birth.space++;
  assert_int_equal(dmi_birth_look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
  memset(&birth, 0, sizeof birth);
  assert_int_equal(dmi_birth_look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_end), cmocka_unit_test(test_used_again),
                                     cmocka_unit_test(test_elsewhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
