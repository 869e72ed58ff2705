/*
 * ox_codec_test.c - messages of OpenXM as bytes: golden bytes in both orders, in pieces of each
 * size; what is too large, too deep, malformed, or of an unknown type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gmp.h>

#include "ox/decode.h"
#include "ox/encode.h"
#include "ox/number.h"

static const struct dmi_ox_limits limits = {.message = 1 << 20, .stack = 1 << 20, .depth = 20};

/* Bytes from hexadecimal digits; words between spaces are turned round for little-endian order,
 * "'" begins text that is not. */
static struct dmi_ox_bytes bytes_of(const char *hex, bool little) {
  struct dmi_ox_bytes bytes = {0};
  while (*hex != '\0') {
    unsigned char word[8];
    size_t len = 0;
    if (*hex == ' ') {
      hex++;
      continue;
    }
    if (*hex == '\'') {
      for (hex++; *hex != '\0' && *hex != ' '; hex++)
        dmi_ox_bytes_put(&bytes, hex, 1);
      continue;
    }
    for (; *hex != '\0' && *hex != ' '; hex += 2) {
      unsigned value;
      assert_int_equal(sscanf(hex, "%2x", &value), 1);
      word[len++] = (unsigned char)value;
    }
    for (size_t i = 0; i < len; i++)
      dmi_ox_bytes_put(&bytes, &word[little ? len - 1 - i : i], 1);
  }
  return bytes;
}

/* Decodes the only message of these bytes, in pieces of `piece` bytes. */
static struct dmi_ox_message decode(const struct dmi_ox_bytes *bytes, bool little, size_t piece) {
  struct dmi_ox_decoder d;
  struct dmi_ox_message message = {0};
  bool done = false;
  dmi_ox_decoder_init(&d, &limits, little, false);
  for (size_t at = 0; at < bytes->len;) {
    size_t len = bytes->len - at < piece ? bytes->len - at : piece;
    assert_false(done);
    at += dmi_ox_decode(&d, bytes->at + at, len, &message, &done);
  }
  assert_true(done);
  assert_false(dmi_ox_decoder_inside(&d) && d.state != DMI_OX_AT_SEARCH);
  dmi_ox_decoder_free(&d);
  return message;
}

struct golden {
  const char *hex, *text;
  int32_t kind;
};

#define HEAD "00000202 00000007 "

static const struct golden golden[] = {
    {HEAD "00000001", "0", DMI_OX_NULL},
    {HEAD "00000002 fffffffe", "-2", DMI_OX_INT32},
    {HEAD "00000003 00000003 'a,b", "a,b", DMI_OX_BYTES},
    {HEAD "00000004 00000005 'hello", "hello", DMI_OX_STRING},
    {HEAD "00000004 00000000", "", DMI_OX_STRING},
    {HEAD "00000005 00000011 00000001 00000002 00000066", "mathcap([102])", DMI_OX_MATHCAP},
    {HEAD "00000011 00000000", "[]", DMI_OX_LIST},
    {HEAD "00000011 00000003 00000002 00000001 00000011 00000001 00000004 00000002 'x\" 00000016",
     "[1,[\"x\\\"\"],0]", DMI_OX_LIST},
    {HEAD "00000014 00000001 0000000c", "12", DMI_OX_INTEGER},
    {HEAD "00000014 ffffffff 80000000", "-2147483648", DMI_OX_INTEGER},
    {HEAD "00000014 00000002 00000001 00000002", "8589934593", DMI_OX_INTEGER},
    {HEAD "00000014 fffffffd 00000000 00000000 00000001", "-18446744073709551616", DMI_OX_INTEGER},
    {HEAD "00000014 00000000", "0", DMI_OX_INTEGER},
    {HEAD "00000015 ffffffff 00000016 00000001 00000007", "-22/7", DMI_OX_RATIONAL},
    {HEAD "00000016", "0", DMI_OX_ZERO},
    {HEAD "00000028 3ff8000000000000", "1.5", DMI_OX_DOUBLE},
    {HEAD "00000033 c000000000000000", "-2.0", DMI_OX_DOUBLE},
    {HEAD "00000033 3fb999999999999a", "0.1", DMI_OX_DOUBLE},
    {HEAD "00000029 00000002 3ff0000000000000 4000000000000000", "[1.0,2.0]", DMI_OX_DOUBLES},
    {HEAD "7f000002 00000011 00000002 00000002 00000009 00000002 00000003", "error([9,3])",
     DMI_OX_ERROR},
};

