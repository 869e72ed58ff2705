/*
 * net_test.c - connections between dmi_nets in one process: order, big bodies, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../lib/memory_net.h"
#include "net/seal.h"
#include "net_node.h"

/* How much to send: less in builds with sanitizers. */
static uint64_t scaled(uint64_t normal, uint64_t small) {
  const char *scale = getenv("DMI_TEST_SCALE");
  return scale != NULL && strcmp(scale, "small") == 0 ? small : normal;
}

/* Byte i of a body is its message's number + i.  Compared by rows, since with sanitizers single
 * accesses are slow. */
#define ROW 65536 /* a multiple of 256 */
static unsigned char pattern[ROW + 256];

static void pattern_fill(unsigned char *bytes, uint64_t size, uint64_t number) {
  for (uint64_t i = 0; i < size; i += ROW)
    memcpy(bytes + i, pattern + (number & 255), size - i < ROW ? size - i : ROW);
}

static bool pattern_holds(const struct dmi_slice *body, uint64_t number) {
  for (uint64_t i = 0; i < body->len; i += ROW) {
    uint64_t len = body->len - i < ROW ? body->len - i : ROW;
    if (memcmp(body->ptr + i, pattern + (number & 255), len) != 0) return false;
  }
  return true;
}

/* Messages carry a number of their sender's thread in `op` and the thread in `page`. */
struct order {
  uint64_t next[8][8]; /* by sender's uid and thread */
  uint64_t wrong;
};

static struct order orders[4]; /* by receiver's uid */

static void check_order(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct order *order = &orders[node->uid];
  uint64_t *next = &order->next[from & 7][msg->page & 7];
  if (msg->got.op.n != *next) order->wrong++;
  *next = msg->got.op.n + 1;
  if (!pattern_holds(&msg->body, msg->got.op.n)) order->wrong++;
}

/* A message whose body depends on its number. */
static struct dmi_msg numbered(uint64_t thread, uint64_t number, uint64_t size) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT, .page = thread};
  msg.got.op.n = number;
  if (size == 0) return msg;
  struct dmi_frame *frame = dmi_frame_new(size);
  pattern_fill(frame->bytes, size, number);
  msg.body = (struct dmi_slice){frame, frame->bytes, size};
  return msg;
}

static const uint64_t sizes[] = {0, 1, 8, 64, 511, 512, 513, 4000, 70000, 0, 300000, 5};

/* Two members that know each other, running. */
static void start_two(struct node *a, struct node *b) {
  memset(orders, 0, sizeof orders);
  node_open(a, 1);
  node_open(b, 2);
  node_meet(a, b);
  node_meet(b, a);
  a->on_message = b->on_message = check_order;
  node_run(a);
  node_run(b);
}

static void end_all(struct node *nodes[], int num) {
  for (int i = 0; i < num; i++)
    node_expect_close(nodes[i]);
  for (int i = 0; i < num; i++)
    node_stop(nodes[i]);
  for (int i = 0; i < num; i++)
    node_free(nodes[i]);
  assert_int_equal(dmi_frame_total(), 0);
}

static void end_two(struct node *a, struct node *b) {
  struct node *both[] = {a, b};
  end_all(both, 2);
}

static void test_order_two(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  uint64_t count = scaled(3000, 600);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
    struct dmi_msg msg = numbered(0, i, size);
    dmi_net_send(a.net, 2, &msg);
    if (i % 7 == 0) dmi_net_flush(a.net, 2);
    msg = numbered(0, i, size);
    dmi_net_send(b.net, 1, &msg);
    if (i % 5 == 0) dmi_net_flush(b.net, 1);
  }
  dmi_net_flush(a.net, 2);
  dmi_net_flush(b.net, 1);
  NODE_WAIT(&b, messages, count);
  NODE_WAIT(&a, messages, count);
  assert_int_equal(orders[1].wrong, 0);
  assert_int_equal(orders[2].wrong, 0);
  assert_int_equal(NODE_NOW(&a, lost_num) + NODE_NOW(&b, lost_num), 0);
  end_two(&a, &b);
}

