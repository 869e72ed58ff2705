/*
 * pager.h - the thread that keeps the pool within its limit (docs/replacement.md): has pages leave
 * before there is need, finds room for writes that stall, and answers others who need some.
 */
#ifndef DMI_NODE_PAGER_H
#define DMI_NODE_PAGER_H

#include "access/mapping.h"
#include "node/process.h"

struct dmi_pager;

/* For struct dmi_core: the account is the pool's. */
extern const struct dmi_account dmi_pager_account;

/* Opens the pool, and the file for spilling if one is wanted.  NULL: a line on stderr says why. */
struct dmi_pager *dmi_pager_new(struct dmi_process *process);
/* Starts the thread.  False: the system allows no more. */
bool dmi_pager_start(struct dmi_pager *pager);
/* Ends the thread; before anything that it uses goes. */
void dmi_pager_stop(struct dmi_pager *pager);
void dmi_pager_free(struct dmi_pager *pager);

/* ---- Events; none of them waits ---- */

/* Something has changed that the pager may have to look at.  Any thread, any lock. */
void dmi_pager_wake(struct dmi_pager *pager);

/* DMI_ACT_STALLED; with the page locked. */
void dmi_pager_stalled(struct dmi_pager *pager, struct dmi_page *page);

/* The ownership of a page of another process will come here. */
void dmi_pager_count_taken(struct dmi_pager *pager);

/* ---- For core/node.h ---- */

struct dmi_pressure *dmi_pager_pressure(const struct dmi_pager *pager);
/* dmi_node_env; `process` is the argument. */
void dmi_pager_lock(void *process);
void dmi_pager_unlock(void *process, struct dmi_out *out);

/* ---- Figures: any thread ---- */

struct dmi_pager_counts {
  uint64_t sent;                      /* pages offered that others took */
  uint64_t taken;                     /* pages of others taken here */
  uint64_t dropped;                   /* copies dropped for their room */
  uint64_t spilled;                   /* bytes in the file now */
  uint64_t limit, used, peak, copies; /* bytes: base/pool.h */
};
void dmi_pager_counts(const struct dmi_pager *pager, struct dmi_pager_counts *counts);

#endif
