/*
 * barrier.h - the part of a barrier that is in this process: threads that arrive at the same time
 * go in one message.
 */
#ifndef DMI_SYNC_BARRIER_H
#define DMI_SYNC_BARRIER_H

#include <stdint.h>

struct dmi_access;
struct dmi_barrier;
struct dmi_barriers;

/* The barriers that threads of this process use.  NULL: no memory. */
struct dmi_barriers *dmi_barriers_new(struct dmi_access *access);
void dmi_barriers_free(struct dmi_barriers *barriers);

/* One more thread of this process is going to use the barrier at addr.  NULL: no memory. */
struct dmi_barrier *dmi_barrier_join(struct dmi_barriers *barriers, int64_t addr);
void dmi_barrier_part(struct dmi_barrier *barrier);

int64_t dmi_barrier_addr(const struct dmi_barrier *barrier);

/* Returns DMI_TRUE when pnum have arrived, with the sum of their values; DMI_FALSE with DMI_errno()
 * set. */
int32_t dmi_barrier_arrive(struct dmi_barrier *barrier, double value, double *sum, int32_t pnum);

int32_t dmi_barrier_destroy(struct dmi_barriers *barriers, int64_t addr);

#endif