static void test_order_three(void **state) {
  (void)state;
  struct node n[3];
  struct node *all[] = {&n[0], &n[1], &n[2]};
  memset(orders, 0, sizeof orders);
  for (uint32_t i = 0; i < 3; i++) {
    node_open(&n[i], i + 1);
    n[i].on_message = check_order;
  }
  node_run_all(n, 3);
  enum { COUNT = 1000 };
  for (uint64_t k = 0; k < COUNT; k++) {
    for (int i = 0; i < 3; i++) {
      for (uint32_t to = 1; to <= 3; to++) {
        if (to != n[i].uid) node_send(&n[i], to, numbered(0, k, sizes[k % 8]));
      }
    }
  }
  for (int i = 0; i < 3; i++)
    NODE_WAIT(&n[i], messages, 2 * COUNT);
  for (int i = 1; i <= 3; i++)
    assert_int_equal(orders[i].wrong, 0);
  end_all(all, 3);
}

static void test_big_bodies(void **state) {
  (void)state;
  struct node a, b;
  enum { COUNT = 3 };
  uint64_t big = scaled(64 << 20, 16 << 20);
  start_two(&a, &b);
  for (uint64_t i = 0; i < COUNT; i++) {
    node_send(&a, 2, numbered(0, 2 * i, big));
    node_send(&b, 1, numbered(0, 2 * i, big));
    node_send(&a, 2, numbered(0, 2 * i + 1, 3)); /* after it */
    node_send(&b, 1, numbered(0, 2 * i + 1, 3));
  }
  NODE_WAIT(&a, messages, 2 * COUNT);
  NODE_WAIT(&b, messages, 2 * COUNT);
  assert_true(a.bytes == COUNT * (big + 3) && b.bytes == a.bytes);
  assert_int_equal(orders[1].wrong + orders[2].wrong, 0);
  end_two(&a, &b);
}

/* Lists: complete, aligned, followed by a body that comes in pieces. */
/* ---- Bulk: DATA of large pages ---- */

static struct {
  uint64_t got[4];   /* bytes of the bodies, by op */
  uint64_t whole;    /* DATA that was not cut */
  uint64_t small;    /* other messages, */
  uint64_t small_at; /* and how many bytes of the first body had arrived with the last of them */
  uint64_t wrong;
} bulk;

static void check_bulk(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from;
  if (msg->type == DMI_MSG_GET) {
    bulk.small++;
    bulk.small_at = bulk.got[0];
    return;
  }
  if (msg->type == DMI_MSG_DATA) {
    bulk.whole++;
    if (!pattern_holds(&msg->body, msg->data.fetch.n)) bulk.wrong++;
    return;
  }
  const struct dmi_msg_block *block = &msg->block;
  if (msg->type != DMI_MSG_BLOCK || block->fetch.n > 3 || block->off != bulk.got[block->fetch.n] ||
      block->version.n != 7 || block->kind != 2 || msg->map != 0x5000) {
    bulk.wrong++;
    return;
  }
  bulk.got[block->fetch.n] += msg->body.len;
  if (!pattern_holds(&msg->body, block->fetch.n + block->off)) bulk.wrong++;
}

static struct dmi_msg page_data(uint64_t fetch, uint64_t size) {
  struct dmi_msg msg = numbered(0, fetch, size);
  msg.type = DMI_MSG_DATA;
  msg.data = (struct dmi_msg_data){.fetch = {fetch}, .kind = 2, .version = {7}};
  msg.map = 0x5000;
  return msg;
}

/* Large DATA is cut into BLOCKs in order, and messages that are sent later overtake most of it;
 * closing loses nothing. */
