/*
 * dmi_team.h - teams: DMI threads with ranks that send messages to each
 * other, for what shared pages do badly (pipelines, exchange of borders,
 * collective operations).  Included beside dmi_api.h; its conventions hold
 * here too.
 */
#ifndef DMI_TEAM_H
#define DMI_TEAM_H

#include "dmi_ext.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- Teams (chapter 5, "barriers") ---- */

/* A team, in global memory. */
typedef struct {
  int64_t dmi_private[4];
} DMI_team_t;

/* A thread's part in a team: a local object of that thread. */
typedef struct {
  int64_t dmi_private[4];
} DMI_local_team_t;

/* What was received, or waits to be. */
typedef struct {
  int64_t size; /* bytes of the message */
  int32_t rank; /* of the sender */
} DMI_got_t;

/* Of a receive or probe: from any rank. */
#define DMI_ANY (-1)

/* More types for reductions of teams (dmi_ext.h has the first four). */
#define DMI_TYPE_INT8 5         /* int8_t */
#define DMI_TYPE_UINT8 6        /* uint8_t */
#define DMI_TYPE_INT16 7        /* int16_t */
#define DMI_TYPE_UINT16 8       /* uint16_t */
#define DMI_TYPE_UINT32 9       /* uint32_t */
#define DMI_TYPE_UINT64 10      /* uint64_t */
#define DMI_TYPE_LONG_DOUBLE 11 /* long double */

/*
 * Makes a team of `size` ranks at `addr`, where there are sizeof(DMI_team_t)
 * bytes in one page.  It has no threads yet.
 *
 * Errors: DMI_EINVAL for a size below 1, or above 1048576.  DMI_EADDR,
 * DMI_ERANGE as for DMI_write.  DMI_ENOMEM.
 */
int32_t DMI_team_init(int64_t addr, int32_t size);

/* Ends a team.  DMI_EBUSY while threads are in it or join it.  DMI_EINVAL
 * when there is no team at `addr`. */
int32_t DMI_team_destroy(int64_t addr);

/*
 * The team has `size` ranks from its next epoch on: from the time when all
 * threads in it have called DMI_team_reset or DMI_team_leave.  Ranks below
 * `size` that have no thread then, also since theirs leaves, are waited for
 * (DMI_team_join), but not those that are lost meanwhile; threads whose rank
 * is not below it are not in the team any more (their DMI_team_reset gives
 * DMI_EINVAL).
 *
 * Errors: DMI_EINVAL for a size below 1, or above 1048576, and when there is
 * no team.  DMI_ENOMEM.
 */
int32_t DMI_team_resize(int64_t addr, int32_t size);

/*
 * Joins a team with this rank, or with DMI_ANY with one that nobody has, and
 * waits: in a new team until each rank has a thread, in one that works until
 * its threads have called DMI_team_reset or DMI_team_leave.
 *
 * The calling thread uses `team_ptr` until DMI_team_leave.  Its process does
 * not leave meanwhile.
 *
 * Errors: DMI_EINVAL for a rank that there is not, and when there is no team.
 * DMI_EBUSY when another thread has the rank, or none is free.  DMI_ELEAVING
 * when this process is leaving, or has left.  DMI_EEND when it would wait
 * after DMI_exit.
 */
int32_t DMI_team_join(DMI_local_team_t *team_ptr, int64_t addr, int32_t rank);

/*
 * Leaves the team: waits until all threads in it have called DMI_team_leave
 * or DMI_team_reset.  What was sent to this rank and not received is dropped.
 *
 * Errors: DMI_EBUSY when sends or receives of this rank are not over; then it
 * is still in the team.  DMI_EEND when it would wait after DMI_exit.
 */
int32_t DMI_team_leave(DMI_local_team_t *team_ptr);

/* Tells rank and size; a pointer may be NULL. */
int32_t DMI_team_rank(DMI_local_team_t *team_ptr, int32_t *rank_ptr, int32_t *size_ptr);

/*
 * Empties all channels of the team, in both directions, and begins anew.  All
 * threads in the team call it.  From the first call on every other call of a
 * thread in the team gives DMI_ERESET, also one that waits, until that thread
 * has called DMI_team_reset.  When it returns all have called it, and no
 * message that was sent before is ever received.
 *
 * The team may have another size then (DMI_team_resize), other threads
 * may have other ranks, and ranks of lost processes are holes.
 *
 * Errors: DMI_EINVAL when the rank is not below the new size.  DMI_EEND after
 * DMI_exit; then the calls below give DMI_EEND, too.
 */
