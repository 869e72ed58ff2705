/*
 * early_test.c - reads get the bytes of a page while it is arriving (docs/protocol.md R13, "Read
 * while arriving"): each case of its table.
 *
 * Runs the core of process 2; the test is all others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/page_crash.h"
#include "dmi_api.h"

#define PAGE ((uint64_t)1000)
#define HALF (PAGE / 2)
#define MAP (UINT64_C(1) << 20)
#define OWNER 1 /* and home */
#define SELF 2
#define DELEGATE 3
#define READS 3

static struct dmi_core core;
static struct dmi_map map;
static struct dmi_page page;
static struct dmi_req reads[READS];
static struct dmi_part scattered;
static unsigned char got[READS][PAGE];
static bool done[READS];
static uint32_t sent[256]; /* by type */
static bool frozen_lost;
static struct dmi_early stale; /* what an operation has of before it begins */

static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= 3 && !(frozen_lost && uid == OWNER);
}

static bool is_cut(void *arg, uint32_t uid) {
  (void)arg, (void)uid;
  return false;
}

static void act(struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_COMPLETE) {
      done[a->req - reads] = true;
      continue;
    }
    assert_int_equal(a->type, DMI_ACT_SEND);
    sent[a->msg.type]++;
    dmi_slice_drop(&a->msg.list);
    dmi_slice_drop(&a->msg.body);
  }
  dmi_out_free(out);
}

static void begin_req(int i, uint8_t type, uint64_t off, uint64_t len) {
  struct dmi_out out;
  reads[i] = (struct dmi_req){.type = type,
                              .kind = type == DMI_REQ_READ ? DMI_KIND_INVALIDATE : 0,
                              .op = {(uint64_t)i + 1},
                              .off = off,
                              .len = len,
                              .dst = got[i],
                              .early = stale};
  if (type == DMI_REQ_EXCL)
    reads[i].src = (struct dmi_slice){NULL, (const unsigned char *)"x", len};
  memset(got[i], 0, PAGE);
  done[i] = false;
  if (scattered.len) reads[i].part = &scattered, reads[i].parts = 1;
  dmi_out_init(&out);
  dmi_page_begin(&core, &page, &reads[i], &out);
  act(&out);
}

static void read_all(int i) {
  begin_req(i, DMI_REQ_READ, 0, PAGE);
}

static int setup(void **state) {
  (void)state;
  core = (struct dmi_core){.self = SELF, .is_member = is_member, .is_cut = is_cut, .block = PAGE};
  map = (struct dmi_map){.base = MAP, .page_size = PAGE, .page_num = 1};
  atomic_init(&map.home, OWNER);
  dmi_page_init(&core, &map, &page, 0);
  memset(sent, 0, sizeof(sent));
  frozen_lost = false;
  scattered = (struct dmi_part){.len = 0};
  stale = (struct dmi_early){.frame = NULL};
  read_all(0);
  assert_int_equal(sent[DMI_MSG_READ], 1);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  dmi_page_fini(&core, &page);
  assert_int_equal(dmi_frame_total(), 0);
  return 0;
}

/* Byte `at` of a page of which each stream here has other ones. */
static unsigned char byte_of(unsigned char stream, uint64_t at) {
  return (unsigned char)(at * 7 + stream);
}

/* Bytes [from, to) of the buffer are those of this stream. */
static bool has(int i, unsigned char stream, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at++)
    if (got[i][at - reads[i].off] != byte_of(stream, at)) return false;
  return true;
}

static struct dmi_msg about(enum dmi_msg_type type) {
  struct dmi_msg msg = {.origin = SELF, .map = MAP};
  msg.type = (uint8_t)type;
  return msg;
}

