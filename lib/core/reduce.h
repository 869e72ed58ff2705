/*
 * reduce.h - what arrivals at a barrier combine: 8 bytes each, which are one number or two.
 */
#ifndef DMI_CORE_REDUCE_H
#define DMI_CORE_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

enum dmi_reduce_op {
  DMI_REDUCE_SUM,
  DMI_REDUCE_PROD,
  DMI_REDUCE_MIN,
  DMI_REDUCE_MAX,
  DMI_REDUCE_BAND,
  DMI_REDUCE_BOR,
  DMI_REDUCE_BXOR,
  DMI_REDUCE_OPS
};

enum dmi_reduce_type {
  DMI_REDUCE_DOUBLE,
  DMI_REDUCE_FLOAT,
  DMI_REDUCE_INT32,
  DMI_REDUCE_INT64,
  DMI_REDUCE_TYPES
};

/* Both in a byte, the tag of ARRIVE.  0: the sum of doubles. */
static inline int8_t dmi_reduce_kind(enum dmi_reduce_op op, enum dmi_reduce_type type) {
  return (int8_t)(op * DMI_REDUCE_TYPES + type);
}

/* True if there is such an operation for this type. */
bool dmi_reduce_valid(int8_t kind);

/* Combines 8 bytes at `value` with those at `into`.  Integers wrap around. */
void dmi_reduce_add(int8_t kind, void *into, const void *value);

#endif
