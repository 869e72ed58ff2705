/*
 * birth_test.c - what a process sees of another one on its machine (base/birth.h).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing */
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

/* As seen by this process, which does not change. */
static enum dmi_birth_look look(const struct dmi_birth *birth, int *fd) {
  static struct dmi_birth here;
  if (here.pid == 0) dmi_birth_find(&here);
  return dmi_birth_look(birth, &here, fd);
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
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_LIVES);
  assert_true(fd >= 0);
  assert_false(ends(fd, 0));
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_true(ends(fd, 60000));
  assert_int_equal(look(&birth, &other), DMI_BIRTH_GONE);
  assert_int_equal(other, -1);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_int_equal(look(&birth, &other), DMI_BIRTH_GONE);
  close(fd);
}

/* Somebody else has its number now. */
static void test_used_again(void **state) {
  struct dmi_birth birth;
  pid_t pid = begin(&birth);
  int fd;
  (void)state;
  birth.start--;
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_GONE);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Of another machine, of another namespace, of one that does not tell: nothing is known. */
static void test_elsewhere(void **state) {
  struct dmi_birth mine, birth;
  int fd;
  (void)state;
  dmi_birth_find(&mine);
  assert_int_equal(look(&mine, &fd), DMI_BIRTH_LIVES);
  close(fd);
  birth = mine;
  birth.boot[15] ^= 1;
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
  birth = mine;
  birth.space++;
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
  birth = mine;
  birth.time++;
  birth.start--; /* as that would be read in another one */
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
  memset(&birth, 0, sizeof birth);
  assert_int_equal(look(&birth, &fd), DMI_BIRTH_ELSEWHERE);
}

/* What is seen when so many descriptors are left, also after it: as many. */
static enum dmi_birth_look look_with(const struct dmi_birth *birth, int left) {
  int held[64], num = 0, fd, again;
  while ((held[num] = dup(0)) >= 0)
    num++;
  assert_int_equal(errno, EMFILE);
  assert_true(num >= left);
  for (int i = 0; i < left; i++)
    close(held[--num]);
  enum dmi_birth_look seen = look(birth, &fd);
  if (fd >= 0) close(fd);
  for (again = 0; again < left; again++)
    assert_true((held[num++] = dup(0)) >= 0);
  assert_int_equal(dup(0), -1);
  while (num > 0)
    close(held[--num]);
  return seen;
}

/* Few descriptors or none are left: no process is taken for one that has ended. */
static void test_no_descriptor(void **state) {
  struct dmi_birth birth;
  pid_t pid = begin(&birth);
  struct rlimit before, few;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = before;
  few.rlim_cur = 40;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  assert_int_equal(look_with(&birth, 0), DMI_BIRTH_ELSEWHERE);
  assert_int_equal(look_with(&birth, 1), DMI_BIRTH_ELSEWHERE);
  assert_int_equal(look_with(&birth, 2), DMI_BIRTH_LIVES);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  /* without a descriptor a system may say that there is no such process, or nothing */
  assert_int_not_equal(look_with(&birth, 0), DMI_BIRTH_LIVES);
  assert_int_equal(look_with(&birth, 1), DMI_BIRTH_GONE);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Mounts an empty directory upon that process's in /proc, for the calling process only. */
static bool hide(pid_t pid) {
  char path[40];
  snprintf(path, sizeof path, "/proc/%d", (int)pid);
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
         mount("none", path, "tmpfs", 0, NULL) == 0;
}

/* The exit status says what was wrong; 77: no right to mount. */
static void look_at_hidden(void) {
  struct dmi_birth birth;
  pid_t pid = begin(&birth);
  siginfo_t end;
  int fd, status = 77;
  if (hide(pid)) {
    status = 0;
    if (look(&birth, &fd) != DMI_BIRTH_ELSEWHERE || fd != -1) status = 1;
  }
  kill(pid, SIGKILL);
  waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT);
  if (status == 0 && (look(&birth, &fd) != DMI_BIRTH_GONE || fd != -1)) status = 2;
  waitpid(pid, NULL, 0);
  _exit(status);
}

/* /proc does not show the process, as with hidepid and another user: also unknown, until it ends.
 */
static void test_hidden(void **state) {
  pid_t looker = fork();
  int status;
  (void)state;
  assert_true(looker >= 0);
  if (looker == 0) look_at_hidden();
  assert_int_equal(waitpid(looker, &status, 0), looker);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_end), cmocka_unit_test(test_used_again),
                                     cmocka_unit_test(test_elsewhere),
                                     cmocka_unit_test(test_no_descriptor),
                                     cmocka_unit_test(test_hidden)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
