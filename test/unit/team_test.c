/*
 * team_test.c - the pure parts of teams: trees, operations, tables, and what a port decides in
 * single cases (test/sim/team_sim runs them together).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "team/combine.h"
#include "team/port.h"
#include "team/table.h"
#include "team/tree.h"

/* ---- Trees ---------------------------------------------------------------------------------- */

/* The formula of OX-RFC-102: b * 2^k, b odd, receives from (b - 1) * 2^k and sends to
 * b * 2^k + 2^i, i = k - 1 ... 0. */
static void check_tree(int32_t size, int32_t root, int32_t at) {
  struct dmi_team_tree tree = dmi_team_tree_of((at + root) % size, root, size);
  int32_t k = 0, step, child;
  while (at ? !(at >> k & 1) : 1 << k < size)
    k++;
  assert_int_equal(tree.parent, at ? (at - (1 << k) + root) % size : -1);
  step = tree.span / 2;
  for (int32_t i = k - 1; i >= 0; i--) {
    if (at + (1 << i) >= size) continue;
    child = dmi_team_tree_down(&tree, &step);
    assert_int_equal(child, (at + (1 << i) + root) % size);
  }
  assert_int_equal(dmi_team_tree_down(&tree, &step), -1);
  step = 1;
  for (int32_t i = 0; i < k && at + (1 << i) < size; i++) {
    child = dmi_team_tree_up(&tree, &step);
    assert_int_equal(child, (at + (1 << i) + root) % size);
  }
  assert_int_equal(dmi_team_tree_up(&tree, &step), -1);
}

static void test_trees(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 40; size++)
    for (int32_t root = 0; root < size; root++)
      for (int32_t at = 0; at < size; at++)
        check_tree(size, root, at);
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void test_combine(void **state) {
  int32_t a[] = {INT32_MAX, -5}, b[] = {1, 3};
  uint16_t u[] = {0xffff}, v[] = {0xffff};
  long double x[] = {1.5L}, y[] = {-2.0L};
  int8_t i[] = {-3}, j[] = {2};
  (void)state;
  dmi_team_combine(DMI_TYPE_INT32, DMI_OP_SUM, a, b, 2);
  assert_int_equal(a[0], INT32_MIN); /* wraps around */
  assert_int_equal(a[1], -2);
  dmi_team_combine(DMI_TYPE_UINT16, DMI_OP_PROD, u, v, 1); /* no overflow of int */
  assert_int_equal(u[0], 1);
  dmi_team_combine(DMI_TYPE_LONG_DOUBLE, DMI_OP_MIN, x, y, 1);
  assert_true(x[0] == -2.0L);
  dmi_team_combine(DMI_TYPE_INT8, DMI_OP_MAX, i, j, 1);
  assert_int_equal(i[0], 2);
  dmi_team_combine(DMI_TYPE_INT8, DMI_OP_BXOR, i, j, 1);
  assert_int_equal(i[0], 0);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_UINT64, DMI_OP_BAND), 8);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_DOUBLE, DMI_OP_BAND), 0);
  assert_int_equal(dmi_team_combine_size(0, DMI_OP_SUM), 0);
  assert_int_equal(dmi_team_combine_size(12, DMI_OP_SUM), 0);
  assert_int_equal(dmi_team_combine_size(DMI_TYPE_INT32, 8), 0);
}

/* ---- Tables --------------------------------------------------------------------------------- */

#define CAPACITY 4

static struct dmi_team_answer ask(struct dmi_team_table *table, struct dmi_team_step step) {
  struct dmi_team_answer answer;
  dmi_team_table_step(table, dmi_team_table_size(CAPACITY), &step, &answer, sizeof(answer));
  return answer;
}

static struct dmi_team_answer join(struct dmi_team_table *table, int32_t rank, uint32_t process) {
  struct dmi_team_answer answer =
      ask(table, (struct dmi_team_step){.what = DMI_TEAM_JOIN, .rank = rank, .process = process});
  if (answer.error) return answer;
  return ask(table, (struct dmi_team_step){
                        .what = DMI_TEAM_ARRIVE, .rank = answer.rank, .process = process});
}

static struct dmi_team_answer arrive(struct dmi_team_table *table, int32_t rank, uint32_t process,
                                     enum dmi_team_arrived how) {
  return ask(table, (struct dmi_team_step){.what = DMI_TEAM_ARRIVE,
                                           .rank = rank,
                                           .process = process,
                                           .arrived = how,
                                           .epoch = table->epoch});
}

