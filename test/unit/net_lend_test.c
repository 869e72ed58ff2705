/*
 * net_lend_test.c - threads that wait receive themselves (lib/net/lend.c): the order of messages,
 * passing on the turn, and everything that can happen to a connection while it is lent.
 *
 * The numbers of a sender's messages, which only one thread may use at a time, are not locked here,
 * so that the thread sanitizer notices if two threads have the turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/memory_net.h"
#include "net/net_int.h"
#include "net_node.h"
#include "access/status.h"

#define LIMIT 60 /* seconds for a round of all tests: a forgotten waiter must not wait for ever */
#define FOR_DAEMON DMI_MSG_UPDATE
#define SIZE_MOST 200000
#define THREADS 6 /* per node */

/* ---- Calls: a request with a number, and its answer ----------------------------------------- */

struct call {
  struct dmi_status status;
  _Atomic uint64_t op; /* of the request in flight */
  unsigned char *buf;  /* for the answer's bytes */
  struct dmi_look_past look;
};

/* Of a node, as a sender and as a receiver. */
struct side {
  pthread_mutex_t lock; /* sending: number and place in the queue go together */
  uint64_t sent[4];     /* to each uid */
  uint64_t seen[4];     /* from each uid; whoever receives */
  struct call call[THREADS + 1];
  _Atomic uint64_t wrong_order, wrong_thread, wrong_bytes, lent, by_daemon;
};

static struct side sides[4];
static _Atomic uint32_t
    disturb; /* one of so many answers comes after a message for the daemon; 0: none */

static void side_send(struct node *node, uint32_t to, struct dmi_msg msg) {
  struct side *side = &sides[node->uid];
  pthread_mutex_lock(&side->lock);
  msg.page = side->sent[to]++;
  dmi_net_send(node->net, to, &msg);
  pthread_mutex_unlock(&side->lock);
  dmi_net_flush(node->net, to);
}

static unsigned char byte_of(uint64_t op, uint64_t at) {
  return (unsigned char)(op * 31 + (op >> 32) + at);
}

/* In a message, `page` is its number at its sender; in a request `off` is the uid that shall
 * answer, `len` how many bytes, `origin` to whom. */
static void answer(struct node *node, const struct dmi_msg *request) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT};
  uint64_t op = request->access.op.n, len = request->access.len;
  msg.got = (struct dmi_msg_got){.op = {op}, .len = len};
  if (disturb != 0 && op % disturb == 0) {
    side_send(node, request->origin, (struct dmi_msg){.type = FOR_DAEMON});
  }
  if (len != 0) {
    struct dmi_frame *frame = dmi_frame_new(len);
    for (uint64_t i = 0; i < len; i++)
      frame->bytes[i] = byte_of(op, i);
    msg.body = (struct dmi_slice){frame, frame->bytes, len};
  }
  side_send(node, request->origin, msg);
}

static void answer_arrives(struct side *side, const struct dmi_msg *msg) {
  struct call *call = &side->call[msg->got.op.n >> 32];
  if (atomic_load(&call->op) != msg->got.op.n || msg->body.len != msg->got.len) side->wrong_bytes++;
  for (uint64_t i = 0; i < msg->body.len; i += 1 + i / 64) {
    if (msg->body.ptr != call->buf || call->buf[i] != byte_of(msg->got.op.n, i)) {
      side->wrong_bytes++;
      break;
    }
  }
  dmi_status_done(&call->status, DMI_OK);
}

static void on_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct side *side = &sides[node->uid];
  bool daemon = dmi_net_is_daemon(node->net);
  if (msg->page != side->seen[from]) side->wrong_order++;
  side->seen[from] = msg->page + 1;
  if (msg->type == DMI_MSG_GOT) {
    daemon ? side->by_daemon++ : side->lent++;
    answer_arrives(side, msg);
    return;
  }
  if (!daemon) side->wrong_thread++;
  if (msg->type != DMI_MSG_GET || msg->access.off == 0) return;
  if (msg->access.off == node->uid)
    answer(node, msg);
  else
    side_send(node, (uint32_t)msg->access.off, *msg);
}

static void *on_body(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)from;
  return sides[node->uid].call[msg->got.op.n >> 32].buf;
}

