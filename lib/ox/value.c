/*
 * value.c - see value.h and dmi_ox.h.
 */
#include "ox/value.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"

bool dmi_ox_value_is_list(const struct dmi_ox_value *value) {
  return value->tag == DMI_OX_LIST || value->tag == DMI_OX_MATHCAP || value->tag == DMI_OX_ERROR;
}

bool dmi_ox_value_is_name(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return false;
  while (isalnum((unsigned char)*text) || *text == '_')
    text++;
  return *text == '\0';
}

bool dmi_ox_value_is_text(const struct dmi_ox_value *value) {
  if (value->tag != DMI_OX_STRING) return false;
  for (size_t i = strlen(value->bytes.at); i < (size_t)value->bytes.len; i++)
    if (value->bytes.at[i] != '\0') return false;
  return true;
}

/* ---- Uses ------------------------------------------------------------------------------------ */

DMI_ox_value_t *DMI_ox_keep(DMI_ox_value_t *value) {
  atomic_fetch_add_explicit(&value->uses, 1, memory_order_relaxed);
  return value;
}

void DMI_ox_drop(DMI_ox_value_t *value) {
  if (value == NULL || atomic_fetch_sub_explicit(&value->uses, 1, memory_order_acq_rel) > 1) return;
  if (dmi_ox_value_is_list(value)) {
    for (int32_t i = 0; i < value->list.num; i++)
      DMI_ox_drop(value->list.at[i]);
    free(value->list.at);
  } else if (value->tag == DMI_OX_STRING || value->tag == DMI_OX_BYTES) {
    free(value->bytes.at);
  } else if (value->tag == DMI_OX_DOUBLES) {
    free(value->doubles.at);
  } else if (value->tag == DMI_OX_INTEGER) {
    mpz_clear(value->integer);
  } else if (value->tag == DMI_OX_RATIONAL) {
    mpq_clear(value->rational);
  }
  free(value);
}

/* ---- Making ---------------------------------------------------------------------------------- */

struct dmi_ox_value *dmi_ox_value_new(int32_t tag) {
  struct dmi_ox_value *value = dmi_ox_alloc(sizeof *value);
  atomic_init(&value->uses, 1);
  value->tag = tag;
  value->size = DMI_OX_VALUE_BYTES;
  return value;
}

DMI_ox_value_t *DMI_ox_null(void) {
  return dmi_ox_value_new(DMI_OX_NULL);
}

struct dmi_ox_value *dmi_ox_value_int32(int32_t number) {
  struct dmi_ox_value *value = dmi_ox_value_new(DMI_OX_INT32);
  value->int32 = number;
  return value;
}

static uint64_t bytes_of(const mpz_t number) {
  return (uint64_t)mpz_size(number) * sizeof(mp_limb_t);
}

struct dmi_ox_value *dmi_ox_value_zz(mpz_t number) {
  struct dmi_ox_value *value = dmi_ox_value_new(DMI_OX_INTEGER);
  value->integer[0] = number[0];
  value->size += bytes_of(number);
  return value;
}

struct dmi_ox_value *dmi_ox_value_integer(mpz_t number) {
  if (mpz_sgn(number) != 0) return dmi_ox_value_zz(number);
  mpz_clear(number);
  return DMI_ox_null();
}

struct dmi_ox_value *dmi_ox_value_qq(mpq_t number) {
  struct dmi_ox_value *value = dmi_ox_value_new(DMI_OX_RATIONAL);
  value->rational[0] = number[0];
  value->size += bytes_of(mpq_numref(number)) + bytes_of(mpq_denref(number));
  return value;
}

struct dmi_ox_value *dmi_ox_value_rational(mpq_t number) {
  if (mpz_cmp_ui(mpq_denref(number), 1) != 0) return dmi_ox_value_qq(number);
  mpz_t integer;
  mpz_init_set(integer, mpq_numref(number));
  mpq_clear(number);
  return dmi_ox_value_integer(integer);
}

