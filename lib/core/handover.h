/*
 * handover.h - handing over homes and pages when a process leaves, and receiving them
 * (docs/protocol.md, R8); removed members' homes; forgetting mappings (R10).
 *
 * Pure: no sockets, threads or clocks.  Mappings, page records and their locks are the caller's and
 * are reached by way of `struct dmi_handover_env`: the product locks there, the simulator does not.
 * Only one thread calls (the daemon), the one that adds and removes mappings; others may run steps
 * of pages meanwhile.
 *
 * Use: call an event function, carry out the actions of `out` in order, then the next event.  After
 * an event, and whenever a step of some page is over, dmi_handover_go_on is called until it is
 * false.
 *
 *     +---- too little ---+   (to where it came from)
 *     v      heir         |  promised       HOME_BEGIN sent       home := heir
 *   STAYS -------------> ASKS --------> HOMES ------------> BEGUN -------------> TAILS --+
 *     | no heir           ^              |  ^                                            |
 *     v      heir         |              |  +------------------ HOME_END sent -----------+
 *   NO_HEIR --------------+              | no home is left
 *                                        v   nothing owned, HOME_DONE for each    no copy
 *                                      PAGES --------------------------> COPIES ---------> DRAINED
 */
#ifndef DMI_CORE_HANDOVER_H
#define DMI_CORE_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/out.h"
#include "core/page.h"
#include "core/promise.h"

/* ---- Surroundings --------------------------------------------------------------------------- */

/* Mappings and page records; each function is given `arg`. */
struct dmi_handover_env {
  void *arg;

  /* The mapping that begins at `base`; NULL: it is not known here. */
  struct dmi_map *(*find)(void *arg, uint64_t base);
  /* Makes the mapping known, which it is not, with the values of `what`. */
  void (*enter)(void *arg, const struct dmi_map *what);
  /* It is not known any more and no record of it is made from now on.  The caller has a reference
   * now. */
  void (*forget)(void *arg, struct dmi_map *map);
  /* The first mapping that begins behind this address.  NULL: there is none. */
  struct dmi_map *(*next_map)(void *arg, uint64_t base);
  /* A reference: the mapping and its records stay.  False: it is going already. */
  bool (*ref)(void *arg, struct dmi_map *map);
  void (*unref)(void *arg, struct dmi_map *map);

  /* From `hold` to `release` no record of the mapping is made by others. */
  void (*hold)(void *arg, struct dmi_map *map);
  void (*release)(void *arg, struct dmi_map *map);
  /* Sets map->arriving to 0, and takes what was kept by DMI_ACT_DEFER out, to be replayed at
   * DMI_ACT_REPLAY.  In one, as seen by PARK. */
  void (*arrived)(void *arg, struct dmi_map *map);

  /* The record of a page, locked; `make`: made if need be.  NULL: there is none, and (`make`) the
   * mapping is going or there is no memory. */
  struct dmi_page *(*record)(void *arg, struct dmi_map *map, dmi_pageno_t index, bool make);
  /* The first record of a page from number `from` on, locked.  NULL: there is none. */
  struct dmi_page *(*next_record)(void *arg, struct dmi_map *map, uint64_t from);
  void (*unlock)(void *arg, struct dmi_page *page);
  /* Ends a step of the page: its actions are carried out (`out` is freed), those that send before
   * the page is unlocked. */
  void (*step_end)(void *arg, struct dmi_page *page, struct dmi_out *out);
};

/* Deliberate faults, one rule switched off each: base/mutation.h. */
enum dmi_handover_break {
  DMI_HBREAK_NOTHING,
  DMI_HBREAK_END,    /* R8.1: HOME_END goes before the tails */
  DMI_HBREAK_LIST,   /* R8.1: the list is made before the heir is the home */
  DMI_HBREAK_RECORD, /* R8.1: only tails that differ from the leaver are told */
  DMI_HBREAK_PAGES,  /* R8.3: the pages to offer are collected before the homes are over */
  DMI_HBREAK_DONE,   /* R8.4: HOME_DONE is not waited for */
  DMI_HBREAK_OWNED,  /* R8.4: nor is it that nothing is owned */
  DMI_HBREAK_COPY,   /* R8.4: drained with a copy left */
  DMI_HBREAK_PARK,   /* R8.2: the heir does not wait for HOME_END before it decides */
  DMI_HBREAK_REPLAY, /* R8.2: what was kept until HOME_END is forgotten */
  DMI_HBREAK_NEVER,  /* R8.2: a page that was never asked for does not become the heir's */
  DMI_HBREAK_LOOKUP, /* TAKE of an unknown mapping is obeyed without asking the directory */
  DMI_HBREAK_KEEP,   /* a page that is refused is not told of */
  DMI_HBREAK_HEIR,   /* homes of who has left do not go to its heir */
  DMI_HBREAK_KILL,   /* R10: what waits at a mapping that is forgotten is not told */
  DMI_HBREAK_LAST
};