/* Asks `asked`, is answered by `by` (0: by nobody), and waits. */
static void call_out(struct node *node, struct call *call, uint32_t asked, uint32_t by, uint64_t op,
                     uint64_t len) {
  struct dmi_msg msg = {.type = DMI_MSG_GET, .origin = node->uid};
  msg.access = (struct dmi_msg_access){.op = {op}, .off = by, .len = len};
  dmi_status_begin(&call->status);
  call->status.asked = asked;
  atomic_store(&call->op, op);
  side_send(node, asked, msg);
  dmi_status_receive(&call->status, node->net, op % 2 != 0 ? &call->look : NULL);
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

static void start_disturbed(struct node *nodes, uint32_t num, uint32_t disturbance) {
  disturb = disturbance;
  memset(sides, 0, sizeof sides);
  for (uint32_t i = 0; i < num; i++) {
    struct side *side = &sides[i + 1];
    pthread_mutex_init(&side->lock, NULL);
    for (int j = 0; j <= THREADS; j++)
      side->call[j].buf = malloc(SIZE_MOST);
    node_open(&nodes[i], i + 1);
    nodes[i].on_body = on_body;
    nodes[i].on_message = on_message;
  }
  node_run_all(nodes, num);
}

static void start(struct node *nodes, uint32_t num) {
  start_disturbed(nodes, num, 0);
}

static void check_sides(uint32_t num) {
  for (uint32_t i = 1; i <= num; i++) {
    struct side *side = &sides[i];
    assert_int_equal(side->wrong_order, 0);
    assert_int_equal(side->wrong_thread, 0);
    assert_int_equal(side->wrong_bytes, 0);
    for (int j = 0; j <= THREADS; j++)
      free(side->call[j].buf);
    pthread_mutex_destroy(&side->lock);
  }
  assert_int_equal(dmi_frame_total(), 0);
}

static void finish(struct node *nodes, uint32_t num) {
  node_end_all(nodes, num);
  check_sides(num);
}

static bool is_free(struct node *node, uint32_t to) {
  struct dmi_net_peer *peer = dmi_peer_find(node->net, to);
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  bool is = peer->conn != NULL && peer->conn->turn == DMI_TURN_FREE;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  return is;
}

/* A connection is lent only after the other side has sent something, and the daemon has handled it.
 */
static void speak(struct node *node, uint32_t to) {
  call_out(node, &sides[node->uid].call[THREADS], to, to, (uint64_t)THREADS << 32, 0);
  while (!is_free(node, to))
    sched_yield();
}

static void wait_lent(struct node *node, uint32_t least) {
  while (atomic_load(&node->net->lent) < least)
    sched_yield();
}

/* A thread that asks and waits until its call is completed. */
struct waiter {
  struct node *node;
  uint32_t asked, by;
  pthread_t thread;
};

static void *waiter_main(void *arg) {
  struct waiter *waiter = arg;
  call_out(waiter->node, &sides[waiter->node->uid].call[0], waiter->asked, waiter->by, 5, 0);
  return NULL;
}

static void waiter_run(struct waiter *waiter) {
  pthread_create(&waiter->thread, NULL, waiter_main, waiter);
  wait_lent(waiter->node, 1);
}

/* One that borrows from `asked`, which will not answer. */
static void waiter_start(struct waiter *waiter, struct node *node, uint32_t asked) {
  *waiter = (struct waiter){.node = node, .asked = asked};
  speak(node, asked);
  waiter_run(waiter);
}

/* Two nodes, the first of which waits for the second. */
static void start_waiting(struct node *nodes, struct waiter *waiter) {
  start(nodes, 2);
  waiter_start(waiter, &nodes[0], 2);
}

/* The connection is over, so it has gone on to wait in another way. */
static void waiter_end(struct waiter *waiter) {
  while ((atomic_load(&waiter->node->net->lent) & ~(DMI_NET_ENDED | DMI_NET_KEPT)) != 0)
    sched_yield();
  dmi_status_done(&sides[waiter->node->uid].call[0].status, DMI_OK);
  pthread_join(waiter->thread, NULL);
}

/* ---- Many at once --------------------------------------------------------------------------- */

struct hammer {
  struct node *node;
  uint32_t number, count;
};

static void *hammer_main(void *arg) {
  static const uint64_t sizes[] = {0, 8, 0, 600, 8, 70000, 0, 8, SIZE_MOST, 4096, 0};
  struct hammer *hammer = arg;
  struct node *node = hammer->node;
  struct call *call = &sides[node->uid].call[hammer->number];
  unsigned random = node->uid * 100 + hammer->number;
  for (uint32_t i = 0; i < hammer->count; i++) {
    uint32_t asked, by;
    do {
      asked = 1 + (uint32_t)rand_r(&random) % 3;
    } while (asked == node->uid);
    do {
      by = 1 + (uint32_t)rand_r(&random) % 3;
    } while (by == node->uid);
    if (i % 4 != 0) by = asked; /* usually by the node that is asked */
    call_out(node, call, asked, by, (uint64_t)hammer->number << 32 | i,
             sizes[(i + hammer->number) % 11]);
  }
  return NULL;
}

/* `callers` nodes out of three make calls of each other in several threads each. */
static void hammer(uint32_t callers, uint32_t threads, uint32_t count, uint32_t disturbance) {
  struct node nodes[3];
  struct hammer hammers[3 * THREADS];
  pthread_t thread[3 * THREADS];
  const char *scale = getenv("DMI_TEST_SCALE");
  uint32_t num = 0;
  if (scale != NULL && strcmp(scale, "small") == 0) count /= 5;
  start_disturbed(nodes, 3, disturbance);
  for (uint32_t i = 0; i < callers; i++) {
    for (uint32_t j = 0; j < threads; j++, num++) {
      hammers[num] = (struct hammer){&nodes[i], j, count};
      pthread_create(&thread[num], NULL, hammer_main, &hammers[num]);
    }
  }
  for (uint32_t i = 0; i < num; i++)
    pthread_join(thread[i], NULL);
  for (uint32_t i = 1; i <= callers; i++) {
    assert_int_equal(sides[i].lent + sides[i].by_daemon, (uint64_t)threads * count);
    assert_true(sides[i].lent > 0); /* else nothing was tested */
  }
  finish(nodes, 3);
}

static void test_one_caller(void **state) {
  (void)state;
  hammer(1, 1, 1500, 0);
}

static void test_one_node(void **state) {
  (void)state;
  hammer(1, THREADS, 400, 0);
}

static void test_disturbed(void **state) {
  (void)state;
  hammer(1, THREADS, 400, 5);
}

static void test_all_nodes(void **state) {
  (void)state;
  hammer(3, 4, 300, 7);
}

/* The same where daemons and those who wait look. */
static void test_all_look(void **state) {
  (void)state;
  node_spin = DMI_LOOK_MOST_US;
  hammer(3, 4, 300, 7);
  node_spin = 0;
}

/* ---- What can happen while it is lent ------------------------------------------------------- */

/* The answer comes by another connection than the one that is waited on. */
static void test_other_way(void **state) {
  (void)state;
  struct node nodes[3];
  start(nodes, 3);
  speak(&nodes[0], 2);
  speak(&nodes[0], 3);
  for (uint64_t i = 0; i < 100; i++)
    call_out(&nodes[0], &sides[1].call[0], 2, 3, i, i % 2 * 100);
  finish(nodes, 3);
}

static void *wait_too(void *arg) {
  dmi_status_wait(arg);
  return NULL;
}

/* A second thread waits for the same call. */
static void test_two_wait(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter first, second;
  struct call *call = &sides[1].call[0];
  start_waiting(nodes, &first);
  second = first;
  pthread_create(&second.thread, NULL, wait_too, &call->status);
  while (!(atomic_load(&call->status.state) & DMI_STATUS_WAITED))
    sched_yield();
  dmi_status_done(&call->status, DMI_OK);
  pthread_join(first.thread, NULL);
  pthread_join(second.thread, NULL);
  finish(nodes, 2);
}

/* The other process is gone. */
static void test_cut(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  start_waiting(nodes, &waiter);
  node_stop(&nodes[1]);
  node_free(&nodes[1]);
  NODE_WAIT(&nodes[0], lost_num, 1);
  waiter_end(&waiter);
  assert_non_null(strstr(nodes[0].lost_why, "unexpectedly"));
  node_stop(&nodes[0]);
  assert_int_equal(nodes[0].lost_num, 1);
  node_free(&nodes[0]);
  check_sides(2);
}

/* The other process closes in order: no loss. */
static void test_close(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  start_waiting(nodes, &waiter);
  node_close(&nodes[1], 1);
  waiter_end(&waiter);
  finish(nodes, 2);
}

static struct dmi_link *link_to(struct node *node, uint32_t to) {
  struct dmi_net_peer *peer = dmi_peer_find(node->net, to);
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  struct dmi_link *link = peer->conn->link;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  return link;
}

struct raw_bytes {
  uint32_t to;
  const unsigned char *bytes;
  size_t size;
};

static void run_send_raw(struct node *node, void *arg) {
  const struct raw_bytes *raw = arg;
  assert_int_equal(dmi_link_send(link_to(node, raw->to), raw->bytes, raw->size), raw->size);
}

/* The daemon sends these bytes as they are; it would end the connection in the middle of that, if
 * another thread did. */
static void send_raw(struct node *node, uint32_t to, const unsigned char *bytes, size_t size) {
  struct raw_bytes raw = {to, bytes, size};
  node_do(node, run_send_raw, &raw);
}

/* Sends these bytes as if the node did, which sends nothing else. */
static void say_as(struct node *node, uint32_t to, const unsigned char *bytes, size_t size) {
  unsigned char sealed[2000];
  struct dmi_net_peer *peer = dmi_peer_find(node->net, to);
  struct iovec iov = {(void *)(uintptr_t)bytes, size};
  if (node_encrypt) {
    dmi_seal_put(peer->out->seal, sealed, &iov, 1, size, true);
    bytes = sealed;
    size += DMI_SEAL_OVER;
  }
  send_raw(node, to, bytes, size);
}

/* A record that does not open, while a thread receives. */
static void test_tampered(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  unsigned char record[8 + DMI_SEAL_OVER] = {8};
  if (!node_encrypt) skip();
  disturb = 0;
  start(nodes, 2);
  waiter_start(&waiter, &nodes[0], 2);
  send_raw(&nodes[1], 1, record, sizeof record);
  NODE_WAIT(&nodes[0], lost_num, 1);
  waiter_end(&waiter);
  assert_true(node_wait_log(&nodes[0], "was changed on the way"));
  finish(nodes, 2);
}

static void test_malformed(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  unsigned char garbage[DMI_WIRE_HEADER];
  start_waiting(nodes, &waiter);
  memset(garbage, 0xff, sizeof garbage);
  say_as(&nodes[1], 1, garbage, sizeof garbage);
  NODE_WAIT(&nodes[0], lost_num, 1);
  waiter_end(&waiter);
  assert_true(node_wait_log(&nodes[0], "malformed message"));
  finish(nodes, 2);
}

/* The layers above refuse a message that a borrower has received. */
static void test_refused(void **state) {
  (void)state;
  struct node nodes[2];
  struct node_gate gate;
  start(nodes, 2);
  speak(&nodes[0], 2);
  uint64_t lent = sides[1].lent;
  pthread_mutex_lock(&nodes[0].lock);
  nodes[0].refuse = true;
  pthread_mutex_unlock(&nodes[0].lock);
  node_gate_shut(&gate, &nodes[1]);
  struct waiter waiter = {.node = &nodes[0], .asked = 2, .by = 2};
  waiter_run(&waiter);
  node_gate_open(&gate);
  NODE_WAIT(&nodes[0], lost_num, 1);
  pthread_join(waiter.thread, NULL);
  assert_int_equal(sides[1].lent, lent + 1);
  assert_true(node_wait_log(&nodes[0], "no correct process would send it"));
  finish(nodes, 2);
}

/* Sending fails, while receiving would work: the daemon must take the connection back. */
static void test_send_fails(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  struct node_gate gate;
  start_waiting(nodes, &waiter);
  node_gate_shut(&gate, &nodes[1]);
  struct dmi_link *link = link_to(&nodes[0], 2);
  link->ops->finish(link);
  side_send(&nodes[0], 2, (struct dmi_msg){.type = DMI_MSG_GET});
  NODE_WAIT(&nodes[0], lost_num, 1);
  assert_non_null(strstr(nodes[0].lost_why, "sending to it failed"));
  waiter_end(&waiter);
  node_gate_open(&gate);
  finish(nodes, 2);
}

/* The loop ends. */
static void test_stop(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  struct node_gate gate;
  start_waiting(nodes, &waiter);
  node_expect_close(&nodes[1]);
  node_gate_shut(&gate, &nodes[1]);
  node_stop(&nodes[0]);
  assert_int_equal(atomic_load(&nodes[0].net->lent), DMI_NET_ENDED);
  waiter_end(&waiter);
  struct dmi_net_loan loan;
  assert_int_equal(dmi_net_borrow(nodes[0].net, 2, &loan), -1);
  node_gate_open(&gate);
  node_stop(&nodes[1]);
  node_free(&nodes[0]);
  node_free(&nodes[1]);
  check_sides(2);
}

/* How many chances to borrow are still passed over. */
static uint32_t rests(struct node *node, uint32_t to) {
  struct dmi_net_peer *peer = dmi_peer_find(node->net, to);
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  uint32_t left = peer->lend_rest;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  return left;
}

/* Borrows and receives one message of this type.  Returns how many chances were passed over before.
 * Those when the daemon has the turn, as it looks at the link before it sleeps, do not count. */
static uint32_t look_for_one(struct node *nodes, uint8_t type, struct dmi_look_past *look) {
  struct dmi_net_loan loan;
  struct dmi_status *status = &sides[1].call[0].status;
  uint32_t passed = 0;
  while (!is_free(&nodes[0], 2))
    sched_yield();
  for (uint32_t left = rests(&nodes[0], 2); dmi_net_borrow(nodes[0].net, 2, &loan) < 0;) {
    uint32_t now = rests(&nodes[0], 2);
    assert_in_range(left - now, 0, 1);
    passed += left - now;
    left = now;
  }
  dmi_status_begin(status);
  struct dmi_msg msg = {.type = type};
  msg.got.op.n = sides[1].call[0].op;
  side_send(&nodes[1], 1, msg);
  loan.look = look;
  dmi_net_receive(&loan, &status->state, DMI_STATUS_IN_FLIGHT);
  assert_int_equal(loan.owed, type == FOR_DAEMON);
  dmi_net_give_back(&loan);
  return passed;
}

static uint32_t receive_one(struct node *nodes, uint8_t type) {
  return look_for_one(nodes, type, NULL);
}

/* A borrower that looks receives what is there, and does not look where that was in vain. */
static void test_look(void **state) {
  (void)state;
  struct dmi_look_past how = {.rests = 2, .step = 2};
  struct node nodes[2];
  node_spin = DMI_LOOK_AUTO;
  start(nodes, 2);
  node_spin = 0;
  speak(&nodes[0], 2);
  for (uint32_t rests = 2; rests > 0; rests--) {
    assert_int_equal(how.rests, rests);
    look_for_one(nodes, DMI_MSG_GOT, &how);
  }
  assert_int_equal(how.rests, 0);
  assert_int_equal(how.step, 2);
  look_for_one(nodes, DMI_MSG_GOT, &how); /* it has paid, or not if the machine was busy */
  assert_int_equal(how.rests, how.step);
  assert_true(how.step == 1 || how.step == 2 || how.step == 4 || how.step == 128);
  look_for_one(nodes, FOR_DAEMON, &how);
  finish(nodes, 2);
}

/* Of the connection from the other node, in a node whose daemon looks. */
static bool is_quiet(struct node *node, bool *deaf) {
  struct dmi_net_peer *peer = dmi_peer_find(node->net, 1);
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  const bool quiet = peer->conn->quiet;
  *deaf = peer->conn->deaf;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  return quiet;
}

/* A daemon that looks is not told of what comes, and is told again when it does not look. */
static void test_quiet(void **state) {
  (void)state;
  struct node nodes[2];
  bool deaf = false, seen = false;
  node_spin = DMI_LOOK_MOST_US / 4; /* so that silence ends the last look, and the daemon sleeps */
  start(nodes, 2);
  node_spin = 0;
  speak(&nodes[0], 2);
  for (uint64_t i = 1; i < 20000 && !seen; i += 2) { /* not seen on a machine that is very busy */
    call_out(&nodes[0], &sides[1].call[0], 2, 2, i, 0);
    seen = is_quiet(&nodes[1], &deaf);
    assert_true(!seen || deaf);
  }
  while (is_quiet(&nodes[1], &deaf) || deaf)
    sched_yield();
  call_out(&nodes[0], &sides[1].call[0], 2, 2, 20002, 0);
  finish(nodes, 2);
}

/* Who looks sees that the daemon wants the connection, and need not sleep to be told. */
static void test_look_wanted(void **state) {
  (void)state;
  struct dmi_look_past how = {0};
  struct dmi_net_loan loan;
  struct node nodes[2];
  struct dmi_status *status = &sides[1].call[0].status;
  uint64_t nudges = 0;
  node_spin = DMI_LOOK_AUTO;
  start(nodes, 2);
  node_spin = 0;
  speak(&nodes[0], 2);
  while (dmi_net_borrow(nodes[0].net, 2, &loan) < 0)
    sched_yield();
  dmi_status_begin(status);
  loan.look = &how;
  assert_false(dmi_lend_take(loan.conn));
  dmi_net_receive(&loan, &status->state, DMI_STATUS_IN_FLIGHT);
  assert_true(loan.owed);
  assert_int_equal(read(loan.peer->nudge, &nudges, sizeof nudges), sizeof nudges);
  assert_int_equal(nudges, 1);
  dmi_net_give_back(&loan);
  dmi_status_done(status, DMI_OK);
  finish(nodes, 2);
}

/* If each wait is disturbed, lending pauses; if none is, it begins again.  */
static void test_rest(void **state) {
  (void)state;
  static const uint32_t rests[] = {0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64};
  struct node nodes[2];
  start(nodes, 2);
  speak(&nodes[0], 2);
  for (int i = 0; i < 11; i++)
    assert_int_equal(receive_one(nodes, FOR_DAEMON), rests[i]);
  assert_int_equal(receive_one(nodes, DMI_MSG_GOT), 64);
  assert_int_equal(receive_one(nodes, DMI_MSG_GOT), 0);
  assert_int_equal(receive_one(nodes, FOR_DAEMON), 0);
  assert_int_equal(receive_one(nodes, FOR_DAEMON), 0);
  assert_int_equal(receive_one(nodes, DMI_MSG_GOT), 1);
  finish(nodes, 2);
}

static void *half_body(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (msg->type != FOR_DAEMON) return on_body(node, from, msg);
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame->bytes;
}

/* In the middle of a message for the daemon: a borrower must not finish it. */
static void test_middle(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  unsigned char bytes[DMI_WIRE_HEADER + 1000] = {0};
  struct dmi_msg msg = {.type = FOR_DAEMON, .body = {NULL, bytes, 1000}};
  start(nodes, 2);
  nodes[0].on_body = half_body;
  speak(&nodes[0], 2);
  msg.page = sides[2].sent[1]++;
  dmi_wire_put(bytes, &msg);
  say_as(&nodes[1], 1, bytes, DMI_WIRE_HEADER + 500);
  struct dmi_net_peer *peer = dmi_peer_find(nodes[0].net, 2);
  for (bool half = false; !half; sched_yield()) {
    dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
    half = peer->conn->turn == DMI_TURN_FREE && peer->conn->body_got == 500;
    dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  }
  waiter = (struct waiter){.node = &nodes[0], .asked = 2};
  pthread_create(&waiter.thread, NULL, waiter_main, &waiter);
  while ((atomic_load(&sides[1].call[0].status.state) & ~DMI_STATUS_IN_FLIGHT) == 0)
    sched_yield(); /* it sleeps, or receives */
  say_as(&nodes[1], 1, bytes + DMI_WIRE_HEADER + 500, 500);
  NODE_WAIT(&nodes[0], messages, 2);
  dmi_status_done(&sides[1].call[0].status, DMI_OK);
  pthread_join(waiter.thread, NULL);
  finish(nodes, 2);
}

/* ---- States of a peer ---- */

/* True if a process aborts when a peer makes this transition. */
static bool aborts(enum dmi_peer_state from, enum dmi_peer_state to) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    struct dmi_net_peer peer = {.state = from};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL); /* cmocka has a handler of its own */
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    dmi_peer_move(&peer, to);
    _exit(peer.state == to ? 0 : 3);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Builds with --enable-debug abort at a transition that is not in the table. */