DMI_ox_value_t *DMI_ox_from_int64(int64_t number) {
  mpz_t integer;
  uint64_t size = number < 0 ? -(uint64_t)number : (uint64_t)number;
  mpz_init(integer);
  mpz_import(integer, 1, -1, sizeof size, 0, 0, &size);
  if (number < 0) mpz_neg(integer, integer);
  return dmi_ox_value_integer(integer);
}

DMI_ox_value_t *DMI_ox_from_double(double number) {
  struct dmi_ox_value *value = dmi_ox_value_new(DMI_OX_DOUBLE);
  value->number = number;
  return value;
}

/* A sign and digits, then `end`. */
static const char *digits_end(const char *at) {
  if (*at == '-') at++;
  if (!isdigit((unsigned char)*at)) return NULL;
  while (isdigit((unsigned char)*at))
    at++;
  return at;
}

DMI_ox_value_t *DMI_ox_from_digits(const char *digits) {
  const char *end = digits_end(digits);
  if (end == NULL || (*end != '\0' && *end != '/')) return NULL;
  if (*end == '/' && (!isdigit((unsigned char)end[1]) || *digits_end(end + 1) != '\0')) return NULL;
  mpq_t number;
  mpq_init(number);
  if (mpq_set_str(number, digits, 10) != 0 || mpz_sgn(mpq_denref(number)) == 0) {
    mpq_clear(number);
    return NULL;
  }
  mpq_canonicalize(number);
  return dmi_ox_value_rational(number);
}

struct dmi_ox_value *dmi_ox_value_bytes(int32_t tag, char *at, int32_t len) {
  struct dmi_ox_value *value = dmi_ox_value_new(tag);
  at[len] = '\0';
  value->bytes.at = at;
  value->bytes.len = len;
  value->size += (uint64_t)len;
  return value;
}

DMI_ox_value_t *DMI_ox_from_string(const char *bytes, int64_t size) {
  if (size < 0 || size > INT32_MAX) return NULL;
  char *at = dmi_ox_alloc((size_t)size + 1);
  if (size > 0) memcpy(at, bytes, (size_t)size);
  return dmi_ox_value_bytes(DMI_OX_STRING, at, (int32_t)size);
}

struct dmi_ox_value *dmi_ox_value_text(const char *text) {
  return DMI_ox_from_string(text, (int64_t)strlen(text));
}

struct dmi_ox_value *dmi_ox_value_doubles(double *at, int32_t num) {
  struct dmi_ox_value *value = dmi_ox_value_new(DMI_OX_DOUBLES);
  value->doubles.at = at;
  value->doubles.num = num;
  value->size += 8 * (uint64_t)num;
  return value;
}

struct dmi_ox_value *dmi_ox_value_items(int32_t tag, struct dmi_ox_value **at, int32_t num) {
  struct dmi_ox_value *value = dmi_ox_value_new(tag);
  value->list.at = at;
  value->list.num = num;
  value->depth = 1;
  for (int32_t i = 0; i < num; i++) {
    value->size += at[i]->size + sizeof at[i];
    if (value->depth <= at[i]->depth) value->depth = at[i]->depth + 1;
  }
  return value;
}

DMI_ox_value_t *DMI_ox_list(DMI_ox_value_t *const *values, int64_t num) {
  bool good = num <= INT32_MAX;
  for (int64_t i = 0; i < num; i++)
    good = good && values[i] != NULL && values[i]->depth < DMI_OX_DEPTH_MAX;
  if (!good || num < 0) {
    for (int64_t i = 0; i < num; i++)
      DMI_ox_drop(values[i]);
    return NULL;
  }
  struct dmi_ox_value **at = dmi_ox_alloc((size_t)num * sizeof at[0]);
  if (num > 0) memcpy(at, values, (size_t)num * sizeof at[0]);
  return dmi_ox_value_items(DMI_OX_LIST, at, (int32_t)num);
}