static void test_golden(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * sizeof golden / sizeof golden[0]; i++) {
    const struct golden *row = &golden[i / 2];
    bool little = i % 2;
    struct dmi_ox_bytes bytes = bytes_of(row->hex, little), again = {0};
    for (size_t piece = 1; piece <= bytes.len; piece++) {
      struct dmi_ox_message message = decode(&bytes, little, piece);
      assert_int_equal(message.tag, DMI_OX_DATA);
      assert_int_equal(message.serial, 7);
      assert_int_equal(DMI_ox_kind(message.value), row->kind);
      char *text = DMI_ox_to_text(message.value);
      assert_string_equal(text, row->text);
      free(text);
      again.len = 0;
      dmi_ox_encode_data(&again, little, 7, message.value);
      assert_int_equal(again.len, bytes.len);
      assert_memory_equal(again.at, bytes.at, bytes.len);
      DMI_ox_drop(message.value);
    }
    dmi_ox_bytes_free(&again);
    dmi_ox_bytes_free(&bytes);
  }
}

static void test_messages(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    static const char *const hex[] = {"00000201 80000001 00000106", "00000203 0000000a",
                                      "00000204 0000000b"};
    static const int32_t tags[] = {DMI_OX_COMMAND, DMI_OX_SYNC_BALL, DMI_OX_NOTIFY};
    static const uint32_t serials[] = {0x80000001, 10, 11};
    struct dmi_ox_bytes bytes = bytes_of(hex[i / 2], i % 2), out = {0};
    struct dmi_ox_message message = decode(&bytes, i % 2, 1);
    assert_int_equal(message.tag, tags[i / 2]);
    assert_int_equal(message.serial, serials[i / 2]);
    if (i / 2 == 0) {
      assert_int_equal(message.code, DMI_OX_POP_CMO);
      dmi_ox_encode_command(&out, i % 2, 0x80000001, DMI_OX_POP_CMO);
      assert_memory_equal(out.at, bytes.at, bytes.len);
    } else if (i / 2 == 1) {
      dmi_ox_encode_ball(&out, i % 2, 10);
      assert_memory_equal(out.at, bytes.at, bytes.len);
    }
    dmi_ox_bytes_free(&out);
    dmi_ox_bytes_free(&bytes);
  }
}

/* Integers of 10,000 bits, and doubles of all bits. */
static void test_large(void **state) {
  (void)state;
  gmp_randstate_t random;
  gmp_randinit_default(random);
  for (int i = 0; i < 200; i++) {
    mpz_t number;
    bool little = i % 2;
    struct dmi_ox_bytes bytes = {0};
    mpz_init(number);
    mpz_urandomb(number, random, i < 100 ? 10000 : (mp_bitcnt_t)i);
    if (i % 4 > 1) mpz_neg(number, number);
    struct dmi_ox_value *value = dmi_ox_value_zz(number);
    dmi_ox_encode_data(&bytes, little, 1, value);
    struct dmi_ox_message message = decode(&bytes, little, 100);
    assert_int_equal(mpz_cmp(message.value->integer, value->integer), 0);
    DMI_ox_drop(message.value);
    DMI_ox_drop(value);
    bytes.len = 0;
    uint64_t bits = (uint64_t)gmp_urandomb_ui(random, 64), got;
    double real;
    memcpy(&real, &bits, 8);
    value = DMI_ox_from_double(real);
    dmi_ox_encode_data(&bytes, little, 1, value);
    message = decode(&bytes, little, 3);
    memcpy(&got, &message.value->number, 8);
    assert_true(got == bits);
    DMI_ox_drop(message.value);
    DMI_ox_drop(value);
    dmi_ox_bytes_free(&bytes);
  }
  gmp_randclear(random);
}

/* ---- What is refused ------------------------------------------------------------------------- */

#define NEXT " 00000201 00000008 00000106"

