/*
 * syncop_int.h - what syncop.c and syncop_lock.c share; no other file includes it.
 */
#ifndef DMI_CORE_SYNCOP_INT_H
#define DMI_CORE_SYNCOP_INT_H

#include "core/syncop.h"

/* ---- syncop_lock.c: LOCK, TRYLOCK, UNLOCK, MEND ---- */
enum dmi_rmw_end dmi_syncop_lock_run(const struct dmi_core *core, const struct dmi_req *waiting,
                                     const struct dmi_req *req, unsigned char *bytes,
                                     unsigned char *answer);
/* True if the lock was given to this LOCK. */
bool dmi_syncop_lock_met(const struct dmi_req *req, const unsigned char *bytes);
/* Its answer then. */
void dmi_syncop_lock_answer(const unsigned char *bytes, unsigned char *answer);

#endif
