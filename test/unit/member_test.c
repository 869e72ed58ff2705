/*
 * member_test.c - single scenarios of lib/core/member.h: the first process is tested; the others
 * are only messages that the test makes, or further cores.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "member_one.h"
#include "msg/wire.h"

#define TEMP DMI_NET_TEMP

static struct dmi_mout out;

static struct dmi_member *make(void) {
  struct dmi_member_env env = {
      .connected = connected, .addrs = addrs, .settings = {.dead_after = 3}};
  struct dmi_node_info info = {.cores = 4, .memory = 1000, .host = "here"};
  dmi_mout_clear(&out);
  return dmi_member_new(&env, &info, &(struct dmi_addr){.port = 7880});
}

static struct dmi_member *first(void) {
  struct dmi_member *m = make();
  dmi_member_start_first(m, program_id, &out);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_mout_clear(&out);
  return m;
}

/* The next action of this type, or a failed test. */
static struct dmi_mact *expect(enum dmi_mact_type type) {
  struct dmi_mact *act = find_action(&out, type);
  if (!act) fail_msg("no action %d among %u", type, out.num);
  return act;
}

static struct dmi_mact *expect_send(uint32_t to, uint8_t type) {
  struct dmi_mact *act = find_send(&out, to, type);
  if (!act) fail_msg("%s was not sent to %u", dmi_wire_name(type), to);
  return act;
}

static bool has(enum dmi_mact_type type) {
  return find_action(&out, type);
}

static bool give(struct dmi_member *m, uint32_t from, uint8_t type, uint64_t op,
                 struct dmi_pack *body) {
  return give_member(m, from, type, op, 0, body, &out);
}

static bool give_taken(struct dmi_member *m, uint32_t from, uint64_t view) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, view);
  dmi_pack_u8(&body, 0);
  return give(m, from, DMI_CTL_VIEW_TAKEN, 0, &body);
}

/* A process joins; the first one gets uid 2. */
static void join(struct dmi_member *m, uint32_t uid, uint64_t view) {
  struct dmi_pack body;
  struct dmi_node_info info = {.cores = 2, .memory = 500, .host = "there", .tag = "there/9"};
  body = join_body(&(struct dmi_addr){.port = 7881}, &info, false);
  assert_true(give(m, TEMP + uid, DMI_CTL_JOIN, 0, &body));
  assert_int_equal(expect(DMI_MACT_RENAME)->uid, uid);
  expect_send(uid, DMI_CTL_ACCEPT);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  assert_true(give_taken(m, uid, view));
}

static void end(struct dmi_member *m) {
  dmi_member_free(m);
  dmi_mout_free(&out);
}

static void test_first(void **state) {
  struct dmi_member *m = make();
  (void)state;
  dmi_member_start_first(m, program_id, &out);
  assert_int_equal(expect(DMI_MACT_SELF)->id, 1);
  assert_int_equal(expect(DMI_MACT_VIEW)->peer_num, 1);
  assert_int_equal(expect(DMI_MACT_JOINED)->dmi_id.n, 0);
  assert_true(dmi_member_is_coordinator(m));
  end(m);
}

/* Its own DMI_OPEN is the first notice; then a caller waits until there is another. */
static void test_notices(void **state) {
  struct dmi_member *m = first();
  (void)state;
  dmi_member_poll(m, 5, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->op, 5);
  assert_int_equal(expect(DMI_MACT_RESULT)->notices[0].state, DMI_OPEN);
  assert_string_equal(expect(DMI_MACT_RESULT)->notices[0].info.host, "here");
  dmi_mout_clear(&out);
  dmi_member_peek(m, 6, &out);
  assert_false(expect(DMI_MACT_RESULT)->flag);
  dmi_mout_clear(&out);
  dmi_member_poll(m, 7, &out);
  assert_int_equal(out.num, 0);
  dmi_member_leave_asked(m, &out);
  expect(DMI_MACT_CLOSED);
  assert_int_equal(expect(DMI_MACT_RESULT)->op, 7);
  assert_int_equal(expect(DMI_MACT_RESULT)->notices[0].state, DMI_CLOSE);
  end(m);
}

