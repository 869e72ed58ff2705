/*
 * wire_test.c - converts headers and HELLOs to bytes and back, and tests every limit of the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/hello.h"
#include "msg/packed.h"
#include "msg/wire.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* Numbers that look random but are the same in each run. */
static uint64_t seed = 1;

static uint64_t any(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

/* Any bits in the fields that the message uses. */
static void random_fields(struct dmi_msg *msg, const struct dmi_wire_type *row) {
  uint64_t word[DMI_WIRE_WORDS];
  uint8_t type = msg->type;
  for (int i = 0; i < DMI_WIRE_WORDS; i++)
    word[i] = any() & ~row->zero[i];
  memcpy(msg, word, sizeof word);
  msg->type = type;
}

static struct dmi_msg random_message(uint8_t type) {
  const struct dmi_wire_type *row = dmi_wire_type(type);
  struct dmi_msg msg = {.type = type};
  random_fields(&msg, row);
  if (row->list_size != 0) {
    msg.list.len = any() % (row->list_max / row->list_size + 1) * row->list_size;
  }
  msg.body.len = any() % (row->body_max + 1);
  return msg;
}

static void check_same(const struct dmi_msg *a, const struct dmi_msg *b) {
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->flags, b->flags);
  assert_int_equal(a->origin, b->origin);
  assert_true(a->map == b->map && a->page == b->page);
  assert_memory_equal(a->word, b->word, sizeof a->word);
  assert_true(a->list.len == b->list.len && a->body.len == b->body.len);
  assert_null(b->list.ptr);
  assert_null(b->body.ptr);
  assert_null(b->list.frame);
  assert_null(b->body.frame);
}

static void test_round_trip(void **state) {
  (void)state;
  int types = 0;
  for (unsigned type = 0; type < 256; type++) {
    if (dmi_wire_type((uint8_t)type)->name == NULL) continue;
    types++;
    for (int i = 0; i < 200; i++) {
      unsigned char bytes[DMI_WIRE_HEADER];
      struct dmi_msg in = random_message((uint8_t)type), out;
      dmi_wire_put(bytes, &in);
      assert_null(dmi_wire_get(&out, bytes, true));
      check_same(&in, &out);
    }
  }
  assert_int_equal(types, 141);
}

/* The bytes of one message, so that a change is noticed: it needs a new version. */
static void test_layout(void **state) {
  (void)state;
  struct dmi_msg msg = {.type = DMI_MSG_ATOMIC, .flags = 0x0102};
  unsigned char bytes[DMI_WIRE_HEADER];
  msg.origin = 0x01020304;
  msg.map = 0x2122232425262728;
  msg.page = 0x3132333435363738;
  msg.atomic = (struct dmi_msg_atomic){.op = {0x4142434445464748},
                                       .off = 0x5152535455565758,
                                       .len = 0x6162636465666768,
                                       .rmw = 0x71727374,
                                       .tag = -2};
  msg.list.len = 0x10;
  msg.body.len = 0x1112131415161718;
  static const unsigned char want[DMI_WIRE_HEADER] = {
      4,    0,    2,    1,    4,    3,    2,    1,    0x28, 0x27, 0x26, 0x25, 0x24, 0x23,
      0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45,
      0x44, 0x43, 0x42, 0x41, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x68, 0x67,
      0x66, 0x65, 0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x71, 0xfe, 0xff, 0xff, 0xff,
      0x10, 0,    0,    0,    0,    0,    0,    0,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
      0x12, 0x11, 0,    0,    0,    0,    0,    0,    0,    0};
  dmi_wire_put(bytes, &msg);
  assert_memory_equal(bytes, want, sizeof want);
}

static bool refused(const struct dmi_msg *msg, bool member) {
  unsigned char bytes[DMI_WIRE_HEADER];
  struct dmi_msg out;
  dmi_wire_put(bytes, msg);
  const char *wrong = dmi_wire_get(&out, bytes, member);
  assert_true((wrong == NULL) == (dmi_wire_check(msg, member) == NULL));
  return wrong != NULL;
}

