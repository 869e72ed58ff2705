/*
 * ox_fuzz.c - the decoder of OpenXM messages, and a session, with arbitrary bytes: neither crashes,
 * hangs, or uses more memory than its limits say.
 *
 *   ox_fuzz [SEED]
 *
 * An input is random bytes, random words that mean something, or a valid row of messages of which
 * some bytes are changed; it comes in pieces of random size. Every eighth goes to a session with a
 * link, the others to a decoder; what a decoder makes of it is encoded and decoded again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/decode.h"
#include "ox/encode.h"
#include "ox/session.h"

#define QUICK 100000 /* inputs */
#define SMALL 20000
#define SOAK 10000000

static const struct dmi_ox_limits limits = {
    .message = 20000, .stack = 50000, .queue = 1000, .depth = 30};

static uint64_t state;

static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * UINT64_C(0x2545f4914f6cdd1d) >> 7;
}

static void fail(const char *what, uint64_t seed) {
  fprintf(stderr, "ox_fuzz: %s: seed %" PRIu64 "\n", what, seed);
  exit(1);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static void put_any_value(struct dmi_ox_bytes *out, bool little, int depth) {
  static const uint32_t tags[] = {1, 2, 3, 4, 5, 17, 17, 20, 21, 22, 40, 41, 51, 0x7f000002};
  uint32_t tag = tags[any() % 14], num = (uint32_t)(any() % 5);
  if (depth > 6 && (tag == 17 || tag == 5 || tag == 0x7f000002)) tag = 1;
  dmi_ox_encode_word(out, little, tag);
  if (tag == 5 || tag == 0x7f000002) put_any_value(out, little, depth + 1);
  if (tag == 2) dmi_ox_encode_word(out, little, (uint32_t)any());
  if (tag == 40 || tag == 51) memset(dmi_ox_bytes_add(out, 8), (int)any(), 8);
  for (int part = 0; part < (tag == 20 ? 1 : tag == 21 ? 2 : 0); part++) {
    dmi_ox_encode_word(out, little, any() % 2 ? num : -num);
    for (uint32_t i = 0; i < num; i++)
      dmi_ox_encode_word(out, little, (uint32_t)any());
  }
  if (tag != 3 && tag != 4 && tag != 17 && tag != 41) return;
  dmi_ox_encode_word(out, little, num);
  if (tag == 41) memset(dmi_ox_bytes_add(out, 8 * (size_t)num), (int)any(), 8 * (size_t)num);
  if (tag == 3 || tag == 4) memcpy(dmi_ox_bytes_add(out, num), "ab1+2", num);
  for (uint32_t i = 0; tag == 17 && i < num; i++)
    put_any_value(out, little, depth + 1);
}

/* Texts that mean something to a session. */
static void put_text(struct dmi_ox_bytes *out, bool little) {
  static const char *const texts[] = {"1+2*3",
                                      "x=[1,2,\"a\"];x",
                                      "ox_recv_102(1)",
                                      "ox_send_102(1,[2])",
                                      "ox_get_rank_102",
                                      "[[[1/3]]]-",
                                      "ox_bcast_102",
                                      "f(1)",
                                      "+",
                                      "((((((1))))))",
                                      "2.5e3/0",
                                      "x=[x,x]"};
  const char *text = texts[any() % 12];
  dmi_ox_encode_word(out, little, 4);
  dmi_ox_encode_word(out, little, (uint32_t)strlen(text));
  dmi_ox_bytes_put(out, text, strlen(text));
}

static void put_message(struct dmi_ox_bytes *out, bool little) {
  static const uint32_t codes[] = {258, 262, 263, 264, 265, 266, 267, 268, 268,
                                   268, 269, 269, 270, 271, 273, 274, 275, 276,
                                   277, 278, 279, 280, 281, 282, 283, 300, 400};
  uint64_t kind = any() % 16;
  dmi_ox_encode_word(out, little, kind < 6 ? 513 : kind < 15 ? 514 : 515 + (uint32_t)(any() % 2));
  dmi_ox_encode_word(out, little, (uint32_t)any());
  if (kind < 6)
    dmi_ox_encode_word(out, little, any() % 50 ? codes[any() % 27] : (uint32_t)any() % 500);
  else if (kind < 9)
    put_text(out, little);
  else if (kind < 15)
    put_any_value(out, little, 0);
}

static void change(struct dmi_ox_bytes *out) {
  for (uint64_t changes = any() % 4; changes > 0 && out->len > 0; changes--) {
    size_t at = (size_t)(any() % out->len);
    switch (any() % 4) {
      case 0:
        out->at[at] ^= (unsigned char)(1u << any() % 8);
        break;
      case 1:
        out->at[at] = (unsigned char)any();
        break;
      case 2:
        out->len = at;
        break;
      default:
        at = at / 4 * 4;
        if (at + 4 <= out->len) memset(out->at + at, any() % 2 ? 0xff : 0x7f, 4);
        break;
    }
  }
}

static void make_input(struct dmi_ox_bytes *out, bool little) {
  static const uint32_t words[] = {0,   1,   2,          3,          4,          5,  17,  20,
                                   21,  22,  40,         41,         51,         60, 513, 514,
                                   515, 516, 0x7f000002, 0x7fffffff, UINT32_MAX, 7,  64,  262};
  uint64_t kind = any() % 8, num = 1 + any() % 40;
  out->len = 0;
  if (kind == 0) {
    while (num-- > 0)
      *dmi_ox_bytes_add(out, 1) = (unsigned char)any();
  } else if (kind == 1) {
    while (num-- > 0)
      dmi_ox_encode_word(out, little, words[any() % 24]);
  } else {
    for (num = 1 + num / 3; num > 0; num--)
      put_message(out, little);
    if (kind < 6) change(out);
  }
}

/* ---- What gets them -------------------------------------------------------------------------- */

static void check_value(const DMI_ox_value_t *value, bool little, uint64_t seed) {
  struct dmi_ox_bytes bytes = {0}, again = {0};
  struct dmi_ox_decoder d;
  struct dmi_ox_message message;
  bool done;
  if (value->size > limits.message || value->depth > limits.depth) fail("beyond limits", seed);
  dmi_ox_encode_data(&bytes, little, 1, value);
  dmi_ox_decoder_init(&d, &limits, little, false);
  if (dmi_ox_decode(&d, bytes.at, bytes.len, &message, &done) != bytes.len || !done ||
      message.tag != DMI_OX_DATA)
    fail("not decoded again", seed);
  dmi_ox_encode_data(&again, little, 1, message.value);
  if (again.len != bytes.len || memcmp(again.at, bytes.at, bytes.len) != 0)
    fail("not the same again", seed);
  free(DMI_ox_to_text(value));
  DMI_ox_drop(message.value);
  dmi_ox_decoder_free(&d);
  dmi_ox_bytes_free(&bytes);
  dmi_ox_bytes_free(&again);
}

static void to_decoder(const struct dmi_ox_bytes *bytes, bool little, uint64_t seed) {
  struct dmi_ox_decoder d;
  dmi_ox_decoder_init(&d, &limits, little, any() % 8 == 0);
  for (size_t at = 0; at < bytes->len;) {
    struct dmi_ox_message message;
    bool done;
    size_t len = 1 + (size_t)(any() % 64);
    if (len > bytes->len - at) len = bytes->len - at;
    size_t used = dmi_ox_decode(&d, bytes->at + at, len, &message, &done);
    if (used == 0 || used > len) fail("no progress", seed);
    at += used;
    if (d.num > (size_t)limits.depth || d.body_room > limits.message) fail("memory", seed);
    if (!done) continue;
    if ((message.tag == DMI_OX_FAULT) != (message.why != NULL)) fail("a fault", seed);
    if (message.value != NULL) check_value(message.value, little, seed);
    DMI_ox_drop(message.value);
  }
  dmi_ox_decoder_free(&d);
}

static bool known(const char *name) {
  return strcmp(name, "f") == 0;
}

/* Carries out what can be: links are there at once, calls return. */
static void carry(struct dmi_ox_session *s, uint32_t *link, uint64_t seed) {
  struct dmi_ox_action action;
  for (int most = 0; dmi_ox_session_next(s, &action); most++) {
    if (most > 100000) fail("no end of actions", seed);
    if (action.act == DMI_OX_SEND && any() % 8) dmi_ox_session_sent(s, action.id, action.bytes.len);
    if (action.act == DMI_OX_ACCEPT || action.act == DMI_OX_CONNECT) {
      *link = action.id;
      if (any() % 4)
        dmi_ox_session_linked(s, action.id);
      else
        dmi_ox_session_unlinked(s, action.id, "no");
    }
    if (action.act == DMI_OX_AGAIN) dmi_ox_session_again(s);
    if (action.act == DMI_OX_CALL && any() % 2)
      dmi_ox_session_returned(s, action.id, any() % 2 ? NULL : DMI_ox_from_int64(3));
    dmi_ox_action_free(&action);
  }
}

static void to_session(uint64_t seed) {
  struct dmi_ox_settings settings = {.limits = limits, .status = any() % 3};
  struct dmi_ox_session *s = dmi_ox_session_new(&settings, known);
  struct dmi_ox_bytes bytes = {0};
  unsigned char order = (unsigned char)(any() % 2);
  uint32_t link = 0;
  for (int round = 0; round < 20; round++) {
    uint32_t id = any() % 4 == 0 ? link : any() % 10 == 0 ? DMI_OX_CONTROL : DMI_OX_DATA_STREAM;
    if (round < 2) {
      dmi_ox_session_bytes(s, (uint32_t)round, &order, 1);
    } else if (id == DMI_OX_CONTROL) {
      static const int32_t codes[] = {1025, 1029, 1030};
      bytes.len = 0;
      dmi_ox_encode_command(&bytes, order, 0, codes[any() % 3]);
      dmi_ox_session_bytes(s, id, bytes.at, bytes.len);
    } else {
      make_input(&bytes, order);
      dmi_ox_session_bytes(s, id, bytes.at, bytes.len);
      if (any() % 30 == 0) dmi_ox_session_eof(s, id);
    }
    carry(s, &link, seed);
  }
  dmi_ox_bytes_free(&bytes);
  dmi_ox_session_free(s);
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE");
  uint64_t first = 1, count = scale == NULL ? QUICK : strcmp(scale, "soak") == 0 ? SOAK : SMALL;
  struct dmi_ox_bytes bytes = {0};
  if (argc > 1) {
    first = strtoull(argv[1], NULL, 10);
    count = 1;
  }
  for (uint64_t seed = first; seed < first + count; seed++) {
    state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 4; i++)
      any();
    if (seed % 8 == 0) {
      to_session(seed);
      continue;
    }
    bool little = any() % 2;
    make_input(&bytes, little);
    to_decoder(&bytes, little, seed);
  }
  dmi_ox_bytes_free(&bytes);
  printf("ox_fuzz: %" PRIu64 " inputs\n", count);
  return 0;
}