static void test_moves(void **state) {
  (void)state;
#ifndef DMI_DEBUG
  skip();
#endif
  assert_false(aborts(DMI_PEER_IDLE, DMI_PEER_UP));
  assert_false(aborts(DMI_PEER_UP, DMI_PEER_LOST));
  assert_true(aborts(DMI_PEER_UP, DMI_PEER_DIALING));
  assert_true(aborts(DMI_PEER_SHUT, DMI_PEER_UP));
  assert_true(aborts(DMI_PEER_LOST, DMI_PEER_IDLE));
}

static void run_keep(struct node *node, void *arg) {
  (void)arg;
  dmi_net_keep(node->net);
}

static void run_lend(struct node *node, void *arg) {
  (void)arg;
  dmi_net_lend(node->net);
}

/* The daemon keeps the connections for a while: what is lent comes back, and all is received by it.
 */
static void test_keep(void **state) {
  (void)state;
  struct node nodes[2];
  struct waiter waiter;
  struct call *call = &sides[1].call[1];
  start_waiting(nodes, &waiter);
  node_do(&nodes[0], run_keep, NULL);
  assert_int_equal(atomic_load(&nodes[0].net->lent), DMI_NET_KEPT);
  uint64_t lent = sides[1].lent, by_daemon = sides[1].by_daemon;
  for (uint64_t i = 0; i < 20; i++)
    call_out(&nodes[0], call, 2, 2, (uint64_t)1 << 32 | i, 0);
  assert_int_equal(sides[1].lent, lent);
  assert_int_equal(sides[1].by_daemon, by_daemon + 20);
  node_do(&nodes[0], run_lend, NULL);
  for (uint64_t i = 20; sides[1].lent == lent; i++) /* as soon as giving back pays again */
    call_out(&nodes[0], call, 2, 2, (uint64_t)1 << 32 | i, 0);
  waiter_end(&waiter);
  finish(nodes, 2);
}

