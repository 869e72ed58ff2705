/*
 * net_memory_test.c - faults of a network, made in the one in memory (test/lib): delay, loss of a
 * connection, a route that is cut and restored.
 *
 * First the promises of that transport, tested by its links only; then dmi_nets over it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>

#include "../lib/memory_net.h"
#include "net/hello.h"
#include "msg/wire.h"
#include "net/proof.h"
#include "net/seal.h"
#include "net_node.h"

static struct memory_net *memory;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void cut(uint32_t a, uint32_t b) {
  memory_net_cut(memory, a, b);
  memory_net_cut(memory, b, a);
}

static void mend(uint32_t a, uint32_t b) {
  memory_net_mend(memory, a, b);
  memory_net_mend(memory, b, a);
}

/* ---- Links ---------------------------------------------------------------------------------- */

struct two {
  struct dmi_transport *at[2]; /* machines 1 and 2; 2 listens */
  struct dmi_link *link[2];
};

static bool is_ready(int fd, short events, int ms) {
  struct pollfd in = {.fd = fd, .events = events};
  return poll(&in, 1, ms) == 1;
}

static struct dmi_link *accept_one(struct dmi_transport *transport) {
  struct dmi_link *link = NULL;
  struct dmi_addr from;
  assert_true(is_ready(transport->incoming, POLLIN, node_limit() * 1000));
  assert_int_equal(transport->ops->accept(transport, &link, &from), 0);
  return link;
}

static struct dmi_transport *listen_as(uint32_t machine, uint16_t port) {
  struct dmi_transport *transport = memory_net_open(memory, machine);
  struct dmi_addr at = {.port = port};
  assert_int_equal(transport->ops->listen(transport, &at), 0);
  return transport;
}

static void connect_two(struct two *two) {
  two->at[0] = memory_net_open(memory, 1);
  two->at[1] = listen_as(2, 0);
  assert_int_equal(two->at[0]->ops->connect(two->at[0], &two->link[0], &two->at[1]->here), 0);
  assert_true(is_ready(two->link[0]->out, POLLOUT, node_limit() * 1000));
  assert_int_equal(two->link[0]->ops->connected(two->link[0]), 0);
  two->link[1] = accept_one(two->at[1]);
  two->link[1]->ops->keep(two->link[1]);
}

static void end_two(struct two *two) {
  for (int i = 0; i < 2; i++) {
    if (two->link[i] != NULL) dmi_link_close(two->link[i]);
    two->at[i]->ops->free(two->at[i]);
  }
}

/* All bytes come, in order, and a receiver that takes none stops the sender. */
static void test_bounded(void **state) {
  (void)state;
  struct two two;
  unsigned char bytes[1000], got[777];
  uint64_t sent = 0, received = 0;
  ssize_t size;
  connect_two(&two);
  for (;;) {
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] = (unsigned char)((sent + i) * 7 >> 3);
    struct iovec iov[2] = {{bytes, 300}, {bytes + 300, 700}};
    size = two.link[0]->ops->send(two.link[0], iov, 2);
    if (size < 0) break;
    sent += (uint64_t)size;
    assert_true(sent < 1 << 20);
  }
  assert_int_equal(size, -EAGAIN);
  assert_true(sent > 100000);
  assert_false(is_ready(two.link[0]->out, POLLOUT, 0));
  assert_int_not_equal(two.link[0]->ops->unacknowledged(two.link[0]), 0);
  assert_true(two.link[0]->ops->silence(two.link[0]) == 0); /* the machine answers */
  while ((size = dmi_link_receive(two.link[1], got, sizeof got)) > 0) {
    for (ssize_t i = 0; i < size; i++, received++)
      assert_int_equal(got[i], (unsigned char)(received * 7 >> 3));
  }
  assert_int_equal(size, -EAGAIN);
  assert_int_equal(received, sent);
  assert_false(is_ready(two.link[1]->in, POLLIN, 0));
  assert_true(is_ready(two.link[0]->out, POLLOUT, 0));
  assert_int_equal(two.link[0]->ops->unacknowledged(two.link[0]), 0);
  end_two(&two);
}

