/*
 * id.h - the public number of a process.
 *
 * A struct, so that the compiler refuses a uid (msg/types.h) where this is meant, and the reverse:
 * a program's first processes have numbers of both kinds that differ by one only.  `n` is for
 * making, printing and packing it.
 */
#ifndef DMI_BASE_ID_H
#define DMI_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

/* Small, unique among the members, given again when its process has gone; int32_t in dmi_api.h. */
typedef struct {
  uint32_t n;
} dmi_id_t;

static inline bool dmi_id_is(dmi_id_t a, dmi_id_t b) {
  return a.n == b.n;
}

#endif
