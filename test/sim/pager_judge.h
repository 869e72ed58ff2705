/*
 * pager_judge.h - judges one pager (core/pressure.h) by what a simulator knows: no answer about
 * memory is too small, no pager sleeps that could go on, and one that gives up has waited for the
 * end of transient use (docs/simulation.md, "Pagers").
 */
#ifndef SIM_PAGER_JUDGE_H
#define SIM_PAGER_JUDGE_H

#include "core/pressure_int.h"

struct pager_judge;

/* The process, as the simulator knows it. */
struct pager_judge_env {
  void *arg;
  /* May it give room to others: may it own pages, and does it stay?  What its pages wait for, the
   * judge sees itself. */
  bool (*gives)(void *arg);
  /* Is this a member as it knows them? */
  bool (*member)(void *arg, uint32_t uid);
  /* Its page records that are not saved, or all. */
  void (*each)(void *arg, bool saved, void (*visit)(struct dmi_page *page, void *with), void *with);
  /* A rule is broken. */
  void (*bad)(void *arg, const char *why);
};

struct pager_judge *pager_judge_new(const struct pager_judge_env *env, struct dmi_pool *pool,
                                    const struct dmi_pressure *pressure);
void pager_judge_free(struct pager_judge *judge);

/* ---- Events --------------------------------------------------------------------------------- */

/* A page stalls. */
void pager_judge_stalled(struct pager_judge *judge, const struct dmi_page *page);
/* A message about room is sent, or has come.  Uids are below 512. */
void pager_judge_says(struct pager_judge *judge, uint32_t to, const struct dmi_capacity_msg *msg);
void pager_judge_hears(struct pager_judge *judge, uint32_t from,
                       const struct dmi_capacity_msg *msg);
/* TAKE without MUST is sent for a page of so many bytes; or `from` sends pages back. */
void pager_judge_offers(struct pager_judge *judge, uint32_t to, uint64_t bytes);
void pager_judge_kept(struct pager_judge *judge, uint32_t from);
/* A page goes on, or fails: who waits then begins to wait. */
void pager_judge_admits(struct pager_judge *judge);
/* It is going to sleep; `armed`: the end of a step is an event. */
void pager_judge_rests(struct pager_judge *judge, bool armed);

/* ---- Questions ------------------------------------------------------------------------------ */

/* It has room for this page itself, or what was in use in passing when the page stalled has not
 * ended: NULL, or the reason why its write must not fail. */
const char *pager_judge_hopes(const struct pager_judge *judge, const struct dmi_page *page);
/* Bytes that others could have at once. */
uint64_t pager_judge_capacity(const struct pager_judge *judge);
/* It sleeps: could it go on? */
void pager_judge_sleeps(const struct pager_judge *judge);
/* The account is what the records and promises say; `quiet`: and nothing is in use in passing. */
void pager_judge_account(const struct pager_judge *judge, bool quiet);

#endif