/* A DATA of which nothing has arrived yet. */
static struct dmi_msg data(void) {
  struct dmi_msg msg = about(DMI_MSG_DATA);
  msg.data =
      (struct dmi_msg_data){.fetch = page.busy->fetch, .kind = DMI_KIND_INVALIDATE, .version = {1}};
  msg.body.frame = dmi_frame_new(PAGE);
  msg.body.ptr = msg.body.frame->bytes;
  msg.body.len = PAGE;
  memset(msg.body.frame->bytes, 0, PAGE);
  return msg;
}

/* A BLOCK of which nothing has arrived yet, at its place. */
static struct dmi_msg block(uint32_t from, uint64_t off, uint64_t len) {
  struct dmi_msg msg = about(DMI_MSG_BLOCK);
  if (from != OWNER) msg.flags = DMI_F_DELEGATED;
  msg.block = (struct dmi_msg_block){
      .fetch = page.busy->fetch, .kind = DMI_KIND_INVALIDATE, .version = {1}, .off = off};
  msg.body.len = len;
  msg.body.ptr = dmi_page_block_body(&core, &page, from, &msg);
  assert_non_null(msg.body.ptr);
  return msg;
}

/* Bytes [from, to) of the page have come into the message's frame, and nobody tells. */
static void fill(const struct dmi_msg *msg, unsigned char stream, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at++)
    msg->body.frame->bytes[at] = byte_of(stream, at);
}

/* Bytes [from, to) of a message's body arrive. */
static void arrive(const struct dmi_msg *msg, unsigned char stream, uint64_t from, uint64_t to) {
  const uint64_t begins = msg->type == DMI_MSG_BLOCK ? msg->block.off : 0;
  struct dmi_out out;
  fill(msg, stream, begins + from, begins + to);
  dmi_out_init(&out);
  dmi_page_part(&core, &page, msg, from, to, &out);
  act(&out);
}

static void take(uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  dmi_out_init(&out);
  assert_true(dmi_page_message(&core, &page, from, msg, NULL, &out));
  dmi_page_check(&core, &page);
  act(&out);
}

/* The bytes come with the parts, and are not copied again at the step. */
static void whole(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  for (uint64_t at = 0; at < PAGE; at += 125) {
    arrive(&msg, 1, at, at + 125);
    assert_true(has(0, 1, 0, at + 125));
  }
  assert_false(done[0]);
  got[0][3] = 0xee; /* shows what would be copied again */
  take(OWNER, &msg);
  assert_true(done[0]);
  assert_int_equal(got[0][3], 0xee);
  got[0][3] = byte_of(1, 3);
  assert_true(has(0, 1, 0, PAGE));
}

/* Also of BLOCKs, one after the other. */
static void blocks(void **state) {
  struct dmi_msg msg = block(DELEGATE, 0, HALF);
  (void)state;
  arrive(&msg, 1, 0, 200);
  arrive(&msg, 1, 200, HALF);
  take(DELEGATE, &msg);
  msg = block(DELEGATE, HALF, HALF);
  arrive(&msg, 1, 0, HALF);
  assert_true(has(0, 1, 0, PAGE));
  got[0][3] = got[0][PAGE - 1] = 0xee;
  take(DELEGATE, &msg);
  assert_true(done[0]);
  assert_int_equal(got[0][3], 0xee);
  assert_int_equal(got[0][PAGE - 1], 0xee);
}

/* Parts of which nobody tells, as they are small, are copied at the step. */
static void not_told(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  fill(&msg, 1, 0, PAGE);
  arrive(&msg, 1, 200, 300);
  arrive(&msg, 1, 400, 600); /* 300 to 400 went by */
  arrive(&msg, 1, 600, 700);
  got[0][450] = 0xee;
  take(OWNER, &msg);
  assert_int_equal(got[0][450], 0xee);
  got[0][450] = byte_of(1, 450);
  assert_true(has(0, 1, 0, PAGE));
}