int32_t DMI_team_reset(DMI_local_team_t *team_ptr);

/*
 * Sends a message to a rank.  Messages from one rank to another are received
 * in the order in which they were sent.  Up to 64 KiB it does not wait for
 * the receiver as long as that has room (256 KiB for each sender); else it
 * waits until the bytes are there.  `buf` may be used again when it has
 * returned, or the status is done.
 *
 * Errors: DMI_EINVAL for a rank that there is not, a negative size or one
 * above 2^62, a pointer of NULL although there are bytes.  DMI_ERESET.
 * DMI_ELOST when the rank has no thread, has left (DMI_team_leave), or was
 * lost.
 */
int32_t DMI_team_send(DMI_local_team_t *team_ptr, int32_t rank, const void *buf, int64_t size,
                      DMI_local_status_t *status);

/*
 * Receives the next message from a rank, or from DMI_ANY the one that came
 * first, into at most `size` bytes at `buf`.  *got_ptr (may be NULL) says how
 * many there were, and of whom.
 *
 * Errors: DMI_ESIZE when the message has more than `size` bytes: *got_ptr is
 * filled, and the next receive gets it.  DMI_ELOST when nothing is there and
 * the rank has no thread, has left, or was lost; from DMI_ANY when any rank
 * has no thread or was lost, or all others have left.  DMI_ERESET.
 * DMI_EINVAL as for DMI_team_send.
 */
int32_t DMI_team_recv(DMI_local_team_t *team_ptr, int32_t rank, void *buf, int64_t size,
                      DMI_got_t *got_ptr, DMI_local_status_t *status);

/* Is there a message?  With `flag_ptr` it does not wait: *flag_ptr is 1 if
 * there is one, else 0; without (NULL) it waits.  Errors as for
 * DMI_team_recv. */
int32_t DMI_team_probe(DMI_local_team_t *team_ptr, int32_t rank, DMI_got_t *got_ptr,
                       int32_t *flag_ptr);

/*
 * Collective calls: all ranks make them in the same order, with the same
 * root, sizes, types and operations, which is not checked, but for what
 * would not fit.
 *
 * Errors of all: DMI_ELOST at each rank when a rank has no thread; when one
 * is lost meanwhile, at those that wait.  Where a call has failed so, all do
 * until DMI_team_reset.  DMI_ERESET.  DMI_EINVAL for a root
 * that there is not, a negative size or number, an unknown type or operation,
 * a pointer of NULL although there are bytes.  DMI_ENOMEM, and DMI_ESIZE when
 * other ranks give another size: at this rank; others may wait for it until
 * it calls DMI_team_reset, which is needed then.
 */

/* All ranks get the `size` bytes at `buf` of the root. */
int32_t DMI_team_bcast(DMI_local_team_t *team_ptr, int32_t root, void *buf, int64_t size);

/* The root gets at `out` the `num` elements at `in` of all ranks, combined by
 * `op` (dmi_ext.h), in the order of a tree that depends only on size and root.
 * `out` may be `in`; at other ranks it may be NULL. */
int32_t DMI_team_reduce(DMI_local_team_t *team_ptr, int32_t root, const void *in, void *out,
                        int64_t num, DMI_type_t type, DMI_op_t op);

/* The same at all ranks. */
int32_t DMI_team_allreduce(DMI_local_team_t *team_ptr, const void *in, void *out, int64_t num,
                           DMI_type_t type, DMI_op_t op);

/* Combines `num` elements: into[i] = into[i] op with[i]. */
typedef void (*DMI_combine_t)(void *into, const void *with, int64_t num);

/* DMI_team_reduce of elements of `size` bytes by a function of the program. */
int32_t DMI_team_reduce_by(DMI_local_team_t *team_ptr, int32_t root, const void *in, void *out,
                           int64_t num, int64_t size, DMI_combine_t combine);

/* The root gets at `out` the `size` bytes at `in` of rank 0, behind them those
 * of rank 1, and so on. */
int32_t DMI_team_gather(DMI_local_team_t *team_ptr, int32_t root, const void *in, int64_t size,
                        void *out);

/* Each rank gets at `out` its `size` bytes of those at `in` of the root. */
int32_t DMI_team_scatter(DMI_local_team_t *team_ptr, int32_t root, const void *in, int64_t size,
                         void *out);

/* Waits until all ranks have called it. */
int32_t DMI_team_barrier(DMI_local_team_t *team_ptr);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