static void test_bulk(void **state) {
  (void)state;
  struct node a, b;
  const uint64_t big = (16 << 20) + 5, cut = DMI_NET_CUT;
  const uint64_t blocks =
      (big + (256 << 10) - 1) / (256 << 10) + (cut + (256 << 10) - 1) / (256 << 10);
  for (int close = 0; close < 2; close++) {
    memset(&bulk, 0, sizeof bulk);
    start_two(&a, &b);
    b.on_message = check_bulk;
    struct dmi_msg msg = page_data(0, big);
    dmi_net_send(a.net, 2, &msg);
    msg = page_data(1, cut);
    dmi_net_send(a.net, 2, &msg);
    msg = page_data(2, 1000); /* a BLOCK that is passed on */
    msg.type = DMI_MSG_BLOCK;
    msg.block = (struct dmi_msg_block){.fetch = {2}, .kind = 2, .version = {7}};
    dmi_net_send(a.net, 2, &msg);
    msg = page_data(3, cut - 1);
    dmi_net_send(a.net, 2, &msg);
    for (int i = 0; i < 100; i++) {
      struct dmi_msg small = {.type = DMI_MSG_GET};
      dmi_net_send(a.net, 2, &small);
    }
    if (close) {
      node_close(&a, 2);
      NODE_WAIT(&b, bytes, big + cut + 1000 + cut - 1);
    } else {
      dmi_net_flush(a.net, 2);
      NODE_WAIT(&b, messages, blocks + 1 + 1 + 100);
      assert_true(bulk.small_at <= 1 << 20);
    }
    assert_int_equal(bulk.wrong, 0);
    /* When the last message of all goes into the queue, what has not begun goes whole before it. */
    assert_true(bulk.got[0] == big && bulk.got[1] == (close ? 0 : cut) && bulk.got[2] == 1000);
    assert_int_equal(bulk.whole, close ? 2 : 1);
    assert_int_equal(bulk.small, 100);
    end_two(&a, &b);
  }
}

static uint64_t lists_seen;

static void check_list(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from;
  const struct dmi_holder *holder = (const void *)msg->list.ptr;
  if (((uintptr_t)holder & 15) != 0) return;
  for (uint64_t i = 0; i < msg->list.len / sizeof *holder; i++) {
    if (holder[i].uid != i || holder[i].kind != msg->grant.version.n) return;
  }
  if (!pattern_holds(&msg->body, msg->grant.version.n)) return;
  lists_seen++;
}

static void test_lists(void **state) {
  (void)state;
  static const uint64_t lengths[] = {0, 1, 3, 64, 65, 1000, 30000, 1 << 20};
  struct node a, b;
  start_two(&a, &b);
  b.on_message = check_list;
  lists_seen = 0;
  uint64_t op = 0;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++, op++) {
      struct dmi_msg msg = numbered(0, op, sizes[j]);
      uint64_t bytes = lengths[i] * sizeof(struct dmi_holder);
      msg.type = DMI_MSG_GRANT;
      if (bytes != 0) {
        msg.list.frame = dmi_frame_new(bytes);
        struct dmi_holder *holder = (void *)msg.list.frame->bytes;
        for (uint32_t k = 0; k < lengths[i]; k++)
          holder[k] = (struct dmi_holder){k, (uint32_t)op};
        msg.list.ptr = msg.list.frame->bytes;
        msg.list.len = bytes;
      }
      node_send(&a, 2, msg);
    }
  }
  NODE_WAIT(&b, messages, op);
  assert_int_equal(lists_seen, op);
  end_two(&a, &b);
}

struct sender {
  struct node *node;
  uint32_t to;
  uint64_t thread, count;
};

static void *send_many(void *arg) {
  struct sender *sender = arg;
  for (uint64_t i = 0; i < sender->count; i++) {
    struct dmi_msg msg = numbered(sender->thread, i, sizes[(i + sender->thread) % 11]);
    dmi_net_send(sender->node->net, sender->to, &msg);
    if (i % (sender->thread + 1) == 0) dmi_net_flush(sender->node->net, sender->to);
  }
  dmi_net_flush(sender->node->net, sender->to);
  return NULL;
}

static void test_four_threads(void **state) {
  (void)state;
  struct node a, b;
  uint64_t count = scaled(1500, 300);
  struct sender senders[8];
  pthread_t threads[8];
  start_two(&a, &b);
  for (uint64_t i = 0; i < 8; i++) {
    senders[i] = (struct sender){i < 4 ? &a : &b, i < 4 ? 2 : 1, i % 4, count};
    pthread_create(&threads[i], NULL, send_many, &senders[i]);
  }
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  NODE_WAIT(&a, messages, 4 * count);
  NODE_WAIT(&b, messages, 4 * count);
  assert_int_equal(orders[1].wrong + orders[2].wrong, 0);
  end_two(&a, &b);
}

