/*
 * net_traffic_test.c - bytes received and sent: of all connections, also those that are over, and
 * of one process; and how many wait to be sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "net_node.h"

#define COUNT 100
#define SIZE 10000 /* bytes of a body */

struct traffic {
  struct dmi_net_traffic all, with;
};

static struct dmi_msg body(void) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT};
  struct dmi_frame *frame = dmi_frame_new_zero(SIZE);
  msg.body = (struct dmi_slice){frame, frame->bytes, SIZE};
  return msg;
}

/* The daemon asks. */
static void run_look(struct node *node, void *arg) {
  struct traffic *traffic = arg;
  traffic->all = dmi_net_traffic(node->net);
  traffic->with = dmi_net_traffic_with(node->net, node->uid == 1 ? 2 : 1);
  assert_int_equal(dmi_net_traffic_with(node->net, 99).received, 0);
}

static struct traffic look(struct node *node) {
  struct traffic traffic;
  node_do(node, run_look, &traffic);
  return traffic;
}

/* The daemon has freed the connection. */
static struct traffic look_until_gone(struct node *node) {
  const time_t until = time(NULL) + node_limit();
  struct traffic traffic;
  do {
    traffic = look(node);
  } while (traffic.with.received && time(NULL) < until);
  return traffic;
}

static void bytes_are_counted_and_stay(void **state) {
  struct node a, b;
  struct traffic before, after;
  (void)state;
  node_open(&a, 1);
  node_open(&b, 2);
  node_meet(&a, &b);
  node_meet(&b, &a);
  node_run(&a);
  node_run(&b);
  for (uint64_t i = 0; i < COUNT; i++)
    assert_true(node_send(&a, 2, body()));
  NODE_WAIT(&b, messages, COUNT);
  before = look(&b);
  assert_in_range(before.with.received, COUNT * SIZE, COUNT * (SIZE + 1000));
  assert_int_equal(before.all.received, before.with.received);
  assert_in_range(look(&a).with.sent, COUNT * SIZE, COUNT * (SIZE + 1000));
  assert_int_equal(dmi_net_queued(a.net, 2), 0);
  assert_int_equal(dmi_net_queued(a.net, 99), 0);
  /* The connection goes, its bytes do not. */
  node_close(&a, 2);
  node_close(&b, 1);
  after = look_until_gone(&b);
  assert_int_equal(after.with.received, 0);
  assert_true(after.all.received >= before.all.received);
  assert_true(after.all.sent >= before.all.sent);
  node_stop(&a);
  node_stop(&b);
  node_free(&a);
  node_free(&b);
  assert_int_equal(dmi_frame_total(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_counted_and_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