static void run_fence(struct node *node, void *arg) {
  dmi_net_keep(node->net);
  dmi_net_fence(node->net, *(uint32_t *)arg);
  dmi_net_lend(node->net);
}

/* The second was removed, and lives: nothing of it comes to the first any more. */
static void test_fence(void **state) {
  (void)state;
  struct node nodes[3];
  struct waiter waiter;
  uint32_t two = 2;
  start(nodes, 3);
  waiter_start(&waiter, &nodes[0], 2);
  node_do(&nodes[0], run_fence, &two);
  waiter_end(&waiter);
  NODE_WAIT(&nodes[1], lost_num, 1);
  assert_true(NODE_NOW(&nodes[0], lost_num) <= 1);
  node_do(&nodes[0], run_fence, &two);                           /* again */
  side_send(&nodes[0], 2, (struct dmi_msg){.type = FOR_DAEMON}); /* dropped */
  speak(&nodes[0], 3);                                           /* others are not concerned */
  assert_true(NODE_NOW(&nodes[0], lost_num) <= 1);
  sides[1].sent[2] = sides[2].seen[1];
  finish(nodes, 3);
}

/* It was removed before it connected: it is refused. */
static void test_fence_early(void **state) {
  (void)state;
  struct node nodes[2];
  uint32_t two = 2;
  start(nodes, 2);
  node_do(&nodes[0], run_fence, &two);
  side_send(&nodes[1], 1, (struct dmi_msg){.type = FOR_DAEMON});
  NODE_WAIT(&nodes[1], lost_num, 1);
  assert_non_null(strstr(nodes[1].lost_why, "gone on without it"));
  assert_int_equal(NODE_NOW(&nodes[0], messages), 0);
  finish(nodes, 2);
}