static void test_limits(void **state) {
  (void)state;
  for (unsigned type = 0; type < 256; type++) {
    const struct dmi_wire_type *row = dmi_wire_type((uint8_t)type);
    struct dmi_msg msg = {.type = (uint8_t)type};
    if (row->name == NULL) {
      assert_true(refused(&msg, true));
      continue;
    }
    assert_false(refused(&msg, true));
    assert_true(refused(&msg, false) == (row->from == DMI_WIRE_MEMBER));
    msg.body.len = row->body_max;
    assert_false(refused(&msg, true));
    msg.body.len = row->body_max + 1;
    assert_true(refused(&msg, true));
    msg.body.len = UINT64_MAX;
    assert_true(refused(&msg, true));
    msg.body.len = 0;
    msg.list.len = row->list_max;
    assert_false(refused(&msg, true));
    msg.list.len = row->list_max + (row->list_size == 0 ? 1 : row->list_size);
    assert_true(refused(&msg, true));
    msg.list.len = 1; /* no element has one byte */
    assert_true(refused(&msg, true));
  }
}

/* Each bit of the header that the message does not use is refused; each that it uses is not. */
static void test_unused_bits(void **state) {
  (void)state;
  int used = 0, unused = 0;
  for (unsigned type = 0; type < 256; type++) {
    const struct dmi_wire_type *row = dmi_wire_type((uint8_t)type);
    if (row->name == NULL) continue;
    for (unsigned bit = 8; bit < 64 * DMI_WIRE_WORDS; bit++) { /* the type is in the first 8 */
      struct dmi_msg msg = {.type = (uint8_t)type};
      uint64_t word[DMI_WIRE_WORDS];
      bool zero = (row->zero[bit / 64] >> bit % 64 & 1) != 0;
      memcpy(word, &msg, sizeof word);
      word[bit / 64] |= UINT64_C(1) << bit % 64;
      memcpy(&msg, word, sizeof word);
      assert_true(refused(&msg, true) == zero);
      *(zero ? &unused : &used) += 1;
    }
  }
  assert_true(used > 10000 && unused > 10000);
  /* What is meant, by hand: GET has no flags; TAKE is not about one page; PING has one field;
   * an error has 32 bits. */
  assert_true(dmi_wire_type(DMI_MSG_GET)->zero[0] == UINT64_C(0xffffff00));
  assert_true(dmi_wire_type(DMI_MSG_TAKE)->zero[1] == 0);
  assert_true(dmi_wire_type(DMI_MSG_TAKE)->zero[2] == UINT64_MAX);
  assert_true(dmi_wire_type(DMI_MSG_PING)->zero[3] == 0);
  assert_true(dmi_wire_type(DMI_MSG_PING)->zero[4] == UINT64_MAX);
  assert_true(dmi_wire_type(DMI_CTL_RESULT)->zero[4] == UINT64_C(0xffffffff00000000));
  assert_true(dmi_wire_type(DMI_SVC_JOINED)->zero[5] == UINT64_C(0xffffffff00000000));
}

static void test_strangers(void **state) {
  (void)state;
  int allowed = 0;
  for (unsigned type = 0; type < 256; type++) {
    struct dmi_msg msg = {.type = (uint8_t)type};
    if (!refused(&msg, false)) allowed++;
  }
  assert_int_equal(allowed, 3); /* JOIN, SEE and FIN */
  struct dmi_msg join = {.type = DMI_CTL_JOIN, .body = {.len = DMI_WIRE_STRANGER}};
  assert_false(refused(&join, false));
  join.body.len++;
  assert_true(refused(&join, false));
}

static void test_zero(void **state) {
  (void)state;
  unsigned char bytes[DMI_WIRE_HEADER];
  struct dmi_msg msg = {.type = DMI_MSG_GET}, out;
  for (size_t i = 72; i < 80; i++) {
    dmi_wire_put(bytes, &msg);
    assert_null(dmi_wire_get(&out, bytes, true));
    bytes[i] = 1;
    assert_non_null(dmi_wire_get(&out, bytes, true));
  }
}

/* ---- Packed headers ------------------------------------------------------------------------- */

/* Who may have something packed behind it, and how much. */
static void test_behind(void **state) {
  (void)state;
  for (unsigned type = 0; type < 256; type++) {
    struct dmi_msg msg = {.type = (uint8_t)type}, out;
    unsigned char bytes[DMI_WIRE_HEADER];
    if (dmi_wire_type((uint8_t)type)->name == NULL) continue;
    dmi_wire_put(bytes, &msg);
    assert_int_equal(dmi_packed_behind(bytes), 0);
    for (unsigned bit = 0; bit < 32; bit++) {
      dmi_packed_set_behind(bytes, 1u << bit);
      const bool right = dmi_packed_may(msg.type) && 1u << bit <= DMI_PACKED_MOST;
      assert_int_equal(dmi_wire_get(&out, bytes, true) == NULL, right);
    }
    dmi_packed_set_behind(bytes, DMI_PACKED_MOST + 1);
    assert_non_null(dmi_wire_get(&out, bytes, true));
  }
}

