/*
 * at_once_test.c - what an owner does at once with a request that is alone: in the page's own
 * bytes, with its answer in memory of the caller, and nothing kept; and when it must not.
 *
 * This process is 2, home and owner; the requests are those of 1; 3 has a copy in some tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/page.h"
#include "core/rmw.h"
#include "core/syncop.h"
#include "dmi_api.h"

#define PAGE 64u
#define MAP (UINT64_C(1) << 20)
#define OP ((dmi_op_t){77})

static struct dmi_core core;
static struct dmi_map map;
static struct dmi_page page;
static struct dmi_out out;
static _Alignas(16) unsigned char space[DMI_OUT_SPACE];

static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= 3;
}

/* Its inputs are aligned, and it may change them. */
static void function(void *bytes, int64_t size, void *out1, int64_t out1_size, void *out2,
                     int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  assert_int_equal((uintptr_t)out1 % 16, 0);
  assert_int_equal((uintptr_t)bytes % 16, 0);
  assert_int_equal((uintptr_t)in % 16, 0);
  assert_int_equal(out1_size + out2_size, 6);
  assert_int_equal(tag, 5);
  memcpy(in, bytes, (size_t)in_size);
  memset(bytes, tag, (size_t)size);
  memset(out1, 0xee, 6);
  (void)out2;
}

static struct dmi_msg about(enum dmi_msg_type type) {
  struct dmi_msg msg = {.origin = 1, .map = MAP};
  msg.type = (uint8_t)type;
  return msg;
}

static void begin(void) {
  core = (struct dmi_core){.self = 2, .is_member = is_member, .function = function};
  map = (struct dmi_map){.base = MAP, .page_size = PAGE, .page_num = 1};
  atomic_init(&map.home, 2);
  dmi_page_init(&core, &map, &page, 0);
  dmi_out_init(&out);
  page.frame = dmi_frame_new_zero(PAGE);
  out.space = space;
  memset(space, 0xdd, sizeof(space));
}

static void clear(void) {
  for (uint32_t i = 0; i < out.num; i++) {
    dmi_slice_drop(&out.act[i].msg.list);
    dmi_slice_drop(&out.act[i].msg.body);
  }
  out.num = 0;
  out.space = space;
}

static void end(void) {
  clear();
  dmi_page_check(&core, &page);
  dmi_page_fini(&core, &page);
  dmi_out_free(&out);
  assert_int_equal(dmi_frame_total(), 0);
}

static void take_for(struct dmi_msg *msg, struct dmi_req *own) {
  assert_true(dmi_page_message(&core, &page, 1, msg, own, &out));
  dmi_page_check(&core, &page);
}

static void take(struct dmi_msg *msg) {
  take_for(msg, NULL);
}

static struct dmi_rmw_sizes sizes;

static struct dmi_msg atomic(enum dmi_rmw rmw, uint64_t off, uint64_t len, const void *input) {
  struct dmi_msg msg = about(DMI_MSG_ATOMIC);
  const uint64_t in = sizes.out1 + sizes.out2;
  msg.atomic = (struct dmi_msg_atomic){.op = OP, .off = off, .len = len, .rmw = rmw, .tag = 5};
  msg.list = (struct dmi_slice){NULL, (const unsigned char *)&sizes, sizeof(sizes)};
  if (in) msg.body = (struct dmi_slice){NULL, input, in};
  msg.borrowed = in != 0;
  return msg;
}

/* The only action: a DONE to 1, of this version; its answer lies in `space`. */
static void expect_done(uint64_t version, const void *answer, uint64_t len) {
  const struct dmi_msg *msg = &out.act[0].msg;
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].type, DMI_ACT_SEND);
  assert_int_equal(out.act[0].to, 1);
  assert_int_equal(msg->type, DMI_MSG_DONE);
  assert_int_equal(msg->origin, 1);
  assert_int_equal(msg->done.op.n, OP.n);
  assert_int_equal(msg->done.version.n, version);
  assert_int_equal(msg->done.answer, len);
  assert_int_equal(msg->body.len, len);
  if (len) assert_ptr_equal(msg->body.ptr, space);
  if (len) assert_null(out.space);
  if (len) assert_memory_equal(space, answer, len);
  assert_null(msg->body.frame);
  assert_null(page.busy);
}

#define ADDS 3

/* The same number of frames before and after: none was made. */
static void adds(void **state) {
  (void)state;
  begin();
  const uint64_t frames = dmi_frame_total(), first = page.version.n;
  sizes = (struct dmi_rmw_sizes){.out1 = 8, .in = 8};
  for (uint64_t i = 0; i < ADDS; i++) {
    const uint64_t add = 10, before = 10 * i;
    struct dmi_msg msg = atomic(DMI_RMW_FAD, 3, 8, &add);
    assert_true(dmi_page_at_once(&page, &msg));
    take(&msg);
    expect_done(first + i + 1, &before, 8);
    assert_int_equal(dmi_frame_total(), frames);
    clear();
  }
  const uint64_t sum = 10 * ADDS;
  assert_memory_equal(page.frame->bytes + 3, &sum, 8);
  end();
}

