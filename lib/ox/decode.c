/*
 * decode.c - see decode.h.
 */
#include "ox/decode.h"

#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"
#include "ox/number.h"

void dmi_ox_decoder_init(struct dmi_ox_decoder *d, const struct dmi_ox_limits *limits, bool little,
                         bool control) {
  *d = (struct dmi_ox_decoder){.limits = limits, .little = little, .control = control};
}

/* Everything of a message that is not complete. */
static void forget(struct dmi_ox_decoder *d) {
  while (d->num > 0) {
    struct dmi_ox_frame *frame = &d->frames[--d->num];
    for (size_t i = 0; i < frame->num; i++)
      DMI_ox_drop(frame->at[i]);
    free(frame->at);
  }
  if (d->second && !d->skips) mpz_clear(d->numerator);
  d->second = false;
  free(d->body);
  d->body = NULL;
  d->body_room = 0;
}

void dmi_ox_decoder_free(struct dmi_ox_decoder *d) {
  forget(d);
  free(d->frames);
  d->frames = NULL;
}

static uint32_t word_in(const struct dmi_ox_decoder *d, const unsigned char *w) {
  return d->little ? (uint32_t)w[3] << 24 | (uint32_t)w[2] << 16 | (uint32_t)w[1] << 8 | w[0]
                   : (uint32_t)w[0] << 24 | (uint32_t)w[1] << 16 | (uint32_t)w[2] << 8 | w[3];
}

static uint32_t word_at(const struct dmi_ox_decoder *d, int at) {
  return word_in(d, d->word + at);
}

static double double_at(const struct dmi_ox_decoder *d, const unsigned char *at) {
  uint64_t bits = 0;
  double number;
  for (int i = 0; i < 8; i++)
    bits |= (uint64_t)at[i] << 8 * (d->little ? i : 7 - i);
  memcpy(&number, &bits, 8);
  return number;
}

static void go_to(struct dmi_ox_decoder *d, enum dmi_ox_decoding state) {
  d->state = state;
  d->have = 0;
}

/* The message is complete; the next one begins. */
static bool complete(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  *message = d->message;
  d->message = (struct dmi_ox_message){0};
  d->skips = false;
  d->used = 0;
  go_to(d, DMI_OX_AT_HEAD);
  return true;
}

/* What came has no end that could be known. */
static bool fault(struct dmi_ox_decoder *d, enum dmi_ox_code code, const char *why,
                  struct dmi_ox_message *message) {
  forget(d);
  if (!d->skips) { /* else the first fault is the one to report */
    d->message.tag = DMI_OX_FAULT;
    d->message.code = (int32_t)code;
    d->message.why = why;
  }
  complete(d, message);
  go_to(d, DMI_OX_AT_SEARCH);
  return true;
}

/* From here to its end nothing of the message is kept. */
static void skip(struct dmi_ox_decoder *d, enum dmi_ox_code code, const char *why) {
  if (d->skips) return;
  d->left = 1;
  for (size_t i = 0; i < d->num; i++)
    d->left += (uint64_t)d->frames[i].left - 1;
  bool second = d->second;
  forget(d);
  d->second = second; /* which part of a rational comes next */
  d->skips = true;
  d->message.tag = DMI_OX_FAULT;
  d->message.code = (int32_t)code;
  d->message.why = why;
}

static void charge(struct dmi_ox_decoder *d, uint64_t bytes) {
  d->used += bytes;
  if (d->used > d->limits->message) skip(d, DMI_OX_E_LIMIT, "the message is too large");
}

/* An item is complete: of a list that is complete with it the same, and so on. */
static bool item_done(struct dmi_ox_decoder *d, struct dmi_ox_value *value,
                      struct dmi_ox_message *message) {
  go_to(d, DMI_OX_AT_ITEM);
  if (d->skips) {
    DMI_ox_drop(value);
    return --d->left == 0 && complete(d, message);
  }
  while (d->num > 0) {
    struct dmi_ox_frame *frame = &d->frames[d->num - 1];
    frame->at = dmi_ox_grow(frame->at, frame->num, &frame->room, sizeof frame->at[0]);
    frame->at[frame->num++] = value;
    if (--frame->left > 0) return false;
    value = dmi_ox_value_items(frame->tag, frame->at, (int32_t)frame->num);
    d->num--;
  }
  d->message.value = value;
  return complete(d, message);
}

