/*
 * net_connect_test.c - how connections are made: by both ends at once, by joining, with renaming.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "msg/packed.h"
#include "net_pair.h"

/* ---- Both at once --------------------------------------------------------------------------- */

static uint64_t order_wrong;

static void check_order(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (msg->access.op.n != node->messages || from == node->uid || from > 2) order_wrong++;
}

static void test_both_at_once(void **state) {
  (void)state;
  enum { ROUNDS = 500, COUNT = 5 };
  order_wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    struct node a, b;
    node_encrypt = round % 4 == 3;
    node_open(&a, 1);
    node_open(&b, 2);
    node_meet(&a, &b);
    node_meet(&b, &a);
    a.on_message = b.on_message = check_order;
    for (uint64_t i = 0; i < COUNT; i++) {
      node_send(&a, 2, plain(i));
      node_send(&b, 1, plain(i));
    }
    node_run(round & 1 ? &a : &b);
    node_run(round & 1 ? &b : &a);
    node_send(&a, 2, plain(COUNT));
    node_send(&b, 1, plain(COUNT));
    NODE_WAIT(&a, messages, COUNT + 1);
    NODE_WAIT(&b, messages, COUNT + 1);
    assert_int_equal(NODE_NOW(&a, lost_num) + NODE_NOW(&b, lost_num), 0);
    node_expect_close(&a);
    node_expect_close(&b);
    end(&a);
    end(&b);
  }
  node_encrypt = false;
  assert_int_equal(order_wrong, 0);
}

/* Reads the messages plain(0) to plain(2), which were queued together. */
static void read_three(int fd) {
  unsigned char bytes[DMI_WIRE_HEADER], packed[2 * DMI_PACKED_HEADER];
  struct dmi_packed_before before;
  struct dmi_msg msg;
  const char *wrong;
  size_t at = 0;
  assert_int_equal(raw_read(fd, bytes, sizeof bytes), sizeof bytes);
  assert_null(dmi_wire_get(&msg, bytes, true));
  assert_int_equal(msg.access.op.n, 0);
  const size_t behind = dmi_packed_behind(bytes);
  assert_in_range(behind, 1, sizeof packed);
  assert_int_equal(raw_read(fd, packed, behind), behind);
  for (int i = 1; i < 3; i++) {
    dmi_packed_begin(&before, &msg);
    at += dmi_packed_get(&msg, packed + at, behind - at, &before, &wrong);
    assert_null(wrong);
    assert_int_equal(msg.access.op.n, i);
  }
  assert_int_equal(at, behind);
}

/* The lower uid's attempt should win, but fails: that of the higher uid, which was kept, is used.
 */
static void test_winner_fails(void **state) {
  (void)state;
  struct node a;
  struct dmi_addr deaf;
  struct dmi_hello hello = raw_hello(2);
  unsigned char byte;
  int listener = raw_listen(&deaf);
  node_open(&a, 1);
  dmi_net_add_peer(a.net, 2, &deaf);
  node_run(&a);
  for (uint64_t i = 0; i < 3; i++)
    node_send(&a, 2, plain(i));
  int theirs = raw_accept(listener); /* a is connecting */
  int ours = raw_connect(&a);
  assert_true(raw_say(ours, &hello));
  int mark = raw_connect(&a); /* when a has seen this one, it has seen that HELLO */
  assert_int_equal(send(mark, "?", 1, MSG_NOSIGNAL), 1);
  assert_true(node_wait_log(&a, "does not speak DMI"));
  assert_int_equal(recv(ours, &byte, 1, MSG_DONTWAIT), -1); /* it gets no answer */
  close(theirs);
  close(listener);
  assert_int_equal(raw_answer(ours), DMI_HELLO_OK);
  read_three(ours);
  assert_int_equal(NODE_NOW(&a, lost_num), 0);
  node_expect_close(&a);
  close(ours);
  close(mark);
  end(&a);
}

/* ---- Joining -------------------------------------------------------------------------------- */

