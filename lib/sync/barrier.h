/*
 * barrier.h - this process's part of a barrier: threads that arrive at about the same time are sent
 * as one message.
 */
#ifndef DMI_SYNC_BARRIER_H
#define DMI_SYNC_BARRIER_H

#include <stddef.h>
#include <stdint.h>

struct dmi_access;
struct dmi_barriers;
struct dmi_barrier_part; /* one thread's part in a barrier */

/* The barriers that threads of this process use.  NULL: no memory. */
struct dmi_barriers *dmi_barriers_new(struct dmi_access *access);
void dmi_barriers_free(struct dmi_barriers *barriers);

/* Bytes of memory, in common with other processes of this host, that barriers use. */
size_t dmi_barriers_common(void);

/* After a loss, when dmi_core.losses and the members are those of behind it, and when the program
 * is to end: who waits with others of this host looks again.  Any thread. */
void dmi_barriers_look_again(struct dmi_barriers *barriers);

/* One more thread of this process will use the barrier at addr, until dmi_barrier_part.  NULL: no
 * memory. */
struct dmi_barrier_part *dmi_barrier_join(struct dmi_barriers *barriers, int64_t addr);
void dmi_barrier_part(struct dmi_barrier_part *part);

/* For the parts that the calling thread gets from here on: losses from this one on, a value of
 * dmi_core.losses, break their first round, though the thread may have begun later. */
void dmi_barrier_since(uint32_t losses);
/* Only those behind dmi_barrier_join, as at first. */
void dmi_barrier_since_now(void);

/* A thread that uses a barrier. */
struct dmi_barrier_user {
  uint64_t number; /* of its part, from 1 */
  int64_t addr;    /* of the barrier */
  uint64_t doer;   /* dmi_doing_number of the thread */
};
/* The newest of them with a number below this one, the newest first, at most `most`.  Returns how
 * many.  Any thread. */
uint32_t dmi_barrier_look(struct dmi_barriers *barriers, uint64_t below,
                          struct dmi_barrier_user *user, uint32_t most);

int64_t dmi_barrier_addr(const struct dmi_barrier_part *part);

/* Waits until pnum threads have arrived.  DMI_TRUE: the 8 bytes at `sum` (may be NULL) are those of
 * all their `values`, combined as `kind` says (core/reduce.h); DMI_FALSE: DMI_errno() is set.
 * DMI_EBROKEN comes once to each part after a loss. */
int32_t dmi_barrier_arrive(struct dmi_barrier_part *part, int8_t kind, const void *value, void *sum,
                           int32_t pnum);

int32_t dmi_barrier_destroy(struct dmi_barriers *barriers, int64_t addr);

#endif