static void test_table(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  assert_int_equal(join(table, 2, 10).error, DMI_EINVAL);
  assert_int_equal(join(table, 1, 10).begins, 0);
  assert_int_equal(join(table, 1, 11).error, DMI_EBUSY);
  assert_int_equal(join(table, -1, 11).begins, 1); /* gets rank 0 */
  assert_int_equal(table->slots[0].member, 11);
  assert_int_equal(join(table, -1, 12).error, DMI_EBUSY);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_EBUSY);
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).error, DMI_ELOST); /* not its rank */
  /* Larger: a reset waits for those who are to come. */
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 5}).error,
                   DMI_ESIZE);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(arrive(table, 1, 10, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(join(table, -1, 12).begins, 1);
  assert_int_equal(table->size, 3);
  assert_int_equal(table->epoch, 2);
  /* A loss counts as an arrival; a hole is not waited for. */
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(arrive(table, 2, 12, DMI_TEAM_LEAVES).begins, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = 10}).begins,
                   1);
  assert_int_equal(table->slots[1].member, 0);
  assert_int_equal(table->slots[2].member, 0);
  assert_int_equal(arrive(table, 0, 11, DMI_TEAM_LEAVES).begins, 1);
  /* As at first. */
  assert_int_equal(table->size, 0);
  assert_true(table->slots[1].awaited);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_OK);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_LOOK}).error, DMI_EINVAL);
  free(table);
}

static struct dmi_team_answer look(struct dmi_team_table *table, struct dmi_team_slot *slots) {
  struct dmi_team_step step = {.what = DMI_TEAM_LOOK};
  struct {
    struct dmi_team_answer answer;
    struct dmi_team_slot slots[CAPACITY];
  } in;
  dmi_team_table_step(table, dmi_team_table_size(CAPACITY), &step, &in, sizeof(in));
  memcpy(slots, in.slots, sizeof(in.slots));
  return in.answer;
}

/* A larger table has everything before the old one is told of it; not when that has changed. */
static void test_table_grows(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  struct dmi_team_table *more = calloc(1, dmi_team_table_size(9));
  struct dmi_team_slot slots[CAPACITY];
  struct dmi_team_answer was;
  struct dmi_team_step move = {.what = DMI_TEAM_MOVE, .size = CAPACITY, .addr = 99};
  (void)state;
  dmi_team_table_init(table, 7, CAPACITY, CAPACITY);
  was = look(table, slots);
  (void)join(table, 1, 10);
  move.steps = was.steps;
  assert_int_equal(ask(table, move).error, DMI_EBUSY);
  was = look(table, slots);
  dmi_team_table_grow(more, &was, slots, 9);
  move.steps = was.steps;
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 9}).error,
                   DMI_ESIZE); /* a step that fails changes nothing */
  assert_int_equal(ask(table, move).error, DMI_OK);
  assert_int_equal(ask(table, move).error, DMI_TEAM_HAS_MOVED);
  assert_int_equal(table->moved, 99);
  assert_int_equal(more->team, 7);
  assert_int_equal(more->moved, 0);
  assert_int_equal(more->capacity, 9);
  assert_int_equal(more->wanted, CAPACITY);
  assert_int_equal(more->slots[1].next, 10);
  assert_int_equal(more->slots[1].ready, 1);
  assert_int_equal(more->slots[2].awaited, 1);
  assert_int_equal(more->slots[8].awaited, 0);
  free(table);
  free(more);
}