/* JOINED only after the other has taken the view too. */
static void test_join(void **state) {
  struct dmi_member *m = first();
  struct dmi_pack body;
  struct dmi_node_info info = {.cores = 2, .memory = 500, .host = "there"};
  (void)state;
  body = join_body(&(struct dmi_addr){.port = 7881}, &info, false);
  assert_true(give(m, TEMP, DMI_CTL_JOIN, 0, &body));
  assert_int_equal(expect(DMI_MACT_VIEW)->peers[0].addr.port, 7881);
  assert_true(give_taken(m, 2, 2));
  assert_false(has(DMI_MACT_SEND));
  dmi_member_viewed(m, &out);
  expect_send(2, DMI_CTL_JOINED);
  end(m);
}

static void test_welcome_waits_for_opened(void **state) {
  struct dmi_member *m = first();
  (void)state;
  join(m, 2, 2);
  dmi_mout_clear(&out);
  dmi_member_welcome(m, 9, (dmi_id_t){1}, &out);
  expect_send(2, DMI_CTL_OPEN);
  assert_false(has(DMI_MACT_RESULT));
  dmi_member_welcome(m, 10, (dmi_id_t){1}, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_WHY(DMI_ENOTASKED, DMI_WHY_WELCOMED));
  dmi_mout_clear(&out);
  dmi_member_welcome(m, 11, (dmi_id_t){5}, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EMEMBER);
  assert_true(give(m, 2, DMI_CTL_OPENED, 0, NULL));
  assert_int_equal(expect(DMI_MACT_RESULT)->op, 9);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_OK);
  assert_false(give(m, 2, DMI_CTL_OPENED, 0, NULL));
  end(m);
}

/* A name: in the view that is sent to 2, or in ACCEPT. */
static uint64_t sent_root(uint32_t to, uint8_t type, const char *name) {
  struct dmi_unpack body;
  struct dmi_view_body view;
  uint8_t before[30];
  uint64_t addr;
  dmi_unpack_init(&body, &expect_send(to, type)->msg.body);
  dmi_unpack_raw(&body, before, type == DMI_CTL_ACCEPT ? sizeof(before) : 0);
  assert_true(dmi_view_unpack(&body, &view));
  addr = dmi_root_get(&view.roots, name, strlen(name));
  dmi_view_free(&view);
  return addr;
}

/* Complete, and seen by others, when all have the view with it. */
static void test_roots(void **state) {
  struct dmi_member *m = first();
  struct dmi_pack body;
  struct dmi_node_info info = {.cores = 2, .memory = 500, .host = "there"};
  (void)state;
  join(m, 2, 2);
  dmi_mout_clear(&out);
  dmi_member_root_set(m, 9, "a", 1, 77, &out);
  assert_int_equal(sent_root(2, DMI_CTL_VIEW, "a"), 77);
  dmi_member_viewed(m, &out);
  dmi_member_root_get(m, 10, "a", 1, &out);
  assert_false(has(DMI_MACT_RESULT));
  assert_true(give_taken(m, 2, 3));
  assert_int_equal(out.act[0].op, 9);
  assert_int_equal(out.act[1].op, 10);
  assert_int_equal(out.act[1].value, 77);
  dmi_mout_clear(&out);
  dmi_member_root_get(m, 11, "b", 1, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->value, 0);
  body = join_body(&(struct dmi_addr){.port = 7881}, &info, false);
  assert_true(give(m, TEMP + 3, DMI_CTL_JOIN, 0, &body));
  assert_int_equal(sent_root(3, DMI_CTL_ACCEPT, "a"), 77);
  dmi_pack_init(&body);
  dmi_pack_bytes(&body, "", 0);
  assert_false(give(m, 2, DMI_CTL_ROOT_GET, 5, &body)); /* no name */
  end(m);
}

/* Their bytes are limited: whoever joins gets all. */
static void test_many_roots(void **state) {
  static char name[DMI_ROOT_NAME_MAX];
  struct dmi_member *m = first();
  uint32_t num = 0;
  (void)state;
  for (int error = DMI_OK; error == DMI_OK; num++) {
    memcpy(name, &num, sizeof(num));
    dmi_mout_clear(&out);
    dmi_member_root_set(m, 9, name, sizeof(name), 77, &out);
    if (has(DMI_MACT_VIEW)) dmi_member_viewed(m, &out);
    error = expect(DMI_MACT_RESULT)->error;
    if (error) assert_int_equal(error, DMI_ENOMEM);
  }
  assert_int_equal(num, 256);
  num = 0;
  memcpy(name, &num, sizeof(num));
  for (uint64_t addr = 0; addr < 2; addr++) { /* one is removed, so there is memory for one */
    dmi_mout_clear(&out);
    dmi_member_root_set(m, 9, name, sizeof(name), addr, &out);
    dmi_member_viewed(m, &out);
    assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_OK);
  }
  end(m);
}