/* ---- Items ----------------------------------------------------------------------------------- */

static bool begin_list(struct dmi_ox_decoder *d, int32_t tag, int32_t num,
                       struct dmi_ox_message *message) {
  charge(d, (uint64_t)num * sizeof(struct dmi_ox_value *));
  if (d->num >= (size_t)d->limits->depth) skip(d, DMI_OX_E_LIMIT, "lists are nested too deep");
  if (d->skips) {
    d->left += (uint64_t)num;
    return item_done(d, NULL, message);
  }
  if (num == 0) return item_done(d, dmi_ox_value_items(tag, NULL, 0), message);
  d->frames = dmi_ox_grow(d->frames, d->num, &d->room, sizeof d->frames[0]);
  d->frames[d->num++] = (struct dmi_ox_frame){.tag = tag, .left = num};
  go_to(d, DMI_OX_AT_ITEM);
  return false;
}

static bool is_type(int32_t tag) {
  return tag == DMI_OX_NULL || tag == DMI_OX_ZERO || tag == DMI_OX_INT32 || tag == DMI_OX_DOUBLE ||
         tag == DMI_OX_DOUBLE_64 || tag == DMI_OX_BYTES || tag == DMI_OX_STRING ||
         tag == DMI_OX_LIST || tag == DMI_OX_INTEGER || tag == DMI_OX_RATIONAL ||
         tag == DMI_OX_DOUBLES || tag == DMI_OX_MATHCAP || tag == DMI_OX_ERROR;
}

static bool begin_item(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  d->item = (int32_t)word_at(d, 0);
  charge(d, DMI_OX_VALUE_BYTES);
  d->second = false;
  switch (d->item) {
    case DMI_OX_NULL:
    case DMI_OX_ZERO:
      return item_done(d, d->skips ? NULL : dmi_ox_value_new(d->item), message);
    case DMI_OX_INT32:
      go_to(d, DMI_OX_AT_INT32);
      return false;
    case DMI_OX_DOUBLE:
    case DMI_OX_DOUBLE_64:
      go_to(d, DMI_OX_AT_DOUBLE);
      return false;
    case DMI_OX_BYTES:
    case DMI_OX_STRING:
    case DMI_OX_LIST:
    case DMI_OX_INTEGER:
    case DMI_OX_RATIONAL:
    case DMI_OX_DOUBLES:
      go_to(d, DMI_OX_AT_LENGTH);
      return false;
    case DMI_OX_MATHCAP:
    case DMI_OX_ERROR:
      return begin_list(d, d->item, 1, message);
    default:
      return fault(d, DMI_OX_E_TYPE, "the type of an object is not known", message);
  }
}

static struct dmi_ox_value *body_doubles(struct dmi_ox_decoder *d) {
  double *numbers = dmi_ox_alloc((size_t)d->body_len);
  for (int32_t i = 0; i < d->length; i++)
    numbers[i] = double_at(d, d->body + 8 * (size_t)i);
  return dmi_ox_value_doubles(numbers, d->length);
}

/* A rational whose first part seems to have 20 words, which may be the type of that part. */
static bool maybe_tagged(const struct dmi_ox_decoder *d) {
  return d->item == DMI_OX_RATIONAL && !d->second && d->length == DMI_OX_INTEGER;
}

/* If it is the type: bytes up to the type of the second part, with it. */
static uint64_t tagged_bytes(const struct dmi_ox_decoder *d) {
  int64_t length = (int32_t)word_in(d, d->body);
  return 4 * ((uint64_t)(length < 0 ? -length : length) + 2);
}

/* How many bytes of the body can be read before it has to be looked at. */
static uint64_t body_stop(const struct dmi_ox_decoder *d) {
  if (!maybe_tagged(d)) return d->body_len;
  if (d->body_have < 4) return 4;
  uint64_t bytes = tagged_bytes(d);
  return bytes > d->body_have && bytes <= d->body_len ? bytes : d->body_len;
}