/* Reads of a part of the page, and such that join later. */
static void several(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  begin_req(1, DMI_REQ_READ, 450, 200);
  got[1][200] = 0xee; /* behind its end */
  arrive(&msg, 1, 0, HALF);
  assert_true(has(1, 1, 450, HALF));
  assert_int_equal(got[1][50], 0);
  read_all(2);
  arrive(&msg, 1, HALF, PAGE);
  assert_true(has(1, 1, 450, 650));
  assert_true(has(2, 1, HALF, PAGE));
  assert_int_equal(got[2][HALF - 1], 0);
  take(OWNER, &msg);
  for (int i = 0; i < READS; i++) {
    assert_true(done[i]);
    assert_true(has(i, 1, reads[i].off, reads[i].off + reads[i].len));
  }
  assert_int_equal(got[1][200], 0xee);
  assert_int_equal(sent[DMI_MSG_READ], 1);
}

/* Its bytes go elsewhere: they are all copied at the step. */
static void scattered_read(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  scattered = (struct dmi_part){.off = 10, .len = 20, .to = 5};
  begin_req(1, DMI_REQ_READ, 10, 20);
  arrive(&msg, 1, 0, PAGE);
  assert_int_equal(got[1][5], 0);
  take(OWNER, &msg);
  assert_true(done[1]);
  assert_memory_equal(got[1] + 5, got[0] + 10, 20);
}

/* A read that ended in another way is not touched any more. */
static void fails(void **state) {
  struct dmi_msg msg = data(), fail = about(DMI_MSG_FAIL);
  (void)state;
  arrive(&msg, 1, 0, HALF);
  fail.fail = (struct dmi_msg_fail){.fetch = msg.data.fetch, .error = DMI_ENOMEM};
  take(OWNER, &fail);
  assert_true(done[0]);
  assert_int_equal(reads[0].error, DMI_ENOMEM);
  memset(got[0], 0xee, PAGE);
  arrive(&msg, 1, HALF, PAGE);
  take(OWNER, &msg);
  assert_int_equal(got[0][HALF], 0xee);
  assert_int_equal(page.copy, 0);
}

static void unmapped(void **state) {
  struct dmi_msg msg = data();
  struct dmi_out out;
  (void)state;
  arrive(&msg, 1, 0, HALF);
  dmi_out_init(&out);
  dmi_page_kill(&core, &page, &out);
  act(&out);
  assert_true(done[0]);
  assert_int_equal(reads[0].error, DMI_EADDR);
  memset(got[0], 0xee, PAGE);
  arrive(&msg, 1, HALF, PAGE);
  assert_int_equal(got[0][HALF], 0xee);
  dmi_slice_drop(&msg.body);
}

/* A write of this process waits; its GRANT ends the fetch, and serves the read. */
static void granted(void **state) {
  struct dmi_msg msg = data(), grant = about(DMI_MSG_GRANT);
  (void)state;
  arrive(&msg, 1, 0, HALF);
  begin_req(1, DMI_REQ_EXCL, 0, 1);
  assert_int_equal(sent[DMI_MSG_OWN], 1);
  arrive(&msg, 1, HALF, 600);
  grant.grant.version.n = 2;
  grant.body.frame = dmi_frame_new(PAGE);
  grant.body.ptr = grant.body.frame->bytes;
  grant.body.len = PAGE;
  fill(&grant, 2, 0, PAGE);
  take(OWNER, &grant);
  assert_true(done[1]);
  assert_true(done[0]);
  assert_true(has(0, 2, 1, PAGE));
  arrive(&msg, 1, 600, PAGE);
  assert_true(has(0, 2, 1, PAGE));
  take(OWNER, &msg);
  assert_true(has(0, 2, 1, PAGE));
}

