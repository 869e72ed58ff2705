/*
 * member_pack_test.c - lib/msg/pack.h: reads what was written, and no byte beyond it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "msg/pack.h"

static struct dmi_slice sample(void) {
  struct dmi_pack pack;
  dmi_pack_init(&pack);
  dmi_pack_u8(&pack, 0xab);
  dmi_pack_u16(&pack, 0x1234);
  dmi_pack_u32(&pack, 0xdeadbeef);
  dmi_pack_u64(&pack, 0x0123456789abcdefull);
  dmi_pack_string(&pack, "host");
  dmi_pack_bytes(&pack, "xyz", 3);
  dmi_pack_raw(&pack, "!", 1);
  return dmi_pack_slice(&pack);
}

static bool read_sample(const struct dmi_slice *slice) {
  struct dmi_unpack unpack;
  char host[256], raw;
  size_t len;
  const uint8_t *bytes;
  dmi_unpack_init(&unpack, slice);
  dmi_unpack_u8(&unpack);
  dmi_unpack_u16(&unpack);
  dmi_unpack_u32(&unpack);
  dmi_unpack_u64(&unpack);
  dmi_unpack_string(&unpack, host);
  bytes = dmi_unpack_bytes(&unpack, &len);
  if (!bytes) assert_int_equal(len, 0);
  dmi_unpack_raw(&unpack, &raw, 1);
  return dmi_unpack_done(&unpack);
}

static void test_round_trip(void **state) {
  struct dmi_slice slice = sample();
  struct dmi_unpack unpack;
  char host[256], raw;
  size_t len;
  (void)state;
  dmi_unpack_init(&unpack, &slice);
  assert_int_equal(dmi_unpack_u8(&unpack), 0xab);
  assert_int_equal(dmi_unpack_u16(&unpack), 0x1234);
  assert_int_equal(dmi_unpack_u32(&unpack), 0xdeadbeef);
  assert_true(dmi_unpack_u64(&unpack) == 0x0123456789abcdefull);
  dmi_unpack_string(&unpack, host);
  assert_string_equal(host, "host");
  assert_memory_equal(dmi_unpack_bytes(&unpack, &len), "xyz", 3);
  assert_int_equal(len, 3);
  dmi_unpack_raw(&unpack, &raw, 1);
  assert_int_equal(raw, '!');
  assert_true(dmi_unpack_done(&unpack));
  dmi_slice_drop(&slice);
}

static void test_little_endian(void **state) {
  struct dmi_slice slice = sample();
  static const uint8_t begin[] = {0xab, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde, 0xef, 0xcd};
  (void)state;
  assert_memory_equal(slice.ptr, begin, sizeof(begin));
  dmi_slice_drop(&slice);
}

/* Every shorter body is bad, and so is a longer one. */
static void test_lengths(void **state) {
  struct dmi_slice slice = sample();
  uint8_t longer[128];
  struct dmi_slice other = {NULL, longer, slice.len + 1};
  (void)state;
  assert_true(read_sample(&slice));
  memset(longer, 0, sizeof(longer));
  memcpy(longer, slice.ptr, slice.len);
  assert_false(read_sample(&other));
  for (other.len = 0; other.len < slice.len; other.len++)
    assert_false(read_sample(&other));
  dmi_slice_drop(&slice);
}

static void test_bad_stays_bad(void **state) {
  static const uint8_t bytes[] = {1, 2, 3};
  struct dmi_slice slice = {NULL, bytes, 3};
  struct dmi_unpack unpack;
  (void)state;
  dmi_unpack_init(&unpack, &slice);
  assert_int_equal(dmi_unpack_u32(&unpack), 0);
  assert_int_equal(dmi_unpack_u8(&unpack), 0);
  assert_false(dmi_unpack_done(&unpack));
}

/* A count never promises more elements than there are bytes for. */
static void test_count(void **state) {
  static const uint8_t fits[] = {2, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  static const uint8_t lies[] = {0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1};
  struct dmi_slice slice = {NULL, fits, sizeof(fits)};
  struct dmi_unpack unpack;
  (void)state;
  dmi_unpack_init(&unpack, &slice);
  assert_int_equal(dmi_unpack_count(&unpack, 4), 2);
  dmi_unpack_init(&unpack, &slice);
  assert_int_equal(dmi_unpack_count(&unpack, 5), 0);
  assert_false(dmi_unpack_done(&unpack));
  slice.ptr = lies;
  slice.len = sizeof(lies);
  dmi_unpack_init(&unpack, &slice);
  assert_int_equal(dmi_unpack_count(&unpack, 1), 0);
  assert_true(unpack.bad);
}

static void test_string_with_zero(void **state) {
  static const uint8_t bytes[] = {3, 'a', 0, 'b'};
  struct dmi_slice slice = {NULL, bytes, sizeof(bytes)};
  struct dmi_unpack unpack;
  char string[256];
  (void)state;
  dmi_unpack_init(&unpack, &slice);
  dmi_unpack_string(&unpack, string);
  assert_string_equal(string, "");
  assert_false(dmi_unpack_done(&unpack));
}

static void test_text(void **state) {
  char text[2 * DMI_TEXT_SIZE], got[DMI_TEXT_SIZE];
  const size_t lengths[] = {0, 1, 255, 256, DMI_TEXT_SIZE - 1, sizeof(text) - 1};
  struct dmi_unpack unpack;
  struct dmi_slice slice;
  struct dmi_pack pack;
  (void)state;
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    size_t most = lengths[i] < DMI_TEXT_SIZE ? lengths[i] : DMI_TEXT_SIZE - 1;
    memset(text, 'x', sizeof(text));
    text[lengths[i]] = 0;
    dmi_pack_init(&pack);
    dmi_pack_text(&pack, text);
    slice = dmi_pack_slice(&pack);
    dmi_unpack_init(&unpack, &slice);
    dmi_unpack_text(&unpack, got);
    assert_true(dmi_unpack_done(&unpack));
    assert_int_equal(strlen(got), most);
    assert_memory_equal(got, text, most);
    dmi_slice_drop(&slice);
  }
  memset(text, 'x', sizeof(text));
  memcpy(text, (const char[]){0, DMI_TEXT_SIZE >> 8}, 2); /* one more than there is room for */
  slice = (struct dmi_slice){NULL, (const unsigned char *)text, sizeof(text)};
  dmi_unpack_init(&unpack, &slice);
  dmi_unpack_text(&unpack, got);
  assert_string_equal(got, "");
  assert_false(dmi_unpack_done(&unpack));
}

static void test_empty(void **state) {
  struct dmi_slice slice = {0};
  struct dmi_unpack unpack;
  struct dmi_pack pack;
  (void)state;
  dmi_unpack_init(&unpack, &slice);
  assert_true(dmi_unpack_done(&unpack));
  dmi_pack_init(&pack);
  slice = dmi_pack_slice(&pack);
  assert_int_equal(slice.len, 0);
  slice.len = 5; /* a body that the network threw away */
  dmi_unpack_init(&unpack, &slice);
  assert_false(dmi_unpack_done(&unpack));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_little_endian),
      cmocka_unit_test(test_lengths),    cmocka_unit_test(test_bad_stays_bad),
      cmocka_unit_test(test_count),      cmocka_unit_test(test_string_with_zero),
      cmocka_unit_test(test_empty),      cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