static void test_refused(void **state) {
  (void)state;
  struct dmi_transport *transport = memory_net_open(memory, 1);
  struct dmi_addr nobody = memory_net_addr(2, 9);
  struct dmi_link *link;
  assert_int_equal(transport->ops->connect(transport, &link, &nobody), 0);
  assert_true(is_ready(link->out, POLLOUT, 0));
  assert_int_equal(link->ops->connected(link), -ECONNREFUSED);
  dmi_link_close(link);
  transport->ops->free(transport);
}

/* One listener to a port of a machine. */
static void test_ports(void **state) {
  (void)state;
  struct dmi_transport *first = listen_as(1, 700), *other = listen_as(2, 700);
  struct dmi_transport *second = memory_net_open(memory, 1);
  struct dmi_addr at = {.port = 700}, theirs = memory_net_addr(2, 701);
  assert_int_equal(second->ops->listen(second, &at), -EADDRINUSE);
  assert_int_equal(second->ops->listen(second, &theirs), -EADDRNOTAVAIL);
  at.port = 0;
  assert_int_equal(second->ops->listen(second, &at), 0);
  assert_int_not_equal(second->here.port, 0);
  first->ops->free(first);
  second->ops->free(second);
  other->ops->free(other);
}

/* A normal close comes after all bytes; an abrupt one is an error. */
static void test_end(void **state) {
  (void)state;
  struct two two;
  char text[8];
  connect_two(&two);
  assert_int_equal(dmi_link_send(two.link[0], "abc", 3), 3);
  two.link[0]->ops->finish(two.link[0]);
  assert_int_equal(dmi_link_send(two.link[0], "d", 1), -EPIPE);
  assert_int_equal(dmi_link_receive(two.link[1], text, sizeof text), 3);
  assert_true(is_ready(two.link[1]->in, POLLIN, 0));
  assert_int_equal(dmi_link_receive(two.link[1], text, sizeof text), 0);
  assert_int_equal(dmi_link_send(two.link[1], "e", 1), 1); /* the other direction goes on */
  dmi_link_close(two.link[0]);                             /* it has not received that */
  two.link[0] = NULL;
  assert_int_equal(dmi_link_receive(two.link[1], text, sizeof text), -ECONNRESET);
  end_two(&two);
}

/* A connection from outside is closed with a reset. */
static void test_stranger(void **state) {
  (void)state;
  struct dmi_transport *from = memory_net_open(memory, 1), *at = listen_as(2, 0);
  struct dmi_link *link;
  char byte;
  assert_int_equal(from->ops->connect(from, &link, &at->here), 0);
  dmi_link_close(accept_one(at));
  assert_int_equal(dmi_link_receive(link, &byte, 1), -ECONNRESET);
  dmi_link_close(link);
  from->ops->free(from);
  at->ops->free(at);
}

static void test_delay(void **state) {
  (void)state;
  struct two two;
  char byte;
  connect_two(&two);
  memory_net_delay(memory, 1, 2, 0.1);
  double from = now();
  assert_int_equal(dmi_link_send(two.link[0], "x", 1), 1);
  assert_int_equal(dmi_link_send(two.link[1], "y", 1), 1); /* the other direction still works */
  assert_int_equal(dmi_link_receive(two.link[0], &byte, 1), 1);
  assert_true(is_ready(two.link[1]->in, POLLIN, node_limit() * 1000));
  assert_true(now() - from > 0.099);
  assert_int_equal(dmi_link_receive(two.link[1], &byte, 1), 1);
  memory_net_delay(memory, 1, 2, 0);
  end_two(&two);
}

