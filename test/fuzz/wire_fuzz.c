/*
 * wire_fuzz.c - mutated headers, HELLOs and refusals against their decoders.
 *
 * What a decoder accepts must be within the limits of the table and turn into the same bytes again;
 * sanitizers watch the rest.  Fixed seeds: a failing one is printed and can be given as argument.
 * Built with -DDMI_LIBFUZZER -fsanitize=fuzzer it is a libFuzzer target instead.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "net/hello.h"
#include "net/proof.h"
#include "net/seal.h"
#include "msg/packed.h"
#include "msg/wire.h"

#define QUICK 1500000
#define SOAK 30000000

static void check(bool right, const char *what) {
  if (right) return;
  fprintf(stderr, "wire_fuzz: %s\n", what);
  abort();
}

static void check_header(const unsigned char *in, bool member) {
  struct dmi_msg msg;
  unsigned char again[DMI_WIRE_HEADER];
  if (dmi_wire_get(&msg, in, member) != NULL) return;
  const struct dmi_wire_type *row = dmi_wire_type(msg.type);
  check(row->name != NULL, "a number that is no message was accepted");
  check(msg.body.len <= row->body_max, "a body that is too long was accepted");
  check(msg.list.len <= row->list_max, "a list that is too long was accepted");
  check(msg.list.len == 0 || msg.list.len % row->list_size == 0, "half an element was accepted");
  check(member || row->from == DMI_WIRE_ANYBODY, "a stranger said what only a member may");
  check(!msg.zero && !(msg.flags & row->zero[0] >> 16), "unused bits were accepted");
  check(msg.list.ptr == NULL && msg.body.ptr == NULL, "bytes come from nowhere");
  check(dmi_packed_behind(in) == 0 || row->class == DMI_CLASS_PAGE, "a stranger packs messages");
  check(dmi_packed_behind(in) <= DMI_PACKED_MOST, "too much is packed");
  dmi_wire_put(again, &msg);
  dmi_packed_set_behind(again, dmi_packed_behind(in));
  check(memcmp(in, again, sizeof again) == 0, "a header has two readings");
}

/* A packed header, behind that of another part of the bytes. */
static void check_packed(const unsigned char *in) {
  struct dmi_packed_before before, next;
  struct dmi_msg msg = {0};
  unsigned char again[DMI_PACKED_HEADER];
  const char *wrong;
  if (dmi_wire_get(&msg, in, true) == NULL)
    dmi_packed_begin(&before, &msg);
  else
    memcpy(&before, in, sizeof before);
  next = before;
  const size_t size =
      dmi_packed_get(&msg, in + DMI_WIRE_HEADER, DMI_PACKED_HEADER, &before, &wrong);
  if (size == 0) return;
  const struct dmi_wire_type *row = dmi_wire_type(msg.type);
  check(wrong == NULL && size <= DMI_PACKED_HEADER, "a packed header is wrong and right");
  check(row->class == DMI_CLASS_PAGE, "a message was packed that must not be");
  check(msg.body.len <= row->body_max && msg.list.len <= row->list_max, "it is too long");
  check(dmi_packed_put(again, &msg, &next) == size, "a packed header has another size");
  check(memcmp(in + DMI_WIRE_HEADER, again, size) == 0, "a packed header has two readings");
}

static void check_text(const char *text, size_t size) {
  const char *end = memchr(text, '\0', size);
  check(end != NULL, "a text has no end");
  for (; text < end; text++)
    check(*text >= ' ' && *text <= '~', "a text can steer a terminal");
}

static void check_hello(const unsigned char *in) {
  struct dmi_hello hello, mine = {.kind = DMI_HELLO_OK, .version = DMI_WIRE_VERSION};
  char why[DMI_REFUSE_TEXT];
  for (size_t have = 1; have <= DMI_HELLO_FIRST; have++)
    dmi_hello_size(in, have);
  if (!dmi_hello_get(&hello, in)) return;
  check_text(hello.name, sizeof hello.name);
  check(hello.uid < 0x80000000u, "a uid is a temporary id");
  if (!dmi_hello_match(&mine, &hello, "there", why)) check_text(why, sizeof why);
}

