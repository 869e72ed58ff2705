/*
 * pool.h - the account of the memory that this process lends to the program (docs/replacement.md,
 * "The account").
 *
 * It counts: reservations, and frames that are or were the bytes of a page.  One account for each
 * process of the program; any thread, with or without a page's lock held; nothing here waits.  A
 * hit does not come here.
 */
#ifndef DMI_BASE_POOL_H
#define DMI_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

struct dmi_pool;

/* An account with nothing used.  `limit` 0: none.  `wake` (NULL: nobody) is called with `arg` at a
 * mark; it must not wait either, and may be called by any thread under any lock.  NULL: no memory.
 */
struct dmi_pool *dmi_pool_new(uint64_t limit, void (*wake)(void *arg), void *arg);
/* After the last frame that counts in it. */
void dmi_pool_free(struct dmi_pool *pool);

/* Reserves `bytes`. False: there is no memory, and `wake` is called. With `force` it is never
 * false: for bytes that come in any case. */
bool dmi_pool_reserve(struct dmi_pool *pool, uint64_t bytes, bool force);

/* The same for callers that were refused before and wait: while the pool is closed (dmi_pool_close)
 * only these and those with `force` succeed; otherwise they could wait for ever. */
bool dmi_pool_reserve_first(struct dmi_pool *pool, uint64_t bytes);
void dmi_pool_close(struct dmi_pool *pool, bool closed);

/* Gives back what was reserved. */
void dmi_pool_release(struct dmi_pool *pool, uint64_t bytes);

/* The frame has become the bytes of a page, and counts until it is freed. `reserved`: its bytes
 * were reserved, and the reservation becomes the frame's. */
void dmi_pool_attach(struct dmi_pool *pool, struct dmi_frame *frame, bool reserved);

/* It is not the bytes of a page any more, but still counts. */
void dmi_pool_detach(struct dmi_pool *pool, const struct dmi_frame *frame);

/* Transient use: reservations, and frames that only messages still hold.  `wake` is
 * called when some of that ends. */
uint64_t dmi_pool_transient(struct dmi_pool *pool);
/* Bytes whose use, transient or not, has ended since the process began. */
uint64_t dmi_pool_transient_ended(const struct dmi_pool *pool);

/* So many bytes more (negative: fewer) are of copies that could be dropped at once. */
void dmi_pool_copies(struct dmi_pool *pool, int64_t more);

/* Calls `wake` once when more than `above` bytes are used, or fewer than `below`; a later call
 * replaces the earlier marks. A caller that looks at dmi_pool_used afterwards misses no change. */
void dmi_pool_watch(struct dmi_pool *pool, uint64_t above, uint64_t below);

/* After how many refusals `wake` is called; at first 1. While no page can leave, searching at each
 * refusal would cost more than the refused requests themselves. */
void dmi_pool_patience(struct dmi_pool *pool, uint64_t refusals);

uint64_t dmi_pool_limit(const struct dmi_pool *pool);      /* UINT64_MAX: none */
uint64_t dmi_pool_used(const struct dmi_pool *pool);       /* bytes */
uint64_t dmi_pool_peak(const struct dmi_pool *pool);       /* the most that were used */
uint64_t dmi_pool_copy_bytes(const struct dmi_pool *pool); /* of them */
uint64_t dmi_pool_refused(
    const struct dmi_pool *pool); /* the size that was refused last; 0: none was */

#endif
