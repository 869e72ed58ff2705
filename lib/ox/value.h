/*
 * value.h - what is in a value of dmi_ox.h.  Values never change once they are made, and any
 * thread may use them: only the number of uses is written, atomically.
 */
#ifndef DMI_OX_VALUE_H
#define DMI_OX_VALUE_H

#include <gmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "dmi_ox.h"
#include "ox/wire.h"

struct dmi_ox_value {
  atomic_int uses;
  int32_t tag;   /* DMI_OX_NULL ..., also DMI_OX_DOUBLE_64 */
  int32_t depth; /* 0; of a list: one more than the deepest item's */
  uint64_t size; /* bytes of memory, with those of the items */
  union {
    int32_t int32;
    double number;
    mpz_t integer;
    mpq_t rational;
    struct {
      char *at; /* a byte 0 is behind them */
      int32_t len;
    } bytes;
    struct {
      double *at;
      int32_t num;
    } doubles;
    struct {
      struct dmi_ox_value **at;
      int32_t num; /* of MATHCAP and ERROR: 1 */
    } list;
  };
};

/* What a value costs beside its bytes and items. */
#define DMI_OX_VALUE_BYTES ((uint64_t)sizeof(struct dmi_ox_value))

struct dmi_ox_value *dmi_ox_value_new(int32_t tag);
struct dmi_ox_value *dmi_ox_value_int32(int32_t number);
/* Takes over `number`, which is not to be cleared; 0 is NULL, and an integer rational an integer.
 */
struct dmi_ox_value *dmi_ox_value_integer(mpz_t number);
struct dmi_ox_value *dmi_ox_value_rational(mpq_t number);
/* An integer of the type ZZ, also when it is 0: as it came. */
struct dmi_ox_value *dmi_ox_value_zz(mpz_t number);
struct dmi_ox_value *dmi_ox_value_qq(mpq_t number);
/* Take over the memory; a string's has room for one more byte. */
struct dmi_ox_value *dmi_ox_value_bytes(int32_t tag, char *at, int32_t len);
struct dmi_ox_value *dmi_ox_value_doubles(double *at, int32_t num);
/* LIST, MATHCAP (1), ERROR (1); takes over the array and a use of each item. */
struct dmi_ox_value *dmi_ox_value_items(int32_t tag, struct dmi_ox_value **at, int32_t num);
struct dmi_ox_value *dmi_ox_value_text(const char *text);
/* ERROR2: LIST[serial, code, text]. */
struct dmi_ox_value *dmi_ox_value_error(uint32_t serial, enum dmi_ox_code code, const char *text);

bool dmi_ox_value_is_list(const struct dmi_ox_value *value); /* also MATHCAP and ERROR */
bool dmi_ox_value_is_name(const char *text);
/* A string without a byte 0 inside: some clients send the one at its end, too. */
bool dmi_ox_value_is_text(const struct dmi_ox_value *value);

#endif