/* Nobody makes a CALL, an ANSWER or a record without the key. */
static void check_secrets(const unsigned char *in) {
  static const uint8_t key[DMI_KEY_BYTES] = "key";
  unsigned char out[DMI_REFUSE_BYTES];
  struct dmi_proof proof = {0};
  check(!dmi_proof_called(&proof, key, in), "a CALL was made without the key");
  check(!dmi_proof_answered(&proof, key, in), "an ANSWER was made without the key");
  if (dmi_seal_size(in) + DMI_SEAL_OVER > DMI_REFUSE_BYTES) return;
  check(!dmi_seal_get_first(key, out, in), "a record was sealed without the key");
}

/* All decoders on DMI_REFUSE_BYTES bytes. */
static void one(const unsigned char *in) {
  char why[DMI_REFUSE_TEXT];
  check_header(in, true);
  check_header(in, false);
  check_packed(in);
  check_hello(in);
  check_secrets(in);
  dmi_refuse_get(why, in);
  check_text(why, sizeof why);
}

#ifdef DMI_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  unsigned char in[DMI_REFUSE_BYTES] = {0};
  memcpy(in, data, size < sizeof in ? size : sizeof in);
  one(in);
  return 0;
}

#else

static uint64_t state;

static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * UINT64_C(0x2545f4914f6cdd1d) >> 7;
}

/* Another message packed behind this one. */
static void valid_packed(unsigned char *in, const struct dmi_msg *before) {
  struct dmi_packed_before words;
  struct dmi_msg msg = *before;
  if (any() % 2) dmi_packed_set_behind(in, (uint32_t)(any() % (DMI_PACKED_MOST + 2)));
  dmi_packed_begin(&words, before);
  msg.type = any() % 4 ? msg.type : (uint8_t)(any() % 24);
  msg.page += any() % 9 - 4;
  msg.word[any() % 4] += any() % 3;
  msg.body.len = any() % 2 ? msg.body.len : any() % 600;
  (void)dmi_packed_put(in + DMI_WIRE_HEADER, &msg, &words);
}

/* Something valid to begin with, so that the checks behind the first one are met. */
static void valid(unsigned char *in) {
  memset(in, 0, DMI_REFUSE_BYTES);
  uint64_t kind = any() % 4;
  if (kind == 0) {
    struct dmi_hello hello = {.kind = (uint8_t)(DMI_HELLO_HELLO + any() % 2),
                              .version = DMI_WIRE_VERSION};
    hello.uid = (uint32_t)any() & 0xff;
    snprintf(hello.name, sizeof hello.name, "name");
    dmi_hello_put(in, &hello);
  } else if (kind == 1) {
    dmi_refuse_put(in, "some reason");
  } else {
    struct dmi_msg msg = {.type = (uint8_t)(any() % 130), .word = {any()}};
    const struct dmi_wire_type *row = dmi_wire_type(msg.type);
    msg.word[0] &= ~row->zero[3];
    if (row->list_size != 0) {
      msg.list.len = any() % 3 == 0 ? row->list_max : any() % 9 * row->list_size;
    }
    msg.body.len = any() % 3 == 0 ? row->body_max : any() % (row->body_max + 1);
    dmi_wire_put(in, &msg);
    valid_packed(in, &msg);
  }
}

static void mutate(unsigned char *in) {
  static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, 8, 16, 24, 31, 32};
  uint64_t changes = any() % 6;
  size_t span = any() % 2 ? DMI_WIRE_HEADER : DMI_REFUSE_BYTES;
  while (changes-- > 0) {
    size_t at = any() % span;
    switch (any() % 4) {
      case 0:
        in[at] ^= (unsigned char)(1u << any() % 8);
        break;
      case 1:
        in[at] = (unsigned char)any();
        break;
      case 2:
        in[at] = edges[any() % sizeof edges];
        break;
      default:
        at = at / 8 * 8;
        memset(in + at, edges[any() % sizeof edges], 8);
    }
  }
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE");
  uint64_t count = scale != NULL && strcmp(scale, "soak") == 0 ? SOAK : QUICK;
  uint64_t first = 1;
  unsigned char in[DMI_REFUSE_BYTES];
  if (argc > 1) {
    first = strtoull(argv[1], NULL, 10);
    count = 1;
  }
  for (uint64_t seed = first; seed < first + count; seed++) {
    state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (seed % 8 == 0) {
      for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)any();
    } else {
      valid(in);
      mutate(in);
    }
    one(in);
  }
  printf("wire_fuzz: %" PRIu64 " inputs\n", count);
  return 0;
}

#endif
