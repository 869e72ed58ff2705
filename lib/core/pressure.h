/*
 * pressure.h - what a process does when its pool is short of memory: which of its pages leave, when
 * a stalled write goes on or fails, and what it answers to members that ask for memory
 * (docs/replacement.md).
 *
 * Pure: no threads, files or messages, and no waiting.  There are two sides:
 *
 * - events: the caller says what has happened, and wakes the pager.
 * - the pager, which does one thing after the other: dmi_pressure_next says what, the caller does
 *   it and comes back with the result.  Events may come in between.
 *
 * Events may be of any thread: what they change is guarded by a lock of its own (rank PAGER, which
 * comes after a page's lock), held for a few instructions.  "Pager": for the one thread that calls
 * dmi_pressure_next; what these use nobody else touches.
 */
#ifndef DMI_CORE_PRESSURE_H
#define DMI_CORE_PRESSURE_H

#include "base/pool.h"
#include "core/page.h"
#include "core/replace.h"
#include "core/capacity.h"

struct dmi_pressure;

/* The account is `pool`; `core` tells who this is, and whether it leaves.  `spills`: there is a
 * file for pages.  Aborts without memory. */
struct dmi_pressure *dmi_pressure_new(struct dmi_core *core, struct dmi_pool *pool, bool spills);
/* From now on nothing stalls any more.  `release` is called for each page that is still held:
 * dmi_pressure_stalled, dmi_pressure_offer. */
void dmi_pressure_close(struct dmi_pressure *pressure,
                        void (*release)(void *arg, struct dmi_page *page), void *arg);
/* Closes it, and frees it. */
void dmi_pressure_free(struct dmi_pressure *pressure,
                       void (*release)(void *arg, struct dmi_page *page), void *arg);

