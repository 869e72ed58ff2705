/*
 * rmw.h - read-modify-write on a few bytes: what an ATOMIC does at the owner.
 */
#ifndef DMI_CORE_RMW_H
#define DMI_CORE_RMW_H

#include "core/page.h"

/* Most bytes of both inputs of DMI_function together, and of its answer, because a message
 * decides how much memory they take. */
#define DMI_RMW_MOST ((uint64_t)UINT32_MAX)

/* True if the sizes fit the operation. `input`: number of input bytes (out1 then out2). */
bool dmi_rmw_valid(enum dmi_rmw rmw, uint64_t len, const struct dmi_rmw_sizes *sizes,
                   uint64_t input);

enum dmi_rmw_end {
  DMI_RMW_DONE,
  DMI_RMW_WAITS, /* bytes may have been changed; the rest of it is a pure wait: core/syncop.h */
  DMI_RMW_NO_FUNCTION, /* USER, and the program has no DMI_function */
  DMI_RMW_NO_OBJECT    /* these bytes are not a mutex, condition or barrier */
};

/* Runs the operation on bytes[0, len), writing sizes->in bytes of answer (zeroed before);
 * `waiting`: see dmi_syncop_run. */
enum dmi_rmw_end dmi_rmw_run(const struct dmi_core *core, const struct dmi_req *waiting,
                             const struct dmi_req *req, unsigned char *bytes,
                             unsigned char *answer);

#endif