static bool leave_no(struct dmi_member *m, uint32_t from, int32_t error) {
  struct dmi_msg msg = {.type = DMI_CTL_LEAVE_NO};
  msg.member.op = 1; /* the heir in LEAVE_GO */
  msg.member.error = error;
  dmi_mout_clear(&out);
  return dmi_member_message(m, from, &msg, &out);
}

static void test_goodbye(void **state) {
  struct dmi_member *m = first();
  struct dmi_pack body;
  (void)state;
  join(m, 2, 2);
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 3, (dmi_id_t){1}, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_WHY(DMI_ENOTASKED, DMI_WHY_NOT_ASKED));
  assert_true(give(m, 2, DMI_CTL_LEAVE_ASK, 0, NULL));
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 4, (dmi_id_t){1}, &out);
  expect_send(2, DMI_CTL_LEAVE_GO);
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 40, (dmi_id_t){1}, &out); /* while one is under way */
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_WHY(DMI_ENOTASKED, DMI_WHY_GOODBYE));
  dmi_mout_clear(&out);
  assert_false(leave_no(m, 2, DMI_OK)); /* a reason must be given */
  assert_true(leave_no(m, 2, DMI_EBUSY));
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EBUSY);
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 41, (dmi_id_t){1}, &out);
  assert_true(leave_no(m, 2, DMI_ENOMEM));
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_ENOMEM);
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 5, (dmi_id_t){1}, &out);
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 1);
  dmi_pack_u64(&body, 17); /* thread */
  dmi_pack_u64(&body, 99); /* its result */
  assert_true(give(m, 2, DMI_CTL_DRAINED, 1, &body));
  assert_int_equal(expect(DMI_MACT_VIEW)->removed[0].heir, 1);
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 50, (dmi_id_t){1}, &out); /* the other one has no answer yet */
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_WHY(DMI_ENOTASKED, DMI_WHY_GOODBYE));
  assert_false(give(m, 2, DMI_CTL_FLUSHED, 0, NULL)); /* not all have taken the view */
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  expect_send(2, DMI_CTL_LAST_REQUEST);
  dmi_pack_init(&body);
  dmi_pack_u64(&body, dmi_member_view(m));
  dmi_pack_u8(&body, 0);
  assert_true(give(m, 2, DMI_CTL_VIEW_TAKEN, 0, &body));
  expect_send(2, DMI_CTL_FLUSH);
  assert_true(give(m, 2, DMI_CTL_LAST_MESSAGE, 0, NULL));
  expect_send(2, DMI_CTL_LAST_MESSAGE_OK);
  assert_true(give(m, 2, DMI_CTL_FLUSHED, 0, NULL));
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_OK);
  expect_send(2, DMI_CTL_LEFT);
  expect_send(2, DMI_CTL_EXIT); /* no DMI_main runs there */
  dmi_mout_clear(&out);
  dmi_member_goodbye(m, 52, (dmi_id_t){1}, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EMEMBER);
  dmi_mout_clear(&out);
  dmi_member_welcome(m, 51, (dmi_id_t){1}, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EMEMBER);
  dmi_mout_clear(&out);
  assert_true(give(m, 2, DMI_CTL_EXITED, 0, NULL));
  assert_int_equal(expect(DMI_MACT_VIEW)->removed[0].heir, 0);
  dmi_member_viewed(m, &out);
  assert_int_equal(expect(DMI_MACT_CLOSE_PEER)->id, 2);
  dmi_mout_clear(&out);
  dmi_member_thread(m, 6, 2, 17, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->value, 99);
  dmi_mout_clear(&out);
  dmi_member_thread(m, 7, 2, 17, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_WHY(DMI_ETHREAD, DMI_WHY_NO_THREAD));
  end(m);
}

