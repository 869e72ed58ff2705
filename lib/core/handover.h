/*
 * handover.h - handing over homes and pages when a process leaves, and receiving them
 * (docs/protocol.md, R8); removed members' homes; forgetting mappings (R10).
 *
 * Pure: no sockets, threads or clocks. The caller has the mappings, page records and their locks;
 * they are used through `struct dmi_handover_env`, where the product locks and the simulator does
 * not. Only one thread may call (the daemon), the one that adds and removes mappings; other threads
 * may run steps of pages meanwhile.
 *
 * Use: call an event function, carry out the actions of `out` in order, then the next event. After
 * an event, and after a step of any page, call dmi_handover_go_on until it returns false.
 *
 *     +---- too little ---+   (to where it came from)
 *     v      heir         |  promised       HOME_BEGIN sent       home := heir
 *   STAYS -------------> ASKS --------> HOMES ------------> BEGUN -------------> TAILS --+
 *     | no heir           ^              |  ^                                            |
 *     v      heir         |              |  +------------------ HOME_END sent -----------+
 *   NO_HEIR --------------+              | no home is left
 *                                        v   nothing owned, HOME_DONE for each    no copy
 *                                      PAGES --------------------------> COPIES ---------> DRAINED
 *   HOMES, PAGES, COPIES: RESUME after a loss: HOMES
 *   ASKS ... DRAINED, not BEGUN, TAILS: the heir is lost: STAYS, or NO_HEIR if it was in that
 */
#ifndef DMI_CORE_HANDOVER_H
#define DMI_CORE_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/out.h"
#include "core/page.h"
#include "core/promise.h"

/* ---- Surroundings --------------------------------------------------------------------------- */

/* Functions on mappings and page records; `arg` is passed to each. */
struct dmi_handover_env {
  void *arg;

  /* The mapping that begins at `base`; NULL: not known here. */
  struct dmi_map *(*find)(void *arg, uint64_t base);
  /* Makes an unknown mapping known, with the values of `what`. */
  void (*enter)(void *arg, const struct dmi_map *what);
  /* Forgets the mapping: no record of it is made any more. The caller gets a reference. */
  void (*forget)(void *arg, struct dmi_map *map);
  /* The first mapping that begins above this address. NULL: there is none. */
  struct dmi_map *(*next_map)(void *arg, uint64_t base);
  /* Takes a reference, which keeps the mapping and its records. False: it is being freed
   * already. */
  bool (*ref)(void *arg, struct dmi_map *map);
  void (*unref)(void *arg, struct dmi_map *map);

  /* Between `hold` and `release` no other thread makes a record of the mapping. */
  void (*hold)(void *arg, struct dmi_map *map);
  void (*release)(void *arg, struct dmi_map *map);
  /* Sets map->arriving to 0, and takes out the messages that DMI_ACT_DEFER kept, for
   * DMI_ACT_REPLAY. Both at once, as seen by DEFER. */
  void (*arrived)(void *arg, struct dmi_map *map);

  /* The record of a page, locked; `make`: makes it if necessary. NULL: there is none; with
   * `make`: the mapping is being freed or there is no memory. */
  struct dmi_page *(*record)(void *arg, struct dmi_map *map, dmi_pageno_t index, bool make);
  /* The first page record from number `from` on, locked. NULL: there is none. */
  struct dmi_page *(*next_record)(void *arg, struct dmi_map *map, uint64_t from);
  void (*unlock)(void *arg, struct dmi_page *page);
  /* Ends a step of the page: carries out its actions (and frees `out`) and unlocks the page;
   * messages are sent before that. */
  void (*step_end)(void *arg, struct dmi_page *page, struct dmi_out *out);
};

/* Loops: over all mappings; over all records of a mapping, locked: the body must end with `unlock`
 * or `step_end` of the page. */
#define DMI_EACH_MAP(env, map)                        \
  for ((map) = (env)->next_map((env)->arg, 0); (map); \
       (map) = (env)->next_map((env)->arg, (map)->base))
#define DMI_EACH_RECORD(env, map, page)                           \
  for ((page) = (env)->next_record((env)->arg, (map), 0); (page); \
       (page) = (env)->next_record((env)->arg, (map), (page)->index + 1))

/* Deliberate faults, one rule switched off each: base/mutation.h. */
enum dmi_handover_break {
  DMI_HBREAK_NOTHING,
  DMI_HBREAK_END,     /* R8.1: HOME_END goes before the tails */
  DMI_HBREAK_LIST,    /* R8.1: the list is made before the heir is the home */
  DMI_HBREAK_RECORD,  /* R8.1: only tails other than the leaver are sent */
  DMI_HBREAK_PAGES,   /* R8.3: pages are collected before all homes are handed over */
  DMI_HBREAK_DONE,    /* R8.4: it does not wait for HOME_DONE */
  DMI_HBREAK_OWNED,   /* R8.4: it does not wait until nothing is owned */
  DMI_HBREAK_COPY,    /* R8.4: it is drained although it has a copy */
  DMI_HBREAK_DEFER,   /* R8.2: the heir does not wait for HOME_END before it decides */
  DMI_HBREAK_REPLAY,  /* R8.2: messages kept until HOME_END are forgotten */
  DMI_HBREAK_NEVER,   /* R8.2: a page that no process asked for does not become the heir's */
  DMI_HBREAK_LOOKUP,  /* TAKE of an unknown mapping is accepted without asking the directory */
  DMI_HBREAK_REFUSED, /* a refused page is not reported */
  DMI_HBREAK_HEIR,    /* homes of a member that left do not go to its heir */
  DMI_HBREAK_KILL,    /* R10: what waits for pages of a forgotten mapping gets no answer */
  DMI_HBREAK_LAST
};

