/*
 * parent.h - follows the process that started this one (dmirun --with-parent): when that one ends
 * for any reason, this one asks to leave, and is killed after the grace period.
 */
#ifndef DMI_NODE_PARENT_H
#define DMI_NODE_PARENT_H

#include <stdbool.h>

#include "base/event.h"

struct dmi_parent;

/* Follows process `pid`, which must be our parent; 0: none, and the result is NULL.  NULL and *good
 * false: event "error" says why it cannot be followed; usually it has ended already.  The kernel
 * sends SIGTERM when it ends.  To be called in the main thread. */
struct dmi_parent *dmi_parent_new(int pid, int grace_seconds, struct dmi_stream *stream,
                                  bool *good);

/* SIGTERM came, perhaps from the kernel: looks whether the parent has ended. */
void dmi_parent_look(struct dmi_parent *parent);

/* This process ends by itself.  A grace period that has begun goes on. */
void dmi_parent_free(struct dmi_parent *parent);

#endif