static struct memory_net *memory;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

int main(void) {
  /* A daemon that looks has the turn at times when no test can know it, and a thread that could not
   * borrow then is no fault. */
  node_spin = 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_caller),  cmocka_unit_test(test_one_node),
      cmocka_unit_test(test_disturbed),   cmocka_unit_test(test_all_nodes),
      cmocka_unit_test(test_other_way),   cmocka_unit_test(test_two_wait),
      cmocka_unit_test(test_cut),         cmocka_unit_test(test_close),
      cmocka_unit_test(test_tampered),    cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_refused),     cmocka_unit_test(test_send_fails),
      cmocka_unit_test(test_stop),        cmocka_unit_test(test_look),
      cmocka_unit_test(test_rest),        cmocka_unit_test(test_middle),
      cmocka_unit_test(test_keep),        cmocka_unit_test(test_fence),
      cmocka_unit_test(test_fence_early), cmocka_unit_test(test_look_wanted),
      cmocka_unit_test(test_quiet),       cmocka_unit_test(test_all_look)};
  const struct CMUnitTest moves[] = {cmocka_unit_test(test_moves)};
  int failed = cmocka_run_group_tests(moves, NULL, NULL);
  for (int round = 0; round < 6; round++) {
    static const char *const over[] = {"TCP", "shared memory", "a network in memory"};
    node_shm = round / 2 == 1;
    node_transport = round < 4 ? NULL : open_memory;
    node_encrypt = round % 2 != 0;
    alarm(LIMIT);
    print_message("over %s%s:\n", over[round / 2], node_encrypt ? ", sealed" : "");
    memory = memory_net_new();
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    memory_net_free(memory);
  }
  return failed;
}
