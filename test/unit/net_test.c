/*
 * net_test.c - connections between dmi_nets in one process: order, big bodies, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net_node.h"

/* Messages carry a number of their sender's thread in `op` and the thread in `page`. */
struct order {
  uint64_t next[8][8]; /* by sender's uid and thread */
  uint64_t wrong;
};

static struct order orders[4]; /* by receiver's uid */

static void check_order(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct order *order = &orders[node->uid];
  uint64_t *next = &order->next[from & 7][msg->page & 7];
  if (msg->op != *next) order->wrong++;
  *next = msg->op + 1;
  for (uint64_t i = 0; i < msg->body.len; i++) {
    if (msg->body.ptr[i] != (unsigned char)(msg->op + i)) {
      order->wrong++;
      break;
    }
  }
}

/* A message whose body depends on its number. */
static struct dmi_msg numbered(uint64_t thread, uint64_t number, uint64_t size) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT, .page = thread, .op = number};
  if (size == 0) return msg;
  struct dmi_frame *frame = dmi_frame_new(size);
  for (uint64_t i = 0; i < size; i++)
    frame->bytes[i] = (unsigned char)(number + i);
  msg.body = (struct dmi_slice){frame, frame->bytes, size};
  return msg;
}

static const uint64_t sizes[] = {0, 1, 8, 64, 511, 512, 513, 4000, 70000, 0, 300000, 5};

static void test_order_two(void **state) {
  (void)state;
  struct node a, b;
  memset(orders, 0, sizeof orders);
  node_open(&a, 1);
  node_open(&b, 2);
  node_meet(&a, &b);
  node_meet(&b, &a);
  a.on_message = b.on_message = check_order;
  node_run(&a);
  node_run(&b);
  enum { COUNT = 3000 };
  for (uint64_t i = 0; i < COUNT; i++) {
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
  NODE_WAIT(&b, messages, COUNT);
  NODE_WAIT(&a, messages, COUNT);
  assert_int_equal(orders[1].wrong, 0);
  assert_int_equal(orders[2].wrong, 0);
  assert_int_equal(a.lost_num + b.lost_num, 0);
  node_stop(&a);
  node_stop(&b);
  node_free(&a);
  node_free(&b);
  assert_int_equal(dmi_frame_total(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_two),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