/* The first message is a fault with this code, and the command behind it is found. */
static void expect_fault(const char *hex, int32_t code) {
  struct dmi_ox_bytes bytes = bytes_of(hex, false), behind = bytes_of(NEXT, false);
  dmi_ox_bytes_put(&bytes, behind.at, behind.len);
  for (size_t piece = 1; piece <= bytes.len; piece++) {
    struct dmi_ox_decoder d;
    struct dmi_ox_message message[3];
    size_t num = 0;
    dmi_ox_decoder_init(&d, &limits, false, false);
    for (size_t at = 0; at < bytes.len;) {
      size_t len = bytes.len - at < piece ? bytes.len - at : piece;
      bool done;
      assert_true(num < 3);
      at += dmi_ox_decode(&d, bytes.at + at, len, &message[num], &done);
      num += done;
    }
    assert_int_equal(num, 2);
    assert_int_equal(message[0].tag, DMI_OX_FAULT);
    assert_int_equal(message[0].code, code);
    assert_non_null(message[0].why);
    assert_int_equal(message[1].tag, DMI_OX_COMMAND);
    assert_int_equal(message[1].serial, 8);
    assert_int_equal(message[1].code, DMI_OX_POP_CMO);
    dmi_ox_decoder_free(&d);
  }
  dmi_ox_bytes_free(&bytes);
  dmi_ox_bytes_free(&behind);
}

static void test_faults(void **state) {
  (void)state;
  expect_fault("00000205 00000001", DMI_OX_E_MALFORMED);
  expect_fault(HEAD "00000004 ffffffff", DMI_OX_E_MALFORMED);
  expect_fault(HEAD "00000011 80000000", DMI_OX_E_MALFORMED);
  expect_fault(HEAD "00000029 ffffffff", DMI_OX_E_MALFORMED);
  expect_fault(HEAD "0000001b 00000001 'abcdefg", DMI_OX_E_TYPE);
  expect_fault(HEAD "00000011 00000003 00000014 00000001 00000005 00000fff", DMI_OX_E_TYPE);
  expect_fault(HEAD "00000015 00000001 00000016 00000000", DMI_OX_E_MALFORMED); /* 22/0 */
  expect_fault(HEAD "00000011 00000002 00000015 00000000 00000000 00000004 00000001 'x",
               DMI_OX_E_MALFORMED);
}

/* A rational from words, in pieces of `piece` bytes; the message behind it is found. */
static void expect_rational(const uint32_t *words, size_t num, size_t piece, const char *expected) {
  struct dmi_ox_decoder d;
  struct dmi_ox_message message;
  struct dmi_ox_bytes bytes = {0};
  bool done = false;
  size_t at = 0;
  dmi_ox_encode_word(&bytes, true, DMI_OX_DATA);
  dmi_ox_encode_word(&bytes, true, 1);
  dmi_ox_encode_word(&bytes, true, DMI_OX_RATIONAL);
  for (size_t i = 0; i < num; i++)
    dmi_ox_encode_word(&bytes, true, words[i]);
  size_t end = bytes.len; /* nothing of what is behind is needed */
  dmi_ox_decoder_init(&d, &limits, true, false);
  while (!done && at < end)
    at += dmi_ox_decode(&d, bytes.at + at, end - at < piece ? end - at : piece, &message, &done);
  assert_true(done && message.tag == DMI_OX_DATA);
  assert_int_equal(at, end);
  char *text = DMI_ox_to_text(message.value);
  assert_string_equal(text, expected);
  free(text);
  /* What is written is read as the same. */
  bytes.len = 0;
  dmi_ox_encode_data(&bytes, false, 1, message.value);
  DMI_ox_value_t *before = message.value;
  dmi_ox_decoder_free(&d);
  dmi_ox_decoder_init(&d, &limits, false, false);
  assert_int_equal(dmi_ox_decode(&d, bytes.at, bytes.len, &message, &done), bytes.len);
  assert_true(done && message.tag == DMI_OX_DATA);
  char *again = DMI_ox_to_text(message.value);
  assert_string_equal(again, expected);
  free(again);
  DMI_ox_drop(before);
  DMI_ox_drop(message.value);
  dmi_ox_decoder_free(&d);
  dmi_ox_bytes_free(&bytes);
}

/* Both forms: bodies of integers without types, and with them. */
static void test_rationals(void **state) {
  (void)state;
  static const size_t pieces[] = {1, 4, 7, 1000};
  for (size_t i = 0; i < 4; i++) {
    size_t p = pieces[i];
    expect_rational((uint32_t[]){1, 1, 1, 3}, 4, p, "1/3");
    expect_rational((uint32_t[]){20, 1, 1, 20, 1, 3}, 6, p, "1/3");
    expect_rational((uint32_t[]){20, UINT32_MAX, 5, 20, 1, 3}, 6, p, "-5/3");
    expect_rational((uint32_t[]){20, 2, 0, 1, 20, 1, 3}, 7, p, "4294967296/3");
    uint32_t large[] = {20, 0, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 7};
    mpq_t number;
    char text[300];
    for (int kind = 0; kind < 3; kind++) {
      /* 20 words, without a type; last what would be one has a word more. */
      uint32_t words[24];
      size_t num = 23;
      memcpy(words, large, sizeof large);
      if (kind == 1) words[1] = 100;
      if (kind == 2) {
        words[0] = 21;
        words[2] = 20;
        words[21] = 0;
        words[22] = 1;
        words[23] = 7;
        num = 24;
      }
      mpq_init(number);
      mpz_import(mpq_numref(number), words[0], -1, 4, 0, 0, words + 1);
      mpz_set_ui(mpq_denref(number), 7);
      mpq_canonicalize(number);
      gmp_snprintf(text, sizeof text, "%Qd", number);
      expect_rational(words, num, p, text);
      mpq_clear(number);
    }
  }
}

