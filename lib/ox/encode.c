/*
 * encode.c - see encode.h.
 */
#include "ox/encode.h"

#include <string.h>

#include "ox/wire.h"

void dmi_ox_encode_word(struct dmi_ox_bytes *out, bool little, uint32_t word) {
  unsigned char *at = dmi_ox_bytes_add(out, 4);
  for (int i = 0; i < 4; i++)
    at[i] = (unsigned char)(word >> 8 * (little ? i : 3 - i));
}

static void put_double(struct dmi_ox_bytes *out, bool little, double number) {
  uint64_t bits;
  unsigned char *at = dmi_ox_bytes_add(out, 8);
  memcpy(&bits, &number, 8);
  for (int i = 0; i < 8; i++)
    at[i] = (unsigned char)(bits >> 8 * (little ? i : 7 - i));
}

/* The number of words with the sign of the number, then the words, least significant first. */
static void put_integer(struct dmi_ox_bytes *out, bool little, const mpz_t number) {
  int sign = mpz_sgn(number);
  size_t words = sign != 0 ? (mpz_sizeinbase(number, 2) + 31) / 32 : 0;
  dmi_ox_encode_word(out, little, sign < 0 ? -(uint32_t)words : (uint32_t)words);
  if (words == 0) return;
  unsigned char *at = dmi_ox_bytes_add(out, 4 * words);
  mpz_export(at, NULL, -1, 4, little ? -1 : 1, 0, number);
}

static uint32_t word_of(const mpz_t number, size_t at) {
  uint32_t word = 0;
  mpz_t part;
  mpz_init(part);
  mpz_tdiv_q_2exp(part, number, 32 * at);
  mpz_tdiv_r_2exp(part, part, 32);
  word = (uint32_t)mpz_get_ui(part);
  mpz_clear(part);
  return word;
}

/* The first part of a rational.  If it looked like one with a type (decode.h) it has a word 0 more.
 */
static void put_numerator(struct dmi_ox_bytes *out, bool little, const mpz_t number) {
  size_t at = out->len, words = (mpz_sizeinbase(number, 2) + 31) / 32;
  put_integer(out, little, number);
  if (words != DMI_OX_INTEGER) return;
  int64_t length = (int32_t)word_of(number, 0);
  uint64_t second = (uint64_t)(length < 0 ? -length : length) + 1;
  if (second >= words || word_of(number, second) != DMI_OX_INTEGER) return;
  dmi_ox_encode_word(out, little, 0);
  struct dmi_ox_bytes longer = {0};
  dmi_ox_encode_word(&longer, little,
                     mpz_sgn(number) < 0 ? -(uint32_t)(words + 1) : (uint32_t)(words + 1));
  memcpy(out->at + at, longer.at, 4);
  dmi_ox_bytes_free(&longer);
}

/* An INT32 as ZZ, 0 as NULL. */
static void put_peer_int32(struct dmi_ox_bytes *out, bool little, int32_t number) {
  dmi_ox_encode_word(out, little, number == 0 ? DMI_OX_NULL : DMI_OX_INTEGER);
  if (number == 0) return;
  dmi_ox_encode_word(out, little, number < 0 ? UINT32_MAX : 1);
  dmi_ox_encode_word(out, little, number < 0 ? -(uint32_t)number : (uint32_t)number);
}

