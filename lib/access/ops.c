/*
 * ops.c - see ops.h.  One lock, held for a few instructions; only accesses that miss come here.
 */
#include "access/ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "access/access.h"

#define NONE UINT32_MAX

struct slot {
  struct dmi_op *op; /* NULL: free */
  uint32_t uses;     /* upper half of the number */
  uint32_t seen;     /* the same, of the operation that was here at the last dmi_ops_look */
  uint32_t next_free;
  /* The owner completes it without waiting for others (R11).  Noted when it begins: later another
   * thread may change the type, under the page's lock. */
  bool prompt;
};

struct dmi_ops {
  _Atomic uint32_t lock; /* guards all below */
  uint32_t num, free;    /* slots; first free one */
  struct slot *slot;
  _Atomic uint64_t out; /* operations in the table that take effect by themselves (dmi_ops_any);
                           written with the lock held */
};

struct dmi_ops *dmi_ops_new(void) {
  struct dmi_ops *ops = calloc(1, sizeof(*ops));
  if (ops) ops->free = NONE;
  return ops;
}

void dmi_ops_free(struct dmi_ops *ops) {
  if (!ops) return;
  free(ops->slot);
  free(ops);
}

static void grow(struct dmi_ops *ops) {
  uint32_t num = ops->num ? 2 * ops->num : 64;
  struct slot *more = dmi_xalloc_again(ops->slot, num, sizeof(*more));
  ops->slot = more;
  for (uint32_t i = num; i-- > ops->num;) {
    more[i] = (struct slot){.uses = 1, .next_free = ops->free};
    ops->free = i;
  }
  ops->num = num;
}

static bool counts(const struct dmi_op *op) {
  return op->req.type != DMI_REQ_ATOMIC || op->req.kind != DMI_RMW_WATCH;
}

void dmi_ops_add(struct dmi_ops *ops, struct dmi_op *op) {
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  if (ops->free == NONE) grow(ops);
  op->slot = ops->free;
  ops->free = ops->slot[op->slot].next_free;
  ops->slot[op->slot].op = op;
  ops->slot[op->slot].prompt = op->req.type != DMI_REQ_ATOMIC || op->req.kind < DMI_RMW_LOCK;
  op->req.op = (dmi_op_t){(uint64_t)ops->slot[op->slot].uses << 32 | op->slot};
  if (counts(op)) atomic_fetch_add_explicit(&ops->out, 1, memory_order_relaxed);
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
}

void dmi_ops_remove(struct dmi_ops *ops, struct dmi_op *op) {
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  ops->slot[op->slot].op = NULL;
  ops->slot[op->slot].uses++;
  ops->slot[op->slot].next_free = ops->free;
  ops->free = op->slot;
  if (counts(op)) atomic_fetch_sub(&ops->out, 1);
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
}

bool dmi_ops_look(struct dmi_ops *ops, bool *any) {
  bool old = false;
  *any = false;
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  for (uint32_t i = 0; i < ops->num; i++) {
    struct slot *slot = &ops->slot[i];
    if (!slot->op || !slot->prompt) continue;
    *any = true;
    if (slot->seen == slot->uses) old = true;
    slot->seen = slot->uses;
  }
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
  return old;
}

void dmi_ops_each(struct dmi_ops *ops, void (*visit)(struct dmi_op *op, void *arg), void *arg) {
  for (uint32_t i = 0; i < ops->num; i++) {
    if (ops->slot[i].op) visit(ops->slot[i].op, arg);
  }
}

bool dmi_ops_any(const struct dmi_ops *ops) {
  return atomic_load(&ops->out) != 0;
}

/* Finds an operation by its number.  With the lock held. */
static struct dmi_op *find(const struct dmi_ops *ops, dmi_op_t number) {
  uint32_t at = (uint32_t)number.n;
  if (at >= ops->num || ops->slot[at].uses != (uint32_t)(number.n >> 32)) return NULL;
  return ops->slot[at].op;
}

struct dmi_page *dmi_ops_page(struct dmi_ops *ops, dmi_op_t number, struct dmi_mapping **mapping) {
  struct dmi_op *op;
  struct dmi_page *page = NULL;
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  op = find(ops, number);
  if (op && dmi_mapping_ref(op->mapping)) {
    page = op->page;
    *mapping = op->mapping;
  }
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
  return page;
}

struct dmi_page *dmi_ops_next(struct dmi_ops *ops, uint64_t *at, dmi_op_t *number,
                              struct dmi_mapping **mapping) {
  struct dmi_page *page = NULL;
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  for (; !page && *at < ops->num; (*at)++) {
    struct dmi_op *op = ops->slot[*at].op;
    if (!op || !dmi_mapping_ref(op->mapping)) continue;
    page = op->page;
    *number = op->req.op;
    *mapping = op->mapping;
  }
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
  return page;
}

struct dmi_op *dmi_ops_find(struct dmi_ops *ops, dmi_op_t number, const struct dmi_page *page) {
  struct dmi_op *op;
  dmi_lock(&ops->lock, DMI_RANK_LEAF);
  op = find(ops, number);
  if (op && op->page != page) op = NULL;
  dmi_unlock(&ops->lock, DMI_RANK_LEAF);
  return op && atomic_load_explicit(&op->req.sent, memory_order_relaxed) ? op : NULL;
}