/* The body of an integer, or of a part of a rational. */
static void body_integer(struct dmi_ox_decoder *d, mpz_t number) {
  mpz_init(number);
  if (d->body_len > 0)
    mpz_import(number, (size_t)d->body_len / 4, -1, 4, d->little ? -1 : 1, 0, d->body);
  if (d->length < 0) mpz_neg(number, number);
}

/* A rational's first part is followed by the length of the second one. */
static bool rational_part(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  mpq_t number;
  if (!d->second) {
    if (!d->skips) body_integer(d, d->numerator);
    d->second = true;
    go_to(d, DMI_OX_AT_LENGTH);
    return false;
  }
  if (d->skips) {
    d->second = false;
    return item_done(d, NULL, message);
  }
  mpz_t denominator;
  body_integer(d, denominator);
  if (mpz_sgn(denominator) == 0) {
    mpz_clear(denominator);
    skip(d, DMI_OX_E_MALFORMED, "a rational has the denominator 0");
    d->second = false;
    return item_done(d, NULL, message);
  }
  mpq_numref(number)[0] = d->numerator[0];
  mpq_denref(number)[0] = denominator[0];
  d->second = false;
  mpq_canonicalize(number);
  return item_done(d, dmi_ox_value_qq(number), message);
}

static bool end_body(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  struct dmi_ox_value *value = NULL;
  mpz_t number;
  bool done;
  if (d->item == DMI_OX_RATIONAL) {
    done = rational_part(d, message);
  } else {
    if (!d->skips && (d->item == DMI_OX_STRING || d->item == DMI_OX_BYTES)) {
      char *at = dmi_ox_realloc(d->body, (size_t)d->body_len + 1);
      d->body = NULL;
      value = dmi_ox_value_bytes(d->item, at, d->length);
    } else if (!d->skips && d->item == DMI_OX_DOUBLES) {
      value = body_doubles(d);
    } else if (!d->skips) {
      body_integer(d, number);
      value = dmi_ox_value_zz(number);
    }
    done = item_done(d, value, message);
  }
  free(d->body);
  d->body = NULL;
  d->body_room = 0;
  return done;
}

/* When both types are there, the first part is complete. */
static void look_at_body(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  if (!maybe_tagged(d) || d->body_have <= 4 || d->body_have != tagged_bytes(d) ||
      word_in(d, d->body + d->body_have - 4) != DMI_OX_INTEGER)
    return;
  d->length = (int32_t)word_in(d, d->body);
  d->body_len = d->body_have - 8;
  memmove(d->body, d->body + 4, (size_t)d->body_len);
  (void)end_body(d, message); /* the length of the second one comes next */
}

