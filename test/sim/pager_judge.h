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
  /* True if it may give memory to others: it may own pages, and does not leave.  The judge itself
   * knows what its pages wait for. */
  bool (*gives)(void *arg);
  /* True if this is a member in its view. */
  bool (*member)(void *arg, uint32_t uid);
  /* Visits its page records: those that are not saved, or all. */
  void (*each)(void *arg, bool saved, void (*visit)(struct dmi_page *page, void *with), void *with);
  /* Reports a broken rule. */
  void (*bad)(void *arg, const char *why);
};

struct pager_judge *pager_judge_new(const struct pager_judge_env *env, struct dmi_pool *pool,
                                    const struct dmi_pressure *pressure);
void pager_judge_free(struct pager_judge *judge);

/* ---- Events --------------------------------------------------------------------------------- */

/* A page is stalled now. */
void pager_judge_stalled(struct pager_judge *judge, const struct dmi_page *page);
/* A message about memory is sent, or has come.  Uids are below 512. */
void pager_judge_says(struct pager_judge *judge, uint32_t to, const struct dmi_msg *msg);
void pager_judge_hears(struct pager_judge *judge, uint32_t from, const struct dmi_msg *msg);
/* TAKE without MUST is sent for a page of so many bytes; or `from` refuses pages. */
void pager_judge_offers(struct pager_judge *judge, uint32_t to, uint64_t bytes);
void pager_judge_kept(struct pager_judge *judge, uint32_t from);
/* A page goes on, or fails: the next one begins to wait. */
void pager_judge_admits(struct pager_judge *judge);
/* It will sleep now; `armed`: the end of a step is an event. */
void pager_judge_rests(struct pager_judge *judge, bool armed);

/* ---- Questions ------------------------------------------------------------------------------ */

/* NULL, or the reason why the write of this page must not fail: the process has memory for it, or
 * transient use of the time when it stalled has not ended. */
const char *pager_judge_hopes(const struct pager_judge *judge, const struct dmi_page *page);
/* True if the write must not fail as a member has refused only before the page stalled: it may have
 * memory since. */
bool pager_judge_unasked(const struct pager_judge *judge, const struct dmi_page *page);
/* Bytes that others could have at once. */
uint64_t pager_judge_capacity(const struct pager_judge *judge);
/* It sleeps: checks that it could not go on. */
void pager_judge_sleeps(const struct pager_judge *judge);
/* Checks that the account agrees with the records and promises; `quiet`: and that there is no
 * transient use. */
void pager_judge_account(const struct pager_judge *judge, bool quiet);

#endif
