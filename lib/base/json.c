/*
 * json.c - see json.h.
 */
#include "base/json.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void dmi_json_put(struct dmi_json *to, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(to->text + to->at, to->most - to->at, format, args);
  va_end(args);
  if (length > 0) to->at += (size_t)length;
  if (to->at > to->most) to->at = to->most;
}

void dmi_json_raw(struct dmi_json *to, const char *bytes, size_t length) {
  if (length > to->most - to->at) length = to->most - to->at;
  memcpy(to->text + to->at, bytes, length);
  to->at += length;
}

static void digits(struct dmi_json *to, uint64_t number, unsigned base) {
  char text[20];
  size_t at = sizeof(text);
  do {
    text[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number);
  dmi_json_raw(to, text + at, sizeof(text) - at);
}

void dmi_json_number(struct dmi_json *to, uint64_t number) {
  digits(to, number, 10);
}

void dmi_json_hex(struct dmi_json *to, uint64_t number) {
  digits(to, number, 16);
}

/* The length of the UTF-8 character here; 0: invalid. */
static size_t character(const unsigned char *at) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : 4;
  uint32_t code = at[0] & (0x7fu >> length);
  if (length == 1) return 1;
  if (length == 4 && at[0] >> 3 != 30) return 0;
  for (size_t i = 1; i < length; i++) {
    if (at[i] >> 6 != 2) return 0; /* also ends at the final 0 */
    code = code << 6 | (at[i] & 0x3fu);
  }
  if (code < least[length] || code > 0x10ffff || code >> 11 == 0x1b) return 0;
  return length;
}

/* How many bytes stand for themselves. */
static size_t plain(const unsigned char *at, size_t most) {
  size_t length = 0;
  while (length < most && at[length] >= ' ' && at[length] < 0x7f && at[length] != '"' &&
         at[length] != '\\')
    length++;
  return length;
}

void dmi_json_text(struct dmi_json *to, const char *text) {
  const unsigned char *from = (const unsigned char *)(text ? text : "");
  size_t most = to->at + DMI_JSON_TEXT - 8;
  dmi_json_raw(to, "\"", 1);
  while (*from && to->at < most) {
    size_t length = plain(from, most - to->at);
    if (length) {
      dmi_json_raw(to, (const char *)from, length);
      from += length;
      continue;
    }
    length = character(from);
    if (*from < ' ' || *from == '"' || *from == '\\' || *from == 0x7f) {
      dmi_json_put(to, "\\u%04x", *from);
    } else if (length == 0) {
      dmi_json_put(to, "\\ufffd");
    } else {
      dmi_json_put(to, "%.*s", (int)length, (const char *)from);
    }
    from += length ? length : 1;
  }
  dmi_json_raw(to, "\"", 1);
}
