/*
 * replace.h - which pages leave the pool, and where to: the policy (docs/replacement.md, "The
 * order").
 *
 * Pure: it sees page records and members through what the caller shows it, and says what goes.
 * Nothing is kept for a page but its bit USED, and for a mapping where its clock hand stands.
 */
#ifndef DMI_CORE_REPLACE_H
#define DMI_CORE_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

/* In the order in which pages of one size go. */
enum dmi_class {
  DMI_CLASS_NONE,   /* not now */
  DMI_CLASS_COPY,   /* not owned here: dropped */
  DMI_CLASS_SHARED, /* owned, and others may have copies */
  DMI_CLASS_SOLE    /* owned, the only bytes there are */
};

/* A page record, as far as the policy cares. */
struct dmi_look {
  dmi_pageno_t index;
  bool droppable; /* a copy that could be dropped at once */
  bool offerable; /* owned, has bytes, and nothing goes on with it: could be given away */
  bool shared;    /* owned: others may have copies */
  bool saved;     /* DMI_save */
  bool used;      /* read or written since the hand passed last */
};

enum dmi_class dmi_replace_class(const struct dmi_look *look);

/* A mapping.  The caller keeps the hand from one sweep to the next; at first it is 0. */
struct dmi_replace_map {
  void *map;          /* the caller's */
  uint64_t page_size; /* bytes */
  uint64_t *hand;     /* number of the page to be looked at next */
};

/* What `go` may return instead of bytes: no page of this size and class can go now. */
#define DMI_REPLACE_NOWHERE UINT64_MAX

struct dmi_replace_env {
  void *arg;
  /* The first record of a page from `from` on; false: there is none. */
  bool (*look)(void *arg, void *map, uint64_t from, struct dmi_look *look);
  /* Clears the page's bit USED. */
  void (*spare)(void *arg, void *map, dmi_pageno_t index);
  /* This page is to go, if it still can.  Returns the bytes that this frees, now or soon; 0: none.
   */
  uint64_t (*go)(void *arg, void *map, dmi_pageno_t index, enum dmi_class class);
};

#define DMI_REPLACE_MOST 1024 /* pages of a class that one sweep gives away */

/* Room for a sweep to work in; the caller's, at first all zero. */
struct dmi_replace {
  uint64_t turn; /* sweeps so far: which of several mappings with pages of one size comes first */
  struct dmi_replace_found {
    uint64_t num;
    struct {
      uint64_t map, index;
    } page[DMI_REPLACE_MOST];
  } found[2];     /* SHARED, SOLE */
  uint64_t looks; /* records that the last sweep has looked at */
};

/*
 * Has pages go, in the order of docs/replacement.md, until `need` bytes are freed or on their way,
 * or nothing more can go.  Returns how many are.  Of the classes only those up to `last`: COPY,
 * only copies are dropped.  `map` comes back sorted.
 *
 * At most 2 x (all records) + (number of mappings) x 2 looks.
 */
uint64_t dmi_replace_sweep(struct dmi_replace *work, const struct dmi_replace_env *env,
                           struct dmi_replace_map *map, uint64_t num, uint64_t need,
                           enum dmi_class last);

/* A member, and how much more of others' pages it can take. */
struct dmi_replace_member {
  dmi_uid_t uid;
  uint64_t capacity; /* bytes */
};

/* Where a page of `bytes` goes: to one that may have a copy (`holder`: their uids) and has room,
 * since no bytes travel then; else to the one with the most room.  0: nobody has room for it. */
dmi_uid_t dmi_replace_target(const struct dmi_replace_member *member, uint64_t num,
                             const dmi_uid_t *holder, uint64_t holders, uint64_t bytes);

#endif