static void test_port_in_use(void **state) {
  (void)state;
  struct node a, b;
  const char *why;
  node_open(&a, 1);
  assert_false(node_open_as(&b, 2, dmi_net_port(a.net), node_build, node_program, "prog", &why));
  char port[16];
  snprintf(port, sizeof port, "port %u", dmi_net_port(a.net));
  assert_non_null(strstr(why, port));
  assert_non_null(strstr(why, "dmirun -l"));
  node_free(&a);
}

/* Joins `host` and expects all these words in the reason why it fails. */
static void check_cannot_join(const char *host, uint16_t port, const char *const words[], int num) {
  struct node b;
  char number[16];
  node_open(&b, 0);
  dmi_net_join(b.net, host, port);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  assert_false(b.joined_ok);
  snprintf(number, sizeof number, "%u", port);
  if (num > 0) assert_non_null(strstr(b.joined_why, number));
  for (int i = 0; i < num; i++) {
    if (strstr(b.joined_why, words[i]) == NULL) fail_msg("'%s' in: %s", words[i], b.joined_why);
  }
  end(&b);
}

static void test_join_dead_port(void **state) {
  (void)state;
  struct dmi_addr addr;
  static const char *const words[] = {"localhost", "no DMI program listens", "-i", "-p"};
  int fd = raw_bind(&addr); /* kept bound: a test beside this one could listen there otherwise */
  check_cannot_join("localhost", addr.port, words, 4);
  close(fd);
}

static void test_join_silent_port(void **state) {
  (void)state;
  struct dmi_addr addr;
  static const char *const words[] = {"127.0.0.1", "accepts connections but does not answer", "-i",
                                      "-p"};
  int listener = raw_listen(&addr);
  node_patience = 0.3;
  check_cannot_join("127.0.0.1", addr.port, words, 4);
  node_patience = 0;
  close(listener);
}

static void test_join_unknown_host(void **state) {
  (void)state;
  struct node b;
  node_open(&b, 0);
  dmi_net_join(b.net, "no.such.host.invalid", 1);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  assert_non_null(strstr(b.joined_why, "cannot find host 'no.such.host.invalid'"));
  assert_non_null(strstr(b.joined_why, "-i"));
  end(&b);
}

struct naming {
  uint32_t temp, uid;
};

static void run_rename(struct node *node, void *arg) {
  struct naming *naming = arg;
  dmi_net_rename(node->net, naming->temp, naming->uid);
}

static void run_self(struct node *node, void *arg) {
  node->uid = *(uint32_t *)arg;
  dmi_net_set_self(node->net, node->uid, node_program);
}

struct both_addrs {
  uint32_t id;
  struct dmi_addr ours, theirs;
};

static void run_addrs(struct node *node, void *arg) {
  struct both_addrs *addrs = arg;
  dmi_net_addrs(node->net, addrs->id, &addrs->ours, &addrs->theirs);
}