/* A compare-and-swap that fails changes nothing, the version neither. */
static void compares(void **state) {
  (void)state;
  begin();
  const unsigned char old[2][4] = {{1, 2, 3, 4}, {9, 9, 9, 9}};
  const uint64_t first = page.version.n;
  const unsigned char no = 0, yes = 1;
  sizes = (struct dmi_rmw_sizes){.out1 = 4, .out2 = 4, .in = 1};
  struct dmi_msg msg = atomic(DMI_RMW_CAS, 0, 4, old);
  take(&msg);
  expect_done(0, &no, 1);
  assert_int_equal(page.version.n, first);
  clear();
  memcpy(page.frame->bytes, old[0], 4);
  msg = atomic(DMI_RMW_CAS, 0, 4, old);
  take(&msg);
  expect_done(first + 1, &yes, 1);
  assert_memory_equal(page.frame->bytes, old[1], 4);
  end();
}

static void calls_function(void **state) {
  (void)state;
  begin();
  unsigned char buffer[16] = "xabcdef", was[8];
  memcpy(page.frame->bytes + 1, "12345678", 8);
  memcpy(was, page.frame->bytes + 1, 8);
  sizes = (struct dmi_rmw_sizes){.out1 = 2, .out2 = 4, .in = 8};
  struct dmi_msg msg = atomic(DMI_RMW_USER, 1, 8, buffer + 1);
  assert_true(dmi_page_at_once(&page, &msg));
  take(&msg);
  expect_done(page.version.n, was, 8);
  assert_memory_equal(page.frame->bytes + 1, "\5\5\5\5\5\5\5\5", 8);
  assert_string_equal((char *)buffer, "xabcdef"); /* the connection's */
  end();
}

static void expect_fail(int error) {
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].msg.type, DMI_MSG_FAIL);
  assert_int_equal(out.act[0].msg.fail.op.n, OP.n);
  assert_int_equal(out.act[0].msg.fail.error, error);
  clear();
}

/* What cannot be done is answered with why, and changes nothing. */
static void fails(void **state) {
  (void)state;
  begin();
  const uint64_t first = page.version.n;
  core.function = NULL;
  sizes = (struct dmi_rmw_sizes){.out1 = 6, .in = 8};
  struct dmi_msg msg = atomic(DMI_RMW_USER, 0, 8, "abcdef");
  take(&msg);
  expect_fail(DMI_ENOFUNC);
  memset(page.frame->bytes, 1, PAGE); /* no mutex */
  sizes = (struct dmi_rmw_sizes){.in = sizeof(struct dmi_locked)};
  msg = atomic(DMI_RMW_TRYLOCK, 0, sizeof(struct dmi_locked_by), NULL);
  take(&msg);
  expect_fail(DMI_EINVAL);
  assert_int_equal(page.version.n, first);
  end();
}

/* A lock is taken at once; the next one waits, as it would have without that. */
static void locks(void **state) {
  (void)state;
  begin();
  struct dmi_locked locked = {.op = OP.n, .how = DMI_LOCKED_YES};
  sizes = (struct dmi_rmw_sizes){.in = sizeof(locked)};
  struct dmi_msg msg = atomic(DMI_RMW_LOCK, 0, sizeof(struct dmi_locked_by), NULL);
  assert_true(dmi_page_at_once(&page, &msg));
  take(&msg);
  expect_done(0, &locked, sizeof(locked)); /* its origin's copy is told like others */
  clear();
  msg = atomic(DMI_RMW_LOCK, 0, sizeof(struct dmi_locked_by), NULL);
  msg.atomic.op.n++;
  take(&msg);
  assert_int_equal(out.num, 0);
  assert_non_null(page.busy);
  assert_non_null(page.busy->waiting_ops.first);
  clear();
  sizes = (struct dmi_rmw_sizes){.out1 = 8};
  msg = atomic(DMI_RMW_UNLOCK, 0, sizeof(struct dmi_locked_by), &locked.op);
  assert_false(dmi_page_at_once(&page, &msg)); /* somebody waits for it */
  msg.borrowed = false;
  msg.body = dmi_slice_copy(msg.body.ptr, msg.body.len);
  take(&msg);
  assert_int_equal(out.num, 2);
  assert_null(page.busy);
  end();
}

