/*
 * net_hello_test.c - the first bytes of a connection: other versions, builds and programs, garbage,
 * silence, and too many bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/hello.h"
#include <errno.h>

#include "net_pair.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION_TEXT "wire version " TEXT(DMI_WIRE_VERSION) " of DMI"

static void test_other_version(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  unsigned char bytes[DMI_HELLO_FIRST];
  dmi_hello_put_first(bytes, DMI_HELLO_CALL, 250);
  int fd = raw_connect(&a);
  /* its CALL may be shorter than ours: the first bytes must be enough */
  assert_true(raw_send(fd, bytes, sizeof bytes));
  const char *why = raw_plain_refusal(fd);
  assert_non_null(strstr(why, "this process speaks wire version 250 of DMI"));
  assert_non_null(strstr(why, "version " TEXT(DMI_WIRE_VERSION) ":"));
  assert_true(node_wait_log(&a, "version 250"));
  close(fd);
  end(&a);
}

/* The same from the side that connects: a process that answers with another version. */
static void test_answer_of_other_version(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  unsigned char bytes[DMI_HELLO_FIRST];
  int listener = raw_listen(&addr);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &addr);
  node_run(&a);
  node_send(&a, 2, plain(0));
  int fd = raw_accept(listener);
  dmi_hello_put_first(bytes, DMI_HELLO_ANSWER, 250);
  assert_true(raw_send(fd, bytes, sizeof bytes));
  NODE_WAIT(&a, lost_num, 1);
  assert_non_null(strstr(a.lost_why, "this process speaks " VERSION_TEXT));
  assert_non_null(strstr(a.lost_why, "version 250"));
  close(fd);
  close(listener);
  end(&a);
}

static void test_other_build(void **state) {
  (void)state;
  struct node a, b;
  static const uint8_t build[16] = {0xab, 0xcd};
  static const char *const words[] = {"this process runs 'other' (build abcd", "runs 'prog' (build",
                                      "same executable", "127.0.0.1"};
  const char *why;
  node_open(&a, 1);
  assert_true(node_open_as(&b, 0, 0, build, node_program, "other", &why));
  check_refused(&a, &b, words, 4, "refused a connection: this process runs 'prog'");
}

static void test_not_a_member(void **state) {
  (void)state;
  struct node a, b;
  static const char *const words[] = {"not a member yet", "try again"};
  node_open(&a, 0);
  node_open(&b, 0);
  check_refused(&a, &b, words, 2, "not a member yet");
}

/* dmirun -i localhost, and nobody else listens there: the process finds only itself. */
static void test_itself(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr addr;
  node_open(&a, 0);
  addr = node_addr(&a);
  dmi_net_join_addr(a.net, &addr);
  node_run(&a);
  NODE_WAIT(&a, joined_num, 1);
  assert_false(a.joined_ok);
  assert_non_null(strstr(a.joined_why, "no other DMI program listens at 127.0.0.1 port"));
  assert_non_null(strstr(a.joined_why, "-p PORT"));
  assert_int_equal(NODE_NOW(&a, strangers), 0);
  end(&a);
}

static void test_other_program(void **state) {
  (void)state;
  struct node a, b;
  static const uint8_t program[16] = "another";
  const char *why;
  node_open(&a, 1);
  assert_true(node_open_as(&b, 2, 0, node_build, program, "prog", &why));
  node_meet(&b, &a);
  node_run(&a);
  node_run(&b);
  node_send(&b, 1, plain(0));
  NODE_WAIT(&b, lost_num, 1);
  assert_non_null(strstr(b.lost_why, "started apart"));
  assert_true(node_wait_log(&a, "started apart"));
  end(&a);
  end(&b);
}

static void test_same_uid(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  struct dmi_hello hello = raw_hello(1);
  int fd = raw_connect(&a);
  assert_true(raw_say(fd, &hello));
  assert_non_null(strstr(raw_refusal(fd), "both say they are member 1"));
  close(fd);
  end(&a);
}

static void test_garbage(void **state) {
  (void)state;
  struct node a;
  node_open(&a, 1);
  node_run(&a);
  int fd = raw_connect(&a);
  assert_int_equal(send(fd, "G", 1, MSG_NOSIGNAL), 1); /* of GET: the first byte is enough */
  assert_true(raw_closed(fd));
  assert_true(node_wait_log(&a, "does not speak DMI"));
  close(fd);
  end(&a);
}

