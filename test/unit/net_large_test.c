/*
 * net_large_test.c - what a large body must not cost: a thread that is woken for each piece of it,
 * a daemon that looks for messages instead of going on with what it sends, memory for many records
 * when it has travelled.
 *
 * How often is counted; nothing here depends on how fast the machine is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>

#include "net/net_int.h"
#include "net_node.h"

#define LARGE ((size_t)1 << 20)
#define PIECE ((size_t)16 << 10)
#define MANY 64 /* large messages: more than any system keeps for a process that does not read */
#define WOKEN 8 /* once for its begin, for 4 x 256 KiB, and for the end */

static void await_arrived(struct dmi_link *link) {
  while (link->ops->unacknowledged(link) != 0)
    sched_yield();
}

/* ---- A link over TCP that shows only so much ------------------------------------------------- */

struct ends {
  struct dmi_transport *transport;
  struct dmi_link *a, *b;
};

static void ends_open(struct ends *ends) {
  const char *why;
  struct dmi_addr from;
  const struct dmi_addr any = {0};
  ends->transport = dmi_tcp_open("127.0.0.1", &why);
  const struct dmi_transport_ops *ops = ends->transport->ops;
  assert_int_equal(ops->listen(ends->transport, &any), 0);
  assert_int_equal(ops->connect(ends->transport, &ends->a, &ends->transport->here), 0);
  struct pollfd in = {.fd = ends->transport->incoming, .events = POLLIN};
  assert_int_equal(poll(&in, 1, -1), 1);
  assert_int_equal(ops->accept(ends->transport, &ends->b, &from), 0);
  ops->keep(ends->b);
}

static void ends_close(struct ends *ends) {
  dmi_link_close(ends->a);
  dmi_link_close(ends->b);
  ends->transport->ops->free(ends->transport);
}

