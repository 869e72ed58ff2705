/*
 * pool.h - the account of the memory that this process lends to the program (docs/replacement.md,
 * "The account").
 *
 * It counts reservations, and frames that are or were the bytes of a page. Each process of the
 * program has one account. Any thread may call these functions, with or without a page's lock; none
 * waits. Hits do not call them.
 */
#ifndef DMI_BASE_POOL_H
#define DMI_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

struct dmi_pool;

/* Makes an account with nothing used. `limit` in bytes, 0: no limit. `wake` (may be NULL) is
 * called with `arg` at a mark, by any thread with any locks held, so it must not wait. NULL: no
 * memory. */
struct dmi_pool *dmi_pool_new(uint64_t limit, void (*wake)(void *arg), void *arg);
/* Ends the account: `wake` is not called any more.  It is freed with the last reference; frames
 * that it counts may only be left if somebody holds one. */
void dmi_pool_free(struct dmi_pool *pool);

/* A reference for a frame that may be freed after the end of the process (access/hold.c). */
void dmi_pool_ref(struct dmi_pool *pool);
void dmi_pool_unref(struct dmi_pool *pool);

/* Reserves `bytes`. False: there is no memory, and `wake` is called. With `force` it is never
 * false: for bytes that arrive in any case. */
bool dmi_pool_reserve(struct dmi_pool *pool, uint64_t bytes, bool force);

/* The same for callers that were refused before and wait. While the pool is closed
 * (dmi_pool_close), only these and calls with `force` succeed; without this rule they could wait
 * for ever. */
bool dmi_pool_reserve_first(struct dmi_pool *pool, uint64_t bytes);
void dmi_pool_close(struct dmi_pool *pool, bool closed);

/* Releases reserved bytes. */
void dmi_pool_release(struct dmi_pool *pool, uint64_t bytes);

/* The frame has become the bytes of a page, and counts until it is freed. `reserved`: its bytes
 * were reserved, and the reservation becomes the frame's. */
void dmi_pool_attach(struct dmi_pool *pool, struct dmi_frame *frame, bool reserved);

/* The frame is not the bytes of a page any more, but is still counted. */
void dmi_pool_detach(struct dmi_pool *pool, const struct dmi_frame *frame);

/* Bytes in transient use: reservations, and frames that only messages still hold. When some of
 * it ends, `wake` is called. */
uint64_t dmi_pool_transient(struct dmi_pool *pool);
/* Bytes whose use, transient or not, has ended since the process started. */
uint64_t dmi_pool_transient_ended(const struct dmi_pool *pool);

/* Adds `more` bytes (negative: subtracts) to those of copies that could be dropped at once. */
void dmi_pool_copies(struct dmi_pool *pool, int64_t more);

/* Sets the marks: `wake` is called once when more than `above` bytes are used, or fewer than
 * `below`. A later call replaces them. A caller that reads dmi_pool_used after this call misses
 * no change. */
void dmi_pool_watch(struct dmi_pool *pool, uint64_t above, uint64_t below);

/* Sets the number of refusals after which `wake` is called; 1 at first. While no page can leave,
 * a search at each refusal would cost more than the refused requests. */
void dmi_pool_patience(struct dmi_pool *pool, uint64_t refusals);

uint64_t dmi_pool_limit(const struct dmi_pool *pool); /* UINT64_MAX: none */
uint64_t dmi_pool_used(const struct dmi_pool *pool);  /* bytes */
uint64_t dmi_pool_peak(const struct dmi_pool *pool);  /* most bytes used so far */
/* bytes of copies that could be dropped */
uint64_t dmi_pool_copy_bytes(const struct dmi_pool *pool);
uint64_t dmi_pool_refused(
    const struct dmi_pool *pool); /* bytes of the last refused reservation; 0: none was refused */

#endif
