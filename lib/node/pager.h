/*
 * pager.h - the thread that keeps the pool within its limit (docs/replacement.md): it makes pages
 * leave in time, finds memory for stalled writes, and answers other members that need memory.
 */
#ifndef DMI_NODE_PAGER_H
#define DMI_NODE_PAGER_H

#include "access/mapping.h"
#include "node/process.h"

struct dmi_pager;

/* For struct dmi_core: counts pages in the pool's account. */
extern const struct dmi_account dmi_pager_account;

/* Opens the pool, and the file for spilling if one is wanted.  NULL: a line on stderr says why. */
struct dmi_pager *dmi_pager_new(struct dmi_process *process);
/* Starts the thread.  False: the system allows no more threads. */
bool dmi_pager_start(struct dmi_pager *pager);
/* Ends the thread; must be called before anything that it uses is freed. */
void dmi_pager_stop(struct dmi_pager *pager);
void dmi_pager_free(struct dmi_pager *pager);

/* ---- Events; none of them waits ---- */

/* Something has changed that the pager may have to look at.  Any thread, with any locks held. */
void dmi_pager_wake(struct dmi_pager *pager);

/* Action DMI_ACT_STALLED.  The page is locked. */
void dmi_pager_stalled(struct dmi_pager *pager, struct dmi_page *page);

/* Counts a page that was offered here and will come.  It is `bytes` long, which were promised to a
 * process that leaves; 0: nothing was promised. */
void dmi_pager_taken(struct dmi_pager *pager, uint64_t bytes);

/* ---- For core/node.h ---- */

struct dmi_pressure *dmi_pager_pressure(const struct dmi_pager *pager);

/* ---- Figures: any thread ---- */

struct dmi_pager_counts {
  uint64_t sent;                      /* pages offered that others took */
  uint64_t taken;                     /* pages of others taken here */
  uint64_t dropped;                   /* copies dropped to free memory */
  uint64_t spilled;                   /* bytes in the file now */
  uint64_t limit, used, peak, copies; /* bytes: base/pool.h */
};
void dmi_pager_counts(const struct dmi_pager *pager, struct dmi_pager_counts *counts);

#endif
