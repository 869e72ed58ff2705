/*
 * answer_test.c - two processes answer the same operation, which only faulty processes do: the
 * first answer counts, the caller's buffer is not touched after the call, and nothing is freed
 * twice.  The answers come on two connections, so two threads may receive them at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <unistd.h>

#include "../lib/memory_net.h"
#include "access/access.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "net/net_int.h"
#include "net_node.h"

#define LIMIT 60 /* seconds for all tests */
#define BASE (UINT64_C(1) << 20)
#define PAGE (UINT64_C(256) << 10)

static struct dmi_access here;
static struct node nodes[3];      /* uid 1 is `here`, 2 and 3 are the faulty ones */
static _Atomic uint64_t from_two; /* messages that process 1 got from 3 */

static bool is_member(void *arg, uint32_t uid) {
  (void)arg, (void)uid;
  return true;
}

static void *process_body(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node;
  return dmi_access_body(&here, from, msg);
}

static void process_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node;
  assert_true(dmi_access_message(&here, from, msg));
  *msg = (struct dmi_msg){0}; /* its slices are taken over */
  if (from == 3) from_two++;
}

/* The answer of node `uid` to a GET, with the kind of fault `how`: all its bytes are `uid`. */
static struct dmi_msg answer(uint32_t uid, const struct dmi_msg *get, uint64_t how) {
  struct dmi_msg msg = {.type = DMI_MSG_GOT, .map = get->map, .page = get->page};
  uint64_t len = get->access.len;
  msg.origin = get->origin;
  msg.got = (struct dmi_msg_got){.op = get->access.op, .len = len};
  if (how == 0) {
    msg.body.frame = dmi_frame_new(len);
    memset(msg.body.frame->bytes, (int)uid, len);
    msg.body.ptr = msg.body.frame->bytes;
    msg.body.len = len;
  } else if (how == 1) {
    msg.flags = DMI_F_ZERO;
  } else {
    msg.type = DMI_MSG_FAIL;
    msg.fail = (struct dmi_msg_fail){.op = get->access.op, .error = DMI_ENOMEM};
  }
  return msg;
}

/* Both answer: node 2, which was asked, and node 3, to which it forwards the request. */
static void both_answer(struct node *node, uint32_t from, struct dmi_msg *msg) {
  uint64_t op = msg->access.op.n;
  (void)from;
  if (msg->type != DMI_MSG_GET) return;
  if (node->uid == 2) node_send(node, 3, *msg);
  node_send(node, 1, answer(node->uid, msg, op % 7 == 0 ? 0 : (op + node->uid) % 3));
}

static void start(void (*faulty)(struct node *node, uint32_t from, struct dmi_msg *msg)) {
  struct dmi_mapping *mapping = dmi_mapping_new(BASE, PAGE, 4, 2);
  memset(&here, 0, sizeof here);
  dmi_access_init(&here, NULL, NULL);
  here.core.self = 1;
  here.core.is_member = is_member;
  atomic_store(&here.active, 1);
  dmi_space_add(&here.space, &here.core, mapping);
  atomic_store(&from_two, 0);
  for (uint32_t i = 0; i < 3; i++)
    node_open(&nodes[i], i + 1);
  here.net = nodes[0].net;
  nodes[0].on_body = process_body;
  nodes[0].on_message = process_message;
  nodes[1].on_message = nodes[2].on_message = faulty;
  for (uint32_t i = 0; i < 3; i++) {
    for (uint32_t j = 0; j < 3; j++) {
      if (i != j) node_meet(&nodes[i], &nodes[j]);
    }
  }
  for (uint32_t i = 0; i < 3; i++)
    node_run(&nodes[i]);
}

static void finish(void) {
  for (int i = 0; i < 3; i++)
    node_expect_close(&nodes[i]);
  for (int i = 0; i < 3; i++)
    node_stop(&nodes[i]);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(nodes[i].lost_num, 0);
    node_free(&nodes[i]);
  }
  dmi_access_end(&here);
  dmi_epoch_end();
  assert_false(dmi_ops_any(here.ops));
  dmi_access_fini(&here);
  assert_int_equal(dmi_frame_total(), 0);
}

static bool all(const unsigned char *buf, uint64_t size, unsigned char value) {
  for (uint64_t i = 0; i < size; i++) {
    if (buf[i] != value) return false;
  }
  return true;
}

struct reader {
  uint64_t number, count, wrong;
  pthread_t thread;
};