/* Messages sent before dmi_net_close arrive; the other direction goes on; no process is lost. */
static void test_close(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  uint64_t sent = 0;
  for (; sent < 100; sent++)
    node_send(&a, 2, numbered(0, sent, 200000));
  node_close(&a, 2);
  assert_false(node_send(&a, 2, numbered(0, 99999, 100)));
  NODE_WAIT(&b, messages, sent);
  for (uint64_t i = 0; i < 100; i++)
    node_send(&b, 1, numbered(0, i, 200000));
  NODE_WAIT(&a, messages, 100);
  assert_true(dmi_net_connected(b.net, 1));
  node_close(&b, 1);
  assert_int_equal(NODE_NOW(&b, messages), sent);
  assert_int_equal(orders[1].wrong + orders[2].wrong, 0);
  node_stop(&a);
  node_stop(&b);
  assert_int_equal(a.lost_num + b.lost_num, 0);
  node_free(&a);
  node_free(&b);
  assert_int_equal(dmi_frame_total(), 0);
}

/* A closed member may still connect and send. */
static void test_closed_connects(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  node_close(&a, 2);
  assert_false(dmi_net_connected(a.net, 2));
  for (uint64_t i = 0; i < 10; i++)
    node_send(&b, 1, numbered(0, i, 10));
  NODE_WAIT(&a, messages, 10);
  node_close(&b, 1);
  node_stop(&b);
  node_stop(&a);
  assert_int_equal(a.lost_num + b.lost_num, 0);
  node_free(&a);
  node_free(&b);
}

static void run_bar(struct node *node, void *arg) {
  dmi_net_bar(node->net, *(uint32_t *)arg);
}

static void run_send(struct node *node, void *arg) {
  assert_true(node_send(node, *(uint32_t *)arg, numbered(0, 2, 10)));
}

/* Other threads can only send answers; the daemon is not barred. */
static void test_bar(void **state) {
  (void)state;
  struct node a, b;
  struct dmi_msg put = numbered(0, 99, 10);
  uint32_t to = 2;
  start_two(&a, &b);
  assert_true(node_send(&a, 2, numbered(0, 0, 10)));
  node_do(&a, run_bar, &to);
  put.type = DMI_MSG_PUT;
  assert_false(node_send(&a, 2, put));
  assert_true(node_send(&a, 2, numbered(0, 1, 10))); /* GOT */
  node_do(&a, run_send, &to);
  NODE_WAIT(&b, messages, 3);
  assert_int_equal(orders[2].wrong, 0);
  end_two(&a, &b);
}

/* b receives nothing more until this is unlocked. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void check_at_gate(struct node *node, uint32_t from, struct dmi_msg *msg) {
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  check_order(node, from, msg);
}

static void run_flushed(struct node *node, void *arg) {
  *(bool *)arg = dmi_net_flushed(node->net);
}

/* Messages still queued at dmi_net_stop are sent.  The reader starts only then, and has as much
 * time as in the product. */
static void test_stop_drains(void **state) {
  (void)state;
  struct node a, b;
  uint64_t count = scaled(40, 16);
  bool flushed = true;
  start_two(&a, &b);
  pthread_mutex_lock(&gate);
  b.on_message = check_at_gate;
  for (uint64_t i = 0; i < count; i++) {
    struct dmi_msg msg = numbered(0, i, 1 << 20);
    dmi_net_send(a.net, 2, &msg);
  }
  dmi_net_flush(a.net, 2);
  node_send(&b, 1, numbered(0, 0, 100));
  node_do(&a, run_flushed, &flushed);
  assert_false(flushed);
  dmi_net_stop(a.net);
  pthread_mutex_unlock(&gate);
  node_stop(&a);
  node_free(&a);
  NODE_WAIT(&b, messages, count);
  assert_int_equal(orders[2].wrong, 0);
  NODE_WAIT(&b, lost_num, 1); /* a took no leave */
  assert_int_equal(b.lost_id, 1);
  assert_non_null(strstr(b.lost_why, "unexpectedly"));
  node_send(&b, 1, numbered(0, 1, 100000)); /* dropped */
  assert_false(dmi_net_connected(b.net, 1));
  node_stop(&b);
  node_free(&b);
  assert_int_equal(dmi_frame_total(), 0);
}

