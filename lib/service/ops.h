/*
 * ops.h - the table of operations that are out: number -> operation.
 *
 * A number is a slot and a count of its uses, so that a late or forged answer finds nothing.
 */
#ifndef DMI_SERVICE_OPS_H
#define DMI_SERVICE_OPS_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_op;

struct dmi_ops;

struct dmi_ops *dmi_ops_new(void);
void dmi_ops_free(struct dmi_ops *ops);

/* Gives the operation a number (op->req.op, op->slot).  Any thread. */
void dmi_ops_add(struct dmi_ops *ops, struct dmi_op *op);
void dmi_ops_remove(struct dmi_ops *ops, struct dmi_op *op);

/* Is any operation out that takes effect whether or not somebody waits for it?  A DMI_watch does
 * not: without a thread that waits it keeps nobody. */
bool dmi_ops_any(const struct dmi_ops *ops);

/* At the end, when nothing else uses the table: all that are still in it. */
void dmi_ops_each(struct dmi_ops *ops, void (*visit)(struct dmi_op *op, void *arg), void *arg);

/* The operation that an answer with this number is for.  NULL: there is none (any more), or it has
 * asked nobody.  Only for the daemon, which completes those that have asked. */
struct dmi_op *dmi_ops_find(struct dmi_ops *ops, uint64_t number);

#endif
