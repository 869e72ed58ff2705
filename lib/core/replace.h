/*
 * replace.h - which pages leave the pool, and where to: the policy (docs/replacement.md, "The
 * order").
 *
 * Pure: the caller's functions show it page records and members, and evict what it picks. The only
 * state is a bit USED for each page and a clock hand for each mapping.
 */
#ifndef DMI_CORE_REPLACE_H
#define DMI_CORE_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

/* Classes of pages, in the order in which pages of one size leave. */
enum dmi_class {
  DMI_CLASS_NONE,   /* cannot leave now */
  DMI_CLASS_COPY,   /* not owned here: dropped */
  DMI_CLASS_SHARED, /* owned, and others may have copies */
  DMI_CLASS_SOLE    /* owned, and there are no copies */
};

/* What the policy needs of a page record. */
struct dmi_look {
  dmi_pageno_t index;
  bool droppable; /* it is a copy that can be dropped at once */
  bool offerable; /* it is owned, has bytes and is idle: it can be offered */
  bool shared;    /* owned: others may have copies */
  bool saved;     /* by DMI_save: it stays */
  bool used;      /* read or written since the hand last passed */
};

enum dmi_class dmi_replace_class(const struct dmi_look *look);

/* A mapping.  The caller keeps the hand from one sweep to the next; at first it is 0. */
struct dmi_replace_map {
  void *map;          /* for the caller's functions */
  uint64_t page_size; /* bytes */
  uint64_t *hand;     /* the next page number */
};

/* `go` may return this instead of bytes: no page of this size and class can leave now. */
#define DMI_REPLACE_NOWHERE UINT64_MAX

struct dmi_replace_env {
  void *arg;
  /* Finds the first page record from number `from` on. False: there is none. */
  bool (*look)(void *arg, void *map, uint64_t from, struct dmi_look *look);
  /* Clears the page's bit USED. */
  void (*spare)(void *arg, void *map, dmi_pageno_t index);
  /* Evicts this page if it still can leave. Returns the bytes that this frees, now or soon; 0:
   * none. */
  uint64_t (*go)(void *arg, void *map, dmi_pageno_t index, enum dmi_class class);
};

#define DMI_REPLACE_MOST 1024 /* most noted pages of a class in one sweep */

/* Working memory of a sweep; the caller keeps it, at first all zero. */
struct dmi_replace {
  uint64_t turn; /* number of sweeps: rotates the order of mappings with pages of one size */
  struct dmi_replace_found {
    uint64_t num;
    struct {
      uint64_t map, index;
    } page[DMI_REPLACE_MOST];
  } found[2];     /* SHARED, SOLE */
  uint64_t looks; /* records that the last sweep has read */
};

/* Evicts pages in the order of docs/replacement.md until `need` bytes are freed or in flight, or
 * nothing more can leave. Returns these bytes. Only classes up to `last` leave: with COPY only
 * copies are dropped. Sorts `map`. At most 2 x (all records) + (number of mappings) x 2 calls of
 * `look`. */
uint64_t dmi_replace_sweep(struct dmi_replace *work, const struct dmi_replace_env *env,
                           struct dmi_replace_map *map, uint64_t num, uint64_t need,
                           enum dmi_class last);

/* A member and its free memory for other members' pages. */
struct dmi_replace_member {
  dmi_uid_t uid;
  uint64_t capacity; /* bytes */
};

/* The member to which a page of `bytes` is offered: one that may have a copy (`holder`: their
 * uids) and has memory, because then no bytes are sent; otherwise the one with the most memory.
 * 0: no member has enough. */
dmi_uid_t dmi_replace_target(const struct dmi_replace_member *member, uint64_t num,
                             const dmi_uid_t *holder, uint64_t holders, uint64_t bytes);

#endif