/* INVALIDATE while it arrives: used once. */
static void poisoned(void **state) {
  struct dmi_msg msg = data(), invalidate = about(DMI_MSG_INVALIDATE);
  (void)state;
  arrive(&msg, 1, 0, HALF);
  invalidate.copy.version.n = 2;
  take(OWNER, &invalidate);
  read_all(1); /* does not join */
  assert_int_equal(sent[DMI_MSG_GET], 1);
  arrive(&msg, 1, HALF, PAGE);
  assert_int_equal(got[1][HALF], 0);
  take(OWNER, &msg);
  assert_true(done[0] && !done[1]);
  assert_true(has(0, 1, 0, PAGE));
  assert_int_equal(page.copy, 0);
}

/* The delegate gives up, and the owner sends: by BLOCKs, in memory that may be the same. */
static void owner_sends(void **state) {
  struct dmi_msg msg = block(DELEGATE, 0, HALF);
  (void)state;
  arrive(&msg, 1, 0, 300);
  arrive(&msg, 1, 300, HALF);
  take(DELEGATE, &msg);
  msg = block(OWNER, 0, 100);
  fill(&msg, 2, 0, 100);
  take(OWNER, &msg);
  msg = block(OWNER, 100, 400);
  fill(&msg, 2, 100, HALF);
  take(OWNER, &msg);
  msg = block(OWNER, HALF, HALF);
  arrive(&msg, 2, 0, HALF); /* goes on where the other one stopped */
  take(OWNER, &msg);
  assert_true(done[0]);
  assert_true(has(0, 2, 0, PAGE));
}

/* Late parts of the stream that was given up, between those of the owner's. */
static void late_parts(void **state) {
  struct dmi_msg late = block(DELEGATE, 0, PAGE), msg;
  (void)state;
  arrive(&late, 1, 0, HALF);
  msg = block(OWNER, 0, PAGE);
  arrive(&msg, 2, 0, 250);
  arrive(&late, 1, HALF, PAGE);
  assert_true(has(0, 2, 0, 250));
  assert_int_equal(got[0][HALF], 0);
  arrive(&msg, 2, 250, PAGE);
  take(DELEGATE, &late);
  assert_false(done[0]);
  take(OWNER, &msg);
  assert_true(done[0]);
  assert_true(has(0, 2, 0, PAGE));
}

/* A DATA whose connection is lost, and another one, in the same memory. */
static void connection_lost(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  arrive(&msg, 1, 0, HALF);
  dmi_slice_drop(&msg.body);
  msg = data();
  arrive(&msg, 2, 0, 100);
  arrive(&msg, 2, 100, PAGE);
  take(OWNER, &msg);
  assert_true(done[0]);
  assert_true(has(0, 2, 0, PAGE));
}

/* The same, but BLOCKs come then, and nobody tells of the first one. */
static void blocks_instead(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  arrive(&msg, 1, 0, HALF);
  dmi_slice_drop(&msg.body);
  msg = block(OWNER, 0, HALF);
  fill(&msg, 2, 0, HALF);
  take(OWNER, &msg);
  msg = block(OWNER, HALF, HALF);
  arrive(&msg, 2, 0, HALF);
  take(OWNER, &msg);
  assert_true(done[0]);
  assert_true(has(0, 2, 0, PAGE));
}

/* This process recovers from the loss of another one meanwhile, and what begins waits, also what
 * reads nothing. */
static void frozen(void **state) {
  struct dmi_msg msg = data();
  (void)state;
  arrive(&msg, 1, 0, HALF);
  atomic_store(&core.frozen, true);
  dmi_page_freeze(&core, &page);
  begin_req(1, DMI_REQ_EXCL, 0, 1);
  reads[1].dst = NULL;
  read_all(2);
  arrive(&msg, 1, HALF, PAGE);
  assert_int_equal(got[2][HALF], 0);
  take(OWNER, &msg);
  assert_true(done[0] && !done[1] && !done[2]);
  assert_true(has(0, 1, 0, PAGE));
  assert_int_equal(page.copy, 0);
}

