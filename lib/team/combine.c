/*
 * combine.c - see combine.h.
 *
 * One function for each type, and inner loops of constant length, so that the compiler uses vectors
 * also where it must not make code longer.  That an element of `to` may be the same one of `a` or
 * `b` is no dependency between elements (ivdep).
 */
#include "team/combine.h"

#include <stdbool.h>
#include <stddef.h>

#define TOGETHER 64 /* elements */

#define EACH(expression)                                                          \
  for (; num >= TOGETHER; num -= TOGETHER) {                                      \
    _Pragma("GCC ivdep") for (int i = 0; i < TOGETHER; i++) to[i] = (expression); \
    to += TOGETHER;                                                               \
    a += TOGETHER;                                                                \
    b += TOGETHER;                                                                \
  }                                                                               \
  for (uint64_t i = 0; i < num; i++)                                              \
    to[i] = (expression);                                                         \
  break

/* `wide`: an unsigned type of at least 32 bits, in which overflow is defined. */
#define NUMBERS(T, wide)                \
  case DMI_OP_SUM:                      \
    EACH((T)((wide)a[i] + (wide)b[i])); \
  case DMI_OP_PROD:                     \
    EACH((T)((wide)a[i] * (wide)b[i])); \
  case DMI_OP_MIN:                      \
    EACH(b[i] < a[i] ? b[i] : a[i]);    \
  case DMI_OP_MAX:                      \
    EACH(b[i] > a[i] ? b[i] : a[i]);

#define INTEGER(name, T, wide)                                                 \
  static void name(DMI_op_t op, T *to, const T *a, const T *b, uint64_t num) { \
    switch (op) {                                                              \
      NUMBERS(T, wide)                                                         \
      case DMI_OP_BAND:                                                        \
        EACH((T)(a[i] & b[i]));                                                \
      case DMI_OP_BOR:                                                         \
        EACH((T)(a[i] | b[i]));                                                \
      case DMI_OP_BXOR:                                                        \
        EACH((T)(a[i] ^ b[i]));                                                \
      default:                                                                 \
        break;                                                                 \
    }                                                                          \
  }

#define FLOATING(name, T)                                                      \
  static void name(DMI_op_t op, T *to, const T *a, const T *b, uint64_t num) { \
    switch (op) {                                                              \
      NUMBERS(T, T)                                                            \
      default:                                                                 \
        break;                                                                 \
    }                                                                          \
  }

INTEGER(int8s, int8_t, uint32_t)
INTEGER(uint8s, uint8_t, uint32_t)
INTEGER(int16s, int16_t, uint32_t)
INTEGER(uint16s, uint16_t, uint32_t)
INTEGER(int32s, int32_t, uint32_t)
INTEGER(uint32s, uint32_t, uint32_t)
INTEGER(int64s, int64_t, uint64_t)
INTEGER(uint64s, uint64_t, uint64_t)
FLOATING(floats, float)
FLOATING(doubles, double)
FLOATING(long_doubles, long double)

/* Type, its function, its C type, bool: an integer. */
#define TYPES(X)                              \
  X(DMI_TYPE_INT8, int8s, int8_t, true)       \
  X(DMI_TYPE_UINT8, uint8s, uint8_t, true)    \
  X(DMI_TYPE_INT16, int16s, int16_t, true)    \
  X(DMI_TYPE_UINT16, uint16s, uint16_t, true) \
  X(DMI_TYPE_INT32, int32s, int32_t, true)    \
  X(DMI_TYPE_UINT32, uint32s, uint32_t, true) \
  X(DMI_TYPE_INT64, int64s, int64_t, true)    \
  X(DMI_TYPE_UINT64, uint64s, uint64_t, true) \
  X(DMI_TYPE_FLOAT, floats, float, false)     \
  X(DMI_TYPE_DOUBLE, doubles, double, false)  \
  X(DMI_TYPE_LONG_DOUBLE, long_doubles, long double, false)

uint64_t dmi_team_combine_size(DMI_type_t type, DMI_op_t op) {
  if (op < DMI_OP_SUM || op > DMI_OP_BXOR) return 0;
  switch (type) {
#define SIZE(symbol, function, T, integer) \
  case symbol:                             \
    return (integer) || op <= DMI_OP_MAX ? sizeof(T) : 0;
    TYPES(SIZE)
    default:
      return 0;
  }
}

void dmi_team_combine(DMI_type_t type, DMI_op_t op, void *to, const void *a, const void *b,
                      uint64_t num) {
  switch (type) {
#define CALL(symbol, function, T, integer) \
  case symbol:                             \
    function(op, to, a, b, num);           \
    break;
    TYPES(CALL)
    default:
      break;
  }
}
