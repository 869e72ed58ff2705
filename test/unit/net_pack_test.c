/*
 * net_pack_test.c - messages that are queued together travel in one envelope: in order, each once,
 * with its bytes, between others that are not packed; and answers to what came together go out
 * together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net_node.h"
#include "msg/packed.h"

#define MANY 1000
#define ASKED 100

/* What a node has got, in its order. */
static struct dmi_msg got[MANY + 1];
static uint64_t got_num, got_bytes_wrong, got_borrowed;

/* The bytes of message i. */
static struct dmi_msg numbered(uint64_t i) {
  static const uint8_t types[] = {DMI_MSG_PUT, DMI_MSG_GET, DMI_MSG_INVALIDATE, DMI_MSG_UPDATE};
  const uint64_t size = i % 7 == 0 ? 5000 : i % 11 == 0 ? DMI_PACKED_BODY : i % 100;
  struct dmi_msg msg = {.type = types[i / 50 % 4]};
  if (i % 97 == 5) { /* never packed */
    msg = (struct dmi_msg){.type = DMI_SVC_CAPACITY_ASK};
    msg.capacity_ask.number = i;
    return msg;
  }
  msg.origin = (uint32_t)(i % 3);
  msg.map = 1 << 20;
  msg.page = i * i;
  if (msg.type == DMI_MSG_INVALIDATE) return msg;
  if (msg.type == DMI_MSG_UPDATE)
    msg.update = (struct dmi_msg_update){.version = {i}, .off = i / 2, .len = size};
  else
    msg.access = (struct dmi_msg_access){.op = {i}, .off = i / 2, .len = size};
  if (!size) return msg;
  struct dmi_frame *frame = dmi_frame_new(size);
  memset(frame->bytes, (int)i, size);
  msg.body = (struct dmi_slice){frame, frame->bytes, size};
  return msg;
}

static void keep(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)node, (void)from;
  for (uint64_t i = 0; i < msg->body.len; i++)
    got_bytes_wrong += msg->body.ptr[i] != (unsigned char)got_num;
  if (msg->borrowed) {
    assert_null(msg->body.frame);
    assert_int_not_equal(msg->type, DMI_MSG_UPDATE); /* may be kept */
    got_borrowed++;
  }
  got[got_num] = *msg;
  got[got_num].body.ptr = NULL;
  got_num++;
}

static void open_two(struct node *a, struct node *b) {
  node_open(a, 1);
  node_open(b, 2);
  node_meet(a, b);
  node_meet(b, a);
  got_num = got_bytes_wrong = got_borrowed = 0;
}

static void close_two(struct node *a, struct node *b) {
  node_stop(a);
  node_stop(b);
  node_free(a);
  node_free(b);
  assert_int_equal(dmi_frame_total(), 0);
}

static void all_come_in_order(void **state) {
  struct node a, b;
  (void)state;
  open_two(&a, &b);
  b.on_message = keep;
  node_run(&a);
  node_run(&b);
  for (uint64_t i = 0; i < MANY; i++) {
    struct dmi_msg msg = numbered(i);
    assert_true(dmi_net_send(a.net, 2, &msg));
    if (i % 333 == 100) dmi_net_flush(a.net, 2);
  }
  dmi_net_flush(a.net, 2);
  NODE_WAIT(&b, messages, MANY);
  assert_int_equal(got_bytes_wrong, 0);
  for (uint64_t i = 0; i < MANY; i++) {
    struct dmi_msg msg = numbered(i);
    assert_int_equal(got[i].type, msg.type);
    assert_int_equal(got[i].page, msg.page);
    assert_int_equal(got[i].origin, msg.origin);
    assert_memory_equal(got[i].word, msg.word, sizeof(msg.word));
    assert_int_equal(got[i].body.len, msg.body.len);
    dmi_slice_drop(&msg.body);
  }
  assert_in_range(dmi_net_messages(a.net, 2), 1, MANY / 2);
  assert_int_equal(dmi_net_messages(a.net, 99), 0);
  close_two(&a, &b);
  if (!node_borrows) assert_int_equal(got_borrowed, 0);
}

/* Most bodies have arrived whole with their headers; others are received, as longer ones are. */
static void small_bodies_are_borrowed(void **state) {
  node_borrows = true;
  all_come_in_order(state);
  node_borrows = false;
  assert_in_range(got_borrowed, 50, MANY);
}

/* As an owner: answers each request at once. */
static void answer(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct dmi_msg reply = {.type = DMI_MSG_GOT, .flags = DMI_F_ZERO, .origin = msg->origin};
  reply.map = msg->map;
  reply.page = msg->page;
  reply.got = (struct dmi_msg_got){msg->access.op, msg->access.len};
  if (!dmi_net_send(node->net, from, &reply)) abort();
  dmi_net_flush(node->net, from);
}

static struct dmi_msg question(uint64_t i) {
  struct dmi_msg msg = {.type = DMI_MSG_GET, .origin = 1, .map = 1 << 20, .page = i};
  msg.access = (struct dmi_msg_access){.op = {7 * i}, .off = 8, .len = 8};
  return msg;
}

static void one_message_each_way(void **state) {
  struct node a, b;
  struct dmi_msg first = question(0);
  uint64_t asked, answered;
  (void)state;
  open_two(&a, &b);
  b.on_message = answer;
  a.on_message = keep;
  node_run(&a);
  node_run(&b);
  assert_true(node_send(&a, 2, first)); /* connects */
  NODE_WAIT(&a, messages, 1);
  asked = dmi_net_messages(a.net, 2);
  answered = dmi_net_messages(b.net, 1);
  for (uint64_t i = 1; i <= ASKED; i++) {
    struct dmi_msg msg = question(i);
    assert_true(dmi_net_send(a.net, 2, &msg));
  }
  dmi_net_flush(a.net, 2);
  NODE_WAIT(&a, messages, 1 + ASKED);
  assert_int_equal(dmi_net_messages(a.net, 2) - asked, 1);
  assert_int_equal(dmi_net_messages(b.net, 1) - answered, 1);
  for (uint64_t i = 0; i <= ASKED; i++) {
    assert_int_equal(got[i].page, i);
    assert_int_equal(got[i].got.op.n, 7 * i);
  }
  close_two(&a, &b);
}

static void the_same_sealed(void **state) {
  node_encrypt = true;
  all_come_in_order(state);
  one_message_each_way(state);
  small_bodies_are_borrowed(state);
  node_encrypt = false;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_come_in_order), cmocka_unit_test(small_bodies_are_borrowed),
      cmocka_unit_test(one_message_each_way), cmocka_unit_test(the_same_sealed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