/* Both ends are on this machine, so no network is there to be spared. */
static void test_control(void **state) {
  (void)state;
  struct ends ends;
  char name[16] = "";
  socklen_t size = sizeof name;
  ends_open(&ends);
  if (setsockopt(ends.a->in, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0) { /* it is allowed */
    assert_int_equal(getsockopt(ends.b->in, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    assert_string_equal(name, "reno");
  }
  ends_close(&ends);
}

static bool shows(struct dmi_link *link, int timeout) {
  struct pollfd in = {.fd = link->in, .events = POLLIN};
  return poll(&in, 1, timeout) == 1;
}

static void test_await(void **state) {
  (void)state;
  struct ends ends;
  unsigned char bytes[1000] = {0};
  ends_open(&ends);
  dmi_link_await(ends.b, sizeof bytes);
  assert_int_equal(dmi_link_send(ends.a, bytes, 999), 999);
  await_arrived(ends.a);
  assert_false(shows(ends.b, 0));
  assert_int_equal(dmi_link_send(ends.a, bytes, 1), 1);
  assert_true(shows(ends.b, -1));
  assert_int_equal(dmi_link_receive(ends.b, bytes, sizeof bytes), 1000);
  dmi_link_await(ends.b, 1);
  assert_int_equal(dmi_link_send(ends.a, bytes, 1), 1);
  assert_true(shows(ends.b, -1));
  assert_int_equal(dmi_link_receive(ends.b, bytes, sizeof bytes), 1);
  dmi_link_await(ends.b, sizeof bytes); /* but never more than comes at all */
  assert_int_equal(dmi_link_send(ends.a, bytes, 5), 5);
  ends.a->ops->finish(ends.a);
  assert_true(shows(ends.b, -1));
  ends_close(&ends);
}

/* ---- A thread that sleeps while a large body arrives ----------------------------------------- */

static _Atomic uint32_t waiting; /* for the answer */

static void on_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from;
  if (msg->type == DMI_MSG_GOT) atomic_store(&waiting, 0);
}

static void start(struct node *nodes, uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    node_open(&nodes[i], i + 1);
    nodes[i].on_message = on_message;
  }
  node_run_all(nodes, num);
}

/* Two nodes that have spoken with each other. */
static void start_two(struct node *nodes) {
  start(nodes, 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_true(node_send(&nodes[i], 2 - i, (struct dmi_msg){.type = DMI_MSG_GET}));
    NODE_WAIT(&nodes[1 - i], messages, 1);
  }
}

/* Part of a message, as the node's daemon would send it. */
struct part {
  const unsigned char *bytes;
  size_t size;
};

static void run_send(struct node *node, void *arg) {
  const struct part *part = arg;
  struct dmi_link *link = dmi_peer_find(node->net, 1)->conn->link;
  for (size_t sent = 0; sent < part->size;) {
    const ssize_t size = dmi_link_send(link, part->bytes + sent, part->size - sent);
    assert_true(size > 0 || dmi_link_is_later(size));
    if (size > 0) sent += (size_t)size;
  }
  await_arrived(link);
}

static void *send_pieces(void *arg) {
  static unsigned char bytes[DMI_WIRE_HEADER + LARGE];
  struct dmi_msg msg = {.type = DMI_MSG_GOT, .body = {NULL, bytes, LARGE}};
  msg.got.len = LARGE;
  dmi_wire_put(bytes, &msg);
  for (size_t at = 0; at < sizeof bytes; at += PIECE) {
    const size_t left = sizeof bytes - at;
    struct part part = {bytes + at, left < PIECE ? left : PIECE};
    node_do(arg, run_send, &part);
  }
  return NULL;
}

static void test_woken(void **state) {
  (void)state;
  struct node nodes[2];
  struct dmi_net_loan loan;
  pthread_t sender;
  node_spin = 0;
  start_two(nodes);
  while (dmi_net_borrow(nodes[0].net, 2, &loan) < 0)
    sched_yield();
  loan.look = NULL;
  atomic_store(&waiting, 1);
  assert_int_equal(pthread_create(&sender, NULL, send_pieces, &nodes[1]), 0);
  dmi_net_receive(&loan, &waiting, 1);
  dmi_net_give_back(&loan);
  pthread_join(sender, NULL);
  assert_false(loan.owed);
  assert_in_range(loan.sleeps, 1, WOKEN);
  node_end_all(nodes, 2);
}

/* ---- A daemon that has more to send than the network takes ----------------------------------- */

static struct dmi_msg large(void) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT};
  struct dmi_frame *frame = dmi_frame_new_zero(LARGE);
  msg.body = (struct dmi_slice){frame, frame->bytes, LARGE};
  return msg;
}

static void run_full(struct node *node, void *arg) {
  *(uint32_t *)arg = node->net->full;
}

static void run_looks(struct node *node, void *arg) {
  *(uint64_t *)arg = node->net->looks;
}

static uint64_t looks(struct node *node) {
  uint64_t num;
  node_do(node, run_looks, &num);
  return num;
}

static void test_full(void **state) {
  (void)state;
  struct node nodes[3];
  struct node_gate gate;
  uint32_t full = 0;
  node_spin = 50;
  start(nodes, 3);
  assert_true(node_send(&nodes[2], 1, (struct dmi_msg){.type = DMI_MSG_GET}));
  NODE_WAIT(&nodes[0], messages, 1);
  assert_true(node_send(&nodes[0], 2, (struct dmi_msg){.type = DMI_MSG_GET}));
  NODE_WAIT(&nodes[1], messages, 1);
  while (looks(&nodes[0]) == 0) { /* otherwise it does look, behind a message */
    assert_true(node_send(&nodes[2], 1, (struct dmi_msg){.type = DMI_MSG_GET}));
    sched_yield();
  }
  node_gate_shut(&gate, &nodes[1]);
  for (uint32_t i = 0; i < MANY; i++)
    assert_true(node_send(&nodes[0], 2, large()));
  while (full == 0)
    node_do(&nodes[0], run_full, &full);
  const uint64_t before = looks(&nodes[0]), had = NODE_NOW(&nodes[0], messages);
  for (uint32_t i = 0; i < 20; i++) {
    assert_true(node_send(&nodes[2], 1, (struct dmi_msg){.type = DMI_MSG_GET}));
    NODE_WAIT(&nodes[0], messages, had + 1 + i);
  }
  assert_int_equal(looks(&nodes[0]), before);
  node_gate_open(&gate);
  NODE_WAIT(&nodes[1], messages, 1 + MANY);
  do { /* and looks again when all is sent */
    assert_true(node_send(&nodes[2], 1, (struct dmi_msg){.type = DMI_MSG_GET}));
    node_do(&nodes[0], run_full, &full);
  } while (full != 0 || looks(&nodes[0]) == before);
  node_end_all(nodes, 3);
}

