/*
 * early.h - copies a large page, which the waiting thread itself receives, to the caller's buffer
 * while the rest is still arriving.
 *
 * The thread waits in a synchronous read of (part of) one page, and has borrowed the connection
 * (docs/wire.md).  Each piece is copied while it is in the cache, and while the sender writes the
 * next one.  When the page is complete the core does not copy it again.
 */
#ifndef DMI_ACCESS_EARLY_H
#define DMI_ACCESS_EARLY_H

#include "access/access.h"
#include "access/ops.h"

/* Until dmi_early_end this thread waits for `op`, a read of one page in a call that it made. */
void dmi_early_begin(struct dmi_op *op);
void dmi_early_end(void);

/* Bytes [off, off + len) of a message's body have arrived.  In the thread that receives. */
void dmi_early_arrived(struct dmi_ops *ops, const struct dmi_msg *msg, const unsigned char *body,
                       uint64_t off, uint64_t len);

/* To be called before and after the step of a message.  The page is locked. */
void dmi_early_step(struct dmi_ops *ops, const struct dmi_page *page, const struct dmi_msg *msg);
void dmi_early_stepped(void);

#endif
