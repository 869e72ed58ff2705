/*
 * number.h - sums, differences, products and quotients of values.  Pure.
 */
#ifndef DMI_OX_NUMBER_H
#define DMI_OX_NUMBER_H

#include "ox/value.h"

/*
 * `a` op `b`, op one of + - * /. NULL and ZERO are 0. Integers and rationals are exact, with a
 * double the result is one; an exact 0 is NULL. It returns NULL, and says why, when one of them is
 * no number, for an exact division by 0, and when the result needs more than `limit` bytes. An
 * error as operand is the result.
 */
struct dmi_ox_value *dmi_ox_number_op(char op, struct dmi_ox_value *a, struct dmi_ox_value *b,
                                      uint64_t limit, const char **why);

#endif
