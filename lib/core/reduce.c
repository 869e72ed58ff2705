/*
 * reduce.c - see reduce.h.
 */
#include "core/reduce.h"

#include <string.h>

bool dmi_reduce_valid(int8_t kind) {
  int op = kind / DMI_REDUCE_TYPES, type = kind % DMI_REDUCE_TYPES;
  if (kind < 0 || op >= DMI_REDUCE_OPS) return false;
  return op < DMI_REDUCE_BAND || type == DMI_REDUCE_INT32 || type == DMI_REDUCE_INT64;
}

/* A function that combines two numbers of a type; sums and products of integers are those of
 * `calculates`, so that they wrap around. */
#define NUMBERS(name, type, calculates)                     \
  static type name(enum dmi_reduce_op op, type a, type b) { \
    switch (op) {                                           \
      case DMI_REDUCE_SUM:                                  \
        return (type)((calculates)a + (calculates)b);       \
      case DMI_REDUCE_PROD:                                 \
        return (type)((calculates)a * (calculates)b);       \
      case DMI_REDUCE_MIN:                                  \
        return b < a ? b : a;                               \
      default:                                              \
        return b > a ? b : a;                               \
    }                                                       \
  }

NUMBERS(doubles, double, double)
NUMBERS(floats, float, float)
NUMBERS(int32s, int32_t, uint32_t)
NUMBERS(int64s, int64_t, uint64_t)

/* Combines one number of this type at `into`. */
#define AT(name, type, into, value)   \
  do {                                \
    type a_, b_;                      \
    memcpy(&a_, (into), sizeof(a_));  \
    memcpy(&b_, (value), sizeof(b_)); \
    a_ = name(op, a_, b_);            \
    memcpy((into), &a_, sizeof(a_));  \
  } while (0)

static void add_bits(enum dmi_reduce_op op, void *into, const void *value) {
  uint64_t a, b;
  memcpy(&a, into, sizeof(a));
  memcpy(&b, value, sizeof(b));
  a = op == DMI_REDUCE_BAND ? a & b : op == DMI_REDUCE_BOR ? a | b : a ^ b;
  memcpy(into, &a, sizeof(a));
}

void dmi_reduce_add(int8_t kind, void *into, const void *value) {
  enum dmi_reduce_op op = (enum dmi_reduce_op)(kind / DMI_REDUCE_TYPES);
  char *to = into;
  const char *from = value;
  if (op >= DMI_REDUCE_BAND) {
    add_bits(op, into, value);
    return;
  }
  switch ((enum dmi_reduce_type)(kind % DMI_REDUCE_TYPES)) {
    case DMI_REDUCE_FLOAT:
      AT(floats, float, to, from);
      AT(floats, float, to + 4, from + 4);
      return;
    case DMI_REDUCE_INT32:
      AT(int32s, int32_t, to, from);
      AT(int32s, int32_t, to + 4, from + 4);
      return;
    case DMI_REDUCE_INT64:
      AT(int64s, int64_t, to, from);
      return;
    default:
      AT(doubles, double, to, from);
  }
}