static void test_directory(void **state) {
  struct dmi_member *m = first();
  struct dmi_entry a;
  (void)state;
  dmi_member_mmap(m, 1, 4096, 10, &out);
  a = expect(DMI_MACT_RESULT)->mapping;
  assert_true(a.base == 1ull << 32);
  assert_int_equal(a.home, 1);
  dmi_mout_clear(&out);
  dmi_member_mmap(m, 2, 1ull << 31, 1ull << 31, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_ESIZE);
  dmi_mout_clear(&out);
  dmi_member_mmap(m, 3, UINT64_MAX, 2, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_ESIZE);
  dmi_mout_clear(&out);
  dmi_member_lookup(m, 4, a.base + 40959, &out);
  assert_true(expect(DMI_MACT_RESULT)->mapping.base == a.base);
  dmi_mout_clear(&out);
  dmi_member_lookup(m, 5, a.base + 40960, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EADDR);
  dmi_mout_clear(&out);
  dmi_member_munmap(m, 6, a.base + 1, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EADDR);
  dmi_mout_clear(&out);
  dmi_member_munmap(m, 7, a.base, &out);
  assert_true(expect(DMI_MACT_FORGET)->mapping.base == a.base);
  assert_false(has(DMI_MACT_RESULT));
  dmi_member_forgot(m, a.base, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_OK);
  dmi_mout_clear(&out);
  dmi_member_mmap(m, 8, 1, 1, &out);
  assert_true(expect(DMI_MACT_RESULT)->mapping.base > a.base + 40960);
  end(m);
}

/* DMI_main returns and nothing else runs. */
static void test_end(void **state) {
  struct dmi_member *m = first();
  (void)state;
  join(m, 2, 2);
  dmi_mout_clear(&out);
  dmi_member_poll(m, 1, &out);
  dmi_mout_clear(&out);
  dmi_member_poll(m, 2, &out);
  dmi_mout_clear(&out);
  dmi_member_poll(m, 3, &out); /* no notice will come */
  dmi_member_idle(m, &out);
  assert_int_equal(expect(DMI_MACT_RESULT)->error, DMI_EINACTIVE);
  expect_send(2, DMI_CTL_END);
  assert_false(has(DMI_MACT_FINISH));
  assert_true(give(m, 2, DMI_CTL_ENDED, 0, NULL));
  expect_send(2, DMI_CTL_FINISH);
  expect(DMI_MACT_FINISH);
  end(m);
}

static void test_busy_keeps_the_program(void **state) {
  struct dmi_member *m = first();
  (void)state;
  join(m, 2, 2);
  assert_true(give(m, 2, DMI_CTL_BUSY, 1, NULL));
  expect_send(2, DMI_CTL_BUSY_OK);
  dmi_mout_clear(&out);
  dmi_member_idle(m, &out);
  assert_int_equal(out.num, 0);
  assert_true(give(m, 2, DMI_CTL_IDLE, 0, NULL));
  expect_send(2, DMI_CTL_END);
  end(m);
}

static void test_lost(void **state) {
  struct dmi_member *m = first();
  (void)state;
  join(m, 2, 2);
  dmi_mout_clear(&out);
  dmi_member_lost(m, 2, "reset", &out);
  assert_int_equal(expect(DMI_MACT_VIEW)->removed[0].uid, 2);
  assert_int_equal(expect(DMI_MACT_VIEW)->removed[0].heir, 0);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  join(m, 3, 4);
  dmi_mout_clear(&out);
  dmi_member_welcome(m, 1, (dmi_id_t){1}, &out);
  assert_true(give(m, 3, DMI_CTL_OPENED, 0, NULL));
  dmi_mout_clear(&out);
  dmi_member_lost(m, 3, "reset", &out);
  assert_string_equal(
      expect(DMI_MACT_FATAL)->text,
      "lost process 1 (there, there/9): reset; this ends the program in all processes, as what "
      "that one held is gone (dmirun --survive lets a program go on without it)");
  assert_true(expect(DMI_MACT_FATAL)->flag);
  end(m);
}

/* The longest sentences of lib/net, with advice at the end, reach the process that has noticed the
 * loss, and all others. */
