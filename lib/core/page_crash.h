/*
 * page_crash.h - one page while the members recover from a loss: docs/crashes-pages.md.
 *
 * Pure, as core/page.h, and called as that is: with the page locked.  The order of calls, for all
 * pages and operations of a process, is core/recover.h's: freeze; (messages are absorbed); held;
 * op_away; report; op_resume; resume.  pause and unpause may come at any time between.
 */
#ifndef DMI_CORE_PAGE_CRASH_H
#define DMI_CORE_PAGE_CRASH_H

#include "core/page.h"

/* Where an own operation is that has been sent, once all others have said what they have. */
enum dmi_op_place {
  DMI_OP_AWAY,    /* it was at, or on its way to, a lost process */
  DMI_OP_DROPPED, /* a frozen process has dropped it */
  DMI_OP_HELD     /* a living owner works on it, or it waits there (R11) */
};

/* What there is of a page. */
struct dmi_page_report {
  uint8_t role;          /* enum dmi_role */
  bool eligible;         /* there is a copy, and it is exact */
  dmi_version_t version; /* of its bytes */
};

/* What was decided about a page, for one process. */
struct dmi_page_mark {
  bool promoted; /* its copy is the page */
  bool lost;     /* it is the home, and owns the LOST page */
  bool home;     /* it is the home, and `tail` was decided */
  dmi_uid_t tail;
};

/* This process has no lease, and may have been removed: until unpause its copies are not readable,
 * and own operations that must ask others wait in the record.  Messages are handled as ever, so
 * nothing is lost if it gets its lease back; it may freeze, and resume, meanwhile.  The caller sets
 * core->paused before it goes over the records, and clears it before it does so again. */
void dmi_page_pause(struct dmi_page *page);
void dmi_page_unpause(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* The walk at the beginning; again at a second crash.  Requests of others are dropped; PUT and
 * ATOMIC are told to core->dropped. */
void dmi_page_freeze(struct dmi_core *core, struct dmi_page *page);

/* Tells core->held which operations of others (or own ones that have come back) are at work or
 * wait here. */
void dmi_page_held(struct dmi_core *core, struct dmi_page *page);

/* An own operation on this page is away: its copy may not be exact. */
void dmi_page_op_away(struct dmi_page *page, const struct dmi_req *req);

/* False: nothing to report. */
bool dmi_page_report(const struct dmi_core *core, const struct dmi_page *page,
                     struct dmi_page_report *report);

/* Drops the copy, unless this process is the owner. */
void dmi_page_forget_copy(struct dmi_core *core, struct dmi_page *page);

/* At RESUME, before dmi_page_resume, for each own operation that has been sent and has no answer.
 */
void dmi_page_op_resume(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        enum dmi_op_place place, struct dmi_out *out);
/* At RESUME, when the map's new home is known.  `mark` all zero: nothing was decided. */
void dmi_page_resume(struct dmi_core *core, struct dmi_page *page, const struct dmi_page_mark *mark,
                     struct dmi_out *out);

#endif
