/*
 * recover.h - the recovery of all pages of a process after a loss, from taking the crash view to
 * RESUME (docs/crashes-pages.md).
 *
 * Pure: no sockets, threads or clocks.  Mappings, page records and their locks are the caller's, by
 * way of `struct dmi_handover_env`.  Only one thread calls (the daemon), but for is_cut, dropped
 * and held: those answer dmi_core's functions of the same names, in any thread with a page locked.
 *
 *        freeze          begin         CUT of all         BACK of all       all is decided
 *   RUNS -------> FROZEN -------> CUTS ------------> BACKS -------------> DECIDES ----------> READY
 *    ^                                                                                         |
 *    +------------------------------------- resume --------------------------------------------+
 *
 * A second crash: freeze, from any state.  (begin without freeze does both.)  If it comes in state
 * READY, others may have resumed: until carry or begin all messages are held.
 */
#ifndef DMI_CORE_RECOVER_H
#define DMI_CORE_RECOVER_H

#include "core/handover.h"
#include "core/page_crash.h"

/* ---- Surroundings --------------------------------------------------------------------------- */

struct dmi_recover_env {
  void *arg;
  /* The first own operation from place *at on that has been sent and has no answer, its page
   * locked; *at becomes the place behind it.  NULL: there is none. */
  struct dmi_req *(*next_op)(void *arg, uint64_t *at, struct dmi_page **page);
  /* Handles the messages that this process has sent to itself (DMI_ACT_SEND) and that still wait:
   * if the answer of an operation is among them, the operation would be taken for lost.  NULL: such
   * messages are handled at once. */
  void (*settle)(void *arg);
  /* Has anything been sent to it since this process began, or may it be?  Else nothing can be under
   * way, and no connection is made to say so.  NULL: always. */
  bool (*speaks)(void *arg, dmi_uid_t uid);
  /* Guards what is_cut, dropped and held use; taken behind a page's lock, for a few instructions.
   * NULL: all calls are of one thread. */
  void (*lock)(void *arg);
  void (*unlock)(void *arg);
};

/* A process that is lost, and to whom its homes go. */
struct dmi_homeless {
  dmi_uid_t uid, heir;
};

/* Who is left, and who was lost since the last resume.  The crash view has been published, so
 * dmi_core.is_member knows it. */
struct dmi_recover_view {
  uint64_t number; /* of the view; grows */
  dmi_uid_t coordinator;
  uint32_t member_num;
  const dmi_uid_t *member; /* who is left, this process too */
  uint32_t removed_num;
  const struct dmi_homeless *removed;
};

/* What each has to hear from all others: an end of what they say. */
enum dmi_recover_round { DMI_ROUND_CUT, DMI_ROUND_BACK, DMI_ROUND_REPORT, DMI_ROUNDS_NUM };

enum dmi_recover_state {
  DMI_RECOVER_RUNS,    /* no recovery */
  DMI_RECOVER_FROZEN,  /* a crash view was taken; begin follows */
  DMI_RECOVER_CUTS,    /* waits for CUT of all others */
  DMI_RECOVER_BACKS,   /* waits for BACK of all others */
  DMI_RECOVER_DECIDES, /* waits, as a home, for REPORTs and MARKED; or has sent its own */
  DMI_RECOVER_READY    /* everybody knows the marks of this home that concern it */
};

struct dmi_recover;

/* `core`, `records` and `env` must live as long. */
struct dmi_recover *dmi_recover_new(struct dmi_core *core, const struct dmi_handover_env *records,
                                    const struct dmi_recover_env *env);
void dmi_recover_free(struct dmi_recover *r);
enum dmi_recover_state dmi_recover_state(const struct dmi_recover *r);

/* ---- Events --------------------------------------------------------------------------------- */

/* A crash view is taken, and is to be published behind this.  From here on nothing is sent. */
void dmi_recover_freeze(struct dmi_recover *r);
/* All have taken the crash view, and its coordinator knows that the marks of recoveries up to
 * `carried` count, as some have resumed, or may have.  If those here are in doubt, and belong to
 * one of these, they are carried out (RESUMED, as for resume); else they are void.  In any case it
 * is frozen afterwards, and begin follows. */
void dmi_recover_carry(struct dmi_recover *r, uint64_t carried, struct dmi_out *out);
/* All have taken the crash view.  READY answers it, once, if no other freeze or begin comes before.
 */
void dmi_recover_begin(struct dmi_recover *r, const struct dmi_recover_view *view,
                       struct dmi_out *out);
/* Action BEGUN: what was held (RESUMED of carry) or deferred (REPLAY) until then is with the pages.
 */
void dmi_recover_begun(struct dmi_recover *r, uint64_t number, struct dmi_out *out);
/* CUT, BACK, REPORT, ASK, DECIDE, MARKED, TELLS, TELLERS.  Takes the slices over.  False: not from
 * a correct peer.
 */
bool dmi_recover_message(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                         struct dmi_out *out);
/* In state READY: RESUMED asks the caller to give what was held (HOLD) to the pages, in order. */
void dmi_recover_resume(struct dmi_recover *r, struct dmi_out *out);
/* Who was the home of the mapping before this recovery, and those before it that were not carried
 * out; it is `home` now.  0: it is here, as the heir of one that is not known. */
dmi_uid_t dmi_recover_home_before(const struct dmi_recover *r, uint64_t base, dmi_uid_t home);
/* Before begin: this was another one, as RECOVER says. */
void dmi_recover_correct_home(struct dmi_recover *r, struct dmi_map *map, dmi_uid_t home,
                              struct dmi_out *out);
/* A page message about a mapping that is not known here, while dmi_core.frozen.  True: it is to be
 * held, as with HOLD.  False: it is noted, and dropped by the caller. */
bool dmi_recover_unknown(struct dmi_recover *r, dmi_uid_t from, const struct dmi_msg *msg);

/* READY: how many pages, whose home is here, become LOST, those of the allocator not counted.  Of a
 * home that was lost all pages are among them which no owner or copy was reported of: whether they
 * were ever written nobody can tell. */
uint64_t dmi_recover_lost_pages(struct dmi_recover *r);
/* READY: will this page, whose home is here, be LOST?  For tests. */
bool dmi_recover_gives_up(const struct dmi_recover *r, const struct dmi_map *map,
                          dmi_pageno_t page);

/* ---- For dmi_core, with a page locked -------------------------------------------------------- */

bool dmi_recover_is_cut(const struct dmi_recover *r, dmi_uid_t from);
void dmi_recover_dropped(struct dmi_recover *r, dmi_uid_t origin, dmi_op_t op);
void dmi_recover_held(struct dmi_recover *r, dmi_uid_t origin, dmi_op_t op);

#endif