static void test_whole_sentences(void **state) {
  static const char advice[] = "does it need dmirun's option --advertise ADDR?";
  struct dmi_member *m = first();
  struct dmi_unpack body;
  char why[600], told[DMI_TEXT_SIZE];
  (void)state;
  memset(why, 'w', sizeof(why));
  strcpy(why + sizeof(why) - sizeof(advice), advice);
  join(m, 2, 2);
  join(m, 3, 3);
  assert_true(give_taken(m, 2, 3));
  dmi_mout_clear(&out);
  dmi_member_welcome(m, 1, (dmi_id_t){1}, &out);
  assert_true(give(m, 2, DMI_CTL_OPENED, 0, NULL));
  dmi_mout_clear(&out);
  dmi_member_lost(m, 2, why, &out);
  assert_non_null(strstr(expect(DMI_MACT_FATAL)->text, advice));
  assert_non_null(strstr(expect(DMI_MACT_FATAL)->text, "dmirun --survive lets a program go on"));
  dmi_unpack_init(&body, &expect_send(3, DMI_CTL_ABORT)->msg.body);
  dmi_unpack_text(&body, told);
  assert_true(dmi_unpack_done(&body));
  assert_non_null(strstr(told, advice));
  end(m);
}

/* All bytes of every message type, from members and others, are refused or accepted, and nothing
 * worse happens. */
static void test_rubbish(void **state) {
  uint8_t bytes[64];
  (void)state;
  srand(1);
  for (uint32_t round = 0; round < 200000; round++) {
    static struct dmi_member *m;
    struct dmi_msg msg = {0};
    static const uint32_t senders[] = {2, 3, 77, TEMP, TEMP + 1};
    if (round % 50 == 0) {
      if (m) end(m);
      m = first();
      join(m, 2, 2);
    }
    for (uint32_t i = 0; i < sizeof(bytes); i++)
      bytes[i] = (uint8_t)(rand() % 3 ? 0 : rand());
    msg.type = (uint8_t)(DMI_CTL_JOIN + rand() % 50);
    msg.member.op = (uint64_t)(rand() % 4);
    msg.body.ptr = bytes;
    msg.body.len = (uint64_t)(rand() % (int)sizeof(bytes));
    dmi_mout_clear(&out);
    dmi_member_message(m, senders[rand() % 5], &msg, &out);
    while (m->viewing)
      dmi_member_viewed(m, &out);
    dmi_member_check(m);
    if (round == 199999) end(m);
  }
}

/* A joiner that is sent to another process. */
static void test_redirect(void **state) {
  struct dmi_member *m = make();
  struct dmi_pack body;
  struct dmi_addr addr = {{0}, 7890};
  (void)state;
  addr.ip[10] = addr.ip[11] = 0xff;
  addr.ip[12] = 127; /* loopback there: for us this is the host that has sent it */
  addr.ip[15] = 1;
  dmi_member_start_join(m, &out);
  assert_int_equal(expect(DMI_MACT_CONNECT)->addr.port, 0);
  dmi_mout_clear(&out);
  dmi_member_connected(m, TEMP, &out);
  expect_send(TEMP, DMI_CTL_JOIN);
  dmi_pack_init(&body);
  dmi_member_pack_addr(&body, &addr);
  assert_true(give(m, TEMP, DMI_CTL_REDIRECT, 0, &body));
  assert_int_equal(expect(DMI_MACT_CONNECT)->addr.port, 7890);
  assert_int_equal(expect(DMI_MACT_CONNECT)->addr.ip[12], 10);
  dmi_mout_clear(&out);
  dmi_member_not_connected(m, "it left", &out); /* back to the seed */
  assert_int_equal(expect(DMI_MACT_CONNECT)->addr.port, 0);
  dmi_mout_clear(&out);
  dmi_member_not_connected(m, "gone too", &out);
  assert_string_equal(expect(DMI_MACT_FATAL)->text, "gone too");
  end(m);
}

/* The address in the view that was sent to this uid, `skip` bytes behind the begin of the body. */
static struct dmi_addr sent_addr(uint32_t to, uint8_t type, uint32_t skip) {
  struct dmi_unpack body;
  struct dmi_view_body view;
  struct dmi_addr addr = {{0}, 0};
  uint8_t id[30];
  dmi_unpack_init(&body, &expect_send(to, type)->msg.body);
  dmi_unpack_raw(&body, id, skip);
  assert_true(dmi_view_unpack(&body, &view));
  for (uint32_t i = 0; i < view.added_num; i++) {
    if (type == DMI_CTL_ACCEPT ? view.added[i].uid == 1 : true) addr = view.added[i].addr;
  }
  dmi_view_free(&view);
  return addr;
}

/* The address that a process names is used by all members, present and later ones; also the
 * coordinator's. */