/* The last members leave, though some rank is awaited, and whoever joins or does not any more. */
static void test_table_left(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  const struct dmi_team_step unjoin = {.what = DMI_TEAM_UNJOIN, .rank = 3, .process = 13};
  (void)state;
  dmi_team_table_init(table, 7, 1, CAPACITY);
  assert_int_equal(join(table, 0, 10).begins, 1);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  assert_int_equal(join(table, 1, 11).begins, 0); /* rank 2 is awaited, too */
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_LEAVES).begins, 1);
  assert_int_equal(table->size, 0);
  assert_int_equal(table->slots[1].next, 11); /* goes on waiting */
  assert_int_equal(join(table, 2, 12).begins, 0);
  assert_int_equal(join(table, 0, 10).begins, 1);
  assert_int_equal(table->size, 3);
  assert_int_equal(table->slots[1].member, 11);
  /* A rank that is needed and leaves is waited for; one that is lost is not. */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 3});
  (void)arrive(table, 1, 11, DMI_TEAM_RESETS);
  (void)arrive(table, 2, 12, DMI_TEAM_LEAVES);
  assert_int_equal(arrive(table, 0, 10, DMI_TEAM_RESETS).begins, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_GONE, .process = 10}).begins,
                   0);
  assert_int_equal(join(table, 2, 14).begins, 1);
  assert_int_equal(table->slots[0].member, 0);
  /* One that is cut off. */
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 4});
  assert_int_equal(join(table, 3, 13).begins, 0);
  (void)ask(table, (struct dmi_team_step){.what = DMI_TEAM_RESIZE, .size = 2});
  for (int32_t rank = 0; rank < 3; rank++)
    (void)arrive(table, rank, table->slots[rank].member, DMI_TEAM_LEAVES);
  assert_int_equal(table->size, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_EBUSY);
  (void)ask(table, unjoin);
  assert_int_equal(table->slots[3].ready, 0);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = DMI_TEAM_END}).error, DMI_OK);
  free(table);
}

static void test_table_overwritten(void **state) {
  struct dmi_team_table *table = calloc(1, dmi_team_table_size(CAPACITY));
  (void)state;
  dmi_team_table_init(table, 7, 2, CAPACITY);
  table->capacity = 1000000;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->capacity = CAPACITY;
  table->wanted = 5;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->wanted = -1;
  assert_int_equal(join(table, 0, 1).error, DMI_EINVAL);
  table->wanted = 2;
  assert_int_equal(arrive(table, 4, 1, DMI_TEAM_RESETS).error, DMI_EINVAL);
  assert_int_equal(arrive(table, -1, 1, DMI_TEAM_RESETS).error, DMI_EINVAL);
  assert_int_equal(ask(table, (struct dmi_team_step){.what = 99}).error, DMI_EINVAL);
  free(table);
}

/* ---- Ports ---------------------------------------------------------------------------------- */

/* Rank 0 of 2, in epoch 5. */
static struct dmi_team_port *port_new(void) {
  static const uint32_t processes[2] = {10, 11};
  struct dmi_team_port *port = calloc(1, sizeof(*port));
  struct dmi_team_out out = {0};
  dmi_team_port_init(port, 7, 0, 4);
  assert_true(dmi_team_port_begin(port, 5, 2, processes, &out));
  dmi_team_out_free(&out);
  return port;
}

static struct dmi_msg said(enum dmi_msg_type type, uint64_t epoch, const char *text) {
  struct dmi_msg msg = {.type = (uint8_t)type, .origin = 11, .map = 7};
  msg.team.from = 1;
  msg.team.epoch = epoch;
  if (text) msg.body = (struct dmi_slice){.ptr = (const unsigned char *)text, .len = strlen(text)};
  return msg;
}

/* What a correct peer does not send is refused. */
static void test_port_wrong(void **state) {
  struct dmi_team_port *port = port_new();
  struct dmi_team_out out = {0};
  struct dmi_msg msg = said(DMI_TEAM_EAGER, 5, "x");
  static char large[65536];
  (void)state;
  msg.team.from = 2;
  assert_false(dmi_team_port_message(port, &msg, &out));
  msg = said(DMI_TEAM_CREDIT, 5, NULL);
  msg.team.count = 1;
  assert_false(dmi_team_port_message(port, &msg, &out)); /* more than the window */
  msg = said(DMI_TEAM_CREDIT, 6, NULL);
  assert_false(dmi_team_port_message(port, &msg, &out)); /* nothing was sent in that epoch */
  for (int i = 0; i < 3; i++) {
    msg = said(DMI_TEAM_EAGER, 5, NULL);
    msg.body = (struct dmi_slice){.ptr = (unsigned char *)large, .len = sizeof(large)};
    assert_true(dmi_team_port_message(port, &msg, &out));
  }
  msg.body = (struct dmi_slice){.ptr = (unsigned char *)large, .len = sizeof(large)};
  assert_false(dmi_team_port_message(port, &msg, &out)); /* the overhead of the others is used */
  dmi_team_port_free(port);
  dmi_team_out_free(&out);
  free(port);
}