/* Deliberate faults, one rule switched off each, for tests: base/mutation.h. */
enum dmi_pressure_break {
  DMI_PRESSURE_BREAK_NOTHING,
  DMI_PRESSURE_BREAK_STALLED,  /* of several pages that stall at once, only one is remembered */
  DMI_PRESSURE_BREAK_SETTLE,   /* an offer that was refused remains under way */
  DMI_PRESSURE_BREAK_PATIENCE, /* a write fails although memory in transient use will become free */
  DMI_PRESSURE_BREAK_FOREVER,  /* ... or waits as long as any is in use so */
  DMI_PRESSURE_BREAK_COPIES,   /* copies are not dropped for those who ask */
  DMI_PRESSURE_BREAK_LEAVING,  /* a process that leaves goes on taking pages */
  DMI_PRESSURE_BREAK_OPEN,     /* ... and so does a process that may not own pages yet */
  DMI_PRESSURE_BREAK_FULL,     /* a page that a full file did not take counts as gone */
  DMI_PRESSURE_BREAK_STEP,     /* the end of a step that was waited for is not noticed */
  DMI_PRESSURE_BREAK_WATCH,    /* the pool does not wake a pager that owes others a report */
  DMI_PRESSURE_BREAK_SPILLED,  /* an operation that waits for a spilled page fails when there is no
                                  memory */
  DMI_PRESSURE_BREAK_PROMISE,  /* what is promised is not reserved */
  DMI_PRESSURE_BREAK_OTHERS,   /* a write fails although no member was asked for memory */
  DMI_PRESSURE_BREAK_ITSELF,   /* a page that stalls is not offered itself */
  DMI_PRESSURE_BREAK_BEFORE,   /* a write fails since members had no memory before it stalled */
  DMI_PRESSURE_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_pressure_set_break(struct dmi_pressure *pressure, enum dmi_pressure_break broken,
                            enum dmi_capacity_break capacity);
#endif

/* ---- Events (pressure_events.c): behind each the pager is to look ------------------------------
 */

/* DMI_ACT_STALLED: a page waits for memory. It is pinned until an action's `release`.  False: it is
 * closed. */
bool dmi_pressure_stalled(struct dmi_pressure *pressure, struct dmi_page *page);
/* A page that was offered to a member was sent back. */
void dmi_pressure_kept(struct dmi_pressure *pressure, dmi_uid_t from);
/* This process may own pages from now on. */
void dmi_pressure_open(struct dmi_pressure *pressure);
/* The other members. */
void dmi_pressure_view(struct dmi_pressure *pressure, const dmi_uid_t *uid, uint64_t num);
/* A message, but no REPORT of kind PROMISE.  False: not from a correct peer. */
bool dmi_pressure_message(struct dmi_pressure *pressure, dmi_uid_t from, const struct dmi_msg *msg);
/* A page of `bytes` comes from a process that leaves, and must be taken: its promise ends. */
void dmi_pressure_taken(struct dmi_pressure *pressure, dmi_uid_t from, uint64_t bytes);

/* This process leaves, and takes nothing more.  Heir 0: nobody takes its pages; it keeps them. */
void dmi_pressure_leave(struct dmi_pressure *pressure, dmi_uid_t heir);
/* It does not leave, as there is not enough memory elsewhere. */
void dmi_pressure_stay(struct dmi_pressure *pressure);
/* Bytes promised to others that leave. */
uint64_t dmi_pressure_promised(struct dmi_pressure *pressure);

/* ---- The pager (pressure_look.c)
 * ----------------------------------------------------------------- */

enum dmi_pressure_do {
  DMI_PRESSURE_REST, /* begin to count events anew; before it, with `sleep`, wait for the first one
                        since the last REST */
  DMI_PRESSURE_SETTLE, /* `page` was offered: how does it stand? */
  DMI_PRESSURE_CHECK,  /* does `page` still stall? */
  DMI_PRESSURE_ADMIT,  /* `page` goes on: dmi_pressure_admit with `error` */
  DMI_PRESSURE_SWEEP,  /* have pages leave: dmi_pressure_sweep */
  DMI_PRESSURE_OFFER,  /* `page`, which stalls, is offered: dmi_pressure_offer */
  DMI_PRESSURE_ARM,    /* count the end of the next step of any page as an event */
  DMI_PRESSURE_DOS
};

/* One thing to be done by the pager. */
struct dmi_pressure_action {
  enum dmi_pressure_do type;
  struct dmi_page *page;
  int error;                /* ADMIT */
  bool sleep;               /* REST */
  bool expects;             /* REST with `sleep`: a GRANT of any page sent is an event */
  struct dmi_page *release; /* first of all: this page is not pinned any more; NULL: none */
};

/* What became of it. */
enum dmi_pressure_fate {
  DMI_PRESSURE_OUT,    /* SETTLE: no answer yet */
  DMI_PRESSURE_SENT,   /* SETTLE: another process owns it */
  DMI_PRESSURE_BACK,   /* SETTLE: it stays here */
  DMI_PRESSURE_GONE,   /* CHECK: it does not stall any more */
  DMI_PRESSURE_STALLS, /* CHECK */
  DMI_PRESSURE_SPILLED /* CHECK: it stalls, for its bytes are outside */
};
enum dmi_pressure_offer {
  DMI_PRESSURE_OFFERED, /* TAKE was sent; the page is held until it is settled */
  DMI_PRESSURE_NOT_NOW, /* it is busy */
  DMI_PRESSURE_NOBODY   /* no member is known to have memory */
};

struct dmi_pressure_result {
  enum dmi_pressure_fate fate;   /* SETTLE, CHECK: dmi_pressure_offered, dmi_pressure_stalls */
  uint64_t bytes;                /* SWEEP: that are free now, or soon */
  enum dmi_pressure_offer offer; /* OFFER: dmi_pressure_offer */
  bool yes;                      /* ARM: it was not armed before */
};

/* Pager.  `result` is that of the action before; at first that of a REST.  `out`: messages, which
 * the pager sends. */
void dmi_pressure_next(struct dmi_pressure *pressure, const struct dmi_pressure_result *result,
                       struct dmi_pressure_action *action, struct dmi_capacity_out *out);

/* With the page locked: the answers to SETTLE and CHECK. */
enum dmi_pressure_fate dmi_pressure_offered(const struct dmi_page *page);
enum dmi_pressure_fate dmi_pressure_stalls(const struct dmi_page *page);

/* ADMIT; with the page locked.  True: it is spilled, and its bytes have to be read back into the
 * room that is reserved for them: dmi_pressure_read_back. */
bool dmi_pressure_admit(struct dmi_pressure *pressure, struct dmi_page *page, int error,
                        struct dmi_out *out);
/* The bytes that were spilled come back into room that is reserved; takes both over.  With the page
 * locked.  False: the page was overwritten meanwhile. */
bool dmi_pressure_read_back(struct dmi_pressure *pressure, struct dmi_page *page,
                            struct dmi_frame *frame, struct dmi_out *out);

/* ---- A sweep (pressure_sweep.c; Pager) ------------------------------------------------------ */

/* What a page that is not idle may become when it is. */
enum dmi_pressure_busy { DMI_PRESSURE_IDLE, DMI_PRESSURE_BUSY, DMI_PRESSURE_BUSY_COPY };

enum dmi_pressure_spill {
  DMI_PRESSURE_WRITTEN,
  DMI_PRESSURE_NOT_IDLE, /* nothing was changed */
  DMI_PRESSURE_FULL      /* the file did not take it; the page is as it was */
};

/* The page records, for a sweep.  Each locks what it needs, if anything.  `map`: as given to
 * dmi_pressure_sweep; it points to a struct dmi_map. */
struct dmi_pressure_env {
  void *arg;
  /* The first record from page number `from` on, as dmi_pressure_look_at sees it, and `saved`.
   * False: there is none. */
  bool (*look)(void *arg, void *map, uint64_t from, struct dmi_look *look,
               enum dmi_pressure_busy *busy);
  /* Clears the page's flag USED. */
  void (*spare)(void *arg, void *map, dmi_pageno_t index);
  /* dmi_page_drop. */
  bool (*drop)(void *arg, void *map, dmi_pageno_t index);
  /* dmi_pressure_offer. */
  enum dmi_pressure_offer (*offer)(void *arg, void *map, dmi_pageno_t index);
  /* dmi_page_spill, and the bytes go to the file. */
  enum dmi_pressure_spill (*spill)(void *arg, void *map, dmi_pageno_t index);
};

/* SWEEP, over these mappings.  Returns its result. */
uint64_t dmi_pressure_sweep(struct dmi_pressure *pressure, const struct dmi_pressure_env *env,
                            struct dmi_replace_map *map, uint64_t maps);

/* With the page locked: may it leave, and how? */
enum dmi_pressure_busy dmi_pressure_look_at(const struct dmi_page *page, struct dmi_look *look);

/* Pager, and with the page locked: offers it to a member with room.  If OFFERED it is held. */
enum dmi_pressure_offer dmi_pressure_offer(struct dmi_pressure *pressure, struct dmi_page *page,
                                           struct dmi_out *out);

#endif