static void test_advertise(void **state) {
  struct dmi_addr own = {{[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 7}, 7880}, there = own, got;
  struct dmi_member_env env = {.connected = connected, .addrs = addrs};
  struct dmi_node_info info = {.cores = 4, .memory = 1000, .host = "here"};
  struct dmi_member *m = dmi_member_new(&env, &info, &own);
  struct dmi_pack body;
  (void)state;
  dmi_mout_clear(&out);
  dmi_member_start_first(m, program_id, &out);
  dmi_mout_clear(&out);
  dmi_member_viewed(m, &out);
  dmi_mout_clear(&out);
  join(m, 2, 2); /* this one names none: the address is the one that others see, 10.0.0.9 */
  there.ip[15] = 8;
  there.port = 7882;
  body = join_body(&there, &info, false);
  assert_true(give(m, TEMP + 3, DMI_CTL_JOIN, 0, &body));
  assert_memory_equal(&expect(DMI_MACT_VIEW)->peers[0].addr, &there, sizeof(there));
  got = sent_addr(2, DMI_CTL_VIEW, 0);
  assert_memory_equal(&got, &there, sizeof(there));
  got = sent_addr(3, DMI_CTL_ACCEPT, 30);
  assert_memory_equal(&got, &own, sizeof(own));
  assert_int_equal(dmi_member_peer(m, 2)->addr.ip[12], 10);
  end(m);
}

/* ---- Whom it waits for ---------------------------------------------------------------------- */

struct awaited {
  char uids[64]; /* "2 3 " */
  const char *what;
};

static void note_awaited(void *arg, uint32_t uid, const char *what) {
  struct awaited *awaited = arg;
  size_t used = strlen(awaited->uids);
  snprintf(awaited->uids + used, sizeof(awaited->uids) - used, "%u ", uid);
  awaited->what = what;
}

static struct awaited awaited_by(const struct dmi_member *m) {
  struct awaited awaited = {"", ""};
  dmi_member_awaits(m, note_awaited, &awaited);
  return awaited;
}

#define AWAITS(m, uids_) assert_string_equal(awaited_by(m).uids, uids_)

/* The coordinator: who has not taken a view, OPENED, DRAINED, FLUSHED, EXITED; not who has asked to
 * join only.
 */
static void test_coordinator_awaits(void **state) {
  struct dmi_member *m = first();
  struct dmi_pack body;
  struct dmi_node_info info = {.cores = 2, .memory = 500, .host = "there"};
  char name[DMI_NAME_TEXT];
  (void)state;
  AWAITS(m, "");
  body = join_body(&(struct dmi_addr){.port = 7881}, &info, false);
  assert_true(give(m, TEMP, DMI_CTL_JOIN, 0, &body));
  dmi_member_viewed(m, &out);
  AWAITS(m, "2 ");
  assert_non_null(strstr(awaited_by(m).what, "cannot join or leave"));
  dmi_member_name(m, 2, name);
  assert_string_equal(name, "process 1 (there)");
  assert_true(give_taken(m, 2, 2));
  AWAITS(m, "");
  dmi_member_welcome(m, 9, (dmi_id_t){1}, &out);
  AWAITS(m, "2 ");
  assert_true(give(m, 2, DMI_CTL_OPENED, 0, NULL));
  dmi_member_poll(m, 5, &out);
  dmi_member_poll(m, 6, &out);
  dmi_member_poll(m, 7, &out); /* waits for a notice: no process owes that */
  AWAITS(m, "");
  assert_true(give(m, 2, DMI_CTL_LEAVE_ASK, 0, NULL));
  dmi_member_goodbye(m, 4, (dmi_id_t){1}, &out);
  AWAITS(m, "2 ");
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 0);
  assert_true(give(m, 2, DMI_CTL_DRAINED, 1, &body));
  dmi_member_viewed(m, &out);
  AWAITS(m, "2 "); /* it takes the view, too */
  assert_true(give_taken(m, 2, 3));
  expect_send(2, DMI_CTL_FLUSH);
  AWAITS(m, "2 ");
  dmi_member_name(m, 2, name);
  assert_string_equal(name, "process 1 (there), which has left the program,");
  assert_true(give(m, 2, DMI_CTL_LAST_MESSAGE, 0, NULL));
  assert_true(give(m, 2, DMI_CTL_FLUSHED, 0, NULL));
  expect_send(2, DMI_CTL_EXIT);
  AWAITS(m, "2 ");
  assert_true(give(m, 2, DMI_CTL_EXITED, 0, NULL));
  dmi_member_viewed(m, &out);
  AWAITS(m, "");
  end(m);
}