/* An old message is dropped, an old PULL answered, a newer message kept. */
static void test_port_epochs(void **state) {
  static const uint32_t processes[2] = {10, 11};
  struct dmi_team_port *port = port_new();
  struct dmi_team_out out = {0};
  struct dmi_msg msg = said(DMI_TEAM_EAGER, 4, "old");
  struct dmi_team_op op = {.peer = DMI_TEAM_FROM_ANY};
  char buf[8] = "";
  (void)state;
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_false(dmi_team_port_look(port, &op));
  msg = said(DMI_TEAM_PULL, 4, NULL);
  msg.team.serial = 3;
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_int_equal(out.num, 1);
  assert_int_equal(out.msgs[0].flags, DMI_F_GONE);
  assert_int_equal(out.msgs[0].team.epoch, 4);
  assert_int_equal(out.msgs[0].team.serial, 3);
  msg = said(DMI_TEAM_EAGER, 6, "new");
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_false(dmi_team_port_look(port, &op));
  dmi_team_port_reset(port, &out);
  assert_true(dmi_team_port_begin(port, 6, 2, processes, &out));
  op = (struct dmi_team_op){.peer = 1, .buf = (unsigned char *)buf, .size = sizeof(buf)};
  dmi_team_port_receive(port, &op, &out);
  assert_int_equal(op.error, DMI_OK);
  assert_int_equal(op.got, 3);
  assert_memory_equal(buf, "new", 3);
  assert_int_equal(port->kept, 0);
  dmi_team_port_free(port);
  dmi_team_out_free(&out);
  free(port);
}

/* A loss takes back what was offered in a collective call, and who has pulled it is told why; then
 * its collective calls fail, too, though it has not heard of the loss. */
static void test_port_fails(void **state) {
  static const uint32_t processes[3] = {10, 11, 12};
  struct dmi_team_port *ports[2];
  struct dmi_team_out out = {0};
  static unsigned char large[100000];
  struct dmi_team_op send = {
      .lane = DMI_TEAM_COLLECTIVE, .peer = 1, .buf = large, .size = sizeof(large)};
  struct dmi_team_op receive = send;
  struct dmi_msg msg;
  (void)state;
  for (int32_t i = 0; i < 2; i++) {
    ports[i] = calloc(1, sizeof(*ports[i]));
    dmi_team_port_init(ports[i], 7, i, 4);
    assert_true(dmi_team_port_begin(ports[i], 5, 3, processes, &out));
  }
  receive.peer = 0;
  dmi_team_port_send(ports[0], &send, &out);
  msg = out.msgs[0];
  msg.origin = 10;
  assert_int_equal(msg.type, DMI_TEAM_OFFER);
  out.num = 0;
  dmi_team_port_receive(ports[1], &receive, &out);
  assert_true(dmi_team_port_message(ports[1], &msg, &out)); /* pulls */
  dmi_team_port_lost(ports[0], 2, &out);
  assert_int_equal(send.state, DMI_TEAM_OVER);
  assert_int_equal(send.error, DMI_ELOST);
  msg = out.msgs[0];
  msg.origin = 11;
  assert_int_equal(msg.type, DMI_TEAM_PULL);
  out.num = 0;
  assert_true(dmi_team_port_message(ports[0], &msg, &out));
  msg = out.msgs[0];
  msg.origin = 10;
  assert_int_equal(msg.flags, DMI_F_GONE);
  msg.team.count = DMI_OK;
  assert_false(dmi_team_port_message(ports[1], &msg, &out)); /* no reason */
  msg.team.count = DMI_ELOST;
  assert_true(dmi_team_port_message(ports[1], &msg, &out));
  assert_int_equal(receive.error, DMI_ELOST);
  send.peer = 2;
  dmi_team_port_send(ports[1], &send, &out);
  assert_int_equal(send.error, DMI_ELOST);
  receive.peer = 2;
  dmi_team_port_receive(ports[1], &receive, &out);
  assert_int_equal(receive.error, DMI_ELOST);
  for (int32_t i = 0; i < 2; i++) {
    dmi_team_port_free(ports[i]);
    free(ports[i]);
  }
  dmi_team_out_free(&out);
}

