/*
 * net_accept_test.c - very many connections without the key: which of them are closed, what they
 * cost, and what happens when no descriptor is left.
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
#include <sys/resource.h>

#include "net_raw.h"

#define PLACES 256 /* for connections that have not proved the key */

static const struct dmi_addr nowhere = {0};

/* A process that is member 1 and knows member 2. */
static void begin(struct node *node) {
  node_open(node, 1);
  dmi_net_add_peer(node->net, 2, &nowhere);
  node_run(node);
}

static void end(struct node *node) {
  node_expect_close(node);
  node_stop(node);
  node_free(node);
}

static int connect_to(struct node *node) {
  int fd = raw_connect_to(dmi_net_port(node->net));
  assert_true(fd >= 0);
  return fd;
}

/* How many of these the other end has reset.  None may be closed in another way. */
static int reset_of(const int *fds, int num) {
  int count = 0;
  for (int i = 0; i < num; i++) {
    struct pollfd look = {.fd = fds[i], .events = POLLIN | POLLRDHUP};
    if (poll(&look, 1, 0) == 0) continue;
    /* Both directions; otherwise it was closed normally. The error may show a moment before that.
     */
    assert_true(look.revents & (POLLHUP | POLLERR));
    count++;
  }
  return count;
}

static void wait_reset(const int *fds, int num, int least) {
  for (int i = 0; reset_of(fds, num) < least; i++) {
    assert_true(i < 100 * node_limit());
    poll(NULL, 0, 10);
  }
}

static void close_all(const int *fds, int num) {
  for (int i = 0; i < num; i++)
    close(fds[i]);
}

/* However many silent connections come, one that has sent CALL with the key keeps its place, and
 * has time to go on. Silent ones are reset, so that the kernel keeps nothing of them either. */
static void test_called_stays(void **state) {
  (void)state;
  enum { MANY = 700, CALLED = 5 };
  struct node a;
  struct dmi_hello hello = raw_hello(0);
  unsigned char said[CALLED][RAW_SAID];
  int fds[MANY], called[CALLED];
  begin(&a);
  for (int i = 0; i < CALLED; i++) {
    called[i] = connect_to(&a);
    assert_true(raw_call(called[i], &hello, said[i]));
  }
  for (int i = 0; i < MANY; i++)
    fds[i] = connect_to(&a);
  wait_reset(fds, MANY, MANY - PLACES + CALLED);
  for (int i = 0; i < CALLED; i++) {
    assert_true(raw_send(called[i], said[i], RAW_SAID));
    assert_int_equal(raw_answer(called[i]), DMI_HELLO_OK);
  }
  close_all(fds, MANY);
  close_all(called, CALLED);
  end(&a);
}

/* Connections that replay CALLs close others that do so, but not those that are still silent. */
static void test_called_are_bounded(void **state) {
  (void)state;
  enum { MANY = 400, SILENT = 20, CALLED = 192 };
  struct node a;
  struct dmi_hello hello = raw_hello(0);
  unsigned char said[RAW_SAID];
  int fds[MANY], silent[SILENT];
  begin(&a);
  for (int i = 0; i < SILENT; i++)
    silent[i] = connect_to(&a);
  for (int i = 0; i < MANY; i++) {
    fds[i] = connect_to(&a);
    assert_true(raw_call(fds[i], &hello, said));
  }
  wait_reset(fds, MANY, MANY - CALLED);
  assert_int_equal(reset_of(silent, SILENT), 0);
  close_all(fds, MANY);
  close_all(silent, SILENT);
  end(&a);
}

/* Sends a CALL on a connection of its own; true if it is answered. */
static bool is_answered(struct node *node, const unsigned char call[DMI_CALL_BYTES]) {
  unsigned char answer[DMI_ANSWER_BYTES];
  int fd = connect_to(node);
  bool answered =
      raw_send(fd, call, DMI_CALL_BYTES) && raw_read(fd, answer, sizeof answer) == sizeof answer;
  close(fd);
  return answered;
}