/* Reads what dmi_packed_put has written, whole and in part, and with each bit changed. */
static void check_packed(const struct dmi_msg *msg, const struct dmi_packed_before *before) {
  unsigned char bytes[DMI_PACKED_HEADER + 1], again[DMI_PACKED_HEADER];
  struct dmi_packed_before next = *before;
  struct dmi_msg out;
  const char *wrong;
  const size_t size = dmi_packed_put(bytes, msg, &next);
  bytes[size] = 0xff; /* what follows does not count */
  for (size_t have = 0; have < size; have++) {
    assert_int_equal(dmi_packed_get(&out, bytes, have, before, &wrong), 0);
    assert_null(wrong);
  }
  assert_int_equal(dmi_packed_get(&out, bytes, size + 1, before, &wrong), size);
  check_same(msg, &out);
  for (size_t bit = 0; bit < 8 * size; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    const size_t other = dmi_packed_get(&out, bytes, size, before, &wrong);
    next = *before;
    if (other != 0) { /* another message; there is one way only to write it */
      assert_int_equal(dmi_packed_put(again, &out, &next), other);
      assert_memory_equal(again, bytes, other);
    }
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
}

static void test_packed(void **state) {
  (void)state;
  struct dmi_packed_before before = {{0}};
  for (int i = 0; i < 3000; i++) {
    const uint8_t type = (uint8_t)(any() % 256);
    if (!dmi_packed_may(type)) continue;
    struct dmi_msg msg = random_message(type);
    if (any() % 2) {
      msg.list.len = 0;
      msg.body.len = any() % 100;
      if (msg.body.len > dmi_wire_type(type)->body_max) msg.body.len = 0;
    }
    check_packed(&msg, &before);
    if (any() % 8) dmi_packed_begin(&before, &msg);
    check_packed(&msg, &before);
  }
}

/* Neighbours are small: what makes an envelope pay. */
static void test_packed_size(void **state) {
  (void)state;
  struct dmi_msg msg = {.type = DMI_MSG_GET, .origin = 3, .map = 1 << 20, .page = 7};
  struct dmi_packed_before before;
  unsigned char bytes[DMI_PACKED_HEADER];
  static const unsigned char want[] = {0x0c, 0, 2, 2}; /* page and operation: one more */
  msg.access = (struct dmi_msg_access){.op = {UINT64_C(1) << 32}, .off = 64, .len = 8};
  dmi_packed_begin(&before, &msg);
  msg.page++;
  msg.access.op.n++;
  assert_int_equal(dmi_packed_put(bytes, &msg, &before), sizeof want);
  assert_memory_equal(bytes, want, sizeof want);
}

/* A message that must not be packed. */
static void test_packed_type(void **state) {
  (void)state;
  for (unsigned type = 0; type < 256; type++) {
    struct dmi_msg msg = {.type = (uint8_t)type}, out;
    struct dmi_packed_before before = {{0}};
    unsigned char bytes[DMI_PACKED_HEADER];
    const char *wrong;
    const size_t size = dmi_packed_put(bytes, &msg, &before);
    before = (struct dmi_packed_before){{0}};
    (void)dmi_packed_get(&out, bytes, size, &before, &wrong);
    assert_int_equal(wrong == NULL, dmi_packed_may((uint8_t)type));
  }
}

static struct dmi_hello some_hello(void) {
  struct dmi_hello hello = {.kind = DMI_HELLO_HELLO, .version = DMI_WIRE_VERSION};
  for (int i = 0; i < 16; i++) {
    hello.build[i] = (uint8_t)any();
    hello.program[i] = (uint8_t)any();
  }
  hello.uid = (uint32_t)any() & 0x7fffffff;
  hello.port = (uint16_t)any();
  hello.narrow = any() & 1;
  hello.shm = any() & 1;
  snprintf(hello.name, sizeof hello.name, "program");
  return hello;
}

static void test_hello(void **state) {
  (void)state;
  for (int i = 0; i < 200; i++) {
    struct dmi_hello in = some_hello(), out;
    unsigned char bytes[DMI_HELLO_BYTES];
    if (i & 1) in.kind = DMI_HELLO_OK;
    dmi_hello_put(bytes, &in);
    /* as it arrives, byte by byte */
    for (size_t have = 1; have <= sizeof bytes; have++) {
      size_t size = dmi_hello_size(bytes, have);
      assert_int_equal(size, have <= 4 ? DMI_HELLO_FIRST : DMI_HELLO_BYTES);
    }
    assert_true(dmi_hello_get(&out, bytes));
    assert_int_equal(in.kind, out.kind);
    assert_int_equal(in.version, out.version);
    assert_int_equal(in.uid, out.uid);
    assert_int_equal(in.port, out.port);
    assert_int_equal(in.narrow, out.narrow);
    assert_int_equal(in.shm, out.shm);
    assert_memory_equal(in.build, out.build, 16);
    assert_memory_equal(in.program, out.program, 16);
    assert_string_equal(in.name, out.name);
  }
}

static void test_hello_garbage(void **state) {
  (void)state;
  struct dmi_hello hello = some_hello(), out;
  unsigned char bytes[DMI_HELLO_BYTES];
  for (size_t i = 0; i < 5; i++) { /* magic and kind */
    dmi_hello_put(bytes, &hello);
    bytes[i] ^= 0x40;
    assert_int_equal(dmi_hello_size(bytes, i + 1), 0);
    assert_false(dmi_hello_get(&out, bytes));
  }
  static const size_t zeros[] = {5, 46, 47, 112, 127};
  for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
    dmi_hello_put(bytes, &hello);
    bytes[zeros[i]] = 2; /* 46 may be 1 */
    assert_false(dmi_hello_get(&out, bytes));
  }
  dmi_hello_put(bytes, &hello);
  memset(bytes + 48, 0x1b, 64); /* a name without end, with what terminals obey */
  assert_true(dmi_hello_get(&out, bytes));
  assert_int_equal(strlen(out.name), sizeof out.name - 1);
  assert_null(strchr(out.name, 0x1b));
  dmi_hello_put(bytes, &hello);
  bytes[43] |= 0x80; /* a uid that would be a temporary id */
  assert_false(dmi_hello_get(&out, bytes));
}