static void puts_bytes(void **state) {
  (void)state;
  begin();
  const uint64_t frames = dmi_frame_total(), first = page.version.n;
  struct {
    struct dmi_range range[2];
    unsigned char bytes[5];
  } two = {{{.off = 7, .len = 2}, {.off = 20, .len = 3}}, "abcde"};
  struct dmi_msg msg = about(DMI_MSG_PUT);
  msg.access = (struct dmi_msg_access){.op = OP, .off = 60, .len = 4};
  msg.body = (struct dmi_slice){NULL, (const unsigned char *)"wxyz", 4};
  msg.borrowed = true;
  assert_true(dmi_page_at_once(&page, &msg));
  take(&msg);
  expect_done(first + 1, NULL, 0);
  clear();
  msg = about(DMI_MSG_PUT);
  msg.access = (struct dmi_msg_access){.op = OP, .len = 5, .ranges = 2};
  msg.body = (struct dmi_slice){NULL, (const unsigned char *)&two, sizeof(two.range) + 5};
  msg.borrowed = true;
  assert_true(dmi_page_at_once(&page, &msg));
  take(&msg);
  expect_done(first + 2, NULL, 0);
  assert_memory_equal(page.frame->bytes + 60, "wxyz", 4);
  assert_memory_equal(page.frame->bytes + 7, "ab", 2);
  assert_memory_equal(page.frame->bytes + 20, "cde", 3);
  assert_int_equal(dmi_frame_total(), frames);
  end();
}

/* Bytes outside of the page, or sizes that do not fit, are refused as ever. */
static void invalid(void **state) {
  (void)state;
  begin();
  const unsigned char bytes[16] = {0};
  struct dmi_msg msg = about(DMI_MSG_PUT);
  msg.access = (struct dmi_msg_access){.op = OP, .off = PAGE - 3, .len = 4};
  msg.body = (struct dmi_slice){NULL, bytes, 4};
  assert_false(dmi_page_message(&core, &page, 1, &msg, NULL, &out));
  sizes = (struct dmi_rmw_sizes){.out1 = 8, .in = 8};
  msg = atomic(DMI_RMW_FAD, PAGE - 7, 8, bytes);
  assert_false(dmi_page_message(&core, &page, 1, &msg, NULL, &out));
  msg = atomic(DMI_RMW_FAD, 0, 8, bytes);
  msg.list.len = 8;
  assert_false(dmi_page_at_once(&page, &msg));
  assert_false(dmi_page_message(&core, &page, 1, &msg, NULL, &out));
  sizes.in = UINT64_MAX;
  msg = atomic(DMI_RMW_USER, 0, 8, bytes);
  assert_false(dmi_page_at_once(&page, &msg));
  assert_false(dmi_page_message(&core, &page, 1, &msg, NULL, &out));
  assert_int_equal(out.num, 0);
  end();
}

/* Each of these makes a write wait, be kept, or concern others: then its body must be copied. */
static void not_at_once(void **state) {
  (void)state;
  static const uint16_t flags[] = {DMI_PAGE_DEAD,   DMI_PAGE_FROZEN,  DMI_PAGE_LOST,
                                   DMI_PAGE_NODATA, DMI_PAGE_SPILLED, DMI_PAGE_STALLED};
  begin();
  const unsigned char bytes[PAGE] = {0};
  sizes = (struct dmi_rmw_sizes){.out1 = 8, .in = 8};
  struct dmi_msg add = atomic(DMI_RMW_FAD, 0, 8, bytes), put = about(DMI_MSG_PUT);
  put.access = (struct dmi_msg_access){.op = OP, .len = 4};
  put.body = (struct dmi_slice){NULL, bytes, 4};
  struct dmi_msg *all[] = {&add, &put};
  for (int i = 0; i < 2; i++) {
    for (size_t j = 0; j < sizeof(flags) / sizeof(*flags); j++) {
      page.flags |= flags[j];
      assert_false(dmi_page_at_once(&page, all[i]));
      page.flags &= (uint16_t)~flags[j];
    }
    dmi_frame_ref(page.frame); /* an answer is on its way */
    assert_false(dmi_page_at_once(&page, all[i]));
    dmi_frame_unref(page.frame);
    assert_true(dmi_page_at_once(&page, all[i]));
  }
  put.access.len = put.body.len = PAGE;
  assert_false(dmi_page_at_once(&page, &put));
  add.flags |= DMI_F_WAITING;
  assert_false(dmi_page_at_once(&page, &add));
  add.flags = 0;
  add.atomic.rmw = DMI_RMW_REVIVE;
  assert_false(dmi_page_at_once(&page, &add));
  add.atomic.rmw = DMI_RMW_WATCH;
  assert_false(dmi_page_at_once(&page, &add));
  add.atomic.rmw = DMI_RMW_ARRIVE;
  assert_false(dmi_page_at_once(&page, &add));
  add.atomic.rmw = DMI_RMW_USER;
  sizes.in = DMI_OUT_SPACE + 1;
  assert_false(dmi_page_at_once(&page, &add));
  end();
}

