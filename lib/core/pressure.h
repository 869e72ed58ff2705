/*
 * pressure.h - what a process does when its pool is short of memory: which of its pages leave, when
 * a stalled write goes on or fails, and what it answers to members that ask for memory
 * (docs/replacement.md).
 *
 * Pure: no threads, files or network, and no waiting. There are two sides:
 *
 *   - events: the caller reports what has happened, and wakes the pager.
 *   - the pager, which does one thing after the other: dmi_pressure_next says what; the caller
 *     does it and returns with the result. Events may happen in between.
 *
 * Any thread may call events. What they change is guarded by a lock (rank PAGER, which comes after
 * a page's lock), held for a few instructions. "Pager" marks functions for the one thread that
 * calls dmi_pressure_next; only that thread uses their data.
 */
#ifndef DMI_CORE_PRESSURE_H
#define DMI_CORE_PRESSURE_H

#include "base/pool.h"
#include "core/page.h"
#include "core/replace.h"
#include "core/capacity.h"

struct dmi_pressure;

/* The account is `pool`; `core` tells this process's uid and whether it leaves. `spills`: there
 * is a spill file. Aborts if there is no memory. */
struct dmi_pressure *dmi_pressure_new(struct dmi_core *core, struct dmi_pool *pool, bool spills);
/* From now on no page is stalled. `release` is called for each page that is still pinned
 * (dmi_pressure_stalled, dmi_pressure_offer). */
void dmi_pressure_close(struct dmi_pressure *pressure,
                        void (*release)(void *arg, struct dmi_page *page), void *arg);
/* Closes it, and frees it. */
void dmi_pressure_free(struct dmi_pressure *pressure,
                       void (*release)(void *arg, struct dmi_page *page), void *arg);

