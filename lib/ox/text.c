/*
 * text.c - values as texts: see DMI_ox_to_text.
 */
#include "ox/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"

static void put(struct dmi_ox_bytes *out, const char *text) {
  dmi_ox_bytes_put(out, text, strlen(text));
}

static void put_quoted(struct dmi_ox_bytes *out, const char *at, int32_t len) {
  put(out, "\"");
  for (int32_t i = 0; i < len; i++) {
    if (at[i] == '"' || at[i] == '\\') put(out, "\\");
    if (at[i] == '\n')
      put(out, "\\n");
    else
      dmi_ox_bytes_put(out, at + i, 1);
  }
  put(out, "\"");
}

/* The fewest digits that give the same number again; always seen to be a double. */
static void put_double(struct dmi_ox_bytes *out, double number) {
  char text[64];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  put(out, text);
  if (strspn(text, "-0123456789") == strlen(text)) put(out, ".0");
}

static void put_integer(struct dmi_ox_bytes *out, const mpz_t number) {
  size_t before = out->len, most = mpz_sizeinbase(number, 10) + 2;
  char *at = (char *)dmi_ox_bytes_add(out, most);
  mpz_get_str(at, 10, number);
  out->len = before + strlen(at);
}

static void put_value(struct dmi_ox_bytes *out, const struct dmi_ox_value *value, bool inside);

static void put_items(struct dmi_ox_bytes *out, const struct dmi_ox_value *value) {
  for (int32_t i = 0; i < value->list.num; i++) {
    if (i > 0) put(out, ",");
    put_value(out, value->list.at[i], true);
  }
}

static void put_doubles(struct dmi_ox_bytes *out, const struct dmi_ox_value *value) {
  put(out, "[");
  for (int32_t i = 0; i < value->doubles.num; i++) {
    if (i > 0) put(out, ",");
    put_double(out, value->doubles.at[i]);
  }
  put(out, "]");
}

static void put_value(struct dmi_ox_bytes *out, const struct dmi_ox_value *value, bool inside) {
  char text[16];
  switch (value->tag) {
    case DMI_OX_INT32:
      snprintf(text, sizeof text, "%d", value->int32);
      put(out, text);
      break;
    case DMI_OX_STRING:
    case DMI_OX_BYTES:
      if (inside)
        put_quoted(out, value->bytes.at, value->bytes.len);
      else
        dmi_ox_bytes_put(out, value->bytes.at, (size_t)value->bytes.len);
      break;
    case DMI_OX_INTEGER:
      put_integer(out, value->integer);
      break;
    case DMI_OX_RATIONAL:
      put_integer(out, mpq_numref(value->rational));
      put(out, "/");
      put_integer(out, mpq_denref(value->rational));
      break;
    case DMI_OX_DOUBLE:
    case DMI_OX_DOUBLE_64:
      put_double(out, value->number);
      break;
    case DMI_OX_DOUBLES:
      put_doubles(out, value);
      break;
    case DMI_OX_LIST:
      put(out, "[");
      put_items(out, value);
      put(out, "]");
      break;
    case DMI_OX_MATHCAP:
    case DMI_OX_ERROR:
      put(out, value->tag == DMI_OX_ERROR ? "error(" : "mathcap(");
      put_items(out, value);
      put(out, ")");
      break;
    default: /* NULL, ZERO */
      put(out, "0");
      break;
  }
}

char *DMI_ox_to_text(const DMI_ox_value_t *value) {
  struct dmi_ox_bytes out = {0};
  put_value(&out, value, false);
  *dmi_ox_bytes_add(&out, 1) = '\0';
  return (char *)out.at;
}