static void *read_many(void *arg) {
  static const uint64_t sizes[] = {8, 200, 8, 70000, 8, 3000, PAGE};
  struct reader *reader = arg;
  unsigned char *buf[2] = {malloc(PAGE), malloc(PAGE)};
  memset(buf[1], 0xee, PAGE);
  for (uint64_t i = 0; i < reader->count; i++) {
    uint64_t size = sizes[(i + reader->number) % 7];
    unsigned char *mine = buf[i % 2];
    memset(mine, 0xdd, size);
    if (dmi_access_read(&here, (int64_t)(BASE + reader->number % 4 * PAGE), (int64_t)size, mine,
                        DMI_GET_READ, NULL)) {
      if (!all(mine, size, 2) && !all(mine, size, 3) && !all(mine, size, 0)) reader->wrong++;
    }
    if (!all(buf[1 - i % 2], PAGE, 0xee)) reader->wrong++; /* it was written to after its call */
    memset(mine, 0xee, PAGE);
  }
  free(buf[0]);
  free(buf[1]);
  return NULL;
}

static void test_two_answers(void **state) {
  (void)state;
  const char *scale = getenv("DMI_TEST_SCALE");
  uint64_t count = scale != NULL && strcmp(scale, "small") == 0 ? 30 : 300;
  struct reader readers[4];
  start(both_answer);
  for (uint64_t i = 0; i < 4; i++) {
    readers[i] = (struct reader){.number = i, .count = count};
    pthread_create(&readers[i].thread, NULL, read_many, &readers[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(readers[i].thread, NULL);
    assert_int_equal(readers[i].wrong, 0);
  }
  while (atomic_load(&from_two) < 4 * count)
    sched_yield();
  finish();
}

/* Node 2 keeps the request for the test. */
static struct dmi_msg kept;
static _Atomic bool is_kept;

static void keep(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from;
  kept = *msg;
  atomic_store(&is_kept, true);
}

static _Atomic int32_t read_result;

static void *read_one(void *buf) {
  atomic_store(&read_result,
               dmi_access_read(&here, (int64_t)BASE, (int64_t)PAGE, buf, DMI_GET_READ, NULL));
  return NULL;
}

static void send_all(struct dmi_link *link, const unsigned char *bytes, uint64_t size) {
  while (size != 0) {
    ssize_t sent = dmi_link_send(link, bytes, size);
    if (sent < 0) continue; /* full */
    bytes += sent;
    size -= (uint64_t)sent;
  }
}

/* Half of an answer is in the caller's buffer when another answer comes: the second one does not
 * count. */
static void test_half_answer(void **state) {
  (void)state;
  unsigned char header[DMI_WIRE_HEADER], *buf = malloc(PAGE);
  pthread_t reader;
  start(keep);
  atomic_store(&is_kept, false);
  atomic_store(&read_result, -1);
  pthread_create(&reader, NULL, read_one, buf);
  while (!atomic_load(&is_kept))
    sched_yield();
  struct dmi_msg msg = answer(2, &kept, 0);
  dmi_wire_put(header, &msg);
  struct dmi_net_peer *peer = dmi_peer_find(nodes[1].net, 1);
  dmi_lock(&peer->turn_lock, DMI_RANK_TURN);
  struct dmi_link *link = peer->conn->link;
  dmi_unlock(&peer->turn_lock, DMI_RANK_TURN);
  send_all(link, header, sizeof header);
  send_all(link, msg.body.ptr, PAGE / 2);
  /* Wait until it has begun, or the answer of 3 could be first. */
  for (bool claimed = false; !claimed; sched_yield()) {
    struct dmi_mapping *mapping;
    struct dmi_page *page = dmi_ops_page(here.ops, kept.access.op, &mapping);
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    claimed = dmi_ops_find(here.ops, kept.access.op, page)->claimed;
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    dmi_mapping_unref(&here.core, mapping);
  }
  for (uint64_t how = 0; how < 3; how++)
    node_send(&nodes[2], 1, answer(3, &kept, how));
  while (atomic_load(&from_two) < 3)
    sched_yield();
  assert_int_equal(atomic_load(&read_result), -1);
  send_all(link, msg.body.ptr + PAGE / 2, PAGE - PAGE / 2);
  pthread_join(reader, NULL);
  assert_int_equal(atomic_load(&read_result), DMI_TRUE);
  assert_true(all(buf, PAGE, 2));
  dmi_slice_drop(&msg.body);
  free(buf);
  finish();
}

static struct memory_net *memory;

static struct dmi_transport *open_memory(uint32_t machine) {
  return memory_net_open(memory, machine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_half_answer),
                                     cmocka_unit_test(test_two_answers)};
  alarm(LIMIT);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  print_message("over memory:\n");
  memory = memory_net_new();
  node_transport = open_memory;
  failed += cmocka_run_group_tests(tests, NULL, NULL);
  memory_net_free(memory);
  return failed;
}
