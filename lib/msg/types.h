/*
 * types.h - types of numbers that must not be mixed up.
 *
 * Numbers that often appear together are structs with one member, so that the compiler does not let
 * them be mixed; this costs nothing at run time. `n` is only for making, printing and packing them.
 */
#ifndef DMI_MSG_TYPES_H
#define DMI_MSG_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h" /* the public number of a process */

typedef uint32_t dmi_uid_t;    /* of a process; consecutive, never used again; 0: no process */
typedef uint64_t dmi_pageno_t; /* index of a page in its mapping */

/* The version of a page's bytes: the number of its writes. In DONE 0 means: nothing was written. */
typedef struct {
  uint64_t n;
} dmi_version_t;

/* The number of a READ, given by its origin. 0: none. */
typedef struct {
  uint64_t n;
} dmi_fetch_t;

/* The number of an operation other than READ, given by its origin. */
typedef struct {
  uint64_t n;
} dmi_op_t;

static inline bool dmi_version_is(dmi_version_t a, dmi_version_t b) {
  return a.n == b.n;
}

static inline bool dmi_version_older(dmi_version_t a, dmi_version_t than) {
  return a.n < than.n;
}

static inline dmi_version_t dmi_version_next(dmi_version_t version) {
  return (dmi_version_t){version.n + 1};
}

static inline bool dmi_fetch_any(dmi_fetch_t fetch) {
  return fetch.n != 0;
}

/* True if they are equal and not 0. */
static inline bool dmi_fetch_is(dmi_fetch_t a, dmi_fetch_t b) {
  return a.n != 0 && a.n == b.n;
}

static inline bool dmi_op_is(dmi_op_t a, dmi_op_t b) {
  return a.n == b.n;
}

#endif