/* ---- Memory for many records ----------------------------------------------------------------- */

static _Atomic bool much_in; /* a message came in the memory that is for large bodies */

static void on_sealed(struct node *node, uint32_t from, struct dmi_msg *msg) {
  const struct dmi_conn *conn = dmi_peer_find(node->net, from)->conn;
  if (conn->in != conn->in_few) atomic_store(&much_in, true);
  on_message(node, from, msg);
}

static struct dmi_transport_ops counting; /* as those of the link, but for `send` */
static const struct dmi_transport_ops *counted;
static _Atomic size_t most_sent; /* bytes given to the link at once */

static ssize_t counting_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  if (iov->iov_len > atomic_load(&most_sent)) atomic_store(&most_sent, iov->iov_len);
  return counted->send(link, iov, num);
}

static void run_count(struct node *node, void *arg) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(node->net, 2);
  (void)arg;
  counted = peer->link->ops;
  counting = *counted;
  counting.send = counting_send;
  peer->link->ops = &counting;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
}

/* Whether the peer has more memory for sending than each has, when no thread sends. */
static void run_much(struct node *node, void *arg) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(node->net, 2);
  *(bool *)arg = peer->out->bytes != peer->out->few;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
}

static void test_much_out(void **state) {
  (void)state;
  struct node nodes[2];
  bool much;
  node_spin = 0;
  node_encrypt = true;
  start_two(nodes);
  nodes[1].on_message = on_sealed;
  node_do(&nodes[0], run_count, NULL);
  assert_true(node_send(&nodes[0], 2, (struct dmi_msg){.type = DMI_MSG_GET}));
  NODE_WAIT(&nodes[1], messages, 2);
  assert_in_range(atomic_load(&most_sent), 1, DMI_NET_OUT);
  for (uint32_t i = 0; i < MANY; i++)
    assert_true(node_send(&nodes[0], 2, large()));
  NODE_WAIT(&nodes[1], messages, 2 + MANY);
  assert_in_range(atomic_load(&most_sent), DMI_NET_OUT + 1, DMI_NET_SEALED);
  node_do(&nodes[0], run_much, &much);
  assert_false(much);
  assert_false(atomic_load(&much_in)); /* the daemon takes its usual share */
  node_end_all(nodes, 2);
  node_encrypt = false;
}

static void test_much_in(void **state) {
  (void)state;
  struct node nodes[2];
  struct dmi_net_loan loan;
  node_spin = 0;
  node_encrypt = true;
  start_two(nodes);
  nodes[0].on_message = on_sealed;
  for (uint32_t i = 0; i < 2; i++) {
    atomic_store(&much_in, false);
    while (dmi_net_borrow(nodes[0].net, 2, &loan) < 0)
      sched_yield();
    loan.look = NULL;
    atomic_store(&waiting, 1);
    assert_true(node_send(&nodes[1], 1, large()));
    dmi_net_receive(&loan, &waiting, 1);
    assert_false(loan.owed);
    assert_true(atomic_load(&much_in));
    assert_ptr_equal(loan.conn->in, loan.conn->in_few);
    dmi_net_give_back(&loan);
  }
  node_end_all(nodes, 2);
  node_encrypt = false;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_await),    cmocka_unit_test(test_control),
      cmocka_unit_test(test_woken),    cmocka_unit_test(test_full),
      cmocka_unit_test(test_much_out), cmocka_unit_test(test_much_in)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