/* Behind an object of an unknown type: data of a known one. */
static void test_search_data(void **state) {
  (void)state;
  struct dmi_ox_decoder d;
  struct dmi_ox_message message;
  struct dmi_ox_bytes bytes = {0};
  bool done;
  DMI_ox_value_t *value = DMI_ox_from_digits("-12345678901234567890");
  dmi_ox_encode_word(&bytes, false, DMI_OX_DATA);
  dmi_ox_encode_word(&bytes, false, 1);
  dmi_ox_encode_word(&bytes, false, 27);
  dmi_ox_encode_word(&bytes, false, DMI_OX_DATA); /* of a type that is not known, either */
  dmi_ox_encode_word(&bytes, false, 1);
  dmi_ox_encode_word(&bytes, false, 28);
  dmi_ox_bytes_put(&bytes, "abc", 3);
  dmi_ox_encode_data(&bytes, false, 9, value);
  dmi_ox_decoder_init(&d, &limits, false, false);
  size_t used = dmi_ox_decode(&d, bytes.at, bytes.len, &message, &done);
  assert_true(done && message.tag == DMI_OX_FAULT);
  used += dmi_ox_decode(&d, bytes.at + used, bytes.len - used, &message, &done);
  assert_true(done && message.tag == DMI_OX_DATA);
  assert_int_equal(message.serial, 9);
  assert_int_equal(used, bytes.len);
  char *text = DMI_ox_to_text(message.value);
  assert_string_equal(text, "-12345678901234567890");
  free(text);
  DMI_ox_drop(message.value);
  DMI_ox_drop(value);
  dmi_ox_decoder_free(&d);
  dmi_ox_bytes_free(&bytes);
}

static void append_words(struct dmi_ox_bytes *bytes, const uint32_t *words, size_t num) {
  for (size_t i = 0; i < num; i++)
    dmi_ox_encode_word(bytes, false, words[i]);
}

/* Reads bytes and a command behind them: the code of the fault, and the decoder keeps no memory. */
static int32_t fault_within(struct dmi_ox_bytes *bytes, const struct dmi_ox_limits *most) {
  struct dmi_ox_decoder d;
  struct dmi_ox_message message;
  bool done;
  dmi_ox_decoder_init(&d, most, false, false);
  dmi_ox_encode_command(bytes, false, 99, DMI_OX_NOP);
  size_t used = dmi_ox_decode(&d, bytes->at, bytes->len, &message, &done);
  assert_true(done);
  int32_t code = message.tag == DMI_OX_FAULT ? message.code : 0;
  DMI_ox_drop(message.value);
  assert_null(d.body);
  assert_int_equal(d.num, 0);
  used += dmi_ox_decode(&d, bytes->at + used, bytes->len - used, &message, &done);
  assert_true(done);
  assert_int_equal(message.serial, 99);
  assert_int_equal(used, bytes->len);
  dmi_ox_decoder_free(&d);
  dmi_ox_bytes_free(bytes);
  return code;
}

static int32_t fault_of(struct dmi_ox_bytes *bytes) {
  return fault_within(bytes, &limits);
}

static void nested(struct dmi_ox_bytes *bytes, int depth, uint32_t behind) {
  append_words(bytes, (uint32_t[]){DMI_OX_DATA, 1}, 2);
  for (int i = 0; i < depth; i++)
    append_words(bytes, (uint32_t[]){DMI_OX_LIST, 1 + behind}, 2);
  append_words(bytes, (uint32_t[]){DMI_OX_NULL}, 1);
  for (int i = 0; i < depth; i++)
    for (uint32_t j = 0; j < behind; j++)
      append_words(bytes, (uint32_t[]){DMI_OX_STRING, 0}, 2);
}