static bool give_uids(struct dmi_member *m, uint8_t type, uint32_t num, const uint32_t *uids) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  if (type == DMI_CTL_FLUSH) dmi_pack_u32(&body, num);
  for (uint32_t i = 0; i < num; i++)
    dmi_pack_u32(&body, uids[i]);
  return give(m, 1, type, 0, &body);
}

/* The rest of ACCEPT: a view of 1 to 3. */
static void pack_three(struct dmi_pack *body) {
  dmi_pack_u32(body, 0); /* without `survive` */
  dmi_pack_u64(body, 9); /* the view: number, coordinator, members */
  dmi_pack_u32(body, 1);
  dmi_pack_u32(body, 3);
  for (uint32_t uid = 1; uid <= 3; uid++) {
    struct dmi_peer peer = {
        .uid = uid, .dmi_id = {uid - 1}, .info = {.cores = 1, .memory = 1, .host = "h"}};
    dmi_member_pack_peer(body, &peer);
  }
  dmi_pack_u32(body, 0);
}

/* The program accepts it as uid 2, of 1 to 3. */
static void accept_as_2(struct dmi_member *m) {
  const struct dmi_settings theirs = {.dead_after = 7};
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_raw(&body, program_id, sizeof(program_id));
  dmi_pack_u32(&body, 2);
  dmi_settings_pack(&body, &theirs);
  pack_three(&body);
  assert_true(give(m, TEMP, DMI_CTL_ACCEPT, 0, &body));
  dmi_member_viewed(m, &out);
}

/* The program's settings count, not its own. */
static void test_settings(void **state) {
  struct dmi_member *m = make();
  struct dmi_pack body;
  (void)state;
  dmi_member_start_join(m, &out);
  dmi_member_connected(m, TEMP, &out);
  assert_int_equal(dmi_member_settings(m).dead_after, 3);
  dmi_mout_clear(&out);
  for (uint32_t wrong = 0; wrong < 2; wrong++) {
    dmi_pack_init(&body);
    dmi_pack_raw(&body, program_id, sizeof(program_id));
    dmi_pack_u32(&body, 2);
    dmi_pack_u8(&body, wrong ? 0 : 2);
    dmi_pack_u32(&body, wrong ? DMI_DEAD_AFTER_MAX + 1 : 5);
    pack_three(&body);
    assert_false(give(m, TEMP, DMI_CTL_ACCEPT, 0, &body));
  }
  accept_as_2(m);
  expect(DMI_MACT_SETTINGS);
  assert_int_equal(dmi_member_settings(m).dead_after, 7);
  assert_false(dmi_member_settings(m).survive);
  dmi_member_free(m);
}

/* The whole program ends, and not because a process is lost: all say the same. */
static void test_all_end(void **state) {
  struct dmi_member *m = make();
  struct dmi_pack body;
  struct dmi_msg told = {.type = DMI_CTL_ABORT, .member.error = DMI_EEND};
  (void)state;
  dmi_member_start_join(m, &out);
  dmi_member_connected(m, TEMP, &out);
  accept_as_2(m);
  dmi_pack_init(&body);
  dmi_pack_text(&body, "it ends");
  told.body = dmi_pack_slice(&body);
  dmi_mout_clear(&out);
  assert_true(dmi_member_message(m, 1, &told, &out));
  assert_string_equal(expect(DMI_MACT_FATAL)->text, "it ends");
  assert_true(expect(DMI_MACT_FATAL)->flag);
  dmi_slice_drop(&told.body);
  dmi_member_free(m);
}