static void test_expect_close(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  node_send(&a, 2, numbered(0, 0, 5));
  NODE_WAIT(&b, messages, 1);
  node_expect_close(&b);
  node_stop(&a);
  node_free(&a);
  node_stop(&b);
  assert_int_equal(b.lost_num, 0);
  node_free(&b);
}

static void test_throw_away(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  b.on_message = NULL;
  b.throw_away = true;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 60; i++) {
    uint64_t size = sizes[i % 12] * (i % 5 + 1);
    bytes += size;
    node_send(&a, 2, numbered(0, i, size));
  }
  NODE_WAIT(&b, messages, 60);
  assert_true(b.bytes == bytes);
  assert_int_equal(b.last.got.op.n, 59);
  end_two(&a, &b);
}

static void test_wrong_message(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  b.refuse = true;
  node_send(&a, 2, numbered(0, 0, 5));
  NODE_WAIT(&b, lost_num, 1);
  NODE_WAIT(&a, lost_num, 1);
  assert_int_equal(b.lost_id, 1);
  assert_true(node_wait_log(&b, "malformed message"));
  node_stop(&a);
  node_stop(&b);
  node_free(&a);
  node_free(&b);
}

/* There is no receiver: messages are dropped, and their memory is given back. */
static void test_unknown(void **state) {
  (void)state;
  struct node a, b;
  start_two(&a, &b);
  node_send(&a, 7, numbered(0, 0, 100000));
  node_send(&a, DMI_NET_TEMP + 3, numbered(0, 0, 100000));
  assert_int_equal(dmi_frame_total(), 0);
  assert_false(dmi_net_connected(a.net, 7));
  node_close(&a, 7);
  end_two(&a, &b);
}

static struct memory_net *memory;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

int main(void) {
  for (size_t i = 0; i < sizeof pattern; i++)
    pattern[i] = (unsigned char)i;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_two),
                                     cmocka_unit_test(test_order_three),
                                     cmocka_unit_test(test_bulk),
                                     cmocka_unit_test(test_big_bodies),
                                     cmocka_unit_test(test_lists),
                                     cmocka_unit_test(test_four_threads),
                                     cmocka_unit_test(test_close),
                                     cmocka_unit_test(test_bar),
                                     cmocka_unit_test(test_closed_connects),
                                     cmocka_unit_test(test_stop_drains),
                                     cmocka_unit_test(test_expect_close),
                                     cmocka_unit_test(test_throw_away),
                                     cmocka_unit_test(test_wrong_message),
                                     cmocka_unit_test(test_unknown)};
  const struct CMUnitTest some[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_close),
                                    cmocka_unit_test(test_stop_drains),
                                    cmocka_unit_test(test_throw_away)};
  int failed = 0;
  memory = memory_net_new();
  for (int round = 0; round < 6; round++) {
    static const char *const over[] = {"TCP", "shared memory", "a network in memory"};
    node_shm = round / 2 == 1;
    node_transport = round < 4 ? NULL : open_memory;
    node_encrypt = round % 2 != 0;
    print_message("over %s%s%s:\n", over[round / 2], node_encrypt ? ", sealed by " : "",
                  node_encrypt ? dmi_seal_by() : "");
    failed += cmocka_run_group_tests(tests, NULL, NULL);
  }
  memory_net_free(memory);
  node_transport = NULL;
  print_message("over TCP, without AES:\n");
  dmi_seal_without_ocb(true);
  failed += cmocka_run_group_tests(some, NULL, NULL);
  print_message("the same, sealed by libsodium:\n");
  dmi_seal_plainly(true);
  return failed + cmocka_run_group_tests(some, NULL, NULL);
}