/* Two connections bring a DATA of the fetch, in turns. */
static void two_at_once(void **state) {
  struct dmi_msg first = data(), second = data();
  (void)state;
  arrive(&first, 1, 0, 250);
  arrive(&second, 2, 0, HALF);
  arrive(&first, 1, 250, HALF);
  arrive(&second, 2, HALF, PAGE);
  arrive(&first, 1, HALF, PAGE);
  take(OWNER, &second);
  assert_true(done[0]);
  assert_true(has(0, 2, 0, PAGE));
  memset(got[0], 0xee, PAGE);
  take(DELEGATE, &first);
  assert_int_equal(got[0][0], 0xee);
}

/* Zeros, as the owner has no bytes: what had come of another DATA does not count. */
static void zeros(void **state) {
  struct dmi_msg msg = data(), zero = data();
  (void)state;
  arrive(&msg, 1, 0, HALF);
  dmi_slice_drop(&zero.body);
  zero.flags = DMI_F_ZERO;
  take(OWNER, &zero);
  assert_true(done[0]);
  for (uint64_t at = 0; at < PAGE; at++)
    assert_int_equal(got[0][at], 0);
  dmi_slice_drop(&msg.body);
}

/* The owner is lost while it sends: the read begins anew, or joins a fetch whose BLOCKs arrive in
 * the same memory. */
static void owner_lost(void **state) {
  const struct dmi_page_mark mark = {0};
  struct dmi_msg msg = block(OWNER, 0, HALF);
  struct dmi_out out;
  (void)state;
  arrive(&msg, 1, 0, HALF);
  take(OWNER, &msg);
  frozen_lost = true;
  atomic_store(&core.frozen, true);
  dmi_page_freeze(&core, &page);
  atomic_store(&map.home, DELEGATE);
  atomic_store(&core.frozen, false);
  dmi_out_init(&out);
  dmi_page_resume(&core, &page, &mark, &out);
  act(&out);
  assert_false(done[0]);
  assert_int_equal(sent[DMI_MSG_READ], 2);
  memset(got[0], 0xee, PAGE);
  msg = block(DELEGATE, 0, HALF);
  fill(&msg, 2, 0, HALF);
  take(DELEGATE, &msg);
  msg = block(DELEGATE, HALF, HALF);
  stale = (struct dmi_early){.frame = msg.body.frame, .from = 0, .to = HALF};
  read_all(1);
  arrive(&msg, 2, 0, HALF);
  take(DELEGATE, &msg);
  assert_true(done[0] && done[1]);
  assert_true(has(0, 2, 0, PAGE));
  assert_true(has(1, 2, 0, PAGE));
}

/* What no correct peer sends: sizes that are not the page's, another fetch. */
static void malformed(void **state) {
  struct dmi_msg msg = data();
  struct dmi_out out;
  (void)state;
  memset(got[0], 0xee, PAGE);
  msg.data.fetch.n++;
  arrive(&msg, 1, 0, PAGE);
  msg.data.fetch.n--;
  msg.body.len--;
  arrive(&msg, 1, 0, HALF);
  msg.body.len++;
  msg.body.ptr++;
  dmi_out_init(&out);
  dmi_page_part(&core, &page, &msg, 0, HALF, &out);
  msg.body.ptr--;
  dmi_page_part(&core, &page, &msg, 0, PAGE + 1, &out);
  assert_int_equal(out.num, 0);
  for (uint64_t at = 0; at < PAGE; at++)
    assert_int_equal(got[0][at], 0xee);
  dmi_slice_drop(&msg.body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(whole),          TEST(blocks),          TEST(not_told),   TEST(several),
      TEST(fails),          TEST(scattered_read),  TEST(unmapped),   TEST(granted),
      TEST(poisoned),       TEST(owner_sends),     TEST(late_parts), TEST(zeros),
      TEST(two_at_once),    TEST(connection_lost), TEST(owner_lost), TEST(malformed),
      TEST(blocks_instead), TEST(frozen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