/* A peer that leaves while it takes our bytes breaks the rules: the bytes are not ours yet. */
static void test_port_left(void **state) {
  struct dmi_team_port *port = port_new();
  struct dmi_team_out out = {0};
  static unsigned char large[100000];
  struct dmi_team_op op = {.peer = 1, .buf = large, .size = sizeof(large)};
  struct dmi_msg msg;
  (void)state;
  dmi_team_port_send(port, &op, &out);
  msg = said(DMI_TEAM_PULL, 5, NULL);
  msg.team.serial = op.serial;
  assert_true(dmi_team_port_message(port, &msg, &out));
  msg = said(DMI_TEAM_LEAVE, 5, NULL);
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_int_equal(op.state, DMI_TEAM_SENDING);
  dmi_team_port_lost(port, 1, &out);
  assert_int_equal(op.error, DMI_ELOST);
  dmi_team_port_free(port);
  dmi_team_out_free(&out);
  free(port);
}

/* Who does not have the rank must not speak for it, nor say where bytes go; bytes that nobody
 * pulled are of no use; what comes ahead uses the window, too, and must be of the right process. */
static void test_port_trust(void **state) {
  static const uint32_t processes[3] = {10, 11, 0};
  struct dmi_team_port *port = port_new();
  struct dmi_team_out out = {0};
  static unsigned char large[100000], buf[100000];
  struct dmi_team_op op = {.peer = 1, .buf = buf, .size = sizeof(buf)};
  struct dmi_msg msg = said(DMI_TEAM_EAGER, 5, "x");
  (void)state;
  msg.origin = 12;
  assert_false(dmi_team_port_message(port, &msg, &out));
  msg = said(DMI_TEAM_RESET, 5, NULL);
  msg.origin = 12;
  assert_false(dmi_team_port_message(port, &msg, &out));
  assert_false(port->reset);
  msg = said(DMI_TEAM_OFFER, 5, NULL);
  msg.team.serial = 3;
  msg.team.count = sizeof(large);
  assert_true(dmi_team_port_message(port, &msg, &out));
  dmi_team_port_receive(port, &op, &out);
  assert_int_equal(op.state, DMI_TEAM_PULLING);
  msg = said(DMI_TEAM_BODY, 5, NULL);
  msg.team.serial = 3;
  msg.body = (struct dmi_slice){.ptr = NULL, .len = sizeof(large)};
  assert_ptr_equal(dmi_team_port_where(port, &msg), buf);
  msg.origin = 12;
  assert_null(dmi_team_port_where(port, &msg));
  msg.origin = 11;
  assert_false(dmi_team_port_message(port, &msg, &out)); /* it went nowhere */
  msg.body.len--;
  assert_null(dmi_team_port_where(port, &msg));
  assert_false(dmi_team_port_message(port, &msg, &out)); /* not what was offered */
  msg.body = (struct dmi_slice){.ptr = large, .len = sizeof(large)};
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_int_equal(op.error, DMI_OK);
  dmi_team_port_reset(port, &out);
  for (int i = 0; i < 4; i++) {
    msg = said(DMI_TEAM_EAGER, 6, NULL);
    msg.body = (struct dmi_slice){.ptr = large, .len = 65536};
    assert_int_equal(dmi_team_port_message(port, &msg, &out), i < 3);
  }
  msg = said(DMI_TEAM_EAGER, 6, "a hole says this");
  msg.team.from = 2;
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_true(dmi_team_port_begin(port, 6, 3, processes, &out));
  op = (struct dmi_team_op){.peer = 2, .buf = buf, .size = sizeof(buf)};
  assert_false(dmi_team_port_look(port, &op));
  msg = said(DMI_TEAM_EAGER, 6, NULL);
  msg.body = (struct dmi_slice){.ptr = large, .len = 65536};
  assert_false(dmi_team_port_message(port, &msg, &out)); /* the window is used */
  dmi_team_port_reset(port, &out);
  msg = said(DMI_TEAM_LEAVE, 7, NULL);
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_false(dmi_team_port_message(port, &msg, &out)); /* twice */
  msg = said(DMI_TEAM_EAGER, 7, "x");
  msg.origin = 12;
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_false(dmi_team_port_begin(port, 7, 3, processes, &out)); /* not of rank 1 */
  dmi_team_port_free(port);
  dmi_team_out_free(&out);
  free(port);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),       cmocka_unit_test(test_combine),
      cmocka_unit_test(test_table),       cmocka_unit_test(test_table_overwritten),
      cmocka_unit_test(test_table_grows), cmocka_unit_test(test_table_left),
      cmocka_unit_test(test_port_fails),  cmocka_unit_test(test_port_left),
      cmocka_unit_test(test_port_trust),  cmocka_unit_test(test_port_wrong),
      cmocka_unit_test(test_port_epochs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