/* Others go on without a process that lives: it is told so, and ends alone. */
static void test_taken_for_lost(void **state) {
  struct dmi_member *m = first(), *lost = make();
  struct dmi_pack body;
  struct dmi_msg told;
  (void)state;
  dmi_member_start_join(lost, &out);
  dmi_member_connected(lost, TEMP, &out);
  accept_as_2(lost);
  join(m, 2, 2);
  join(m, 3, 3);
  assert_true(give_taken(m, 2, 3));
  dmi_pack_init(&body);
  dmi_pack_u32(&body, 2);
  dmi_pack_text(&body, "reset");
  assert_true(give(m, 3, DMI_CTL_LOST, 0, &body));
  assert_int_equal(expect(DMI_MACT_VIEW)->removed[0].uid, 2);
  told = expect_send(2, DMI_CTL_ABORT)->msg;
  expect_send(2, DMI_CTL_ABORT)->msg.body = (struct dmi_slice){0};
  dmi_mout_clear(&out);
  assert_true(dmi_member_message(lost, 1, &told, &out));
  assert_non_null(
      strstr(expect(DMI_MACT_FATAL)->text, "process 2 (there, there/9) has lost its connection"));
  assert_false(expect(DMI_MACT_FATAL)->flag);
  assert_null(strstr(expect(DMI_MACT_FATAL)->text, "ends the program"));
  dmi_slice_drop(&told.body);
  dmi_member_free(lost);
  end(m);
}

/* A member that joins and leaves. */
static void test_leaver_awaits(void **state) {
  struct dmi_member *m = make();
  struct dmi_pack body;
  (void)state;
  dmi_member_start_join(m, &out);
  dmi_member_connected(m, TEMP, &out);
  AWAITS(m, "");
  accept_as_2(m);
  AWAITS(m, "1 3 "); /* JOINED, when 3 has taken the view, too */
  assert_true(give(m, 1, DMI_CTL_JOINED, 0, NULL));
  AWAITS(m, "");
  assert_true(give_uids(m, DMI_CTL_LEAVE_GO, 1, (uint32_t[]){1}));
  dmi_member_stopped(m, true, &out);
  AWAITS(m, "1 3 "); /* any may have to do with its pages */
  dmi_member_drained(m, NULL, 0, &out);
  assert_true(give(m, 1, DMI_CTL_DRAIN_OK, 0, NULL));
  AWAITS(m, "1 ");
  dmi_pack_init(&body);
  dmi_pack_u64(&body, 10); /* the view in which it has left */
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 0);
  dmi_pack_u32(&body, 1);
  dmi_pack_u32(&body, 2);
  dmi_pack_u32(&body, 1);
  dmi_pack_u8(&body, 0);
  assert_true(give(m, 1, DMI_CTL_VIEW, 0, &body));
  dmi_member_viewed(m, &out);
  AWAITS(m, "1 ");
  assert_true(give_uids(m, DMI_CTL_FLUSH, 2, (uint32_t[]){1, 3}));
  AWAITS(m, "1 3 ");
  assert_true(give(m, 1, DMI_CTL_LAST_REQUEST, 0, NULL));
  AWAITS(m, "3 ");
  assert_non_null(strstr(awaited_by(m).what, "this process cannot leave"));
  assert_true(give(m, 3, DMI_CTL_LAST_REQUEST, 0, NULL));
  AWAITS(m, "1 3 "); /* LAST_MESSAGE_OK */
  assert_true(give(m, 3, DMI_CTL_LAST_MESSAGE_OK, 0, NULL));
  AWAITS(m, "1 ");
  assert_true(give(m, 1, DMI_CTL_LAST_MESSAGE_OK, 0, NULL));
  AWAITS(m, "1 "); /* LEFT, then EXIT */
  assert_true(give(m, 1, DMI_CTL_LEFT, 0, NULL));
  AWAITS(m, "1 ");
  assert_true(give(m, 1, DMI_CTL_EXIT, 0, NULL));
  AWAITS(m, ""); /* it has ended */
  end(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first),
      cmocka_unit_test(test_notices),
      cmocka_unit_test(test_join),
      cmocka_unit_test(test_welcome_waits_for_opened),
      cmocka_unit_test(test_goodbye),
      cmocka_unit_test(test_directory),
      cmocka_unit_test(test_end),
      cmocka_unit_test(test_busy_keeps_the_program),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_roots),
      cmocka_unit_test(test_many_roots),
      cmocka_unit_test(test_settings),
      cmocka_unit_test(test_all_end), cmocka_unit_test(test_taken_for_lost),
      cmocka_unit_test(test_whole_sentences),
      cmocka_unit_test(test_rubbish),
      cmocka_unit_test(test_redirect),
      cmocka_unit_test(test_advertise),
      cmocka_unit_test(test_coordinator_awaits),
      cmocka_unit_test(test_leaver_awaits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