struct dmi_ox_value *dmi_ox_value_error(uint32_t serial, enum dmi_ox_code code, const char *text) {
  struct dmi_ox_value *items[3] = {dmi_ox_value_int32((int32_t)serial),
                                   dmi_ox_value_int32((int32_t)code), dmi_ox_value_text(text)};
  struct dmi_ox_value **at = dmi_ox_alloc(sizeof at[0]);
  at[0] = DMI_ox_list(items, 3);
  return dmi_ox_value_items(DMI_OX_ERROR, at, 1);
}

DMI_ox_value_t *DMI_ox_error(const char *text) {
  return dmi_ox_value_error(0, DMI_OX_E_FUNCTION, text);
}

/* ---- Looking --------------------------------------------------------------------------------- */

int32_t DMI_ox_kind(const DMI_ox_value_t *value) {
  return value->tag == DMI_OX_DOUBLE_64 ? DMI_OX_DOUBLE : value->tag;
}

int64_t DMI_ox_size(const DMI_ox_value_t *value) {
  return value->size > INT64_MAX ? INT64_MAX : (int64_t)value->size;
}

int32_t DMI_ox_to_int64(const DMI_ox_value_t *value, int64_t *number_ptr) {
  uint64_t size = 0;
  switch (value->tag) {
    case DMI_OX_NULL:
    case DMI_OX_ZERO:
      *number_ptr = 0;
      return DMI_TRUE;
    case DMI_OX_INT32:
      *number_ptr = value->int32;
      return DMI_TRUE;
    case DMI_OX_INTEGER:
      if (mpz_sizeinbase(value->integer, 2) > 64) return DMI_FALSE;
      mpz_export(&size, NULL, -1, sizeof size, 0, 0, value->integer);
      if (mpz_sgn(value->integer) >= 0) {
        if (size > INT64_MAX) return DMI_FALSE;
        *number_ptr = (int64_t)size;
      } else {
        if (size > (uint64_t)INT64_MAX + 1) return DMI_FALSE;
        *number_ptr = -(int64_t)(size - 1) - 1;
      }
      return DMI_TRUE;
    default:
      return DMI_FALSE;
  }
}

int32_t DMI_ox_to_double(const DMI_ox_value_t *value, double *number_ptr) {
  switch (value->tag) {
    case DMI_OX_NULL:
    case DMI_OX_ZERO:
      *number_ptr = 0;
      return DMI_TRUE;
    case DMI_OX_INT32:
      *number_ptr = value->int32;
      return DMI_TRUE;
    case DMI_OX_INTEGER:
      *number_ptr = mpz_sizeinbase(value->integer, 2) > 1024 ? mpz_sgn(value->integer) * HUGE_VAL
                                                             : mpz_get_d(value->integer);
      return DMI_TRUE;
    case DMI_OX_RATIONAL:
      *number_ptr = mpq_get_d(value->rational);
      return DMI_TRUE;
    case DMI_OX_DOUBLE:
    case DMI_OX_DOUBLE_64:
      *number_ptr = value->number;
      return DMI_TRUE;
    default:
      return DMI_FALSE;
  }
}

const char *DMI_ox_bytes(const DMI_ox_value_t *value, int64_t *size_ptr) {
  if (value->tag != DMI_OX_STRING && value->tag != DMI_OX_BYTES) return NULL;
  if (size_ptr != NULL) *size_ptr = value->bytes.len;
  return value->bytes.at;
}

int64_t DMI_ox_length(const DMI_ox_value_t *value) {
  return dmi_ox_value_is_list(value) ? value->list.num : -1;
}

DMI_ox_value_t *DMI_ox_item(const DMI_ox_value_t *value, int64_t index) {
  return index >= 0 && index < DMI_ox_length(value) ? value->list.at[index] : NULL;
}