/* Deliberate faults, one rule switched off each, for tests: base/mutation.h. */
enum dmi_pressure_break {
  DMI_PRESSURE_BREAK_NOTHING,
  DMI_PRESSURE_BREAK_STALLED,  /* of several pages stalled at once only one is remembered */
  DMI_PRESSURE_BREAK_SETTLE,   /* a refused offer still counts as in flight */
  DMI_PRESSURE_BREAK_PATIENCE, /* a write fails although memory in transient use will become free */
  DMI_PRESSURE_BREAK_FOREVER,  /* ... or waits as long as any memory is in transient use */
  DMI_PRESSURE_BREAK_COPIES,   /* copies are not dropped for members that ask */
  DMI_PRESSURE_BREAK_LEAVING,  /* a process that leaves goes on taking pages */
  DMI_PRESSURE_BREAK_OPEN,     /* ... and so does a process that may not own pages yet */
  DMI_PRESSURE_BREAK_FULL,     /* a page that did not fit into the file counts as evicted */
  DMI_PRESSURE_BREAK_STEP,     /* the end of a step that the pager waits for is not noticed */
  DMI_PRESSURE_BREAK_WATCH,    /* the pool does not wake a pager that owes others a report */
  DMI_PRESSURE_BREAK_SPILLED,  /* an operation that waits for a spilled page fails when there is no
                                  memory */
  DMI_PRESSURE_BREAK_PROMISE,  /* promised memory is not reserved */
  DMI_PRESSURE_BREAK_OTHERS,   /* a write fails although no member was asked for memory */
  DMI_PRESSURE_BREAK_ITSELF,   /* a stalled page is not itself offered */
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
/* A message of class CAPACITY, except a REPORT of kind PROMISE. False: not from a correct peer. */
bool dmi_pressure_message(struct dmi_pressure *pressure, dmi_uid_t from, const struct dmi_msg *msg);
/* A page of `bytes` arrives from a leaver and must be taken: its promise ends. */
void dmi_pressure_taken(struct dmi_pressure *pressure, dmi_uid_t from, uint64_t bytes);

/* This process leaves, and takes nothing more.  Heir 0: nobody takes its pages; it keeps them. */
void dmi_pressure_leave(struct dmi_pressure *pressure, dmi_uid_t heir);
/* It does not leave, because the other members have not enough memory. */
void dmi_pressure_stay(struct dmi_pressure *pressure);
/* Bytes promised to other processes that leave. */
uint64_t dmi_pressure_promised(struct dmi_pressure *pressure);

/* ---- The pager (pressure_look.c)
 * ----------------------------------------------------------------- */

enum dmi_pressure_do {
  /* forget the events so far; before that, if `sleep`, wait for the first one since the last REST
   */
  DMI_PRESSURE_REST,
  DMI_PRESSURE_SETTLE, /* ask what became of the offer of `page` */
  DMI_PRESSURE_CHECK,  /* ask whether `page` is still stalled */
  DMI_PRESSURE_ADMIT,  /* let `page` go on: dmi_pressure_admit with `error` */
  DMI_PRESSURE_SWEEP,  /* evict pages: dmi_pressure_sweep */
  DMI_PRESSURE_OFFER,  /* offer `page`, which is stalled: dmi_pressure_offer */
  DMI_PRESSURE_ARM,    /* count the end of the next step of any page as an event */
  DMI_PRESSURE_DOS
};

/* One action of the pager. */
struct dmi_pressure_action {
  enum dmi_pressure_do type;
  struct dmi_page *page;
  int error;                /* ADMIT */
  bool sleep;               /* REST */
  bool expects;             /* REST with `sleep`: a GRANT of any page sent is an event */
  struct dmi_page *release; /* do this first: unpin this page; NULL: none */
};

/* Results of SETTLE and CHECK. */
enum dmi_pressure_fate {
  DMI_PRESSURE_OUT,    /* SETTLE: no answer yet */
  DMI_PRESSURE_SENT,   /* SETTLE: another process owns it */
  DMI_PRESSURE_BACK,   /* SETTLE: it stays here */
  DMI_PRESSURE_GONE,   /* CHECK: it is not stalled any more */
  DMI_PRESSURE_STALLS, /* CHECK: it is stalled */
  DMI_PRESSURE_SPILLED /* CHECK: it is stalled because its bytes are in the file */
};
enum dmi_pressure_offer {
  DMI_PRESSURE_OFFERED, /* TAKE was sent; the page is pinned until the offer is settled */
  DMI_PRESSURE_NOT_NOW, /* the page is busy */
  DMI_PRESSURE_NOBODY   /* no member is known to have memory */
};

struct dmi_pressure_result {
  enum dmi_pressure_fate fate;   /* SETTLE, CHECK: dmi_pressure_offered, dmi_pressure_stalls */
  uint64_t bytes;                /* SWEEP: bytes that are free now, or soon */
  enum dmi_pressure_offer offer; /* OFFER: dmi_pressure_offer */
  bool yes;                      /* ARM: it was not armed before */
};

/* Pager: the next action. `result` is that of the action before, at first of a REST. `out`:
 * messages, which the pager sends. */
void dmi_pressure_next(struct dmi_pressure *pressure, const struct dmi_pressure_result *result,
                       struct dmi_pressure_action *action, struct dmi_capacity_out *out);

/* With the page locked: the answers to SETTLE and CHECK. */
enum dmi_pressure_fate dmi_pressure_offered(const struct dmi_page *page);
enum dmi_pressure_fate dmi_pressure_stalls(const struct dmi_page *page);

/* Carries out ADMIT, with the page locked. True: it is spilled, and its bytes must be read back
 * into memory that is now reserved for them: dmi_pressure_read_back. */
bool dmi_pressure_admit(struct dmi_pressure *pressure, struct dmi_page *page, int error,
                        struct dmi_out *out);
/* The spilled bytes are back, in memory that is reserved; takes both over. With the page locked.
 * False: the page was overwritten meanwhile. */
bool dmi_pressure_read_back(struct dmi_pressure *pressure, struct dmi_page *page,
                            struct dmi_frame *frame, struct dmi_out *out);

/* ---- A sweep (pressure_sweep.c; Pager) ------------------------------------------------------ */

/* What could be done with a busy page when it is idle again. */
enum dmi_pressure_busy { DMI_PRESSURE_IDLE, DMI_PRESSURE_BUSY, DMI_PRESSURE_BUSY_COPY };

enum dmi_pressure_spill {
  DMI_PRESSURE_WRITTEN,
  DMI_PRESSURE_NOT_IDLE, /* nothing was changed */
  DMI_PRESSURE_FULL      /* the file has no space; the page is unchanged */
};

/* Functions on page records, for a sweep. Each locks what it needs. `map` is a mapping given to
 * dmi_pressure_sweep; it points to a struct dmi_map. */
struct dmi_pressure_env {
  void *arg;
  /* Finds the first record from page number `from` on; fills *look as dmi_pressure_look_at does,
   * and `saved`. False: there is none. */
  bool (*look)(void *arg, void *map, uint64_t from, struct dmi_look *look,
               enum dmi_pressure_busy *busy);
  /* Clears the page's flag USED. */
  void (*spare)(void *arg, void *map, dmi_pageno_t index);
  /* Calls dmi_page_drop. */
  bool (*drop)(void *arg, void *map, dmi_pageno_t index);
  /* Calls dmi_pressure_offer. */
  enum dmi_pressure_offer (*offer)(void *arg, void *map, dmi_pageno_t index);
  /* Calls dmi_page_spill and writes the bytes to the file. */
  enum dmi_pressure_spill (*spill)(void *arg, void *map, dmi_pageno_t index);
};

/* Carries out SWEEP over these mappings. Returns its result. */
uint64_t dmi_pressure_sweep(struct dmi_pressure *pressure, const struct dmi_pressure_env *env,
                            struct dmi_replace_map *map, uint64_t maps);

/* With the page locked: fills *look with how the page may leave. */
enum dmi_pressure_busy dmi_pressure_look_at(const struct dmi_page *page, struct dmi_look *look);

/* Pager, with the page locked: offers it to a member with memory. If OFFERED it is pinned. */
enum dmi_pressure_offer dmi_pressure_offer(struct dmi_pressure *pressure, struct dmi_page *page,
                                           struct dmi_out *out);

#endif