static bool begin_body(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  d->length = (int32_t)word_at(d, 0);
  bool number = d->item == DMI_OX_INTEGER || d->item == DMI_OX_RATIONAL;
  if (d->length < 0 && !number)
    return fault(d, DMI_OX_E_MALFORMED, "a length is negative", message);
  uint64_t length = d->length < 0 ? (uint64_t) - (int64_t)d->length : (uint64_t)d->length;
  if (d->item == DMI_OX_LIST) return begin_list(d, DMI_OX_LIST, d->length, message);
  d->body_len = number ? 4 * length : d->item == DMI_OX_DOUBLES ? 8 * length : length;
  d->body_have = 0;
  charge(d, d->body_len);
  length = d->second && !d->skips ? mpz_size(d->numerator) * sizeof(mp_limb_t) : 0;
  if (d->item == DMI_OX_RATIONAL && d->body_len + length > DMI_OX_RATIONAL_BYTES)
    skip(d, DMI_OX_E_LIMIT, DMI_OX_RATIONAL_LARGE);
  go_to(d, DMI_OX_AT_BODY);
  return d->body_len == 0 && end_body(d, message);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* The words that a state waits for are there. */
static bool step(struct dmi_ox_decoder *d, struct dmi_ox_message *message) {
  switch (d->state) {
    case DMI_OX_AT_HEAD:
      d->message.tag = (int32_t)word_at(d, 0);
      d->message.serial = word_at(d, 4);
      if (d->message.tag == DMI_OX_COMMAND)
        go_to(d, DMI_OX_AT_CODE);
      else if (d->message.tag == DMI_OX_DATA)
        go_to(d, DMI_OX_AT_ITEM);
      else if (d->message.tag == DMI_OX_SYNC_BALL || d->message.tag == DMI_OX_NOTIFY)
        return complete(d, message);
      else
        return fault(d, DMI_OX_E_MALFORMED, "what came is no message", message);
      return false;
    case DMI_OX_AT_CODE:
      d->message.code = (int32_t)word_at(d, 0);
      return complete(d, message);
    case DMI_OX_AT_ITEM:
      return begin_item(d, message);
    case DMI_OX_AT_INT32:
      return item_done(d, d->skips ? NULL : dmi_ox_value_int32((int32_t)word_at(d, 0)), message);
    case DMI_OX_AT_DOUBLE: {
      struct dmi_ox_value *value = NULL;
      if (!d->skips) {
        value = dmi_ox_value_new(d->item);
        value->number = double_at(d, d->word);
      }
      return item_done(d, value, message);
    }
    default: /* LENGTH */
      return begin_body(d, message);
  }
}

static uint32_t needed(const struct dmi_ox_decoder *d) {
  return d->state == DMI_OX_AT_HEAD || d->state == DMI_OX_AT_DOUBLE ? 8 : 4;
}

/* One more byte behind the last twelve: do they end with a message without doubt? */
static bool search(struct dmi_ox_decoder *d, unsigned char byte, struct dmi_ox_message *message) {
  if (d->have == sizeof d->word) {
    memmove(d->word, d->word + 1, sizeof d->word - 1);
    d->have--;
  }
  d->word[d->have++] = byte;
  if (d->have >= 8 && word_at(d, (int)d->have - 8) == DMI_OX_SYNC_BALL) {
    d->message.tag = DMI_OX_SYNC_BALL;
    d->message.serial = word_at(d, (int)d->have - 4);
    return complete(d, message);
  }
  if (d->have == 12 && word_at(d, 0) == DMI_OX_DATA && is_type((int32_t)word_at(d, 8))) {
    d->message.tag = DMI_OX_DATA;
    d->message.serial = word_at(d, 4);
    memmove(d->word, d->word + 8, 4); /* where begin_item looks for the type */
    return begin_item(d, message);
  }
  if (d->have == 12 && word_at(d, 0) == DMI_OX_COMMAND &&
      dmi_ox_command_known((int32_t)word_at(d, 8), d->control)) {
    d->message.tag = DMI_OX_COMMAND;
    d->message.serial = word_at(d, 4);
    d->message.code = (int32_t)word_at(d, 8);
    return complete(d, message);
  }
  return false;
}

/* Returns how many bytes of the body it has taken. */
static size_t take_body(struct dmi_ox_decoder *d, const unsigned char *at, size_t len) {
  if (len > body_stop(d) - d->body_have) len = (size_t)(body_stop(d) - d->body_have);
  if (!d->skips || maybe_tagged(d)) {
    if (d->body_room - d->body_have < len) {
      uint64_t room = 2 * (uint64_t)d->body_room;
      if (room < d->body_have + len) room = d->body_have + len;
      if (room > d->body_len) room = d->body_len;
      d->body = dmi_ox_realloc(d->body, (size_t)room);
      d->body_room = (size_t)room;
    }
    memcpy(d->body + d->body_have, at, len);
  }
  d->body_have += len;
  return len;
}

size_t dmi_ox_decode(struct dmi_ox_decoder *d, const unsigned char *at, size_t len,
                     struct dmi_ox_message *message, bool *done) {
  size_t used = 0;
  *done = false;
  while (!*done && used < len) {
    if (d->state == DMI_OX_AT_SEARCH) {
      *done = search(d, at[used++], message);
    } else if (d->state == DMI_OX_AT_BODY) {
      used += take_body(d, at + used, len - used);
      look_at_body(d, message);
      if (d->state == DMI_OX_AT_BODY && d->body_have == d->body_len) *done = end_body(d, message);
    } else {
      d->word[d->have++] = at[used++];
      if (d->have == needed(d)) *done = step(d, message);
    }
  }
  return used;
}