static void test_limits(void **state) {
  (void)state;
  struct dmi_ox_bytes bytes = {0};
  for (uint32_t behind = 0; behind < 3; behind++) {
    nested(&bytes, limits.depth, behind);
    assert_int_equal(fault_of(&bytes), 0);
    nested(&bytes, limits.depth + 1, behind);
    assert_int_equal(fault_of(&bytes), DMI_OX_E_LIMIT);
    nested(&bytes, 5000, behind);
    assert_int_equal(fault_of(&bytes), DMI_OX_E_LIMIT);
  }
  /* A string as long as may be, and a longer one: it is read to its end. */
  for (uint32_t more = 0; more < 2; more++) {
    uint32_t len = (uint32_t)(limits.message - DMI_OX_VALUE_BYTES) + more;
    append_words(&bytes, (uint32_t[]){DMI_OX_DATA, 1, DMI_OX_STRING, len}, 4);
    memset(dmi_ox_bytes_add(&bytes, len), 'a', len);
    assert_int_equal(fault_of(&bytes), more ? DMI_OX_E_LIMIT : 0);
  }
  /* A rational whose second part is too much, and one behind. */
  uint32_t words = (uint32_t)limits.message / 4;
  append_words(&bytes, (uint32_t[]){DMI_OX_DATA, 1, DMI_OX_LIST, 2, DMI_OX_RATIONAL, 1, 1, words},
               8);
  memset(dmi_ox_bytes_add(&bytes, 4 * (size_t)words), 1, 4 * (size_t)words);
  append_words(&bytes, (uint32_t[]){DMI_OX_RATIONAL, 1, 1, 1, 2}, 5);
  assert_int_equal(fault_of(&bytes), DMI_OX_E_LIMIT);
}

/* Rationals are bounded, whatever a message may have: numerator and denominator together. */
static void test_large_rationals(void **state) {
  (void)state;
  const struct dmi_ox_limits wide = {.message = 1 << 25, .stack = 1 << 25, .depth = 20};
  const uint32_t half = (uint32_t)(DMI_OX_RATIONAL_BYTES / 8);
  for (int i = 0; i < 3; i++) {
    struct dmi_ox_bytes bytes = {0};
    uint32_t first = i == 2 ? 2 * half + 1 : half, second = i == 0 ? half : half + 1;
    if (i == 2) second = 1;
    append_words(&bytes, (uint32_t[]){DMI_OX_DATA, 1, DMI_OX_RATIONAL, first}, 4);
    memset(dmi_ox_bytes_add(&bytes, 4 * (size_t)first), 1, 4 * (size_t)first);
    append_words(&bytes, &second, 1);
    memset(dmi_ox_bytes_add(&bytes, 4 * (size_t)second), 1, 4 * (size_t)second);
    assert_int_equal(fault_within(&bytes, &wide), i == 0 ? 0 : DMI_OX_E_LIMIT);
  }
  mpz_t large;
  mpz_init_set_ui(large, 1);
  mpz_mul_2exp(large, large, 8 * DMI_OX_RATIONAL_BYTES);
  struct dmi_ox_value *a = dmi_ox_value_zz(large), *b = DMI_ox_from_digits("1/3"), *value;
  const char *why = "";
  assert_null(dmi_ox_number_op('+', a, b, UINT64_MAX, &why));
  assert_string_equal(why, DMI_OX_RATIONAL_LARGE);
  assert_null(dmi_ox_number_op('/', a, a, UINT64_MAX, &why));
  assert_non_null(value = dmi_ox_number_op('+', a, a, UINT64_MAX, &why)); /* integers */
  DMI_ox_drop(value);
  DMI_ox_drop(a);
  DMI_ox_drop(b);
}

/* What others are sent: ZZ, NULL and doubles 51, also inside of errors; but the serial and the code
 * of an error, and the numbers of a mathcap, stay INT32. */