/* With a copy elsewhere a write is answered when that has acknowledged it. */
static void with_a_copy(void **state) {
  (void)state;
  begin();
  const uint64_t add = 1, zero = 0;
  struct dmi_msg msg = about(DMI_MSG_READ);
  msg.origin = 3;
  msg.read = (struct dmi_msg_read){.fetch = {9}, .kind = DMI_KIND_INVALIDATE};
  assert_true(dmi_page_message(&core, &page, 3, &msg, NULL, &out));
  clear(); /* DATA has gone */
  sizes = (struct dmi_rmw_sizes){.out1 = 8, .in = 8};
  msg = atomic(DMI_RMW_FAD, 0, 8, &add);
  assert_false(dmi_page_at_once(&page, &msg));
  msg.borrowed = false;
  msg.body = dmi_slice_copy(msg.body.ptr, msg.body.len);
  take(&msg);
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].msg.type, DMI_MSG_INVALIDATE);
  assert_memory_equal(page.frame->bytes, &zero, 8);
  msg = about(DMI_MSG_INVALIDATED);
  msg.copy.version = out.act[0].msg.copy.version;
  clear();
  assert_true(dmi_page_message(&core, &page, 3, &msg, NULL, &out));
  assert_int_equal(out.act[0].msg.type, DMI_MSG_DONE);
  assert_memory_equal(page.frame->bytes, &add, 8);
  end();
}

static const unsigned char new_bytes[8] = "abcdefg";
static struct dmi_req put;

/* The home is 1, which is asked for a PUT, `put`; returns its DONE. */
static struct dmi_msg asks(void) {
  struct dmi_msg done = about(DMI_MSG_DONE);
  done.origin = 2;
  done.done.op = OP;
  dmi_page_begin(&core, &page, &put, &out);
  assert_int_equal(out.num, 1);
  assert_int_equal(out.act[0].msg.type, DMI_MSG_PUT);
  clear();
  put.error = DMI_EADDR;
  assert_true(dmi_page_at_once(&page, &done));
  return done;
}

static void begin_away(void) {
  begin();
  dmi_page_fini(&core, &page);
  atomic_init(&map.home, 1);
  dmi_page_init(&core, &map, &page, 0);
  put = (struct dmi_req){.type = DMI_REQ_PUT, .op = OP, .len = 8, .src = {NULL, new_bytes, 8}};
}

/* DONE ends the operation, and that is all. */
static void ends(void **state) {
  (void)state;
  begin_away();
  struct dmi_msg done = asks();
  assert_true(dmi_page_only_ends(&page, &done));
  assert_true(dmi_page_ended(&core, &page, 1, &done, &put));
  assert_int_equal(put.error, DMI_OK);
  assert_null(page.busy);
  assert_int_equal(page.hint, 1);
  end();
}

/* One that is not the answer to this operation ends nothing. */
static void ends_not(void **state) {
  (void)state;
  begin_away();
  struct dmi_msg done = asks();
  done.done.answer = 1;
  put.type = DMI_REQ_ATOMIC;
  assert_false(dmi_page_ended(&core, &page, 1, &done, &put));
  put.type = DMI_REQ_GET;
  assert_false(dmi_page_ended(&core, &page, 1, &done, &put));
  assert_int_equal(put.error, DMI_EADDR);
  end();
}

/* A read waits for its copy to be released, which DONE makes old: it goes on then. */
static void ends_and_reads(void **state) {
  (void)state;
  unsigned char got[8];
  struct dmi_req read = {
      .type = DMI_REQ_READ, .kind = DMI_KIND_INVALIDATE, .op = {78}, .len = 8, .dst = got};
  begin_away();
  page.copy = DMI_KIND_UPDATE;
  page.flags |= DMI_PAGE_UNRELEASED;
  dmi_page_begin(&core, &page, &read, &out);
  assert_int_equal(out.num, 0);
  struct dmi_msg done = asks();
  done.done.version = (dmi_version_t){page.version.n + 2};
  assert_false(dmi_page_only_ends(&page, &done));
  take_for(&done, &put);
  assert_int_equal(out.num, 2);
  assert_ptr_equal(out.act[0].req, &put);
  assert_int_equal(put.error, DMI_OK);
  assert_int_equal(out.act[1].msg.type, DMI_MSG_READ);
  assert_int_equal(page.copy, 0);
  out.num = 0;
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adds),    cmocka_unit_test(compares),    cmocka_unit_test(calls_function),
      cmocka_unit_test(fails),   cmocka_unit_test(locks),       cmocka_unit_test(puts_bytes),
      cmocka_unit_test(invalid), cmocka_unit_test(not_at_once), cmocka_unit_test(with_a_copy),
      cmocka_unit_test(ends),    cmocka_unit_test(ends_not),    cmocka_unit_test(ends_and_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
