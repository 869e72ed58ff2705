/*
 * parent.h - follows the process that started this one (dmirun --with-parent): when that one ends,
 * by whatever, this one is asked to leave, and killed after the time of grace.
 */
#ifndef DMI_NODE_PARENT_H
#define DMI_NODE_PARENT_H

#include <stdbool.h>

#include "base/event.h"

struct dmi_parent;

/* Follows process `pid`, which must be our parent; 0: nobody, NULL.  NULL and not *good: event
 * "error" says why that cannot be, mostly since it has ended already.  The kernel sends SIGTERM
 * when it ends.  To be called in the main thread. */
struct dmi_parent *dmi_parent_new(int pid, int grace_seconds, struct dmi_stream *stream,
                                  bool *good);

/* SIGTERM came: from the kernel perhaps. */
void dmi_parent_look(struct dmi_parent *parent);

/* This process ends by itself.  A time of grace that has begun goes on. */
void dmi_parent_free(struct dmi_parent *parent);

#endif