/* ---- One process's side --------------------------------------------------------------------- */

enum dmi_handover_state {
  DMI_HANDOVER_STAYS,
  DMI_HANDOVER_NO_HEIR, /* dismissed as the last one: the pages stay */
  DMI_HANDOVER_ASKS,    /* who takes its pages? */
  DMI_HANDOVER_HOMES,   /* the next home is to be given to the heir */
  DMI_HANDOVER_BEGUN,   /* HOME_BEGIN was sent; this process still decides as the home */
  DMI_HANDOVER_TAILS,   /* the heir is the home; tails are to be sent */
  DMI_HANDOVER_PAGES,   /* pages are offered; HOME_DONE and OWN come */
  DMI_HANDOVER_COPIES,  /* owns nothing; waits until its copies can be dropped */
  DMI_HANDOVER_DRAINED,
  DMI_HANDOVER_STATES
};

struct dmi_handover;

/* `core` and `env` must live as long.  Never NULL. */
struct dmi_handover *dmi_handover_new(struct dmi_core *core, const struct dmi_handover_env *env);
/* Also in the middle of everything: gives all references back. */
void dmi_handover_free(struct dmi_handover *h);
#ifdef DMI_MUTATIONS
void dmi_handover_set_break(struct dmi_handover *h, enum dmi_handover_break broken,
                            enum dmi_capacity_break promises);
/* Where pages go instead of to those who have promised memory for them; NULL: to these. */
void dmi_handover_set_receiver(struct dmi_handover *h,
                               dmi_uid_t (*receiver)(void *arg, uint64_t bytes));
#endif
/* For tests: entries of a HOME_TAILS, and bytes of pages that are on their way at a time. */
void dmi_handover_set_sizes(struct dmi_handover *h, uint64_t tails, uint64_t bytes);

enum dmi_handover_state dmi_handover_state(const struct dmi_handover *h);
/* The table of docs/protocol.md.  Debug builds assert it at each move. */
bool dmi_handover_may(enum dmi_handover_state from, enum dmi_handover_state to);

/* ---- Events ---------------------------------------------------------------------------------- */

/* The process leaves; heir 0: nobody takes its pages.  DRAINED answers it, or STAYS: the members
 * have not enough memory.  In state ASKS it may go on only when nothing is promised to others here.
 */
void dmi_handover_begin(struct dmi_handover *h, dmi_uid_t heir, struct dmi_out *out);
/* Does the next small thing that a leave has to do now.  False: there is none, until something has
 * happened. */
bool dmi_handover_go_on(struct dmi_handover *h, struct dmi_out *out);

/* The other members. */
void dmi_handover_view(struct dmi_handover *h, const dmi_uid_t *uid, uint64_t num);
/* CAPACITY_REPORT of a member; one of kind PROMISE answers what it was asked for.  False: not from
 * a correct peer. */
bool dmi_handover_report(struct dmi_handover *h, dmi_uid_t from, const struct dmi_msg *msg);

/* HOME_*, TAKE and REFUSE_PAGE.  Takes the slices of msg over.  False: not from a correct peer; the
 * actions are to be carried out all the same. */
bool dmi_handover_message(struct dmi_handover *h, dmi_uid_t from, struct dmi_msg *msg,
                          struct dmi_out *out);
/* Answer to LOOKUP.  NULL: there is no such mapping. */
void dmi_handover_found(struct dmi_handover *h, uint64_t number, struct dmi_map *map,
                        struct dmi_out *out);

/* A view without `uid`, whose homes go to `heir`; 0: it had none. */
void dmi_handover_removed(struct dmi_handover *h, dmi_uid_t uid, dmi_uid_t heir);
/* FORGET: the mapping is unmapped.  Not known: nothing to do. */
void dmi_handover_forget(struct dmi_handover *h, uint64_t base, struct dmi_out *out);

#endif