/* The first `kept` items of a list, and with `kept` INT32_MAX those of lists in it, keep INT32. */
static void put_peer_value(struct dmi_ox_bytes *out, bool little, bool doubles_64,
                           const struct dmi_ox_value *value, int32_t kept) {
  switch (value->tag) {
    case DMI_OX_INT32:
      put_peer_int32(out, little, value->int32);
      break;
    case DMI_OX_DOUBLE_64:
      dmi_ox_encode_word(out, little, doubles_64 ? DMI_OX_DOUBLE_64 : DMI_OX_DOUBLE);
      put_double(out, little, value->number);
      break;
    case DMI_OX_LIST:
    case DMI_OX_MATHCAP:
    case DMI_OX_ERROR:
      dmi_ox_encode_word(out, little, (uint32_t)value->tag);
      if (value->tag == DMI_OX_LIST)
        dmi_ox_encode_word(out, little, (uint32_t)value->list.num);
      else /* of an error: serial and code; of a mathcap: everything */
        kept = value->tag == DMI_OX_ERROR ? 2 : INT32_MAX;
      for (int32_t i = 0; i < value->list.num; i++) {
        const struct dmi_ox_value *item = value->list.at[i];
        bool inner = value->tag != DMI_OX_LIST || kept == INT32_MAX;
        if (value->tag == DMI_OX_LIST && i < kept && item->tag == DMI_OX_INT32)
          dmi_ox_encode_value(out, little, item);
        else
          put_peer_value(out, little, doubles_64, item, inner ? kept : 0);
      }
      break;
    default:
      dmi_ox_encode_value(out, little, value);
      break;
  }
}

void dmi_ox_encode_peer_value(struct dmi_ox_bytes *out, bool little, bool doubles_64,
                              const struct dmi_ox_value *value) {
  put_peer_value(out, little, doubles_64, value, 0);
}

void dmi_ox_encode_value(struct dmi_ox_bytes *out, bool little, const struct dmi_ox_value *value) {
  dmi_ox_encode_word(out, little, (uint32_t)value->tag);
  switch (value->tag) {
    case DMI_OX_INT32:
      dmi_ox_encode_word(out, little, (uint32_t)value->int32);
      break;
    case DMI_OX_STRING:
    case DMI_OX_BYTES:
      dmi_ox_encode_word(out, little, (uint32_t)value->bytes.len);
      dmi_ox_bytes_put(out, value->bytes.at, (size_t)value->bytes.len);
      break;
    case DMI_OX_INTEGER:
      put_integer(out, little, value->integer);
      break;
    case DMI_OX_RATIONAL:
      put_numerator(out, little, mpq_numref(value->rational));
      put_integer(out, little, mpq_denref(value->rational));
      break;
    case DMI_OX_DOUBLE:
    case DMI_OX_DOUBLE_64:
      put_double(out, little, value->number);
      break;
    case DMI_OX_DOUBLES:
      dmi_ox_encode_word(out, little, (uint32_t)value->doubles.num);
      for (int32_t i = 0; i < value->doubles.num; i++)
        put_double(out, little, value->doubles.at[i]);
      break;
    case DMI_OX_LIST:
      dmi_ox_encode_word(out, little, (uint32_t)value->list.num);
      /* fall through */
    case DMI_OX_MATHCAP:
    case DMI_OX_ERROR:
      for (int32_t i = 0; i < value->list.num; i++)
        dmi_ox_encode_value(out, little, value->list.at[i]);
      break;
    default: /* NULL, ZERO: the tag is all */
      break;
  }
}

void dmi_ox_encode_data(struct dmi_ox_bytes *out, bool little, uint32_t serial,
                        const struct dmi_ox_value *value) {
  dmi_ox_encode_word(out, little, DMI_OX_DATA);
  dmi_ox_encode_word(out, little, serial);
  dmi_ox_encode_value(out, little, value);
}

void dmi_ox_encode_command(struct dmi_ox_bytes *out, bool little, uint32_t serial, int32_t code) {
  dmi_ox_encode_word(out, little, DMI_OX_COMMAND);
  dmi_ox_encode_word(out, little, serial);
  dmi_ox_encode_word(out, little, (uint32_t)code);
}

void dmi_ox_encode_ball(struct dmi_ox_bytes *out, bool little, uint32_t serial) {
  dmi_ox_encode_word(out, little, DMI_OX_SYNC_BALL);
  dmi_ox_encode_word(out, little, serial);
}
