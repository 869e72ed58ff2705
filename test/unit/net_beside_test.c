/*
 * net_beside_test.c - the second network of a process (dmi_net_open_beside): it has connections of
 * its own, which a busy daemon does not delay, and which are made again when they broke.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../lib/memory_net.h"
#include <poll.h>
#include <semaphore.h>

#include "net/net_int.h"
#include "net_node.h"

static struct memory_net *memory;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

/* A process: its two networks. */
struct two {
  struct node first, beside;
};

static struct dmi_msg plain(uint64_t op) {
  struct dmi_msg msg = {.type = DMI_MSG_GET};
  msg.access.op.n = op;
  return msg;
}

static void run_open_beside(struct node *first, void *arg) {
  struct two *two = arg;
  const char *why = NULL;
  two->beside.net = dmi_net_open_beside(first->net, &two->beside.handler, &why);
  if (two->beside.net == NULL) fprintf(stderr, "%s\n", why);
}

static void begin(struct two *two, uint32_t uid) {
  node_open(&two->first, uid);
  node_run(&two->first);
}

static void begin_beside(struct two *two, struct two *other) {
  node_init(&two->beside, two->first.uid);
  node_do(&two->first, run_open_beside, two);
  assert_non_null(two->beside.net);
  two->beside.transport = two->first.transport;
  struct dmi_addr addr = node_addr(&other->first);
  dmi_net_add_peer(two->beside.net, other->first.uid, &addr);
  node_run(&two->beside);
}

static void begin_both(struct two two[2]) {
  begin(&two[0], 1);
  begin(&two[1], 2);
  begin_beside(&two[0], &two[1]);
  begin_beside(&two[1], &two[0]);
}

static void finish(struct two two[2]) {
  for (int i = 0; i < 2; i++) {
    node_expect_close(&two[i].beside);
    node_expect_close(&two[i].first);
  }
  for (int i = 0; i < 2; i++) {
    node_stop(&two[i].beside);
    node_free(&two[i].beside);
    node_stop(&two[i].first);
    node_free(&two[i].first);
  }
}

/* What is sent in one network arrives there, whoever connects; also sealed. */
static void test_apart(void **state) {
  (void)state;
  struct two two[2];
  for (int how = 0; how < 8; how++) {
    node_encrypt = how % 2 == 1;
    node_transport = how < 4 ? NULL : open_memory;
    begin_both(two);
    node_send(&two[0].beside, 2, plain(1));
    if (how / 2 % 2 == 1) node_send(&two[1].beside, 1, plain(2)); /* at once */
    NODE_WAIT(&two[1].beside, messages, 1);
    node_send(&two[1].beside, 1, plain(3));
    NODE_WAIT(&two[0].beside, messages, how / 2 % 2 == 1 ? 2 : 1);
    assert_int_equal(NODE_NOW(&two[0].beside, last.access.op.n), 3);
    assert_int_equal(NODE_NOW(&two[1].beside, from[0]), 1);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(NODE_NOW(&two[i].first, messages), 0);
      assert_int_equal(NODE_NOW(&two[i].beside, lost_num) + NODE_NOW(&two[i].first, lost_num), 0);
    }
    finish(two);
  }
  node_encrypt = false;
  node_transport = NULL;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void run_at_gate(struct node *node, void *arg) {
  (void)node, (void)arg;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
}

static void *keep_daemon(void *arg) {
  node_do(arg, run_at_gate, NULL);
  return NULL;
}

/* A daemon that does nothing for long: a connection that stands is as quick as ever. */
static void test_busy_daemon(void **state) {
  (void)state;
  struct two two[2];
  pthread_t keeper;
  begin_both(two);
  node_send(&two[0].beside, 2, plain(1));
  NODE_WAIT(&two[1].beside, messages, 1);
  pthread_mutex_lock(&gate);
  assert_int_equal(pthread_create(&keeper, NULL, keep_daemon, &two[1].first), 0);
  for (uint64_t i = 2; i < 12; i++) {
    node_send(&two[0].beside, 2, plain(i));
    NODE_WAIT(&two[1].beside, messages, i);
    node_send(&two[1].beside, 1, plain(i));
    NODE_WAIT(&two[0].beside, messages, i - 1);
  }
  pthread_mutex_unlock(&gate);
  pthread_join(keeper, NULL);
  finish(two);
}

/* The other one has no second network yet: it is tried until it has. */
static void test_not_yet(void **state) {
  (void)state;
  struct two two[2];
  begin(&two[0], 1);
  begin(&two[1], 2);
  begin_beside(&two[0], &two[1]);
  node_send(&two[0].beside, 2, plain(1));
  /* Some attempts are turned away meanwhile: their number is not known, nor does it matter. */
  poll(NULL, 0, 200);
  begin_beside(&two[1], &two[0]);
  NODE_WAIT(&two[1].beside, messages, 1);
  assert_int_equal(NODE_NOW(&two[0].beside, lost_num), 0);
  finish(two);
}

/* A connection breaks: that is told, and the next message makes one again. */
static void test_again(void **state) {
  (void)state;
  struct two two[2];
  node_transport = open_memory;
  begin_both(two);
  for (uint32_t i = 1; i < 5; i++) {
    node_send(&two[i % 2].beside, 2 - i % 2, plain(i));
    NODE_WAIT(&two[1 - i % 2].beside, messages, (i + 1) / 2);
    assert_true(memory_net_reset(memory, 1, 2) >= 1); /* also what is about to be closed */
    for (int j = 0; j < 2; j++)
      NODE_WAIT(&two[j].beside, lost_num, i);
  }
  assert_int_equal(NODE_NOW(&two[0].first, lost_num), 0);
  finish(two);
  node_transport = NULL;
}

