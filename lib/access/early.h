/*
 * early.h - a large page that a thread itself receives is copied to the caller's buffer while the
 * rest of it is still arriving.
 *
 * The thread waits in a synchronous read of (part of) one page, and has borrowed the connection
 * (docs/wire.md).  Each piece is copied while it is in the cache, and while the sender writes the
 * next one.  When the page is whole the core takes the bytes for delivered.
 */
#ifndef DMI_ACCESS_EARLY_H
#define DMI_ACCESS_EARLY_H

#include "access/access.h"
#include "access/ops.h"

/* This thread waits for `op` from now on, a read of one page in a call that it made; until
 * dmi_early_end. */
void dmi_early_begin(struct dmi_op *op);
void dmi_early_end(void);

/* Bytes [off, off + len) of a message's body have come; in the thread that receives. */
void dmi_early_arrived(struct dmi_ops *ops, const struct dmi_msg *msg, const unsigned char *body,
                       uint64_t off, uint64_t len);

/* Around the step of a message, with its page locked. */
void dmi_early_step(struct dmi_ops *ops, const struct dmi_page *page, const struct dmi_msg *msg);
void dmi_early_stepped(void);

#endif
