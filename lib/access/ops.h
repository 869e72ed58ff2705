/*
 * ops.h - the table of operations in flight: number -> operation.
 *
 * A number is made of a slot and how often it was used, so that a late or forged answer finds no
 * operation.
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
/* Takes out a complete operation.  Its page must be locked, so that an operation that others have
 * found with the page locked stays. */
void dmi_ops_remove(struct dmi_ops *ops, struct dmi_op *op);

/* True if an operation is in flight that takes effect even if no thread waits for it.  That is any
 * but DMI_watch, which alone keeps no process from ending. */
bool dmi_ops_any(const struct dmi_ops *ops);

/* True if an operation is in flight that was so at the last call, and that its owner completes
 * without waiting for others.  *any: there is any operation of that kind. */
bool dmi_ops_look(struct dmi_ops *ops, bool *any);

/* Visits all operations in the table.  At the end of the process, when nothing else uses it. */
void dmi_ops_each(struct dmi_ops *ops, void (*visit)(struct dmi_op *op, void *arg), void *arg);

/* The page of the operation with this number, and its mapping with a further reference; it may have
 * been unmapped meanwhile.  NULL: there is no such operation (any more). */
struct dmi_page *dmi_ops_page(struct dmi_ops *ops, dmi_op_t number, struct dmi_mapping **mapping);

/* The page of the first operation from place *at on, its number, and its mapping with a further
 * reference; *at becomes the place behind it.  NULL: there is none. */
struct dmi_page *dmi_ops_next(struct dmi_ops *ops, uint64_t *at, dmi_op_t *number,
                              struct dmi_mapping **mapping);

/* The operation on this page that an answer with this number is for; it stays until the page is
 * unlocked.  NULL: there is none, or it has sent no request.  With the page locked. */
struct dmi_op *dmi_ops_find(struct dmi_ops *ops, dmi_op_t number, const struct dmi_page *page);

#endif