static void test_cut(void **state) {
  (void)state;
  struct two two;
  char text[8];
  connect_two(&two);
  memory_net_cut(memory, 1, 2);
  assert_int_equal(dmi_link_send(two.link[0], "abc", 3), 3);
  assert_int_equal(dmi_link_send(two.link[0], "def", 3), 3);
  assert_int_equal(dmi_link_receive(two.link[1], text, sizeof text), -EAGAIN);
  assert_int_equal(two.link[0]->ops->unacknowledged(two.link[0]), 6);
  assert_true(two.link[0]->ops->silence(two.link[0]) > 0);
  memory_net_mend(memory, 1, 2);
  assert_int_equal(dmi_link_receive(two.link[1], text, sizeof text), 6);
  assert_memory_equal(text, "abcdef", 6);
  assert_int_equal(two.link[0]->ops->unacknowledged(two.link[0]), 0);
  assert_true(two.link[0]->ops->silence(two.link[0]) == 0);
  end_two(&two);
}

static void test_reset(void **state) {
  (void)state;
  struct two two;
  char byte;
  connect_two(&two);
  assert_int_equal(dmi_link_send(two.link[0], "x", 1), 1);
  assert_int_equal(memory_net_reset(memory, 2, 1), 1);
  for (int i = 0; i < 2; i++) {
    assert_true(is_ready(two.link[i]->in, POLLIN, 0) && is_ready(two.link[i]->out, POLLOUT, 0));
    assert_int_equal(dmi_link_receive(two.link[i], &byte, 1), -ECONNRESET);
    assert_int_equal(dmi_link_send(two.link[i], "x", 1), -ECONNRESET);
  }
  end_two(&two);
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

#define NODES 3

static struct dmi_msg plain(uint64_t op) {
  struct dmi_msg msg = {.type = DMI_MSG_GET};
  msg.access.op.n = op;
  return msg;
}

/* Members 1, 2, .., at machines of these numbers, that know each other.  The first `look` of them
 * check for silence. */
static void start_some(struct node *nodes, uint32_t num, uint32_t dead_after, uint32_t look) {
  for (uint32_t i = 0; i < num; i++) {
    node_dead_after = i < look ? dead_after : 0;
    node_open(&nodes[i], i + 1);
  }
  node_dead_after = 0;
  node_run_all(nodes, num);
}

static void start(struct node *nodes, uint32_t num, uint32_t dead_after) {
  start_some(nodes, num, dead_after, num);
}

static void finish(struct node *nodes, uint32_t num) {
  node_end_all(nodes, num);
  assert_int_equal(dmi_frame_total(), 0);
}

/* Makes a connection; nothing is in flight afterwards. */
static void greet(struct node *a, struct node *b) {
  uint64_t before = NODE_NOW(b, messages);
  node_send(a, b->uid, plain(1));
  NODE_WAIT(b, messages, before + 1);
}

static void check_lost(struct node *node, uint32_t uid, const char *why) {
  NODE_WAIT(node, lost_num, 1);
  assert_int_equal(node->lost_id, uid);
  if (strstr(node->lost_why, why) == NULL) print_error("%s\n", node->lost_why);
  assert_non_null(strstr(node->lost_why, why));
}

/* A connection breaks: both ends notice it, and no other. */
static void test_loss(void **state) {
  (void)state;
  struct node nodes[NODES];
  start(nodes, NODES, 0);
  greet(&nodes[0], &nodes[1]);
  greet(&nodes[0], &nodes[2]);
  assert_int_equal(memory_net_reset(memory, 1, 2), 1);
  check_lost(&nodes[0], 2, "Connection reset");
  check_lost(&nodes[1], 1, "Connection reset");
  greet(&nodes[0], &nodes[2]);
  greet(&nodes[1], &nodes[2]);
  assert_int_equal(NODE_NOW(&nodes[2], lost_num), 0);
  finish(nodes, NODES);
}

/* Everything that waits because of a cut arrives in order when the route is restored: attempts to
 * connect, messages. */
static void test_cut_mended(void **state) {
  (void)state;
  struct node nodes[2];
  for (int connected = 0; connected < 2; connected++) {
    uint64_t before = 0;
    start(nodes, 2, 0);
    if (connected) {
      greet(&nodes[0], &nodes[1]);
      before = 1;
    }
    cut(1, 2);
    for (uint64_t i = 0; i < 100; i++)
      node_send(&nodes[0], 2, plain(i));
    assert_int_equal(NODE_NOW(&nodes[1], messages), before);
    mend(1, 2);
    NODE_WAIT(&nodes[1], messages, before + 100);
    assert_int_equal(nodes[1].last.access.op.n, 99);
    assert_int_equal(NODE_NOW(&nodes[0], lost_num) + NODE_NOW(&nodes[1], lost_num), 0);
    finish(nodes, 2);
  }
}

/* Both begin to connect before an attempt arrives, and the attempts arrive in either order. */
static void test_both_connect(void **state) {
  (void)state;
  for (uint32_t round = 0; round < 20; round++) {
    struct node nodes[2];
    start(nodes, 2, 0);
    cut(1, 2);
    node_send(&nodes[0], 2, plain(1));
    node_send(&nodes[1], 1, plain(2));
    memory_net_mend(memory, 1 + round % 2, 2 - round % 2);
    memory_net_mend(memory, 2 - round % 2, 1 + round % 2);
    NODE_WAIT(&nodes[0], messages, 1);
    NODE_WAIT(&nodes[1], messages, 1);
    greet(&nodes[0], &nodes[1]);
    greet(&nodes[1], &nodes[0]);
    assert_int_equal(NODE_NOW(&nodes[0], lost_num) + NODE_NOW(&nodes[1], lost_num), 0);
    finish(nodes, 2);
  }
}

/* A machine is silent: with bytes in flight to it, with none, and before there is a connection. */
static void test_silent(void **state) {
  (void)state;
  struct node nodes[2];
  for (int how = 0; how < 3; how++) {
    start(nodes, 2, 1);
    if (how < 2) greet(&nodes[0], &nodes[1]);
    double from = now();
    cut(1, 2);
    if (how != 1) node_send(&nodes[0], 2, plain(2));
    check_lost(&nodes[0], 2, "silent for 1 s (dmirun --dead-after)");
    assert_true(now() - from > 0.9);
    if (how < 2) check_lost(&nodes[1], 1, "silent for 1 s");
    mend(1, 2);
    finish(nodes, 2);
  }
}

/* Only one direction is cut.  (If the other process checked, too, its reset could come first.) */
static void test_half_silent(void **state) {
  (void)state;
  struct node nodes[2];
  start_some(nodes, 2, 1, 1);
  greet(&nodes[0], &nodes[1]);
  memory_net_cut(memory, 1, 2);
  node_send(&nodes[0], 2, plain(2));
  check_lost(&nodes[0], 2, "silent for 1 s");
  memory_net_mend(memory, 1, 2);
  finish(nodes, 2);
}

/* The other end of a handshake, step by step: receives the CALL. */
static struct dmi_link *take_call(struct dmi_transport *at, struct dmi_proof *proof) {
  unsigned char call[DMI_CALL_BYTES];
  struct dmi_link *link = accept_one(at);
  assert_true(is_ready(link->in, POLLIN, node_limit() * 1000));
  assert_int_equal(dmi_link_receive(link, call, sizeof call), sizeof call);
  assert_true(dmi_proof_called(proof, node_key, call));
  return link;
}

static void say_answer(struct dmi_link *link, struct dmi_proof *proof) {
  unsigned char answer[DMI_ANSWER_BYTES];
  dmi_proof_answer(proof, node_key, 0, answer);
  assert_int_equal(dmi_link_send(link, answer, sizeof answer), sizeof answer);
}

/* Its machine accepts, answers, and then is silent: PROOF and HELLO are in flight to it. */
static void test_dies_in_handshake(void **state) {
  (void)state;
  struct node a;
  struct dmi_proof proof;
  struct dmi_transport *at = listen_as(2, 0);
  node_dead_after = 1;
  node_open(&a, 1);
  node_dead_after = 0;
  dmi_net_add_peer(a.net, 2, &at->here);
  node_run(&a);
  node_send(&a, 2, plain(7));
  struct dmi_link *link = take_call(at, &proof);
  double from = now();
  memory_net_cut(memory, 1, 2);
  say_answer(link, &proof);
  check_lost(&a, 2, "silent for 1 s");
  assert_true(now() - from > 0.9);
  memory_net_mend(memory, 1, 2);
  node_stop(&a);
  node_free(&a);
  dmi_link_close(link);
  at->ops->free(at);
}

/* Plays member 2 on a connected link: sends CALL; `said` gets the bytes to send after ANSWER. */
static void call_as_member(struct dmi_link *link,
                           unsigned char said[DMI_PROOF_BYTES + DMI_HELLO_BYTES + DMI_SEAL_OVER]) {
  unsigned char call[DMI_CALL_BYTES], answer[DMI_ANSWER_BYTES], bytes[DMI_HELLO_BYTES];
  struct dmi_hello hello = {.kind = DMI_HELLO_HELLO, .version = DMI_WIRE_VERSION, .uid = 2};
  struct dmi_proof proof;
  struct dmi_proof_keys keys;
  memcpy(hello.build, node_build, sizeof hello.build);
  memcpy(hello.program, node_program, sizeof hello.program);
  dmi_proof_call(&proof, node_key, 0, call);
  assert_int_equal(dmi_link_send(link, call, sizeof call), sizeof call);
  assert_true(is_ready(link->in, POLLIN, node_limit() * 1000));
  assert_int_equal(dmi_link_receive(link, answer, sizeof answer), sizeof answer);
  assert_true(dmi_proof_answered(&proof, node_key, answer));
  assert_true(dmi_proof_make(&proof, node_key, said, &keys));
  dmi_hello_put(bytes, &hello);
  dmi_seal_put_first(keys.out, said + DMI_PROOF_BYTES, bytes, sizeof bytes);
}

/* The machine of a caller is silent when only HELLO_OK is in flight to it. */
static void test_caller_dies_in_handshake(void **state) {
  (void)state;
  struct node a;
  struct dmi_link *link;
  unsigned char said[DMI_PROOF_BYTES + DMI_HELLO_BYTES + DMI_SEAL_OVER];
  struct dmi_transport *at = listen_as(2, 0);
  node_dead_after = 1;
  node_open(&a, 1);
  node_dead_after = 0;
  dmi_net_add_peer(a.net, 2, &at->here);
  struct dmi_addr to = node_addr(&a);
  node_run(&a);
  assert_int_equal(at->ops->connect(at, &link, &to), 0);
  assert_true(is_ready(link->out, POLLOUT, node_limit() * 1000));
  assert_int_equal(link->ops->connected(link), 0);
  call_as_member(link, said);
  memory_net_cut(memory, 1, 2);
  assert_int_equal(dmi_link_send(link, said, sizeof said), sizeof said);
  check_lost(&a, 2, "silent for 1 s");
  memory_net_mend(memory, 1, 2);
  node_stop(&a);
  node_free(&a);
  dmi_link_close(link);
  at->ops->free(at);
}

/* A process that does not go on with the handshake is waited for while its machine answers. */
static void test_stopped_in_handshake(void **state) {
  (void)state;
  struct node a;
  struct dmi_proof proof;
  struct dmi_transport *stopped = listen_as(2, 0), *silent[2] = {listen_as(3, 0), listen_as(4, 0)};
  node_dead_after = 1;
  node_open(&a, 1);
  node_dead_after = 0;
  dmi_net_add_peer(a.net, 2, &stopped->here);
  for (uint32_t i = 0; i < 2; i++) {
    dmi_net_add_peer(a.net, 3 + i, &silent[i]->here);
    memory_net_cut(memory, 1, 3 + i);
  }
  node_run(&a);
  node_send(&a, 2, plain(7));
  struct dmi_link *link = take_call(stopped, &proof);
  for (uint32_t i = 0; i < 2; i++) { /* each takes a second */
    node_send(&a, 3 + i, plain(8));
    NODE_WAIT(&a, lost_num, i + 1);
    assert_int_equal(a.lost_id, 3 + i);
  }
  say_answer(link, &proof);
  assert_true(is_ready(link->in, POLLIN, node_limit() * 1000)); /* it continues */
  assert_int_equal(NODE_NOW(&a, lost_num), 2);
  node_expect_close(&a);
  node_stop(&a);
  node_free(&a);
  dmi_link_close(link);
  stopped->ops->free(stopped);
  for (uint32_t i = 0; i < 2; i++) {
    memory_net_mend(memory, 1, 3 + i);
    silent[i]->ops->free(silent[i]);
  }
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from, (void)msg;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
}

/* A process receives nothing for longer than dead_after, with megabytes in flight to it. */
static void test_closed_window(void **state) {
  (void)state;
  enum { BODY = 8 << 20 };
  struct node nodes[NODES];
  start(nodes, NODES, 1);
  greet(&nodes[0], &nodes[1]);
  pthread_mutex_lock(&gate);
  nodes[1].on_message = wait_at_gate;
  node_send(&nodes[0], 2, plain(2));
  struct dmi_msg put = {.type = DMI_MSG_PUT};
  put.access.len = BODY;
  put.body.frame = dmi_frame_new(BODY);
  put.body.ptr = put.body.frame->bytes;
  put.body.len = BODY;
  node_send(&nodes[0], 2, put);
  cut(1, 3);
  node_send(&nodes[0], 3, plain(3)); /* takes longer */
  check_lost(&nodes[0], 3, "silent for 1 s");
  pthread_mutex_unlock(&gate);
  NODE_WAIT(&nodes[1], messages, 3);
  assert_int_equal(NODE_NOW(&nodes[0], lost_num), 1);
  mend(1, 3);
  finish(nodes, NODES);
}

/* A process that joins through a machine that does not answer gets an error. */
static void test_join_silent(void **state) {
  (void)state;
  struct node nodes[2];
  struct dmi_addr seed;
  node_open(&nodes[0], 1);
  node_run(&nodes[0]);
  seed = node_addr(&nodes[0]);
  node_patience = 0.3;
  node_open(&nodes[1], 0);
  node_patience = 0;
  cut(0, 1);
  dmi_net_join_addr(nodes[1].net, &seed);
  node_run(&nodes[1]);
  NODE_WAIT(&nodes[1], joined_num, 1);
  assert_false(nodes[1].joined_ok);
  assert_non_null(strstr(nodes[1].joined_why, "10.0.0.1 port"));
  assert_non_null(strstr(nodes[1].joined_why, "does not answer"));
  mend(0, 1);
  finish(nodes, 2);
}

/* A slow network: two round trips, and then the message. */
static void test_slow(void **state) {
  (void)state;
  struct node nodes[2];
  start(nodes, 2, 0);
  memory_net_delay(memory, 1, 2, 0.05);
  memory_net_delay(memory, 2, 1, 0.05);
  double from = now();
  greet(&nodes[0], &nodes[1]);
  assert_true(now() - from > 0.24); /* SYN, CALL, PROOF, message; ANSWER, HELLO_OK */
  memory_net_delay(memory, 1, 2, 0);
  memory_net_delay(memory, 2, 1, 0);
  finish(nodes, 2);
}

int main(void) {
  const struct CMUnitTest links[] = {
      cmocka_unit_test(test_bounded), cmocka_unit_test(test_refused),  cmocka_unit_test(test_ports),
      cmocka_unit_test(test_end),     cmocka_unit_test(test_stranger), cmocka_unit_test(test_delay),
      cmocka_unit_test(test_cut),     cmocka_unit_test(test_reset)};
  const struct CMUnitTest nodes[] = {cmocka_unit_test(test_loss),
                                     cmocka_unit_test(test_cut_mended),
                                     cmocka_unit_test(test_both_connect),
                                     cmocka_unit_test(test_silent),
                                     cmocka_unit_test(test_half_silent),
                                     cmocka_unit_test(test_dies_in_handshake),
                                     cmocka_unit_test(test_caller_dies_in_handshake),
                                     cmocka_unit_test(test_stopped_in_handshake),
                                     cmocka_unit_test(test_closed_window),
                                     cmocka_unit_test(test_join_silent),
                                     cmocka_unit_test(test_slow)};
  memory = memory_net_new();
  node_transport = open_memory;
  int failed = cmocka_run_group_tests(links, NULL, NULL);
  failed += cmocka_run_group_tests(nodes, NULL, NULL);
  memory_net_free(memory);
  return failed;
}
