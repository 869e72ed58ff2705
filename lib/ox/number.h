/*
 * number.h - sums, differences, products and quotients of values.  Pure.
 */
#ifndef DMI_OX_NUMBER_H
#define DMI_OX_NUMBER_H

#include "ox/value.h"

/* Rationals are made with a gcd, during which no reset can be heard: so they are bounded. */
#define DMI_OX_RATIONAL_BYTES ((uint64_t)4 << 20)
#define DMI_OX_RATIONAL_LARGE "a rational is larger than 4 MiB"

/* True for an operation of rationals whose operands together are larger than that;
 * dmi_ox_number_op refuses it. */
bool dmi_ox_number_is_large(char op, const struct dmi_ox_value *a, const struct dmi_ox_value *b);

/*
 * `a` op `b`, op one of + - * /. NULL and ZERO are 0. Integers and rationals are exact, with a
 * double the result is one; an exact 0 is NULL. It returns NULL, and says why, when one of them is
 * no number, for an exact division by 0, and when the result needs more than `limit` bytes. An
 * error as operand is the result.
 */
struct dmi_ox_value *dmi_ox_number_op(char op, struct dmi_ox_value *a, struct dmi_ox_value *b,
                                      uint64_t limit, const char **why);

#endif