static sem_t taken, go_on;

/* Of 3's messages: waits in the first one, and sends to 2 in the second one. */
static void hold(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (from == 3 && msg->access.op.n == 1) {
    sem_post(&taken);
    sem_wait(&go_on);
  } else if (from == 3) {
    node_send(node, 2, plain(2));
  }
}

static void run_is_connected(struct node *node, void *arg) {
  *(bool *)arg = dmi_net_connected(node->net, 2);
}

/* A send fails first, and then the thread finds that the connection is lost, before it serves the
 * writer: it is lost once, and nobody connects again without a message to send. */
static void test_send_fails(void **state) {
  (void)state;
  struct two two[3];
  bool connected = true;
  node_transport = open_memory;
  sem_init(&taken, 0, 0);
  sem_init(&go_on, 0, 0);
  begin_both(two);
  begin(&two[2], 3);
  begin_beside(&two[2], &two[0]);
  two[0].beside.on_message = hold;
  node_send(&two[1].beside, 1, plain(1));
  NODE_WAIT(&two[0].beside, messages, 1);
  node_send(&two[2].beside, 1, plain(1));
  sem_wait(&taken);
  node_send(&two[2].beside, 1, plain(2)); /* before the end of the other connection */
  assert_int_equal(memory_net_reset(memory, 1, 2), 1);
  sem_post(&go_on);
  NODE_WAIT(&two[0].beside, lost_num, 1);
  node_do(&two[0].beside, run_is_connected, &connected);
  assert_false(connected);
  assert_int_equal(NODE_NOW(&two[0].beside, lost_num), 1);
  node_expect_close(&two[2].beside);
  node_expect_close(&two[0].beside);
  node_stop(&two[2].beside);
  node_free(&two[2].beside);
  node_stop(&two[2].first);
  node_free(&two[2].first);
  finish(two);
  node_transport = NULL;
}

static void no_signal(void *arg, int signo) {
  (void)arg, (void)signo;
  abort();
}

/* Signals belong to the first network, also if the handler of the second one has a function for
 * them: the loops would abort. */
static void test_signal(void **state) {
  (void)state;
  struct two two;
  struct dmi_net_config config = {.listen_port = 0};
  const char *why;
  node_init(&two.first, 1);
  node_init(&two.beside, 1);
  two.first.handler.signal = two.beside.handler.signal = no_signal;
  two.first.net = dmi_net_open(&config, &two.first.handler, &why);
  assert_non_null(two.first.net);
  dmi_net_set_self(two.first.net, 1, node_program);
  node_run(&two.first);
  node_do(&two.first, run_open_beside, &two);
  assert_non_null(two.beside.net);
  node_run(&two.beside);
  node_stop(&two.beside);
  node_free(&two.beside);
  node_stop(&two.first);
  node_free(&two.first);
}

static int closed_num;

static void count_close(struct dmi_link *link) {
  free(link);
  closed_num++;
}

static void no_finish(struct dmi_link *link) {
  (void)link;
}

/* An accepted connection that is given to the second network. */
static void give_one(struct dmi_net *net) {
  static const struct dmi_transport_ops ops = {.close = count_close, .finish = no_finish};
  static struct dmi_net_peer holder;
  struct dmi_handshake *handshake = calloc(1, sizeof *handshake);
  struct dmi_link *link = calloc(1, sizeof *link);
  assert_non_null(handshake);
  assert_non_null(link);
  link->ops = &ops;
  handshake->net = net;
  handshake->link = link;
  handshake->holder = &holder;
  holder.deferred = handshake;
  dmi_beside_give(handshake);
}

/* The second network's thread does not run, or is stuck: what is given to it does not grow without
 * limit, and is closed when it ends. */
static void test_given(void **state) {
  (void)state;
  struct two two;
  node_open(&two.first, 1);
  node_init(&two.beside, 1);
  run_open_beside(&two.first, &two);
  assert_non_null(two.beside.net);
  closed_num = 0;
  for (int i = 0; i < DMI_NET_CALLED; i++)
    give_one(two.first.net);
  assert_int_equal(closed_num, 0);
  for (int i = 1; i < 4; i++) {
    give_one(two.first.net);
    assert_int_equal(closed_num, i);
  }
  node_free(&two.beside);
  give_one(two.first.net);
  assert_int_equal(closed_num, 4);
  node_free(&two.first);
  assert_int_equal(closed_num, 4 + DMI_NET_CALLED);
}

/* In order: nobody is lost. */
static void test_closed(void **state) {
  (void)state;
  struct two two[2];
  begin_both(two);
  node_send(&two[0].beside, 2, plain(1));
  NODE_WAIT(&two[1].beside, messages, 1);
  node_close(&two[0].beside, 2);
  node_close(&two[1].beside, 1);
  node_stop(&two[0].beside);
  node_free(&two[0].beside);
  node_stop(&two[1].beside);
  assert_int_equal(NODE_NOW(&two[1].beside, lost_num), 0);
  node_free(&two[1].beside);
  for (int i = 0; i < 2; i++) {
    node_expect_close(&two[i].first);
    node_stop(&two[i].first);
    node_free(&two[i].first);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_apart),   cmocka_unit_test(test_busy_daemon),
      cmocka_unit_test(test_not_yet), cmocka_unit_test(test_again),
      cmocka_unit_test(test_closed),  cmocka_unit_test(test_send_fails),
      cmocka_unit_test(test_signal),  cmocka_unit_test(test_given)};
  memory = memory_net_new();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  memory_net_free(memory);
  return failed;
}