static void test_peer(void **state) {
  (void)state;
  static const char *const rows[][3] = {
      {"00000002 00000005", "00000014 00000001 00000005", NULL},
      {"00000028 3ff8000000000000", "00000033 3ff8000000000000", "00000028 3ff8000000000000"},
      {"7f000002 00000011 00000004 00000002 00000003 00000002 00000000 00000028 3ff8000000000000 "
       "00000011 00000001 00000002 00000007",
       "7f000002 00000011 00000004 00000002 00000003 00000002 00000000 00000033 3ff8000000000000 "
       "00000011 00000001 00000014 00000001 00000007",
       NULL},
      {"00000005 00000011 00000002 00000002 00000007 00000011 00000002 00000002 00000008 00000028 "
       "3ff8000000000000",
       "00000005 00000011 00000002 00000002 00000007 00000011 00000002 00000002 00000008 00000033 "
       "3ff8000000000000",
       NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (int knows_40 = 0; knows_40 < 2; knows_40++) {
      if (knows_40 && rows[i][2] == NULL) continue;
      char hex[400];
      snprintf(hex, sizeof hex, "00000202 00000007 %s", rows[i][0]);
      struct dmi_ox_bytes bytes = bytes_of(hex, true), out = {0};
      struct dmi_ox_bytes wanted = bytes_of(rows[i][1 + knows_40], true);
      struct dmi_ox_message message = decode(&bytes, true, bytes.len);
      dmi_ox_encode_peer_value(&out, true, knows_40, message.value);
      assert_int_equal(out.len, wanted.len);
      assert_memory_equal(out.at, wanted.at, wanted.len);
      DMI_ox_drop(message.value);
      dmi_ox_bytes_free(&bytes);
      dmi_ox_bytes_free(&out);
      dmi_ox_bytes_free(&wanted);
    }
  }
}

/* A length that is only said costs nothing. */
static void test_no_memory_for_words(void **state) {
  (void)state;
  static const struct dmi_ox_limits wide = {.message = UINT64_MAX / 2, .stack = 0, .depth = 20};
  static const uint32_t tags[] = {DMI_OX_STRING, DMI_OX_LIST, DMI_OX_INTEGER, DMI_OX_DOUBLES};
  for (size_t i = 0; i < 4; i++) {
    struct dmi_ox_decoder d;
    struct dmi_ox_message message;
    struct dmi_ox_bytes bytes = {0};
    bool done;
    dmi_ox_decoder_init(&d, &wide, false, false);
    append_words(&bytes, (uint32_t[]){DMI_OX_DATA, 1, tags[i], INT32_MAX, DMI_OX_NULL}, 5);
    dmi_ox_decode(&d, bytes.at, bytes.len, &message, &done);
    assert_false(done);
    assert_true(d.body_room <= 64);
    assert_true(d.num == 0 || d.frames[0].room <= 64);
    dmi_ox_decoder_free(&d);
    dmi_ox_bytes_free(&bytes);
  }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void test_helpers(void **state) {
  (void)state;
  static const int64_t numbers[] = {0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  int64_t got;
  double real;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    DMI_ox_value_t *value = DMI_ox_from_int64(numbers[i]);
    assert_int_equal(DMI_ox_kind(value), numbers[i] == 0 ? DMI_OX_NULL : DMI_OX_INTEGER);
    assert_true(DMI_ox_to_int64(value, &got) && got == numbers[i]);
    DMI_ox_drop(value);
  }
  static const char *const wide[] = {"9223372036854775808", "-9223372036854775809",
                                     "100000000000000000000000"};
  for (size_t i = 0; i < 3; i++) {
    DMI_ox_value_t *value = DMI_ox_from_digits(wide[i]);
    assert_false(DMI_ox_to_int64(value, &got));
    char *text = DMI_ox_to_text(value);
    assert_string_equal(text, wide[i]);
    free(text);
    DMI_ox_drop(value);
  }
  static const char *const none[] = {"", "-", "1/0", "1/", "/2", "1/-2", " 1", "1x", "0x10"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    assert_null(DMI_ox_from_digits(none[i]));
  DMI_ox_value_t *half = DMI_ox_from_digits("-2/4");
  assert_true(DMI_ox_to_double(half, &real) && real == -0.5);
  DMI_ox_drop(half);
  DMI_ox_value_t *items[2] = {DMI_ox_null(), NULL};
  assert_null(DMI_ox_list(items, 2));
  DMI_ox_value_t *list = DMI_ox_list(NULL, 0);
  for (int i = 0; i < DMI_OX_DEPTH_MAX - 1; i++)
    assert_non_null(list = DMI_ox_list(&list, 1));
  assert_null(DMI_ox_list(&list, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),    cmocka_unit_test(test_messages),
      cmocka_unit_test(test_large),     cmocka_unit_test(test_faults),
      cmocka_unit_test(test_limits),    cmocka_unit_test(test_no_memory_for_words),
      cmocka_unit_test(test_helpers),   cmocka_unit_test(test_search_data),
      cmocka_unit_test(test_rationals), cmocka_unit_test(test_large_rationals),
      cmocka_unit_test(test_peer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