static void test_match(void **state) {
  (void)state;
  struct dmi_hello mine = some_hello(), theirs = mine;
  char why[DMI_REFUSE_TEXT];
  assert_true(dmi_hello_match(&mine, &theirs, "B", why));
  theirs.version = 77;
  assert_false(dmi_hello_match(&mine, &theirs, "B", why));
  assert_non_null(strstr(why, "77"));
  assert_non_null(strstr(why, "version " TEXT(DMI_WIRE_VERSION)));
  theirs = mine;
  theirs.build[0] ^= 1;
  snprintf(theirs.name, sizeof theirs.name, "other");
  assert_false(dmi_hello_match(&mine, &theirs, "B", why));
  assert_non_null(strstr(why, "this process runs 'program'"));
  assert_non_null(strstr(why, "B runs 'other'"));
  assert_non_null(strstr(why, "build"));
  theirs = mine;
  theirs.program[15] ^= 1;
  assert_false(dmi_hello_match(&mine, &theirs, "B", why));
  memset(theirs.program, 0, 16); /* joins whatever runs there */
  assert_true(dmi_hello_match(&mine, &theirs, "B", why));
}

static void test_refuse(void **state) {
  (void)state;
  unsigned char bytes[DMI_REFUSE_BYTES];
  char why[DMI_REFUSE_TEXT];
  dmi_refuse_put(bytes, "because");
  assert_int_equal(dmi_hello_size(bytes, DMI_HELLO_FIRST), DMI_REFUSE_BYTES);
  dmi_refuse_get(why, bytes);
  assert_string_equal(why, "because");
  memset(bytes + DMI_HELLO_FIRST, '\a', DMI_REFUSE_TEXT);
  dmi_refuse_get(why, bytes);
  assert_int_equal(strlen(why), DMI_REFUSE_TEXT - 1);
  assert_null(strchr(why, '\a'));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_layout),
      cmocka_unit_test(test_limits),      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_behind),      cmocka_unit_test(test_packed),
      cmocka_unit_test(test_packed_size), cmocka_unit_test(test_packed_type),
      cmocka_unit_test(test_zero),        cmocka_unit_test(test_unused_bits),
      cmocka_unit_test(test_hello),       cmocka_unit_test(test_hello_garbage),
      cmocka_unit_test(test_match),       cmocka_unit_test(test_refuse)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
