/*
 * ops.h - the table of operations in flight: number -> operation.
 *
 * A number is a slot and a count of its uses, so that a late or forged answer finds nothing.
 */
#ifndef DMI_ACCESS_OPS_H
#define DMI_ACCESS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

struct dmi_mapping;
struct dmi_op;
struct dmi_page;

struct dmi_ops;

struct dmi_ops *dmi_ops_new(void);
void dmi_ops_free(struct dmi_ops *ops);

/* Gives the operation a number (op->req.op, op->slot).  Any thread. */
void dmi_ops_add(struct dmi_ops *ops, struct dmi_op *op);
/* It is complete.  With its page locked, so that who has found it there has found one that stays.
 */
void dmi_ops_remove(struct dmi_ops *ops, struct dmi_op *op);

/* Is any operation out that takes effect whether or not somebody waits for it?  A DMI_watch does
 * not: without a thread that waits it keeps nobody. */
bool dmi_ops_any(const struct dmi_ops *ops);

/* Is an operation out that was so at the last call, and that its owner carries out without waiting
 * for what others do?  *any: one of these is in flight at all. */
bool dmi_ops_look(struct dmi_ops *ops, bool *any);

/* At the end, when nothing else uses the table: all that are still in it. */
void dmi_ops_each(struct dmi_ops *ops, void (*visit)(struct dmi_op *op, void *arg), void *arg);

/* The page of the operation with this number, and its mapping with one more reference (which may
 * have been unmapped meanwhile).  NULL: there is no such operation (any more). */
struct dmi_page *dmi_ops_page(struct dmi_ops *ops, dmi_op_t number, struct dmi_mapping **mapping);

/* With its page locked: true if it is still in flight. */
bool dmi_ops_waits(struct dmi_ops *ops, const struct dmi_op *op);

/* With this page locked: the operation on it that an answer with this number is for.  NULL: there
 * is none, or it has asked nobody.  It stays until the page is unlocked. */
struct dmi_op *dmi_ops_find(struct dmi_ops *ops, dmi_op_t number, const struct dmi_page *page);

#endif