static void test_silent(void **state) {
  (void)state;
  struct node a;
  node_patience = 0.2;
  node_open(&a, 1);
  node_patience = 0;
  node_run(&a);
  int fd = raw_connect(&a); /* sends nothing */
  assert_true(raw_closed(fd));
  struct dmi_hello hello = raw_hello(0);
  int tries = 0;
  do { /* it does not say what it wants; on a busy machine we may be late ourselves */
    close(fd);
    fd = raw_connect(&a);
  } while ((!raw_say(fd, &hello) || raw_answer(fd) != DMI_HELLO_OK) && ++tries < 50);
  assert_true(tries < 50);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(a.lost_id, a.stranger_id);
  close(fd);
  end(&a);
}

/* How many of these connections the other end has closed. */
static int closed_of(const int *fds, int num) {
  int count = 0;
  char byte;
  for (int i = 0; i < num; i++) {
    ssize_t got = recv(fds[i], &byte, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) count++;
  }
  return count;
}

/* There are places for 256 connections that have not proved the key; then some are closed.  They do
 * not disturb one that has. */
static void test_many_silent(void **state) {
  (void)state;
  enum { MANY = 400, PLACES = 256 };
  struct node a, b, c;
  int fds[MANY];
  join(&a, &b);
  for (int i = 0; i < MANY; i++)
    fds[i] = raw_connect(&a);
  for (int i = 0; closed_of(fds, MANY) < MANY - PLACES; i++) {
    assert_true(i < 100 * node_limit());
    poll(NULL, 0, 10);
  }
  node_open(&c, 0); /* joins while all places are taken */
  dmi_net_join(c.net, "127.0.0.1", dmi_net_port(a.net));
  node_run(&c);
  NODE_WAIT(&c, joined_num, 1);
  assert_true(c.joined_ok);
  int closed = closed_of(fds, MANY);
  assert_true(closed >= MANY - PLACES && closed <= MANY - PLACES + 8);
  struct dmi_msg ask = {.type = DMI_CTL_JOIN};
  node_send(&b, b.joined_id, ask);
  node_send(&c, c.joined_id, ask);
  NODE_WAIT(&a, messages, 2);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  node_expect_close(&a);
  node_expect_close(&b);
  node_expect_close(&c);
  end(&c);
  end(&a);
  end(&b);
}

/* A member that sends something malformed loses its connection; others do not. */
static void test_malformed(void **state) {
  (void)state;
  struct node a, b;
  unsigned char bytes[DMI_WIRE_HEADER];
  const struct dmi_addr nowhere = {0};
  node_open(&a, 1);
  node_open(&b, 2);
  node_meet(&a, &b);
  dmi_net_add_peer(a.net, 3, &nowhere);
  node_run(&a);
  node_run(&b);
  node_send(&a, 2, plain(0));
  NODE_WAIT(&b, messages, 1);
  int fd = raw_connect(&a);
  struct dmi_hello hello = raw_hello(3);
  assert_true(raw_say(fd, &hello));
  struct dmi_msg msg = {.type = DMI_MSG_READ};
  dmi_wire_put(bytes, &msg);
  bytes[64] = 1; /* a body, which READ does not have */
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
  assert_int_equal(raw_answer(fd), DMI_HELLO_OK);
  assert_true(raw_closed(fd));
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(a.lost_id, 3);
  assert_non_null(strstr(a.lost_why, "READ"));
  node_send(&a, 2, plain(1));
  node_send(&b, 1, plain(1));
  NODE_WAIT(&b, messages, 2);
  NODE_WAIT(&a, messages, 1);
  /* it cannot connect again */
  close(fd);
  fd = raw_connect(&a);
  assert_true(raw_say(fd, &hello));
  assert_non_null(strstr(raw_refusal(fd), "lost before"));
  close(fd);
  end(&a);
  end(&b);
}

/* A witness runs no program, so it has no build, and fits to any; versions must be the same. */
static void test_no_build(void **state) {
  struct dmi_hello any = {.version = DMI_WIRE_VERSION, .build = {1}},
                   none = {.version = DMI_WIRE_VERSION};
  char why[DMI_REFUSE_TEXT];
  (void)state;
  assert_true(dmi_hello_match(&any, &none, "there", why));
  assert_true(dmi_hello_match(&none, &any, "there", why));
  none.build[15] = 1;
  assert_false(dmi_hello_match(&none, &any, "there", why));
  none.build[15] = 0;
  none.version--;
  assert_false(dmi_hello_match(&none, &any, "there", why));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_other_version), cmocka_unit_test(test_answer_of_other_version),
      cmocka_unit_test(test_no_build),      cmocka_unit_test(test_other_build),
      cmocka_unit_test(test_not_a_member),  cmocka_unit_test(test_other_program),
      cmocka_unit_test(test_itself),        cmocka_unit_test(test_same_uid),
      cmocka_unit_test(test_garbage),       cmocka_unit_test(test_silent),
      cmocka_unit_test(test_many_silent),   cmocka_unit_test(test_malformed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