/* CALLs are remembered, so that repeating a few thousand in turn costs little. */
static void test_remembered(void **state) {
  (void)state;
  enum { MANY = 8192, SOME = 40 };
  static unsigned char calls[MANY][DMI_CALL_BYTES];
  struct node a;
  struct dmi_proof proof;
  int again = 0;
  begin(&a);
  for (int i = 0; i < MANY; i++) {
    dmi_proof_call(&proof, node_key, 0, calls[i]);
    assert_true(is_answered(&a, calls[i]));
  }
  for (int i = 0; i < SOME; i++)
    again += is_answered(&a, calls[i]);
  assert_in_range(again, 0, SOME / 4); /* a hash table of limited size may have forgotten some */
  end(&a);
}

/* Some connections with another key get an explanation; if there are very many they are only
 * closed. */
static void test_refusals_are_bounded(void **state) {
  (void)state;
  enum { MANY = 2000, BURST = 100 };
  static const uint8_t other[DMI_KEY_BYTES] = "another key";
  struct node a;
  struct dmi_proof proof;
  unsigned char call[DMI_CALL_BYTES];
  int told = 0;
  begin(&a);
  dmi_proof_call(&proof, other, 0, call);
  for (int i = 0; i < MANY; i++) {
    int fd = connect_to(&a);
    assert_true(raw_send(fd, call, sizeof call));
    bool sentence = strstr(raw_plain_refusal(fd), "has another key than this one") != NULL;
    assert_true(sentence || i >= BURST);
    told += sentence;
    close(fd);
  }
  assert_in_range(told, BURST, MANY - 1);
  end(&a);
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

/* The process may open so many more descriptors, if those that it has are the lowest ones. */
static void allow_more(rlim_t num) {
  struct rlimit files;
  int lowest = dup(0);
  assert_true(lowest >= 0);
  close(lowest);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = (rlim_t)lowest + num;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void connect_socket(int fd, struct node *node) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(dmi_net_port(node->net))};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
}

/* Connections from outside have the last descriptors: they are closed for each other and for a
 * member. */
static void test_last_descriptors(void **state) {
  (void)state;
  enum { MANY = 20, LAST = 3 };
  struct node a;
  struct rlimit before;
  struct dmi_hello hello = raw_hello(2);
  int fds[MANY], member = socket(AF_INET, SOCK_STREAM, 0);
  getrlimit(RLIMIT_NOFILE, &before);
  begin(&a);
  for (int i = 0; i < MANY; i++)
    fds[i] = socket(AF_INET, SOCK_STREAM, 0);
  allow_more(LAST);
  for (int i = 0; i < MANY; i++)
    connect_socket(fds[i], &a);
  wait_reset(fds, MANY, MANY - LAST);
  /* It may be closed itself before it has sent anything: then it tries again, as dial.c does. */
  connect_socket(member, &a);
  bool in = raw_say(member, &hello) && raw_answer(member) == DMI_HELLO_OK;
  for (int i = 0; !in && i < 20; i++) {
    close(member);
    member = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(member >= 0);
    connect_socket(member, &a);
    in = raw_say(member, &hello) && raw_answer(member) == DMI_HELLO_OK;
  }
  assert_true(in);
  assert_true(node_wait_log(&a, "Too many open files"));
  setrlimit(RLIMIT_NOFILE, &before);
  node_expect_close(&a);
  close_all(fds, MANY);
  close(member);
  end(&a);
}

static double cpu_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* No descriptor is left: the process waits, without using time, and goes on as soon as there is
 * one. */
static void test_no_descriptor(void **state) {
  (void)state;
  struct node a;
  struct rlimit before;
  struct dmi_hello hello = raw_hello(2);
  int member = socket(AF_INET, SOCK_STREAM, 0);
  getrlimit(RLIMIT_NOFILE, &before);
  begin(&a);
  allow_more(0);
  connect_socket(member, &a);
  assert_true(node_wait_log(&a, "Too many open files"));
  double began = cpu_seconds();
  poll(NULL, 0, 1000); /* to check that nothing happens */
  assert_true(cpu_seconds() - began < 0.5);
  setrlimit(RLIMIT_NOFILE, &before);
  assert_true(raw_say(member, &hello));
  assert_int_equal(raw_answer(member), DMI_HELLO_OK);
  node_expect_close(&a);
  close(member);
  end(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_called_stays),     cmocka_unit_test(test_called_are_bounded),
      cmocka_unit_test(test_remembered),       cmocka_unit_test(test_refusals_are_bounded),
      cmocka_unit_test(test_last_descriptors), cmocka_unit_test(test_no_descriptor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
