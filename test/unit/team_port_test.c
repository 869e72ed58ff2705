/*
 * team_port_test.c - what a port of a team decides in single cases (test/sim/team_sim runs many
 * together).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dmi_api.h"
#include "team/port.h"
#include "team/table.h"

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
  msg = said(DMI_TEAM_EAGER, 6, NULL);
  msg.team.from = DMI_TEAM_RANKS_MOST; /* no team has it */
  assert_false(dmi_team_port_message(port, &msg, &out));
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

/* What the others say of the next epoch before this rank has called reset: it ends nothing here,
 * and all of it is done when that epoch begins, also behind a message that is wrong. */
static void test_port_ahead(void **state) {
  static const uint32_t processes[2] = {10, 11};
  struct dmi_team_port *port = port_new();
  struct dmi_team_out out = {0};
  unsigned char buf[8] = "";
  struct dmi_team_op op = {.peer = 1, .buf = buf, .size = sizeof(buf)};
  struct dmi_msg msg;
  (void)state;
  dmi_team_port_receive(port, &op, &out);
  msg = said(DMI_TEAM_EAGER, 6, "next");
  assert_true(dmi_team_port_message(port, &msg, &out));
  msg = said(DMI_TEAM_RESET, 6, NULL);
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_int_equal(op.state, DMI_TEAM_POSTED);
  assert_false(port->reset);
  msg = said(DMI_TEAM_EAGER, 5, "now");
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_int_equal(op.error, DMI_OK);
  assert_int_equal(op.got, 3);
  assert_memory_equal(buf, "now", 3);
  dmi_team_port_reset(port, &out);
  assert_true(dmi_team_port_begin(port, 6, 2, processes, &out));
  assert_true(port->reset);
  assert_int_equal(port->kept, 0); /* a port in state RESET keeps nothing */
  op = (struct dmi_team_op){.peer = 1, .buf = buf, .size = sizeof(buf)};
  dmi_team_port_receive(port, &op, &out);
  assert_int_equal(op.error, DMI_ERESET);
  msg = said(DMI_TEAM_EAGER, 7, "x");
  msg.origin = 12;
  assert_true(dmi_team_port_message(port, &msg, &out));
  msg = said(DMI_TEAM_RESET, 7, NULL);
  assert_true(dmi_team_port_message(port, &msg, &out));
  assert_false(dmi_team_port_begin(port, 7, 2, processes, &out)); /* 12 is not rank 1 */
  assert_true(port->reset);
  dmi_team_port_free(port);
  dmi_team_out_free(&out);
  free(port);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_port_wrong), cmocka_unit_test(test_port_epochs),
      cmocka_unit_test(test_port_fails), cmocka_unit_test(test_port_left),
      cmocka_unit_test(test_port_trust), cmocka_unit_test(test_port_ahead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