/* ---- One process's side --------------------------------------------------------------------- */

enum dmi_handover_state {
  DMI_HANDOVER_STAYS,
  DMI_HANDOVER_NO_HEIR, /* dismissed as the last one: the pages stay */
  DMI_HANDOVER_ASKS,    /* asks the members to take its pages */
  DMI_HANDOVER_HOMES,   /* hands the next home to the heir */
  DMI_HANDOVER_BEGUN,   /* HOME_BEGIN was sent; this process still decides as the home */
  DMI_HANDOVER_TAILS,   /* the heir is the home; tails are being sent */
  DMI_HANDOVER_PAGES,   /* pages are offered; HOME_DONE and OWN arrive */
  DMI_HANDOVER_COPIES,  /* owns nothing; waits until its copies can be dropped */
  DMI_HANDOVER_DRAINED,
  DMI_HANDOVER_STATES
};

struct dmi_handover;

/* `core` and `env` must live as long as the result. Never returns NULL. */
struct dmi_handover *dmi_handover_new(struct dmi_core *core, const struct dmi_handover_env *env);
/* Possible in any state: drops all references. */
void dmi_handover_free(struct dmi_handover *h);
#ifdef DMI_MUTATIONS
void dmi_handover_set_break(struct dmi_handover *h, enum dmi_handover_break broken,
                            enum dmi_capacity_break promises);
/* Chooses the receivers of pages instead of the members that have promised memory; NULL: those
 * members. */
void dmi_handover_set_receiver(struct dmi_handover *h,
                               dmi_uid_t (*receiver)(void *arg, uint64_t bytes));
#endif
/* For tests: most entries of a HOME_TAILS, and most bytes of pages in flight. */
void dmi_handover_set_sizes(struct dmi_handover *h, uint64_t tails, uint64_t bytes);

enum dmi_handover_state dmi_handover_state(const struct dmi_handover *h);
/* True if the table of docs/protocol.md allows this transition. Debug builds check each one. */
bool dmi_handover_may(enum dmi_handover_state from, enum dmi_handover_state to);

/* ---- Events ---------------------------------------------------------------------------------- */

/* The process leaves; heir 0: no member takes its pages. The answer is DRAINED, or STAYS: the
 * members have not enough memory. In state ASKS it goes on only when nothing here is promised to
 * others. */
void dmi_handover_begin(struct dmi_handover *h, dmi_uid_t heir, struct dmi_out *out);
/* Does the next small step of a leave. False: there is none until something has happened. */
bool dmi_handover_go_on(struct dmi_handover *h, struct dmi_out *out);

/* Sets the other members. */
void dmi_handover_view(struct dmi_handover *h, const dmi_uid_t *uid, uint64_t num);
/* CAPACITY_REPORT of a member; with kind PROMISE it answers a question of this leave. False: a
 * correct peer does not send it. */
bool dmi_handover_report(struct dmi_handover *h, dmi_uid_t from, const struct dmi_msg *msg);

/* Handles HOME_*, TAKE and REFUSE_PAGE. Takes over the slices of msg. False: a correct peer does
 * not send it; the actions must be carried out even then. */
bool dmi_handover_message(struct dmi_handover *h, dmi_uid_t from, struct dmi_msg *msg,
                          struct dmi_out *out);
/* The answer to LOOKUP. NULL: there is no such mapping. */
void dmi_handover_found(struct dmi_handover *h, uint64_t number, struct dmi_map *map,
                        struct dmi_out *out);

/* All pages are frozen, as a process was lost: what was offered to this one, and it has not taken
 * so far, is forgotten. */
void dmi_handover_frozen(struct dmi_handover *h);
/* These were lost, and all pages are frozen.  If the heir is among them, the leave is forgotten,
 * until it begins anew with another one: it may have been in any state. */
void dmi_handover_lost(struct dmi_handover *h, const dmi_uid_t *uid, uint32_t num,
                       struct dmi_out *out);
/* RESUME: a leave that goes on begins again with what this process has now. */
void dmi_handover_resumed(struct dmi_handover *h);
/* A view without `uid`, whose homes go to `heir` (0: it had none). */
void dmi_handover_removed(struct dmi_handover *h, dmi_uid_t uid, dmi_uid_t heir);
/* FORGET: the mapping is unmapped. Does nothing if it is not known here. */
void dmi_handover_forget(struct dmi_handover *h, uint64_t base, struct dmi_out *out);

#endif
