/*
 * number.c - see number.h.
 */
#include "ox/number.h"

static bool is_integer(const struct dmi_ox_value *value) {
  return value->tag == DMI_OX_NULL || value->tag == DMI_OX_ZERO || value->tag == DMI_OX_INT32 ||
         value->tag == DMI_OX_INTEGER;
}

static void set_integer(mpz_t number, const struct dmi_ox_value *value) {
  if (value->tag == DMI_OX_INTEGER)
    mpz_set(number, value->integer);
  else
    mpz_set_si(number, value->tag == DMI_OX_INT32 ? value->int32 : 0);
}

static void set_rational(mpq_t number, const struct dmi_ox_value *value) {
  if (value->tag == DMI_OX_RATIONAL)
    mpq_set(number, value->rational);
  else
    set_integer(mpq_numref(number), value);
}

static struct dmi_ox_value *of_doubles(char op, double a, double b) {
  return DMI_ox_from_double(op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
}

static struct dmi_ox_value *of_integers(char op, const struct dmi_ox_value *a,
                                        const struct dmi_ox_value *b) {
  mpz_t x, y;
  mpz_init(x);
  mpz_init(y);
  set_integer(x, a);
  set_integer(y, b);
  if (op == '+')
    mpz_add(x, x, y);
  else if (op == '-')
    mpz_sub(x, x, y);
  else
    mpz_mul(x, x, y);
  mpz_clear(y);
  return dmi_ox_value_integer(x);
}

static struct dmi_ox_value *of_rationals(char op, const struct dmi_ox_value *a,
                                         const struct dmi_ox_value *b, const char **why) {
  struct dmi_ox_value *value = NULL;
  mpq_t x, y;
  mpq_init(x);
  mpq_init(y);
  set_rational(x, a);
  set_rational(y, b);
  if (op == '/' && mpq_sgn(y) == 0) {
    *why = "division by 0";
    mpq_clear(x);
  } else {
    if (op == '+')
      mpq_add(x, x, y);
    else if (op == '-')
      mpq_sub(x, x, y);
    else if (op == '*')
      mpq_mul(x, x, y);
    else
      mpq_div(x, x, y);
    value = dmi_ox_value_rational(x);
  }
  mpq_clear(y);
  return value;
}

static bool is_exact(const struct dmi_ox_value *value) {
  return is_integer(value) || value->tag == DMI_OX_RATIONAL;
}

bool dmi_ox_number_is_large(char op, const struct dmi_ox_value *a, const struct dmi_ox_value *b) {
  if (!is_exact(a) || !is_exact(b) || a->size + b->size <= DMI_OX_RATIONAL_BYTES) return false;
  return op == '/' || a->tag == DMI_OX_RATIONAL || b->tag == DMI_OX_RATIONAL;
}

struct dmi_ox_value *dmi_ox_number_op(char op, struct dmi_ox_value *a, struct dmi_ox_value *b,
                                      uint64_t limit, const char **why) {
  double x, y;
  if (a->tag == DMI_OX_ERROR) return DMI_ox_keep(a);
  if (b->tag == DMI_OX_ERROR) return DMI_ox_keep(b);
  if (!DMI_ox_to_double(a, &x) || !DMI_ox_to_double(b, &y)) {
    *why = "an operand is no number";
    return NULL;
  }
  if (!is_exact(a) || !is_exact(b)) return of_doubles(op, x, y);
  if (dmi_ox_number_is_large(op, a, b)) {
    *why = DMI_OX_RATIONAL_LARGE;
    return NULL;
  }
  if (a->size + b->size > limit) {
    *why = "the result is too large";
    return NULL;
  }
  if (is_integer(a) && is_integer(b) && op != '/') return of_integers(op, a, b);
  return of_rationals(op, a, b, why);
}
