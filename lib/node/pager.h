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
extern const struct dmi_room dmi_pager_room;

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

/* DMI_ACT_ROOM; with the page locked. */
void dmi_pager_stalled(struct dmi_pager *pager, struct dmi_page *page);

/* A page that was offered to a member was sent back. */
void dmi_pager_kept(struct dmi_pager *pager, uint32_t from);

/* ---- The daemon's events ---- */

/* This process may own pages from now on. */
void dmi_pager_open(struct dmi_pager *pager);
/* The members have changed. */
void dmi_pager_view(struct dmi_pager *pager, const struct dmi_uids *uids);
/* ROOM_ASK, ROOM_TELL, ROOM_BACK.  False: not from a correct peer. */
bool dmi_pager_message(struct dmi_pager *pager, uint32_t from, const struct dmi_msg *msg);

/* A page of another process comes here. */
void dmi_pager_count_taken(struct dmi_pager *pager);

/* A page of `bytes` comes from a process that leaves, and must be taken: what was promised for it
 * is free now. */
void dmi_pager_taken(struct dmi_pager *pager, uint32_t from, uint64_t bytes);

/* This process is to leave: asks for promises for all it has (docs/replacement.md, "Leaving"). Then
 * dmi_leave_promised is called, or dmi_leave_refused; at once, or later. */
void dmi_pager_leave(struct dmi_pager *pager, uint32_t heir);
/* Who gets a page of so many bytes. */
uint32_t dmi_pager_give(struct dmi_pager *pager, uint64_t bytes);
/* What is left of the promises goes back; all pages are gone. */
void dmi_pager_leave_end(struct dmi_pager *pager);
/* Dismissed without an heir: it keeps what it has, and takes nothing more. */
void dmi_pager_keep(struct dmi_pager *pager);

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