static void test_rename(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  struct dmi_msg ask = {.type = DMI_CTL_JOIN};
  for (uint64_t i = 0; i < 5; i++) {
    ask.member.op = i;
    node_send(&b, b.joined_id, ask);
  }
  NODE_WAIT(&a, messages, 5);
  assert_int_equal(a.from[0], a.stranger_id);
  struct both_addrs addrs = {.id = a.stranger_id};
  node_do(&a, run_addrs, &addrs);
  assert_int_equal(addrs.ours.port, dmi_net_port(a.net));
  assert_int_equal(addrs.theirs.port, dmi_net_port(b.net));
  for (uint64_t i = 0; i < 5; i++)
    node_send(&a, a.stranger_id, plain(i));
  struct naming naming = {a.stranger_id, 2};
  node_do(&a, run_rename, &naming);
  for (uint64_t i = 5; i < 10; i++)
    node_send(&a, 2, plain(i));
  node_send(&a, a.stranger_id, plain(99)); /* no connection has that name any more */
  uint32_t uid = 2;
  order_wrong = 0;
  NODE_WAIT(&b, messages, 10);
  node_do(&b, run_self, &uid);
  naming = (struct naming){b.joined_id, 1};
  node_do(&b, run_rename, &naming);
  for (uint64_t i = 0; i < 10; i++)
    node_send(&b, 1, plain(i));
  NODE_WAIT(&a, messages, 15);
  node_send(&a, 2, plain(10));
  NODE_WAIT(&b, messages, 11);
  assert_int_equal(a.from[5], 2);
  assert_int_equal(a.from[14], 2);
  assert_int_equal(b.from[0], b.joined_id);
  assert_int_equal(b.from[10], 1);
  assert_int_equal(b.last.access.op.n, 10);
  assert_int_equal(NODE_NOW(&a, lost_num) + NODE_NOW(&b, lost_num), 0);
  node_close(&a, 2);
  node_close(&b, 1);
  end(&a);
  end(&b);
  assert_int_equal(a.lost_num + b.lost_num, 0);
}

/* The new name has a connection already: messages on the renamed one still arrive. */
static void test_rename_second(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  uint32_t uid = 2;
  struct dmi_addr addr = node_addr(&a);
  node_do(&b, run_self, &uid);
  dmi_net_add_peer(b.net, 1, &addr); /* b's daemon is idle now */
  node_send(&b, 1, plain(0));        /* a second connection */
  NODE_WAIT(&a, messages, 1);
  struct naming naming = {a.stranger_id, 2};
  node_do(&a, run_rename, &naming);
  for (uint64_t i = 1; i < 5; i++)
    node_send(&b, b.joined_id, plain(i));
  NODE_WAIT(&a, messages, 5);
  for (uint64_t i = 0; i < 5; i++)
    assert_int_equal(a.from[i], 2);
  node_send(&a, 2, plain(7));
  NODE_WAIT(&b, messages, 1);
  assert_int_equal(b.from[0], 1);
  node_expect_close(&a);
  node_expect_close(&b);
  end(&a);
  end(&b);
}

/* A message that only members may send closes a connection from outside. */
static void test_stranger_limits(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  node_send(&b, b.joined_id, plain(0));
  NODE_WAIT(&a, lost_num, 1);
  NODE_WAIT(&b, lost_num, 1);
  assert_int_equal(a.messages, 0);
  assert_non_null(strstr(a.lost_why, "only a member"));
  end(&a);
  end(&b);
}

/* A connection from outside is refused: it reads the reason, then the end. */
static void test_turned_away(void **state) {
  (void)state;
  struct node a, b;
  join(&a, &b);
  struct dmi_msg no = {.type = DMI_CTL_REFUSE};
  node_send(&a, a.stranger_id, no);
  node_close(&a, a.stranger_id);
  NODE_WAIT(&b, messages, 1);
  node_close(&b, b.joined_id);
  end(&b);
  end(&a);
  assert_int_equal(a.lost_num + b.lost_num, 0);
}

static void test_ipv6(void **state) {
  (void)state;
  struct node a, b;
  node_open(&a, 1);
  node_open(&b, 0);
  dmi_net_join(b.net, "::1", dmi_net_port(a.net));
  node_run(&a);
  node_run(&b);
  NODE_WAIT(&b, joined_num, 1);
  if (!b.joined_ok) print_message("no IPv6 here: %s\n", b.joined_why);
  end(&b);
  end(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_both_at_once),
      cmocka_unit_test(test_winner_fails),
      cmocka_unit_test(test_port_in_use),
      cmocka_unit_test(test_join_dead_port),
      cmocka_unit_test(test_join_silent_port),
      cmocka_unit_test(test_join_unknown_host),
      cmocka_unit_test(test_rename),
      cmocka_unit_test(test_rename_second),
      cmocka_unit_test(test_stranger_limits),
      cmocka_unit_test(test_turned_away),
      cmocka_unit_test(test_ipv6),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
